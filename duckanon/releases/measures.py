"""What can be measured in the cells of an answer: a class for each measure, with all that belongs to it.

A measure says what it takes of a record (as SQL that bounds it and cannot fail), how much one unit changes it, which
totals are added up, how they get noise, what that costs, which columns of the answer they become, how far noise moves
the numbers, and its words in the ledger. A new measure is a class here.

The noise of a measure is given in records; what is drawn is added to totals, which are counted in parts of a record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from math import inf, lcm, sqrt
from operator import mul
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.catalog.names import fold, quoted
from duckanon.engines.noise import Noise
from duckanon.engines.quantiles import Choice, Exponential, PermuteAndFlip
from duckanon.engines.randomness import Source
from duckanon.governance.noise_prices import Moved, Spent, bought, concentrated, pure, spent
from duckanon.releases.intervals import Noisy, Quotient
from duckanon.releases.steps import in_steps
from duckanon.renyi import Renyi

# Totals: int64, or whole numbers of any size where they are wide.
Ints = npt.NDArray[Any]
# Up to so many parts of a record their totals fit into 64 bits, for 9 * 10^10 records.
_NARROW = 10**8
# The most digits after the point of sums that are told as decimals, and of a step without its point.
_MOST_DIGITS, _LONGEST_STEP = 12, 10**5
# Whole numbers up to this are floats, and the quotient of two is the nearest one.
_EXACT_IN_FLOATS = 2**53
# The most cells of an answer, and combinations of keys behind them.
MOST_CELLS = 1_000_000


@dataclass(frozen=True)
class Number:
    """A column of numbers with declared bounds, as whole steps from 0 to `steps`: clamped, then rounded to a step.

    low, step: as fractions in text. The largest value is low + steps * step. type: the column's, where it is known: of
    whole numbers and decimals the steps are found without floats.
    """

    column: str
    low: str
    step: str
    steps: int
    type: str = ""

    @property
    def high(self) -> Fraction:
        return Fraction(self.low) + self.steps * Fraction(self.step)

    @property
    def sql(self) -> str:
        """The number of a record as steps from the least value; NULL for NULL. It cannot fail: NaN is the largest."""
        exact = in_steps(quoted([self.column]), self.type, Fraction(self.low), Fraction(self.step), self.steps)
        if exact is not None:
            return exact
        value = f"CAST({quoted([self.column])} AS DOUBLE)"
        low, high, step = (
            f"CAST('{float(bound)!r}' AS DOUBLE)" for bound in (Fraction(self.low), self.high, Fraction(self.step))
        )
        clamped = f"system.main.least(system.main.greatest({value}, {low}), {high})"
        steps = f"CAST(system.main.round(({clamped} - {low}) / {step}) AS BIGINT)"
        kept = f"system.main.least(system.main.greatest({steps}, 0), {self.steps})"
        return f"(CASE WHEN {quoted([self.column])} IS NOT NULL THEN {kept} END)"

    @property
    def decimals(self) -> int | None:
        """The digits after the point of its steps, where sums of them are told as decimals; else None."""
        step = Fraction(self.step)
        number = next((at for at in range(_MOST_DIGITS + 1) if (step * 10**at).denominator == 1), None)
        is_plain = number is not None and step * 10**number <= _LONGEST_STEP
        return number if is_plain and (Fraction(self.low) / step).denominator == 1 else None


@dataclass(frozen=True)
class Computed(Number):
    """A number that is computed from columns with bounds. column: how it is written, for people.

    value: its steps from the least value, as SQL. error: how far it is at most from the number without rounding.
    """

    value: str = ""
    error: str = "0"

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
    def words(self, unit: str | None, called: Callable[[str], str] = str) -> str:
        """For the ledger. unit: the privacy unit's column. called: the statement's name of a column."""

    def columns(self, at: int) -> dict[str, str]:
        """Its columns in an answer, by what they hold. at: its position among the measures."""
        return {"n": f"n{at}"}

    def types(self, at: int) -> dict[str, str]:
        """The types of its columns in an answer, in DuckDB."""
        return dict.fromkeys(self.columns(at).values(), self.type)

    # --- sensitivity and noise ----------------------------------------------------------------------------------------

    def moved(self, contributions: int, *, is_alone: bool) -> Moved:
        """How much one unit changes it in all cells together, in records.

        contributions: how many records of a unit count. is_alone: whether there is a single cell. A record adds totals
        of 1 or less together, and all that count may lie in one cell and in one total there: so both the distance and
        the root of the squares are as many as count, at most and in that case exactly.
        """
        return Moved(contributions, contributions**2)

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

    def bought(self, price: Fraction, moved: Moved, renyi: Renyi | None) -> Noise | Choice:
        """The noise for a price. moved: how much one unit changes it."""
        return bought(price, moved, renyi, parts=self.whole)

    def spent(self, noise: Noise | Choice, moved: Moved, renyi: Renyi | None) -> Spent:
        """What its noise costs, computed from what is drawn."""
        own = Moved(moved.distance * self.whole, moved.squares * self.whole**2)
        return spent(self._added(noise), own, renyi)

    def noised(self, exactly: Ints, noise: Noise | Choice, source: Source) -> Ints:
        """The totals with noise. exactly: as `aggregates.totals` has them."""
        noisy: Ints = exactly + self._added(noise).draw(exactly.shape, source, is_wide=self.is_wide)
        return noisy

    def _added(self, noise: Noise | Choice) -> Noise:
        """The noise that is added to totals."""
        assert isinstance(noise, Noise)
        return noise.times(self.whole)

    def exceeds(self, noise: Noise | Choice, records: int, drawn: int) -> bool:
        """Whether the noise has a larger scale than so many records, or the totals' than can be drawn."""
        assert isinstance(noise, Noise)
        return noise.exceeds(records) or (not self.is_wide and self._added(noise).exceeds(drawn))

    # --- totals and what is told of them ------------------------------------------------------------------------------

    def totals(self, value: str) -> list[str]:
        """Its totals over the records of a cell, as SQL. value: the column of what it takes of them."""
        return ["system.main.count(*)"]

    def decoded(self, noisy: Ints) -> list[Any]:
        """The columns of an answer, in the order of `columns`."""
        return [noisy[:, 0]]

    def counted(self, noise: Noise | Choice) -> Noisy | None:
        """The noise of the count behind its numbers; None if it has none."""
        assert isinstance(noise, Noise)
        return Noisy(noise, (Fraction(1),))


@dataclass(frozen=True)
class Records(Measure):
    """How many records there are: the column n. where: a condition, as SQL, of those that count."""

    kind: ClassVar[str] = "records"

    where: str | None = None

    @property
    def value(self) -> str | None:
        return self.where

    def totals(self, value: str) -> list[str]:
        return ["system.main.count(*)" if self.where is None else f"system.main.count(*) FILTER (WHERE {value})"]

    def words(self, unit: str | None, called: Callable[[str], str] = str) -> str:
        return f"count of records{_limited(self.where)}"


@dataclass(frozen=True)
class Units(Measure):
    """How many different privacy units there are: the column n. A unit adds at most one to a cell.

    With R records that count, a unit lies in at most R cells, and in no more than there are: so it changes the answer
    by min(R, cells) in all, and no more. That is reached by a unit with a record in each of so many cells. As it is 1
    in each, the squares are as many. The number of cells follows from the domains and the conditions on keys, so it is
    public.

    cells: that number where it is less than R, else None. where: a condition, as SQL, of the records that count.
    """

    kind: ClassVar[str] = "units"
    adds_up: ClassVar[bool] = False

    cells: int | None = None
    where: str | None = None

    @property
    def value(self) -> str | None:
        return self.where

    def moved(self, contributions: int, *, is_alone: bool) -> Moved:
        cells = 1 if is_alone else min(contributions, self.cells or contributions)
        return Moved(cells, cells)

    def totals(self, value: str) -> list[str]:
        return [f"system.main.count(DISTINCT {'u' if self.where is None else f'CASE WHEN {value} THEN u END'})"]

    def words(self, unit: str | None, called: Callable[[str], str] = str) -> str:
        return f"count of different {unit}{_limited(self.where)}"


@dataclass(frozen=True)
class Different(Measure):
    """How many different values of a column there are: the column n. A record adds at most one to its cell.

    All records of a unit may lie in one cell, each with a value that no other unit has there. where: a condition, as
    SQL, of the records that count.
    """

    kind: ClassVar[str] = "different"
    adds_up: ClassVar[bool] = False

    column: str
    where: str | None = None

    @property
    def source(self) -> str:
        return fold(self.column)

    @property
    def value(self) -> str:
        column = quoted([self.column])
        return column if self.where is None else f"CASE WHEN {self.where} THEN {column} END"

    def totals(self, value: str) -> list[str]:
        return [f"system.main.count(DISTINCT {value})"]

    def words(self, unit: str | None, called: Callable[[str], str] = str) -> str:
        return f"count of different {called(self.column)}{_limited(self.where)}"


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
    """How many records have a value of a number, and its sum: the columns n and s; with `squares` the sums of what a
    value is beyond the middle of the bounds, and of the squares of that, too: c and q. A sum of squares itself would
    drown the variance far from 0, in floats.

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
        return {name: f"{name}{at}" for name in ("n", "s", *("cq" * self.squares), *("z" * self.missing))}

    def totals(self, value: str) -> list[str]:
        # By the sums of the steps, and of their squares: each is added up once, whatever it is a part of.
        steps, way = self.number.steps, f"coalesce(system.main.sum({value}), 0)"
        present = f"CAST(system.main.count({value}) AS HUGEINT)"
        totals = [f"{present} * {steps} - {way}", way]
        if self.squares:
            squares = f"coalesce(system.main.sum({value} * {value}), 0)"
            totals = [
                f"{present} * {steps**2} - {2 * steps} * {way} + {squares}",
                f"{2 * steps} * {way} - 2 * {squares}",
                squares,
            ]
        missing = f"CAST(system.main.count(*) FILTER (WHERE {value} IS NULL) AS HUGEINT) * {self.whole}"
        return [*totals, missing] if self.missing else totals

    def decoded(self, noisy: Ints) -> list[Any]:
        parts = (noisy / self.whole).astype(np.float64)
        n = parts[:, : self.degree + 1].sum(axis=1)
        if self.decimals is not None:
            return [n, self._sum(noisy), *([parts[:, -1]] if self.missing else [])]
        low, high = Fraction(self.number.low), self.number.high
        weights = [(low + (high - low) * Fraction(at, self.degree)) / self.whole for at in range(self.degree + 1)]
        squares = []
        if self.squares:
            width, ends = float(high - low), parts[:, : self.degree + 1]
            # (1 - t)^2, 2 t (1 - t) and t^2 as (t - 1/2) and its square.
            down, between, up = np.moveaxis(ends, 1, 0)
            squares = [width * (up - down) / 2, width**2 * (down - between + up) / 4]
        return [n, _nearest_sums(noisy, weights), *squares, *([parts[:, -1]] if self.missing else [])]

    @property
    def decimals(self) -> int | None:
        """The digits after the point of its sum, if that is a decimal: a DOUBLE would not hold all its steps."""
        return self.number.decimals if self.is_wide and not self.squares else None

    def types(self, at: int) -> dict[str, str]:
        types = super().types(at)
        return types if self.decimals is None else {**types, self.columns(at)["s"]: f"DECIMAL(38,{self.decimals})"}

    def _sum(self, noisy: Ints) -> pa.Array:
        """The sum of each cell to the step: exact where there is no noise."""
        low, step, digits = Fraction(self.number.low), Fraction(self.number.step), self.decimals or 0
        first, times = int(low / step), int(step * 10**digits)
        exact, whole = Context(prec=60), self.whole
        # Half a step is rounded up.
        sums = [up + (2 * first * (down + up) + whole) // (2 * whole) for down, up in noisy[:, :2].tolist()]
        return pa.array([Decimal(total * times).scaleb(-digits, exact) for total in sums], pa.decimal128(38, digits))

    def counted(self, noise: Noise | Choice) -> Noisy:
        """The noise of the number of values."""
        return self.mean(noise).divisor

    def records(self, noise: Noise | Choice) -> Noisy:
        """The noise of the number of records, with a value or without one; so `missing` holds."""
        return self._weighted(noise, [Fraction(1)] * (self.degree + 2))

    def sums(self, noise: Noise | Choice, error: Fraction) -> list[Noisy]:
        """The noise of the sum. The width of each of them is enough, beside the rounding of each counted value.

        A sum is told by s, and the values that were rounded by at most `error` each by n: for N true values an interval
        s -+ (w + error max(n, 0)) misses the true sum if the noise of s is more than w + error (n - N), to one side, so
        its weights change by `error`; and to the other side.
        """
        low, high = Fraction(self.number.low), self.number.high
        ends = [low, (low + high) / 2, high] if self.squares else [low, high]
        return [self._weighted(noise, [end + moved for end in ends]) for moved in dict.fromkeys((-error, error))]

    def mean(self, noise: Noise | Choice) -> Quotient:
        """The noise of the mean, as a share of the way from the least value to the largest."""
        ways = tuple(Fraction(at, self.degree) for at in range(self.degree + 1))
        return self.quotient(noise, ways)

    def quotient(self, noise: Noise | Choice, values: tuple[Fraction, ...]) -> Quotient:
        """The noise of a quotient of totals, each times one of the values, by all of them."""
        return Quotient(self._added(noise), Fraction(1, self.whole), values)

    def _weighted(self, noise: Noise | Choice, weights: Sequence[Fraction]) -> Noisy:
        """weights: what a whole record in each of the totals adds."""
        return Noisy(self._added(noise), tuple(weight / self.whole for weight in weights))

    def words(self, unit: str | None, called: Callable[[str], str] = str) -> str:
        return f"count, sum{' and sum of squares' if self.squares else ''} of {called(self.number.column)}"


@dataclass(frozen=True)
class Quantiles(_OfNumber):
    """Quantiles of a number: the columns m0, m1, ...; at: their positions, as fractions in text from 0 to 1.

    They are chosen among all steps, by permute-and-flip or by the exponential mechanism. A record moves the losses of
    one cell only, each by at most their sensitivity, so the records of one unit change all choices together by no more
    than a shift of the counts by as many records. Of ranges, too: where r records lie in a cell the rho is the square
    of r, and these add up to at most the square of all records.
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

    def bought(self, price: Fraction, moved: Moved, renyi: Renyi | None) -> Choice:
        """How each quantile is chosen.

        With a delta, by the exponential mechanism for small prices: its range is up to twice the epsilon of
        permute-and-flip for the same, and at twice it would never be less accurate.
        """
        part = price / len(self.at)
        if renyi is not None and renyi.order * part <= 2:
            return Exponential(renyi.range(part) / moved.distance)
        return PermuteAndFlip((part if renyi is None else renyi.pure(part)) / moved.distance)

    def spent(self, noise: Noise | Choice, moved: Moved, renyi: Renyi | None) -> Spent:
        assert isinstance(noise, Choice)
        number = noise.price * moved.distance
        of_one = concentrated(number**2 / 8, renyi) if isinstance(noise, Exponential) else pure(number, renyi)
        return of_one * len(self.at)

    def noised(self, exactly: Ints, noise: Noise | Choice, source: Source) -> Ints:
        """The numbers of the chosen steps."""
        assert isinstance(noise, Choice)
        return np.array(
            [[noise.choose(counts, Fraction(place), source) for place in self.at] for counts in exactly], dtype=np.int64
        ).reshape(len(exactly), len(self.at))

    def exceeds(self, noise: Noise | Choice, records: int, drawn: int) -> bool:  # nothing is added
        assert isinstance(noise, Choice)
        return 1 / (noise.price * len(self.at)) > records

    def decoded(self, noisy: Ints) -> list[Any]:
        low, step = Fraction(self.number.low), Fraction(self.number.step)
        return [_nearest_sums(noisy[:, [at]], [step], low) for at in range(len(self.at))]

    def counted(self, noise: Noise | Choice) -> Noisy | None:  # others need it
        return None

    def words(self, unit: str | None, called: Callable[[str], str] = str) -> str:
        return f"quantiles {', '.join(self.at)} of {called(self.number.column)}"


def _limited(where: str | None) -> str:
    return "" if where is None else f" with {where}"


def shared(
    measures: Sequence[Measure], contributions: int, *, is_alone: bool, renyi: Renyi | None
) -> tuple[tuple[Measure, Fraction], ...]:
    """The measures with their shares of the price, so that the sum of the squares of their noise is least.

    Laplace noise of a measure of sensitivity d with the share e has the scale d / e, so shares go with the power 2/3 of
    d. With a delta the variance is as d^2 / e, so they go with d. Each of several quantiles counts for itself.
    """
    moved = [measure.moved(contributions, is_alone=is_alone) for measure in measures]
    if renyi is None:
        needs = [change.distance ** (2 / 3) * measure.numbers for measure, change in zip(measures, moved, strict=True)]
    else:
        needs = [sqrt(change.squares) * measure.numbers for measure, change in zip(measures, moved, strict=True)]
    parts = [max(1, round(1000 * need / sum(needs))) for need in needs]
    return tuple((measure, Fraction(part, sum(parts))) for measure, part in zip(measures, parts, strict=True))


def _nearest_sums(numbers: Ints, weights: Sequence[Fraction], first: Fraction = Fraction(0)) -> npt.NDArray[np.float64]:
    """Of each row `first` and its numbers times the weights, as the nearest float: 0.3 for three steps of a tenth."""
    whole = lcm(first.denominator, *(weight.denominator for weight in weights))
    parts, start = [int(weight * whole) for weight in weights], int(first * whole)
    added = numbers[:, : len(parts)]
    largest = int(np.abs(added).max(initial=0)) * sum(map(abs, parts)) + abs(start)
    if max(largest, whole) <= _EXACT_IN_FLOATS:
        return (added.astype(np.int64) @ np.array(parts, dtype=np.int64) + start) / float(whole)
    return np.array([_nearest(start + sum(map(mul, row, parts)), whole) for row in added.tolist()], dtype=np.float64)


def _nearest(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:  # bounds near the largest float, and many records
        return inf if numerator > 0 else -inf
