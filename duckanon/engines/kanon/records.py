"""Quasi-identifiers as the engines see them: dense codes, positions on [0, 1], weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.parallel import spread
from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Order = npt.NDArray[np.int32]  # a permutation of the records, or part of one

_BLOCK = 8192
# Codes that are counted at a time: NumPy widens them to do so.
_COUNTED = 1 << 22


@dataclass(frozen=True, eq=False)
class Attribute:
    """One quasi-identifier of n records.

    name: as the user wrote it.
    codes: integers of shape (n,). 0..d-1 number the distinct values in ascending order, d stands for NULL. They are
        int32 wherever a search sees them; those of a whole table may be narrower.
    levels: float64 of shape (d,), ascending from 0 to 1: where each value lies between the smallest and the largest
        one; None if the attribute is categorical, when only equal and unequal count.
    distinct: d, the number of distinct values other than NULL.
    span: largest minus smallest value in the attribute's own unit (for a categorical attribute d - 1, numbering the
        values as in section 2.5 of the paper). It serves the variance order only.
    weight: share of this attribute in the loss; the weights of all attributes sum to 1.
    floor: the part of it, from 0 to 1, that every record loses in any class: where bands are released, one of all.
    joins: None, or of a hierarchy, whose leaves the codes number such that those below each node follow one another,
        what a class of leaves c and c + 1 loses, float64 of shape (d - 1,): at most 1.
    """

    name: str
    codes: Codes
    levels: Floats | None
    distinct: int
    span: float
    weight: float
    floor: float = 0.0
    joins: Floats | None = None

    @property
    def categorical(self) -> bool:
        return self.levels is None

    @property
    def measured(self) -> bool:
        """Whether a class loses as much as its values lie apart."""
        return self.levels is not None and self.joins is None

    @property
    def scale(self) -> float:
        """The part of the loss that depends on the classes: the weight, less what every record loses."""
        return self.weight * (1.0 - self.floor)

    def width(self, low: Codes, high: Codes) -> Floats:
        """What classes lose that reach from one code to another, neither of them NULL, from 0 to 1; no categorical one.

        low, high: shape (classes,).
        """
        if self.joins is not None:
            tops, powers = highest(self.joins)
            step = powers[high - low]
            return np.where(low == high, 0.0, np.maximum(tops[step, low], tops[step, high - (1 << step)]))
        positions = np.append(self.positions, 0.0)
        return self.floor + (1.0 - self.floor) * np.where(low == high, 0.0, positions[high] - positions[low])

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the values that are not NULL, over the weight.

        It puts attributes in the order of their weighted variances (equation 36), and does not overflow.
        """
        if self.distinct < 2:
            return 0.0
        if self.weight == 0:
            return float("inf")
        counts = np.zeros(self.distinct + 1, np.int64)
        for start in range(0, len(self.codes), _COUNTED):
            counts += np.bincount(self.codes[start : start + _COUNTED], minlength=self.distinct + 1)
        counts = counts[: self.distinct].astype(np.float64)
        if not counts.any():
            return 0.0
        levels = self.positions
        mean = counts @ levels / counts.sum()
        return math.sqrt(counts @ (levels - mean) ** 2 / counts.sum()) * (self.span / self.weight)

    @cached_property
    def positions(self) -> Floats:
        """Where each code lies on [0, 1], shape (d,); a categorical attribute's codes are spread evenly."""
        if self.levels is not None:
            return self.levels
        return np.arange(self.distinct) / max(self.distinct - 1, 1)

    def take(self, order: Order) -> Attribute:
        selected = replace(self, codes=self.codes[order].astype(np.int32, copy=False))
        # A permutation keeps the deviation: carry it over instead of counting again.
        selected.__dict__["deviation"] = self.deviation
        return selected


def highest(joins: Floats) -> tuple[Floats, Codes]:
    """The greatest of the joins between any two leaves, in two steps (a sparse table).

    Returns `tops`, shape (steps, d), and `powers`, shape (d,): with s = powers[high - low] the greatest of joins[low]
    .. joins[high - 1] is that of tops[s, low] and tops[s, high - 2^s].
    """
    d = len(joins) + 1
    powers = np.array([max(width, 1).bit_length() - 1 for width in range(d)], np.int32)
    tops = np.zeros((int(powers[-1]) + 1, d))
    tops[0, : d - 1] = joins
    for s in range(1, len(tops)):
        half = 1 << (s - 1)
        tops[s, : d - 2 * half] = np.maximum(tops[s - 1, : d - 2 * half], tops[s - 1, half : d - half])
    return tops, powers


class Trees(NamedTuple):
    """The hierarchies of r attributes, as `highest` has them; NULL is a leaf behind all others, below another root.

    d: the most leaves of any.
    """

    tops: Floats  # (r, steps, d): times the weight
    powers: Codes  # (d,)


def trees_of(attributes: Sequence[Attribute]) -> Trees:
    """The hierarchies of some attributes, for the compiled loops."""
    tops_of = []
    for a in attributes:
        joins = a.joins if a.joins is not None else np.zeros(0)
        tops_of.append(highest(np.append(joins, 1.0)[: a.distinct] * a.scale)[0])
    steps, most = max((len(tops) for tops in tops_of), default=1), max((tops.shape[1] for tops in tops_of), default=1)
    whole = np.zeros((len(tops_of), steps, most))
    for j, tops in enumerate(tops_of):
        whole[j, : tops.shape[0], : tops.shape[1]] = tops
    return Trees(whole, highest(np.zeros(most - 1))[1])


class Space(NamedTuple):
    """Records as arrays for the compiled loops.

    The loss of a class is the sum over measured attributes of ``min(highest - lowest, caps)``, over those with a
    hierarchy of what their lowest common ancestor loses, and over categorical ones of ``(distinct - 1) * units``, or
    ``whole`` where NULL meets a value. On a measured attribute NULL sits at twice the weight, so that any class mixing
    it with values reaches the cap without a branch. What every record loses (`Attribute.floor`) is left out.
    """

    points: Floats  # (n, p + r): position times weight, one column a measured attribute; then leaves, one a hierarchy
    caps: Floats  # (p,): the weight of each measured attribute
    symbols: Codes  # (n, q): codes, one column a categorical attribute
    nulls: Codes  # (q,): the code that stands for NULL
    units: Floats  # (q,): loss of one more distinct value
    whole: Floats  # (q,): the weight of each categorical attribute
    trees: Trees


@dataclass(frozen=True, eq=False)
class Records:
    """The quasi-identifiers of n records; attributes in the order the user gave them."""

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        if not self.attributes:
            raise InvalidInput("Give at least one quasi-identifier.")
        if len({len(a.codes) for a in self.attributes}) != 1:
            raise InvalidInput("All quasi-identifiers must have the same number of records.")

    def __len__(self) -> int:
        return len(self.attributes[0].codes)

    def take(self, order: Order, threads: int = 1) -> Records:
        """The same records in another order."""
        return Records(tuple(spread(lambda a: a.take(order), self.attributes, threads)))

    @cached_property
    def by_variance(self) -> tuple[int, ...]:
        """Attribute numbers by ascending variance: the comparison order of section 2.3."""
        return tuple(sorted(range(len(self.attributes)), key=lambda j: (self.attributes[j].deviation, j)))

    @cached_property
    def floor(self) -> float:
        """What a record loses in any class."""
        return sum(a.weight * a.floor for a in self.attributes)

    @cached_property
    def axes(self) -> Codes:
        """Where each attribute stands in the space: measured ones first, then hierarchies, then categorical ones."""
        kinds = np.array([2 if a.categorical else 0 if a.measured else 1 for a in self.attributes])
        return np.argsort(np.argsort(kinds, kind="stable")).astype(np.int32)

    @cached_property
    def space(self) -> Space:
        measured = [a for a in self.attributes if a.measured]
        trees = [a for a in self.attributes if a.joins is not None]
        ordered = [*measured, *trees]
        categorical = [a for a in self.attributes if a.categorical]
        tables = [np.append(a.positions, 2.0) * a.scale for a in measured]
        tables += [np.arange(a.distinct + 1.0) for a in trees]
        points = np.empty((len(self), len(ordered)), dtype=np.float64)
        symbols = np.empty((len(self), len(categorical)), dtype=np.int32)
        # Row by row within a block, so that each line of memory is written once.
        for start in range(0, len(self), _BLOCK):
            block = slice(start, start + _BLOCK)
            for j, a in enumerate(ordered):
                points[block, j] = tables[j].take(a.codes[block])
            for j, a in enumerate(categorical):
                symbols[block, j] = a.codes[block]
        return Space(
            points=points,
            caps=np.array([a.scale for a in measured], dtype=np.float64),
            symbols=symbols,
            nulls=np.array([a.distinct for a in categorical], dtype=np.int32),
            units=np.array([a.weight / max(a.distinct - 1, 1) for a in categorical], dtype=np.float64),
            whole=np.array([a.weight for a in categorical], dtype=np.float64),
            trees=trees_of(trees),
        )


def attribute(name: str, values: npt.ArrayLike, *, categorical: bool = False, weight: float = 1.0) -> Attribute:
    """An Attribute from plain values (numbers, booleans or strings; None or NaN means NULL). For tests and Python use.

    Raises InvalidInput if an ordered attribute holds text.
    """
    raw = np.asarray(values, dtype=object)
    null = np.array([v is None or v != v for v in raw], dtype=bool)
    present = sorted(set(raw[~null].tolist()))
    rank = {v: i for i, v in enumerate(present)}
    codes = np.array([len(present) if skip else rank[v] for v, skip in zip(raw, null, strict=True)], dtype=np.int32)
    if categorical:
        return Attribute(name, codes, None, len(present), float(max(len(present) - 1, 0)), weight)
    if any(isinstance(v, str) for v in present):
        raise InvalidInput(f'Attribute "{name}" is text: make it categorical.')
    numbers = np.array(present, dtype=np.float64)
    span = float(numbers[-1] - numbers[0]) if len(numbers) else 0.0
    levels = (numbers - numbers[0]) / span if span else np.zeros(len(numbers))
    return Attribute(name, codes, levels, len(present), span, weight)


def banded_attribute(
    name: str, numbers: npt.NDArray[np.int64], null: npt.NDArray[np.bool_], weight: float
) -> Attribute:
    """An attribute whose values are bands, by their numbers; null: where there is none. Both of shape (n,).

    A class loses the share of all bands, from the first to the last that holds a value, which lie in its interval.
    """
    bands, codes = np.unique(numbers[~null], return_inverse=True)
    every = np.full(len(numbers), len(bands))
    every[~null] = codes.ravel()
    span = float(bands[-1] - bands[0]) if len(bands) else 0.0
    levels = (bands - bands[0]) / span if span else np.zeros(len(bands))
    floor = 1.0 / (span + 1.0) if len(bands) else 0.0
    return Attribute(name, every.astype(np.min_scalar_type(len(bands))), levels, len(bands), span, weight, floor)


def records(attributes: Iterable[Attribute]) -> Records:
    """Records whose weights are scaled to sum to 1 (equation 35).

    Raises InvalidInput if a weight is negative or not a number, or if all are zero.
    """
    listed = tuple(attributes)
    weights = np.array([a.weight for a in listed], dtype=np.float64)
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise InvalidInput("Weights must be numbers that are zero or more.")
    if weights.sum() == 0:
        raise InvalidInput("At least one weight must be above zero.")
    weights = weights / weights.sum()
    return Records(tuple(replace(a, weight=float(w)) for a, w in zip(listed, weights, strict=True)))


def check_k(k: int, n: int) -> None:
    """Raise InvalidInput unless n records can be k-anonymous."""
    if k < 2:
        raise InvalidInput("k must be 2 or more: with k = 1 every record may stand alone.")
    if n == 0:
        raise InvalidInput("The table has no rows: there is nothing to anonymise.")
    if n < k:
        raise InvalidInput(
            f"The table has fewer than k = {k} rows: choose a smaller k, or anonymise more rows together."
        )
