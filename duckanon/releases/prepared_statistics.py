"""Statistics that follow from a preparation: as over an answer of its own, with intervals by the cells of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import sqlglot

from duckanon.releases.divided import Kept, Multiplied
from duckanon.releases.measures import Measure
from duckanon.releases.prepared_noise import PreparedNoise, Quotients
from duckanon.releases.statistics import OTHER_SIDE, Count, Mean, Share, Sum, Told, double, times
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
    """A number of records. moved: by its noise."""

    moved: PreparedNoise

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        return None if self.moved.rows is None else self.moved.records() * abs(float(self.asked.factor))

    @property
    def noise(self) -> tuple[Any, int] | None:  # type: ignore[override] # as above
        return None if self.moved.rows is None else (self.moved, 1)


@dataclass(frozen=True)
class PreparedShare(Share):
    """A part of records."""

    prepared: Cells
    measure: Measure

    @property
    def _both(self) -> Quotients:
        one = (Fraction(1),)
        return Quotients(
            self.prepared.noise(self.measure, one, self.asked.where, self.asked.of),
            self.prepared.noise(self.measure, one, self.asked.of),
        )

    def end(self, side: str) -> str:
        return times(self._both.end_sql(self._turned(side), *self._numbers), self.asked.factor)

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        most = self._both.most
        return None if most is None else most * abs(float(self.asked.factor))


@dataclass(frozen=True)
class PreparedSum(Sum):
    """A sum of clamped values."""

    prepared: Cells

    @property
    def _noises(self) -> list[PreparedNoise]:  # type: ignore[override] # used alike
        low, high = self._least, self.found.measure.number.high
        moved = dict.fromkeys((-self.error, self.error))
        return [
            self.prepared.noise(self.found.measure, (low + one, high + one, Fraction(0)), self.asked.where)
            for one in moved
        ]

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        return None if self._noises[0].rows is None else super().half


@dataclass(frozen=True)
class PreparedMean(Mean):
    """A mean of clamped values: the part of the way from the least value to the largest, by two totals of one table."""

    prepared: Cells

    @property
    def _both(self) -> Quotients:
        up, counted = (Fraction(0), Fraction(1), Fraction(0)), (Fraction(1), Fraction(1), Fraction(0))
        return Quotients(*(self.prepared.noise(self.found.measure, one, self.asked.where) for one in (up, counted)))

    def end(self, side: str) -> str:
        n, s = self._sum("n"), self._sum("s")
        above = f"(({s} - {double(self._least)} * {n}) / {double(self._reach)})"
        # Of a number that falls as the column grows the way is turned around.
        way = self._both.end_sql(side if self._reach > 0 else OTHER_SIDE[side], above, n)
        moved = f"{double(self._least)} + {double(self._reach)} * {way} {'-' if side == 'low' else '+'}"
        return self._clamped(f"({moved} {float(self.error)!r})")

    @property
    def half(self) -> float | None:  # type: ignore[override] # of many cells it is not looked at
        most = self._both.most
        return None if most is None else most * abs(float(self._reach))

    def _clamped(self, value: str) -> str:
        least, most = sorted((self._least, self.found.measure.number.high))
        return f"least(greatest({value}, {double(least)}), {double(most)})"


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
        is_mean = rows.windows == (None, None) and below.by.columns == (above.found.columns["n"],)
        if is_mean and not above.asked.where and below.asked.where - above.asked.where == below.where:
            mean = PreparedMean(above.asked, above.node, above.cells, above.found, above.type, above.prepared)
            return Multiplied(mean, factor)
        return None
    if not isinstance(above, PreparedCount) or not isinstance(below, PreparedCount):
        return None
    if not below.asked.where <= above.asked.where or above.by.columns != below.by.columns:
        return None
    part, of = (rows.added(at, one.by.sql(one.cells, one.where)) for at, one in enumerate((above, below)))
    places = [_gathered(rows, at, one.moved.places) for at, one in enumerate((above, below))]
    both = Quotients(above.moved, below.moved)
    return PreparedBetween(part, of, f"{of} >= 1", factor, both=both, places=places)


def _gathered(rows: Rows, side: int, places: str) -> str:
    """The places of all rows that are added up on a side, as SQL."""
    window = rows.windows[side]
    if window is None:
        return places
    copy = window.copy()
    copy.set("this", sqlglot.parse_one(f"list({places})", read=DIALECT))
    return f"flatten({copy.sql(DIALECT)})"
