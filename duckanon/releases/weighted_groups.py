"""Aggregates over groups, written over a release of group sizes: each row of it stands for `groups` groups of a size.

A number of groups is a sum of `groups`. A statistic of sizes takes each size as often as there are groups of it, and is
NULL where the number of groups, which has noise, is below 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Arithmetic,
    Case,
    Column,
    Constant,
    Expr,
    Negative,
    Null,
    Operation,
)
from duckanon.rewrite.recognize.group_size import QUANTILES
from duckanon.rewrite.recognize.measures import number

Write = Callable[[Expr], str]


def count(where: Iterable[Expr], write: Write, kind: str) -> str:
    """How many groups meet the conditions, of the type `kind`. write: an expression over the release's columns."""
    return f"CAST(COALESCE(SUM(groups){_filter(_conditions(where, write))}, 0) AS {kind})"


def is_quantile(aggregate: Aggregate) -> bool:
    return aggregate.name in QUANTILES


def known_quantile(aggregate: Aggregate) -> bool:
    """Whether the quantile's position is a number from 0 to 1."""
    return 0 <= _place(aggregate) <= 1


def statistic(aggregate: Aggregate, write: Write, at: int) -> str:
    """A statistic over the release's rows. at: of a quantile, the number of its cumulative columns."""
    if is_quantile(aggregate):
        return _quantile(aggregate, write, at)
    of, *_ = aggregate.operands
    text, where = write(of), _conditions(aggregate.where, write)
    if aggregate.name in ("min", "max", "count"):
        distinct = "DISTINCT " if aggregate.distinct else ""
        return f"{aggregate.name.upper()}({distinct}{text}){_filter(['groups >= 1', *where])}"
    there = _filter([*where, *_known(text)])
    times = "CAST(groups AS HUGEINT)" if _is_whole(of) else "CAST(groups AS DOUBLE)"
    total = f"SUM(({text}) * {times}){there}"
    if aggregate.name == "avg":
        total = f"CAST({total} AS DOUBLE) / SUM(groups){there}"
    return f"CASE WHEN SUM(groups){there} >= 1 THEN {total} END"


def cumulative(aggregate: Aggregate, write: Write, at: int, keys: Sequence[str]) -> list[str]:
    """The columns that a quantile needs in addition, within the rows with the same keys: how many groups have at
    most this value, and how many there are.
    """
    of, *_ = map(write, aggregate.operands)
    text = " AND ".join([*_conditions(aggregate.where, write), *_known(of)])
    weight = f"CASE WHEN {text} THEN groups ELSE 0 END" if text else "groups"
    partition = f"PARTITION BY {', '.join(keys)}" if keys else ""
    return [
        f"CAST(SUM({weight}) OVER ({partition} ORDER BY {of}) AS HUGEINT) AS _dk_upto{at}",
        f"CAST(SUM({weight}) OVER ({partition}) AS HUGEINT) AS _dk_all{at}",
    ]


def _quantile(aggregate: Aggregate, write: Write, at: int) -> str:
    of, *_ = map(write, aggregate.operands)
    place = _place(aggregate)
    above, below = place.numerator, place.denominator
    upto, whole = f"_dk_upto{at}", f"_dk_all{at}"

    def value(index: str) -> str:
        """The value with that number, from 0, of all values in order."""
        return f"MIN({of}) FILTER (WHERE {upto} > {index})"

    if aggregate.name in ("quantile", "quantile_disc"):
        index = f"GREATEST(({whole} * {above} + {below - 1}) // {below}, 1) - 1"
        return f"CASE WHEN MAX({whole}) >= 1 THEN {value(index)} END"
    position = f"(({whole} - 1) * {above})"
    low, high = value(f"{position} // {below}"), value(f"({position} + {below - 1}) // {below}")
    part = f"CAST(MAX({position} % {below}) AS DOUBLE) / {below}"
    return f"CASE WHEN MAX({whole}) >= 1 THEN CAST({low} AS DOUBLE) + ({high} - {low}) * {part} END"


def _place(aggregate: Aggregate) -> Fraction:
    match aggregate:
        case Aggregate("median"):
            return Fraction(1, 2)
        case Aggregate(_, (_, place)) if (found := number(place)) is not None:
            return found
    return Fraction(-1)


def _conditions(where: Iterable[Expr], write: Write) -> list[str]:
    return sorted(f"({write(condition)})" for condition in where)


def _known(text: str) -> list[str]:
    """The condition that a value is not NULL, for what is computed from the size; a size never is."""
    return [] if text == "size" else [f"({text}) IS NOT NULL"]


def _filter(conditions: Sequence[str]) -> str:
    return f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""


def _is_whole(expr: Expr) -> bool:
    """Whether an expression of the size is a whole number, whose sums are exact then."""
    match expr:
        case Constant(value, is_text):
            return not is_text and value.isdigit()
        case Case():
            return all(map(_is_whole, expr.values))
        case Arithmetic("+" | "-" | "*" | "//" | "%") | Negative() | Operation("Least" | "Greatest" | "Abs"):
            return all(map(_is_whole, expr.parts))
    return isinstance(expr, Null | Column | Aggregate)
