"""What values a computed column has: between which bounds, at the starts of which units of time, or which constants.

They follow from what is known of the columns that it is computed from, by interval arithmetic. So such a column is a
key, and can be added up, as its parts can. What leaves the units is clamped to the bounds: those are public, and no
promise rests on their being right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from typing import Any

from duckanon.catalog.names import quoted
from duckanon.catalog.types import WHOLE, digits, own_step
from duckanon.rewrite.algebra.bounds import (
    DATE,
    TIMESTAMP,
    Bounded,
    NotBounded,
    grid,
    known,
    on_clocks,
    start,
    truncation,
)
from duckanon.rewrite.algebra.constants import NUMBER, ZONED
from duckanon.rewrite.algebra.expressions import NULL, Column, Expr
from duckanon.rewrite.algebra.filters import NotTotal, part_of_time
from duckanon.rewrite.algebra.possible_values import possible_values
from duckanon.rewrite.algebra.ranges import Range, ranges
from duckanon.rewrite.algebra.total import Scalar
from duckanon.units.fields import Bounds, Field
from duckanon.units.scope import Scope

_FIRST = datetime(1970, 1, 1)
_TIMES = (DATE, TIMESTAMP, ZONED)


def computed(scope: Scope, expr: Expr, fields: Mapping[str, Field], kind: str) -> Field:
    """What is known of a column of a type that is computed from fields."""
    listed = possible_values(
        expr, scope.today, lambda column: fields[column.name].listed if isinstance(column, Column) else ()
    )
    never_null = bool(listed) and NULL not in listed
    unit, of = truncation(expr) or ("", expr)
    try:
        bounded = known(of, _Leaves(scope, fields))
        if unit:
            bounded = on_clocks(bounded, scope.today)
        if bounded.kind == ZONED:
            raise NotBounded("Moments are no values within a unit")
    except (NotBounded, NotTotal):
        return Field(kind, listed=listed, never_null=never_null)
    bounds = _starts(bounded, unit, kind) if unit else (bounded.least, bounded.largest, bounded.step)
    return Field(kind, bounds=bounds, listed=listed, never_null=never_null, unit=unit if bounds else "")


def _starts(bounded: Bounded, unit: str, kind: str) -> Bounds | None:
    """The first and the last start of a unit of time. None for other units, and where they are no dates of Python's."""
    step = timedelta(days=1) if bounded.kind == DATE else timedelta(microseconds=1)
    try:
        ends = [start(_FIRST + at * step, unit) for at in (bounded.low, bounded.high)]
    except (NotBounded, OverflowError):
        return None
    shown = timedelta(days=1) if kind == DATE else timedelta(microseconds=1)
    low, high = (Fraction((end - _FIRST) // shown) for end in ends)
    return low, high, Fraction(1)


def meeting(scope: Scope, fields: Mapping[str, Field], conditions: Iterable[Expr]) -> dict[str, Field]:
    """What is known of columns in the rows alone that meet conditions: some lie within narrower bounds.

    Where a column is NULL that a LEFT JOIN has not found, it stays NULL. Floats keep their bounds, which have no step
    of their own, and so do moments with a time zone.
    """
    known = dict(fields)
    types = {name: field.kind for name, field in fields.items()}
    for name, asked in ranges(conditions, types, scope.today).items():
        field = fields.get(name)
        if field is not None and not field.is_open and (bounds := _met(scope, field, asked)) is not None:
            known[name] = replace(field, bounds=bounds)
    return known


def _met(scope: Scope, field: Field, asked: Range[Any]) -> Bounds | None:
    """The bounds of a column's values that lie in a range, with the same steps; None where they stay as they are."""
    if field.kind in (DATE, TIMESTAMP):
        bounds, unit = scope.moments(field), timedelta(days=1) if field.kind == DATE else timedelta(microseconds=1)
        asked = Range(*(None if end is None else Fraction((end - _FIRST) // unit) for end in (asked.low, asked.high)))
    else:
        bounds = scope.bounds(field) if own_step(field.kind) is not None else None
    if bounds is None:
        return None
    low, high, step = bounds
    least, largest = asked.within(low, high)
    return low + floor((least - low) / step) * step, min(high, low + ceil((largest - low) / step) * step), step


class _Leaves:
    """The columns of a relation, each within its bounds, as what numbers are computed from."""

    def __init__(self, scope: Scope, fields: Mapping[str, Field]) -> None:
        self._scope, self._fields = scope, fields
        self.types = {name: field.kind for name, field in fields.items()}

    @property
    def today(self) -> date:
        return self._scope.today

    def column(self, column: Column) -> Bounded:
        field, sql = self._fields[column.name], quoted([column.name])
        if field.kind == "BOOLEAN":
            return Bounded(0, 1, Fraction(1), sql)
        bounds = self._bounds(field)
        if bounds is None:
            raise NotBounded(f"The column {column.name} has no bounds")
        low, high, step = bounds
        unit = grid([step, *(abs(each) for each in (low, high) if each)])
        width, scale = digits(field.kind) or (0, 0 if field.kind in WHOLE else None)
        kind = field.kind if field.kind in _TIMES else NUMBER
        return Bounded(int(low / unit), int(high / unit), unit, sql, scale, kind=kind, decimal=width)

    def has_bounds(self, column: Column) -> bool:
        return self._bounds(self._fields[column.name]) is not None

    def _bounds(self, field: Field) -> Bounds | None:
        return self._scope.moments(field) if field.kind in _TIMES else self._scope.bounds(field)

    def length(self, name: str, column: Column) -> Bounded:  # noqa: ARG002 - as other leaves
        raise NotBounded("Lengths within a unit have no bounds")

    def meeting(self, conditions: Sequence[Expr]) -> _Leaves:
        return _Leaves(self._scope, meeting(self._scope, self._fields, conditions))

    def condition(self, expr: Expr) -> str:
        return self._scope.written(expr, self._fields)

    def part(self, expr: Expr) -> Scalar:
        return part_of_time(expr, self.types, self.today)
