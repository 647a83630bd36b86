"""The knapsack problem that cell bounds solve, with equal rows collapsed, and the form of its solutions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from duckanon.engines.cells.sorting import stable_order
from duckanon.errors import Infeasible, InvalidInput

Ints = npt.NDArray[np.int64]

# The largest sample size. Twice this number, and the mark of sums that cannot be reached (2^62), fit into 64 bits.
LARGEST = 10**18
# Stands for "no upper bound".
FREE = -1


@dataclass(frozen=True, eq=False)
class Knapsack:
    """All ways to write `target` as a sum of nu_i * r_i over rows with whole nu_i from 0 to u_i (equation 2).

    Rows with equal r and u have equal answers, so they are one kind.

    sums: int64 of shape (kinds,), r >= 1 of each kind, in records. Ascending; equal sums by ascending upper bound.
    uppers: int64 of shape (kinds,), u >= 0 of each row of the kind; FREE where only the target bounds it, 0
        where r is above the target.
    copies: int64 of shape (kinds,), how many rows are of the kind.
    target: what the multiples must add up to: N - R, less what the lower bounds already use.
    """

    sums: Ints
    uppers: Ints
    copies: Ints
    target: int

    def __len__(self) -> int:
        return len(self.sums)

    @cached_property
    def bounded(self) -> bool:
        """Whether a row whose sum is no larger than the target has an upper bound."""
        return bool((self.uppers > 0).any() or ((self.uppers == 0) & (self.sums <= self.target)).any())


def knapsack(sums: Ints, target: int, uppers: Ints | None = None) -> tuple[Knapsack, npt.NDArray[np.intp]]:
    """The knapsack of all rows, and the kind of each row.

    sums, uppers: shape (rows,), as in Knapsack; without `uppers` no row is bounded.
    Raises InvalidInput for sums below 1 and targets beyond LARGEST, Infeasible for a target below zero.
    """
    if target < 0:
        raise Infeasible("No table has these proportions and this sample size: the reduced counts alone exceed it.")
    if target > LARGEST:
        raise InvalidInput("The counts add up to more than 10^18, which is more than cell bounds are made for.")
    sums = np.ascontiguousarray(sums, dtype=np.int64)
    if len(sums) and sums.min() < 1:
        raise InvalidInput("A reduced sum must be 1 or more: leave rows of zeros out.")
    most = target // sums if len(sums) else sums
    if uppers is None:
        bounds = np.where(most == 0, 0, FREE)
    else:
        # A bound that the target implies anyway is left out.
        bounds = np.where((uppers == FREE) | (uppers >= most), FREE, uppers)
        bounds[most == 0] = 0
    # Without upper bounds given, equal sums have equal bounds.
    order = stable_order(sums) if uppers is None else np.lexsort((bounds, sums))
    s, b = sums[order], bounds[order]
    first = np.ones(len(s), dtype=bool)
    first[1:] = (s[1:] != s[:-1]) | (b[1:] != b[:-1])
    starts = np.flatnonzero(first)
    kind = np.empty(len(s), dtype=np.intp)
    kind[order] = np.cumsum(first) - 1
    copies = np.diff(np.append(starts, len(s))).astype(np.int64)
    return Knapsack(s[starts], b[starts].astype(np.int64), copies, target), kind


@dataclass(frozen=True, eq=False)
class Extremes:
    """The smallest and the largest feasible nu of each kind: int64 of shape (kinds,), -1 where there is none."""

    lower: Ints
    upper: Ints


@dataclass(frozen=True, eq=False)
class Feasible:
    """Every feasible nu of each kind, as runs first, first + step, ..., `size` numbers each; no number occurs twice.

    begin, end: int64 of shape (kinds,): the kind's runs are those from begin to end - 1.
    first, step, size: int64 of shape (runs,).
    """

    begin: Ints
    end: Ints
    first: Ints
    step: Ints
    size: Ints

    def __len__(self) -> int:
        return len(self.begin)

    def _over(self, what: Ints, reduce: np.ufunc, nothing: int) -> Ints:
        """`what`, a number for each run, reduced over the runs of each kind; `nothing` for kinds without runs."""
        out = np.full(len(self), nothing, dtype=np.int64)
        some = np.flatnonzero(self.end > self.begin)
        if len(some):
            # reduceat also gives the segments between two kinds; they are dropped.
            cuts = np.stack([self.begin[some], self.end[some]], axis=1).ravel()
            padded = np.append(what, what[-1])
            out[some] = reduce.reduceat(padded, cuts)[::2]
        return out

    @cached_property
    def lower(self) -> Ints:
        return self._over(self.first, np.minimum, -1)

    @cached_property
    def upper(self) -> Ints:
        return self._over(self.first + self.step * (self.size - 1), np.maximum, -1)

    @cached_property
    def count(self) -> Ints:
        """How many values of nu are feasible, shape (kinds,)."""
        return self._over(self.size, np.add, 0)

    def values(self, kind: int) -> list[int]:
        """Every feasible nu of one kind, ascending. For small sets."""
        return sorted(nu for run in self.runs(kind) for nu in run)

    def runs(self, kind: int) -> Iterator[range]:
        for i in range(int(self.begin[kind]), int(self.end[kind])):
            first, step, size = int(self.first[i]), int(self.step[i]), int(self.size[i])
            yield range(first, first + step * size, step)


def feasible(runs: list[list[range]]) -> Feasible:
    """The Feasible made of each kind's runs."""
    ends = np.cumsum([len(kind_runs) for kind_runs in runs], dtype=np.int64)
    flat = [(run.start, run.step, len(run)) for kind_runs in runs for run in kind_runs]
    first, step, size = np.array(flat, dtype=np.int64).reshape(-1, 3).T.copy()
    return Feasible(np.concatenate([[0], ends[:-1]]).astype(np.int64) if len(runs) else ends, ends, first, step, size)


def consecutive(numbers: list[int]) -> list[range]:
    """Ascending numbers as runs of consecutive ones."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs
