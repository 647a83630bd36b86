"""A table of counts or sums with suppressed cells, as `suppress` returns it: its margins, and which cells are hidden.

Totals stand in the same table as their parts. `row_level`, `col_level` and, with further dimensions, `by_level` say by
how many of the columns of each list a row is counted: all rows with the same levels are a margin. Without these columns
there is one margin. Lists that end in the same column are hierarchies over one dimension.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import duckdb

from duckanon.catalog.names import fold, identifier
from duckanon.errors import InvalidInput

LEVELS = ("row_level", "col_level")
BY_LEVEL = "by_level"

# The levels of a cell in each list; None where it is in another list of the same dimension.
Levels = tuple[int | None, ...]
# The columns of each hierarchy of a dimension, the widest first.
Hierarchies = tuple[tuple[str, ...], ...]
# A node of a dimension: the variables that identify it, and their values. A cell has one in each dimension.
Node = tuple[tuple[str, ...], tuple[Any, ...]]
Place = tuple[Node, ...]


@dataclass(frozen=True)
class Margin:
    """Numbers by some variables. levels: which rows of the table they are, as SQL. total: whether it has parts.

    nodes: for each dimension of the table, the variables that identify a node there.
    """

    levels: str
    total: bool
    nodes: tuple[tuple[str, ...], ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(name for node in self.nodes for name in node)

    def within(self, other: Margin) -> bool:
        """Whether it is made of sums of the other margin, or is the same."""
        return all(set(own) <= set(other_names) for own, other_names in zip(self.nodes, other.nodes, strict=True))


@dataclass(frozen=True)
class Form:
    """What a suppressed table is made of. margins: the smallest first. nodes: of each, by its levels.

    lists: of each dimension, which of the lists of columns are its hierarchies.
    """

    dimensions: tuple[Hierarchies, ...]
    margins: tuple[Margin, ...]
    nodes: Mapping[Levels, tuple[tuple[str, ...], ...]]
    lists: tuple[tuple[int, ...], ...] = ()

    @property
    def tables(self) -> list[Margin]:
        """The margins that have no parts: each is the inside of a table, whose totals are the others within it."""
        return [margin for margin in self.margins if not margin.total]


def weighted(weight: str, value: str | None, digits: int) -> str:
    """SQL: what a record adds to a weighted sum, or to a weighted count; NULL where that is no number.

    weight, value: columns.
    """
    times = f"TRY_CAST({identifier(weight)} AS DOUBLE)"
    times += "" if value is None else f" * TRY_CAST({identifier(value)} AS DOUBLE)"
    return f"TRY_CAST(round({times}, {digits}) AS DECIMAL(28, {digits}))"


def place(nodes: Sequence[Sequence[str]], values: Mapping[str, Any]) -> Place:
    """The place with these values of the variables that identify it in each dimension."""
    return tuple((tuple(node), tuple(values[name] for name in node)) for node in nodes)


def above(lists: Hierarchies, node: Node) -> list[Node | None]:
    """The node of which one is a part, in each hierarchy of its dimension; None where it is in another."""
    names, values = node
    shown, whole = dict(zip(names, values, strict=True)), {name for hierarchy in lists for name in hierarchy}
    nodes: list[Node | None] = []
    for hierarchy in lists:
        level = len(hierarchy) if set(names) == whole else len(names)
        inside = bool(names) and (set(names) == whole or names == hierarchy[:level])
        nodes.append(place([hierarchy[: level - 1]], shown)[0] if inside else None)
    return nodes


def level_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns of a table with these that say what a row is counted by; none if it has no totals."""
    named = {fold(name) for name in columns}
    if not set(LEVELS) <= named:
        return ()
    return (*LEVELS, BY_LEVEL) if BY_LEVEL in named else LEVELS


def form(con: duckdb.DuckDBPyConnection, source: str, columns: Iterable[str], variables: Sequence[str]) -> Form:
    """What a suppressed table with these columns is made of.

    variables: all that identify a cell: those of the rows, then those of the columns, then those of each list in by,
    each once. Raises InvalidInput for levels that do not fit them.
    """
    named = level_columns(columns)
    if not named:
        return Form(
            tuple(((name,),) for name in variables), (Margin("true", False, tuple((v,) for v in variables)),), {}
        )
    listed = ", ".join(map(identifier, named))
    rows = con.execute(f"SELECT DISTINCT {listed} FROM {source}").fetchall()
    return form_of(list(map(levels_of, rows)), variables)


def levels_of(row: Sequence[Any]) -> Levels:
    """The levels of a cell in all lists, from the columns that say them."""
    row_level, col_level, *by_level = row
    return (row_level, col_level, *((by_level[0] or ()) if by_level else ()))


def used_by(levels: Sequence[Levels], variables: Sequence[str], codes: Collection[str]) -> list[list[bool]]:
    """For each of the levels that occur, which of the variables identify a cell there; all, where no row has levels.

    variables: as in `form`. codes: which of them hold codes, whose levels are all in that column; folded. Raises
    InvalidInput for levels that do not fit the variables.
    """
    if all(level is None for row in levels for level in row):
        return [[True] * len(variables) for _ in levels]
    coded, left = set(), list(variables)
    for at, size in _sizes(_groups(levels), levels).items():
        if left and fold(left[0]) in codes:
            coded.add(at)
        left = left[1 if at in coded else size :]
    columns = [tuple(bool(level) if at in coded else level for at, level in enumerate(row)) for row in levels]
    nodes = form_of(list(dict.fromkeys(columns)), variables).nodes
    return [[any(name in node for node in nodes[row]) for name in variables] for row in columns]


def form_of(levels: Sequence[Levels], variables: Sequence[str], *, in_answer: bool = False) -> Form:
    """The same from all levels that occur. Raises InvalidInput.

    in_answer: whether variables come in the order of the answer's columns, which has those of a dimension together.
    """
    groups = _groups(levels)
    order = [at for group in groups for at in group]
    dimensions = _lists(groups, order if in_answer else sorted(order), levels, variables)
    nodes = {
        row: tuple(_node(lists, [row[at] for at in group]) for lists, group in zip(dimensions, groups, strict=True))
        for row in levels
    }
    whole = {row: Margin(_are(row), False, at) for row, at in nodes.items()}
    margins = [
        Margin(margin.levels, any(margin.within(other) for other in whole.values() if other != margin), margin.nodes)
        for margin in whole.values()
    ]
    ordered = tuple(sorted(margins, key=lambda margin: (len(margin.variables), margin.levels)))
    return Form(tuple(dimensions), ordered, nodes, tuple(map(tuple, groups)))


def _groups(levels: Sequence[Levels]) -> list[list[int]]:
    """The lists of each dimension, by their numbers."""
    if len({len(row) for row in levels}) != 1 or any(
        number is not None and number < 0 for row in levels for number in row
    ):
        raise _no_levels()
    groups: list[list[int]] = []
    columns = list(zip(*levels, strict=True))
    for at, column in enumerate(columns):
        if any(column):
            group = next((group for group in groups if _in_one_dimension(columns[group[0]], column)), None)
            if group is None:
                groups.append([at])
            else:
                group.append(at)
    return groups


def _in_one_dimension(levels: Levels, other: Levels) -> bool:
    """Whether two lists are hierarchies over one dimension, by their levels in all rows.

    Then they have their totals in the same rows, and another row is in one of them only, or a leaf of both.
    """
    rows = list(zip(levels, other, strict=True))
    leaf = tuple(max(level or 0 for level in column) for column in (levels, other))
    return any((a is None) != (b is None) for a, b in rows) and all(
        (a == 0) == (b == 0) and (None in (a, b) or a == 0 or (a, b) == leaf) for a, b in rows
    )


def _sizes(groups: Sequence[Sequence[int]], levels: Sequence[Levels]) -> dict[int, int]:
    """Of how many columns each list is, in their order. The last one of several lists over a dimension counts once."""
    later = {at for group in groups if _shared(group, levels) for at in group[1:]}
    return {at: max(row[at] or 0 for row in levels) - (at in later) for at in sorted(chain.from_iterable(groups))}


def _shared(group: Sequence[int], levels: Sequence[Levels]) -> bool:
    """Whether the lists of a dimension have leaves, which stand in the last column of each."""
    return any(all(row[at] for at in group) for row in levels)


def _lists(
    groups: Sequence[Sequence[int]], order: Sequence[int], levels: Sequence[Levels], variables: Sequence[str]
) -> list[Hierarchies]:
    """The columns of each list, by dimension. The last one of several lists stands in variables once.

    order: of the lists in variables.
    """
    sizes = _sizes(groups, levels)
    if sum(sizes.values()) != len(variables):
        raise InvalidInput(
            f"The cells of the release are identified by {sum(sizes.values())} columns: name all that suppress had as "
            "rows, then all that it had as cols, then those of each list in by. If their hierarchy is a table of "
            "codes, name it in hierarchies."
        )
    first = {at: group[0] for group in groups if _shared(group, levels) for at in group}
    list_at: dict[int, tuple[str, ...]] = {}
    left = tuple(variables)
    for at in order:
        own, left = left[: sizes[at]], left[sizes[at] :]
        list_at[at] = own if first.get(at, at) == at else (*own, list_at[first[at]][-1])
    return [tuple(list_at[at] for at in group) for group in groups]


def _node(dimension: Hierarchies, levels: Sequence[int | None]) -> tuple[str, ...]:
    """The variables that identify a node with these levels in the lists of a dimension."""
    if all(level == len(hierarchy) for level, hierarchy in zip(levels, dimension, strict=True)):
        return tuple(dict.fromkeys(name for hierarchy in dimension for name in hierarchy))
    if not any(levels) and None not in levels:
        return ()
    inside = [hierarchy[:level] for level, hierarchy in zip(levels, dimension, strict=True) if level]
    if len(inside) != 1 or levels.count(None) != len(dimension) - 1:
        raise _no_levels()
    return inside[0]


def _no_levels() -> InvalidInput:
    return InvalidInput(
        "row_level, col_level and by_level say how many columns identify a cell: publish what suppress gives."
    )


def _are(levels: Levels) -> str:
    tests = [
        f"{identifier(name)} IS NOT DISTINCT FROM {_sql(level)}" for name, level in zip(LEVELS, levels, strict=False)
    ]
    tests += [
        f"{identifier(BY_LEVEL)}[{at}] IS NOT DISTINCT FROM {_sql(level)}" for at, level in enumerate(levels[2:], 1)
    ]
    return " AND ".join(tests)


def _sql(level: int | None) -> str:
    return "NULL" if level is None else str(level)
