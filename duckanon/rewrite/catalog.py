"""What the guard knows of the database while it decides about one statement: handed in as data, read by nobody here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from duckanon.rewrite.spot.names import TableName


@dataclass(frozen=True)
class Protection:
    """What a steward has decided about a table, as the rules need it. Column names are as the steward wrote them.

    epsilon: the budget in all; remaining: what is left of it. per_query: the most that one release may cost; None: no
    release with noise. unit: the column that tells groups apart. hierarchy: region columns, the widest first.
    max_size: the largest group size told. public: columns whose values may be known. quasi_identifiers, k: what a
    k-anonymous copy generalises, and its least class. sensitive: columns it may show as they are. drop: columns it must
    leave out. small: counts from 1 to small - 1 must not be disclosed.
    """

    epsilon: Fraction
    remaining: Fraction
    per_query: Fraction | None = None
    unit: str | None = None
    hierarchy: Sequence[str] = ()
    max_size: int | None = None
    public: Sequence[str] = ()
    quasi_identifiers: Sequence[str] = ()
    k: int = 5
    sensitive: Sequence[str] = ()
    drop: Sequence[str] = ()
    small: int = 5


@dataclass(frozen=True)
class Stored:
    """A table of the database. columns: their names as stored, and their types as DuckDB writes them."""

    path: tuple[str, str, str]
    columns: Mapping[str, str] = field(default_factory=dict)
    temporary: bool = False


@dataclass(frozen=True)
class View:
    """A view: its full name as stored, and the statement that made it."""

    path: tuple[str, str, str]
    sql: str


@dataclass(frozen=True)
class Macro:
    """A macro that somebody defined: where, its parameters in order and folded, and what stands behind it."""

    name: str
    home: tuple[str, str]
    parameters: tuple[str, ...]
    body: str
    is_table: bool = False


@dataclass(frozen=True)
class Catalog:
    """Tables, views and policies, by their full names with letters folded.

    search: catalogs and schemas in which a name is looked for, in order. macros: folded names of all macros that
    somebody defined; duckanon's own are not among them. definitions: those of them that have one meaning.
    """

    search: Sequence[tuple[str, str]] = (("memory", "main"),)
    tables: Mapping[TableName, Stored] = field(default_factory=dict)
    views: Mapping[TableName, View] = field(default_factory=dict)
    macros: frozenset[str] = frozenset()
    definitions: Mapping[str, Macro] = field(default_factory=dict)
    protected: Mapping[TableName, Protection] = field(default_factory=dict)

    def find(self, written: TableName, home: tuple[str, str] | None = None) -> TableName | None:
        """The table or view that a name means, looked for in DuckDB's order; None if there is none.

        home: the catalog and schema of the view in which the name is written.
        """
        for catalog, schema in self._places(written, home):
            name = TableName(catalog, schema, written.object)
            if name in self.tables or name in self.views or name in self.protected:
                return name
        return None

    def _places(self, written: TableName, home: tuple[str, str] | None) -> list[tuple[str, str]]:
        if written.catalog:
            return [(written.catalog, written.schema)]
        search = [("temp", "main"), *([home] if home else []), *self.search]
        if written.schema:
            # a.b is a schema's table, or a database's in its main schema.
            catalogs = dict.fromkeys(catalog for catalog, _ in search)
            return [(catalog, written.schema) for catalog in catalogs] + [(written.schema, "main")]
        return search

    @property
    def objects(self) -> frozenset[str]:
        """The folded last names of all tables and views."""
        return frozenset(name.object for names in (self.tables, self.views, self.protected) for name in names)
