"""From symbolic expressions back to SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlglot import exp

from duckanon.rewrite.algebra.expressions import (
    NULL,
    SOMEWHERE,
    Aggregate,
    Argument,
    Case,
    Column,
    Constant,
    Direction,
    Exists,
    Expr,
    InQuery,
    Nested,
    Row,
    Star,
    TypeName,
    Unclear,
    Window,
    WindowFunction,
    Word,
)
from duckanon.rewrite.algebra.forms import untyped
from duckanon.rewrite.algebra.nodes import Node, sql
from duckanon.rewrite.algebra.relations import Block, Opaque, Source, Table, Union
from duckanon.rewrite.dialect import DIALECT

_BRACKETED = (exp.Binary, exp.Not, exp.Between, exp.In, exp.Case)


class Renderer:
    """Writes expressions over some sources. With one source its columns need no qualifier."""

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self.sources = tuple(sources)
        self._bare = len(self.sources) <= 1

    def alias(self, number: int) -> str:
        return f"s{number}"

    def node(self, expr: Expr) -> Node:
        """The expression as a new sqlglot tree."""
        match expr:
            case Column(source, name):
                table = None if self._bare or source == SOMEWHERE else exp.to_identifier(self.alias(source))
                return exp.Column(this=identifier(name), table=table)
            case Star():
                return exp.Star()
            case Constant(value, is_text):
                return exp.Literal(this=value, is_string=is_text)
            case Aggregate():
                return self._aggregate(expr)
            case Window():
                return self._window(expr)
            case Case(branches, default):
                ifs = [exp.If(this=self.node(when), true=self.node(then)) for when, then in branches]
                return exp.Case(ifs=ifs, default=None if default == NULL else self.node(default))
            case WindowFunction(name, operands) | Unclear(name, _, operands):
                return exp.Anonymous(this=name, expressions=self._nodes(operands))
            case Row(operands):
                return exp.Anonymous(this="row", expressions=self._nodes(operands))
            case Nested():
                return self._nested(expr)
            case _:
                return self._call(expr)

    def _nodes(self, exprs: Iterable[Expr]) -> list[Node]:
        return [self.node(expr) for expr in exprs]

    def text(self, expr: Expr) -> str:
        return sql(self.node(expr))

    def sorted(self, exprs: Iterable[Expr]) -> list[Expr]:
        return sorted(exprs, key=self.text)

    def all_of(self, exprs: Iterable[Expr]) -> str:
        """The conditions joined by AND, in alphabetical order."""
        return " AND ".join(self._bracketed_text(expression) for expression in self.sorted(exprs))

    def list(self, exprs: Iterable[Expr]) -> str:
        return ", ".join(map(self.text, exprs))

    def _bracketed_text(self, expr: Expr) -> str:
        node = self.node(expr)
        return sql(exp.Paren(this=node) if isinstance(node, exp.Or) else node)

    def _aggregate(self, expr: Aggregate) -> Node:
        operands = self._nodes(expr.operands)
        if expr.name == "count" and not operands:
            operands = [exp.Star()]
        if expr.order:
            operands = [*operands[:-1], exp.Order(this=operands[-1], expressions=self._terms(expr))]
        inner: Any = [exp.Distinct(expressions=operands)] if expr.distinct else operands
        if expr.name == "count":
            call: Node = exp.Count(this=inner[0], big_int=True)
        else:
            call = exp.Anonymous(this=expr.name, expressions=inner)
        if not expr.where:
            return call
        return exp.Filter(this=call, expression=exp.Where(this=exp.and_(*self._nodes(self.sorted(expr.where)))))

    def _terms(self, expr: Aggregate | Window) -> Sequence[Node]:
        """The terms of its ORDER BY."""
        ways = expr.directions or (Direction(),) * len(expr.order)
        return [
            exp.Ordered(this=self.node(expression), desc=way.descending, nulls_first=way.nulls_first)
            for expression, way in zip(expr.order, ways, strict=True)
        ]

    def _window(self, expr: Window) -> Node:
        terms = self._terms(expr)
        order = exp.Order(expressions=terms) if terms else None
        partition = self._nodes(self.sorted(expr.partition))
        return exp.Window(this=self.node(expr.call), partition_by=partition, order=order, over="OVER")

    def _call(self, expr: Expr) -> Node:
        name, arguments = untyped(expr)
        kind = getattr(exp, name)
        brackets = issubclass(kind, exp.Binary | exp.Unary | exp.In | exp.Between)
        # DuckDB's parser takes no brackets around parts of `a LIKE b ESCAPE c`, and a field's name has none.
        brackets = brackets and not issubclass(kind, exp.Escape | exp.Dot)

        def part(expression: Expr) -> Node:
            node = self.node(expression)
            return exp.Paren(this=node) if brackets and isinstance(node, _BRACKETED) else node

        def written(argument: Argument) -> Any:
            if isinstance(argument, Expr):
                return part(argument)
            if isinstance(argument, tuple):
                return [part(expression) for expression in argument]
            if isinstance(argument, TypeName):
                return exp.DataType.build(argument.text, dialect=DIALECT, udt=True)
            if isinstance(argument, Word):
                return identifier(argument.text) if argument.is_name else exp.Var(this=argument.text)
            return argument

        return kind(**{name: written(argument) for name, argument in arguments.items()})

    def _nested(self, expr: Nested) -> Node:
        query = expr.query
        node = (
            query.node.copy()
            if isinstance(query, Block | Union | Opaque) and query.node is not None
            else exp.select("*")
        )
        match expr:
            case Exists():
                return exp.Exists(this=node)
            case InQuery(operand=operand):
                return exp.In(this=self.node(operand), query=exp.Subquery(this=node))
        return node if isinstance(node, exp.Subquery) else exp.Subquery(this=node)

    def tables(self) -> str:
        """The FROM clause's content."""
        clauses: list[str] = []
        for source in self.sources:
            relation = source.relation
            if isinstance(relation, Table):
                name = ".".join(
                    sql(identifier(part))
                    for part in (relation.name.catalog, relation.name.schema, relation.name.object)
                    if part
                )
            else:
                node = getattr(relation, "node", None)
                name = f"({sql(node) if node is not None else 'SELECT 1'})"
            aliased = f"{name} AS {self.alias(source.number)}"
            if not clauses:
                clauses.append(aliased)
            elif source.join == "inner" and not source.on:
                clauses.append(f"CROSS JOIN {aliased}")
            else:
                clauses.append(f"{source.join.upper()} JOIN {aliased} ON {self.all_of(source.on) or 'true'}")
        return " ".join(clauses)


def identifier(name: str) -> Node:
    return exp.to_identifier(name, quoted=not (name.isidentifier() and name.isascii() and name.islower()))
