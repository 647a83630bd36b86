"""Suppressed tables by codes for table_bounds: a variable for each level of codes, as readers know the hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from duckanon.catalog.publication import Codes
from duckanon.errors import InvalidInput
from duckanon.functions.code_levels import Leveled, levels_of_codes

Ints = npt.NDArray[np.int64]
# What SQL passes of the columns of codes of a table.
TREES = "STRUCT(place BIGINT, labels VARCHAR[], lines STRUCT(code VARCHAR, parent VARCHAR)[])[]"


@dataclass(frozen=True)
class Tree:
    """A column of codes of a table. at: its place among the columns. labels: of its codes, as they are numbered."""

    column: str
    at: int
    labels: Sequence[str | None]
    lines: Codes


@dataclass(frozen=True, eq=False)
class Cells:
    """A table as it was read.

    codes: shape (cells, columns), -1 in totals over a column. numbers: None for a suppressed cell; written: as they
    were read. double: whether they are DOUBLE. trees: of its columns of codes, whose codes are of all levels.
    """

    codes: Ints
    numbers: Sequence[Fraction | None]
    written: Sequence[str | None]
    double: bool
    trees: Sequence[Tree] = ()


@dataclass(frozen=True)
class Coded:
    """All tables with their levels. names, sizes: of all variables, the levels last. places, cells: of each table."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    places: Sequence[Sequence[int]]
    cells: Sequence[Cells]


def with_levels(
    names: Sequence[str], sizes: Sequence[int], places: Iterable[Sequence[int]], tables: Sequence[Cells]
) -> Coded:
    """The same where each level of a column of codes is a variable. Raises InvalidInput for codes without a place."""
    levels = _Levels(list(names), list(sizes))
    own = [list(place) for place in places]
    used: dict[tuple[int, Codes], set[str | None]] = {}
    for where, cells in zip(own, tables, strict=True):
        for tree in cells.trees:
            shown = {tree.labels[code] for code in np.unique(cells.codes[:, tree.at]).tolist() if code >= 0}
            used.setdefault((where[tree.at], tree.lines), set()).update(shown - {parent for _, parent in tree.lines})
    made_places, made_cells = [], []
    for where, cells in zip(own, tables, strict=True):
        for tree in cells.trees:
            more, cells = levels.expanded(tree, where[tree.at], cells, used[where[tree.at], tree.lines])
            where = [*where, *more]
        made_places.append(where)
        made_cells.append(cells)
    return Coded(tuple(levels.names), tuple(levels.sizes), made_places, made_cells)


class _Levels:
    """Variables, to which levels of codes are added."""

    def __init__(self, names: list[str], sizes: list[int]) -> None:
        self.names, self.sizes = names, sizes
        self._known: dict[tuple[int, Codes], tuple[Leveled, list[int]]] = {}

    def expanded(self, tree: Tree, place: int, cells: Cells, used: set[str | None]) -> tuple[list[int], Cells]:
        """The variables of the levels, and the cells with these as further columns."""
        leveled, more = self._of(tree, place, used)
        number = {label: code for code, label in enumerate(tree.labels)}
        labels = [sorted({labels[at] or "" for *_, labels in leveled.nodes}) for at in range(len(leveled.names))]
        rows: dict[int, list[list[int]]] = {-1: [[-1] * (len(more) + 1)]}
        for label, level, _, chain in leveled.nodes:
            if level and label in number:
                own = [-1 if upper is None else labels[at].index(upper) for at, upper in enumerate(chain[:-1])]
                last = -1 if chain[-1] is None else number[label]
                rows.setdefault(number[label], []).append([*own, last])
        codes, at = [], []
        for cell, codes_of_cell in enumerate(cells.codes.tolist()):
            if codes_of_cell[tree.at] not in rows:
                raise InvalidInput(
                    f'Column "{tree.column}" holds a value that its hierarchy lacks: give the hierarchy each code.'
                )
            for *own, last in rows[codes_of_cell[tree.at]]:
                codes.append([*codes_of_cell[: tree.at], last, *codes_of_cell[tree.at + 1 :], *own])
                at.append(cell)
        whole = np.array(codes, dtype=np.int64).reshape(len(codes), cells.codes.shape[1] + len(more))
        numbers, written = [cells.numbers[number] for number in at], [cells.written[row] for row in at]
        return more, replace(cells, codes=whole, numbers=numbers, written=written)

    def _of(self, tree: Tree, place: int, used: set[str | None]) -> tuple[Leveled, list[int]]:
        if (place, tree.lines) not in self._known:
            leveled = levels_of_codes(tree.column, tree.lines, sorted(used, key=str))
            more = list(range(len(self.names), len(self.names) + len(leveled.names) - 1))
            self.names += leveled.names[:-1]
            self.sizes += [len({labels[at] or "" for *_, labels in leveled.nodes}) for at in range(len(more))]
            self._known[place, tree.lines] = leveled, more
        return self._known[place, tree.lines]
