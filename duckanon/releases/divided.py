"""Quotients of two statistics over the cells of an answer that lie in a range: shares, odds and means. Most have an
interval.

A count by another is a share if the records that it counts are among those of the other, and odds if none of them is.
A sum by another is a share, too, of values that are not negative. A sum by a count is a mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from duckanon.releases.intervals import NOTHING, Quotient
from duckanon.releases.statistics import OTHER_SIDE, Count, Counted, CountOfDifferent, Mean, Sum, Told, double, times
from duckanon.rewrite.algebra.expressions import Expr
from duckanon.rewrite.normalize.grouped import Interval, NotFollowed, Rows
from duckanon.rewrite.recognize.aggregates import present_operand

_NO_ENDS = (
    "This quotient is kept between its bounds, but how far noise moves it is not followed: ask for low and high of "
    "shares and means of one column in a query without sums of others and without variances, or of its two numbers."
)


@dataclass(frozen=True)
class Kept:
    """A quotient that lies in a range: `start` and `reach` say which, before it is multiplied by `factor`.

    above, below: SQL, such that above / below is how far it is on the way through the range. enough: a condition,
    without which it is NULL.
    """

    above: str
    below: str
    enough: str
    factor: Fraction
    start: Fraction = Fraction(0)
    reach: Fraction = Fraction(1)

    @property
    def value(self) -> str:
        way = f"least(greatest(CAST({self.above} AS DOUBLE) / {self.below}, 0), 1)"
        return f"(CASE WHEN {self.enough} THEN {self._placed(way)} END)"

    def end(self, side: str) -> str:  # noqa: ARG002 # those that have ends use it
        """Raises NotFollowed: the noise of what is divided and that of the divisor are not followed together."""
        raise NotFollowed(_NO_ENDS)

    def _placed(self, way: str) -> str:
        is_all = self.start == 0 and self.reach == 1
        there = way if is_all else f"({double(self.start)} + {double(self.reach)} * {way})"
        return times(there, self.factor)


@dataclass(frozen=True)
class Odds:
    """A count by that of other records: s / (1 - s), if s is the first's share of both, and it grows with that.

    above, below: SQL. noise: of the share. counts: as SQL, how many totals there are of the one and of the other.
    """

    above: str
    below: str
    noise: Quotient
    counts: Sequence[str]
    factor: Fraction

    @property
    def value(self) -> str:
        odds = f"greatest(CAST({self.above} AS DOUBLE) / {self.below}, 0)"
        return f"(CASE WHEN {self.below} >= 1 THEN {times(odds, self.factor)} END)"

    def end(self, side: str) -> str:
        """Infinite where there may be none of the others."""
        turned = side if self.factor > 0 else OTHER_SIDE[side]
        share = self.noise.end_sql(turned, self.above, f"({self.above} + {self.below})", self.counts)
        odds = f"coalesce(1 / nullif(1 - {share}, 0) - 1, CAST('infinity' AS DOUBLE))"
        return times(odds, self.factor)


@dataclass(frozen=True)
class Between(Kept):
    """One that has an interval.

    counts: as SQL, how many totals there are of each value of the noise. more: as SQL, how far rounding of values moves
    above at most, for any quotient. error: how far it moves the way through the range.
    """

    noise: Quotient = field(kw_only=True)
    counts: Sequence[str] = field(kw_only=True)
    more: str = field(default=NOTHING, kw_only=True)
    error: float = field(default=0.0, kw_only=True)

    def end(self, side: str) -> str:
        turned = side if self.factor > 0 else OTHER_SIDE[side]
        way = self.noise.end_sql(turned, self.above, self.below, self.counts, self.more)
        if self.error:
            moved = f"{way} {'-' if turned == 'low' else '+'} CAST('{self.error!r}' AS DOUBLE)"
            way = f"least(greatest({moved}, 0), 1)"
        return self._placed(way)


@dataclass(frozen=True)
class Multiplied:
    """A number with an interval, times a factor."""

    of: Mean
    factor: Fraction

    @property
    def value(self) -> str:
        return times(self.of.value, self.factor)

    def end(self, side: str) -> str:
        return times(self.of.end(side if self.factor > 0 else OTHER_SIDE[side]), self.factor)


def divided(above: Told, below: Told, rows: Rows) -> Interval | None:
    """The quotient of two statistics as a number in a range, if that is known; None for another quotient."""
    if below.asked.factor <= 0:
        return None
    factor = rows.quotient.factor * above.asked.factor / below.asked.factor
    if isinstance(above, Sum) and isinstance(below, Count):
        return None if below.asked.own else _mean(above, below, rows, factor)
    if isinstance(above, Count) and isinstance(below, Count) and above.cells.are_apart(above.where, below.where):
        return _odds(above, below, factor) if rows.windows == (None, None) else None
    if not _counted(below) <= _counted(above):
        return None
    if isinstance(above, Count) and isinstance(below, Count):
        return _share_of_counts(above, below, rows, factor)
    if isinstance(above, Sum) and isinstance(below, Sum):
        return _share_of_sums(above, below, rows, factor)
    return None


def _counted(statistic: Told) -> frozenset[Expr]:
    """The conditions on what a statistic is of."""
    return statistic.asked.where | statistic.asked.own


def _share_of_counts(above: Count, below: Count, rows: Rows, factor: Fraction) -> Interval | None:
    """The records that are counted above are among those below; counted by the same noisy totals it has an interval."""
    noise, whole = above.by.noise, below.by.noise
    part, of = (rows.added(at, count.by.sql(count.cells, count.where)) for at, count in enumerate((above, below)))
    enough = f"{of} >= 1"
    if not set(above.by.columns) <= set(below.by.columns):
        if isinstance(below, CountOfDifferent):
            # Of records there may be more.
            return None
        return Kept(part, of, enough, factor)
    counts = [
        rows.added(at, f"{len(count.by.noise.weights)} * {count.cells.count(count.where)}")
        for at, count in enumerate((above, below))
    ]
    share = Quotient(whole.each, whole.weights[0], _SHARE)
    assert (noise.each, noise.weights[0]) == (whole.each, whole.weights[0])
    return Between(part, of, enough, factor, noise=share, counts=_apart(*counts))


def _odds(above: Count, below: Count, factor: Fraction) -> Interval | None:
    if above.by != below.by:
        return None
    noise = above.by.noise
    counts = [f"{len(noise.weights)} * {count.cells.count(count.where)}" for count in (above, below)]
    some, others = (count.by.sql(count.cells, count.where) for count in (above, below))
    return Odds(some, others, Quotient(noise.each, noise.weights[0], _SHARE), counts, factor)


def _share_of_sums(above: Sum, below: Sum, rows: Rows, factor: Fraction) -> Interval | None:
    """In records of the largest value: its total is all that is added up, if the least value is 0."""
    measure = above.found.measure
    least, most = Fraction(measure.number.low), measure.number.high
    if above.found != below.found or least < 0 or most == 0:
        return None
    part, of = (rows.added(at, f"({side.total} / {double(most)})") for at, side in enumerate((above, below)))
    if measure.squares or least:
        return Kept(part, of, f"{of} > 0", factor)
    cells = [rows.added(at, side.cells.count(side.asked.where)) for at, side in enumerate((above, below))]
    noise = measure.quotient(above.found.noise, _SHARE)
    more = NOTHING
    if above.error:
        # For a true share q, above - q below is noise, and for each value at most so much: 1 - q or q times the error.
        records = rows.added(1, below.cells.sum(below.found.columns["n"], below.asked.where))
        more = f"({double(above.error / most)} * {measure.counted(above.found.noise).most_sql(records, cells[1])})"
    return Between(part, of, f"{of} > 0", factor, noise=noise, counts=_apart(*cells), more=more)


# The values of totals in a share: of those in the part, and of the rest.
_SHARE = (Fraction(1), Fraction(0))


def _apart(part: str, whole: str) -> list[str]:
    """How many totals there are in the part, and in the rest."""
    return [f"CAST({part} AS BIGINT)", f"CAST({whole} - {part} AS BIGINT)"]


def _mean(above: Sum, below: Count, rows: Rows, factor: Fraction) -> Interval | None:
    """The mean of those that have a value, or of all, where the others count as 0."""
    measured, measure = above.found, above.found.measure
    is_one_row = rows.windows == (None, None)
    if is_one_row and below.by == Counted.by(measured) and not above.asked.where and not below.where:
        return Multiplied(Mean(above.asked, above.node, above.cells, measured, above.type), factor)
    of_values = {
        condition for condition in below.asked.where if present_operand(frozenset({condition})) == above.asked.operand
    }
    counted = below.asked.where - of_values
    if isinstance(below, CountOfDifferent) or not counted <= above.asked.where:
        return None
    low, high = Fraction(measure.number.low), measure.number.high
    start, end = low, high
    if not is_one_row or not of_values or counted != above.asked.where:
        start, end = min(low, Fraction(0)), max(high, Fraction(0))
    total, of = rows.added(0, above.total), rows.added(1, below.by.sql(below.cells, below.where))
    way = f"(({total} - {double(start)} * {of}) / {double(end - start)})"
    kept = Kept(way, of, f"{of} >= 1", factor, start, end - start)
    beside = measure.missing and below.by == Counted.beside(measured)
    if not is_one_row or not beside or below.where != above.asked.where or measure.squares:
        return kept
    positions = tuple((number - start) / (end - start) for number in (low, high, Fraction(0)))
    noise = measure.quotient(measured.noise, positions)
    cells = above.cells.count(above.asked.where)
    error = float(above.error / (end - start))
    return Between(**vars(kept), noise=noise, counts=[cells] * 3, error=error)
