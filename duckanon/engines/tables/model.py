"""From released tables and a target to a system in whole numbers.

Its columns are the cells of the cliques around the target. A clique whose cells an exact table of shares lists one by
one has a column for each row of that table instead, the multiplier t of n = r t, so that no equation with large
coefficients ties them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duckanon.engines.tables.cells import Ints, keys, pairs, places
from duckanon.engines.tables.clique import Clique, clique_cells
from duckanon.engines.tables.junction import Variables
from duckanon.engines.tables.part import Part
from duckanon.engines.tables.released import (
    UNBOUNDED,
    Counts,
    ExactShares,
    Released,
    Releases,
    RoundedShares,
)
from duckanon.engines.tables.system import Builder, System
from duckanon.errors import InvalidInput

# Terms of rows: each one's row, column and value.
Terms = tuple[Ints, Ints, Ints]


@dataclass(frozen=True, eq=False)
class Cells:
    """A clique's cells as columns: the count of a cell is scale * x[column].

    source: the exact table of shares whose multipliers the columns are, if they are.
    """

    clique: Clique
    column: Ints
    scale: Ints
    source: Released | None = None

    def counts_of(self, variables: Sequence[int], codes: Ints, levels: Sequence[int]) -> Terms:
        """The counts of some cells of a margin, as (position, column, scale)."""
        sizes = [levels[v] for v in variables]
        at = places(keys(self.clique.on(variables), sizes), keys(codes, sizes))
        inside = at >= 0
        return at[inside], self.column[inside], self.scale[inside]


@dataclass(frozen=True, eq=False)
class Definition:
    """Columns that follow from others: x[columns[i]] = (sum of value * x[column] over terms of row i) / divisor[i]."""

    columns: Ints
    terms: Terms
    divisor: Ints


@dataclass(frozen=True, eq=False)
class Unions:
    """Sums of target cells. union, cell: shape (members,), which cell, by its position, is in which union.

    count: of unions.
    """

    union: Ints
    cell: Ints
    count: int

    def expand(self, terms: Terms) -> Terms:
        """The terms of unions from those of cells."""
        at, column, scale = terms
        term, member = pairs(at, self.cell)
        return self.union[member], column[term], scale[term]


@dataclass(frozen=True, eq=False)
class Model:
    """A system, and the target's cells in it: the count of target cell i is scale[i] * x[column[i]].

    codes: int64 of shape (cells, target variables). column: int64 of shape (cells,); -1 where the count is zero. Both
    are of unions of cells, and `codes` still of cells, where unions are asked for.
    cliques: the cells of the cliques; the first holds the target. definitions: of all columns that are no cells.
    """

    system: System
    codes: Ints
    column: Ints
    scale: Ints
    cliques: tuple[Cells, ...]
    definitions: tuple[Definition, ...]

    def solution(self, codes: Ints, counts: Ints, levels: Sequence[int]) -> Ints | None:
        """The columns' values for some records, if they are a solution.

        codes: shape (cells, all variables). counts: shape (cells,).
        """
        x = np.zeros(self.system.columns, dtype=np.int64)
        for cells in self.cliques:
            sizes = [levels[v] for v in cells.clique.variables]
            at = places(keys(codes[:, cells.clique.variables], sizes), keys(cells.clique.codes, sizes))
            if (counts[at < 0] > 0).any():
                return None
            cell_counts = np.zeros(len(cells.clique), dtype=np.int64)
            np.add.at(cell_counts, at[at >= 0], counts[at >= 0])
            x[cells.column] = cell_counts // cells.scale
            if (x[cells.column] * cells.scale != cell_counts).any():
                return None
        for definition in self.definitions:
            row, column, coefficient = definition.terms
            sums = np.zeros(len(definition.columns), dtype=np.int64)
            np.add.at(sums, row, coefficient * x[column])
            x[definition.columns] = sums // definition.divisor
        return x if self.system.holds(x) else None


def build(
    releases: Releases, part: Part, target: Sequence[int], codes: Ints | None, unions: Unions | None = None
) -> Model:
    """The model of the target's cells. codes: those to bound; None for all that may hold a record.

    unions: of these cells, which are bounded in their place.

    Raises InvalidInput if the cliques are too large, or contradict the number of records.
    """
    tables = part.tables
    least, most = releases.total()
    builder = Builder()
    definitions: list[Definition] = []
    cliques = [_columns(builder, clique, releases, tables) for clique in part.tree.cliques]
    for a, b in part.tree.links:
        _link(builder, cliques[a], cliques[b], sorted(part.tree.separator((a, b))), releases.levels)
    for table in tables:
        home = min((c for c in cliques if set(table.scope) <= set(c.clique.variables)), key=lambda c: len(c.clique))
        _add(builder, definitions, home, table, releases.levels)
    first = cliques[0]
    # The total follows from known counts.
    if not any(table.known_counts for table in tables):
        whole = (np.zeros(len(first.clique), dtype=np.int64), first.column, first.scale)
        builder.add_rows([whole], np.array([least]), np.array([most]))
    if codes is None:
        codes = np.unique(cliques[0].clique.on(target), axis=0)
    terms = cliques[0].counts_of(target, codes, releases.levels)
    if unions is not None:
        terms = unions.expand(terms)
    column, scale = _target(builder, definitions, terms, len(codes) if unions is None else unions.count)
    return Model(builder.build(most), codes, column, scale, tuple(cliques), tuple(definitions))


def _columns(builder: Builder, variables: Variables, releases: Releases, tables: Sequence[Released]) -> Cells:
    clique = clique_cells(variables, releases.levels, tables)
    for table in tables:
        content = table.content
        if set(table.scope) != variables or not table.complete or not isinstance(content, ExactShares):
            continue
        if (content.reduced < 0).any():
            continue
        sizes = [releases.levels[v] for v in table.scope]
        at = places(keys(clique.on(table.scope), sizes), keys(table.codes, sizes))
        multipliers = builder.add_columns(len(content.whole), lower=1)
        _forbid_missing(builder, content, multipliers, at)
        return Cells(clique, multipliers[content.row[at]], content.reduced[at], table)
    return Cells(clique, builder.add_columns(len(clique)), np.ones(len(clique), dtype=np.int64))


def _forbid_missing(builder: Builder, content: ExactShares, multipliers: Ints, at: Ints) -> None:
    """A cell that the table says holds records, and another table says holds none, leaves no solution."""
    missing = content.reduced > 0
    missing[at] = False
    some = np.flatnonzero(missing)
    nothing = np.zeros(len(some), dtype=np.int64)
    row = np.arange(len(some))
    builder.add_rows([(row, multipliers[content.row[some]], content.reduced[some])], nothing, nothing)


def _link(builder: Builder, first: Cells, second: Cells, separator: Sequence[int], levels: Sequence[int]) -> None:
    """Both cliques have the same counts of the separator."""
    sizes = [levels[v] for v in separator]
    here, there = keys(first.clique.on(separator), sizes), keys(second.clique.on(separator), sizes)
    listed, row = np.unique(np.concatenate([here, there]), return_inverse=True)
    row = row.reshape(-1).astype(np.int64)
    nothing = np.zeros(len(listed), dtype=np.int64)
    builder.add_rows(
        [(row[: len(here)], first.column, first.scale), (row[len(here) :], second.column, -second.scale)],
        nothing,
        nothing,
    )


def _add(builder: Builder, definitions: list[Definition], home: Cells, table: Released, levels: Sequence[int]) -> None:
    """Add a table's rows, in the cells of a clique that holds its variables."""
    if home.source is table:
        return
    cells = home.counts_of(table.scope, table.codes, levels)
    if isinstance(table.content, Counts):
        builder.add_rows([cells], table.content.lower, table.content.upper)
        return
    if table.shown:
        size = len(table.codes)
        builder.add_rows([cells], np.ones(size, dtype=np.int64), np.full(size, UNBOUNDED))
    if isinstance(table.content, ExactShares):
        definitions.append(_add_exact(builder, home, cells, table, table.content, levels))
    else:
        definitions.extend(_add_rounded(builder, home, cells, table, table.content, levels))


def _add_exact(
    builder: Builder, home: Cells, cells: Terms, table: Released, content: ExactShares, levels: Sequence[int]
) -> Definition:
    """n_ab = r t_b for each cell with a share; where some have none, n_b = (sum of r) t_b too."""
    at, column, scale = cells
    rows = len(content.whole)
    multiplier = builder.add_columns(rows, lower=1)
    known = np.flatnonzero(content.reduced >= 0)
    new = np.full(len(content.row), -1, dtype=np.int64)
    new[known] = np.arange(len(known))
    has_share = new[at] >= 0
    nothing = np.zeros(len(known), dtype=np.int64)
    shares = (new[known], multiplier[content.row[known]], -content.reduced[known])
    builder.add_rows([(new[at][has_share], column[has_share], scale[has_share]), shares], nothing, nothing)
    records = home.counts_of(table.given, _given_levels(table, content.row), levels)
    if not table.complete or len(known) < len(content.row):
        nothing = np.zeros(rows, dtype=np.int64)
        builder.add_rows([records, (np.arange(rows), multiplier, -content.whole)], nothing, nothing)
    return Definition(multiplier, records, content.whole)


def _given_levels(table: Released, row: Ints) -> Ints:
    """The levels of the given variables of each row."""
    first = np.zeros(int(row.max(initial=-1)) + 1, dtype=np.int64)
    first[row] = np.arange(len(row))
    return table.codes[first][:, : len(table.given)]


def _add_rounded(
    builder: Builder, home: Cells, cells: Terms, table: Released, content: RoundedShares, levels: Sequence[int]
) -> list[Definition]:
    """(2 q - 1) n_b <= 2 D n_ab <= (2 q + 1) n_b, less one unit where the end itself would be rounded elsewhere."""
    at, column, scale = cells
    rows, count = int(content.row.max(initial=-1)) + 1, len(content.row)
    cell_columns = builder.add_columns(count)
    none = np.zeros(count, dtype=np.int64)
    builder.add_rows([(at, column, scale), (np.arange(count), cell_columns, np.full(count, -1))], none, none)
    total = builder.add_columns(rows, lower=1)
    of, own, size = home.counts_of(table.given, _given_levels(table, content.row), levels)
    none = np.zeros(rows, dtype=np.int64)
    builder.add_rows([(of, own, size), (np.arange(rows), total, np.full(rows, -1))], none, none)
    known = np.flatnonzero(content.published >= 0)
    q, of_row = content.published[known], total[content.row[known]]
    row, twice = np.arange(len(known)), np.full(len(known), 2 * content.scale)
    odd = (q % 2 == 1) & (content.ties == 2)
    strict_low, strict_high = odd | (content.ties >= 3), odd | (content.ties in (1, 4))
    free = np.full(len(known), UNBOUNDED)
    # From zero the lower end is none.
    low = np.where(q > 0, strict_low.astype(np.int64), -UNBOUNDED)
    builder.add_rows([(row, cell_columns[known], twice), (row, of_row, -(2 * q - 1))], low, free)
    builder.add_rows(
        [(row, cell_columns[known], twice), (row, of_row, -(2 * q + 1))], -free, -strict_high.astype(np.int64)
    )
    ones = np.ones(max(count, rows), dtype=np.int64)
    return [Definition(cell_columns, cells, ones[:count]), Definition(total, (of, own, size), ones[:rows])]


def _target(builder: Builder, definitions: list[Definition], terms: Terms, count: int) -> tuple[Ints, Ints]:
    """Column and scale of each target cell; a cell that is the sum of several columns gets one of its own."""
    at, own, size = terms
    some = size > 0
    at, own, size = at[some], own[some], size[some]
    column, scale = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    lowest, highest = np.full(count, builder.columns, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    np.minimum.at(lowest, at, own)
    np.maximum.at(highest, at, own)
    np.add.at(scale, at, size)
    single = lowest == highest
    column[single] = lowest[single]
    several = np.flatnonzero(lowest < highest)
    if len(several):
        column[several], scale[several] = builder.add_columns(len(several)), 1
        new = np.full(count, -1, dtype=np.int64)
        new[several] = np.arange(len(several))
        summed = new[at] >= 0
        nothing = np.zeros(len(several), dtype=np.int64)
        minus = np.full(len(several), -1, dtype=np.int64)
        of_new = (new[at][summed], own[summed], size[summed])
        builder.add_rows([of_new, (new[several], column[several], minus)], nothing, nothing)
        definitions.append(Definition(column[several], of_new, -minus))
    return column, scale


def check_variables(releases: Releases, target: Sequence[int]) -> None:
    """Raises InvalidInput if a target variable is in no table."""
    covered = {v for table in releases.tables for v in table.scope}
    for v in target:
        if not 0 <= v < len(releases.levels):
            raise InvalidInput("The target names a variable that has no levels: give them.")
        if v not in covered:
            raise InvalidInput(
                f"No table has {releases.variable(v)}, so nothing bounds it: leave it out of the target."
            )
    if len(set(target)) < len(target) or not target:
        raise InvalidInput("The target is one or more different variables.")
