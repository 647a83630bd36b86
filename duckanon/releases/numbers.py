"""Numbers with bounds, as whole steps: columns, and what is computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import ceil, floor
from typing import Any

from duckanon.accounting import written as amount
from duckanon.catalog.names import fold, literal, quoted
from duckanon.catalog.policy import LARGEST_BOUND
from duckanon.catalog.snapshot import Protected
from duckanon.catalog.types import digits, own_step, step_between
from duckanon.releases.measures import Computed, Number
from duckanon.releases.noise import NotOffered
from duckanon.releases.steps import in_steps
from duckanon.rewrite.algebra.bounds import (
    MOST_STEPS,
    Bounded,
    NotBounded,
    bounded,
    centred_product,
    grid,
    known,
    whole,
)
from duckanon.rewrite.algebra.constants import NUMBER, ZONED, in_sql
from duckanon.rewrite.algebra.expressions import Column, Expr
from duckanon.rewrite.algebra.filters import part_of_time, written
from duckanon.rewrite.algebra.nullability import present_columns
from duckanon.rewrite.algebra.ranges import Range, ranges
from duckanon.rewrite.algebra.scalars import Scalar, builtin
from duckanon.rewrite.recognize.measures import WHOLE

# The most steps between the bounds. Squares have as many totals of twice the digits; quantiles try each step.
_MOST_STEPS, _MOST_OF_SQUARES, _MOST_OF_QUANTILES = 10**8, 10**4, 10**3
_UNBOUNDED = (
    "The policy declares no bounds for {column}, so one record could change its sum without limit: ask the steward for "
    "bounds := {{{literal}: {ends}}}."
)
_NOT_BOUNDED = (
    "What is computed within each unit here has no bounds that follow from the policy, so one unit could change its "
    "sum without limit: use columns with bounds, sums and differences of them, or counts."
)
# A value so near to the middle between two steps may be rounded to either, as floats are.
_NEAR = Fraction(1, 1000)
# Types of moments: the step in which they are counted from 1970 on, and how.
_MOMENTS = {
    "DATE": (timedelta(days=1), "CAST({} - DATE '1970-01-01' AS BIGINT)"),
    "TIMESTAMP": (timedelta(microseconds=1), "system.main.epoch_us({})"),
    ZONED: (timedelta(microseconds=1), "system.main.epoch_us({})"),
}


def rounding(number: Number, kind: str) -> Fraction:
    """How far a value of that type can be from the step to which it is rounded."""
    if isinstance(number, Computed):
        return Fraction(number.error)
    low, step = Fraction(number.low), Fraction(number.step)
    own = own_step(kind)
    exact = own is not None and (own / step).denominator == 1 and (low / own).denominator == 1
    return Fraction(0) if exact else step / 2


def step_in_words(number: Number, kind: str) -> str:
    """In days or hours where it is of moments."""
    step = Fraction(number.step)
    return str(_MOMENTS[kind][0] * int(step)).removesuffix(", 0:00:00") if kind in _MOMENTS else f"{float(step):.6g}"


def moment(steps: str, kind: str) -> str:
    """The moment of a type that is so many of its units after the start of 1970, as SQL. steps: a DOUBLE, as SQL."""
    if kind == "DATE":
        return f"(DATE '1970-01-01' + CAST({steps} AS INTEGER))"
    return f"({_written(datetime(1970, 1, 1), kind)} + to_microseconds(CAST({steps} AS BIGINT)))"


def is_moment(kind: str) -> bool:
    """Whether a type is one of dates or times."""
    return kind in _MOMENTS


def _written(moment: datetime, kind: str) -> str:
    """As SQL. moment: of a type with a time zone in UTC."""
    if kind == ZONED:
        return f"TIMESTAMPTZ '{moment.isoformat(sep=' ')}+00'"
    return in_sql(moment.date() if kind == "DATE" else moment, kind)


def is_number(kind: str) -> bool:
    """Whether a column's type is one of numbers."""
    return own_step(kind) is not None or kind in ("DOUBLE", "FLOAT")


@dataclass(frozen=True)
class Bounds:
    """The bounds of a column, with the step that holds: as fractions, of dates in days."""

    low: Fraction
    high: Fraction
    step: Fraction

    def met(self, asked: Range[Any], fewest: int) -> Bounds:
        """Those of the values that lie in a range: of the same steps, those to which such values are rounded.

        fewest: how many steps lie between them at least. What lies beyond the declared bounds stays the outermost.
        """
        last = ceil((self.high - self.low) / self.step)
        places = [None if end is None else (end - self.low) / self.step for end in (asked.low, asked.high)]
        half = Fraction(1, 2) + _NEAR
        rounded: Range[Fraction] = Range(
            None if places[0] is None else Fraction(ceil(places[0] - half)),
            None if places[1] is None else Fraction(floor(places[1] + half)),
        )
        low, high = (int(end) for end in rounded.within(Fraction(0), Fraction(last)))
        if high - low < fewest:
            low = max(0, high - fewest)
            high = low + fewest
        return Bounds(self.low + low * self.step, self.high if high == last else self.low + high * self.step, self.step)


@dataclass(frozen=True)
class Columns:
    """The columns of a protected table, as what numbers are computed from.

    types: by folded name. today: what `current_date` stands for. present: the columns of which no record that is asked
    for has NULL. ranges: between which numbers or moments those lie that are asked for.
    """

    protected: Protected
    types: Mapping[str, str]
    today: date
    present: frozenset[str] = frozenset()
    ranges: Mapping[str, Range[Any]] = field(default_factory=dict)

    def name(self, column: str) -> str:
        """As the table has it. Raises NotOffered."""
        assert self.protected.stored is not None
        name = next((one for one in self.protected.stored.columns if fold(one) == fold(column)), None)
        if name is None:
            raise NotOffered(f"There is no column {column}.")
        return name

    def bounds(self, column: str, fewest: int = 0) -> Bounds:
        """Those of the records that are asked for, with so many steps at least.

        Raises NotOffered where none are declared that a sum can have.
        """
        kind = self.types.get(fold(column), "")
        if not is_number(kind):
            raise NotOffered("Sums and means are told of columns of numbers, quantiles of dates and times too.")
        declared = self._declared(column)
        if declared is None:
            raise self._unbounded(column, "[least, largest]")
        low, high, *steps = map(Fraction, declared)
        if max(-low, high) > LARGEST_BOUND:
            raise NotOffered(f"The bounds of {column} are too wide for sums: ask the steward for narrower ones.")
        bounds = Bounds(low, high, steps[0] if steps else step_between(kind, low, high))
        asked = self.ranges.get(fold(column))
        return bounds if asked is None else bounds.met(asked, fewest)

    def _unbounded(self, column: str, ends: str) -> NotOffered:
        """That nothing bounds a column. ends: an example of bounds."""
        declaring = self.protected.policy.declaring(column)
        if declaring is None:
            return NotOffered(_NOT_BOUNDED)
        return NotOffered(_UNBOUNDED.format(column=declaring, literal=literal(declaring), ends=ends))

    def _declared(self, column: str) -> tuple[str, ...] | None:
        return {fold(name): bound for name, bound in self.protected.policy.bounds.items()}.get(fold(column))

    def number(self, column: str, most: int, fewest: int = 1) -> Number:
        """A column in so many steps, at most and at least. Raises NotOffered."""
        of = self.bounds(column, fewest)
        step = of.step * max(1, ceil((of.high - of.low) / of.step / most))
        kind = self.types.get(fold(column), "")
        return Number(self.name(column), str(of.low), str(step), ceil((of.high - of.low) / step), kind)

    def meeting(self, conditions: Iterable[Expr]) -> Columns:
        """The columns of those records alone that meet conditions, as far as the text says what that means."""
        asked = dict(self.ranges)
        for name, each in ranges(conditions, self.types, self.today).items():
            asked[name] = asked.get(name, Range()).met(each)
        present = frozenset(column.name for column in present_columns(conditions))
        return replace(self, present=self.present | present, ranges=asked)

    # --- what expressions are made of ---------------------------------------------------------------------------------

    def column(self, column: Column) -> Bounded:
        """A column in whole steps. Raises NotOffered, and NotBounded for one with too many steps."""
        found = self._column(column)
        return replace(found, nullable=False) if fold(column.name) in self.present else found

    def _column(self, column: Column) -> Bounded:
        kind = self.types.get(fold(column.name), "")
        if kind == "BOOLEAN":
            name = quoted([column.name])
            return Bounded(0, 1, Fraction(1), f"(CASE WHEN {name} THEN {whole(1)} WHEN NOT {name} THEN {whole(0)} END)")
        if kind in _MOMENTS:
            return self._moment(self.name(column.name), kind)
        number = self.number(self.name(column.name), LARGEST_BOUND, fewest=0)
        low, step = Fraction(number.low), Fraction(number.step)
        if max(-low, number.high) / step > LARGEST_BOUND:
            raise NotBounded(f"{number.column} has more than 10^15 steps")
        # In steps of which its least value, too, is a whole number.
        unit = step if (low / step).denominator == 1 else grid([low, step])
        times, first = int(step / unit), int(low / unit)
        sql = number.sql if times == 1 else builtin("*", number.sql, str(times))
        width, scale = digits(kind) or (0, 0 if kind in WHOLE else None)
        return Bounded(
            first,
            first + number.steps * times,
            unit,
            builtin("+", sql, f"({first})") if first else sql,
            scale,
            rounding(number, kind),
            decimal=width,
        )

    def is_exact(self, column: str) -> bool:
        """Whether all values are known that lie between a column's bounds: of dates, whole numbers and decimals."""
        kind = self.types.get(fold(column), "")
        if kind in ("DATE", "BOOLEAN"):
            return True
        try:
            return is_number(kind) and not rounding(self.number(column, LARGEST_BOUND), kind)
        except NotOffered:
            return False

    def _moment(self, column: str, kind: str) -> Bounded:
        """A column of dates, in days, or of timestamps, in microseconds. Raises NotOffered."""
        ends = self._declared(column) if kind == ZONED else self.protected.policy.moments(column)
        if ends is None:
            example = " 00:00:00+00" if kind == ZONED else ""
            shown = "TIMESTAMPTZ" if kind == ZONED else kind
            raise self._unbounded(column, f"[{shown} '2020-01-01{example}', {shown} '2029-12-31{example}']")
        first, last = (datetime.fromisoformat(end).replace(tzinfo=None) for end in ends)
        asked = self.ranges.get(fold(column))
        first, last = (first, last) if asked is None else asked.within(first, last)
        name = quoted([column])
        clamped = f"system.main.least(system.main.greatest({name}, {_written(first, kind)}), {_written(last, kind)})"
        unit, sql = _MOMENTS[kind]
        low, high = ((each - datetime(1970, 1, 1)) // unit for each in (first, last))
        return Bounded(
            low, high, Fraction(1), f"(CASE WHEN {name} IS NOT NULL THEN {sql.format(clamped)} END)", kind=kind
        )

    def has_bounds(self, column: Column) -> bool:
        kind = self.types.get(fold(column.name), "")
        if kind in ("DATE", "TIMESTAMP"):
            return self.protected.policy.moments(column.name) is not None
        return kind == "BOOLEAN" or self._declared(column.name) is not None

    def length(self, name: str, column: Column) -> Bounded:
        """The length of a text, of which the column's bounds are. Raises NotOffered and NotBounded."""
        found, kind = self.name(column.name), self.types.get(fold(column.name), "")
        if kind != "VARCHAR":
            raise NotBounded("Lengths are of columns of text")
        declared = self._declared(found)
        if declared is None:
            raise NotOffered(
                f"The policy declares no bounds for the length of {found}, so one record could change its sum without "
                f"limit: ask the steward for bounds := {{{literal(found)}: [0, largest length]}}."
            )
        low, high, step = (*map(Fraction, declared), Fraction(1))[:3]
        first, steps = int(low / step), ceil((high - low) / step)
        sql = in_steps(builtin(name, quoted([found])), "BIGINT", low, step, steps)
        assert sql is not None
        value = builtin("+", sql, f"({first})") if first else sql
        nullable = fold(found) not in self.present
        return Bounded(first, first + steps, step, value, error=(step - 1) / 2, nullable=nullable)

    def condition(self, expr: Expr) -> str:
        return written(expr, self.types, self.today)

    def part(self, expr: Expr) -> Scalar:
        return part_of_time(expr, self.types, self.today)


@dataclass(frozen=True)
class Quantity:
    """What a statistic is of: a column, or what is computed from columns.

    identity: equal for all ways in which it is written. type: in DuckDB; of computed ones, of their sums. computed: its
    bounds, if it is no column.
    """

    identity: tuple[bool, str]
    type: str
    shown: str
    columns: Columns
    computed: Bounded | None = None

    def number(self, *, squares: bool = False, quantiles: bool = False) -> Number:
        """It in steps, which are coarser for squares and quantiles, and where there are too many. Raises NotOffered."""
        most = _MOST_OF_QUANTILES if quantiles else _MOST_OF_SQUARES if squares else None
        if self.computed is None:
            return self.columns.number(self.shown, most or _MOST_STEPS)
        of, steps = self.computed, max(1, self.computed.high - self.computed.low)
        value = of.sql if of.low == 0 else builtin("-", of.sql, f"({of.low})")
        # Of sums the digits that are left keep their meaning.
        by = 10 ** len(str((steps - 1) // MOST_STEPS)) if steps > MOST_STEPS else 1
        by = by if most is None else ceil(Fraction(steps, most))
        error = of.error if by == 1 else of.error + of.step * by / 2
        if by > 1:
            value, steps = builtin("//", builtin("+", value, str(by // 2)), str(by)), (steps + by // 2) // by
        return Computed(self.shown, str(of.least), str(of.step * by), steps, value=value, error=str(error))

    @property
    def words(self) -> str:
        """Its bounds and its step; empty for a column, whose bounds the policy has, and for moments."""
        of = self.computed
        if of is None or of.kind != NUMBER:
            return ""
        return f"{self.shown}: {amount(of.least)} to {amount(of.largest)} by {amount(of.step)}"


def quantity(columns: Columns, operand: Expr, shown: str) -> Quantity:
    """What a statistic is of. shown: how it is written. Raises NotOffered, NotBounded and NotTotal."""
    if isinstance(operand, Column):
        kind = columns.types.get(operand.name, "")
        columns.bounds(columns.name(operand.name))
        return Quantity((False, operand.name), kind, columns.name(operand.name), columns)
    found = bounded(operand, columns)
    return Quantity(_identity(found), found.type, shown, columns, found)


def ranked(columns: Columns, operand: Expr, shown: str) -> Quantity:
    """What a quantile is of: moments too. Otherwise as `quantity`."""
    if isinstance(operand, Column) and not is_moment(columns.types.get(operand.name, "")):
        return quantity(columns, operand, shown)
    found = known(operand, columns)
    if found.kind == NUMBER:
        return quantity(columns, operand, shown)
    return Quantity(_identity(found), found.kind, shown, columns, found)


def _identity(found: Bounded) -> tuple[bool, str]:
    """What is computed, up to how it is written: so many steps of that size, in that type."""
    return True, f"{found.sql} by {found.step} as {found.type}"


@dataclass(frozen=True)
class CentredProduct:
    """The product of two numbers, each less the middle of its bounds: so it is as small wherever the bounds lie."""

    quantity: Quantity
    middles: tuple[Fraction, Fraction]


def product(columns: Columns, expression: Expr, other: Expr, shown: tuple[str, str]) -> CentredProduct:
    """The product that a covariance is of. shown: how both are written. Raises NotOffered, NotBounded and NotTotal."""
    found, *middles = centred_product(bounded(expression, columns), bounded(other, columns))
    words = " * ".join(f"({each} - {amount(middle)})" for each, middle in zip(shown, middles, strict=True))
    return CentredProduct(Quantity(_identity(found), found.type, words, columns, found), (middles[0], middles[1]))
