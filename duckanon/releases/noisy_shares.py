"""Shares within rows, as quotients of counts with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.engines.noise import Noise
from duckanon.errors import InvalidInput
from duckanon.releases.intervals import Noisy, Quotient
from duckanon.releases.key_filters import filtered
from duckanon.releases.noise import (
    NotOffered,
    all_of,
    check,
    columns_of,
    conditions,
    offering,
    public_key,
    settle,
)
from duckanon.releases.noisy_aggregates import refused_part
from duckanon.releases.paid_questions import AggregatesQuestion, Key, basis
from duckanon.rewrite import margins
from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expr,
    rebuilt,
    walk,
)
from duckanon.rewrite.algebra.filters import NotTotal
from duckanon.rewrite.algebra.nodes import Node, nodes_of, within
from duckanon.rewrite.algebra.relations import Table
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize import Conditional
from duckanon.rewrite.recognize.aggregates import JOINED, SEVERAL
from duckanon.rewrite.recognize.findings import Role
from duckanon.rewrite.recognize.measures import WHOLE
from duckanon.rewrite.recognize.ratios import core
from duckanon.rewrite.rule_context import RuleContext

SHARES = "conditional table"
# Each doubles the cells of an answer.
_MOST_EVENTS = 4
_MOST_DIGITS = 12
_OF_SUMS = "Shares are released of numbers of records, not of sums."
# Then `duckanon.releases.noisy_aggregates` answers, with exact zeros where there can be no records.
_OF_KEYS = "A share of records of some keys is computed from counts by the keys: ask for these."
_ORDER = "The query orders or limits its shares in a way that is not followed: write that around the shares."


def shares(context: RuleContext, conditionals: Sequence[Conditional], node: Node) -> str | None:
    """Replace a node that asks for shares by quotients of noisy counts. Returns why that cannot be done, else None."""
    first = conditionals[0]
    try:
        if any(one.weight is not None for one in conditionals):
            raise NotOffered(_OF_SUMS, node.find(exp.Sum))
        question, order, cells = _shares_question(context, conditionals)
    except (NotOffered, NotTotal, InvalidInput) as no:
        part, why = refused_part(context, node, node, no)
        return context.not_answered(part, str(why))
    keys = len(first.rows) + len(first.cols)
    answer = _in_order(question, order)
    source = f"({_quotients(conditionals, answer, len(first.rows), keys, cells)}) AS _dk_shares"
    replacement = share_columns(context, conditionals, node, source)
    if replacement is None:
        return _ORDER
    noisy = Noisy(question.counts_noise, (Fraction(1),))
    wide = f"({_quotients(conditionals, answer, len(first.rows), keys, cells, noisy.each)}) AS _dk_shares"
    note = _note(context, conditionals, node, wide) if node is context.bound.query else None
    context.replace(node, replacement)
    # A count adds up at most all cells of one combination of keys, which differ in conditions.
    together = question.outcomes
    reason = (
        "The shares are quotients of counts with noise, NULL where a row's noisy total is below 1: 95 % of the counts "
        f"are within {noisy.records(together)} of the truth."
    )
    settle(context, first.table, question, SHARES, reason, [(noisy, together)], note=note)
    return None


def _note(context: RuleContext, conditionals: Sequence[Conditional], node: Node, source: str) -> str | None:
    """As of the step. source: as for `share_columns`, with the widths of the intervals of the shares too."""
    query = share_columns(context, conditionals, node, source)
    if query is None or query.args.get("distinct") is not None:
        return None
    shown = [at for at, role in enumerate(conditionals[0].columns) if role.what == "share"]
    return margins.query(query, [(at, f"w{place}") for place, at in enumerate(shown)])


def objection(conditionals: Sequence[Conditional]) -> str | None:
    """Why the shares of one SELECT have no form that any release can answer; None if they have."""
    first = conditionals[0]
    if any(one.weight is not None for one in conditionals):
        return _OF_SUMS
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
    around = [one for one in sorted((*first.filter, *first.kept), key=write.text) if columns_of(one) <= rows]
    kept = [f"({write.text(rebuilt(one, named.get))})" for one in around]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    replacement = sqlglot.parse_one(f"SELECT {', '.join(shown)} FROM {source}{where}", read=DIALECT)
    bare = node.copy()
    for part in ("having", "qualify", "distinct", "windows"):
        bare.set(part, None)
    if not order_limit(bare, replacement):
        return None
    if distinct:
        replacement.set("distinct", exp.Distinct())
    return replacement


def _key(context: RuleContext, found: Conditional, expr: Expr) -> Key:
    """A key of the shares. Raises NotOffered."""
    try:
        return public_key(context, found.table, expr)
    except NotOffered as no:
        name = fold(expr.name) if isinstance(expr, Column) else None
        no.part = next((one for one in nodes_of(found.node, exp.Column) if fold(one.name) == name), None)
        raise


def _shares_question(
    context: RuleContext, conditionals: Sequence[Conditional]
) -> tuple[AggregatesQuestion, tuple[Key, ...], list[_Cells]]:
    """The question for the counts behind the shares, its keys as the query has them, and the cells of each share."""
    first, name = conditionals[0], conditionals[0].table
    protected = offering(context, name)
    if len(first.sources) != 1 or not isinstance(first.sources[0].relation, Table):
        reads = [read for _, read in context.reads if within(read, first.node)]
        several = len(reads) > 1
        raise NotOffered(SEVERAL if several else JOINED, reads[-1] if several else None)
    reason = objection(conditionals)
    if reason is not None:
        raise NotOffered(reason)
    keys = tuple(_key(context, first, one) for one in (*first.rows, *first.cols))
    shown = {fold(one.column) for one in keys}
    if any(columns_of(part) <= shown for one in conditionals for part in (*one.of, *one.event)):
        raise NotOffered(_OF_KEYS)
    rows = {one.name for one in first.rows if isinstance(one, Column)}
    around = [one for one in (*first.filter, *first.kept) if columns_of(one) <= rows]
    kept = [one for one in first.filter if one not in around]
    if any(one not in around and not _is_presence(one) for one in first.kept):
        raise NotOffered("The sizes of rows are not told here: write conditions on shares around the query.")
    conditions(context, name, around)
    # What all shares are of is a filter, as where they stand beside counts: that is one question.
    common = frozenset.intersection(*(one.of for one in conditionals))
    apart = [replace(one, of=one.of - common, event=one.event - common) for one in conditionals]
    events = sorted({all_of(context, name, part) for one in apart for part in (one.of, one.event) if part})
    if len(events) > _MOST_EVENTS:
        raise NotOffered(
            f"More than {_MOST_EVENTS} conditions are too many for one question: ask for fewer shares at once."
        )
    assert protected.policy.per_query is not None
    where = filtered(context, name, keys, kept)
    question = AggregatesQuestion(
        **basis(protected, protected.policy.per_query, [*where.filters, *conditions(context, name, list(common))]),
        keys=where.keys,
        domain_filters=where.domain_filters,
        grouped=() if set(where.keys) == set(keys) else tuple(f'"k{at}"' for at in _shown(where.keys, keys)),
        events=tuple((one,) for one in events),
        around=filtered(context, name, where.keys, around).domain_filters,
    )
    check(question, protected)
    return question, keys, [_cells(context, name, one, events) for one in apart]


def _is_presence(condition: Expr) -> bool:
    """Whether a condition only says that a row has records: it is dropped, as every row of the domains is shown."""
    match condition:
        case Comparison(">", Aggregate("count", ()), Constant("0", False)):
            return True
    return False


class _Cells(NamedTuple):
    """The cells of a share, as conditions on e0, ... (0 where the event holds).

    of: the whole. event: the part of it that is counted.
    """

    of: str
    event: str


def _cells(context: RuleContext, name: TableName, found: Conditional, events: Sequence[str]) -> _Cells:

    def cell(part: frozenset[Expr]) -> str:
        return f"e{events.index(all_of(context, name, part))} = 0" if part else "true"

    return _Cells(cell(found.of), cell(found.event))


def _quotients(
    conditionals: Sequence[Conditional],
    answer: str,
    rows: int,
    keys: int,
    cells: Sequence[_Cells],
    noise: Noise | None = None,
) -> str:
    """The shares p0, ... by the keys k0, ..., from noisy counts: NULL where a row's total is below 1, from 0 to 1.

    noise: of a cell, if the widths of their intervals, w0, ..., are wanted too.
    """
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
        if noise is not None:
            sums += [f"count(*) FILTER (WHERE {of} AND {event}) AS x{at}", f"count(*) FILTER (WHERE {of}) AS y{at}"]
            totals += [f"x{at}", f"CAST(sum(y{at}) OVER ({partition}) AS BIGINT) AS y{at}"]
            counts = [f"x{at}", f"(y{at} - x{at})"]
            quotient = Quotient(noise, Fraction(1), (Fraction(1), Fraction(0)))
            low, high = (quotient.end_sql(side, f"a{at}", f"b{at}", counts) for side in ("low", "high"))
            shown.append(f"({high} - {low}) * {scale.numerator} / {scale.denominator} AS w{at}")
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
        if isinstance(one, Cast) and one.type.upper() not in WHOLE | {"DOUBLE"}:
            return False
        if isinstance(one, Coalesce | Case) and found.of:
            return False
    return True


def _in_order(question: AggregatesQuestion, keys: Sequence[Key]) -> str:
    """The answer to a question, with its keys in the order in which the query has them, and the count n."""
    places = _shown(question.keys, keys)
    shown = [f"k{places.index(question.keys.index(one))} AS k{at}" for at, one in enumerate(keys)]
    shown += [f"e{at}" for at in range(len(question.events))]
    return f"(SELECT {', '.join([*shown, 'n0 AS n'])} FROM {quoted(question.path)})"


def _shown(keys: Sequence[Key], shown: Sequence[Key]) -> list[int]:
    """The positions among all keys of those that the query shows, in order."""
    return [at for at, one in enumerate(keys) if one in shown]
