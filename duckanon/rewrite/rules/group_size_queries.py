"""A group-size query in ordinary SQL becomes the release of the policy, with the query's own columns around it.

All such queries of a table read one release, of the whole hierarchy at the policy's price. So the second and every
later one is free, and what they say of different regions and sizes agrees.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot

from duckanon.rewrite.catalog import Protection
from duckanon.rewrite.decision import Verdict
from duckanon.rewrite.question import Question, quoted, type_of_count, written_columns
from duckanon.rewrite.rules import group_size_calls
from duckanon.rewrite.spot import GroupSizes
from duckanon.rewrite.spot.expressions import Aggregate, Column, Expr, binary, rebuilt, walk
from duckanon.rewrite.spot.findings import Role
from duckanon.rewrite.spot.names import TableName, fold
from duckanon.rewrite.spot.relations import Table
from duckanon.rewrite.spot.render import Renderer
from duckanon.rewrite.spot.rows import present
from duckanon.rewrite.spot.trees import Node
from duckanon.rewrite.tail import tail

# The alias of the release in the text that runs.
_RELEASE = "_dk_release"


def apply(question: Question) -> None:
    """Settle group-size queries on protected tables, and note why where one is not."""
    for found in question.found(GroupSizes):
        reason = settle(question, found, found.node)
        if reason is not None:
            question.reasons.append((group_size_calls.KIND, found.table, reason))


def settle(question: Question, found: GroupSizes, node: Node) -> str | None:
    """Put the release in the place of a node that asks for `found`; the reason if that cannot be done."""
    name = found.table
    policy = question.protection(name)
    reason = _objection(question, found, policy)
    if reason is not None:
        return reason
    call = f"temp.main.{group_size_calls.suggestion(question, name, full=True)}"
    names = question.names(name, node, found.columns)
    units = _units(found, policy)
    source = call if units is None else _with_zeros(call, quoted(question.path(units[0])), units[1])
    replacement = _release(found, policy, source, names, written_columns(node, found.columns))
    if replacement is None or not tail(node, replacement):
        return (
            "The query orders or filters the groups in a way that is not followed: write that around the query of "
            "sizes, as in SELECT ... FROM (query) ORDER BY size."
        )
    question.replace(node, replacement)
    question.approved.append(call)
    question.steps.append(group_size_calls.step(question, name, policy.per_query, Verdict.REWRITTEN))
    return None


def _objection(question: Question, found: GroupSizes, policy: Protection) -> str | None:
    """Why the policy's release does not answer the query; None if it does."""
    if group_size_calls.suggestion(question, found.table) is None:
        return "The policy offers no group sizes: ask the steward for unit, per_query and max_size."
    assert policy.unit is not None
    units = _units(found, policy)
    if units is None and (len(found.sources) != 1 or found.frame or found.zeros or found.joins):
        return (
            "The groups are joined with another table, which the release does not know. Of units without records it "
            f"knows as many as a table of all units has: FROM units LEFT JOIN ... ON, counting {policy.unit}."
        )
    regions = [fold(one) for one in policy.hierarchy] if units is None else []
    unit = [one.name if isinstance(one, Column) else "" for one in found.unit]
    if units is not None:
        unit = [fold(policy.unit)]
    if fold(policy.unit) not in unit or not set(unit) <= {fold(policy.unit), *regions}:
        return f"The policy counts groups by {policy.unit}."
    counted = found.size.operands if isinstance(found.size, Aggregate) else ()
    whole = all(isinstance(one, Column) and one.name == fold(policy.unit) for one in counted)
    if not isinstance(found.size, Aggregate) or found.size.name != "count" or found.size.where or not whole:
        return "The policy's sizes are counts of all records of a group."
    inside = (*found.regions, *found.filter, *(_released(one, found.size) for one in found.kept))
    for one in inside:
        used = {part.name for part in walk(one) if isinstance(part, Column)}
        if not used <= {*regions, "size"} or any(isinstance(part, Aggregate) for part in walk(one)):
            return "Regions and filters must be columns of the policy's hierarchy, or sizes."
    for role in found.columns:
        shown = [_released(one, found.size) for one in role.where if one not in _there(found)]
        if not {part.name for one in shown for part in walk(one) if isinstance(part, Column)} <= {*regions, "size"}:
            return "Groups are counted by count(*), or under conditions on regions and sizes."
    if not found.columns or any(role.what == "derived" for role in found.columns):
        return "The query shows more than regions, sizes and numbers of groups: compute the rest around it."
    if len(found.levels) > 1:
        for level in found.levels:
            names = {one.name for at in level if isinstance(one := found.regions[at], Column)}
            if names != set(regions[: len(level)]) or len(names) != len(level):
                return "The levels of ROLLUP and GROUPING SETS must be those of the policy's hierarchy."
    return None


def _units(found: GroupSizes, policy: Protection) -> tuple[TableName, str] | None:
    """The open table of all units, and their column in it, with which the groups are joined to find those of size 0."""
    if len(found.sources) != 2 or found.regions or found.filter or found.frame or found.joins or not found.zeros:
        return None
    first, second = found.sources
    every, records = first.relation, second.relation
    if not isinstance(every, Table) or every.protected or first.on or second.join != "left":
        return None
    if not isinstance(records, Table) or records.name != found.table or len(found.unit) != 1 or policy.unit is None:
        return None
    (unit,) = found.unit
    mine = Column(second.number, fold(policy.unit))
    if not isinstance(unit, Column) or unit.source != first.number:
        return None
    if not isinstance(found.size, Aggregate) or found.size.operands != (mine,):
        return None
    met = {binary("EQ", unit, mine), binary("EQ", mine, unit)}
    return (every.name, unit.name) if len(second.on) == 1 and second.on <= met else None


def _with_zeros(call: str, units: str, column: str) -> str:
    """The release, with the units that have no group in it as groups of size 0. The table of units is open."""
    known = f'SELECT count(DISTINCT "{_quoted(column)}") FROM {units} AS _dk_units'
    return (
        f"(SELECT 0 AS level, size, groups FROM {call} AS _dk_sizes WHERE level = 0 UNION ALL "
        f"SELECT 0, 0, greatest(CAST(({known}) - coalesce(sum(groups), 0) AS BIGINT), 0) "
        f"FROM {call} AS _dk_sizes WHERE level = 0)"
    )


def _there(found: GroupSizes) -> frozenset[Expr]:
    """That a group has a unit: a table with records of no unit has no release."""
    return frozenset(map(present, found.unit))


def _released(expr: Expr, size: Expr) -> Expr:
    """The expression over the release's columns."""
    return rebuilt(expr, lambda one: Column(0, "size") if one == size else None)


def _release(
    found: GroupSizes, policy: Protection, call: str, names: Sequence[str], columns: Sequence[Node | None]
) -> Node | None:
    write, regions = Renderer(), [fold(one) for one in policy.hierarchy]

    def over(expr: Expr) -> str:
        return write.text(_released(expr, found.size))

    used = {
        part.name for one in (*found.regions, *found.filter) for part in walk(one) if isinstance(part, Column)
    } & set(regions)
    if len(found.levels) > 1:
        wanted = ", ".join(str(len(level)) for level in found.levels)
        kept, keys = [f"level IN ({wanted})"], ["level"]
    else:
        kept, keys = [f"level = {1 + max(map(regions.index, used)) if used else 0}"], []
    kept += [f"({over(one)})" for one in sorted((*found.filter, *found.kept), key=over)]
    shown = []
    for role, name, written in zip(found.columns, names, columns, strict=True):
        text = _column(role, over, type_of_count(written), _there(found))
        if text is None:
            return None
        shown.append(f'{text} AS "{_quoted(name)}"')
        if role.what != "groups":
            keys.append(text)
    keys += [over(one) for one in found.regions if over(one) not in keys]
    grouped = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
    text = f"SELECT {', '.join(shown)} FROM {call} AS {_RELEASE} WHERE {' AND '.join(kept)}{grouped}"
    return sqlglot.parse_one(text, read="duckdb")


def _column(role: Role, over: object, kind: str, there: frozenset[Expr]) -> str | None:
    assert callable(over)
    if role.what in ("region", "size"):
        return str(over(role.expr)) if role.expr is not None else None
    conditions = sorted(f"({over(one)})" for one in role.where if one not in there)
    only = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    return f"CAST(COALESCE(SUM(groups){only}, 0) AS {kind})"


def _quoted(name: str) -> str:
    return name.replace('"', '""')
