"""What a k-anonymous release has in place of a quasi-identifier: a cell for each class, from its records' values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from duckanon.catalog.names import fold, identifier
from duckanon.functions.bands import Bands
from duckanon.functions.generalisation import Generalisation, place
from duckanon.functions.hierarchies import Labels
from duckanon.functions.sqltext import LABEL, ROW, as_bytes

# A lambda's argument. On DuckDB 1.4 a column of its name would be taken for it.
ITEM = '"duckanon.item"'

# What a class releases of a column: NULL where the column is NULL for some or all of its records.


def lowest(value: str) -> str:
    """SQL: the lower end of a class's interval, an aggregate."""
    return where_all(value, f"system.main.min({value})")


def highest(value: str) -> str:
    """SQL: the upper end of a class's interval, an aggregate."""
    return where_all(value, f"system.main.max({value})")


def set_of(value: str) -> str:
    """SQL: the values of a class, sorted, an aggregate."""
    return where_all(value, _sorted(f"system.main.list({value})"))


def union_of(sets: str) -> str:
    """SQL: the values in the sets of a class, sorted, an aggregate."""
    return where_all(sets, _sorted(f"system.main.flatten(system.main.list({sets}))"))


def where_all(value: str, released: str) -> str:
    """SQL: what is released of a class, an aggregate; NULL where a value is NULL."""
    return f"CASE WHEN system.main.count({value}) = system.main.count(*) THEN {released} END"


def _sorted(values: str) -> str:
    """SQL: the distinct values of a list, in order.

    To a collation 'a' and 'A' may be equal; a set must show both, and always in the same order. list_distinct goes by
    the bytes, and the bytes settle what the collation leaves open.
    """
    keyed = f"lambda {ITEM}: {{'value': {ITEM}, 'bytes': {as_bytes(ITEM)}}}"
    return (
        f"system.main.list_transform(system.main.list_sort(system.main.list_transform("
        f"system.main.list_distinct({values}), {keyed})), lambda {ITEM}: {ITEM}['value'])"
    )


def common(labels: str, others: str) -> str:
    """SQL: the first label that two leaves have in common, from lists of labels of the same length."""
    pairs = f"system.main.list_zip({labels}, {others})"
    return f"system.main.list_filter({pairs}, lambda {ITEM}: {ITEM}[1] = {ITEM}[2])[1][1]"


class Cell(ABC):
    """What is released of one quasi-identifier."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Its columns."""

    @property
    def shown(self) -> Sequence[str]:
        """SQL that replaces columns of the aggregate, each with its name."""
        return ()

    @property
    def joins(self) -> str:
        """SQL: the joins that `shown` needs."""
        return ""

    @abstractmethod
    def aggregate(self) -> str:
        """SQL: its columns, from the records of a class."""

    @abstractmethod
    def holds(self) -> str:
        """SQL: whether a record's value, or the cell it had, lies inside."""


@dataclass(frozen=True)
class PlainCell(Cell):
    """An interval or a set. columns: a set has one, an interval two.

    values: the columns of the source that it stands for, the same one twice or the ends of an earlier interval.
    """

    columns: Sequence[str]
    values: Sequence[str]

    @property
    def names(self) -> Sequence[str]:
        return self.columns

    @staticmethod
    def of(name: str, *, categorical: bool) -> PlainCell:
        """The cell of a column of the table."""
        return (
            PlainCell([f"{name}_set"], [name]) if categorical else PlainCell([f"{name}_lo", f"{name}_hi"], [name, name])
        )

    @property
    def again(self) -> bool:
        """Whether it covers cells of an earlier release instead of values."""
        return list(self.names) == list(self.values)

    def aggregate(self) -> str:
        ends = [identifier(name) for name in self.names]
        row_values = [f"{ROW}.{identifier(name)}" for name in self.values]
        if len(ends) == 1:
            return f"{union_of(row_values[0]) if self.again else set_of(row_values[0])} AS {ends[0]}"
        return f"{lowest(row_values[0])} AS {ends[0]}, {highest(row_values[1])} AS {ends[1]}"

    def holds(self) -> str:
        ends = [f"_dk_classes.{identifier(name)}" for name in self.names]
        row_values = [f"{ROW}.{identifier(name)}" for name in self.values]
        if len(ends) == 1:
            test = "list_has_all" if self.again else "list_contains"
            return f"({ends[0]} IS NULL OR system.main.{test}({ends[0]}, {row_values[0]}))"
        return (
            f"({ends[0]} IS NULL AND {ends[1]} IS NULL OR {row_values[0]} BETWEEN {ends[0]} AND {ends[1]} "
            f"AND {row_values[1]} BETWEEN {ends[0]} AND {ends[1]})"
        )


@dataclass(frozen=True)
class _ValueCell(Cell):
    """A column's value or NULL, under the column's name."""

    name: str

    @property
    def names(self) -> Sequence[str]:
        return [self.name]


class SuppressedCell(_ValueCell):
    """The value that all records of a class have, or NULL."""

    def aggregate(self) -> str:
        held = set_of(f"{ROW}.{identifier(self.name)}")
        return f"CASE WHEN system.main.len({held}) = 1 THEN ({held})[1] END AS {identifier(self.name)}"

    def holds(self) -> str:
        cell = f"_dk_classes.{identifier(self.name)}"
        return f"({cell} IS NULL OR system.main.list_contains([{cell}], {ROW}.{identifier(self.name)}))"


@dataclass(frozen=True)
class WildcardCell(_ValueCell):
    """A value as it is, or NULL where the pattern of the record's label says so. number: of the column, from 0."""

    number: int

    def aggregate(self) -> str:
        # (All records of a label have the same value.)
        pattern = f"(SELECT levels FROM _dk_answered)[system.main.any_value({LABEL}) + 1]"
        shown = lowest(f"{ROW}.{identifier(self.name)}")
        return f"CASE WHEN {pattern} & {1 << self.number} = 0 THEN {shown} END AS {identifier(self.name)}"

    def holds(self) -> str:
        cell, row_value = f"_dk_classes.{identifier(self.name)}", f"{ROW}.{identifier(self.name)}"
        return f"({cell} IS NULL OR {cell} = {row_value} AND {as_bytes(cell)} = {as_bytes(row_value)})"


@dataclass(frozen=True)
class BandCell(Cell):
    """Bands from a lower to an upper end."""

    bands: Bands

    @property
    def names(self) -> Sequence[str]:
        return self.bands.ends

    def aggregate(self) -> str:
        own = place(self.bands.name)
        ends = self.bands.released(lowest(own), highest(own))
        return ", ".join(f"{end} AS {identifier(name)}" for end, name in zip(ends, self.names, strict=True))

    def holds(self) -> str:
        low, high = (f"_dk_classes.{identifier(name)}" for name in self.names)
        return self.bands.holds(low, high)


@dataclass(frozen=True)
class LabelCell(Cell):
    """A label of a hierarchy: the aggregate gives the first and the last leaf, from which the label follows."""

    labels: Labels

    @property
    def names(self) -> Sequence[str]:
        return [self.labels.released]

    @property
    def shown(self) -> Sequence[str]:
        low, high = (self.labels.above_end(end) for end in ("low", "high"))
        return [f"{common(low, high)} AS {identifier(self.labels.released)}"]

    @property
    def joins(self) -> str:
        own = f'"duckanon.cell".{identifier(self.labels.released)}'
        return "".join(self.labels.join_of(end, f"{own}.{end}") for end in ("low", "high"))

    def aggregate(self) -> str:
        own = place(self.labels.name)
        return f"{{'low': {lowest(own)}, 'high': {highest(own)}}} AS {identifier(self.labels.released)}"

    def holds(self) -> str:
        return self.labels.holds(f"_dk_classes.{identifier(self.labels.released)}")


def cells(qi: Sequence[str], categorical: Sequence[str], how: Generalisation) -> list[Cell]:
    """What is released of each quasi-identifier of a table."""
    named, cells = {fold(name) for name in categorical}, list[Cell]()
    for name in qi:
        own = how.of(name)
        if how.wildcard:
            cells.append(WildcardCell(name, len(cells)))
        elif how.suppress:
            cells.append(SuppressedCell(name))
        elif isinstance(own, Bands):
            cells.append(BandCell(own))
        elif isinstance(own, Labels):
            cells.append(LabelCell(own))
        else:
            cells.append(PlainCell.of(name, categorical=fold(name) in named))
    return cells
