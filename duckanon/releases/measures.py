"""What can be measured in the cells of an answer: a class for each measure, with all that belongs to it.

A measure says what it takes of a record (as SQL that bounds it and cannot fail), how much one unit changes it, which
totals are added up, how they get noise, what that costs, which columns of the answer they become, how far noise moves
the numbers, and its words in the ledger. A new measure is a class here.

The scale of a measure's noise is given in records: it is the measure's sensitivity by its share of epsilon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.catalog.names import fold, quoted
from duckanon.engines.quantiles import quantile
from duckanon.engines.randomness import Source, double_geometric, wide_double_geometric
from duckanon.releases.intervals import Noisy, Quotient

# Totals: int64, or whole numbers of any size where they are wide.
Ints = npt.NDArray[Any]
# Up to so many parts of a record their totals fit into 64 bits, for 9 * 10^10 records.
_NARROW = 10**8
# The most digits after the point of sums that are told as decimals, and of a step without its point.
_MOST_DIGITS, _LONGEST_STEP = 12, 10**5
# The most cells of an answer, and combinations of keys behind them.
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Number:
    """A column of numbers with declared bounds, as whole steps from 0 to `steps`: clamped, then rounded to a step.

    low, step: as fractions in text. The largest value is low + steps * step.
    """

    column: str
    low: str
    step: str
    steps: int

    @property
    def high(self) -> Fraction:
        return Fraction(self.low) + self.steps * Fraction(self.step)

    @property
    def sql(self) -> str:
        """The number of a record as steps from the least value; NULL for NULL. It cannot fail: NaN is the largest."""
        value = f"CAST({quoted([self.column])} AS DOUBLE)"
        low, high, step = (
            f"CAST('{float(each)!r}' AS DOUBLE)" for each in (Fraction(self.low), self.high, Fraction(self.step))
        )
        clamped = f"system.main.least(system.main.greatest({value}, {low}), {high})"
        steps = f"CAST(system.main.round(({clamped} - {low}) / {step}) AS BIGINT)"
        kept = f"system.main.least(system.main.greatest({steps}, 0), {self.steps})"
        return f"(CASE WHEN {quoted([self.column])} IS NOT NULL THEN {kept} END)"

    @property
    def decimals(self) -> int | None:
        """The digits after the point of its steps, where sums of them are told as decimals; else None."""
        step = Fraction(self.step)
        found = next((at for at in range(_MOST_DIGITS + 1) if (step * 10**at).denominator == 1), None)
        is_plain = found is not None and step * 10**found <= _LONGEST_STEP
        return found if is_plain and (Fraction(self.low) / step).denominator == 1 else None


@dataclass(frozen=True)
class Computed(Number):
    """A number that is computed from columns with bounds. column: how it is written, for people.

    value: its steps from the least value, as SQL. error: how far it is at most from the number without rounding.
    """

    value: str
    error: str

    @property
    def sql(self) -> str:
        return self.value


@dataclass(frozen=True)
class Measure(ABC):
    """What all measures have in common; most count.

    kind: in a question's key. type: of its columns, in DuckDB. clamps: whether values are clamped to bounds. adds_up:
    whether the number of two cells together is the sum of theirs. numbers: how many are told that need noise of their
    own. steps: the largest value that is counted one by one, where totals do not do.
    most_cells: how many cells an answer may have.
    """

    kind: ClassVar[str] = ""
    type: ClassVar[str] = "BIGINT"
    clamps: ClassVar[bool] = False
    adds_up: ClassVar[bool] = True
    most_cells: ClassVar[int] = MOST_CELLS

    @property
    def source(self) -> str:
        """The column that it is computed from, folded; empty if it is none."""
        return ""

    @property
    def value(self) -> str | None:
        """What it takes of a record, bounded, as SQL that cannot fail; None for nothing."""
        return None

    @property
    def numbers(self) -> int:
        return 1

    @property
    def steps(self) -> int | None:
        return None

    @abstractmethod
    def words(self, unit: str | None) -> str:
        """For the ledger. unit: the privacy unit's column."""

    def columns(self, at: int) -> dict[str, str]:
        """Its columns in an answer, by what they hold. at: its position among the measures."""
        return {"n": f"n{at}"}

    def types(self, at: int) -> dict[str, str]:
        """The types of its columns in an answer, in DuckDB."""
        return dict.fromkeys(self.columns(at).values(), self.type)

    # --- sensitivity and noise ----------------------------------------------------------------------------------------

    def sensitivity(self, contributions: int, *, is_alone: bool) -> int:
        """How much one unit changes it in all cells together, in records.

        contributions: how many records of a unit count. is_alone: whether there is a single cell.
        """
        return contributions

    @property
    def whole(self) -> int:
        """What one record adds in all: totals are whole numbers of such parts."""
        return 1

    @property
    def is_wide(self) -> bool:
        """Whether totals may leave 64 bits, whatever the number of records: by its parts alone, which are public."""
        return self.whole > _NARROW

    @property
    def is_whole(self) -> bool:
        """Whether its columns are whole numbers."""
        return self.type == "BIGINT"

    def parts(self, scale: Fraction) -> Fraction:
        """The scale of the noise that is added to totals, which are counted in parts of a record."""
        return scale * self.whole

    def loss(self, scale: Fraction, records: int) -> Fraction:
        """What its noise costs: the largest privacy loss if a unit changes so many records' worth of totals."""
        return records * self.whole / self.parts(scale)

    def noised(self, exactly: Ints, scale: Fraction, source: Source) -> Ints:
        """The totals with discrete Laplace noise. exactly: as `mechanisms.totals` has them."""
        drawn = wide_double_geometric if self.is_wide else double_geometric
        found: Ints = exactly + drawn(self.parts(scale), exactly.shape, source)
        return found

    # --- totals and what is told of them ------------------------------------------------------------------------------

    def totals(self, value: str) -> list[str]:
        """Its totals over the records of a cell, as SQL. value: the column of what it takes of them."""
        return ["system.main.count(*)"]

    def decoded(self, noisy: Ints) -> list[Any]:
        """The columns of an answer, in the order of `columns`."""
        return [noisy[:, 0]]

    def counted(self, scale: Fraction) -> Noisy | None:
        """The noise of the count behind its numbers; None if it has none."""
        return Noisy(scale, (Fraction(1),))


@dataclass(frozen=True)
class Records(Measure):
    """How many records there are: the column n."""

    kind: ClassVar[str] = "records"

    def words(self, unit: str | None) -> str:
        return "count of records"


@dataclass(frozen=True)
class Units(Measure):
    """How many different privacy units there are: the column n. A unit adds at most one to a cell.

    With R records that count, a unit lies in at most R cells, and in no more than there are: so it changes the answer
    by min(R, cells) in all, and no more. That is reached by a unit with a record in each of so many cells. The number
    of cells follows from the domains and the conditions on keys, so it is public.

    cells: that number where it is less than R, else None.
    """

    kind: ClassVar[str] = "units"
    adds_up: ClassVar[bool] = False

    cells: int | None = None

    def sensitivity(self, contributions: int, *, is_alone: bool) -> int:
        return 1 if is_alone else min(contributions, self.cells or contributions)

    def totals(self, value: str) -> list[str]:
        return ["system.main.count(DISTINCT u)"]

    def words(self, unit: str | None) -> str:
        return f"count of different {unit}"


@dataclass(frozen=True)
class Different(Measure):
    """How many different values of a column there are: the column n. A record adds at most one to its cell."""

    kind: ClassVar[str] = "different"
    adds_up: ClassVar[bool] = False

    column: str

    @property
    def source(self) -> str:
        return fold(self.column)

    @property
    def value(self) -> str:
        return quoted([self.column])

    def totals(self, value: str) -> list[str]:
        return [f"system.main.count(DISTINCT {value})"]

    def words(self, unit: str | None) -> str:
        return f"count of different {self.column}"


@dataclass(frozen=True)
class _OfNumber(Measure):
    """A measure of the values of a number."""

    type: ClassVar[str] = "DOUBLE"
    clamps: ClassVar[bool] = True

    number: Number

    @property
    def source(self) -> str:
        return fold(self.number.column)

    @property
    def value(self) -> str:
        return self.number.sql


@dataclass(frozen=True)
class Sums(_OfNumber):
    """How many records have a value of a number, its sum, and the sum of its squares: the columns n, s and q.

    A record with the value x, as a share t of the way from the least value to the largest, adds 1 - t to one total and
    t to another; for squares (1 - t)^2, 2 t (1 - t) and t^2 to three (the Bernstein polynomials). So it adds 1 in all,
    whatever x is, and all columns follow from the totals. missing: whether records without a value are counted, in the
    column z.
    """

    kind: ClassVar[str] = "sums"

    squares: bool = False
    missing: bool = False

    @property
    def degree(self) -> int:
        return 2 if self.squares else 1

    @property
    def whole(self) -> int:
        return int(self.number.steps**self.degree)

    def columns(self, at: int) -> dict[str, str]:
        return {name: f"{name}{at}" for name in ("n", "s", *("q" * self.squares), *("z" * self.missing))}

    def totals(self, value: str) -> list[str]:
        up, down = value, f"({self.number.steps} - {value})"
        parts = [f"{down} * {down}", f"2 * {up} * {down}", f"{up} * {up}"] if self.squares else [down, up]
        found = [f"coalesce(system.main.sum({one}), 0)" for one in parts]
        missing = f"CAST(system.main.count(*) FILTER (WHERE {value} IS NULL) AS HUGEINT) * {self.whole}"
        return [*found, missing] if self.missing else found

    def decoded(self, noisy: Ints) -> list[Any]:
        low = float(Fraction(self.number.low))
        parts, width = (noisy / self.whole).astype(np.float64), float(self.number.high) - low
        ends = parts[:, : self.degree + 1]
        n = ends.sum(axis=1)
        way = ends[:, 1] / 2 + ends[:, 2] if self.squares else ends[:, 1]
        if self.decimals is not None:
            return [n, self._sum(noisy), *([parts[:, -1]] if self.missing else [])]
        squares = [low**2 * n + 2 * low * width * way + width**2 * ends[:, 2]] if self.squares else []
        return [n, low * n + width * way, *squares, *([parts[:, -1]] if self.missing else [])]

    @property
    def decimals(self) -> int | None:
        """The digits after the point of its sum, if that is a decimal: a DOUBLE would not hold all its steps."""
        return self.number.decimals if self.is_wide and not self.squares else None

    def types(self, at: int) -> dict[str, str]:
        found = super().types(at)
        return found if self.decimals is None else {**found, self.columns(at)["s"]: f"DECIMAL(38,{self.decimals})"}

    def _sum(self, noisy: Ints) -> pa.Array:
        """The sum of each cell to the step: exact where there is no noise."""
        low, step, digits = Fraction(self.number.low), Fraction(self.number.step), self.decimals or 0
        first, times = int(low / step), int(step * 10**digits)
        exact = Context(prec=60)
        found = [
            Decimal((up + round(Fraction(first * (down + up), self.whole))) * times).scaleb(-digits, exact)
            for down, up in noisy[:, :2].tolist()
        ]
        return pa.array(found, pa.decimal128(38, digits))

    def counted(self, scale: Fraction) -> Noisy:
        """The noise of the number of values."""
        return self.mean(scale).divisor

    def records(self, scale: Fraction) -> Noisy:
        """The noise of the number of records, with a value or without one; so `missing` holds."""
        return self._weighted(scale, [Fraction(1)] * (self.degree + 2))

    def sums(self, scale: Fraction, error: Fraction) -> list[Noisy]:
        """The noise of the sum. The width of each of them is enough, beside the rounding of each counted value.

        A sum is told by s, and the values that were rounded by at most `error` each by n: for N true values an interval
        s -+ (w + error max(n, 0)) misses the true sum if the noise of s is more than w + error (n - N), to one side, so
        its weights change by `error`; and to the other side.
        """
        low, high = Fraction(self.number.low), self.number.high
        ends = [low, (low + high) / 2, high] if self.squares else [low, high]
        return [self._weighted(scale, [one + moved for one in ends]) for moved in dict.fromkeys((-error, error))]

    def mean(self, scale: Fraction) -> Quotient:
        """The noise of the mean, as a share of the way from the least value to the largest."""
        values = tuple(Fraction(at, self.degree) for at in range(self.degree + 1))
        return Quotient(self.parts(scale), Fraction(1, self.whole), values)

    def _weighted(self, scale: Fraction, weights: Sequence[Fraction]) -> Noisy:
        """weights: what a whole record in each of the totals adds."""
        return Noisy(self.parts(scale), tuple(one / self.whole for one in weights))

    def words(self, unit: str | None) -> str:
        return f"count, sum{' and sum of squares' if self.squares else ''} of {self.number.column}"


@dataclass(frozen=True)
class Quantiles(_OfNumber):
    """Quantiles of a number: the columns m0, m1, ...; at: their positions, as fractions in text from 0 to 1.

    They are chosen by permute-and-flip among all steps. A record moves the losses of one cell only, each by at most
    their sensitivity, so the records of one unit change all choices together by no more than a shift of the counts by
    as many records.
    """

    kind: ClassVar[str] = "quantiles"
    adds_up: ClassVar[bool] = False
    # Each cell's quantiles are chosen among all steps.
    most_cells: ClassVar[int] = 100_000

    at: tuple[str, ...]

    @property
    def numbers(self) -> int:
        return len(self.at)

    @property
    def steps(self) -> int:
        return self.number.steps

    def columns(self, at: int) -> dict[str, str]:
        return {place: f"m{at}_{which}" for which, place in enumerate(self.at)}

    def totals(self, value: str) -> list[str]:
        """None: the records of each value are counted."""
        return []

    def price(self, scale: Fraction) -> Fraction:
        """What one quantile costs for one record."""
        return 1 / (scale * len(self.at))

    def loss(self, scale: Fraction, records: int) -> Fraction:
        return records * len(self.at) * self.price(scale)

    def noised(self, exactly: Ints, scale: Fraction, source: Source) -> Ints:
        """The numbers of the chosen steps."""
        price = self.price(scale)
        return np.array(
            [[quantile(one, Fraction(place), price, source) for place in self.at] for one in exactly], dtype=np.int64
        ).reshape(len(exactly), len(self.at))

    def decoded(self, noisy: Ints) -> list[Any]:
        low, step = float(Fraction(self.number.low)), float(Fraction(self.number.step))
        return [low + noisy[:, at] * step for at in range(len(self.at))]

    def counted(self, scale: Fraction) -> Noisy | None:
        return None

    def words(self, unit: str | None) -> str:
        return f"quantiles {', '.join(self.at)} of {self.number.column}"


def shared(measures: Sequence[Measure], contributions: int, *, is_alone: bool) -> tuple[tuple[Measure, Fraction], ...]:
    """The measures with their shares of epsilon, so that the sum of the squares of their noise is least.

    The noise of a measure of sensitivity d with the share e has the scale d / e, so shares go with the power 2/3 of d.
    Each of several quantiles counts for itself.
    """
    needs = [one.sensitivity(contributions, is_alone=is_alone) ** (2 / 3) * one.numbers for one in measures]
    parts = [max(1, round(1000 * one / sum(needs))) for one in needs]
    return tuple((one, Fraction(part, sum(parts))) for one, part in zip(measures, parts, strict=True))
