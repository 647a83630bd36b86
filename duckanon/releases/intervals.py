"""How far noise moves a number: 95 % intervals, from the kind of noise and the number of noisy totals alone.

`duckanon.engines.noise_tails` has the probabilities. How many totals are added up is known only where the query runs,
so the ends of intervals are calls of functions in SQL (`duckanon.functions.noise_widths`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from duckanon.engines.noise import Noise
from duckanon.engines.noise_tails import Kind, quotient_widths, width

# A number of SQL.
NOTHING = "CAST('0.0' AS DOUBLE)"


@dataclass(frozen=True)
class Noisy:
    """A number that is told: in each cell totals with independent noise of one kind are added up, each times a weight.

    each: the noise of a total. weights: of the totals of one cell.
    """

    each: Noise
    weights: tuple[Fraction, ...]

    def width(self, cells: int) -> Fraction:
        """How far 95 % are from the truth at most, or hardly more, where so many cells are added up."""
        return width(self.each, [Kind(weight, cells) for weight in self.weights], rough=True)

    def records(self, cells: int) -> int:
        """The same for a count, which is rounded: noise of less than half a record more does not show."""
        return floor(self.width(cells) + Fraction(1, 2))

    def fine(self, cells: int) -> float:
        """As `width`, proportional to the scale: for equal weights and noise so fine that it is continuous."""
        return float(self.weights[0]) * self.each.smooth_width(cells * len(self.weights))

    def width_sql(self, cells: str) -> str:
        """The same as SQL: the least such number. cells: their number, as SQL."""
        return f"_dk_width('{self.each.text}', '{_written(self.weights)}', {cells})"

    def most_sql(self, number: str, cells: str) -> str:
        """What the true number is at most, but for one of 10^12 draws, as SQL; for equal weights.

        number: with its noise. cells: how many it adds up.
        """
        return f"(greatest({number}, 0) + {self.each.most_sql(self.weights[0], len(self.weights), cells)})"


@dataclass(frozen=True)
class Quotient:
    """A quotient of two such numbers: below adds up totals, and above the same totals, each times a value from 0 to 1.

    each: the noise of a total. unit: what a total of 1 adds to below. values: of the kinds of totals.
    """

    each: Noise
    unit: Fraction
    values: tuple[Fraction, ...]

    @property
    def divisor(self) -> Noisy:
        """The noise of below, for one total of each kind."""
        return Noisy(self.each, (self.unit,) * len(self.values))

    def width(self, counts: Sequence[int]) -> float:
        """For 95 % how far the quotient is from the true one at most, times the noisy divisor. counts: of each kind."""
        kinds = tuple(Kind(weight, count) for weight, count in zip(self.values, counts, strict=True))
        return quotient_widths(self.each, kinds).most * float(self.unit)

    def end_sql(self, side: str, above: str, below: str, counts: Sequence[str], more: str = NOTHING) -> str:
        """An end of the interval of the quotient, from 0 to 1, as SQL. counts: of each kind of totals, as SQL.

        more: as SQL, how far above - q below can be from what the noise makes of it, for any quotient q.
        """
        constants = f"'{side}', '{self.each.text}', '{self.unit}', '{_written(self.values)}'"
        return f"_dk_quotient_end({constants}, {above}, {below}, {more}, {', '.join(counts)})"


def _written(numbers: Sequence[Fraction]) -> str:
    return " ".join(map(str, numbers))
