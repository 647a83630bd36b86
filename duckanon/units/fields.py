"""What is known of a relation's columns: their types, where their values come from, their bounds, what they fix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from duckanon.catalog.names import TableName
from duckanon.rewrite.algebra.expressions import Expr
from duckanon.units.relation import OneRow, OpenRows, Relation

# The least and the largest value of a number, and the step between its values.
Bounds: TypeAlias = tuple[Fraction, Fraction, Fraction]
# What a set of columns fixes: the record of a table that has their values in its key.
Fixes: TypeAlias = tuple[TableName, tuple[str, ...]]
# Or the privacy unit itself.
UNIT_ITSELF: Fixes = (TableName("", "", ""), ("unit",))


@dataclass(frozen=True)
class Origin:
    """The table's column whose values a column of a relation has, unchanged.

    source: the number of the table in the statement. column: folded. rows: of an open table. optional: whether NULL may
    stand in its place, where a LEFT JOIN found nothing.
    """

    source: int
    table: TableName
    column: str
    rows: OpenRows | None = None
    optional: bool = False


@dataclass(frozen=True)
class Field:
    """A column of a relation.

    kind: its type in DuckDB; empty for one of NULL alone. bounds: of a number that is computed within a unit, or of a
    date in days and a timestamp in microseconds since 1970. is_unit: whether it is the privacy unit. is_unit_or_null:
    whether it is that, or NULL where a LEFT JOIN found nothing. never_null: whether it is known not to be NULL. listed:
    constants, of which its values are, NULL as the last; none: they may be others. numbers: of a row number the columns
    that, with the unit, say within which rows it numbers; None: no two rows with equal ones need differ in it. among:
    of a UNION the columns of different tables whose values it has; none where they are of one, or of no table. lacks:
    of a number that is computed within a unit the table's column for want of whose bounds it has none. unit: of dates,
    the unit of time at whose starts they lie; empty if they may be others. called: the name that the statement gives
    it, which is not part of the relation.
    """

    kind: str
    origin: Origin | None = None
    bounds: Bounds | None = None
    is_unit: bool = False
    is_unit_or_null: bool = False
    never_null: bool = False
    listed: tuple[Expr, ...] = ()
    numbers: frozenset[str] | None = None
    among: tuple[Origin, ...] = ()
    lacks: Origin | None = None
    unit: str = ""
    called: str = ""

    @property
    def is_open(self) -> bool:
        """Whether its values are those of an open table."""
        return self.origin is not None and self.origin.rows is not None


@dataclass(frozen=True)
class Made:
    """A relation with what is known of it. All names of columns are folded.

    has_unit: whether it is unit-local; else it is of open tables alone. rows: how many rows of one unit count, at most.
    unique: sets of columns that no two rows of one unit share (of an open relation: no two rows at all). fixes: which
    columns fix a record, and with it the unit, or the unit itself. counted: the protected table whose records are its
    rows; None for other rows. owned: whether its rows have the unit's column; else they get it from what they are
    joined with. equal: sets of columns that have one value in each row, as a join says. parts: of a join in which rows
    of a unit meet several others, the columns of a part, and how many of its rows count.
    """

    relation: Relation
    fields: Mapping[str, Field]
    has_unit: bool
    rows: int = 1
    unique: frozenset[frozenset[str]] = frozenset()
    fixes: Mapping[Fixes, tuple[str, ...]] = field(default_factory=dict)
    counted: TableName | None = None
    owned: bool = True
    equal: frozenset[frozenset[str]] = frozenset()
    parts: frozenset[tuple[frozenset[str], int]] = frozenset()

    @property
    def shows_unit(self) -> bool:
        """Whether it has the unit's column."""
        return self.has_unit and self.owned

    def rows_by(self, columns: Set[str]) -> int:
        """How many different values of some columns the rows of a unit that count have, at most."""
        return min([self.rows, *(rows for names, rows in self.parts if columns <= names)])

    def fixing(self, fixed: Fixes, among: Collection[str]) -> tuple[str, ...] | None:
        """Of some columns those that fix a record or the unit: the known ones, or what is equal to them."""
        found = [
            next((one for one in (name, *sorted(self._equal_to(name))) if one in among), None)
            for name in self.fixes[fixed]
        ]
        return None if None in found else tuple(filter(None, found))

    def _equal_to(self, name: str) -> frozenset[str]:
        return frozenset[str]().union(*(names for names in self.equal if name in names))

    @property
    def is_open(self) -> bool:
        """Whether it is of open tables and constants alone, not of answers with noise, which are not there yet."""
        return not self.has_unit and all(isinstance(leaf, OpenRows | OneRow) for leaf in self.relation.leaves())

    @property
    def types(self) -> dict[str, str]:
        """The types of its columns."""
        return {name: one.kind for name, one in self.fields.items()}
