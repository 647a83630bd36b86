"""What values a computed column has: between which bounds, at the starts of which units of time, or which constants.

They follow from what is known of the columns that it is computed from, by interval arithmetic. So such a column is a
key, and can be added up, as its parts can. What leaves the units is clamped to the bounds: those are public, and no
promise rests on their being right.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction

from duckanon.catalog.names import quoted
from duckanon.catalog.types import WHOLE, digits
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
        bounds = self._scope.moments(field) if field.kind in _TIMES else self._scope.bounds(field)
        if bounds is None:
            raise NotBounded(f"The column {column.name} has no bounds")
        low, high, step = bounds
        unit = grid([step, *(abs(each) for each in (low, high) if each)])
        decimal = digits(field.kind)
        scale = 0 if field.kind in WHOLE else None if decimal is None else decimal[1]
        kind = field.kind if field.kind in _TIMES else NUMBER
        return Bounded(int(low / unit), int(high / unit), unit, sql, scale, kind=kind)

    def length(self, name: str, column: Column) -> Bounded:  # noqa: ARG002 - as other leaves
        raise NotBounded("Lengths within a unit have no bounds")

    def condition(self, expr: Expr) -> str:
        return self._scope.written(expr, self._fields)

    def part(self, expr: Expr) -> Scalar:
        return part_of_time(expr, self.types, self.today)
