"""Group sizes with noise: how many groups of each size live in each region of the policy's hierarchy.

All group-size queries of a table read one release, of the whole hierarchy, for the policy's epsilon per query. So every
query after the first is free, and answers about different regions and sizes agree. A call of dp_group_sizes may ask for
another release with its own epsilon. The number of groups is never released exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import sqlglot

from duckanon.accounting import rational, written
from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.policy import Policy
from duckanon.errors import InvalidInput
from duckanon.governance.answers import check_price
from duckanon.releases.paid_questions import GroupSizesQuestion, Key, basis, key
from duckanon.rewrite.algebra.expressions import Aggregate, Column, Expr, binary, rebuilt, walk
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.relations import Table
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.algebra.rows import present
from duckanon.rewrite.bind import table
from duckanon.rewrite.calls import Call
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.recognize.findings import Role
from duckanon.rewrite.rule_context import RuleContext, literal, literals, type_of_count, written_columns

KIND = "group sizes"
# The engine's work grows with the scale of the noise.
_WIDEST = 10**6
_MOST_CELLS = 20_000_000
# The alias of the release in the text that runs.
_RELEASE = "_dk_release"
_NONE = "The policy offers no group sizes: ask the steward to protect the table with unit, per_query and max_size."


def offered(context: RuleContext, name: TableName) -> tuple[Key, ...] | None:
    """The hierarchy of the policy's release, down to the first column without a domain; None if there is no release."""
    protected = context.catalog.protected[name]
    policy = protected.policy
    if policy.per_query is None or policy.max_size is None or policy.unit is None or not protected.stands:
        return None
    keys: list[Key] = []
    for column in policy.hierarchy:
        found = key(protected, column)
        if found is None:
            break
        keys.append(found)
    return tuple(keys)


def suggestion(context: RuleContext, name: TableName) -> str | None:
    """The call that the policy allows, as text to paste; None if it offers no release."""
    policy, keys = context.policy(name), offered(context, name)
    if keys is None:
        return None
    assert policy.unit is not None
    assert policy.per_query is not None
    more = f", hierarchy := {literals([one.column for one in keys])}" if keys else ""
    return (
        f"dp_group_sizes({literal(context.written(name))}, {literal(policy.unit)}{more}, "
        f"epsilon := {_exact(policy.per_query)}, max_size := {policy.max_size})"
    )


def _exact(number: Fraction) -> str:
    text = written(number)
    return literal(text) if "/" in text else text


# --- calls ------------------------------------------------------------------------------------------------------------


def of_call(context: RuleContext, call: Call, name: TableName) -> str | None:
    """Replace a call of dp_group_sizes by the release. Returns why the policy does not allow it, else None."""
    paste = suggestion(context, name)
    if paste is None:
        return _NONE
    policy, keys = context.policy(name), offered(context, name) or ()
    reason = _call_objection(call, policy, keys)
    if reason is not None:
        return f"{reason}: FROM {paste}."
    question = _question(
        context,
        name,
        keys[: len(call.texts("hierarchy") or [])],
        epsilon=_epsilon(call) or Fraction(0),
        max_size=int(call.number("max_size") or 0),
        mechanism=call.text("mechanism") or "auto",
        split=_split(call),
    )
    reason = _check(question, policy)
    if reason is not None:
        return reason
    for part, value in table(question.path).args.items():
        if part in ("this", "db", "catalog"):
            call.node.set(part, value)
    _settle(context, name, question, Verdict.RELEASED)
    return None


def _epsilon(call: Call) -> Fraction | None:
    return rational(call.number("epsilon") or call.text("epsilon"))


def _split(call: Call) -> tuple[str, ...] | None:
    """The call's split as shares of epsilon that add up to one; empty if it is not made of positive numbers."""
    if "split" not in call.arguments:
        return None
    numbers = [rational(str(one.this)) or Fraction(0) for one in call.arguments["split"].expressions]
    return tuple(str(one / sum(numbers)) for one in numbers) if all(numbers) and min(numbers) > 0 else ()


def _call_objection(call: Call, policy: Policy, keys: Sequence[Key]) -> str | None:
    assert policy.unit is not None
    assert policy.per_query is not None and policy.max_size is not None  # noqa: PT018
    unit, hierarchy, size, cost = call.text("unit"), call.texts("hierarchy"), call.number("max_size"), _epsilon(call)
    if not set(call.arguments) <= {"tbl", "unit", "hierarchy", "epsilon", "max_size", "mechanism", "totals", "split"}:
        return "quantity, bound, regions, person and intervals are the steward's to choose"
    if call.text("totals") not in (None, "private"):
        return "How many groups there are is told with noise only, as with totals := 'private'"
    if unit is None or fold(unit) != fold(policy.unit):
        return f"The policy counts groups by {policy.unit}"
    if hierarchy is None or [fold(one) for one in hierarchy] != [fold(one.column) for one in keys][: len(hierarchy)]:
        return "The hierarchy must be the policy's as far as its columns have domains, or the first columns of it"
    if cost is None or not 0 < cost <= policy.per_query:
        return f"A release may cost epsilon {written(policy.per_query)} at most"
    if size is None or not size.isdigit() or not 1 <= int(size) <= policy.max_size:
        return f"max_size must be from 1 to {policy.max_size}"
    split = _split(call)
    if split is not None and len(split) != len(hierarchy) + 1:
        return "split must give a number above zero for each level, the root first"
    return None


def _question(
    context: RuleContext,
    name: TableName,
    keys: Sequence[Key],
    *,
    epsilon: Fraction,
    max_size: int,
    mechanism: str = "auto",
    split: tuple[str, ...] | None = None,
) -> GroupSizesQuestion:
    protected = context.catalog.protected[name]
    stored = {fold(one): one for one in context.columns(name)}
    return GroupSizesQuestion(
        **basis(protected, epsilon),
        group=stored[fold(protected.policy.unit or "")],
        hierarchy=tuple(keys),
        max_size=max_size,
        is_unit=protected.policy.unit_is_group,
        mechanism=mechanism,
        split=split,
    )


def _check(question: GroupSizesQuestion, policy: Policy) -> str | None:
    """Why a question cannot be answered, whatever the records are; None if it can."""
    from duckanon.engines.groups.release import check

    try:
        check_price(question.epsilon, policy.epsilon)
        check(depth=len(question.hierarchy) + 1, **question.engine)
    except InvalidInput as error:
        return str(error)
    if question.scale > _WIDEST:
        return "The noise would be wider than a million: ask for more epsilon, or the steward for fewer rows_per_unit."
    if question.max_size > _MOST_CELLS:
        return f"That is more than {_MOST_CELLS:,} sizes: choose a smaller max_size."
    return None


def _settle(context: RuleContext, name: TableName, question: GroupSizesQuestion, verdict: Verdict) -> None:
    context.answers.append(question)
    protected = context.catalog.protected[name]
    reason = (
        f"The numbers have noise, which protects {question.protects}; low and high hold the true one in 95 of 100 "
        "cases."
    )
    context.steps.append(
        Step(KIND, context.label(name), verdict, reason, question.epsilon, protected.remaining, question.edition)
    )


# --- queries in ordinary SQL ------------------------------------------------------------------------------------------


def of_query(context: RuleContext, found: GroupSizes, node: Node) -> str | None:
    """Replace the node that asks for `found` by the release. Returns why that cannot be done, else None."""
    name = found.table
    policy, keys = context.policy(name), offered(context, name)
    if keys is None:
        return _NONE
    reason = _objection(found, policy, keys)
    if reason is not None:
        return reason
    assert policy.per_query is not None and policy.max_size is not None  # noqa: PT018
    question = _question(context, name, keys, epsilon=policy.per_query, max_size=policy.max_size)
    reason = _check(question, policy)
    if reason is not None:
        return reason
    names = context.names(name, node, found.columns)
    units, release = _units(found, policy), quoted(question.path)
    source = release if units is None else _with_zeros(release, quoted(context.path(units[0])), units[1])
    regions = [fold(one.column) for one in keys]
    replacement = _release(found, regions, source, names, written_columns(node, found.columns))
    if replacement is None or not order_limit(node, replacement):
        return (
            "The query orders or filters the groups in a way that is not followed: write that around the query of "
            "sizes, as in SELECT ... FROM (query) ORDER BY size."
        )
    context.replace(node, replacement)
    _settle(context, name, question, Verdict.REWRITTEN)
    return None


def _objection(found: GroupSizes, policy: Policy, keys: Sequence[Key]) -> str | None:
    """Why the policy's release does not answer the query; None if it does."""
    assert policy.unit is not None
    units = _units(found, policy)
    if units is None and (len(found.sources) != 1 or found.frame or found.zeros or found.joins):
        return (
            "The groups are joined with another table, which the release does not know. Of units without records it "
            f"knows as many as a table of all units has: FROM units LEFT JOIN ... ON, counting {policy.unit}."
        )
    regions = [fold(one.column) for one in keys] if units is None else []
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
            return "Regions and filters must be columns of the policy's hierarchy that have domains, or sizes."
    for role in found.columns:
        if not _columns_of_release(role.where, found) <= {*regions, "size"}:
            return "Groups are counted by count(*), or under conditions on regions and sizes."
    if not found.columns or any(role.what == "derived" for role in found.columns):
        return "The query shows more than regions, sizes and numbers of groups: compute the rest around it."
    return _levels_objection(found, regions) if len(found.levels) > 1 else None


def _levels_objection(found: GroupSizes, regions: Sequence[str]) -> str | None:
    """Why the policy's release does not answer a query for several levels at once; None if it does."""
    # The release has NULL for a region below the level, so a condition on that region would drop the level.
    in_every_level = set(regions[: min(map(len, found.levels))]) | {"size"}
    conditions = (*found.filter, *found.kept, *(one for role in found.columns for one in role.where))
    if not _columns_of_release(conditions, found) <= in_every_level:
        return "Under ROLLUP and GROUPING SETS only regions of every level are filtered: ask for one level."
    for level in found.levels:
        names = {one.name for at in level if isinstance(one := found.regions[at], Column)}
        if names != set(regions[: len(level)]) or len(names) != len(level):
            return "The levels of ROLLUP and GROUPING SETS must be those of the policy's hierarchy."
    return None


def _columns_of_release(conditions: Iterable[Expr], found: GroupSizes) -> set[str]:
    """The columns that conditions have when they are written over the release."""
    released = [_released(one, found.size) for one in conditions if one not in _there(found)]
    return {part.name for one in released for part in walk(one) if isinstance(part, Column)}


def _units(found: GroupSizes, policy: Policy) -> tuple[TableName, str] | None:
    """The open table of all units, and their column in it, if the groups are joined with it to find those of size 0."""
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


def _with_zeros(release: str, units: str, column: str) -> str:
    """The release with a count of groups of size 0: the units of an open table that have no group."""
    known = f"SELECT count(DISTINCT {quoted([column])}) FROM {units} AS _dk_units"
    return (
        f"(SELECT 0 AS level, size, groups FROM {release} AS _dk_sizes WHERE level = 0 UNION ALL "
        f"SELECT 0, 0, greatest(CAST(({known}) - coalesce(sum(groups), 0) AS BIGINT), 0) "
        f"FROM {release} AS _dk_sizes WHERE level = 0)"
    )


def _there(found: GroupSizes) -> frozenset[Expr]:
    """That a group has a unit: a table with records of no unit has no release."""
    return frozenset(map(present, found.unit))


def _released(expr: Expr, size: Expr) -> Expr:
    """The expression over the release's columns."""
    return rebuilt(expr, lambda one: Column(0, "size") if one == size else None)


def _release(
    found: GroupSizes, regions: Sequence[str], source: str, names: Sequence[str], columns: Sequence[Node | None]
) -> Node | None:
    write = Renderer()

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
    for role, name, given in zip(found.columns, names, columns, strict=True):
        text = _column(role, over, type_of_count(given), _there(found))
        if text is None:
            return None
        shown.append(f"{text} AS {quoted([name])}")
        if role.what != "groups":
            keys.append(text)
    keys += [over(one) for one in found.regions if over(one) not in keys]
    grouped = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
    text = f"SELECT {', '.join(shown)} FROM {source} AS {_RELEASE} WHERE {' AND '.join(kept)}{grouped}"
    return sqlglot.parse_one(text, read="duckdb")


def _column(role: Role, over: object, kind: str, there: frozenset[Expr]) -> str | None:
    assert callable(over)
    if role.what in ("region", "size"):
        return str(over(role.expr)) if role.expr is not None else None
    conditions = sorted(f"({over(one)})" for one in role.where if one not in there)
    only = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    return f"CAST(COALESCE(SUM(groups){only}, 0) AS {kind})"
