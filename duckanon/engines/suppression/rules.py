"""Which cells are sensitive, and how wide an attacker's interval for each of them has to be.

A sensitive cell of value X is protected if the published table allows values of X - lower and of X + upper at least
(lower and upper protection levels, Fischetti and Salazar 2000). The levels come from the rule itself (Hundepool et al.
2012, Statistical Disclosure Control, section 4.2): the upper one is what has to be added to X so that the cell would no
longer be sensitive; the lower one is the same, as far as the cell has room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from duckanon.engines.suppression.system import Additive
from duckanon.engines.suppression.table import whole_units
from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Cells:
    """What the rules look at, for each cell of a table.

    units: shape (cells,). counts: shape (cells,), contributors of each. largest: shape (k, cells), the k largest
    contributions in units, in falling order, 0 where there are fewer; k may be 0. counted: the units are the counts.
    records: the units are records, of which each contributor has one at least.
    """

    units: Ints
    counts: Ints
    largest: Ints
    counted: bool
    records: bool

    @staticmethod
    def of(
        table: Additive,
        counts: npt.ArrayLike | None = None,
        largest: npt.ArrayLike | None = None,
        *,
        records: bool = False,
    ) -> Cells:
        """Counts, in the table's shape, and largest contributions, shape (k, ...), in the table's step.

        records: whether the table is one of records, of which the counts are contributors. Without counts the table
        itself is one of counts. Raises InvalidInput for arrays that do not fit the table.
        """
        shape = table.units.shape
        own = table.units if counts is None else whole_units(counts, 1.0)
        top = np.zeros((0, *shape), dtype=np.int64) if largest is None else whole_units(largest, table.step)
        if own.shape != shape or top.ndim != len(shape) + 1 or top.shape[1:] != shape:
            raise InvalidInput("Counts and largest contributions have the shape of the table.")
        if counts is not None and ((own == 0) & (table.units > 0)).any():
            raise InvalidInput("A cell without contributors has a value: its count must be at least 1.")
        if (np.diff(top, axis=0) > 0).any():
            raise InvalidInput("The largest contributions come in falling order.")
        if (top.sum(axis=0) > table.units).any():
            raise InvalidInput("The largest contributions of a cell exceed its value.")
        flat = top.reshape(len(top), table.cells)
        return Cells(table.flat, own.ravel(), flat, counts is None, records)

    def with_own(self, units: Ints) -> Cells:
        """The same with further cells, each of one contributor. units: shape (all cells,)."""
        more = len(units) - len(self.units)
        own = units[len(self.units) :]
        largest = np.zeros((len(self.largest), len(units)), dtype=np.int64)
        largest[:, : len(self.units)] = self.largest
        largest[:1, len(self.units) :] = own
        counts = np.concatenate([self.counts, np.ones(more, dtype=np.int64)])
        return Cells(units, counts, largest, self.counted, self.records)

    def top(self, k: int) -> Ints:
        """Shape (k, cells): the k largest contributions. Raises InvalidInput if fewer are known."""
        if len(self.largest) < k:
            raise InvalidInput(f"This rule needs the {k} largest contributions of each cell.")
        return self.largest[:k]


class Rule(Protocol):
    """A rule for sensitive cells."""

    def levels(self, cells: Cells) -> tuple[Ints, Ints]:
        """Lower and upper protection levels in units, each of shape (cells,); an upper one of 0: not sensitive."""
        ...


@dataclass(frozen=True)
class Threshold:
    """Sensitive: fewer than `least` contributors, and at least one.

    Counts: an attacker must hold everything from 1 to `least` for possible. Magnitudes, where nothing about values
    follows from the number of contributors: X plus and minus `safety` percent. Records of contributors: both, where
    there are fewer than `least` records, as these tell that there are fewer contributors.
    """

    least: int
    safety: float = 10.0

    def __post_init__(self) -> None:
        if self.least < 2:
            raise InvalidInput("A threshold is at least 2: smaller ones protect nothing.")
        _percent(self.safety, "safety")

    def levels(self, cells: Cells) -> tuple[Ints, Ints]:
        sensitive = (cells.counts > 0) & (cells.counts < self.least) & (cells.units > 0)
        if cells.counted:
            return np.where(sensitive, cells.units - 1, 0), np.where(sensitive, self.least - cells.units, 0)
        level = np.where(sensitive, _units(cells.units * (self.safety / 100)), 0)
        if not cells.records:
            return level, level
        few = sensitive & (cells.units < self.least)
        return np.where(few, cells.units - 1, level), np.where(few, np.maximum(self.least - cells.units, level), level)


@dataclass(frozen=True)
class PPercent:
    """Sensitive: the second largest contributor can estimate the largest, x1, to within `p` percent of it.

    Everybody can estimate the other contributions to within `q` percent beforehand: the p/q rule, or prior-posterior
    rule (Hundepool et al. 2012, section 4.2.2). With q = 100 they know nothing beforehand: the p% rule.
    q / 100 (X + upper - x1 - x2) >= p / 100 x1, hence upper = p / q x1 - (X - x1 - x2).
    """

    p: float
    q: float = 100.0

    def __post_init__(self) -> None:
        _percent(self.p, "p")
        _percent(self.q, "q")
        if self.p > self.q:
            raise InvalidInput(
                "Nobody is closer to a contribution beforehand than p may be afterwards: p is at most q."
            )

    def levels(self, cells: Cells) -> tuple[Ints, Ints]:
        first, second = cells.top(2)
        short = self.p * first - self.q * (cells.units - first - second)
        level = np.where((short > 0) & (cells.units > 0), _units(short / self.q), 0)
        return level, level


@dataclass(frozen=True)
class Dominance:
    """Sensitive: the `n` largest contributors make up more than `k` percent of the cell.

    n largest <= k / 100 (X + upper), hence upper = 100 / k (x1 + ... + xn) - X.
    """

    n: int
    k: float

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InvalidInput("Dominance asks for one contributor at least.")
        _percent(self.k, "k")

    def levels(self, cells: Cells) -> tuple[Ints, Ints]:
        short = 100 * cells.top(self.n).sum(axis=0) - self.k * cells.units
        level = np.where((short > 0) & (cells.units > 0), _units(short / self.k), 0)
        return level, level


@dataclass(frozen=True)
class OfWidth:
    """The cells that a rule finds sensitive, with intervals of X plus and minus `percent` of it instead of its own."""

    rule: Rule
    percent: float

    def __post_init__(self) -> None:
        _percent(self.percent, "The width of an interval")

    def levels(self, cells: Cells) -> tuple[Ints, Ints]:
        level = np.where(self.rule.levels(cells)[1] > 0, _units(cells.units * (self.percent / 100)), 0)
        return level, level


@dataclass(frozen=True)
class Sliding:
    """The cells that a rule finds sensitive, with intervals as long as `percent` of X, wherever they lie about X."""

    rule: Rule
    percent: float

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 200:
            raise InvalidInput("A sliding width is a percentage: above 0, and 200 at most.")

    def width(self, cells: Cells) -> Ints:
        """Shape (cells,): how long the intervals are at least, in units; 0: not sensitive."""
        return np.where(self.rule.levels(cells)[1] > 0, _units(cells.units * (self.percent / 100)), 0)


@dataclass(frozen=True)
class Levels:
    """Shape (cells,) each, in units. primary: the sensitive cells. lower, upper: 0 where a cell is not sensitive.

    width: how far the ends of the interval are apart at least, wherever it lies; None: no rule says.
    """

    primary: Bools
    lower: Ints
    upper: Ints
    width: Ints | None = None


def levels(cells: Cells, rules: Sequence[Rule | Sliding], safety: float = 0.0) -> Levels:
    """The levels of all rules together: the highest of each, at least one unit and `safety` percent of a cell.

    Cells whose rules slide only have no levels to one side.
    """
    if not rules:
        raise InvalidInput("Suppression needs a rule: a threshold, p% or dominance.")
    if not 0 <= safety <= 100:
        raise InvalidInput("A safety range is a percentage from 0 to 100.")
    none = np.zeros(len(cells.units), dtype=np.int64)
    pairs = [rule.levels(cells) for rule in rules if not isinstance(rule, Sliding)]
    lower = np.max([none, *(pair[0] for pair in pairs)], axis=0)
    upper = np.max([none, *(pair[1] for pair in pairs)], axis=0)
    width = np.max([none, *(rule.width(cells) for rule in rules if isinstance(rule, Sliding))], axis=0)
    primary = (upper > 0) | (width > 0)
    least = np.where(primary, np.ceil(cells.units * (safety / 100)).astype(np.int64), 0)
    lower, upper = np.minimum(np.maximum(lower, least), cells.units), np.maximum(upper, least)
    return Levels(primary, lower, upper, width if width.any() else None)


def _units(level: npt.NDArray[np.floating]) -> Ints:
    """A level in whole units, at least 1."""
    whole: Ints = np.maximum(1, np.ceil(level)).astype(np.int64)
    return whole


def _percent(percent: float, name: str) -> None:
    if not 0 < percent <= 100:
        raise InvalidInput(f"{name} is a percentage: above 0, and 100 at most.")
