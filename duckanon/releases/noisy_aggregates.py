"""Counts with noise, and shares as quotients of them.

One privacy unit changes all counts of a question together by `contributions` at most, and discrete Laplace noise of
scale contributions / epsilon hides it (Ghosh, Roughgarden and Sundararajan 2009; Dwork, McSherry, Nissim and Smith
2006). There is a count for every combination of the keys' domains, so which rows come out says nothing of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, log
from math import exp as power_of_e
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import Protected
from duckanon.errors import InvalidInput
from duckanon.governance.answers import check_price
from duckanon.releases.paid_questions import CountsQuestion, Key, basis, key
from duckanon.rewrite.algebra.expressions import Aggregate, Call, Column, Expr, rebuilt, walk
from duckanon.rewrite.algebra.filters import NotTotal, written
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.relations import Table
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.algebra.translate import type_of
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize import Conditional, Counts
from duckanon.rewrite.recognize.findings import Role
from duckanon.rewrite.recognize.measures import WHOLE
from duckanon.rewrite.recognize.ratios import core
from duckanon.rewrite.rule_context import RuleContext, type_of_count, written_columns

COUNT = "count"
SHARES = "conditional table"
# More noise than that is not drawn.
_WIDEST = 10**9
# Each doubles the cells of an answer.
_MOST_EVENTS = 4
_MOST_DIGITS = 12
_NONE = "The policy offers no counts with noise: ask the steward to protect the table with per_query."
_ORDER = "The query orders or limits its {} in a way that is not followed: write that around the {}."


class _No(Exception):
    """Why a question is not answered, in one sentence."""


def counts(context: RuleContext, found: Counts, node: Node) -> str | None:
    """Replace the node that asks for `found` by noisy counts. Returns why that cannot be done, else None."""
    try:
        question, keys = _counts_question(context, found)
    except (_No, NotTotal, InvalidInput) as no:
        return str(no)
    replacement = count_columns(context, found, node, f"{_in_order(question, keys)} AS _dk_counts")
    if replacement is None or not order_limit(node, replacement):
        return _ORDER.format("counts", "counts")
    context.replace(node, replacement)
    _settle(context, found.table, question, COUNT, "The counts have noise, and may be negative")
    return None


def count_columns(context: RuleContext, found: Counts, node: Node, source: str) -> Node | None:
    """The query's own columns over a source with the keys k0, ... and the count n."""
    shown = [
        f"{_shown(found, role, given)} AS {quoted([name])}"
        for role, name, given in zip(
            found.columns,
            context.names(found.table, node, found.columns),
            written_columns(node, found.columns),
            strict=True,
        )
    ]
    return sqlglot.parse_one(f"SELECT {', '.join(shown)} FROM {source}", read="duckdb")


def _shown(found: Counts, role: Role, given: Node | None) -> str:
    if role.what == "key" and role.expr is not None:
        return f"k{found.keys.index(role.expr)}"
    kind = type_of_count(given)
    return "n" if kind == "BIGINT" else f"CAST(n AS {kind})"


def _counts_question(context: RuleContext, found: Counts) -> tuple[CountsQuestion, tuple[Key, ...]]:
    """The question for the counts, and its keys in the order in which the query has them."""
    protected = _offering(context, found.table)
    policy = protected.policy
    _one_table(found)
    if found.kept or len(found.sets) > 1 or len(found.events) != 1:
        raise _No(
            "HAVING, several grouping sets and several filtered counts are not followed: write them around one count."
        )
    unit = policy.privacy_unit
    if found.unit is not None and (unit is None or found.unit != Column(found.sources[0].number, fold(unit))):
        raise _No("Different values are counted of the privacy unit only.")
    if not found.columns or any(role.what == "derived" for role in found.columns):
        raise _No("The query shows more than keys and counts: compute the rest around it.")
    keys = tuple(_public(context, found.table, one) for one in found.keys)
    conditions = _conditions(context, found.table, (*found.filter, *found.events[0]))
    assert policy.per_query is not None
    distinct = found.unit is not None
    question = CountsQuestion(**basis(protected, policy.per_query, conditions), keys=_sorted(keys), distinct=distinct)
    _check(question, protected)
    return question, keys


# --- shares -----------------------------------------------------------------------------------------------------------


def shares(context: RuleContext, conditionals: Sequence[Conditional], node: Node) -> str | None:
    """Replace a node that asks for shares by quotients of noisy counts. Returns why that cannot be done, else None."""
    first = conditionals[0]
    try:
        question, order, cells = _shares_question(context, conditionals)
    except (_No, NotTotal, InvalidInput) as no:
        return str(no)
    keys = len(first.rows) + len(first.cols)
    source = f"({_quotients(conditionals, _in_order(question, order), len(first.rows), keys, cells)}) AS _dk_shares"
    replacement = share_columns(context, conditionals, node, source)
    if replacement is None:
        return _ORDER.format("shares", "shares")
    context.replace(node, replacement)
    reason = "The shares are quotients of counts with noise; NULL where a row's noisy total is below 1"
    _settle(context, first.table, question, SHARES, reason)
    return None


def objection(conditionals: Sequence[Conditional]) -> str | None:
    """Why the shares of one SELECT have no form that any release can answer; None if they have."""
    first = conditionals[0]
    if any(one.weight is not None for one in conditionals):
        return "Shares are released of numbers of records, not of sums."
    if any(set(one.rows) != set(first.rows) or one.cols != first.cols for one in conditionals):
        return "The shares of one query must have the same rows: ask for them one after the other."
    shown = sum(role.what == "share" for role in first.columns)
    if any(role.what == "derived" for role in first.columns) or shown != len(conditionals):
        return "The query shows more than keys and shares of them: compute the rest around it."
    if not all(isinstance(one, Column) for one in (*first.rows, *first.cols)):
        return "The rows and columns of a table of shares must be columns of the table, as they stand."
    for one in conditionals:
        digits = one.decimals
        if digits is not None and not 0 <= digits <= _MOST_DIGITS:
            return "The shares are rounded in a way that is not followed: round(share, 3), or round(100 * share, 1)."
        role = next(role for role in first.columns if role.name == one.name and role.what == "share")
        if not _is_followed(one, role):
            return "The shares are cast or guarded in a way that is not followed: count(*) / sum(count(*)) OVER (...)."
    if len({role.name for role in first.columns if role.what == "share"}) != len(conditionals):
        return "Two columns have the same name: rename one."
    return None


def share_columns(context: RuleContext, conditionals: Sequence[Conditional], node: Node, source: str) -> Node | None:
    """The query's own columns over a source with the keys k0, ... and the shares p0, ...; None if that cannot be
    written.

    Filters on the rows' own columns are applied here; the source must apply all others.
    """
    first = conditionals[0]
    distinct = isinstance(node, exp.Select) and node.args.get("distinct")
    if not isinstance(node, exp.Select) or (distinct and distinct.args.get("on")):
        return None
    rows = {one.name for one in first.rows if isinstance(one, Column)}
    named = {one: Column(0, f"k{at}") for at, one in enumerate([*first.rows, *first.cols])}
    write, at, shown = Renderer(), 0, []
    for role, name in zip(first.columns, context.names(first.table, node, first.columns), strict=True):
        assert role.expr is not None
        if role.what == "key":
            expr: Expr = named[role.expr]
        else:
            inner, share = core(role.expr), Column(0, f"p{at}")
            expr = rebuilt(role.expr, lambda one, inner=inner, share=share: share if one == inner else None)  # type: ignore[misc]
            at += 1
        shown.append(f"{write.text(expr)} AS {quoted([name])}")
    around = [one for one in sorted((*first.filter, *first.kept), key=write.text) if _columns(one) <= rows]
    kept = [f"({write.text(rebuilt(one, named.get))})" for one in around]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    replacement = sqlglot.parse_one(f"SELECT {', '.join(shown)} FROM {source}{where}", read="duckdb")
    bare = node.copy()
    for part in ("having", "qualify", "distinct", "windows"):
        bare.set(part, None)
    if not order_limit(bare, replacement):
        return None
    if distinct:
        replacement.set("distinct", exp.Distinct())
    return replacement


def _shares_question(
    context: RuleContext, conditionals: Sequence[Conditional]
) -> tuple[CountsQuestion, tuple[Key, ...], list[_Cells]]:
    """The question for the counts behind the shares, its keys as the query has them, and the cells of each share."""
    first, name = conditionals[0], conditionals[0].table
    protected = _offering(context, name)
    _one_table(first)
    reason = objection(conditionals)
    if reason is not None:
        raise _No(reason)
    keys = tuple(_public(context, name, one) for one in (*first.rows, *first.cols))
    rows = {one.name for one in first.rows if isinstance(one, Column)}
    around = [one for one in (*first.filter, *first.kept) if _columns(one) <= rows]
    within = [one for one in first.filter if one not in around]
    if any(one not in around for one in first.kept):
        raise _No("The sizes of rows are not told here: write conditions on shares around the query.")
    _conditions(context, name, around)
    events = sorted({_all_of(context, name, part) for one in conditionals for part in (one.of, one.event) if part})
    if len(events) > _MOST_EVENTS:
        raise _No(f"More than {_MOST_EVENTS} conditions are too many for one question: ask for fewer shares at once.")
    assert protected.policy.per_query is not None
    filters = _conditions(context, name, within)
    question = CountsQuestion(
        **basis(protected, protected.policy.per_query, filters), keys=_sorted(keys), events=tuple(events)
    )
    _check(question, protected)
    return question, keys, [_cells(context, name, one, events) for one in conditionals]


class _Cells(NamedTuple):
    """The cells of a share, as conditions on e0, ...: `of` is the whole, and `event` the part of it that is counted."""

    of: str
    event: str


def _cells(context: RuleContext, name: TableName, found: Conditional, events: Sequence[str]) -> _Cells:

    def cell(part: frozenset[Expr]) -> str:
        return f"e{events.index(_all_of(context, name, part))}" if part else "true"

    return _Cells(cell(found.of), cell(found.event))


def _quotients(conditionals: Sequence[Conditional], answer: str, rows: int, keys: int, cells: Sequence[_Cells]) -> str:
    """The shares p0, ... by the keys k0, ..., from noisy counts: NULL where a row's total is below 1, from 0 to 1."""
    own = [f"k{at}" for at in range(keys)]
    sums, totals, shown = [], [], []
    partition = f"PARTITION BY {', '.join(own[:rows])}" if rows else ""
    for at, (found, (of, event)) in enumerate(zip(conditionals, cells, strict=True)):
        sums += [
            f"CAST(coalesce(sum(n) FILTER (WHERE {of} AND {event}), 0) AS DOUBLE) AS a{at}",
            f"CAST(coalesce(sum(n) FILTER (WHERE {of}), 0) AS DOUBLE) AS b{at}",
        ]
        totals += [f"a{at}", f"sum(b{at}) OVER ({partition}) AS b{at}"]
        share = f"least(greatest(a{at} / b{at}, 0), 1)"
        scale, digits = Fraction(found.scale), found.digits
        scaled = share if scale == 1 else f"{share} * {scale.numerator} / {scale.denominator}"
        shown.append(
            f"CASE WHEN b{at} >= 1 THEN {scaled if digits is None else f'round({scaled}, {digits})'} END AS p{at}"
        )
    grouped = f" GROUP BY {', '.join(own)}" if own else ""
    inner = f"SELECT {', '.join([*own, *sums])} FROM {answer} AS _dk_counts{grouped}"
    summed = f"SELECT {', '.join([*own, *totals])} FROM ({inner}) AS _dk_sums"
    # Windows give their rows in an order that threads decide.
    ordered = f" ORDER BY {', '.join(own)}" if own else ""
    return f"SELECT {', '.join([*own, *shown])} FROM ({summed}) AS _dk_totals{ordered}"


def _is_followed(found: Conditional, role: Role) -> bool:
    """Whether the ratio is a DOUBLE, and NULL where the divisor is zero."""
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


# --- what both have in common -----------------------------------------------------------------------------------------


def _offering(context: RuleContext, name: TableName) -> Protected:
    """The protected table, if its policy offers noisy answers and it has all columns of the policy. Raises _No."""
    protected = context.catalog.protected[name]
    policy = protected.policy
    if policy.per_query is None:
        raise _No(_NONE)
    if not protected.stands:
        raise _No("The table does not stand with the columns that its policy names: ask the steward.")
    return protected


def _one_table(found: Counts | Conditional) -> None:
    if len(found.sources) != 1 or not isinstance(found.sources[0].relation, Table):
        raise _No("Counts are released of one table: join what is released.")


def _public(context: RuleContext, name: TableName, expr: Expr) -> Key:
    """The key for an expression: it must be a column that the policy calls public and that has a domain. Raises _No."""
    protected = context.catalog.protected[name]
    allowed = [*protected.policy.public, *protected.policy.hierarchy]
    public = {fold(one) for one in allowed}
    if not isinstance(expr, Column) or expr.name not in public:
        raise _No(f"Counts are told by columns that the policy calls public ({', '.join(allowed) or 'none'}).")
    found = key(protected, expr.name)
    if found is None:
        raise _No(f"The policy has no domain for {expr.name}, so its values are not told: ask the steward for one.")
    return found


def _sorted(keys: Sequence[Key]) -> tuple[Key, ...]:
    """Keys in a fixed order, so that counts by the same keys are one question, and so are shares of them."""
    return tuple(sorted(keys, key=lambda one: fold(one.column)))


def _in_order(question: CountsQuestion, keys: Sequence[Key]) -> str:
    """The answer to a question, with its keys in the order in which the query has them."""
    if tuple(keys) == question.keys:
        return quoted(question.path)
    shown = [f"k{question.keys.index(one)} AS k{at}" for at, one in enumerate(keys)]
    shown += [f"e{at}" for at in range(len(question.events))]
    return f"(SELECT {', '.join([*shown, 'n'])} FROM {quoted(question.path)})"


def _conditions(context: RuleContext, name: TableName, conditions: Sequence[Expr]) -> list[str]:
    protected = context.catalog.protected[name]
    hidden = {fold(one) for one in protected.policy.drop}
    for one in conditions:
        if _columns(one) & hidden:
            raise _No(f"The policy lets nothing out that depends on {', '.join(protected.policy.drop)}.")
    return [written(one, context.types(name), context.today) for one in conditions]


def _all_of(context: RuleContext, name: TableName, conditions: frozenset[Expr]) -> str:
    return " AND ".join(sorted(f"({one})" for one in _conditions(context, name, sorted(conditions, key=repr))))


def _columns(expr: Expr) -> set[str]:
    return {one.name for one in walk(expr) if isinstance(one, Column)}


def _check(question: CountsQuestion, protected: Protected) -> None:
    check_price(question.epsilon, protected.policy.epsilon)
    if question.scale > _WIDEST:
        raise _No("The noise would be wider than a billion: ask the steward for a larger per_query.")


def _settle(context: RuleContext, name: TableName, question: CountsQuestion, kind: str, what: str) -> None:
    context.answers.append(question)
    protected = context.catalog.protected[name]
    reason = f"{what}: 95 % are within {spread(question.scale)} of the truth. The noise protects {question.protects}."
    step = Step(
        kind, context.label(name), Verdict.REWRITTEN, reason, question.epsilon, protected.remaining, question.edition
    )
    context.steps.append(step)


def spread(scale: Fraction) -> int:
    """The least m with P(|noise| > m) <= 5 %, for discrete Laplace noise of that scale."""
    a = power_of_e(-1 / scale)
    return max(0, ceil(log(0.05 * (1 + a) / 2) / log(a)) - 1) if a > 0 else 0
