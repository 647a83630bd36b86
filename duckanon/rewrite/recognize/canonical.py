"""A finding as a query, made from the finding's data alone, to compare with the original."""

from __future__ import annotations

from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr, rebuilt, walk
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.recognize.findings import Conditional, Counts, GroupSizes


def canonical(found: GroupSizes | Conditional | Counts) -> str:
    """The query that a finding says was asked, from the finding's data alone."""
    if isinstance(found, GroupSizes):
        return _group_sizes(found)
    return _shares(found) if isinstance(found, Conditional) else _counts(found)


def _where(clause: str, conditions: str) -> str:
    return f" {clause} {conditions}" if conditions else ""


def _group_sizes(found: GroupSizes) -> str:
    """Columns: the regions r0.., then sizes, groups and statistics of the finding's columns, by their positions."""
    inner = Renderer(found.sources)
    outer = Renderer((*found.sources, *found.frame)) if found.frame else inner
    frame = {one.number for one in found.frame}

    def framed(expr: Expr) -> bool:
        return any(isinstance(one, Column) and one.source in frame for one in walk(expr))

    keys = [*found.unit, *(region for region in found.regions if not framed(region))]
    aggregates = [one for one in keys if any(isinstance(part, Aggregate) for part in walk(one))]
    named = {key: Column(0, f"k{at}") for at, key in enumerate(keys)}
    groups = (
        "SELECT "
        + ", ".join(f"{inner.text(key)} AS k{at}" for at, key in enumerate(keys))
        + f", {inner.text(found.size)} AS size FROM {inner.tables()}"
        + _where("WHERE", inner.all_of(found.filter))
        + " GROUP BY "
        + ", ".join(str(at + 1) for at, key in enumerate(keys) if key not in aggregates)
        + _where("HAVING", inner.all_of(one for one in found.kept))
    )

    def lifted(expr: Expr) -> str:
        changed = rebuilt(expr, lambda one: Column(0, "size") if one == found.size else named.get(one))
        return outer.text(changed)

    beside = " CROSS JOIN ".join(Renderer((one,)).tables() for one in found.frame)
    how = "LEFT JOIN" if found.zeros else "JOIN"
    met = " AND ".join(sorted(map(lifted, found.joins)))
    joined = f"{beside} {how} groups ON {met}" if found.frame else "groups"
    shown = [f"{lifted(one)} AS r{at}" for at, one in enumerate(found.regions)]
    for at, role in enumerate(found.columns):
        if role.what in ("size", "statistic") and role.expr is not None:
            shown.append(f"{lifted(role.expr)} AS c{at}")
        elif role.what == "groups":
            where = " AND ".join(sorted(f"({lifted(one)})" for one in role.where))
            shown.append("count(*)" + (f" FILTER (WHERE {where})" if where else "") + f" AS c{at}")
    keys_told = [lifted(one) for one in found.keys]
    sets = ", ".join("(" + ", ".join(keys_told[at] for at in one) + ")" for one in found.sets)
    return f"WITH groups AS ({groups}) SELECT {', '.join(shown) or '1'} FROM {joined} GROUP BY GROUPING SETS ({sets})"


def _shares(found: Conditional) -> str:
    """Columns: rows and cols as k0.., then the share as p, neither scaled nor rounded."""
    write = Renderer(found.sources)
    keys = [*found.rows, *found.cols]
    weight = "count(*)" if found.weight is None else f"sum({write.text(found.weight)})"

    def filtered(conditions: frozenset[Expr]) -> str:
        return weight + (f" FILTER (WHERE {write.all_of(conditions)})" if conditions else "")

    partition = ", ".join(map(write.text, found.rows))
    over = f"OVER ({'PARTITION BY ' + partition if partition else ''})"
    shown = [f"{write.text(key)} AS k{at}" for at, key in enumerate(keys)]
    shown.append(f"{filtered(found.of | found.event)} / sum({filtered(found.of)}) {over} AS p")
    grouped = f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}" if keys else ""
    return f"SELECT {', '.join(shown)} FROM {write.tables()}{_where('WHERE', write.all_of(found.filter))}{grouped}"


def _counts(found: Counts) -> str:
    """Columns: those of the finding's that are keys or counts, each as c with its position."""
    write = Renderer(found.sources)
    counted = "count(*)" if found.unit is None else f"count(DISTINCT {write.text(found.unit)})"
    shown = []
    for at, role in enumerate(found.columns):
        if role.what == "key" and role.expr is not None:
            shown.append(f"{write.text(role.expr)} AS c{at}")
        elif role.what == "count":
            where = write.all_of(role.where)
            shown.append(counted + (f" FILTER (WHERE {where})" if where else "") + f" AS c{at}")
    keys = [write.text(key) for key in found.keys]
    sets = found.sets or (tuple(range(len(keys))),)
    grouped = ", ".join("(" + ", ".join(keys[at] for at in one) + ")" for one in sets)
    having = write.all_of(found.kept)
    return (
        f"SELECT {', '.join(shown)} FROM {write.tables()}{_where('WHERE', write.all_of(found.filter))}"
        f" GROUP BY GROUPING SETS ({grouped}){_where('HAVING', having)}"
    )
