"""A conditional table is audited on the exact data: safe, its shares are released; unsafe, the statement is refused.

This rule proves what is asked: shares of records by plain columns that the policy names. Whether the answer is safe
follows from the data, so it is decided later, by whoever can look at them (`functions/shares.py`). What runs reads the
kept shares and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256

import sqlglot
from sqlglot import exp

from duckanon.rewrite.catalog import Protection
from duckanon.rewrite.decision import Share, Shares, Step, Verdict
from duckanon.rewrite.question import Question, quoted
from duckanon.rewrite.spot import Conditional
from duckanon.rewrite.spot.expressions import Aggregate, Call, Column, Expr, Nested, Star, Unclear, rebuilt, walk
from duckanon.rewrite.spot.findings import Role
from duckanon.rewrite.spot.measures import WHOLE
from duckanon.rewrite.spot.names import fold
from duckanon.rewrite.spot.ratios import core
from duckanon.rewrite.spot.relations import Table
from duckanon.rewrite.spot.render import Renderer
from duckanon.rewrite.spot.translate import type_of
from duckanon.rewrite.spot.trees import Node
from duckanon.rewrite.tail import tail
from duckanon.rewrite.total import is_total

KIND = "conditional table"
# What the guard itself carries over to the release, before the rest of the query's end.
_OWN = ("having", "qualify", "distinct", "windows")
_MOST_DIGITS = 12


def apply(question: Question) -> None:
    """Settle conditional tables of protected tables, and note why where one is not."""
    parts: dict[int, list[Conditional]] = {}
    for found in question.found(Conditional):
        parts.setdefault(id(found.node), []).append(found)
    for told in parts.values():
        reason = settle(question, told, told[0].node)
        if reason is not None:
            question.reasons.append((KIND, told[0].table, reason))


def settle(question: Question, told: Sequence[Conditional], node: Node) -> str | None:
    """Put the released shares in the place of a node that asks for them; the reason if that cannot be done."""
    first = told[0]
    policy = question.protection(first.table)
    reason = _objection(question, told, policy)
    if reason is not None:
        return reason
    keys = [*first.rows, *first.cols]
    made = _made(question, told, keys)
    path = question.path(first.table)
    key = sha256("\0".join([*path[1:], made]).encode()).hexdigest()[:24]
    kept = (path[0], "duckanon", f"shares_{key}")
    replacement = _replacement(told, keys, kept, question.names(first.table, node, first.columns))
    if not isinstance(node, exp.Select) or (node.args.get("distinct") and node.args["distinct"].args.get("on")):
        return "The query keeps some of its rows in a way that is not followed: write that around the shares."
    bare = node.copy()
    for part in _OWN:
        bare.set(part, None)
    if not tail(bare, replacement):
        return "The query orders or limits its shares in a way that is not followed: write that around the shares."
    if node.args.get("distinct"):
        replacement.set("distinct", exp.Distinct())
    question.replace(node, replacement)
    columns = question.columns(first.table)
    used = _stored(_used(told), columns)
    rows, cols = _stored(first.rows, columns), _stored(first.cols, columns)
    what = (
        f"shares of {question.label(first.table)} by {', '.join(rows) or 'nothing'}: {', '.join(_told_by(used, rows))}"
    )
    question.copies.append(
        Shares(
            path,
            question.label(first.table),
            made,
            kept,
            rows,
            cols,
            tuple(_share(one) for one in told),
            used,
            _linkable(told, policy, columns),
            policy.unit,
            policy.small,
            policy.k,
            what,
        )
    )
    question.steps.append(
        Step(
            KIND,
            question.label(first.table),
            Verdict.RELEASED,
            f"The shares and the number of all records tell of no cell that it holds 1 to {policy.small - 1}: that was "
            "checked on the records.",
        )
    )
    return None


def allowed(policy: Protection) -> list[str]:
    """The columns that a conditional table may look at."""
    named = [*policy.public, *policy.hierarchy, *policy.quasi_identifiers, *policy.sensitive]
    never = {fold(one) for one in (*policy.drop, *([policy.unit] if policy.unit else []))}
    return [one for one in dict.fromkeys(named) if fold(one) not in never]


def _used(told: Sequence[Conditional]) -> list[Expr]:
    """Every column that the shares look at, each once."""
    exprs = [expr for one in told for expr in (*one.rows, *one.cols, *_sorted(one.of), *_sorted(one.event))]
    found = [part for expr in exprs for part in walk(expr) if isinstance(part, Column)]
    return list(dict.fromkeys(found))


def _stored(columns: Sequence[Expr], names: Sequence[str]) -> tuple[str, ...]:
    """Columns under the names that the table has for them."""
    own = {fold(name): name for name in names}
    return tuple(dict.fromkeys(own[one.name] for one in columns if isinstance(one, Column)))


def _linkable(told: Sequence[Conditional], policy: Protection, names: Sequence[str]) -> tuple[str, ...]:
    """What persons may be told apart by, as SQL; nothing where all of it is public."""
    sensitive = {fold(one) for one in policy.sensitive}
    public = {fold(one) for one in (*policy.public, *policy.hierarchy)}
    identifying = {one.name for one in _used(told) if isinstance(one, Column)} - sensitive
    if identifying <= public:
        return ()
    first, write = told[0], Renderer()
    found = [f'"{_escaped(name)}"' for name in _stored([*first.rows, *first.cols], names) if fold(name) in identifying]
    for one in told:
        found += [
            f"coalesce({_all_of(write, conditions)}, false)"
            for conditions in (one.of, one.event)
            if any(isinstance(part, Column) and part.name in identifying for c in conditions for part in walk(c))
        ]
    return tuple(dict.fromkeys(found))


def _told_by(used: Sequence[str], rows: Sequence[str]) -> list[str]:
    return [name for name in used if name not in rows] or list(used)


def _sorted(conditions: frozenset[Expr]) -> list[Expr]:
    return sorted(conditions, key=Renderer().text)


def _share(found: Conditional) -> Share:
    write = Renderer()
    return Share(_all_of(write, found.of), _all_of(write, found.event), _places(found))


def _places(found: Conditional) -> int | None:
    """Decimals of the proportion itself. Percentages without decimals have two."""
    if found.digits is None:
        return None
    scale, power = Fraction(found.scale), 0
    while scale > 1:
        scale, power = scale / 10, power + 1
    while scale < 1:
        scale, power = scale * 10, power - 1
    return found.digits + power if scale == 1 else -1


def _objection(question: Question, told: Sequence[Conditional], policy: Protection) -> str | None:
    """Why the shares are not proven to be what can be audited; None if they are."""
    first, name = told[0], told[0].table
    stored = question.catalog.tables.get(name)
    if len(first.sources) != 1 or not isinstance(first.sources[0].relation, Table) or stored is None:
        return "Shares are released of one table, not of a view or a join: join what is released."
    if any(one.weight is not None for one in told):
        return "Shares are released of numbers of records, not of sums."
    if any(set(one.rows) != set(first.rows) for one in told):
        return "The shares of one query must have the same rows: ask for them one after the other."
    if any(role.what == "derived" for role in first.columns) or sum(r.what == "share" for r in first.columns) != len(
        told
    ):
        return "The query shows more than keys and shares of them: compute the rest around it."
    if not all(isinstance(one, Column) for one in (*first.rows, *first.cols)):
        return "The rows and columns of a table of shares must be columns of the table, as they stand."
    types = {fold(column): kind for column, kind in stored.columns.items()}
    may = {fold(one) for one in allowed(policy)}
    used = {one.name for one in _used(told) if isinstance(one, Column)}
    if not used <= may & set(types):
        return (
            "Shares are released by columns that the policy calls public, hierarchy, quasi_identifiers or sensitive "
            f"({', '.join(allowed(policy)) or 'none'})."
        )
    if not all(
        is_total(condition, types) and _is_plain(condition) for one in told for condition in (*one.of, *one.event)
    ):
        return "What makes a cell must compare columns with constants of their own type, without casts and functions."
    rows = {one.name for one in first.rows if isinstance(one, Column)}
    for condition in (*first.filter, *first.kept):
        if not _is_plain(condition) or not {one.name for one in walk(condition) if isinstance(one, Column)} <= rows:
            return (
                "Shares of some of the records only could be subtracted from those of others: filter by columns of the "
                f"rows ({', '.join(sorted(rows)) or 'there are none'}), or write the filter around the shares."
            )
        if not is_total(condition, types):
            return "A filter must compare columns with constants of their own type, without casts and functions."
    for one in told:
        places = _places(one)
        if places is not None and not 0 <= places <= _MOST_DIGITS:
            return "The shares are rounded in a way that is not followed: round(share, 3), or round(100 * share, 1)."
        role = next(role for role in first.columns if role.name == one.name and role.what == "share")
        if not _is_followed(one, role):
            return "The shares are cast or guarded in a way that is not followed: count(*) / sum(count(*)) OVER (...)."
    if len({role.name for role in first.columns if role.what == "share"}) != len(told):
        return "Two columns have the same name: rename one."
    return None


def _is_plain(condition: Expr) -> bool:
    return not any(isinstance(one, Nested | Aggregate | Star | Unclear) for one in walk(condition))


def _is_followed(found: Conditional, role: Role) -> bool:
    """Whether the ratio inside is a DOUBLE, and NULL where nothing is divided by."""
    if role.expr is None:
        return False
    for one in walk(core(role.expr), into=lambda part: not isinstance(part, Aggregate)):
        if not isinstance(one, Call):
            continue
        if one.kind in ("Cast", "TryCast") and type_of(one).upper() not in WHOLE | {"DOUBLE"}:
            return False
        if one.kind in ("Coalesce", "Case") and found.of:
            return False
    return True


def _all_of(write: Renderer, conditions: frozenset[Expr]) -> str:
    return " AND ".join(f"({write.text(one)})" for one in _sorted(conditions))


def _made(question: Question, told: Sequence[Conditional], keys: Sequence[Expr]) -> str:
    """The query for the shares: k0, ..., p0, ..., rounded as they are asked for."""
    write = Renderer()
    named = [f"{write.text(key)} AS k{at}" for at, key in enumerate(keys)]
    counts = []
    for at, one in enumerate(told):
        for letter, conditions in (("a", one.of | one.event), ("b", one.of)):
            only = f" FILTER (WHERE {_all_of(write, conditions)})" if conditions else ""
            counts.append(f"system.main.count(*){only} AS {letter}{at}")
    partition = ", ".join(f"k{at}" for at in range(len(told[0].rows)))
    over = f"OVER ({'PARTITION BY ' + partition if partition else ''})"
    totals = [f"a{at}, system.main.sum(b{at}) {over} AS b{at}" for at in range(len(told))]
    shares = [_proportion(one, f"a{at}", f"b{at}") + f" AS p{at}" for at, one in enumerate(told)]
    cells = (
        f'SELECT {", ".join([*named, *counts])} FROM {quoted(question.path(told[0].table))} AS "duckanon.row"'
        f"{' GROUP BY ALL' if named else ''}"
    )
    own = [f"k{at}" for at in range(len(keys))]
    # Totals first: DuckDB 1.4 takes no window inside nullif.
    summed = f"SELECT {', '.join([*own, *totals])} FROM ({cells})"
    return f"SELECT {', '.join([*own, *shares])} FROM ({summed}) ORDER BY ALL"


def _proportion(found: Conditional, above: str, below: str) -> str:
    scale = Fraction(found.scale)
    count, total = f"CAST({above} AS HUGEINT)", f"CAST({below} AS HUGEINT)"
    if found.digits is None:
        return f"CAST({count} * {scale.numerator} AS DOUBLE) / nullif(CAST({total} * {scale.denominator} AS DOUBLE), 0)"
    # Exact, and halves upwards.
    whole = f"({count} * {2 * 10 ** (_places(found) or 0)} + {total}) // nullif(2 * {total}, 0)"
    power = 10 ** abs(found.digits)
    return f"CAST({whole} AS DOUBLE) {'/' if found.digits >= 0 else '*'} {power}"


def _replacement(
    told: Sequence[Conditional], keys: Sequence[Expr], kept: tuple[str, str, str], names: Sequence[str]
) -> Node:
    """The query's own columns, over the kept shares."""
    write, first = Renderer(), told[0]
    named = {key: Column(0, f"k{at}") for at, key in enumerate(keys)}
    at, shown = 0, []
    for role, name in zip(first.columns, names, strict=True):
        assert role.expr is not None
        if role.what == "key":
            expr: Expr = named[role.expr]
        else:
            inner, share = core(role.expr), Column(0, f"p{at}")
            expr = rebuilt(role.expr, lambda one, inner=inner, share=share: share if one == inner else None)  # type: ignore[misc]
            at += 1
        shown.append(f'{write.text(expr)} AS "{_escaped(name)}"')
    filters = [f"({write.text(rebuilt(one, named.get))})" for one in (*_sorted(first.filter), *_sorted(first.kept))]
    where = f" WHERE {' AND '.join(filters)}" if filters else ""
    text = f"SELECT {', '.join(shown)} FROM {quoted(kept)} AS _dk_shares{where}"
    return sqlglot.parse_one(text, read="duckdb")


def _escaped(name: str) -> str:
    return name.replace('"', '""')


def suggestion(label: str, rows: Sequence[str], cols: Sequence[str], digits: int | None) -> str:
    """A table of shares as one writes it."""
    by = ", ".join(map(_plain, rows))
    share = f"count(*) / sum(count(*)) OVER ({'PARTITION BY ' + by if by else ''})"
    shown = share if digits is None else f"round({share}, {digits})"
    keys = ", ".join(map(_plain, [*rows, *cols]))
    return f"SELECT {keys}, {shown} AS share FROM {label} GROUP BY {keys}"


def _plain(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else f'"{_escaped(name)}"'
