"""l-diversity of one sensitive column in one class: distinct, entropy and recursive, decided without rounding.

Source: Machanavajjhala et al. 2007, section 4. Of a class of s records, r_1 >= r_2 >= ... >= r_m of which have each of
its m values, they ask: distinct, m >= l; entropy, that r / s has one of log l; recursive, r_1 < c (r_l + ... + r_m).

All three are monotone: if two classes hold one, so does their union. For distinct that is plain. Entropy is concave.
And r_1 of the union is at most the sum of both, while r_l + ... + r_m, the least number of records outside any l - 1
values, is at least the sum of both.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log
from typing import NamedTuple

import numpy as np

from duckanon.engines.array_kernels import sort
from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.criteria.classes import Counts
from duckanon.errors import InvalidInput

KINDS = ("distinct", "entropy", "recursive")
_ENTROPY, _RECURSIVE = 1, 2
_EPSILON = float(np.finfo(np.float64).eps)


class Diversity(NamedTuple):
    """The diversity required of each sensitive column, for the compiled loops.

    least: how many values a class must have at least, 0 if nothing is required: l, or above it the next whole number.
    over / under: l of entropy diversity, whose logarithm is `rate`, and c of recursive diversity.
    """

    kind: int  # its place in KINDS
    least: int
    over: int
    under: int
    rate: float


class Tally(NamedTuple):
    """Room to count how often a class has each value of each sensitive column, column after column."""

    counts: Counts  # by column and code: zeros before and after each use
    touched: Counts  # the codes of each column that the class has
    occurring: Counts  # by column: how many those are
    counted: Counts  # by column: how often the class has any value
    held: Counts  # how often it has each of the codes of one column
    bases: Counts  # room for `diverse`
    powers: Counts
    met: Counts  # by pair of a subject and a value, then by subject: the count in which each was last met
    number: Counts  # (3,): the number of the count, how many subjects it has met, and how many subjects there are


def new_tally(value_count: int, pairs: int = 0, subjects: int = 0, columns: int = 1) -> Tally:
    """Room for columns of so many values together, so many pairs of a subject and a value, and so many subjects."""
    counts, touched, held, bases, powers = np.zeros((5, value_count + 3), np.int64)
    occurring, counted = np.zeros((2, columns), np.int64)
    met, number = np.zeros(pairs + subjects, np.int64), np.array([0, 0, subjects], np.int64)
    return Tally(counts, touched, occurring, counted, held, bases, powers, met, number)


def diversity(kind: str, l: int | Fraction | None, c: Fraction | None) -> Diversity:  # noqa: E741
    """The required diversity from the arguments' own names: one of KINDS, l or None, and c of recursive diversity."""
    if l is None:
        return Diversity(0, 0, 1, 1, 0.0)
    ratio = Fraction(l) if c is None else c
    return Diversity(KINDS.index(kind), ceil(l), ratio.numerator, ratio.denominator, log(l))


def check_diverse(required: Diversity, counts: Counts) -> None:
    """Raises InvalidInput if not even all records together, `counts` of each value, are as diverse as required.

    Then no partition does, as diversity is monotone; or c has too many digits for exact products.
    """
    size, distinct = int(counts.sum()), int(np.count_nonzero(counts))
    if required.kind == _RECURSIVE and max(required.over, required.under) * size >= 2**62:
        raise InvalidInput("c is too large, or has too many digits, for a table of this size: round it.")
    if distinct >= required.least and are_diverse(required, counts, size):
        return
    if required.kind == _ENTROPY:
        raise InvalidInput(
            "Not even all records together have as much entropy in each sensitive column as l asks: choose a smaller l."
        )
    if distinct >= required.least:
        raise InvalidInput(
            "Not even all records together are recursively (c, l)-diverse in each sensitive column: choose a smaller l "
            "or a larger c."
        )
    raise InvalidInput(
        f"l is {required.least}, but a sensitive column has fewer distinct values among the records (NULL is one only "
        "with null_sensitive := 'value'): choose a smaller l."
    )


def are_diverse(required: Diversity, counts: Counts, size: int) -> bool:
    """Whether a class of `size` records is as diverse as required. counts: how many have each value; shape
    (values,).
    """
    held = counts[counts > 0].astype(np.int64)
    return _diverse(required, new_tally(len(held))._replace(held=held), len(held), size)


@compiled
def _diverse(required: Diversity, tally: Tally, count: int, size: int) -> bool:
    return diverse(required, tally, count, size)


@inner
def diverse(required: Diversity, tally: Tally, count: int, size: int) -> bool:
    """Whether a class of `size` records is as diverse as required. tally.held: how many have each of its `count`
    values.
    """
    held, rising = tally.held, tally.bases
    if count < required.least:
        return False
    if required.kind == _RECURSIVE:
        for v in range(count):
            rising[v] = held[v]
        sort(rising, count)
        others = 0
        for rank in range(count - required.least + 1):
            others += rising[rank]
        return bool(rising[count - 1] * required.under < required.over * others)
    if required.kind == _ENTROPY:
        # (Times `size`: the entropy above log l.)
        whole = size * np.log(size)
        above = whole - size * required.rate
        for v in range(count):
            above -= held[v] * np.log(held[v])
        # Each term is rounded by a few units of its last digit, and so is each partial sum; none is above `whole`.
        if abs(above) > (count + 16) * _EPSILON * (whole + size):
            return bool(above > 0.0)
        return _even(required, tally, count, size)
    return True


@inner
def _even(required: Diversity, tally: Tally, count: int, size: int) -> bool:
    """Whether the entropy is log l exactly: size^size = l^size times the product of r^r, prime after prime.

    Entropies that differ from log l, but by less than rounding, so count as below it.
    """
    held, bases, powers = tally.held, tally.bases, tally.powers
    bases[0], powers[0] = size, size
    bases[1], powers[1] = required.under, size
    bases[2], powers[2] = required.over, -size
    for v in range(count):
        bases[3 + v], powers[3 + v] = held[v], -held[v]
    for b in range(count + 3):
        factor = 2
        while bases[b] > 1:
            while bases[b] % factor != 0:
                factor = factor + 1 if factor * factor < bases[b] else bases[b]
            power = 0
            for other in range(count + 3):
                while bases[other] % factor == 0:
                    bases[other] //= factor
                    power += powers[other]
            if power != 0:
                return False
    return True
