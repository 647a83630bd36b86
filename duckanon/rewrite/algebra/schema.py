"""What is known of the database: tables with their columns, views, macros, and which tables are protected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import NOWHERE, TableName, fold
from duckanon.rewrite.algebra.nodes import sql

T = TypeVar("T")


@dataclass(frozen=True)
class Stored:
    """A table. columns: folded name to type as DuckDB writes it, '' where it is not known.

    keys: sets of columns that no two rows share. complete: whether those are all columns.
    """

    columns: Mapping[str, str]
    keys: tuple[frozenset[str], ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class View:
    """A view: its query as text, and the names it gives to the columns, if it does."""

    query: str
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, create: str) -> View:
        """The view of a CREATE VIEW statement. Raises sqlglot.errors.SqlglotError for text that is none."""
        tree = sqlglot.parse_one(create, read="duckdb")
        if not isinstance(tree, exp.Create) or tree.expression is None:
            raise sqlglot.errors.ParseError("This is not a CREATE VIEW statement.")
        named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
        return cls(sql(tree.expression), tuple(fold(one.name) for one in named))


@dataclass(frozen=True)
class Schema:
    """All that the recognisers are told.

    tables, views: by full name. macros: folded names of functions that somebody defined, with their definitions; they
    are not followed. releases: folded names of table functions whose results may be seen by all.
    protected: the tables to watch; None watches every table. home: catalog and schema of names without them.
    """

    tables: Mapping[TableName, Stored] = field(default_factory=dict)
    views: Mapping[TableName, View] = field(default_factory=dict)
    macros: Mapping[str, str] = field(default_factory=dict)
    releases: frozenset[str] = frozenset()
    protected: frozenset[TableName] | None = None
    home: TableName = NOWHERE

    @classmethod
    def of(
        cls,
        tables: Mapping[str, Mapping[str, str]] | None = None,
        *,
        protected: list[str] | None = None,
        **rest: object,
    ) -> Schema:
        """A schema from plain texts: `Schema.of({'persons': {'age': 'INTEGER'}}, protected=['persons'])`."""
        return cls(
            tables={
                TableName.of(name): Stored({fold(column): kind for column, kind in columns.items()})
                for name, columns in (tables or {}).items()
            },
            protected=None if protected is None else frozenset(map(TableName.of, protected)),
            **rest,  # type: ignore[arg-type]
        )

    def is_protected(self, name: TableName) -> bool:
        """Whether the table is watched. A name that could be a watched table's is."""
        return self.protected is None or any(name.may_be(one) for one in self.protected)

    def table(self, name: TableName) -> tuple[TableName, Stored] | None:
        """The table of that name and its full name; None if there is none or it could be several."""
        return _only(self.tables, name.within(self.home)) or _only(self.tables, name)

    def view(self, name: TableName) -> tuple[TableName, View] | None:
        """The view of that name and its full name."""
        return _only(self.views, name.within(self.home)) or _only(self.views, name)


def _only(known: Mapping[TableName, T], name: TableName) -> tuple[TableName, T] | None:
    if name in known:
        return name, known[name]
    found = [(full, one) for full, one in known.items() if name.may_be(full)]
    return found[0] if len(found) == 1 else None
