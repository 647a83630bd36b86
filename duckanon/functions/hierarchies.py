"""Hierarchies: trees of labels above the values of a quasi-identifier, from tables, files or expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.sqltext import ROW

_EXAMPLE = "as in hierarchies := {'zip': 'zip_levels'} or {'zip': ['left(zip, 3)', 'left(zip, 1)']}"
# Files that are read without a header, as ARX writes them.
_DELIMITED = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class Labels:
    """The hierarchy of one quasi-identifier.

    name: of the column, as in `qi`. place: of the query's table with the hierarchy. table: a table with a row for each
    value and a column for each level, the value first; None where `levels` are expressions over the column.
    """

    name: str
    place: int
    table: str | None
    levels: tuple[str, ...]

    @property
    def released(self) -> str:
        """The column of the release."""
        return f"{self.name}_label"

    @property
    def outside(self) -> str:
        """What is wrong where a value is not in the hierarchy."""
        return f'Column "{self.name}" holds a value that its hierarchy lacks: give the hierarchy a row for each value.'

    @property
    def tree(self) -> str:
        """The name of the query's table with the hierarchy."""
        return f"_dk_tree_{self.place}"

    @property
    def rows(self) -> str:
        """SQL: the labels of each value upwards, as `duckanon.engines.kanon.hierarchy.hierarchy` takes them."""
        return f"(SELECT system.main.list(labels[:-2] ORDER BY number) FROM {self.tree})"

    @property
    def defined(self) -> str:
        """The definition of that table: each value's number along the tree, its labels upwards, and '*' above them."""
        row_value = f"{ROW}.{identifier(self.name)}"
        if self.table is None:
            columns = [row_value, *(f"({level}\n)" for level in self.levels)]
            casts = ", ".join(f"CAST({column} AS VARCHAR)" for column in columns)
            labels = (
                f"SELECT system.main.list_value({casts}) AS labels FROM _dk_source AS {ROW} "
                f"WHERE {row_value} IS NOT NULL"
            )
        else:
            labels = (
                "SELECT system.main.list_value(*COLUMNS(*)) AS labels "
                f"FROM (SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {self._source})"
            )
        return (
            f"{self.tree} AS MATERIALIZED (SELECT system.main.row_number() OVER (ORDER BY "
            "system.main.list_reverse(labels)) AS number, labels[1] AS leaf, "
            "system.main.list_append(labels, '*') AS labels "
            f"FROM (SELECT DISTINCT labels FROM ({labels}))),\n"
        )

    @property
    def _source(self) -> str:
        table = self.table or ""
        if table.lower().endswith(_DELIMITED):
            # Quotes are given: DuckDB would guess them from the values.
            return (
                f"system.main.read_csv({literal(table)}, header := false, all_varchar := true, "
                "quote := '\"', escape := '\"', comment := '', skip := 0)"
            )
        return f"system.main.query_table({literal(table)})"

    @property
    def joined(self) -> str:
        """SQL: the join of rows with the hierarchy."""
        row_value = f"CAST({ROW}.{identifier(self.name)} AS VARCHAR)"
        return f"\n  LEFT JOIN {self.tree} ON {self.tree}.leaf = {row_value}"

    @property
    def number(self) -> str:
        """SQL: the number of the leaf of a joined row's value; NULL for NULL, and where the hierarchy lacks it."""
        return f"{self.tree}.number"

    @property
    def above(self) -> str:
        """SQL: the labels of a joined row's value, from the value upwards."""
        return f"{self.tree}.labels"

    def join_of(self, end: str, number: str) -> str:
        """SQL: the join of cells with the leaf of a number, for `above_end`. end: 'low' or 'high'."""
        return f"\n  LEFT JOIN {self.tree} AS {self.tree}_{end} ON {self.tree}_{end}.number = {number}"

    def above_end(self, end: str) -> str:
        """SQL: the labels of the leaf that was found."""
        return f"{self.tree}_{end}.labels"

    def holds(self, label: str) -> str:
        """SQL: whether a row's value is below a released label."""
        return f"({label} IS NULL OR system.main.list_contains({self.above}, {label}))"


def read(value: object, qi: Sequence[str], others: Sequence[str], *, among: str = "qi") -> tuple[Labels, ...]:
    """The hierarchies of a call, in the order of `qi`. others: quasi-identifiers that are released as sets or bands.

    among: the argument that names the columns.
    """
    pairs = list(value.items()) if isinstance(value, dict) else [] if value is None else value
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) and isinstance(pair[0], str) for pair in pairs):
        raise InvalidInput(f"hierarchies must give a table, or a list of expressions, by name, {_EXAMPLE}.")
    own, labels = {fold(name): name for name in qi}, dict[str, Labels]()
    for name, described in pairs:
        if fold(name) not in own:
            raise InvalidInput(f'hierarchies names "{name}", which is not in {among}: add it there, or leave it out.')
        if fold(name) in {fold(name) for name in others}:
            raise InvalidInput(
                f'Column "{name}" is in hierarchies and in categorical or bands: name it in one of them.'
            )
        if isinstance(described, str) and described:
            table, levels = described, ()
        elif (
            isinstance(described, list)
            and described
            and all(isinstance(expression, str) and expression.strip() for expression in described)
        ):
            table, levels = None, tuple(described)
        else:
            raise InvalidInput(f'The hierarchy of "{name}" must be a table or a list of expressions, {_EXAMPLE}.')
        labels[fold(name)] = Labels(own[fold(name)], len(labels) + 1, table, levels)
    return tuple(labels[fold(name)] for name in qi if fold(name) in labels)
