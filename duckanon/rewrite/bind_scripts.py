"""Resolves names in SQL that nobody checks before it runs, as scripts and dbt models: an audit must miss no read.

Names are found as far as they are known. One that is not known may be that of any table, and a function that is not
followed may read every table whose name stands in its arguments or its definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import NOWHERE, TableName, fold
from duckanon.catalog.snapshot import Home, Stored, View
from duckanon.rewrite.algebra.nodes import Node, name_of, nodes_of
from duckanon.rewrite.algebra.relations import Opaque, Relation, Table, columns
from duckanon.rewrite.bind import Binder, Place, named
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.resolve import Resolver

T = TypeVar("T")


@dataclass(frozen=True)
class Schema:
    """What an audit knows about the database.

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
        return self.protected is None or any(name.may_be(table_name) for table_name in self.protected)

    def table(self, name: TableName) -> tuple[TableName, Stored] | None:
        """The full name and the table that a name means; None if it means none or could mean several."""
        return _only(self.tables, name.within(self.home)) or _only(self.tables, name)

    def view(self, name: TableName) -> tuple[TableName, View] | None:
        """The full name and the view that a name means; None if it means none or could mean several."""
        return _only(self.views, name.within(self.home)) or _only(self.views, name)

    def mentioned(self, text: str) -> list[Table]:
        """The protected tables whose names occur in a text."""
        folded = fold(text)
        return [Table(name, None, protected=True) for name in sorted(self.protected or ()) if name.object in folded]


def query_of(view: View) -> tuple[Node, tuple[str, ...]]:
    """The query of a view, and the folded names that the view gives to its columns; no names: the query's own.

    Raises sqlglot.errors.SqlglotError for text that cannot be parsed.
    """
    tree = sqlglot.parse_one(view.sql, read=DIALECT)
    listed = view.columns
    if isinstance(tree, exp.Create) and tree.expression is not None:
        if isinstance(tree.this, exp.Schema):
            listed = listed or tuple(expression.name for expression in tree.this.expressions)
        tree = tree.expression
    return tree, tuple(map(fold, listed))


def resolved(query: Node, schema: Schema) -> Relation:
    """The relation of a query whose names are not resolved; the query stays as it is.

    Raises TooComplex, or RecursionError, for one that is too large to be followed.
    """
    return _Known(schema).resolved(query, Place(home=Home(schema.home.catalog, schema.home.schema)))


class _Known(Binder):
    """What names mean as far as a schema says: the binder notes where each is written, the resolver asks for it."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._resolver = schema, Resolver(self)
        # Where the names of tables and views are written, by the identity of their nodes, which are kept alive.
        self._places: dict[int, tuple[Node, Place]] = {}

    def resolved(self, query: Node, place: Place) -> Relation:
        self.within(query, place)
        return self._resolver.alone(query, query)

    # --- what the binder asks -----------------------------------------------------------------------------------------

    def called(self, _: str) -> None:
        return None

    def table(self, node: Node, _: Node, place: Place) -> None:
        self._places[id(node)] = node, place

    def function(self, node: Node, place: Place) -> None:
        self.within(node.this, place)

    def expands(self, _: Node, __: Place) -> bool:
        return False

    # --- what the resolver asks ---------------------------------------------------------------------------------------

    def relation(self, node: Node) -> Relation | None:
        held = self._places.get(id(node))
        return None if held is None else self._meaning(named(node), held[1])

    def _meaning(self, written: TableName, place: Place) -> Relation:
        schema = self._schema
        # A name is looked up in the view's own schema, then in the default one, then anywhere if it is unique.
        home = NOWHERE if place.home is None else TableName(place.home.catalog, place.home.schema, "")
        places = (written.within(home), written.within(schema.home), written)
        known = next((table_names for table_names in map(schema.table, places) if table_names is not None), None)
        view = next((table_names for table_names in map(schema.view, places) if table_names is not None), None)
        if view is not None and (known is None or known[0] == view[0]):
            return self._view(*view, place)
        if known is not None:
            return Table.of(*known, protected=schema.is_protected(known[0]))
        # A name that is not known could be that of any table.
        return Table(places[0], None, schema.is_protected(written))

    def _view(self, name: TableName, view: View, place: Place) -> Relation:
        is_watched = self._schema.protected is not None and self._schema.is_protected(name)
        followed = self._followed(name, view, place)
        return Table(name, columns(followed), protected=True) if is_watched else followed

    def _followed(self, name: TableName, view: View, place: Place) -> Relation:
        if name in place.within:
            return Opaque("a view that reads itself is not followed")
        try:
            query, listed = query_of(view)
        except SqlglotError:
            return Opaque("a view whose text cannot be read", (Table(name, None, self._schema.is_protected(name)),))
        around = place.home or Home("", "")
        home = Home(name.catalog or around.catalog, name.schema or around.schema)
        inner = self.resolved(query, place.inside(name, home))
        return self._resolver.renamed(inner, listed) if listed else inner

    def mentioned(self, text: str) -> Sequence[Table]:
        return self._schema.mentioned(text)

    @cached_property
    def macros(self) -> Mapping[str, Sequence[Table]]:
        """Functions that users defined, with the protected tables that they may read."""
        return {name: self._schema.mentioned(definition) for name, definition in self._schema.macros.items()}

    def function_reads(self, node: Node, queries: Sequence[Relation]) -> Opaque:
        """Its texts may name tables, as in query_table('persons')."""
        schema, name = self._schema, name_of(node)
        if name in schema.releases:
            return self._released(node)
        mentions = [leaf.this for leaf in nodes_of(node, exp.Literal) if leaf.is_string]
        mentions += [leaf.name for leaf in nodes_of(node, exp.Column)]  # a table may be an argument by its name
        reads = [*queries, *self.macros.get(name, ())]
        plain = len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Literal)
        if name in ("query", "query_table") and not plain:
            # A text that is computed may name any protected table.
            reads += [Table(table_name, None, protected=True) for table_name in sorted(schema.protected or ())]
        reads += [table for mention in mentions for table in schema.mentioned(mention)]
        return Opaque(f"the function {name} is not followed", tuple(reads), None, node)

    def _released(self, node: Node) -> Opaque:
        """What a release shows unchanged: the tables that are named in `within`, as earlier releases."""
        within = [
            argument.expression
            for argument in nodes_of(node, exp.PropertyEQ, exp.Kwarg)
            if fold(argument.this.name) == "within"
        ]
        names = [part.name for earlier in within for part in nodes_of(earlier, exp.Literal, exp.Column)]
        reads = [read for name in names for read in self._schema.mentioned(name)]
        return Opaque("an earlier release is shown as it is" if reads else "", tuple(reads))


def _only(known: Mapping[TableName, T], name: TableName) -> tuple[TableName, T] | None:
    if name in known:
        return name, known[name]
    table_names = [(full, entry) for full, entry in known.items() if name.may_be(full)]
    return table_names[0] if len(table_names) == 1 else None
