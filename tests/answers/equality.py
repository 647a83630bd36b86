"""Whether an answer without noise is DuckDB's own: the same rows, to the steps that values are rounded to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from math import isclose, isnan
from typing import Any

import sqlglot
from sqlglot import exp

Row = tuple[Any, ...]
# Median and quantiles are one of the steps between the bounds: they are compared by their rank among the values.
QUANTILE = re.compile(
    r"(?:median\((?P<column>\w+)\)"
    r"|(?:quantile_cont|quantile_disc|approx_quantile)\((?P<of>\w+), (?P<at>[\d.]+)\)"
    r"|percentile_(?:cont|disc)\((?P<place>[\d.]+)\) WITHIN GROUP \(ORDER BY (?P<ordered>\w+)\))"
)
_VARIANCE = re.compile(r"\b(?:var|stddev)\w*\(")


@dataclass(frozen=True)
class Tolerance:
    """How far a number may be from DuckDB's: a share of it, and a distance."""

    relative: float = 1e-9
    absolute: float = 1e-9


def tolerance(sql: str, note: str, widths: dict[str, float]) -> Tolerance:
    """The tolerance that the note of an answer states: variances of values rounded to steps.

    widths: of each column the distance between its bounds.
    """
    if not _VARIANCE.search(sql):
        return Tolerance()
    steps = re.findall(r"(\w+) to steps of ([\d.e-]+?)(?:,|\.(?:\s|$)|$)", note)
    # A value that moves by half a step moves the variance by no more than the width times the step.
    return Tolerance(absolute=max([1e-5, *(widths[column] * float(step) for column, step in steps)]))


def difference(
    sql: str, mine: list[Row], theirs: list[Row], possible: list[Row], allowed: Tolerance
) -> tuple[str, Row] | None:
    """The first row that only one of two answers has, with a word for what is wrong; None where they are equal.

    DuckDB has no row for a cell without records, and we have one with zeros. possible: DuckDB's own answer over records
    of all kinds, so that no row may have keys that no record can have.
    """
    keys = _key_places(sql)
    left = [_plain(row) for row in mine]
    for row in map(_plain, theirs):
        met = next((one for one in left if _equal(one, row, allowed)), None)
        if met is None:
            return "missing", row
        left.remove(met)
    if keys is None:
        return ("too many", left[0]) if left else None
    known = {tuple(_plain(row)[at] for at in keys) for row in possible}
    for row in left:
        # (Where no record can meet the conditions, DuckDB has no rows at all.)
        if known and tuple(row[at] for at in keys) not in known:
            return "impossible", row
        if not all(_is_nothing(value) for at, value in enumerate(row) if at not in keys):
            return "not empty", row
    return None


def is_ordered(sql: str) -> bool:
    return sqlglot.parse_one(sql, read="duckdb").args.get("order") is not None


def in_order(mine: list[Row], theirs: list[Row], allowed: Tolerance) -> bool:
    """Whether DuckDB's rows stand in our answer in their order."""
    rest = iter(map(_plain, mine))
    return all(any(_equal(one, row, allowed) for one in rest) for row in map(_plain, theirs))


def is_quantile(values: list[Any], at: Fraction, answer: Any, step: float) -> bool:
    """Whether a number is a quantile of values to the step: so many are below it, and so many above it."""
    present = [float(one) for one in values or () if one is not None]
    if not present:
        return True
    below = sum(one < float(answer) - step for one in present)
    above = sum(one > float(answer) + step for one in present)
    return below <= at * len(present) and above <= (1 - at) * len(present)


def _key_places(sql: str) -> list[int] | None:
    """The columns that are no aggregates, of a SELECT that has aggregates; None for another statement."""
    tree = sqlglot.parse_one(sql, read="duckdb")
    if not isinstance(tree, exp.Select) or tree.args.get("having") or tree.args.get("qualify"):
        return None
    aggregated = [one.find(exp.AggFunc, exp.CountIf) is not None for one in tree.expressions]
    if not any(aggregated):
        return None
    return [at for at, one in enumerate(aggregated) if not one]


def _plain(row: Row) -> Row:
    return tuple(_value(one) for one in row)


def _value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime) and value.time() == datetime.min.time():
        return value.date()
    return value


def _equal(one: Row, other: Row, allowed: Tolerance) -> bool:
    return len(one) == len(other) and all(_near(a, b, allowed) for a, b in zip(one, other, strict=True))


def _near(one: Any, other: Any, allowed: Tolerance) -> bool:
    if other is None and one == 0:
        return True  # A sum of nothing: it is NULL, or what is left of it when the noise is taken away.
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, int | float | date):
        return type(one) is type(other) and bool(one == other)
    if isinstance(one, date) or not isinstance(other, int | float):
        return bool(one == other)
    return isclose(one, other, rel_tol=allowed.relative, abs_tol=allowed.absolute)


def _is_nothing(value: Any) -> bool:
    return value is None or value == 0 or (isinstance(value, float) and isnan(value))
