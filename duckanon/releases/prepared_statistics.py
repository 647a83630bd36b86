"""Statistics that follow from a preparation: as over an answer of its own, with intervals by the cells of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import sqlglot

from duckanon.releases.divided import Kept, Multiplied
from duckanon.releases.measures import Measure, Sums
from duckanon.releases.prepared_noise import PreparedNoise, Quotients
from duckanon.releases.prepared_parts import ALL, VALUES, PartOf
from duckanon.releases.statistics import OTHER_SIDE, Count, Counted, Mean, Share, Sum, Told, double, times
from duckanon.rewrite.algebra.expressions import Expr
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.grouped import Interval, Rows


class Cells(Protocol):
    """The cells of a prepared table that a row adds up."""

    def noise(self, measure: Measure, weights: Sequence[Fraction], *wheres: frozenset[Expr]) -> PreparedNoise:
        """The noise of a linear function of a measure."""
        ...


@dataclass(frozen=True)
class PreparedCount(Count):
    """A number of records. moved: by its noise. part: of the records that `measure` counts.

    where: the conditions on keys.
    """

    moved: PreparedNoise
    prepared: Cells
    measure: Measure
    part: PartOf

    def by_parts_of(self, measure: Measure) -> PreparedNoise:
        """The noise of the same number, told by another measure of the same cells."""
        return self.prepared.noise(measure, self.part.beside(measure).weights, self.where)

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        return None if self.moved.rows is None else self.moved.records() * abs(float(self.asked.factor))

    @property
    def noise(self) -> tuple[Any, int] | None:  # type: ignore[override] # as above
        return None if self.moved.rows is None else (self.moved, 1)


@dataclass(frozen=True)
class PreparedShare(Share):
    """A part of records. above: what counts those of the part. parts: these and the whole, of what `measure` counts."""

    above: Counted
    prepared: Cells
    measure: Measure
    parts: tuple[PartOf, PartOf]

    @property
    def _numbers(self) -> tuple[str, str]:
        return self.above.sql(self.cells, self.asked.where, self.asked.of), self.by.sql(self.cells, self.asked.of)

    @property
    def _both(self) -> Quotients:
        part, whole = (part.weights for part in self.parts)
        return Quotients(
            self.prepared.noise(self.measure, part, self.asked.where, self.asked.of),
            self.prepared.noise(self.measure, whole, self.asked.of),
        )

    def end(self, side: str) -> str:
        return times(self._both.end_sql(self._turned(side), *self._numbers), self.asked.factor)

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        most = self._both.most
        return None if most is None else most * abs(float(self.asked.factor))


@dataclass(frozen=True)
class PreparedSum(Sum):
    """A sum of clamped values. missing: what a record without a value adds; None where it does not count."""

    prepared: Cells
    missing: Fraction | None

    def _exact(self, name: str) -> str:
        exact = super()._exact(name)
        return f"({exact} + {double(self.missing)} * {super()._exact('z')})" if name == "s" and self.missing else exact

    @property
    def _noises(self) -> list[PreparedNoise]:  # type: ignore[override] # used alike
        low, high = self._least, self.found.measure.number.high
        moved = dict.fromkeys((-self.error, self.error))
        return [
            self.prepared.noise(
                self.found.measure, (low + number, high + number, self.missing or Fraction(0)), self.asked.where
            )
            for number in moved
        ]

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        return None if self._noises[0].rows is None else super().half


@dataclass(frozen=True)
class PreparedMean(Mean):
    """A mean of clamped values: the part of the way from the least value to the largest, by two totals of one table.

    missing: what a record without a value counts as; None where it does not.
    """

    prepared: Cells
    missing: Fraction | None

    def _exact(self, name: str) -> str:
        exact = super()._exact(name)
        if self.missing is None:
            return exact
        without = super()._exact("z")
        return f"({exact} + {without})" if name == "n" else f"({exact} + {double(self.missing)} * {without})"

    @property
    def _values(self) -> list[Fraction]:
        """What a record of each part counts as: of what falls as its column grows, the first is the largest."""
        numbers = [self._least, self.found.measure.number.high]
        return numbers if self.missing is None else [*numbers, self.missing]

    @property
    def _range(self) -> tuple[Fraction, Fraction]:
        """The least mean, and how far it is to the largest."""
        return min(self._values), max(self._values) - min(self._values)

    @property
    def _both(self) -> Quotients:
        start, reach = self._range
        none = [Fraction(0)] * (3 - len(self._values))
        up, counted = [(value - start) / reach for value in self._values], [Fraction(1)] * len(self._values)
        return Quotients(
            *(self.prepared.noise(self.found.measure, (*numbers, *none), self.asked.where) for numbers in (up, counted))
        )

    def end(self, side: str) -> str:
        n, s = self._sum("n"), self._sum("s")
        start, reach = self._range
        above = f"(({s} - {double(start)} * {n}) / {double(reach)})"
        way = self._both.end_sql(side, above, n)
        moved = f"{double(start)} + {double(reach)} * {way} {'-' if side == 'low' else '+'}"
        return self._clamped(f"({moved} {float(self.error)!r})")

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        most = self._both.most
        return None if most is None else most * float(self._range[1])

    def _clamped(self, value: str) -> str:
        start, reach = self._range
        return f"least(greatest({value}, {double(start)}), {double(start + reach)})"


@dataclass(frozen=True)
class PreparedBetween(Kept):
    """A quotient of counts in a range, with an interval. places: the cells of both, as SQL."""

    both: Quotients = field(kw_only=True)
    places: Sequence[str] = field(kw_only=True)

    def end(self, side: str) -> str:
        turned = side if self.factor > 0 else OTHER_SIDE[side]
        return self._placed(self.both.end_sql(turned, self.above, self.below, places=self.places))


def divided(above: Told, below: Told, rows: Rows) -> Interval | None:
    """The quotient of two statistics as a number in a range, if that is known; None for another quotient."""
    if below.asked.factor <= 0:
        return None
    factor = rows.quotient.factor * above.asked.factor / below.asked.factor
    if isinstance(above, PreparedSum) and isinstance(below, PreparedCount):
        return _mean(above, below, factor) if rows.windows == (None, None) else None
    if not isinstance(above, PreparedCount) or not isinstance(below, PreparedCount) or not below.where <= above.where:
        return None
    is_part = below.part is ALL or (below.part, below.measure) == (above.part, above.measure)
    if not is_part:
        return None
    part, of = (
        rows.added(at, prepared_count.by.sql(prepared_count.cells, prepared_count.where))
        for at, prepared_count in enumerate((above, below))
    )
    places = [_gathered(rows, at, prepared_count.moved.places) for at, prepared_count in enumerate((above, below))]
    both = Quotients(above.moved, below.by_parts_of(above.measure))
    return PreparedBetween(part, of, f"{of} >= 1", factor, both=both, places=places)


def _mean(above: PreparedSum, below: PreparedCount, factor: Fraction) -> Interval | None:
    """A sum by a count, if that is a mean: of the values, or of all records, where those without one count as 0."""
    measure, missing = above.found.measure, above.missing
    if above.asked.where != below.where:
        return None
    if below.part is ALL:
        if not measure.missing:
            return None
        missing = missing or Fraction(0)
    elif below.part is not VALUES or missing is not None or not _are_of_one(measure, below.measure):
        return None
    mean = PreparedMean(above.asked, above.node, above.cells, above.found, above.type, above.prepared, missing)
    return Multiplied(mean, factor)


def _are_of_one(sums: Sums, other: Measure) -> bool:
    """Whether two measures are of the values of one column."""
    return isinstance(other, Sums) and other.number.column == sums.number.column


def _gathered(rows: Rows, side: int, places: str) -> str:
    """The places of all rows that are added up on a side, as SQL."""
    window = rows.windows[side]
    if window is None:
        return places
    copy = window.copy()
    copy.set("this", sqlglot.parse_one(f"list({places})", read=DIALECT))
    return f"flatten({copy.sql(DIALECT)})"
