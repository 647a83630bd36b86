"""The database as the recognisers see it: tables with their columns, views, macros, and what is protected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import NOWHERE, TableName, fold
from duckanon.catalog.snapshot import Stored, View
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.dialect import DIALECT

T = TypeVar("T")


@dataclass(frozen=True)
class Schema:
    """What the recognisers know about the database.

    tables, views: by full name. macros: folded names of functions that users defined, with their definitions, in
    which only tables' names are looked for. releases: folded names of table functions whose results everybody may see.
    protected: the protected tables; None: every table. home: catalog and schema of names without them.
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
            tables={TableName.of(name): Stored(columns=columns) for name, columns in (tables or {}).items()},
            protected=None if protected is None else frozenset(map(TableName.of, protected)),
            **rest,  # type: ignore[arg-type]
        )

    def is_protected(self, name: TableName) -> bool:
        """Whether a name is, or could be, that of a protected table."""
        return self.protected is None or any(name.may_be(one) for one in self.protected)

    def table(self, name: TableName) -> tuple[TableName, Stored] | None:
        """The full name and the table that a name means; None if it means none or could mean several."""
        return _only(self.tables, name.within(self.home)) or _only(self.tables, name)

    def view(self, name: TableName) -> tuple[TableName, View] | None:
        """The full name and the view that a name means; None if it means none or could mean several."""
        return _only(self.views, name.within(self.home)) or _only(self.views, name)


def query_of(view: View) -> tuple[Node, tuple[str, ...]]:
    """The query of a view, and the folded names that the view gives to its columns; no names: the query's own.

    Raises sqlglot.errors.SqlglotError for text that cannot be parsed.
    """
    tree = sqlglot.parse_one(view.sql, read=DIALECT)
    listed = view.columns
    if isinstance(tree, exp.Create) and tree.expression is not None:
        if isinstance(tree.this, exp.Schema):
            listed = listed or tuple(one.name for one in tree.this.expressions)
        tree = tree.expression
    return tree, tuple(map(fold, listed))


def _only(known: Mapping[TableName, T], name: TableName) -> tuple[TableName, T] | None:
    if name in known:
        return name, known[name]
    found = [(full, one) for full, one in known.items() if name.may_be(full)]
    return found[0] if len(found) == 1 else None
