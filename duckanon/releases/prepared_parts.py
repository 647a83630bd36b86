"""Which records a count counts of a prepared number: those with a value, those without, or all.

What is measured of a number are three parts. A record whose value is the share t of the way from the least value to the
largest adds 1 - t to the first and t to the second; one without a value adds 1 to the third. So counts of records with
a value and without one are linear functions of the parts, as sums are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from duckanon.releases.measures import Measure, Number, Sums
from duckanon.releases.noise import NotOffered
from duckanon.rewrite.algebra.expressions import Column, Expr, Is, Not, Null
from duckanon.rewrite.algebra.nullability import never_null
from duckanon.rewrite.recognize.aggregates import present_operand
from duckanon.rewrite.recognize.findings import Aggregates

_MIXED = "What is prepared of a number is how many records have it: by itself, and beside conditions on keys."


@dataclass(frozen=True)
class PartOf:
    """names: the columns of a measure that are added up. weights: of the parts of a cell, for the noise."""

    names: tuple[str, ...]
    weights: tuple[Fraction, ...]

    def beside(self, measure: Measure) -> PartOf:
        """The same in another measure: all records are counted by the parts of a number, too."""
        return _ALL_OF_NUMBER if self is ALL and isinstance(measure, Sums) else self


_NONE, _ONE = Fraction(0), Fraction(1)
ALL = PartOf(("n",), (_ONE,))
VALUES = PartOf(("n",), (_ONE, _ONE, _NONE))
MISSING = PartOf(("z",), (_NONE, _NONE, _ONE))
_ALL_OF_NUMBER = PartOf(("n", "z"), (_ONE, _ONE, _ONE))


def presence(conditions: frozenset[Expr]) -> tuple[Column, PartOf] | None:
    """The column of which conditions say that it has a value, or has none; None where they say something else."""
    operand = present_operand(conditions)
    if isinstance(operand, Column):
        return operand, VALUES
    match tuple(conditions):
        case (Is(Column() as column, Null()),):
            return column, MISSING
    return None


def always_holds(condition: Expr) -> bool:
    """Whether a condition says of what is never NULL that it is not, as `(x IS NULL)::INT` has it."""
    match condition:
        case Not(Is(operand, Null())):
            return never_null(operand)
    return False


def of_each(aggregates: Aggregates, numbers: frozenset[str]) -> Aggregates:
    """What is asked, with the conditions of WHERE on whether a number has a value as conditions of each statistic.

    numbers: the folded columns that are such numbers.
    """
    said = {
        expression
        for expression in aggregates.filter
        if (columns := presence(frozenset([expression]))) and columns[0].name in numbers
    }
    if not said:
        return aggregates
    statistics = (
        replace(
            statistic,
            where=statistic.where | said,
            of=statistic.of | said if statistic.name == "share" else statistic.of,
        )
        for statistic in aggregates.statistics
    )
    return replace(aggregates, filter=aggregates.filter - said, statistics=tuple(statistics))


@dataclass(frozen=True)
class Wanted:
    """What a statistic is of. number: None for records alone.

    part: the records that are counted; of a share those of the part. whole: those of the whole of a share. missing:
    what a record without a value adds to a sum; None where it does not count.
    """

    number: Number | None
    part: PartOf = VALUES
    whole: PartOf | None = None
    missing: Fraction | None = None

    @property
    def needs_missing(self) -> bool:
        """Whether the number of records without a value is needed."""
        return self.missing is not None or any("z" in one.names for one in (self.part, self.whole or self.part))


def share(part: tuple[Number | None, PartOf], whole: tuple[Number | None, PartOf]) -> Wanted:
    """A share of counts. Raises NotOffered where these are of two numbers."""
    numbers = {number for number, _ in (part, whole) if number is not None}
    if len(numbers) > 1:
        raise NotOffered(_MIXED)
    number = next(iter(numbers), None)
    some, all_of_them = (one if number is None or one is not ALL else _ALL_OF_NUMBER for _, one in (part, whole))
    return Wanted(number, some, all_of_them)
