"""A finding as a query, made from the finding's data alone, to compare with the original."""

from __future__ import annotations

from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr, rebuilt, walk
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.recognize.findings import Conditional, Counts, GroupSizes


def canonical(finding: GroupSizes | Conditional | Counts) -> str:
    """The query that a finding says was asked, from the finding's data alone."""
    if isinstance(finding, GroupSizes):
        return _group_sizes(finding)
    return _shares(finding) if isinstance(finding, Conditional) else _counts(finding)


def _where(clause: str, conditions: str) -> str:
    return f" {clause} {conditions}" if conditions else ""


def _group_sizes(group_sizes: GroupSizes) -> str:
    """Columns: the regions r0.., then sizes, groups and statistics of the finding's columns, by their positions."""
    inner = Renderer(group_sizes.sources)
    outer = Renderer((*group_sizes.sources, *group_sizes.frame)) if group_sizes.frame else inner
    frame = {source.number for source in group_sizes.frame}

    def framed(expr: Expr) -> bool:
        return any(isinstance(node, Column) and node.source in frame for node in walk(expr))

    keys = [*group_sizes.unit, *(region for region in group_sizes.regions if not framed(region))]
    aggregates = [key for key in keys if any(isinstance(part, Aggregate) for part in walk(key))]
    named = {key: Column(0, f"k{at}") for at, key in enumerate(keys)}
    groups = (
        "SELECT "
        + ", ".join(f"{inner.text(key)} AS k{at}" for at, key in enumerate(keys))
        + f", {inner.text(group_sizes.size)} AS size FROM {inner.tables()}"
        + _where("WHERE", inner.all_of(group_sizes.filter))
        + " GROUP BY "
        + ", ".join(str(at + 1) for at, key in enumerate(keys) if key not in aggregates)
        + _where("HAVING", inner.all_of(expression for expression in group_sizes.kept))
    )

    def lifted(expr: Expr) -> str:
        changed = rebuilt(
            expr, lambda expression: Column(0, "size") if expression == group_sizes.size else named.get(expression)
        )
        return outer.text(changed)

    beside = " CROSS JOIN ".join(Renderer((source,)).tables() for source in group_sizes.frame)
    how = "LEFT JOIN" if group_sizes.zeros else "JOIN"
    met = " AND ".join(sorted(map(lifted, group_sizes.joins)))
    joined = f"{beside} {how} groups ON {met}" if group_sizes.frame else "groups"
    shown = [f"{lifted(region)} AS r{at}" for at, region in enumerate(group_sizes.regions)]
    for at, role in enumerate(group_sizes.columns):
        if role.what in ("size", "statistic") and role.expr is not None:
            shown.append(f"{lifted(role.expr)} AS c{at}")
        elif role.what == "groups":
            where = " AND ".join(sorted(f"({lifted(condition)})" for condition in role.where))
            shown.append("count(*)" + (f" FILTER (WHERE {where})" if where else "") + f" AS c{at}")
    keys_told = [lifted(key) for key in group_sizes.keys]
    sets = ", ".join("(" + ", ".join(keys_told[at] for at in numbers) + ")" for numbers in group_sizes.sets)
    return f"WITH groups AS ({groups}) SELECT {', '.join(shown) or '1'} FROM {joined} GROUP BY GROUPING SETS ({sets})"


def _shares(conditional: Conditional) -> str:
    """Columns: rows and cols as k0.., then the share as p, neither scaled nor rounded."""
    write = Renderer(conditional.sources)
    keys = [*conditional.rows, *conditional.cols]
    weight = "count(*)" if conditional.weight is None else f"sum({write.text(conditional.weight)})"

    def filtered(conditions: frozenset[Expr]) -> str:
        return weight + (f" FILTER (WHERE {write.all_of(conditions)})" if conditions else "")

    partition = ", ".join(map(write.text, conditional.rows))
    over = f"OVER ({'PARTITION BY ' + partition if partition else ''})"
    shown = [f"{write.text(key)} AS k{at}" for at, key in enumerate(keys)]
    shown.append(f"{filtered(conditional.of | conditional.event)} / sum({filtered(conditional.of)}) {over} AS p")
    grouped = f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}" if keys else ""
    return (
        f"SELECT {', '.join(shown)} FROM {write.tables()}{_where('WHERE', write.all_of(conditional.filter))}{grouped}"
    )


def _counts(counts: Counts) -> str:
    """Columns: those of the finding's that are keys or counts, each as c with its position."""
    write = Renderer(counts.sources)
    counted = "count(*)" if counts.unit is None else f"count(DISTINCT {write.text(counts.unit)})"
    shown = []
    for at, role in enumerate(counts.columns):
        if role.what == "key" and role.expr is not None:
            shown.append(f"{write.text(role.expr)} AS c{at}")
        elif role.what == "count":
            where = write.all_of(role.where)
            shown.append(counted + (f" FILTER (WHERE {where})" if where else "") + f" AS c{at}")
    keys = [write.text(key) for key in counts.keys]
    sets = counts.sets or (tuple(range(len(keys))),)
    grouped = ", ".join("(" + ", ".join(keys[at] for at in numbers) + ")" for numbers in sets)
    having = write.all_of(counts.kept)
    return (
        f"SELECT {', '.join(shown)} FROM {write.tables()}{_where('WHERE', write.all_of(counts.filter))}"
        f" GROUP BY GROUPING SETS ({grouped}){_where('HAVING', having)}"
    )
