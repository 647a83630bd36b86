"""Resolves names: every table gets its full name, and every view and macro is replaced by its definition.

So DuckDB looks up no name. A name of a file, a Python variable or a system table is not found here, and refused. A CTE
with the name of a table is renamed, so that neither can be taken for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import Catalog, Home, Macro, View
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite import macros, metadata
from duckanon.rewrite.admit import known
from duckanon.rewrite.algebra.nodes import Node, arg, copied, given, nodes_of
from duckanon.rewrite.allowed import TABLE_FUNCTIONS
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.quote import not_answered, quote, remember, takes_over
from duckanon.rewrite.readings import Reading, reading

T = TypeVar("T")
_NOT_SEEN = (
    "The statement reads something that analysts cannot see: check its names. Analysts read releases, open tables "
    "and their own temporary tables; SHOW TABLES lists what there is, and a steward opens a table with open_table."
)
_INSIDE = "A view or macro in its definition cannot be checked: ask the steward to write it plainly."
# The most levels of views in views, or of macros in macros.
_DEEPEST = 20


@dataclass
class Bound:
    """A query with resolved names, as a tree of its own that may be changed.

    protected: the name and the node of each read of a protected table. tables: all other tables that it reads. calls:
    the name and the node of each call of duckanon's table functions, and where the view or macro stands in which it is
    written. has_parameters: whether it has placeholders. text: of the statement. origins: what the analyst wrote where
    names are resolved now. readings: of the definitions of its views and macros. opened: the names of the views and
    macros whose text it holds and that are not the analyst's own, without those that are named in such text only.
    """

    query: Node
    tables: set[TableName] = field(default_factory=set)
    protected: list[tuple[TableName, Node]] = field(default_factory=list)
    calls: list[tuple[str, Node, Home | None]] = field(default_factory=list)
    has_parameters: bool = False
    text: str = ""
    origins: Sequence[Node] = ()
    readings: list[Reading] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)

    def quote(self, node: Node | None) -> str | None:
        """The part of the statement that a node stands for, in backticks; None if none is found."""
        return quote(self.text, node, self.origins)

    def not_answered(self, node: Node | None, reason: str) -> str:
        """A reason with the part of the statement that it is about."""
        return not_answered(self.quote(node), reason)


def bind(query: Node, catalog: Catalog, functions: frozenset[str], text: str = "") -> Bound:
    """Resolve all names of an admitted query. functions: the folded names of duckanon's own table functions.

    text: of the statement, to be quoted. Raises UnsupportedQuery for a name that is not found.
    """
    copy = copied(query)
    bound = Bound(copy, text=text, origins=remember(query, copy))
    _Binder(catalog, functions, bound).within(bound.query, {}, None, 0)
    bound.has_parameters = bool(nodes_of(bound.query, exp.Placeholder, exp.Parameter))
    return bound


def table(path: tuple[str, str, str]) -> Node:
    """A table's full name, in quotes."""
    catalog, schema, name = (exp.to_identifier(part, quoted=True) for part in path)
    return exp.Table(this=name, db=schema, catalog=catalog)


def named(node: Node) -> TableName:
    """The folded name in a table node."""
    return TableName(fold(node.catalog), fold(node.db), fold(node.name))


class _Binder:
    def __init__(self, catalog: Catalog, functions: frozenset[str], bound: Bound) -> None:
        self._catalog, self._functions, self._bound = catalog, functions, bound
        self._renamed = 0
        # The node of the statement that is replaced by a view's or macro's definition at this moment.
        self._opened: list[Node] = []

    def within(self, node: Node, ctes: dict[str, str], home: Home | None, depth: int) -> None:
        """Resolve all names in `node`.

        ctes: the visible CTEs with their new names. home: of the steward's view or macro around it.
        """
        given = arg(node, "with")
        if given is not None:
            ctes = self._common(given, ctes, home, depth)
        for value in list(node.args.values()):
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, _NODE) or child is given:
                    continue
                if isinstance(child, exp.Table):
                    self._table(child, ctes, home, depth)
                elif isinstance(child, exp.Anonymous) and self._macro(child, is_table=False) is not None:
                    self._expanded(child, ctes, home, depth)
                else:
                    self.within(child, ctes, home, depth)

    def _refusal(self, node: Node, reason: str) -> UnsupportedQuery:
        """A refusal that quotes the statement's own text, not that of definitions.

        A closed table and one that is not there have one sentence, to the letter, so it quotes no name.
        """
        if reason == _NOT_SEEN:
            return UnsupportedQuery(reason)
        return UnsupportedQuery(self._bound.not_answered(self._opened[0] if self._opened else node, reason))

    def _defined(self, node: Node, home: Home | None, read: Callable[[], T]) -> T:
        """What is read of the definition of a view or macro. Within another definition an error does not name it."""
        try:
            return read()
        except UnsupportedQuery:
            if home is None:
                raise
        # Raised outside of `except`, so that the other error is not its context.
        raise self._refusal(node, _INSIDE)

    def _common(self, given: Node, ctes: dict[str, str], home: Home | None, depth: int) -> dict[str, str]:
        ctes = dict(ctes)
        for one in given.expressions:
            name = fold(one.alias)
            taken = name in self._catalog.objects or name in _SYSTEM
            mine = f"_dk_with_{self._number()}" if taken else one.alias
            inside = {**ctes, name: mine} if given.args.get("recursive") else ctes
            self.within(one.this, inside, home, depth)
            one.args["alias"].set("this", exp.to_identifier(mine, quoted=True))
            ctes[name] = mine
        return ctes

    def _macro(self, call: Node, *, is_table: bool) -> Macro | None:
        found = self._catalog.definitions.get(fold(str(call.name)))
        return found if found is not None and found.is_table == is_table else None

    def _expanded(self, call: Node, ctes: dict[str, str], home: Home | None, depth: int) -> None:
        """Replace a call of a scalar macro by the macro's expression."""
        macro = self._macro(call, is_table=False)
        assert macro is not None
        self.within(call, ctes, home, depth)
        body = self._behind(macro, call, call.expressions, home, depth).expressions[0].this
        takes_over(body, call)
        call.replace(body)

    def _behind(self, macro: Macro, call: Node, given: list[Node], home: Home | None, depth: int) -> Node:
        if depth >= _DEEPEST:
            raise UnsupportedQuery("The statement calls macros of macros that are nested too deeply.")
        values = self._defined(call, home, lambda: macros.arguments(macro, given))
        body, read = self._defined(call, home, lambda: macros.body(macro))
        self._bound.readings.append(read)
        if home is None:
            self._bound.opened.append(macro.name)
        holder = exp.Subquery(this=body)
        # A macro has no more rights than its caller: it cannot read closed tables.
        self._opened.append(call)
        self.within(holder, {}, home or Home(*self._catalog.search[0]), depth + 1)
        self._opened.pop()
        return macros.filled(holder, values).this

    def _number(self) -> int:
        self._renamed += 1
        return self._renamed

    def _table(self, node: Node, ctes: dict[str, str], home: Home | None, depth: int) -> None:
        for child in node.args.get("joins") or []:
            self.within(child, ctes, home, depth)
        if not isinstance(node.this, exp.Identifier):
            self._function(node, ctes, home, depth)
            return
        written = named(node)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
        if not written.schema and not written.catalog and written.object in ctes:
            _becomes(node, exp.Table(this=exp.to_identifier(ctes[written.object], quoted=True)), alias)
            return
        if written.schema == metadata.SCHEMA and written.object in metadata.VIEWS:
            _holds(node, metadata.VIEWS[written.object](self._catalog), alias)
            return
        found = self._catalog.find(written, home)
        if found is None and written.object in metadata.FUNCTIONS and (written.catalog, written.schema) in _THEIRS:
            _holds(node, metadata.FUNCTIONS[written.object](self._catalog), alias)
            return
        if found is None:
            raise self._refusal(node, _NOT_SEEN)
        if found in self._catalog.protected:
            if home is not None and home.reads_closed:
                raise self._refusal(node, "The statement reads a view over a protected table: ask the table itself.")
            _becomes(node, table(self._path(found)), alias)
            self._bound.protected.append((found, node))
            return
        view = self._catalog.views.get(found) or self._catalog.behind.get(found)
        if isinstance(view, View):
            self._view(node, view, alias, home, depth)
        else:
            _becomes(node, table(self._path(found)), alias)
            self._bound.tables.add(found)

    def _path(self, name: TableName) -> tuple[str, str, str]:
        stored = self._catalog.stored(name)
        return (name.catalog, name.schema, name.object) if stored is None else stored.path

    def _function(self, node: Node, ctes: dict[str, str], home: Home | None, depth: int) -> None:
        name = fold(_called(node.this))
        path = (fold(node.catalog), fold(node.db))
        if name in self._functions and path in _OURS:
            node.set("catalog", exp.to_identifier("temp", quoted=True))
            node.set("db", exp.to_identifier("main", quoted=True))
            self._bound.calls.append((name, node, home))
            return
        macro = self._macro(node.this, is_table=True)
        if macro is not None and path in _THEIRS:
            self.within(node.this, ctes, home, depth)
            holder = exp.Subquery(this=self._behind(macro, node, node.this.expressions, home, depth))
            named = exp.TableAlias(this=exp.to_identifier(macro.name, quoted=True))
            holder.set("alias", node.args.get("alias") or named)
            _replaced(node, holder)
            return
        if path in _THEIRS and self._metadata(node, name, home):
            return
        if name not in TABLE_FUNCTIONS or path not in _THEIRS:
            called = "this function" if self._opened else f"the function {name[:40]}"
            raise self._refusal(
                node, f"An analyst cannot read from {called}: ask the steward for a table or a release."
            )
        self.within(node.this, ctes, home, depth)

    def _metadata(self, node: Node, name: str, home: Home | None) -> bool:
        """Replace a call of a function that lists the catalog. Returns whether it is one."""
        passed = node.this.expressions
        if name in metadata.FUNCTIONS and not passed:
            found = metadata.FUNCTIONS[name](self._catalog)
        elif name == "pragma_table_info" and len(passed) == 1 and isinstance(passed[0], exp.Literal):
            found = metadata.table_info(self._catalog, self._found(str(passed[0].this), home))
        else:
            return False
        _holds(node, found, node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        return True

    def _found(self, text: str, home: Home | None) -> TableName:
        """The table or view that a name in a text means. Raises UnsupportedQuery for more than a name, too."""
        try:
            trees = sqlglot.parse(f"FROM {text}", read=DIALECT)
        except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
            trees = []
        source = arg(trees[0], "from") if len(trees) == 1 and isinstance(trees[0], exp.Select) else None
        found = None if source is None else source.this
        plain = isinstance(found, exp.Table) and isinstance(found.this, exp.Identifier)
        plain = plain and {one for one, _ in given(trees[0])} <= {"expressions", "from", "from_"}
        plain = plain and {one for one, _ in given(found)} <= {"this", "db", "catalog"}
        name = self._catalog.find(named(found), home) if plain else None
        if name is None or not self._catalog.is_seen(name):
            raise UnsupportedQuery(_NOT_SEEN)
        return name

    def _view(self, node: Node, view: View, alias: Node, home: Home | None, depth: int) -> None:
        if depth >= _DEEPEST:
            raise UnsupportedQuery("The statement reads views of views that are nested too deeply.")
        query, columns, read = self._defined(node, home, lambda: _behind(view))
        self._bound.readings.append(read)
        catalog, schema, name = view.path
        if home is None and not view.own:
            self._bound.opened.append(name if schema == "main" else f"{schema}.{name}")
        holder = exp.Subquery(this=query)
        # An analyst's own view has no more rights than the analyst: it cannot read closed tables.
        self._opened.append(node)
        self.within(holder, {}, None if view.own else Home(fold(catalog), fold(schema), reads_closed=True), depth + 1)
        self._opened.pop()
        if columns and not alias.args.get("columns"):
            alias.set("columns", columns)
        holder.set("alias", alias)
        _replaced(node, holder)


def _holds(node: Node, query: Node, alias: Node) -> None:
    """Replace a table or a call by a query."""
    holder = exp.Subquery(this=query, alias=alias)
    _replaced(node, holder)


def _replaced(node: Node, holder: Node) -> None:
    """Put a subquery where a table was, with the table's joins and sample."""
    for part in ("joins", "sample"):
        holder.set(part, node.args.get(part))
    takes_over(holder, node)
    node.replace(holder)


def _becomes(node: Node, to: Node, alias: Node) -> None:
    for part in ("this", "db", "catalog"):
        node.set(part, to.args.get(part))
    node.set("alias", alias)


def _called(node: Node) -> str:
    """The name of a table function."""
    if isinstance(node, exp.Anonymous):
        return str(node.this)
    if isinstance(node, exp.Func):
        return {"explodinggenerateseries": "generate_series"}.get(node.key, str(node.sql_name()))
    return str(node.key)


def _behind(view: View) -> tuple[Node, list[Node], Reading]:
    """The query of a view as a new tree, the column names that the view lists, and the query's reading."""
    said = (
        f"The view {view.path[2]} cannot be understood, so it cannot be checked: ask the steward to write it plainly."
    )
    try:
        tree = sqlglot.parse_one(view.sql, read=DIALECT)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        raise UnsupportedQuery(said) from None
    query = tree.args.get("expression") if isinstance(tree, exp.Create) and tree.args.get("kind") == "VIEW" else None
    if not isinstance(query, exp.Query):
        raise UnsupportedQuery(said)
    query = copied(query)
    known(query)
    if bool(nodes_of(query, exp.Placeholder, exp.Parameter)):
        raise UnsupportedQuery(said)
    named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    columns = [exp.to_identifier(one.name, quoted=True) for one in named]
    return query, columns, reading(view.sql, query, is_within=True)


_NODE = getattr(exp, "Expr", exp.Expression)
_OURS = {("", ""), ("temp", "main"), ("", "temp"), ("", "main")}
_THEIRS = {("", ""), ("system", "main"), ("", "main")}
_SYSTEM = frozenset({"tables", "duckdb_tables", "sqlite_master"})
