"""Aggregates within a unit, as SQL that cannot fail and does not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from duckanon.rewrite.algebra.constants import WHOLE, digits
from duckanon.rewrite.algebra.expressions import Aggregate
from duckanon.rewrite.algebra.filters import NotTotal, scalar, written
from duckanon.rewrite.algebra.order import in_order

Bounds = tuple[Fraction, Fraction, Fraction]
# Sums of these could leave the widest type.
_TOO_WIDE = frozenset({"HUGEINT", "UHUGEINT"})
# Sums of decimals have 38 digits: so many values of this width fit into them as no table has.
_WIDEST_DECIMAL = 24


@dataclass(frozen=True)
class Aggregated:
    """An aggregate of a group: its SQL and type. bounds: of its value, if the values that it is of have bounds.

    counts: whether it is 0, not NULL, where there is no row.
    """

    sql: str
    kind: str
    bounds: Bounds | None = None
    counts: bool = False


def aggregated(call: Aggregate, types: Mapping[str, str], today: date, rows: int, bounds: Bounds | None) -> Aggregated:
    """An aggregate over the rows of a unit. rows: how many of them count, at most. bounds: of what it is of.

    Counts and sums are not cut to `rows`; their bounds are what they are clamped to where numbers leave the unit.
    Raises NotTotal for aggregates that could fail, or whose value depends on the order of rows.
    """
    where = " AND ".join(written(one, types, today) for one in in_order(call.where))
    kept = f" FILTER (WHERE {where})" if where else ""
    if call.order or len(call.operands) > 1:
        raise NotTotal("An aggregate within a unit has one argument and no order.")
    if not call.operands:
        return Aggregated(f"system.main.count(*){kept}", "BIGINT", _counted(rows), counts=True)
    value, kind = scalar(call.operands[0], types, today)
    distinct = "DISTINCT " if call.distinct else ""
    match call.name:
        case "count":
            return Aggregated(f"system.main.count({distinct}{value}){kept}", "BIGINT", _counted(rows), counts=True)
        case "sum" if not call.distinct:
            return Aggregated(f"system.main.sum({value}){kept}", _summed(kind), _total(bounds, rows))
        case "avg" if not call.distinct:
            _summed(kind)
            return Aggregated(f"system.main.avg({value}){kept}", "DOUBLE", bounds and _finer(bounds))
        case "min" | "max" | "any_value" if call.name != "any_value":
            return Aggregated(f"system.main.{call.name}({value}){kept}", kind, bounds)
        case "bool_and" | "bool_or" if kind == "BOOLEAN":
            return Aggregated(f"system.main.{call.name}({value}){kept}", kind)
    raise NotTotal(
        f"{call.name} is not computed within a unit: count, sum of whole numbers and decimals, avg, min, max, bool_and "
        "and bool_or are."
    )


def _counted(rows: int) -> Bounds:
    return Fraction(0), Fraction(rows), Fraction(1)


def _summed(kind: str) -> str:
    """DuckDB's type for a sum. Raises NotTotal."""
    decimal = digits(kind)
    if decimal is not None and decimal[0] <= _WIDEST_DECIMAL:
        return f"DECIMAL(38,{decimal[1]})"
    if kind in WHOLE and kind not in _TOO_WIDE:
        return "HUGEINT"
    raise NotTotal("Within a unit whole numbers and decimals are added up: a sum of others depends on their order.")


def _total(bounds: Bounds | None, rows: int) -> Bounds | None:
    """The bounds of a sum of so many values at most, and of one at least."""
    if bounds is None:
        return None
    low, high, step = bounds
    return min(low, low * rows), max(high, high * rows), step


def _finer(bounds: Bounds) -> Bounds:
    """A mean lies between steps."""
    return bounds[0], bounds[1], bounds[2] / 100
