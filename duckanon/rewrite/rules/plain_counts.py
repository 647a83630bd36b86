"""A plain count becomes a noisy one: of all combinations of public values, the empty ones too.

Noise protects a whole unit. A unit counts with at most max_size records, so it changes all counts together by that much
at most, and double geometric noise of scale max_size / epsilon hides it (Ghosh, Roughgarden and Sundararajan 2009).
Filters may use any column, as long as they cannot fail on a record: an error would be an answer without noise.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from math import ceil, exp, log

import sqlglot

from duckanon.accounting import written
from duckanon.rewrite.catalog import Protection
from duckanon.rewrite.decision import Noisy, Step, Verdict
from duckanon.rewrite.question import Question, quoted, type_of_count, written_columns
from duckanon.rewrite.spot import Counts
from duckanon.rewrite.spot.expressions import Column, Expr, Nested, walk
from duckanon.rewrite.spot.findings import Role
from duckanon.rewrite.spot.names import fold
from duckanon.rewrite.spot.relations import Table
from duckanon.rewrite.spot.render import Renderer
from duckanon.rewrite.spot.trees import Node
from duckanon.rewrite.tail import tail
from duckanon.rewrite.total import is_total

KIND = "count"


def apply(question: Question) -> None:
    """Settle plain counts of protected tables, and note why where one is not."""
    for found in question.found(Counts):
        reason = settle(question, found, found.node)
        if reason is not None:
            question.reasons.append((KIND, found.table, reason))


def settle(question: Question, found: Counts, node: Node) -> str | None:
    """Put the noisy counts in the place of a node that asks for `found`; the reason if that cannot be done."""
    name = found.table
    policy = question.protection(name)
    reason = _objection(question, found, policy)
    if reason is not None:
        return reason
    assert policy.per_query is not None
    most = 1 if policy.unit is None else policy.max_size or 1
    exact = _exact(question, found, policy, most)
    path = question.path(name)
    key = sha256("\0".join([*path[1:], exact, written(policy.per_query)]).encode()).hexdigest()[:24]
    kept = (path[0], "duckanon", f"counts_{key}")
    shown = [
        f'{_shown(found, role, written)} AS "{_escaped(own)}"'
        for role, own, written in zip(
            found.columns, question.names(name, node, found.columns), written_columns(node, found.columns), strict=True
        )
    ]
    replacement = sqlglot.parse_one(f"SELECT {', '.join(shown)} FROM {quoted(kept)} AS _dk_counts", read="duckdb")
    if node is None or not tail(node, replacement):
        return "The query orders or filters its counts in a way that is not followed: write that around the counts."
    question.replace(node, replacement)
    scale = most / policy.per_query
    about = (
        f"{question.label(name)} by {', '.join(one.name for one in found.keys if isinstance(one, Column)) or 'nothing'}"
    )
    question.copies.append(Noisy(path, exact, kept, len(found.keys), policy.per_query, scale, f"count of {about}"))
    each = (
        "a record" if policy.unit is None else f"all records of one value of {policy.unit} (up to {most} of them count)"
    )
    question.steps.append(
        Step(
            KIND,
            question.label(name),
            Verdict.REWRITTEN,
            f"Noise protects {each}: 95 % of the counts are within {spread(scale)} of the truth. They may be negative.",
            policy.per_query,
            policy.remaining,
        )
    )
    return None


def _shown(found: Counts, role: Role, written: Node | None) -> str:
    """A column of the query, over the kept counts."""
    if role.what == "key" and role.expr is not None:
        return f"k{found.keys.index(role.expr)}"
    kind = type_of_count(written)
    return "n" if kind == "BIGINT" else f"CAST(n AS {kind})"


def spread(scale: Fraction) -> int:
    """The least m with P(|noise| > m) <= 5 %, for double geometric noise of that scale."""
    a = exp(-1 / scale)
    return max(0, ceil(log(0.05 * (1 + a) / 2) / log(a)) - 1) if a > 0 else 0


def _objection(question: Question, found: Counts, policy: Protection) -> str | None:
    types = (
        {fold(name): kind for name, kind in question.catalog.tables[found.table].columns.items()}
        if (found.table in question.catalog.tables)
        else {}
    )
    if policy.per_query is None or (policy.unit is not None and policy.max_size is None):
        return "The policy offers no counts: ask the steward for per_query and, with a unit, max_size."
    if len(found.sources) != 1 or not isinstance(found.sources[0].relation, Table) or not types:
        return "Counts are released of one table: join what is released."
    if found.kept or len(found.sets) > 1 or len(found.events) != 1:
        return (
            "HAVING, several grouping sets and several filtered counts are not followed: write them around one count."
        )
    if found.unit is not None and not (
        isinstance(found.unit, Column) and policy.unit is not None and found.unit.name == fold(policy.unit)
    ):
        return "Different values are counted of the policy's unit only."
    public = {fold(one) for one in policy.public}
    if not all(isinstance(key, Column) and key.name in public for key in found.keys):
        return f"Counts are released by columns that the policy calls public ({', '.join(policy.public) or 'none'})."
    if not found.columns or any(role.what == "derived" for role in found.columns):
        return "The query shows more than keys and counts: compute the rest around it."
    if not all(is_total(one, types) for one in (*found.filter, *found.events[0])):
        return (
            "A filter must not be able to fail on a record: compare columns with constants of their own type, without "
            "casts, arithmetic and functions."
        )
    if any(isinstance(part, Nested) for one in (*found.filter, *found.events[0]) for part in walk(one)):
        return "A filter must not hold a query."
    return None


def _exact(question: Question, found: Counts, policy: Protection, most: int) -> str:
    """The query for the exact counts, of all combinations of keys: k0, ..., n."""
    write, table = Renderer(), quoted(question.path(found.table))
    # One name for the table's columns, which no alias of ours can hide.
    kept = _all_of(write, found.filter)
    event = _all_of(write, found.events[0])
    rows = f'SELECT * FROM {table} AS "duckanon.row"'
    if policy.unit is not None:
        unit = f'"{_escaped(policy.unit)}"'
        rows += (
            f' QUALIFY system.main.row_number() OVER (PARTITION BY {unit} ORDER BY system.main.hash("duckanon.row"))'
            f" <= {most}"
        )
    counted = "system.main.count(*)" if found.unit is None else f"system.main.count(DISTINCT {write.text(found.unit)})"
    keys = [write.text(key) for key in found.keys]
    named = [f"{key} AS k{at}" for at, key in enumerate(keys)]
    only = f" FILTER (WHERE {event})" if event else ""
    counts = f"SELECT {', '.join([*named, f'{counted}{only} AS n'])} FROM ({rows}){f' WHERE {kept}' if kept else ''}"
    counts += " GROUP BY ALL" if keys else ""
    if not keys:
        return counts
    values = " CROSS JOIN ".join(f"(SELECT DISTINCT {key} AS k{at} FROM {table})" for at, key in enumerate(keys))
    same = " AND ".join(f"c.k{at} IS NOT DISTINCT FROM v.k{at}" for at in range(len(keys)))
    shown = ", ".join(f"v.k{at}" for at in range(len(keys)))
    return (
        f"SELECT {shown}, coalesce(c.n, 0) AS n FROM (SELECT * FROM {values}) AS v LEFT JOIN ({counts}) AS c ON {same} "
        "ORDER BY ALL"
    )


def _all_of(write: Renderer, conditions: frozenset[Expr]) -> str:
    return " AND ".join(sorted(f"({write.text(one)})" for one in conditions))


def _escaped(name: str) -> str:
    return name.replace('"', '""')
