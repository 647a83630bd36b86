"""Resolves names: every table gets its full name, and every view and macro is replaced by its definition.

So DuckDB looks up no name. A name of a file, a Python variable or a system table is not found here, and refused. A CTE
with the name of a table is renamed, so that neither can be taken for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import Catalog, Home, Macro, View
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite import macros, metadata
from duckanon.rewrite.admit import known
from duckanon.rewrite.algebra.nodes import FROM, ROOT, WITH, Node, copied, given, name_of, nodes_of
from duckanon.rewrite.algebra.relations import Opaque, Relation, Table
from duckanon.rewrite.allowed import TABLE_FUNCTIONS
from duckanon.rewrite.column_names import without_schemas
from duckanon.rewrite.dialect import DIALECT, Reading, reading
from duckanon.rewrite.quote import not_answered, quote, remember, takes_over

T = TypeVar("T")
NOT_SEEN = (
    "The statement reads something that analysts cannot see: check its names. Analysts read releases, open tables "
    "and their own temporary tables; SHOW TABLES lists what there is, and a steward opens a table with open_table."
)
_TOO_LARGE = (
    "The statement is too large once its views, macros and WITH are written out where they are read: keep a part of it "
    "in a temporary table."
)
_INSIDE = "A view or macro in its definition cannot be checked: ask the steward to write it plainly."
# The most levels of views in views, or of macros in macros.
_DEEPEST = 20
# More views and macros than any statement uses: twenty levels of views that read the last one twice are a million.
_MOST_DEFINITIONS = 1000
# Nodes of the tree with views, macros and WITH written out, as DuckDB plans it. A text of the longest kind that is
# admitted has fewer.
_MOST_NODES = 50_000


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
    _check_expanded(bound.query)
    without_schemas(bound.query)
    _Guarded(catalog, functions, bound).within(bound.query, Place())
    _check_expanded(bound.query)
    bound.has_parameters = bool(nodes_of(bound.query, exp.Placeholder, exp.Parameter))
    return bound


def full_name(path: tuple[str, str, str]) -> Node:
    """A table by its full name, in quotes."""
    catalog, schema, name = (exp.to_identifier(part, quoted=True) for part in path)
    return exp.Table(this=name, db=schema, catalog=catalog)


def named(node: Node) -> TableName:
    """The folded name in a table node."""
    return TableName(fold(node.catalog), fold(node.db), fold(node.name))


@dataclass(frozen=True)
class Place:
    """Where a name is written.

    ctes: the CTEs that can be seen there, with what they are called from now on; None: as they are written. home:
    of the steward's view or macro around it. within: the views and macros whose definitions it stands in, the
    outermost first.
    """

    ctes: Mapping[str, str | None] = field(default_factory=dict)
    home: Home | None = None
    within: tuple[TableName, ...] = ()

    def inside(self, definition: TableName, home: Home | None) -> Place:
        """The place inside the definition of a view or macro, which sees no CTE of the query that reads it."""
        return Place({}, home, (*self.within, definition))


class Binder:
    """Walks through a query once and gives each name its meaning: those of WITH here, all others in a subclass."""

    def called(self, name: str) -> str | None:
        """What a CTE is called from now on; None: as it is written."""
        raise NotImplementedError

    def table(self, node: Node, alias: Node, place: Place) -> None:
        """Resolve the name of a table or view. alias: its own, or its name."""
        raise NotImplementedError

    def function(self, node: Node, place: Place) -> None:
        """Resolve the call of a table function."""
        raise NotImplementedError

    def expands(self, node: Node, place: Place) -> bool:
        """Whether a node is the call of a macro, which is now replaced by the macro's definition."""
        raise NotImplementedError

    def within(self, node: Node, place: Place) -> None:
        """Resolve all names in a node."""
        clause = node.args.get(WITH)
        self._parts(node, place if clause is None else self._common(clause, place), clause)

    def _parts(self, node: Node, place: Place, without: Node | None) -> None:
        for argument in list(node.args.values()):
            for child in list(argument) if isinstance(argument, list) else [argument]:
                if not isinstance(child, ROOT) or child is without:
                    continue
                if isinstance(child, exp.Table):
                    self._source(child, place)
                elif not self.expands(child, place):
                    self.within(child, place)

    def _common(self, clause: Node, place: Place) -> Place:
        ctes = dict(place.ctes)
        for expression in clause.expressions:
            name, new = fold(expression.alias), self.called(expression.alias)
            inside = {**ctes, name: new} if clause.args.get("recursive") else dict(ctes)
            self._parts(expression, replace(place, ctes=inside), None)
            if new is not None:
                expression.args["alias"].set("this", exp.to_identifier(new, quoted=True))
            ctes[name] = new
        return replace(place, ctes=ctes)

    def _source(self, node: Node, place: Place) -> None:
        """Resolve a table or a table function in FROM, and what is joined with it in brackets."""
        self._parts(node, place, node.this)
        if not isinstance(node.this, exp.Identifier):
            self.function(node, place)
            return
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
        cte = "" if node.db or node.catalog else place.ctes.get(fold(node.name), "")
        if cte == "":
            self.table(node, alias, place)
        elif cte is not None:
            becomes(node, exp.Table(this=exp.to_identifier(cte, quoted=True)), alias)


class _Guarded(Binder):
    """What names mean for an analyst, who sees nothing but what the catalog lists."""

    def __init__(self, catalog: Catalog, functions: frozenset[str], bound: Bound) -> None:
        self._catalog, self._functions, self._bound = catalog, functions, bound
        # The nodes of the statement that are replaced by a view's or macro's definition at this moment.
        self._nodes = 0
        self._opened: list[Node] = []
        self._renamed = self._definitions = 0

    def called(self, name: str) -> str:
        if fold(name) not in self._catalog.objects and fold(name) not in _SYSTEM:
            return name
        self._renamed += 1
        return f"_dk_with_{self._renamed}"

    def _refusal(self, node: Node, reason: str) -> UnsupportedQuery:
        """A refusal that quotes the statement's own text, not that of definitions.

        A closed table and one that is not there have one sentence, to the letter, so it quotes no name.
        """
        if reason == NOT_SEEN:
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

    def table(self, node: Node, alias: Node, place: Place) -> None:
        written = named(node)
        if written.schema == metadata.SCHEMA and written.object in metadata.VIEWS:
            put(node, exp.Subquery(this=metadata.VIEWS[written.object](self._catalog), alias=alias))
            return
        table_name = self._catalog.find(written, place.home)
        if table_name is None and written.object in metadata.FUNCTIONS and (written.catalog, written.schema) in _THEIRS:
            put(node, exp.Subquery(this=metadata.FUNCTIONS[written.object](self._catalog), alias=alias))
            return
        if table_name is None:
            raise self._refusal(node, NOT_SEEN)
        view = self._catalog.views.get(table_name) or self._catalog.behind.get(table_name)
        if table_name in self._catalog.protected:
            if place.home is not None and place.home.reads_closed:
                raise self._refusal(node, "The statement reads a view over a protected table: ask the table itself.")
            becomes(node, full_name(self._path(table_name)), alias)
            self._bound.protected.append((table_name, node))
        elif isinstance(view, View):
            self._view(node, table_name, view, alias, place)
        else:
            becomes(node, full_name(self._path(table_name)), alias)
            self._bound.tables.add(table_name)

    def _path(self, name: TableName) -> tuple[str, str, str]:
        stored = self._catalog.stored(name)
        return (name.catalog, name.schema, name.object) if stored is None else stored.path

    def _view(self, node: Node, name: TableName, view: View, alias: Node, place: Place) -> None:
        if self._is_too_deep(place):
            raise UnsupportedQuery("The statement reads views of views that are nested too deeply.")
        query, columns, read = self._defined(node, place.home, lambda: _definition(view))
        self._grow(query)
        self._bound.readings.append(read)
        catalog, schema, own = view.path
        if place.home is None and not view.own:
            self._bound.opened.append(own if schema == "main" else f"{schema}.{own}")
        # An analyst's own view has no more rights than the analyst: it cannot read closed tables.
        inside = place.inside(name, None if view.own else Home(fold(catalog), fold(schema), reads_closed=True))
        self._opened.append(node)
        holder = exp.Subquery(this=query)
        self.within(holder, inside)
        self._opened.pop()
        listed = alias.args.get("columns") or []
        if len(columns) > len(listed):
            alias.set("columns", [*listed, *columns[len(listed) :]])
        holder.set("alias", alias)
        put(node, holder)

    def _grow(self, definition: Node) -> None:
        """Raises UnsupportedQuery if the statement grows too large by the definitions in it."""
        self._nodes += _nodes_in(definition)
        _check_size(self._nodes)

    def _is_too_deep(self, place: Place) -> bool:
        self._definitions += 1
        return len(place.within) >= _DEEPEST or self._definitions > _MOST_DEFINITIONS

    def function(self, node: Node, place: Place) -> None:
        name, path = fold(_called(node.this)), (fold(node.catalog), fold(node.db))
        if name in self._functions and path in _OURS:
            node.set("catalog", exp.to_identifier("temp", quoted=True))
            node.set("db", exp.to_identifier("main", quoted=True))
            self._bound.calls.append((name, node, place.home))
            return
        macro = self._macro(node.this, is_table=True)
        if macro is not None and path in _THEIRS:
            self.within(node.this, place)
            holder = exp.Subquery(this=self._body(macro, node, node.this.expressions, place))
            own = exp.TableAlias(this=exp.to_identifier(macro.name, quoted=True))
            holder.set("alias", node.args.get("alias") or own)
            put(node, holder)
            return
        if path in _THEIRS and self._metadata(node, name, place.home):
            return
        if name not in TABLE_FUNCTIONS or path not in _THEIRS:
            called = "this function" if self._opened else f"the function {name[:40]}"
            raise self._refusal(
                node, f"An analyst cannot read from {called}: ask the steward for a table or a release."
            )
        self.within(node.this, place)

    def _metadata(self, node: Node, name: str, home: Home | None) -> bool:
        """Replace a call of a function that lists the catalog. Returns whether it is one."""
        passed = node.this.expressions
        if name in metadata.FUNCTIONS and not passed:
            listed = metadata.FUNCTIONS[name](self._catalog)
        elif name == "pragma_table_info" and len(passed) == 1 and isinstance(passed[0], exp.Literal):
            listed = metadata.table_info(self._catalog, self._in_text(str(passed[0].this), home))
        else:
            return False
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        put(node, exp.Subquery(this=listed, alias=alias))
        return True

    def _in_text(self, text: str, home: Home | None) -> TableName:
        """The table or view that a name in a text means. Raises UnsupportedQuery for more than a name, too."""
        try:
            trees = sqlglot.parse(f"FROM {text}", read=DIALECT)
        except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
            trees = []
        source = trees[0].args.get(FROM) if len(trees) == 1 and isinstance(trees[0], exp.Select) else None
        table_node = None if source is None else source.this
        plain = isinstance(table_node, exp.Table) and isinstance(table_node.this, exp.Identifier)
        plain = plain and {argument for argument, _ in given(trees[0])} <= {"expressions", "from", "from_"}
        plain = plain and {argument for argument, _ in given(table_node)} <= {"this", "db", "catalog"}
        name = self._catalog.find(named(table_node), home) if plain else None
        if name is None or not self._catalog.is_seen(name):
            raise UnsupportedQuery(NOT_SEEN)
        return name

    def _macro(self, call: Node, *, is_table: bool) -> Macro | None:
        macro = self._catalog.definitions.get(fold(str(call.name)))
        return macro if macro is not None and macro.is_table == is_table else None

    def expands(self, node: Node, place: Place) -> bool:
        macro = self._macro(node, is_table=False) if isinstance(node, exp.Anonymous) else None
        if macro is None:
            return False
        self.within(node, place)
        body = self._body(macro, node, node.expressions, place).expressions[0].this
        takes_over(body, node)
        node.replace(body)
        return True

    def _body(self, macro: Macro, call: Node, passed: list[Node], place: Place) -> Node:
        """The definition of a macro with the arguments of a call, whose names are resolved already."""
        if self._is_too_deep(place):
            raise UnsupportedQuery("The statement calls macros of macros that are nested too deeply.")
        arguments = self._defined(call, place.home, lambda: macros.arguments(macro, passed))
        body, read = self._defined(call, place.home, lambda: macros.body(macro))
        self._bound.readings.append(read)
        if place.home is None:
            self._bound.opened.append(macro.name)
        holder = exp.Subquery(this=body)
        # A macro has no more rights than its caller: it cannot read closed tables.
        self._opened.append(call)
        catalog, schema = macro.home
        name = TableName(fold(catalog), fold(schema), fold(macro.name))
        self.within(holder, place.inside(name, place.home or Home(*self._catalog.search[0])))
        self._opened.pop()
        filled = macros.filled(holder, arguments).this
        self._grow(filled)
        return filled


class BoundTables:
    """What the catalog says of the tables in a bound query, for the resolver.

    A macro that still stands there has no definition that is known: `verify` refuses it.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.macros: Mapping[str, Sequence[Table]] = dict.fromkeys(catalog.macros, ())

    def relation(self, node: Node) -> Table | None:
        if not node.db:
            return None
        name = named(node)
        stored, is_protected = (
            self._catalog.stored(name),
            any(name.may_be(table_name) for table_name in self._catalog.protected),
        )
        return Table(name, None, is_protected) if stored is None else Table.of(name, stored, protected=is_protected)

    def mentioned(self, text: str) -> list[Table]:
        folded = fold(text)
        return [
            Table(table_name, None, protected=True)
            for table_name in sorted(self._catalog.protected)
            if table_name.object in folded
        ]

    def function_reads(self, node: Node, queries: Sequence[Relation]) -> Opaque:
        names = [
            leaf.name
            for leaf in nodes_of(node, exp.Literal, exp.Column)
            if isinstance(leaf, exp.Column) or leaf.is_string
        ]
        reads = (*queries, *(table for name in names for table in self.mentioned(name)))
        return Opaque(f"the function {name_of(node)} is not followed", reads, None, node)


def put(node: Node, holder: Node) -> None:
    """Put a subquery where a table was, with what is joined to it, its sample and its pivots."""
    for part in ("joins", "laterals", "pivots", "sample"):
        if node.args.get(part):
            holder.set(part, node.args[part])
    takes_over(holder, node)
    node.replace(holder)


def becomes(node: Node, to: Node, alias: Node) -> None:
    """Give a table in a query another name."""
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


def _definition(view: View) -> tuple[Node, list[Node], Reading]:
    """The query of a view as a new tree, the column names that the view lists, and the query's reading."""
    sentence = (
        f"The view {view.path[2]} cannot be understood, so it cannot be checked: ask the steward to write it plainly."
    )
    try:
        tree = sqlglot.parse_one(view.sql, read=DIALECT)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        raise UnsupportedQuery(sentence) from None
    query = tree.args.get("expression") if isinstance(tree, exp.Create) and tree.args.get("kind") == "VIEW" else None
    if not isinstance(query, exp.Query):
        raise UnsupportedQuery(sentence)
    query = copied(query)
    known(query)
    if bool(nodes_of(query, exp.Placeholder, exp.Parameter)):
        raise UnsupportedQuery(sentence)
    named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    columns = [exp.to_identifier(column.name, quoted=True) for column in named]
    return query, columns, reading(view.sql, query, is_within=True)


_OURS = {("", ""), ("temp", "main"), ("", "temp"), ("", "main")}
_THEIRS = {("", ""), ("system", "main"), ("", "main")}
_SYSTEM = frozenset({"tables", "duckdb_tables", "sqlite_master"})


# --- how large a query is once it is written out ----------------------------------------------------------------------


def _check_expanded(query: Node) -> None:
    """Raises UnsupportedQuery if a query is too large when what WITH names is written out wherever it is read."""
    _check_size(_size(query, {}))


def _check_size(nodes: int) -> None:
    """Raises UnsupportedQuery for a query of too many nodes."""
    if nodes > _MOST_NODES:
        raise UnsupportedQuery(_TOO_LARGE)


def _nodes_in(node: Node) -> int:
    """The number of nodes of a tree."""
    return sum(1 for _ in node.walk())


def _size(node: Node, known: Mapping[str, int]) -> int:
    """The nodes of a query, written out. known: the sizes of what WITH around it names."""
    total, inside, first = 1, dict(known), node.args.get(WITH)
    for cte in first.expressions if first is not None else ():
        # What reads itself is not written out.
        inside[fold(cte.alias)] = _size(cte.this, {**inside, fold(cte.alias): 0})
        total += 1
    waiting = [child for child in node.iter_expressions() if child is not first]
    while waiting:
        current = waiting.pop()
        if current.args.get(WITH) is not None:
            total += _size(current, inside)
            continue
        total += 1
        if isinstance(current, exp.Table) and not current.args.get("db"):
            total += inside.get(fold(current.name), 0)
        waiting += current.iter_expressions()
    return total
