"""The least and largest value of many columns of one system, each end with its certificate.

Propagation first. Then linear programs with changing objectives: sums of all columns whose ends are still open, then
single ones; every optimum that is whole is a witness for all columns at once. Then branch and bound for what is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic

import numpy as np

from duckanon.cancellation import check, within
from duckanon.engines.tables.cells import Bools, Ints
from duckanon.engines.tables.knapsacks import settle
from duckanon.engines.tables.programs import Floats, IntegerProgram, LinearProgram
from duckanon.engines.tables.released import UNBOUNDED
from duckanon.engines.tables.system import System, propagate

# Beyond it a float may be another whole number.
_CLOSE = 1e-6
# Rounds of sums as objectives.
_ROUNDS = 60
# Nodes of branch and bound before HiGHS's integer programming looks for a better witness, its seconds, and all nodes.
_NODES_ALONE, _SECONDS_ASKED, _NODES = 3, 10.0, 20_000


class NoSolutionError(Exception):
    """No whole x solves the system."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Ends of each column: int64 of shape (columns,).

    lower, upper: proven. least, largest: reached by witnesses, solutions in whole numbers; least > largest where
    there is none.
    """

    lower: Ints
    upper: Ints
    least: Ints
    largest: Ints


@dataclass(frozen=True, eq=False)
class _Box:
    """A node of branch and bound: no solution in it has a smaller objective than `bound`."""

    lower: Ints
    upper: Ints
    bound: int


class Search:
    """The ends of each column that are known so far, and ways to narrow them. Raises NoSolutionError as soon as that is
    proven.
    """

    def __init__(self, system: System, seconds: float) -> None:
        self._until = monotonic() + within(seconds)
        self.system = system
        self.lower, self.upper = system.lower.copy(), system.upper.copy()
        self.least = np.full(system.columns, UNBOUNDED, dtype=np.int64)
        self.largest = np.full(system.columns, -1, dtype=np.int64)
        self._enough = np.full(system.columns, UNBOUNDED, dtype=np.int64)
        self._narrow()

    @property
    def ends(self) -> Ends:
        return Ends(self.lower, self.upper, self.least, self.largest)

    @property
    def left(self) -> float:
        check()
        return self._until - monotonic()

    def witness(self, x: Ints) -> bool:
        """Take in a solution; whether it is one."""
        if not self.system.holds(x):
            return False
        self.least, self.largest = np.minimum(self.least, x), np.maximum(self.largest, x)
        return True

    def run(self, columns: Ints, enough: Ints | None = None) -> Ends:
        """Bound these columns, for as long as there is time.

        enough: shape (columns,), widths: a column is left as soon as it is known whether its ends are so far
            apart, and whether they differ.
        """
        if enough is not None:
            self._enough[columns] = enough
        self._few_equations()
        if (self.lower == self.upper).all():
            if not self.witness(self.lower):
                raise NoSolutionError
            return self.ends
        if not self._open(columns):
            return self.ends
        relaxed = LinearProgram(self.system, self.lower, self.upper)
        self._sums(relaxed, columns)
        self._single(relaxed, columns)
        if self._open(columns):
            self._narrow()
            relaxed = LinearProgram(self.system, self.lower, self.upper, dual=True)
            integer = IntegerProgram(relaxed)
            for column, sign in self._open(columns):
                if self.left > 0 and self._is_open(column, sign):
                    self._branch(relaxed, integer, column, sign)
        return self.ends

    def _narrow(self) -> None:
        if not propagate(self.system, self.lower, self.upper):
            raise NoSolutionError

    def _few_equations(self) -> None:
        """Settle what a few equations tie. Other columns are apart from them, so that any solution is a witness."""
        settled = settle(self.system, self.lower, self.upper)
        if settled is None:
            raise NoSolutionError
        self.least[settled], self.largest[settled] = self.lower[settled], self.upper[settled]

    def _is_open(self, column: int, sign: int) -> bool:
        return (column, sign) in self._open(np.array([column]))

    def _open(self, columns: Ints) -> list[tuple[int, int]]:
        """Columns and directions, 1 for the lower end and -1 for the upper one, that have no witness yet."""
        columns = columns[~self._settled(columns)]
        low = columns[self.least[columns] > self.lower[columns]]
        high = columns[self.largest[columns] < self.upper[columns]]
        return [(j, 1) for j in low.tolist()] + [(j, -1) for j in high.tolist()]

    def _settled(self, columns: Ints) -> Bools:
        """Whether witnesses show that a column's ends are far enough apart, or that they are not, but differ."""
        enough, apart = self._enough[columns], self.largest[columns] - self.least[columns]
        close = (enough < UNBOUNDED) & (self.upper[columns] - self.lower[columns] < enough)
        return np.asarray((apart >= enough) | (close & (apart > 0)))

    def _try(self, x: Floats) -> bool:
        """Take in an optimum if it is whole."""
        rounded = np.rint(x)
        return bool(np.abs(x - rounded).max(initial=0) < _CLOSE) and self.witness(rounded.astype(np.int64))

    def _sums(self, relaxed: LinearProgram, columns: Ints) -> None:
        """All open columns at once, as long as that closes some."""
        for _ in range(_ROUNDS):
            closed = 0
            for sign in (1, -1):
                undone = [j for j, s in self._open(columns) if s == sign and self.lower[j] < self.upper[j]]
                if not undone or self.left <= 0:
                    continue
                optimum = relaxed.minimise(np.array(undone), sign, self.left)
                if optimum is None:
                    if relaxed.empty():
                        raise NoSolutionError
                    return
                self._try(optimum.x)
                closed += sum(not self._is_open(j, sign) for j in undone)
            if closed < 2 + len(columns) // 500:
                return

    def _single(self, relaxed: LinearProgram, columns: Ints) -> None:
        for column, sign in self._open(columns):
            if self.left <= 0:
                return
            if self._is_open(column, sign) and self.lower[column] < self.upper[column]:
                optimum = relaxed.minimise(np.array([column]), sign, self.left)
                if optimum is not None:
                    self._try(optimum.x)
                    self._prove(column, sign, optimum.bound)
                elif relaxed.empty():
                    raise NoSolutionError

    def _prove(self, column: int, sign: int, bound: int) -> None:
        """Sign times the column is at least `bound`."""
        if sign > 0:
            self.lower[column] = max(int(self.lower[column]), bound)
        else:
            self.upper[column] = min(int(self.upper[column]), -bound)
        if self.lower[column] > self.upper[column]:
            raise NoSolutionError

    def _reached(self, column: int, sign: int) -> int:
        """The least of sign times the column that a witness has; more than any value if there is none."""
        if self.least[column] > self.largest[column]:
            return 1 + int(self.upper[column] if sign > 0 else -self.lower[column])
        return int(self.least[column]) if sign > 0 else -int(self.largest[column])

    def _branch(self, relaxed: LinearProgram, integer: IntegerProgram, column: int, sign: int) -> None:
        """Branch and bound, depth first, every bound proven in whole numbers."""
        start = int(self.lower[column]) if sign > 0 else -int(self.upper[column])
        stack = [_Box(self.lower.copy(), self.upper.copy(), start)]
        for node in range(_NODES):
            if not stack or self.left <= 0:
                break
            if node == _NODES_ALONE:
                self._ask(integer, column, sign)
            box = stack.pop()
            if box.bound >= self._reached(column, sign):
                continue
            stack.extend(self._split(relaxed, box, column, sign))
        relaxed.confine(self.lower, self.upper)
        bound = min([self._reached(column, sign), *(box.bound for box in stack)])
        self._prove(column, sign, bound)

    def _ask(self, integer: IntegerProgram, column: int, sign: int) -> None:
        x = integer.minimise(column, sign, self.lower, self.upper, min(self.left, _SECONDS_ASKED))
        if x is not None:
            self.witness(np.rint(x).astype(np.int64))

    def _split(self, relaxed: LinearProgram, box: _Box, column: int, sign: int) -> Iterable[_Box]:
        """What is left of a box, in two parts if it has to be cut; the one to look at first comes last."""
        lower, upper = box.lower.copy(), box.upper.copy()
        # Only what is better than the best witness is of interest.
        if sign > 0:
            upper[column] = min(int(upper[column]), self._reached(column, sign) - 1)
        else:
            lower[column] = max(int(lower[column]), 1 - self._reached(column, sign))
        if not propagate(self.system, lower, upper):
            return []
        if (lower == upper).all():
            self.witness(lower)
            return []
        relaxed.confine(lower, upper)
        optimum = relaxed.minimise(np.array([column]), sign, self.left)
        if optimum is None:
            if relaxed.empty():
                return []
            return _halves(lower, upper, (lower + upper) / 2, box.bound)
        self._try(optimum.x)
        bound = max(box.bound, optimum.bound)
        return [] if bound >= self._reached(column, sign) else _halves(lower, upper, optimum.x, bound)


def _halves(lower: Ints, upper: Ints, x: Floats, bound: int) -> list[_Box]:
    """Cut a box at the column whose value is farthest from whole; the widest one if all are whole."""
    away = np.abs(x - np.rint(x))
    j = int(np.argmax(away)) if away.max() > _CLOSE else int(np.argmax(upper - lower))
    middle = min(max(int(np.floor(x[j])), int(lower[j])), int(upper[j]) - 1)
    low, high = _Box(lower.copy(), upper.copy(), bound), _Box(lower.copy(), upper.copy(), bound)
    low.upper[j], high.lower[j] = middle, middle + 1
    return [high, low] if x[j] - middle < 0.5 else [low, high]
