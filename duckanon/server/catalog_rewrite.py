"""Rewrites a catalog query for DuckDB: catalogs under their in-memory names, objects' numbers, PostgreSQL's types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import Node
from duckanon.server import types
from duckanon.server.catalog_facts import (
    HELD_IN,
    INFORMATION,
    NO_ROWS,
    PG,
    ROWS_OF,
    columns_of_type,
    filled,
    relations,
    scalars,
)
from duckanon.server.catalog_names import branches, fold_names, name_columns, unaliased
from duckanon.server.catalog_query import NAMED_BY, CatalogQuery, cast_to, check, column_type, place
from duckanon.server.catalog_text import OWN
from duckanon.server.codecs import decoder
from duckanon.server.errors import PgError
from duckanon.server.types import PgType

_read_array = decoder(types.array_of(types.TEXT).oid, binary=False)
# sqlglot writes PostgreSQL's words for the time, which DuckDB without time zones takes for columns.
_CLOCKS: dict[Any, str] = {
    exp.CurrentTimestamp: "get_current_timestamp",
    exp.CurrentDate: "today",
    exp.Localtimestamp: "current_localtimestamp",
}
_TEXTS = frozenset("text varchar character bpchar name cstring unknown pg_node_tree aclitem char".split())
_HELD = {
    "bytea": "BLOB",
    "char": "VARCHAR",
    "cid": "UINTEGER",
    "int2vector": "SMALLINT[]",
    "json": "JSON",
    "jsonb": "JSON",
    "oid": "UINTEGER",
    "oid_list": "UINTEGER[]",
    "oidvector": "UINTEGER[]",
    "regconfig": "VARCHAR",
    "regoper": "VARCHAR",
    "regoperator": "VARCHAR",
    "regclass_list": "VARCHAR[]",
    "regproc": "VARCHAR",
    "regtype_list": "VARCHAR[]",
    "regprocedure": "VARCHAR",
    "tid": "VARCHAR",
    "xid": "UINTEGER",
    **dict.fromkeys(_TEXTS, "VARCHAR"),
}
_SYSTEM_COLUMNS = frozenset("tableoid xmin xmax cmin cmax ctid".split())
# Types of output columns that differ for clients, though DuckDB holds them in the same type.
_SHOWN = {"name": types.NAME, "char": types.CHAR}
Finder = Callable[[str, str], int | None]
_KEYWORDS = "SELECT keyword_name AS word, upper(keyword_category[1]) AS catcode FROM duckdb_keywords()"
_NAMES = ("name", "text", "sql_identifier")
_SERIES = ("ExplodingGenerateSeries", "GenerateSeries")
_SAID = {"regclass": "table", "regtype": "type", "regnamespace": "schema"}


def rewritten(query: CatalogQuery, parameters: Sequence[Any], find: Finder) -> tuple[str, Sequence[PgType | None]]:
    """The DuckDB query, and the type of each column where it differs from what DuckDB shows.

    find: the number of an object by its kind (regclass, regtype or regnamespace) and name, None if there is none.
    Raises UnsupportedQuery for a function that is not emulated.
    """
    check(query.tree)
    try:
        return _rewritten(query, parameters, find)
    except (RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise UnsupportedQuery("The catalog cannot answer a query of this shape: ask for less at once.") from error


def _rewritten(query: CatalogQuery, parameters: Sequence[Any], find: Finder) -> tuple[str, Sequence[PgType | None]]:
    tree = query.tree.copy()
    own = frozenset(one.alias.lower() for one in tree.find_all(exp.CTE))
    for node in list(tree.find_all(exp.Parameter)):
        at = place(node)
        value = parameters[at - 1] if 0 < at <= len(parameters) else None
        node.replace(_constant("" if value is None and _is_key(node) else value))
    shown = [_shown_type(select, query.reads) for select in tree.selects] if isinstance(tree, exp.Select) else []
    _in_order(tree, own)
    fold_names(tree)
    name_columns(tree)
    _drop_unreachable(tree, own)
    outermost = [unaliased(value) for select in branches(tree) for value in select.selects]
    changed = _Rewriter(find, _aliases(tree), own, outermost).rewrite(tree)
    return changed.sql(dialect="postgres", identify=True), shown


def _in_order(tree: Node, own: frozenset[str]) -> None:
    """Sort the columns of tables where a query has no ORDER BY: clients rely on the order that PostgreSQL returns."""
    if not isinstance(tree, exp.Select) or any(tree.args.get(text) for text in ("order", "group", "distinct", "limit")):
        return
    if any(isinstance(node, exp.AggFunc | exp.Window) for select in tree.selects for node in select.walk()):
        return
    for table in _inner_tables(tree):
        if isinstance(table, exp.Table) and table.name.lower() == "pg_attribute" and "pg_attribute" not in own:
            for column in ("attrelid", "attnum"):
                tree.order_by(exp.column(column, table=table.alias or table.name), copy=False)


def _aliases(tree: Node) -> Mapping[str, int]:
    """The numbers of the catalogs that a query reads, by the names that qualify their columns."""
    aliases = {}
    for table in tree.find_all(exp.Table):
        relation = relations().get((PG, table.name.lower()))
        if relation is not None and isinstance(table.this, exp.Identifier):
            aliases[str(table.alias or table.name).lower()] = relation.oid
    return aliases


class _Rewriter:
    """Rewrites a tree from its leaves up.

    find: numbers of objects by name. tables: numbers of catalogs by alias. own: the names of the query's CTEs.
    outermost: the query's columns; a number that is cast to regclass is shown as a name there.
    """

    def __init__(self, find: Finder, tables: Mapping[str, int], own: frozenset[str], outermost: Sequence[Node]) -> None:
        self._find, self._tables, self._own = find, tables, own
        # The nodes are kept, so that no other gets their identity.
        self._outermost, self._shown = outermost, {id(value) for value in outermost}

    def rewrite(self, tree: Node) -> Node:
        for node in reversed(list(tree.walk(bfs=False))):
            changed = self._changed(node)
            if changed is not node:
                if node.parent is None:
                    tree = changed
                else:
                    node.replace(changed)
        return tree

    def _changed(self, node: Node) -> Node:
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Table):
            return _table(node, self._own)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal):
            return _array_literal(node)
        if isinstance(node, exp.RegexpLike | exp.RegexpILike | exp.Substring) or type(node) in _CLOCKS:
            return _of_duckdb(node)
        if isinstance(node, exp.EQ | exp.NEQ):
            return _compared_functions(node)
        if isinstance(node, exp.Unnest) and len(node.expressions) > 1:
            return _side_by_side(node)
        if type(node).__name__ in _SERIES and not isinstance(node.parent, exp.Table):
            return _call("unnest", node.copy())
        if type(node).__name__ == "Format":
            return _formatted(node.this, node.expressions)
        if isinstance(node, exp.Anonymous):
            return self._function(node)
        return node

    def _cast(self, node: Node) -> Node:
        to, of = cast_to(node), node.this
        if to in NAMED_BY:
            return self._object(node, to, of)
        if to == "oid" and isinstance(of, exp.Cast) and cast_to(of) in ("regproc", "regprocedure"):
            return exp.Literal.number(0)
        base, brackets = to.rstrip("[]"), to[len(to.rstrip("[]")) :]
        held = _HELD.get(base)
        if held is not None:
            return exp.Cast(this=of, to=_type(held + brackets))
        return node

    def _object(self, node: Node, kind: str, of: Node) -> Node:
        """A cast to a kind of object: its number, or its name where the query shows it or makes a text of it."""
        while isinstance(of, exp.Paren):
            of = of.this
        if isinstance(of, exp.Literal):
            number = int(of.this) if str(of.this).isdigit() else self._find(kind, str(of.this))
            if number is None:
                raise UnsupportedQuery(f"There is no {_SAID[kind]} of this name.")
            of = exp.Literal.number(number)
        elif isinstance(of, exp.Anonymous) and str(of.name).lower().startswith("pg_get_"):
            of = exp.Null()  # definitions are not shown, so there is nothing to name
        elif _is_text(of):
            of = _call(f"dk_find_{kind}", of)
        above = node.parent
        as_text = isinstance(above, exp.Cast) and cast_to(above) in _TEXTS
        return _call(NAMED_BY[kind], of) if as_text or id(node) in self._shown else of

    def _column(self, node: Node) -> Node:
        name = str(node.name)
        if name not in _SYSTEM_COLUMNS or not isinstance(node.this, exp.Identifier):
            return node
        if name != "tableoid" and not self._tables:
            return node
        tables = self._tables.get(str(node.table).lower()) or next(iter(self._tables.values()), 0)
        value = exp.Cast(this=exp.Literal.number(tables if name == "tableoid" else 1), to=_type("UINTEGER"))
        is_shown = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        return exp.alias_(value, name) if is_shown else value

    def _function(self, node: Node) -> Node:
        name, expressions = str(node.name).lower(), node.expressions
        if name in ("to_regclass", "to_regtype"):
            number = (
                self._find(name[3:], str(expressions[0].name))
                if expressions and isinstance(expressions[0], exp.Literal)
                else None
            )
            return exp.Null() if number is None else exp.Literal.number(number)
        if name == "format" and expressions:
            return _formatted(expressions[0], expressions[1:])
        if name == "_pg_expandarray":
            return _call("unnest", _call("dk_numbered", *expressions))
        if name == "generate_subscripts":
            return _call("unnest", _call("dk_subscripts", *expressions[:1]))
        if name in ("json_build_object", "jsonb_build_object"):
            return _call("json_object", *expressions)
        if name in ("pg_partition_ancestors", "pg_partition_tree"):
            return _call("unnest", exp.Array(expressions=[exp.Cast(this=expressions[0], to=_type("UINTEGER"))]))
        if name in NO_ROWS and not isinstance(node.parent, exp.Table):
            return _call("unnest", exp.Cast(this=exp.Null(), to=_type(f"STRUCT({NO_ROWS[name]})[]")))
        return node


def _drop_unreachable(tree: Node, own: frozenset[str]) -> None:
    """Make the subqueries of a SELECT's columns NULL where a catalog that it reads is always empty.

    DuckDB 1.4 cannot bind some of them.
    """
    for select in list(tree.find_all(exp.Select)):
        if any(_is_empty(inner_table, own) for inner_table in _inner_tables(select)):
            for column in select.expressions:
                for inner in list(column.find_all(exp.Subquery)):
                    if inner is not column and not isinstance(inner.parent, exp.In):
                        inner.replace(_nothing(inner))


def _nothing(subquery: Node) -> Node:
    """NULL of a subquery's type, as far as its column shows that."""
    if isinstance(subquery.parent, exp.Unnest | exp.Explode):
        return exp.Null()
    first = unaliased(next(branches(subquery)).selects[0])
    while isinstance(first, exp.Paren):
        first = first.this
    ends = [one.args["true"] for one in first.args["ifs"]] if isinstance(first, exp.Case) else []
    if isinstance(first, exp.Count):
        kind = "BIGINT"
    elif isinstance(first, exp.ArrayAgg):
        kind = "VARCHAR[]"
    elif isinstance(first, exp.Exists | exp.Predicate) or any(isinstance(end, exp.Boolean) for end in ends):
        kind = "BOOLEAN"
    else:
        kind = "VARCHAR"
    return exp.Cast(this=exp.Null(), to=_type(kind))


def _inner_tables(select: Node) -> Iterator[Node]:
    """The tables that a SELECT reads by inner joins: it has no rows if one of them has none."""
    first = next((value for key, value in select.args.items() if key in ("from", "from_") and value), None)
    joins = select.args.get("joins") or []
    if first is not None and not any(join.side in ("RIGHT", "FULL") for join in joins):
        yield first.this
        yield from (join.this for join in joins if not join.side)


def _is_empty(table: Node, own: frozenset[str]) -> bool:
    name = str(table.name).lower()
    return (
        isinstance(table, exp.Table)
        and isinstance(table.this, exp.Identifier)
        and (PG, name) in relations()
        and table.db != INFORMATION
        and f"{HELD_IN[PG]}.{name}" not in filled()
        and name not in own
    )


def _table(node: Node, own: frozenset[str]) -> Node:
    """A catalog under its in-memory name; a function with a name for its column."""
    if isinstance(node.this, exp.Identifier):
        schema = INFORMATION if node.db.lower() == INFORMATION else PG
        name = str(node.name).lower()
        if (schema, name) in relations() and (node.db or name not in own):
            if not node.alias:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
            node.set("db", exp.to_identifier(HELD_IN[schema]))
            node.set("catalog", None)
        return node
    name = str(getattr(node.this, "name", "")).lower()
    if name in ROWS_OF:
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name))
        return exp.Table(this=exp.to_identifier(ROWS_OF[name]), db=exp.to_identifier(HELD_IN[PG]), alias=alias)
    if isinstance(node.this, exp.Func) and not isinstance(node.this, exp.Anonymous):
        name = node.this.sql_name().lower()
    if name in scalars() or name == "string_to_array":
        # A function of one value has one row, with a column of its name.
        shown = name.removeprefix(OWN)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(shown))
        return exp.Subquery(this=exp.Select().select(exp.alias_(node.this.copy(), str(alias.name))), alias=alias)
    if name in NO_ROWS:
        inner = exp.Select().where(exp.false())
        for column, kind in (text.split(" ") for text in NO_ROWS[name].split(", ")):
            inner = inner.select(exp.alias_(exp.Cast(this=exp.Null(), to=_type(kind)), column))
        return exp.Subquery(this=inner, alias=node.args.get("alias"))
    if name == "pg_get_keywords":
        return exp.Subquery(this=_parsed(_KEYWORDS), alias=node.args.get("alias"))
    alias = node.args.get("alias")
    if alias is not None and not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier(str(alias.name))])
    return node


def _side_by_side(node: Node) -> Node:
    """FROM unnest(a, b) WITH ORDINALITY as a subquery: DuckDB's unnest takes one list there."""
    lists, alias = node.expressions, node.args.get("alias") or exp.TableAlias(this=exp.to_identifier("unnest"))
    names = [*alias.args.get("columns", ()), *map(exp.to_identifier, ("unnest",) * len(lists))][: len(lists)]
    items = [exp.alias_(_call("unnest", value), name) for value, name in zip(lists, names, strict=True)]
    if node.args.get("offset"):
        items.append(exp.alias_(_call("unnest", _call("dk_subscripts", lists[0].copy())), node.args["offset"]))
    return exp.Subquery(this=exp.Select().select(*items), alias=exp.TableAlias(this=alias.this))


def _formatted(form: Node, nodes: Sequence[Node]) -> Node:
    """PostgreSQL's format(), whose %I and %L quote names and texts."""
    kinds = re.findall(r"%([sIL])", str(form.this)) if isinstance(form, exp.Literal) else []
    if len(kinds) != len(nodes):
        return _call("printf", form, *nodes)
    quotes = {"I": "dk_quoted", "L": "quote_literal"}
    parts = [_call(quotes[kind], value) if kind in quotes else value for kind, value in zip(kinds, nodes, strict=True)]
    return _call("printf", exp.Literal.string(re.sub(r"%[IL]", "%s", str(form.this))), *parts)


def _parsed(sql: str) -> Node:
    return sqlglot.parse_one(sql, read="duckdb")


def _array_literal(node: Node) -> Node:
    """PostgreSQL's text of an array, such as '{a,b}', as a list."""
    written = str(node.this) if node.is_string else ""
    in_json = isinstance(node.parent, exp.Cast) and cast_to(node.parent) in ("json", "jsonb")
    if not (written.startswith("{") and written.endswith("}")) or in_json:
        return node
    try:
        items = _read_array(written.encode())
    except PgError:
        return node
    numbers = bool(items) and all(re.fullmatch(r"-?\d+", str(item)) for item in items)
    return _constant([int(item) for item in items] if numbers else items)


def _of_duckdb(node: Node) -> Node:
    """A function that means the same in DuckDB under another name."""
    if isinstance(node, exp.RegexpLike | exp.RegexpILike):
        # DuckDB's own ~ matches the whole text up to version 1.4.
        case = [exp.Literal.string("i")] if isinstance(node, exp.RegexpILike) else []
        return _call("regexp_matches", node.this, node.expression, *case)
    if isinstance(node, exp.Substring) and getattr(node.args.get("start"), "is_string", False):
        # substring(x FROM pattern): the first group, and NULL where nothing matches.
        return _call(
            "nullif",
            _call("regexp_extract", node.this, node.args["start"], exp.Literal.number(1)),
            exp.Literal.string(""),
        )
    clock = _CLOCKS.get(type(node))
    return node if clock is None else _call(clock)


def _compared_functions(node: Node) -> Node:
    """A function's number compared with zero: functions are held by name, and none is '-'."""
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(one, exp.Column) and str(one.name) in columns_of_type("regproc") and _is_zero(other):
            other.replace(exp.Literal.string("-"))
    return node


def _is_text(node: Node) -> bool:
    """Whether an expression gives an object's name, and not its number, as far as the expression shows it."""
    if isinstance(node, exp.Column):
        name = str(node.name)
        return name not in columns_of_type("oid") and any(name in columns_of_type(kind) for kind in _NAMES)
    return isinstance(node, exp.Func | exp.DPipe) and not isinstance(node, exp.Cast | exp.Case | exp.Coalesce)


def _is_zero(node: Node) -> bool:
    return isinstance(node, exp.Literal) and str(node.this) == "0"


def _type(duckdb: str) -> Node:
    """A type that is written into the SQL exactly as given."""
    return exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=duckdb)


def _call(name: str, *node: Node) -> Node:
    return exp.Anonymous(this=name, expressions=list(node))


def _constant(value: Any) -> Node:
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        number = exp.Literal.number(abs(value))
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[_constant(one) for one in value])
    return exp.Literal.string(str(value))


def _is_key(node: Node) -> bool:
    """Whether a parameter is among the names and values of a JSON object, where DuckDB accepts no NULL."""
    above = node.parent.parent if isinstance(node.parent, exp.Cast) else node.parent
    return isinstance(above, exp.Anonymous) and str(above.name).lower().endswith("build_object")


def _shown_type(node: Node, reads: frozenset[tuple[str, str]]) -> PgType | None:
    """The type of an output column that DuckDB holds as text, where PostgreSQL's is a name or a character."""
    node = unaliased(node)
    if isinstance(node, exp.Null):
        return types.TEXT
    if not isinstance(node, exp.Column):
        return None
    pg_type = column_type(str(node.name).lower(), reads)
    return pg_type if pg_type in _SHOWN.values() else None
