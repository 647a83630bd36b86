"""The findings about a statement of a script, whose names are not resolved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.snapshot import View
from duckanon.rewrite.algebra.expressions import TooComplex
from duckanon.rewrite.algebra.nodes import ROOT, Node, nodes_of, sql
from duckanon.rewrite.algebra.relations import Relation
from duckanon.rewrite.bind_scripts import Schema, query_of, resolved
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.recognize.classify import findings
from duckanon.rewrite.recognize.findings import Finding, Unknown

# Statements that only wrap a query, by the argument that holds it.
_WRITES = {"create", "insert", "drop", "alter", "altertable", "truncatetable"}
_WRAPPERS: tuple[tuple[Any, str], ...] = ((exp.Create, "expression"), (exp.Insert, "expression"), (exp.Copy, "this"))


def findings_in(statement: Node | str, schema: Schema) -> tuple[Finding, ...]:
    """What a statement asks of protected tables; empty if it uses none.

    Raises sqlglot.errors.SqlglotError for text that cannot be parsed as one statement.
    """
    tree = _tree(statement)
    try:
        return tuple(_statement(tree, schema))
    except (TooComplex, RecursionError):
        return tuple(_mentions(tree, schema, "the statement is too complex to be followed"))


def relation(statement: Node | str, schema: Schema) -> Relation:
    """The resolved form of a query, as the recognisers see it."""
    return resolved(_tree(statement), schema)


def _tree(statement: Node | str) -> Node:
    return sqlglot.parse_one(statement, read=DIALECT) if isinstance(statement, str) else statement


def _statement(tree: Node, schema: Schema) -> Iterator[Finding]:
    if isinstance(tree, exp.Query | exp.Pivot | exp.Values):
        yield from findings(resolved(tree, schema))
        return
    queries: list[Node] = []
    for kind, name in _WRAPPERS:
        inner = tree.args.get(name) if isinstance(tree, kind) else None
        if isinstance(inner, exp.Query | exp.Subquery) and not tree.args.get("returning"):
            queries.append(inner)
    if queries and not (isinstance(tree, exp.Insert) and tree.args.get("with")):
        for query in queries:
            yield from findings(resolved(query, schema))
        yield from _written(tree, schema)
    elif tree.key in _WRITES and not tree.args.get("returning") and tree.find(exp.Query) is None:
        yield from _written(tree, schema)
    else:
        yield from _mentions(tree, schema, f"a statement of this kind ({tree.key.upper()}) is not followed")


def _written(tree: Node, schema: Schema) -> Iterator[Finding]:
    """A finding for the protected table that a statement writes to."""
    target = (
        tree.this
        if isinstance(tree.this, exp.Table)
        else tree.this.find(exp.Table)
        if isinstance(tree.this, ROOT)
        else None
    )
    if isinstance(target, exp.Table) and target.this is not None and schema.protected is not None:
        name = TableName(fold(target.catalog), fold(target.db), fold(target.name)).within(schema.home)
        if schema.is_protected(name):
            yield Unknown(table=name, tables=(name,), node=tree, reason="it writes to it", writes=True)


def _mentions(tree: Node, schema: Schema, reason: str) -> Iterator[Finding]:
    """One finding for each protected table that a statement names, or that stands anywhere in its text."""
    named = [
        TableName(fold(node.catalog), fold(node.db), fold(node.name)).within(schema.home)
        for node in nodes_of(tree, exp.Table)
        if node.this is not None
    ]
    table_names = [name for name in named if schema.is_protected(name)]
    if schema.protected is not None:
        written = fold(sql(tree))
        table_names += [name for name in sorted(schema.protected) if name.object in written]
        for full, view in schema.views.items():
            if any(name.may_be(full) for name in named) or full.object in written:
                table_names += [name for name in sorted(schema.protected) if name.object in _folded_query(view)]
    names: list[TableName] = []
    for name in table_names:
        if not any(name.may_be(table_name) for table_name in names):
            names.append(name)
            yield Unknown(table=name, tables=(name,), node=tree, reason=reason)


def _folded_query(view: View) -> str:
    """The folded text of a view's query."""
    try:
        return fold(sql(query_of(view)[0]))
    except SqlglotError:
        return fold(view.sql)
