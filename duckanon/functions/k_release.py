"""The query of a k-anonymous release: what k_anonymize and its coarser releases have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from duckanon.catalog.names import fold, identifier, literal
from duckanon.functions.bands import Bands
from duckanon.functions.generalisation import Generalisation, place
from duckanon.functions.hierarchies import Labels
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.sqltext import (
    LABEL,
    NUMBER,
    PLACES,
    RESERVED_NAMES,
    ROW,
    absent,
    as_bytes,
    fill,
    literals,
    packed,
)

# The handle of the collection that keeps the rows' labels, -1 for a row that is dropped.
CLASSES = "BIGINT"
# A lambda's argument. On DuckDB 1.4 a column of its name would be taken for it.
_ITEM = '"duckanon.item"'


def _label(scans: int) -> str:
    """SQL: the label of each row. scans: how often the query asks for that of every row."""
    return f"system.main._dk_label((SELECT labels FROM _dk_answered), {ROW}.{NUMBER}, {scans})"


def _in_order(cell: Sequence[str]) -> str:
    """Sort keys under which two cells tie only if they are the same."""
    keys = [identifier(name) for name in cell]
    if len(keys) == 1:
        keys.append(as_bytes(keys[0]))
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


# What a class releases of a column: NULL where the column is NULL for some or all of its records.


def lowest(value: str) -> str:
    """SQL: the lower end of a class's interval, an aggregate."""
    return _where_all(value, f"system.main.min({value})")


def highest(value: str) -> str:
    """SQL: the upper end of a class's interval, an aggregate."""
    return _where_all(value, f"system.main.max({value})")


def set_of(value: str) -> str:
    """SQL: the values of a class, sorted, an aggregate."""
    return _where_all(value, _sorted(f"system.main.list({value})"))


def union_of(sets: str) -> str:
    """SQL: the values in the sets of a class, sorted, an aggregate."""
    return _where_all(sets, _sorted(f"system.main.flatten(system.main.list({sets}))"))


def _where_all(value: str, released: str) -> str:
    return f"CASE WHEN system.main.count({value}) = system.main.count(*) THEN {released} END"


def _sorted(values: str) -> str:
    """SQL: the distinct values of a list, in order.

    To a collation 'a' and 'A' may be equal; a set must show both, and always in the same order. list_distinct goes by
    the bytes, and the bytes settle what the collation leaves open.
    """
    keyed = f"lambda {_ITEM}: {{'value': {_ITEM}, 'bytes': {as_bytes(_ITEM)}}}"
    return (
        f"system.main.list_transform(system.main.list_sort(system.main.list_transform("
        f"system.main.list_distinct({values}), {keyed})), lambda {_ITEM}: {_ITEM}['value'])"
    )


def common(labels: str, others: str) -> str:
    """SQL: the first label that two leaves have in common, from lists of labels of the same length."""
    pairs = f"system.main.list_zip({labels}, {others})"
    return f"system.main.list_filter({pairs}, lambda {_ITEM}: {_ITEM}[1] = {_ITEM}[2])[1][1]"


class Cell(Protocol):
    """What is released of one quasi-identifier."""

    @property
    def names(self) -> Sequence[str]:
        """Its columns."""

    @property
    def shown(self) -> Sequence[str]:
        """SQL that replaces columns of the aggregate, each with its name; mostly none."""

    @property
    def found(self) -> str:
        """SQL: the joins that `shown` needs; mostly none."""

    def aggregate(self) -> str:
        """Its columns, from the records of a class."""

    def holds(self) -> str:
        """Whether a record's value, or the cell it had, lies inside."""


@dataclass(frozen=True)
class PlainCell:
    """An interval or a set. names: of its columns; a set has one, an interval two.

    values: the columns of the source that it stands for, the same one twice or the ends of an earlier interval.
    """

    names: Sequence[str]
    values: Sequence[str]

    shown = ()
    found = ""

    @staticmethod
    def of(name: str, *, categorical: bool) -> PlainCell:
        """The cell of a column of the table."""
        return (
            PlainCell([f"{name}_set"], [name]) if categorical else PlainCell([f"{name}_lo", f"{name}_hi"], [name, name])
        )

    @staticmethod
    def over(name: str, *, categorical: bool) -> PlainCell:
        """The cell of a coarser release over that of an earlier one."""
        names = PlainCell.of(name, categorical=categorical).names
        return PlainCell(names, names)

    @property
    def again(self) -> bool:
        """Whether it covers cells of an earlier release instead of values."""
        return list(self.names) == list(self.values)

    def aggregate(self) -> str:
        ends = [identifier(name) for name in self.names]
        values = [f"{ROW}.{identifier(name)}" for name in self.values]
        if len(ends) == 1:
            return f"{union_of(values[0]) if self.again else set_of(values[0])} AS {ends[0]}"
        return f"{lowest(values[0])} AS {ends[0]}, {highest(values[1])} AS {ends[1]}"

    def holds(self) -> str:
        ends = [f"_dk_classes.{identifier(name)}" for name in self.names]
        values = [f"{ROW}.{identifier(name)}" for name in self.values]
        if len(ends) == 1:
            test = "list_has_all" if self.again else "list_contains"
            return f"({ends[0]} IS NULL OR system.main.{test}({ends[0]}, {values[0]}))"
        return (
            f"({ends[0]} IS NULL AND {ends[1]} IS NULL OR {values[0]} BETWEEN {ends[0]} AND {ends[1]} "
            f"AND {values[1]} BETWEEN {ends[0]} AND {ends[1]})"
        )


@dataclass(frozen=True)
class SuppressedCell:
    """The value that all records of a class have, or NULL."""

    name: str
    shown = ()
    found = ""

    @property
    def names(self) -> Sequence[str]:
        return [self.name]

    def aggregate(self) -> str:
        values = set_of(f"{ROW}.{identifier(self.name)}")
        return f"CASE WHEN system.main.len({values}) = 1 THEN ({values})[1] END AS {identifier(self.name)}"

    def holds(self) -> str:
        cell = f"_dk_classes.{identifier(self.name)}"
        return f"({cell} IS NULL OR system.main.list_contains([{cell}], {ROW}.{identifier(self.name)}))"


@dataclass(frozen=True)
class WildcardCell:
    """A value as it is, or NULL where the pattern of the record's label says so. number: of the column, from 0."""

    name: str
    number: int
    shown = ()
    found = ""

    @property
    def names(self) -> Sequence[str]:
        return [self.name]

    def aggregate(self) -> str:
        # (All records of a label have the same value.)
        pattern = f"(SELECT levels FROM _dk_answered)[system.main.any_value({LABEL}) + 1]"
        value = lowest(f"{ROW}.{identifier(self.name)}")
        return f"CASE WHEN {pattern} & {1 << self.number} = 0 THEN {value} END AS {identifier(self.name)}"

    def holds(self) -> str:
        cell, value = f"_dk_classes.{identifier(self.name)}", f"{ROW}.{identifier(self.name)}"
        return f"({cell} IS NULL OR {cell} = {value} AND {as_bytes(cell)} = {as_bytes(value)})"


@dataclass(frozen=True)
class BandCell:
    """Bands from a lower to an upper end."""

    bands: Bands
    shown = ()
    found = ""

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
class LabelCell:
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
    def found(self) -> str:
        own = f'"duckanon.cell".{identifier(self.labels.released)}'
        return "".join(self.labels.found(end, f"{own}.{end}") for end in ("low", "high"))

    def aggregate(self) -> str:
        own = place(self.labels.name)
        return f"{{'low': {lowest(own)}, 'high': {highest(own)}}} AS {identifier(self.labels.released)}"

    def holds(self) -> str:
        return self.labels.holds(f"_dk_classes.{identifier(self.labels.released)}")


def cells(qi: Sequence[str], categorical: Sequence[str], how: Generalisation) -> list[Cell]:
    """What is released of each quasi-identifier of a table."""
    named, found = {fold(name) for name in categorical}, list[Cell]()
    for name in qi:
        own = how.of(name)
        if how.wildcard:
            found.append(WildcardCell(name, len(found)))
        elif how.suppress:
            found.append(SuppressedCell(name))
        elif isinstance(own, Bands):
            found.append(BandCell(own))
        elif isinstance(own, Labels):
            found.append(LabelCell(own))
        else:
            found.append(PlainCell.of(name, categorical=fold(name) in named))
    return found


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of the rows of `source` in the classes that the call `classes` finds.

    dropped, replaced: columns that are not released, and those for which the cells stand. collected: an aggregate over
    the rows, which `classes` is called with under this name. suppressed: how many of the `records` of `source` may be
    dropped, if that is not a share of them. how: the bands and hierarchies of the cells.
    levels: the levels of the columns, after the engine's answer, or nothing. smallest: SQL of the k of the release from
    its rows with their classes, where that is not the size of the smallest class.
    """

    source: str
    cells: Sequence[Cell]
    k: int
    criteria: Criteria
    dropped: Sequence[str]
    replaced: Sequence[str]
    problem: str
    collected: str
    classes: str
    suppressed: str | None = None
    how: Generalisation | None = None
    levels: str = ""
    smallest: Callable[[str], str] | None = None

    @property
    def query(self) -> str:
        """The query that makes it."""
        names = [name for cell in self.cells for name in cell.names]
        shown = [one for cell in self.cells for one in cell.shown]
        places = "" if self.how is None else self.how.places
        criteria, hidden = self.criteria, packed(self.criteria.columns)
        dropped = [name for name in self.dropped if name not in self._only_counted]
        classes_of = f"_dk_labelled AS {ROW} JOIN _dk_classes USING ({LABEL})"
        return fill(
            "k_anonymize",
            table=literal(self.source),
            absent=absent([*self.replaced, *dropped, *criteria.columns]),
            taken=f"* EXCLUDE ({', '.join(identifier(name) for name in [*dropped, *RESERVED_NAMES])})",
            problem=self.problem,
            collected=self.collected,
            classes=self.classes,
            # For the cells and for the release; where asked for, for units, for sensitive columns and for `smallest`.
            label=_label(2 + bool(criteria.sensitive) + (criteria.unit is not None) + (self.smallest is not None)),
            smallest=self.smallest(classes_of) if self.smallest is not None else criteria.smallest(classes_of),
            unmet=criteria.unmet(
                f"(SELECT {hidden} AS members FROM {classes_of} WHERE _dk_classes.class_id IS NOT NULL "
                "GROUP BY _dk_classes.class_id)"
            ),
            suppressed=self.suppressed or criteria.allowed("records"),
            trees="" if self.how is None else self.how.trees,
            joined="" if self.how is None else self.how.joined,
            found="".join(cell.found for cell in self.cells),
            levels=self.levels,
            places=places,
            cells=", ".join(cell.aggregate() for cell in self.cells),
            shown=f" REPLACE ({', '.join(shown)})" if shown else "",
            released=", ".join(f"_dk_classes.{identifier(name)}" for name in names),
            released_in_order=", ".join(_in_order(cell.names) for cell in self.cells),
            within=" AND ".join(cell.holds() for cell in self.cells),
            k=str(self.k),
            kept=", ".join([*map(identifier, [*self.replaced, *self._only_counted]), *([PLACES] if places else [])]),
            hidden=literals(names),
        )

    @property
    def _only_counted(self) -> list[str]:
        """The unit's column, if it is dropped: it is counted before."""
        unit = self.criteria.unit
        return [name for name in self.dropped if unit is not None and fold(name) == fold(unit)]
