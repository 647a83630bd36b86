"""Statistics over the cells of an answer: a class for each, with its SQL, its interval and how far noise moves it.

What they are computed from is measured in the cells (`duckanon.releases.measures`). A new statistic is a class here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import ClassVar, Generic, Protocol, TypeVar

from sqlglot import exp

from duckanon.catalog.types import own_step
from duckanon.engines.noise import Noise
from duckanon.engines.quantiles import Choice
from duckanon.releases.intervals import Noisy, Quotient
from duckanon.releases.margins import rounded
from duckanon.releases.measures import Computed, Measure, Quantiles, Sums
from duckanon.releases.numbers import is_moment, moment, rounding
from duckanon.rewrite.algebra.expressions import Expr
from duckanon.rewrite.algebra.nodes import Node, sql
from duckanon.rewrite.normalize.grouped import NotFollowed
from duckanon.rewrite.recognize.findings import Statistic
from duckanon.rewrite.recognize.measures import WHOLE
from duckanon.rewrite.rule_context import type_of_count

OTHER_SIDE = {"low": "high", "high": "low"}
_SIGN = {"low": "-", "high": "+"}
M = TypeVar("M", bound=Measure)


class Cells(Protocol):
    """The cells of an answer that a row of the query adds up. wheres: conditions that all hold there."""

    def sum(self, column: str, *wheres: frozenset[Expr]) -> str:
        """A column of the answer, added up over the cells, as SQL."""

    def count(self, *wheres: frozenset[Expr]) -> str:
        """Their number, as SQL."""

    def only(self, *wheres: frozenset[Expr]) -> str:
        """FILTER for an aggregate over the answer, after a space; empty where all cells count."""

    def in_row(self, *wheres: frozenset[Expr]) -> int:
        """Their number in a row of all keys."""

    def are_apart(self, expressions: frozenset[Expr], other: frozenset[Expr]) -> bool:
        """Whether no cell is counted under both conditions."""


@dataclass(frozen=True)
class Measured(Generic[M]):
    """A measure of a question. at: its position. noise: in records."""

    measure: M
    at: int
    noise: Noise | Choice

    @property
    def columns(self) -> dict[str, str]:
        return self.measure.columns(self.at)


@dataclass(frozen=True)
class Counted:
    """What counts the records of cells: the columns that do together, and the noise of one cell's."""

    columns: tuple[str, ...]
    noise: Noisy
    is_whole: bool

    @classmethod
    def by(cls, measured: Measured[M]) -> Counted:
        """By a measure that counts."""
        noise = measured.measure.counted(measured.noise)
        assert noise is not None
        return cls((measured.columns["n"],), noise, measured.measure.is_whole)

    @classmethod
    def beside(cls, measured: Measured[Sums]) -> Counted:
        """By the numbers of those that have a value to be summed, and of those that have none."""
        columns = (measured.columns["n"], measured.columns["z"])
        return cls(columns, measured.measure.records(measured.noise), measured.measure.is_whole)

    def sql(self, cells: Cells, *wheres: frozenset[Expr]) -> str:
        parts = [cells.sum(column, *wheres) for column in self.columns]
        return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"


@dataclass(frozen=True)
class Told(ABC):
    """A statistic over an answer. node: as it is written, which decides its type.

    counts: whether it is a count. has_ends: whether it has an interval. is_shown: whether that is as wide in every row.
    """

    counts: ClassVar[bool] = False
    has_ends: ClassVar[bool] = False
    is_shown: ClassVar[bool] = False

    asked: Statistic
    node: Node
    cells: Cells

    @property
    @abstractmethod
    def value(self) -> str:
        """It, as SQL."""

    def end(self, side: str) -> str:  # noqa: ARG002 # those that have ends use it
        """An end of its 95 % interval, as SQL. side: 'low' or 'high'. Raises NotFollowed if it has none."""
        raise NotFollowed(
            "low and high are the ends of counts, sums, means and shares: of others there are none, so ask for it "
            "without."
        )

    @property
    def width(self) -> str:
        """How wide its interval is, as SQL: NULL for a number without noise. Raises NotFollowed if it has none."""
        return f"({self.end('high')} - {self.end('low')})"

    @property
    def half(self) -> float | None:
        """How far 95 % are from the truth at most in a row of all keys; of a mean, times the number of its values."""
        return None

    @property
    def noise(self) -> tuple[Noisy, int] | None:
        """Of a count, with the number of cells that a row of all keys adds up."""
        return None

    def within(self, named: Callable[[Node], str]) -> str | None:
        """`half` in words. named: how an aggregate is named."""
        half, per = self.half, "" if self.is_shown else " / the number of its values"
        return None if half is None else f"{named(self.node)} within {rounded(half)}{per}"

    def _turned(self, side: str) -> str:
        """A negative factor turns the interval around."""
        return side if self.asked.factor > 0 else OTHER_SIDE[side]


@dataclass(frozen=True)
class Count(Told):
    """A number of records. where: those that are counted."""

    counts: ClassVar[bool] = True
    has_ends: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True

    by: Counted
    where: frozenset[Expr]

    @property
    def value(self) -> str:
        count = self.by.sql(self.cells, self.where)
        return f"CAST({times(count if self.by.is_whole else f'round({count})', self.asked.factor)} AS {self._type})"

    def end(self, side: str) -> str:
        """No count is below zero, so neither is an end of its interval."""
        end = f"{self.value} {_SIGN[side]} {self._far}"
        return f"CAST({'greatest' if self.asked.factor > 0 else 'least'}({end}, 0) AS {self._type})"

    @property
    def width(self) -> str:
        """Nothing is cut off at zero."""
        return f"nullif(2 * {self._far}, 0)"

    @property
    def _far(self) -> str:
        # A count is rounded, so noise of less than half a record more does not show.
        records = f"CAST(floor({self.by.noise.width_sql(self.cells.count(self.where))} + 0.5) AS BIGINT)"
        return times(records, abs(self.asked.factor))

    @cached_property
    def half(self) -> float:
        noise, cells = self.noise
        return noise.records(cells) * abs(float(self.asked.factor))

    @cached_property
    def noise(self) -> tuple[Noisy, int]:
        return self.by.noise, self.cells.in_row(self.where)

    @property
    def _type(self) -> str:
        if self.asked.type:
            return self.asked.type
        kind = type_of_count(self.node.this if isinstance(self.node, exp.Filter) else self.node)
        return kind if self.asked.factor.denominator == 1 else "DOUBLE"


@dataclass(frozen=True)
class CountOfDifferent(Count):
    """A number of different units or values."""

    @property
    def value(self) -> str:
        return f"CAST({self.by.sql(self.cells, self.where)} AS BIGINT)"


@dataclass(frozen=True)
class Share(Told):
    """A part of records.

    The cells of the part are among those of the whole. Others would add noise alone, and more of it than intervals
    count.
    """

    has_ends: ClassVar[bool] = True

    by: Counted

    @property
    def value(self) -> str:
        part, of = self._numbers
        return f"(CASE WHEN {of} >= 1 THEN {times(f'least(greatest({part} / {of}, 0), 1)', self.asked.factor)} END)"

    @property
    def _numbers(self) -> tuple[str, str]:
        return (
            self.by.sql(self.cells, self.asked.where, self.asked.of),
            self.by.sql(self.cells, self.asked.of),
        )

    @property
    def _quotient(self) -> Quotient:
        return Quotient(self.by.noise.each, self.by.noise.weights[0], (Fraction(1), Fraction(0)))

    def end(self, side: str) -> str:
        part, whole = self.cells.count(self.asked.where, self.asked.of), self.cells.count(self.asked.of)
        each = len(self.by.noise.weights)
        counts = [f"{each} * {part}", f"{each} * ({whole} - {part})"]
        return times(self._quotient.end_sql(self._turned(side), *self._numbers, counts), self.asked.factor)

    @cached_property
    def half(self) -> float:
        part, whole = self.cells.in_row(self.asked.where, self.asked.of), self.cells.in_row(self.asked.of)
        each = len(self.by.noise.weights)
        return self._quotient.width([each * part, each * (whole - part)]) * abs(float(self.asked.factor))


@dataclass(frozen=True)
class _OfSums(Told):
    """A statistic of the values of a number. type: of its column."""

    found: Measured[Sums]
    type: str

    def _sum(self, name: str) -> str:
        """A total as a DOUBLE, or as a whole number."""
        exact = self._exact(name)
        return f"CAST({exact} AS DOUBLE)" if name == "s" and self.found.measure.decimals is not None else exact

    def _exact(self, name: str) -> str:
        """A total to the last step, which may be a decimal."""
        return self.cells.sum(self.found.columns[name], self.asked.where)

    @property
    def _least(self) -> Fraction:
        return Fraction(self.found.measure.number.low)

    @property
    def _reach(self) -> Fraction:
        return self.found.measure.number.high - self._least

    @property
    def error(self) -> Fraction:
        """How far a value is from the step to which it is rounded."""
        return rounding(self.found.measure.number, self.type)


@dataclass(frozen=True)
class Sum(_OfSums):
    """A sum of clamped values."""

    has_ends: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True

    @property
    def value(self) -> str:
        total = self._exact("s") if self.asked.factor == 1 else self.total
        return self._of_cells(f"CAST({times(total, self.asked.factor)} AS {self._result})")

    def _of_cells(self, value: str) -> str:
        """NULL, as DuckDB has it, where a condition on keys says that there is nothing to be summed."""
        is_filtered = isinstance(self.node, exp.Filter) and self.node.find(exp.Case) is None
        if not is_filtered or not self.cells.only(self.asked.where):
            return value
        return f"(CASE WHEN {self.cells.count(self.asked.where)} > 0 THEN {value} END)"

    @property
    def _result(self) -> str:
        """The type that DuckDB gives the sum."""
        if self.asked.type:
            return self.asked.type
        return self.type if isinstance(self.found.measure.number, Computed) else "DOUBLE"

    @property
    def total(self) -> str:
        """The sum of clamped values, without its factor, as SQL."""
        return self._sum("s")

    @property
    def _noises(self) -> list[Noisy]:
        return self.found.measure.sums(self.found.noise, self.error)

    def end(self, side: str) -> str:
        return self._of_cells(self._end(side))

    @property
    def width(self) -> str:
        return f"nullif({super().width}, 0)"

    def _end(self, side: str) -> str:
        s, turned = self.total, self._turned(side)
        widths = [noisy.width_sql(self.cells.count(self.asked.where)) for noisy in self._noises]
        width = widths[0] if len(widths) == 1 else f"greatest({', '.join(widths)})"
        step, error = own_step(self.type), float(self.error)
        end = f"{s} {_SIGN[turned]} {width}"
        if error or step is None:
            # Each value was rounded by no more than that.
            return times(f"({end} {_SIGN[turned]} {error!r} * greatest({self._sum('n')}, 0))", self.asked.factor)
        # The true sum is a whole number of steps, and the noisy one is that only as far as floats are exact.
        near = f"(0.000001 + 1e-12 * abs({s}) * {step.denominator})"
        outermost, inwards = ("least", "ceil") if turned == "low" else ("greatest", "floor")
        steps = f"{inwards}(({end}) * {step.denominator} {_SIGN[turned]} {near})"
        # If no whole number of steps is so near, it is the nearest one.
        text = f"{outermost}({steps}, round({s} * {step.denominator})) + 0.0"
        return times(f"(({text}) / {step.denominator})", self.asked.factor)

    @cached_property
    def half(self) -> float:
        cells = self.cells.in_row(self.asked.where)
        width, step = max(noisy.width(cells) for noisy in self._noises), self._step
        shown = width if step is None else floor(width / step + Fraction(1, 2)) * step
        return float(shown * abs(self.asked.factor))

    @property
    def _step(self) -> Fraction | None:
        """The step to which it is rounded by its type; None for floats."""
        return own_step("BIGINT" if self._result == "HUGEINT" else self._result)


@dataclass(frozen=True)
class Mean(_OfSums):
    """A mean of clamped values: NULL where their noisy number is below 1."""

    has_ends: ClassVar[bool] = True

    @property
    def value(self) -> str:
        n, s = self._sum("n"), self._sum("s")
        return f"(CASE WHEN {n} >= 1 THEN {self._clamped(f'{s} / {n}')} END)"

    def _clamped(self, value: str) -> str:
        return f"least(greatest({value}, {double(self._least)}), {double(self.found.measure.number.high)})"

    @property
    def _quotient(self) -> Quotient:
        return self.found.measure.mean(self.found.noise)

    def end(self, side: str) -> str:
        n, s = self._sum("n"), self._sum("s")
        counts = [self.cells.count(self.asked.where)] * len(self._quotient.values)
        above = f"(({s} - {double(self._least)} * {n}) / {double(self._reach)})"
        way = self._quotient.end_sql(side, above, n, counts)
        error = float(self.error)
        return self._clamped(f"({double(self._least)} + {double(self._reach)} * {way} {_SIGN[side]} {error!r})")

    @cached_property
    def half(self) -> float:
        cells = [self.cells.in_row(self.asked.where)] * len(self._quotient.values)
        return self._quotient.width(cells) * float(self._reach)


@dataclass(frozen=True)
class Spread(_OfSums):
    """A variance or a standard deviation: E (x - a)^2 - (E x - a)^2, with the middle of the bounds for a."""

    @property
    def value(self) -> str:
        n, centred = self._sum("n"), self._sum("c")
        squares = f"greatest({self._sum('q')} / {n} - ({centred} / {n}) ** 2, 0)"
        least, scaled = (1, squares) if self.asked.name.endswith("pop") else (2, f"{squares} * {n} / ({n} - 1)")
        shown = f"sqrt({scaled})" if self.asked.name.startswith("stddev") else scaled
        return f"(CASE WHEN {n} >= {least} THEN {shown} END)"


@dataclass(frozen=True)
class Covariance(Told):
    """The covariance of two numbers: E (y - a)(x - b) - (E y - a)(E x - b), whatever a and b are.

    product: the mean of the product, of numbers less the middles a and b. So noise does not grow with the distance of
    numbers from zero.
    """

    product: Mean
    means: tuple[Mean, Mean]
    middles: tuple[Fraction, Fraction]

    @property
    def value(self) -> str:
        moved = (f"({mean.value} - {double(at)})" for mean, at in zip(self.means, self.middles, strict=True))
        return f"({self.product.value} - {' * '.join(moved)})"


@dataclass(frozen=True)
class Quantile(Told):
    """type: of its column."""

    found: Measured[Quantiles]
    type: str

    @property
    def value(self) -> str:
        column = self.found.columns[str(self.asked.place)]
        steps = f"max({answer_column(column)}){self.cells.only(self.asked.where)}"
        return f"CAST({moment(steps, self.type) if is_moment(self.type) else steps} AS {self._result})"

    @property
    def _result(self) -> str:
        node, kind = self.node, self.asked.type or self.type
        if isinstance(node, exp.PercentileDisc | exp.ApproxQuantile) or "quantile_disc" in sql(node).lower():
            return kind
        # Between two dates lie moments.
        return "TIMESTAMP" if kind == "DATE" else "DOUBLE" if kind in WHOLE or kind == "DOUBLE" else kind


def in_words(found: Sequence[Told], named: Callable[[Node], str] = sql, *, has_totals: bool) -> str:
    """The margins of error of the numbers of a row of all keys.

    named: how an aggregate is named. has_totals: whether there are totals of rows.
    """
    said = [(one, one.within(named)) for one in {one.asked: one for one in found}.values()]
    margins = [margin for _, margin in said if margin is not None]
    wider = ", and those of totals within more" if has_totals else ""
    measured = (
        "The numbers have noise, and may be negative; 95 % are within what is said for one row: "
        f"{', '.join(margins)}{wider}."
    )
    others = {one.has_ends for one, margin in said if margin is None}
    rest = " Variances, covariances and quantiles have no interval." if False in others else ""
    if True in others:
        rest += " How near to the truth a number is depends on its row: low and high say it."
    return (measured if margins else "The numbers have noise.") + rest


def answer_column(column: str) -> str:
    """A column of the answer, under a name that is not the analyst's."""
    return f'"_dk_{column}"'


def times(value: str, factor: Fraction) -> str:
    if factor == 1:
        return value
    return f"({value} * {factor.numerator})" if factor.denominator == 1 else f"({value} * {double(factor)})"


def double(number: Fraction) -> str:
    return f"CAST('{float(number)!r}' AS DOUBLE)"
