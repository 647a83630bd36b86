"""Every way to make a two-way table of some variables, audited from one cross-table (section 4.3 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb, prod

import numpy as np

from duckanon.engines.cells.audit import MOST_PLACES, report, shape
from duckanon.engines.cells.knapsack import Ints
from duckanon.engines.cells.sorting import stable_order
from duckanon.errors import InvalidInput

# The most designs that one call may audit.
MOST = 1_000_000
# A merging: for each group of neighbouring values the first one's code.
Groups = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CrossTable:
    """Nonzero cells of all variables together.

    codes: int64 of shape (variables, cells), each value's number from 0, in the order of the values.
    levels: how many values each variable has, those of cells without records included.
    counts: int64 of shape (cells,), records.
    """

    codes: Ints
    levels: Sequence[int]
    counts: Ints


@dataclass(frozen=True)
class Search:
    """Restrictions of the search. Variables are given by position.

    fixed_rows, fixed_cols: variables that have that role in every design. max_cols: the most column variables.
    merge: ordered variables whose neighbouring values may be merged.
    """

    fixed_rows: frozenset[int] = frozenset()
    fixed_cols: frozenset[int] = frozenset()
    max_cols: int | None = None
    merge: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Design:
    """A choice of roles, and what its table discloses.

    merged: variable -> its groups, for those that are merged.
    measures: as `audit.report` and `audit.shape`.
    information: entropy of the design's cells divided by that of the whole cross-table, 0 to 1.
    dependence: mutual information of rows and columns, in bits: how much the conditionals carry about the columns.
    """

    rows: tuple[int, ...]
    cols: tuple[int, ...]
    merged: dict[int, Groups]
    measures: dict[str, int]
    information: float
    dependence: float

    @property
    def rank(self) -> tuple[object, ...]:
        """Safest first, then most useful; equal ones by the positions of their variables."""
        risk = self.measures
        return (
            risk["disclosed_small_cells"],
            -round(self.information, 12),
            risk["disclosed_rows"],
            risk["zero_cells"],
            -round(self.dependence, 12),
            self.rows,
            self.cols,
            sorted(self.merged.items()),
        )


def groupings(levels: int) -> Iterator[Groups]:
    """All ways to merge neighbours of 0..levels-1 into two or more groups, at least two values merged."""
    for groups in range(2, levels):
        for starts in combinations(range(1, levels), groups - 1):
            yield (0, *starts)


def _subsets(variables: int, search: Search) -> Iterator[tuple[int, ...]]:
    for size in range(2, variables + 1):
        for used in combinations(range(variables), size):
            if search.fixed_rows | search.fixed_cols <= set(used):
                yield used


def _splits(used: Sequence[int], search: Search) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    most = len(used) - 1 if search.max_cols is None else min(search.max_cols, len(used) - 1)
    for size in range(1, most + 1):
        for cols in combinations(used, size):
            if search.fixed_cols <= set(cols) and not search.fixed_rows & set(cols):
                yield tuple(v for v in used if v not in cols), cols


def _mergings(used: Sequence[int], table: CrossTable, search: Search) -> Iterator[dict[int, Groups]]:
    ways = [[None, *groupings(table.levels[v])] if v in search.merge else [None] for v in used]
    for chosen in product(*ways):
        yield {v: groups for v, groups in zip(used, chosen, strict=True) if groups is not None}


def count_designs(table: CrossTable, search: Search) -> int:
    """How many designs the search would audit."""
    total = 0
    for used in _subsets(len(table.levels), search):
        merged = prod(2 ** max(table.levels[v] - 1, 1) - 1 if v in search.merge else 1 for v in used)
        most = len(used) - 1 if search.max_cols is None else min(search.max_cols, len(used) - 1)
        held = len(search.fixed_cols)
        free = len(used) - held - len(search.fixed_rows)
        total += merged * sum(comb(free, size - held) for size in range(max(1, held), most + 1))
    return total


def _keys(codes: Sequence[Ints], levels: Sequence[int]) -> Ints:
    """One number for each combination of codes, in their lexicographic order."""
    key, room = codes[0], levels[0]
    for code, level in zip(codes[1:], levels[1:], strict=True):
        if room * level > 2**62:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            room = len(key)
        key, room = key * level + code, room * level
    return key


def _entropy(counts: Ints) -> float:
    """In bits. Sorted first, so that the last digit does not depend on the order of the cells."""
    shares = np.sort(counts) / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _totals(keys: Ints, counts: Ints) -> Ints:
    order = stable_order(keys)
    return np.add.reduceat(counts[order], np.flatnonzero(np.diff(keys[order], prepend=-1)))


def designs(table: CrossTable, search: Search, small: int, progress: Callable[[float], None]) -> list[Design]:
    """Audit every design of the search, safest and most useful first.

    small: as in `audit.report`. progress: called with the share done, 0 to 1.
    Raises InvalidInput for an empty search, one of more than MOST designs, and more than MOST_PLACES combinations.
    """
    total = count_designs(table, search)
    if not total:
        raise InvalidInput(
            "No design is left: name two variables or more, and leave one of them free to be a row and one a column."
        )
    if total > MOST:
        raise InvalidInput(
            f"There are {total} designs, more than 1000000: narrow them by fixed_rows, fixed_cols or max_cols, "
            "or merge fewer variables."
        )
    if prod(table.levels) > MOST_PLACES:
        raise InvalidInput("There are more than 10^38 combinations of values: name fewer variables, or coarsen them.")
    if not len(table.counts):
        raise InvalidInput("All counts are zero: a table without records has no proportions.")
    whole = _entropy(table.counts)
    audited: list[Design] = []
    entropies: dict[tuple[tuple[int, Groups | None], ...], float] = {}
    for used in _subsets(len(table.levels), search):
        for merged in _mergings(used, table, search):
            codes = {v: table.codes[v] for v in used}
            levels = {v: table.levels[v] for v in used}
            for v, groups in merged.items():
                codes[v] = np.searchsorted(np.array(groups), codes[v], side="right") - 1
                levels[v] = len(groups)
            # The table of the variables that are used, once for all their roles.
            keys = _keys([codes[v] for v in used], [levels[v] for v in used])
            order = stable_order(keys)
            starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
            counts = np.add.reduceat(table.counts[order], starts)
            cells = {v: codes[v][order][starts] for v in used}
            here = _entropy(counts)
            for rows, cols in _splits(used, search):
                parts = []
                for part in (rows, cols):
                    name = tuple((v, merged.get(v)) for v in part)
                    if name not in entropies:
                        entropies[name] = _entropy(
                            _totals(_keys([cells[v] for v in part], [levels[v] for v in part]), counts)
                        )
                    parts.append(entropies[name])
                places = _keys([cells[v] for v in rows], [levels[v] for v in rows])
                by_row = stable_order(places)
                measures = report(places[by_row], counts[by_row], small)
                measures |= shape(measures, [levels[v] for v in rows], [levels[v] for v in cols])
                information = min(1.0, here / whole) if whole else 1.0
                audited.append(Design(rows, cols, merged, measures, information, max(0.0, sum(parts) - here)))
            progress(len(audited) / total)
    return sorted(audited, key=lambda design: design.rank)
