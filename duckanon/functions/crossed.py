"""Crossed dimensions of a table with totals: which columns or codes make them, and the SQL that numbers their nodes.

A dimension has a hierarchy or several over the same leaves. A hierarchy is a list of columns, the widest first, or one
column of codes with a table that says which code each is a part of. Lists that end in the same column are hierarchies
over one dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.names import fold, identifier
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import absent, ascending, call, query_table

_TABLES = "as in tables := [['state', 'sex'], ['age', 'sex']]"
_OF_CODES = ("code", "parent")
_CODES = "as in hierarchies := {'industry': 'industry_codes'}, a table with the columns code and parent"


@dataclass(frozen=True)
class Crossed:
    """A dimension. place: its number. lists: the columns of each hierarchy. codes: the table of codes, or None."""

    place: int
    lists: tuple[tuple[str, ...], ...]
    codes: str | None

    @property
    def columns(self) -> list[str]:
        """Its columns, each once."""
        return list({fold(name): name for hierarchy in self.lists for name in hierarchy}.values())

    def key(self, name: str) -> str:
        """Our name for one of its columns."""
        return f"k{self.place}_{[fold(column) for column in self.columns].index(fold(name)) + 1}"

    @property
    def keys(self) -> list[str]:
        return [self.key(name) for name in self.columns]

    @property
    def named(self) -> list[str]:
        """SQL: its columns of a record, under our names. Codes are compared as text."""
        return [
            f"CAST({identifier(name)} AS VARCHAR) AS {key}" if self.codes else f"{identifier(name)} AS {key}"
            for name, key in zip(self.columns, self.keys, strict=True)
        ]

    def level(self, hierarchy: int) -> str:
        """SQL: the level of a node in one of the hierarchies, NULL where it is in another."""
        return f"_dk_nodes_{self.place}.l{hierarchy}"

    @property
    def same_leaf(self) -> str:
        """SQL: whether a record has the values of a leaf."""
        return " AND ".join(
            f"_dk_records.{key} IS NOT DISTINCT FROM _dk_leaves_{self.place}.{key}" for key in self.keys
        )

    def deepest(self, table: Sequence[str] | None) -> list[int]:
        """How many levels of each hierarchy a table has below the total. table: its columns; None has everything."""
        if table is None:
            return [len(hierarchy) for hierarchy in self.lists]
        named, numbers = {fold(name) for name in table}, [0] * len(self.lists)
        for at, hierarchy in enumerate(self.lists):
            numbers[at] = max((i for i, name in enumerate(hierarchy, 1) if fold(name) in named), default=0)
        return numbers

    def defined(self, request: str, tables: Sequence[Sequence[str] | None]) -> str:
        """SQL: the tables of its leaves, of the nodes above each, and of its nodes.

        tables: the columns of each table that is published.
        """
        up = self._by_codes(request) if self.codes else self._by_columns
        flags = ", ".join(f"system.main.bool_or({self._has(table)}) AS t{i}" for i, table in enumerate(tables))
        levels = ", ".join(f"system.main.max(l{i}) AS l{i}" for i in range(len(self.lists)))
        keys = ", ".join(f"system.main.any_value({key}) AS {key}" for key in self.keys)
        order = ascending(self.keys if len(self.lists) == 1 else [self.key(self.lists[0][-1])])
        d = self.place
        return (
            f"_dk_leaves_{d} AS MATERIALIZED (SELECT *, system.main.dense_rank() OVER (ORDER BY {order}) - 1 AS leaf "
            f"FROM (SELECT DISTINCT {', '.join(self.keys)} FROM _dk_records WHERE (SELECT fine FROM _dk_sound))),\n"
            f"{up},\n"
            f"_dk_above_{d} AS (SELECT leaf, node, {flags} FROM _dk_up_{d} GROUP BY leaf, node),\n"
            f"_dk_nodes_{d} AS (SELECT node, {levels}, {keys} FROM _dk_up_{d} GROUP BY node)"
        )

    def _has(self, table: Sequence[str] | None) -> str:
        """SQL: whether a table has a node, by its hierarchy and its level there."""
        if self.codes:
            return "true" if any(self.deepest(table)) else "level = 0"
        deepest = enumerate(self.deepest(table))
        return " OR ".join(f"(list = {at} AND level <= {most})" for at, most in deepest)

    @property
    def _by_columns(self) -> str:
        """SQL: each leaf with the nodes above it, which are its first values in one of the lists.

        The total and the leaves belong to the first list, and come in the order of a table: totals before their parts.
        """
        nodes = [
            (at, level, hierarchy[:level] if level < len(hierarchy) else self.columns)
            for at, hierarchy in enumerate(self.lists)
            for level in range(1 if at else 0, len(hierarchy) + 1)
        ]
        union = " UNION ALL ".join(self._node(*node) for node in nodes)
        first = [f"l0 >= {i} ASC, {self.key(name)} ASC NULLS LAST" for i, name in enumerate(self.lists[0], 1)]
        order = ", ".join(["place", *first, *ascending(self.keys).split(", ")])
        return (
            f"_dk_up_{self.place} AS MATERIALIZED (SELECT *, "
            f"system.main.dense_rank() OVER (ORDER BY {order}) - 1 AS node FROM ({union}))"
        )

    def _node(self, at: int, level: int, columns: Sequence[str]) -> str:
        """SQL: the nodes of one level of a hierarchy. A leaf is one in each of them."""
        leaf = level == len(self.lists[at])
        shown = {self.key(name) for name in columns}
        levels = [
            str(level) if i == at else "0" if not level else str(len(hierarchy)) if leaf else "NULL"
            for i, hierarchy in enumerate(self.lists)
        ]
        return (
            f"SELECT leaf, {at} AS list, {level} AS level, {0 if leaf else at} AS place, "
            + ", ".join(f"{level}::BIGINT AS l{i}" for i, level in enumerate(levels))
            + "".join(f", {key if key in shown else 'NULL'} AS {key}" for key in self.keys)
            + f" FROM _dk_leaves_{self.place}"
        )

    def _by_codes(self, request: str) -> str:
        """SQL: the same where the codes above each leaf come from a table, which an engine's call checks."""
        d, code = self.place, self.keys[0]
        # The empty branch names both columns, so a missing one is told by the check and not by the binder.
        codes = (
            "(SELECT system.main.list({'code': CAST(code AS VARCHAR), 'parent': CAST(parent AS VARCHAR)}) FROM "
            f"(FROM {query_table(self.codes or '')} UNION ALL BY NAME "
            f"SELECT {absent(_OF_CODES, own=False)} WHERE false))"
        )
        tree_call = call(
            "_dk_suppress_codes",
            request=request,
            place=str(d),
            codes=codes,
            used=f"(SELECT system.main.list({code}) FROM _dk_leaves_{d})",
        )
        fields = ", ".join(f"unnest(answer.found.{name}) AS {name}" for name in ("below", "node", "level", "label"))
        return (
            f"_dk_tree_{d} AS MATERIALIZED (SELECT {tree_call} AS answer),\n"
            f"_dk_up_{d} AS MATERIALIZED (SELECT leaf, 0 AS list, level, level AS l0, label AS {code}, node "
            f"FROM (SELECT {fields} FROM _dk_tree_{d} WHERE system.main.error(answer.problem) IS NULL) "
            f"JOIN _dk_leaves_{d} ON {code} = below)"
        )


def check_codes(crossed: Crossed, columns: Table) -> None:
    """Check the columns of a dimension's table of codes."""
    columns.has(_OF_CODES, f' The hierarchy of "{crossed.columns[0]}" is a table with the columns code and parent.')


def read(lists: Sequence[Sequence[str]], codes: Mapping[str, str]) -> tuple[Crossed, ...]:
    """The dimensions of lists of columns, in their order. codes: tables of codes by column, in lower case."""
    by_leaf: dict[str, list[tuple[str, ...]]] = {}
    for hierarchy in lists:
        if hierarchy:
            by_leaf.setdefault(fold(hierarchy[-1]), []).append(tuple(hierarchy))
    crossed = tuple(Crossed(i, tuple(own), codes.get(last)) for i, (last, own) in enumerate(by_leaf.items()))
    for name in codes:
        if not any([fold(column) for column in dimension.columns] == [name] for dimension in crossed):
            raise InvalidInput(
                f'hierarchies names "{name}", which is no dimension of its own: name it alone in rows, cols or by.'
            )
    return crossed


def read_codes(value: object) -> dict[str, str]:
    """The tables of codes by column, in lower case."""
    pairs = list(value.items()) if isinstance(value, dict) else [] if value is None else value
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) and isinstance(pair[0], str) for pair in pairs):
        raise InvalidInput(f"hierarchies must give tables by column, {_CODES}.")
    for name, table in pairs:
        if not isinstance(table, str) or not table:
            raise InvalidInput(f'The hierarchy of "{name}" must be a table, {_CODES}.')
    return {fold(name): str(table) for name, table in pairs}


def read_lists(lists: object, argument: str) -> tuple[tuple[str, ...], ...]:
    """Lists of columns."""
    if lists is None:
        return ()
    if not isinstance(lists, list) or not lists:
        raise InvalidInput(f"{argument} must be lists of columns, {_TABLES}.")
    return tuple(tuple(arguments.names(columns, argument, empty=False)) for columns in lists)


def check_tables(tables: Sequence[Sequence[str]], crossed: Sequence[Crossed]) -> None:
    """Check that tables are made of columns of the dimensions."""
    known = {fold(name) for dimension in crossed for name in dimension.columns}
    for name in (name for table in tables for name in table):
        if fold(name) not in known:
            raise InvalidInput(f'tables names "{name}", which is in no dimension: name it in rows, cols or by too.')


# --- a table of codes -------------------------------------------------------------------------------------------------


def tree(column: str, codes: Sequence[Mapping[str, Any]], used: Sequence[str | None]) -> dict[str, list[Any]]:
    """Each used code with the codes above it, as columns: below, node, level, label.

    Nodes are numbered with totals before their parts. Where several codes are parts of none, there is a total above
    them without a label. Raises InvalidInput, which may name a code: these are public.
    """
    parents = _parents(column, codes)
    parts: dict[str | None, list[str]] = {}
    for code, parent in sorted(parents.items()):
        parts.setdefault(parent, []).append(code)
    for leaf in used:
        if leaf is None or leaf not in parents:
            raise InvalidInput(
                f'Column "{column}" holds a value that its hierarchy lacks: give the hierarchy each code.'
            )
        if leaf in parts:
            raise InvalidInput(
                f"The hierarchy of \"{column}\" does not add up: '{leaf}' has parts, and records of its own. "
                "Give these a code below it."
            )
    chains = {code: _above(column, code, parents) for code in used if code is not None}
    several = len(parts.get(None, [])) > 1
    used_codes = {code for chain in chains.values() for code in chain}
    order: list[str | None] = [None] if several else []
    waiting = parts.get(None, [])[::-1]
    while waiting:
        code = waiting.pop()
        if code in used_codes:
            order.append(code)
            waiting += parts.get(code, [])[::-1]
    number = {code: i for i, code in enumerate(order)}
    columns: dict[str, list[Any]] = {name: [] for name in ("below", "node", "level", "label")}
    for code, chain in chains.items():
        for level, label in enumerate([*([None] if several else []), *chain[::-1]]):
            for name, entry in zip(columns, (code, number[label], level, label), strict=True):
                columns[name].append(entry)
    return columns


def _parents(column: str, codes: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """The code that each is a part of; None for the widest."""
    parents: dict[str, str | None] = {}
    for line in codes:
        code, parent = line["code"], line["parent"]
        if code is None:
            raise InvalidInput(f'The hierarchy of "{column}" has a line without a code: leave it out.')
        if parents.setdefault(code, parent) != parent:
            raise InvalidInput(f"The hierarchy of \"{column}\" is no tree: '{code}' is in two parents. Give it one.")
    for parent in [parent for parent in parents.values() if parent is not None]:
        parents.setdefault(parent, None)
    return parents


def _above(column: str, code: str, parents: Mapping[str, str | None]) -> list[str]:
    """A code and those above it, upwards."""
    chain = [code]
    while (parent := parents[chain[-1]]) is not None:
        if len(chain) > len(parents):
            raise InvalidInput(
                f"The hierarchy of \"{column}\" forms a circle: '{code}' is a part of itself. Give it another parent."
            )
        chain.append(parent)
    return chain
