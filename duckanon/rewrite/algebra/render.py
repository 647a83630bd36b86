"""From symbolic expressions back to SQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from duckanon.rewrite.algebra.expressions import (
    SOMEWHERE,
    Aggregate,
    Call,
    Column,
    Constant,
    Expr,
    Nested,
    Star,
    Unclear,
    Window,
)
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
        if isinstance(expr, Column):
            table = None if self._bare or expr.source == SOMEWHERE else exp.to_identifier(self.alias(expr.source))
            return exp.Column(this=identifier(expr.name), table=table)
        if isinstance(expr, Star):
            return exp.Star()
        if isinstance(expr, Constant):
            return exp.Literal(this=expr.value, is_string=expr.is_text)
        if isinstance(expr, Aggregate):
            return self._aggregate(expr)
        if isinstance(expr, Window):
            return exp.Window(
                this=self.node(expr.call),
                partition_by=[self.node(one) for one in self.sorted(expr.partition)],
                order=exp.Order(expressions=[exp.Ordered(this=self.node(one)) for one in expr.order])
                if expr.order
                else None,
                over="OVER",
            )
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, Nested):
            return self._nested(expr)
        assert isinstance(expr, Unclear)
        return exp.Anonymous(this=expr.text, expressions=[self.node(one) for one in expr.operands])

    def text(self, expr: Expr) -> str:
        return sql(self.node(expr))

    def sorted(self, exprs: Iterable[Expr]) -> list[Expr]:
        return sorted(exprs, key=self.text)

    def all_of(self, exprs: Iterable[Expr]) -> str:
        """The conditions joined by AND, in alphabetical order."""
        return " AND ".join(self._bracketed_text(one) for one in self.sorted(exprs))

    def list(self, exprs: Iterable[Expr]) -> str:
        return ", ".join(map(self.text, exprs))

    def _bracketed_text(self, expr: Expr) -> str:
        node = self.node(expr)
        return sql(exp.Paren(this=node) if isinstance(node, exp.Or) else node)

    def _aggregate(self, expr: Aggregate) -> Node:
        operands = [self.node(one) for one in expr.operands]
        if expr.name == "count" and not operands:
            operands = [exp.Star()]
        inner: Any = [exp.Distinct(expressions=operands)] if expr.distinct else operands
        if expr.name == "count":
            call: Node = exp.Count(this=inner[0], big_int=True)
        else:
            call = exp.Anonymous(this=expr.name, expressions=inner)
        if not expr.where:
            return call
        conditions = [self.node(one) for one in self.sorted(expr.where)]
        return exp.Filter(this=call, expression=exp.Where(this=exp.and_(*conditions)))

    def _call(self, expr: Call) -> Node:
        if expr.kind == "Case":
            *pairs, default = [self.node(one) for one in expr.operands]
            ifs = [exp.If(this=pairs[at], true=pairs[at + 1]) for at in range(0, len(pairs), 2)]
            return exp.Case(ifs=ifs, default=None if isinstance(default, exp.Null) else default)
        if expr.kind == "Dot":
            return exp.Dot(this=self.node(expr.operands[0]), expression=identifier(str(expr.shape[0][1])))  # type: ignore[index]
        if expr.kind == "WindowFunction":
            return exp.Anonymous(this=expr.shape[0][1], expressions=[self.node(one) for one in expr.operands])  # type: ignore[index]
        if expr.kind == "Row":
            return exp.Anonymous(this="row", expressions=[self.node(one) for one in expr.operands])
        kind = getattr(exp, expr.kind)
        brackets = issubclass(kind, exp.Binary | exp.Unary | exp.In | exp.Between)
        # DuckDB's parser takes no brackets around parts of `a LIKE b ESCAPE c`.
        brackets = brackets and not issubclass(kind, exp.Paren | exp.Escape)
        operands = iter(expr.operands)

        def part() -> Node:
            node = self.node(next(operands))
            return exp.Paren(this=node) if brackets and isinstance(node, _BRACKETED) else node

        args: dict[str, Any] = {}
        for entry in expr.shape:
            assert isinstance(entry, tuple)
            name, what, *rest = entry
            if what == "part":
                args[name] = part()
            elif what == "parts":
                args[name] = [part() for _ in range(rest[0])]
            elif what == "type":
                args[name] = exp.DataType.build(rest[0], dialect=DIALECT, udt=True)
            elif what in ("Var", "Identifier") and rest:
                args[name] = exp.Var(this=rest[0]) if what == "Var" else identifier(rest[0])
            else:
                args[name] = what
        return kind(**args)

    def _nested(self, expr: Nested) -> Node:
        query = expr.query
        node = (
            query.node.copy()
            if isinstance(query, Block | Union | Opaque) and query.node is not None
            else exp.select("*")
        )
        if expr.kind == "exists":
            return exp.Exists(this=node)
        if expr.kind == "in":
            return exp.In(this=self.node(expr.operands[0]), query=exp.Subquery(this=node))
        return node if isinstance(node, exp.Subquery) else exp.Subquery(this=node)

    def tables(self) -> str:
        """The FROM clause's content."""
        found: list[str] = []
        for source in self.sources:
            one = source.relation
            if isinstance(one, Table):
                name = ".".join(
                    sql(identifier(part)) for part in (one.name.catalog, one.name.schema, one.name.object) if part
                )
            else:
                node = getattr(one, "node", None)
                name = f"({sql(node) if node is not None else 'SELECT 1'})"
            said = f"{name} AS {self.alias(source.number)}"
            if not found:
                found.append(said)
            elif source.join == "inner" and not source.on:
                found.append(f"CROSS JOIN {said}")
            else:
                found.append(f"{source.join.upper()} JOIN {said} ON {self.all_of(source.on) or 'true'}")
        return " ".join(found)


def identifier(name: str) -> Node:
    return exp.to_identifier(name, quoted=not (name.isidentifier() and name.isascii() and name.islower()))
