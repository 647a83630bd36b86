"""Unit-local relations as data, and as SQL.

A relation is unit-local if each of its rows has a privacy unit that is not NULL, and the rows of a unit follow from
that unit's own records and from open tables alone: not from other units, the order of rows, threads or chance. So with
a unit added or removed, the rows of all others stay as they are, and noise that hides the rows of one unit protects all
that was computed of it. Relations of open tables alone have no unit; they are the same whatever the units are.

Each kind of relation says in one line why it keeps this. Its SQL cannot fail on any record: expressions in it are
written by `duckanon.rewrite.algebra.filters`, and its aggregates by `duckanon.units.grouping`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from duckanon.catalog.links import met
from duckanon.catalog.names import quoted
from duckanon.governance.locations import Location

# The column of every unit-local relation that has the unit: text as bytes, so that collations make no difference.
UNIT = "duckanon.u"
# What a query shows that shows no column.
_NOTHING = '0 AS "duckanon.none"'
# How a table is written: by its full name where it is read, by what does not change with the file's name in a key.
Path = Callable[[Location], str]


@dataclass(frozen=True)
class Shown:
    """A column of a relation: its name there, and the SQL from which it comes."""

    name: str
    sql: str

    def __str__(self) -> str:
        return f"{self.sql} AS {quoted([self.name])}"


class Relation(ABC):
    """What all relations have in common."""

    @abstractmethod
    def sql(self, path: Path) -> str:
        """The query for its rows."""

    @property
    def parts(self) -> tuple[Relation, ...]:
        """The relations that it is made of."""
        return ()

    @property
    def has_one_row(self) -> bool:
        """Whether each unit has one row at most, whatever its records are, and by no table's key."""
        return False

    @property
    def leaves_rows_out(self) -> bool:
        """Whether some rows of a unit may be left out because there are too many of them."""
        return any(part.leaves_rows_out for part in self.parts)

    def leaves(self) -> Iterator[Relation]:
        """The tables that it reads, in order and with repetitions."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True)
class Step:
    """A step from a record to the record that it belongs to, by columns that are a key there.

    pairs: an own column and its type, and the parent's column and its type, for each column of the key.
    """

    location: Location
    version: int
    pairs: tuple[tuple[str, str, str, str], ...]

    def conditions(self, child: str, parent: str) -> list[str]:
        """That a record belongs to one of the parent table, as SQL. child, parent: the tables' aliases."""
        found = [
            met(quoted([child, own]), own_kind, quoted([parent, theirs]), their_kind)
            for own, own_kind, theirs, their_kind in self.pairs
        ]
        assert None not in found, "A table that stands has links whose types meet."
        return [text for text in found if text is not None]


@dataclass(frozen=True)
class Records(Relation):
    """The records of a protected table. A record has one unit, its own or by links to keys, and leaves with it.

    version: of the table's policy. unit: the column that has the unit, in the last table of `steps`; None where the
    unit is that of a record with which each is joined. Records without a unit are left out.
    """

    location: Location
    version: int
    columns: tuple[Shown, ...]
    unit: str | None
    is_text: bool = False
    steps: tuple[Step, ...] = ()

    def sql(self, path: Path) -> str:
        shown = list(map(str, self.columns))
        source = f'{path(self.location)} AS "duckanon.row"'
        above = "duckanon.row"
        for at, link in enumerate(self.steps):
            name = f"duckanon.parent{at}"
            on = " AND ".join(link.conditions(above, name))
            source += f" JOIN {path(link.location)} AS {quoted([name])} ON {on}"
            above = name
        if self.unit is None:
            return f"SELECT {', '.join(shown) or _NOTHING} FROM {source}"
        unit = quoted([above, self.unit])
        written = f"system.main.encode(CAST({unit} AS VARCHAR))" if self.is_text else unit
        return f"SELECT {', '.join([f'{written} AS {quoted([UNIT])}', *shown])} FROM {source} WHERE {unit} IS NOT NULL"


@dataclass(frozen=True)
class OpenRows(Relation):
    """The rows of an open table. They are public, so they depend on no unit.

    read: the columns that are used, as stored. content: a hash of what they held when the guard decided.
    """

    location: Location
    columns: tuple[Shown, ...]
    read: tuple[str, ...]
    content: str

    def sql(self, path: Path) -> str:
        shown = ", ".join(map(str, self.columns)) or _NOTHING
        return f'SELECT {shown} FROM {path(self.location)} AS "duckanon.row"'

    @property
    def values(self) -> str:
        """A query for what is used of it, of which `content` is a hash."""
        shown = ", ".join(quoted([name]) for name in self.read) or "0"
        return f"SELECT {shown} FROM {quoted(self.location.path)} AS _dk_open"


@dataclass(frozen=True)
class OneRow(Relation):
    """The row of a SELECT that reads nothing. It is the same whatever the records are."""

    def sql(self, _: Path) -> str:
        return f"SELECT {_NOTHING}"


@dataclass(frozen=True)
class Answered(Relation):
    """The noisy answer to another question: rows that were paid for, and are the same whatever the records are.

    query: of the stored answer, for these rows, in pieces between which the answer's table stands. location: of that
    table, whose name says which question it answers. columns: the names and types of the query's columns, in order.
    """

    query: tuple[str, ...]
    location: Location
    columns: tuple[tuple[str, str], ...] = ()

    def sql(self, path: Path) -> str:
        places = [f"c{at}" for at in range(len(self.columns))]
        shown = [
            # Text as bytes, as that of every table.
            f"system.main.decode(system.main.encode(CAST({place} AS VARCHAR))) AS {quoted([name])}"
            if kind == "VARCHAR"
            else f"TRY_CAST({place} AS {kind}) AS {quoted([name])}"
            for place, (name, kind) in zip(places, self.columns, strict=True)
        ]
        answer = f'({path(self.location).join(self.query)}) AS "duckanon.answer"({", ".join(places)})'
        return f"SELECT {', '.join(shown)} FROM {answer}"


_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
    "nearest": "ASOF LEFT JOIN",
}


@dataclass(frozen=True)
class Part:
    """A relation in a join. how: a key of `_JOINS`. on: conditions, all of which hold, over the columns so far.

    unit: whether it has the unit's column, which is compared too.
    """

    relation: Relation
    how: str = "inner"
    on: tuple[str, ...] = ()
    unit: bool = True


@dataclass(frozen=True)
class Joined(Relation):
    """Rows put together where all have one unit, with rows of open tables, filtered and computed row by row.

    A row is made of rows of one unit, so it leaves with that unit and with no other. The first part has a unit if any
    has; the others with one are joined where theirs is the same, which is part of the join. So a semijoin or an
    antijoin keeps or leaves out a row by rows of its own unit, and the nearest row that a row finds is one of these.
    """

    joined: tuple[Part, ...]
    where: tuple[str, ...] = ()
    shown: tuple[Shown, ...] = ()

    @property
    def parts(self) -> tuple[Relation, ...]:
        return tuple(part.relation for part in self.joined)

    @property
    def has_one_row(self) -> bool:
        first, *rest = self.joined
        return first.relation.has_one_row and all(
            part.how in ("semi", "anti", "nearest") or (part.unit and part.relation.has_one_row) for part in rest
        )

    def sql(self, path: Path) -> str:
        first, *rest = self.joined
        source = f"({first.relation.sql(path)}) AS j0"
        for at, part in enumerate(rest, 1):
            met = list(part.on)
            if first.unit and part.unit:
                met.insert(0, f"{quoted(['j0', UNIT])} = {quoted([f'j{at}', UNIT])}")
            source += f" {_JOINS[part.how]} ({part.relation.sql(path)}) AS j{at} ON {' AND '.join(met) or 'true'}"
        unit = [f"{quoted(['j0', UNIT])} AS {quoted([UNIT])}"] if first.unit else []
        shown = ", ".join([*unit, *map(str, self.shown)]) or _NOTHING
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"SELECT {shown} FROM {source}{where}"


@dataclass(frozen=True)
class Grouped(Relation):
    """Groups of the rows of one unit, with aggregates that do not depend on their order.

    The unit is one of the keys, so no group has rows of two units. has_unit: False for open rows alone. of_units:
    whether all other keys say only which unit it is, so that each unit has one group.
    """

    relation: Relation
    keys: tuple[Shown, ...]
    aggregates: tuple[Shown, ...]
    has_unit: bool = True
    of_units: bool = False

    @property
    def parts(self) -> tuple[Relation, ...]:
        return (self.relation,)

    @property
    def has_one_row(self) -> bool:
        return self.of_units

    def sql(self, path: Path) -> str:
        unit = [quoted([UNIT])] if self.has_unit else []
        shown = ", ".join([*unit, *map(str, self.keys), *map(str, self.aggregates)])
        by = ", ".join([*unit, *(key.sql for key in self.keys)])
        grouped = f" GROUP BY {by}" if by else ""
        return f"SELECT {shown} FROM ({self.relation.sql(path)}) AS g{grouped}"


@dataclass(frozen=True)
class Windowed(Relation):
    """Rows with columns that are computed over other rows of the same unit.

    The unit is in each window's PARTITION BY, and what depends on the order of rows sees them in a total one, so a
    column follows from the unit's own rows.
    """

    relation: Relation
    columns: tuple[Shown, ...]

    @property
    def parts(self) -> tuple[Relation, ...]:
        return (self.relation,)

    @property
    def has_one_row(self) -> bool:
        return self.relation.has_one_row

    def sql(self, path: Path) -> str:
        return f"SELECT *, {', '.join(map(str, self.columns))} FROM ({self.relation.sql(path)}) AS w"


@dataclass(frozen=True)
class United(Relation):
    """Rows of several relations: by UNION ALL, or with each row once, by rows that contain the unit.

    kind: all, distinct, except or intersect. A row is kept or left out by rows of the same unit.
    """

    kind: str
    members: tuple[Relation, ...]

    @property
    def parts(self) -> tuple[Relation, ...]:
        return self.members

    def sql(self, path: Path) -> str:
        word = {"all": "UNION ALL", "distinct": "UNION", "except": "EXCEPT", "intersect": "INTERSECT"}[self.kind]
        return f" {word} ".join(f"(FROM ({member.sql(path)}) AS m)" for member in self.members)


@dataclass(frozen=True)
class Cut(Relation):
    """At most so many rows of each unit: which, follows from a hash of the unit and its own rows alone.

    It bounds what a join with several rows of a unit on both sides costs and returns.
    """

    relation: Relation
    most: int
    columns: tuple[str, ...]

    @property
    def parts(self) -> tuple[Relation, ...]:
        return (self.relation,)

    @property
    def leaves_rows_out(self) -> bool:
        return True

    def sql(self, path: Path) -> str:
        row = ", ".join(quoted([column]) for column in (UNIT, *self.columns))
        copies = (
            f'SELECT *, system.main.row_number() OVER (PARTITION BY {row}) AS "duckanon.copy" '
            f"FROM ({self.relation.sql(path)}) AS c"
        )
        mixed = f'{row}, "duckanon.copy"'
        order = ", ".join(f"{quoted([column])} ASC NULLS LAST" for column in (*self.columns, "duckanon.copy"))
        return (
            f'SELECT * EXCLUDE ("duckanon.copy") FROM ({copies}) AS c QUALIFY system.main.row_number() OVER ('
            f"PARTITION BY {quoted([UNIT])} ORDER BY system.main.hash(system.main.hash({mixed})) ASC, {order}) "
            f"<= {self.most}"
        )
