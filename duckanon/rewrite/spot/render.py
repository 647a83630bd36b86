"""From findings back to SQL: expressions, and the one query that a finding says was asked."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from sqlglot import exp

from duckanon.rewrite.spot.expressions import (
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
    rebuilt,
    walk,
)
from duckanon.rewrite.spot.findings import Conditional, Counts, Finding, GroupSizes, RowLevel, Unknown
from duckanon.rewrite.spot.relations import Block, Opaque, Source, Table, Union
from duckanon.rewrite.spot.trees import Node

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
            return exp.Column(this=_identifier(expr.name), table=table)
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
        return str(self.node(expr).sql(dialect="duckdb"))

    def sorted(self, exprs: Iterable[Expr]) -> list[Expr]:
        return sorted(exprs, key=self.text)

    def all_of(self, exprs: Iterable[Expr]) -> str:
        """The conditions joined by AND, in an order of their own."""
        return " AND ".join(self._bracketed_text(one) for one in self.sorted(exprs))

    def list(self, exprs: Iterable[Expr]) -> str:
        return ", ".join(map(self.text, exprs))

    def _bracketed_text(self, expr: Expr) -> str:
        node = self.node(expr)
        return str((exp.Paren(this=node) if isinstance(node, exp.Or) else node).sql(dialect="duckdb"))

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
            return exp.Dot(this=self.node(expr.operands[0]), expression=_identifier(str(expr.shape[0][1])))  # type: ignore[index]
        if expr.kind == "WindowFunction":
            return exp.Anonymous(this=expr.shape[0][1], expressions=[self.node(one) for one in expr.operands])  # type: ignore[index]
        if expr.kind == "Row":
            return exp.Anonymous(this="row", expressions=[self.node(one) for one in expr.operands])
        kind = getattr(exp, expr.kind)
        brackets = issubclass(kind, exp.Binary | exp.Unary | exp.In | exp.Between) and not issubclass(kind, exp.Paren)
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
                args[name] = exp.DataType.build(rest[0], dialect="duckdb")
            elif what in ("Var", "Identifier") and rest:
                args[name] = exp.Var(this=rest[0]) if what == "Var" else _identifier(rest[0])
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
                    _identifier(part).sql(dialect="duckdb")
                    for part in (one.name.catalog, one.name.schema, one.name.object)
                    if part
                )
            else:
                node = getattr(one, "node", None)
                name = f"({node.sql(dialect='duckdb') if node is not None else 'SELECT 1'})"
            said = f"{name} AS {self.alias(source.number)}"
            if not found:
                found.append(said)
            elif source.join == "inner" and not source.on:
                found.append(f"CROSS JOIN {said}")
            else:
                found.append(f"{source.join.upper()} JOIN {said} ON {self.all_of(source.on) or 'true'}")
        return " ".join(found)


def _identifier(name: str) -> Node:
    return exp.to_identifier(name, quoted=not (name.isidentifier() and name.isascii() and name.islower()))


def canonical(found: GroupSizes | Conditional | Counts) -> str:
    """The query that a finding says was asked, from the finding's data alone."""
    if isinstance(found, GroupSizes):
        return _group_sizes(found)
    return _shares(found) if isinstance(found, Conditional) else _counts(found)


def _where(clause: str, conditions: str) -> str:
    return f" {clause} {conditions}" if conditions else ""


def _group_sizes(found: GroupSizes) -> str:
    """Columns: the regions r0.., then those of the finding's columns that are sizes or groups, each by its position."""
    inner = Renderer(found.sources)
    outer = Renderer((*found.sources, *found.frame)) if found.frame else inner
    frame = {one.number for one in found.frame}

    def framed(expr: Expr) -> bool:
        return any(isinstance(one, Column) and one.source in frame for one in walk(expr))

    keys = [*found.unit, *(one for one in found.regions if not framed(one))]
    aggregates = [one for one in keys if any(isinstance(part, Aggregate) for part in walk(one))]
    named = {key: Column(0, f"k{at}") for at, key in enumerate(keys)}
    groups = (
        "SELECT "
        + ", ".join(f"{inner.text(key)} AS k{at}" for at, key in enumerate(keys))
        + f", {inner.text(found.size)} AS size FROM {inner.tables()}"
        + _where("WHERE", inner.all_of(found.filter))
        + " GROUP BY "
        + ", ".join(str(at + 1) for at, key in enumerate(keys) if key not in aggregates)
        + _where("HAVING", inner.all_of(one for one in found.kept))
    )

    def lifted(expr: Expr) -> str:
        changed = rebuilt(expr, lambda one: Column(0, "size") if one == found.size else named.get(one))
        return outer.text(changed)

    beside = " CROSS JOIN ".join(Renderer((one,)).tables() for one in found.frame)
    how = "LEFT JOIN" if found.zeros else "JOIN"
    met = " AND ".join(sorted(map(lifted, found.joins)))
    joined = f"{beside} {how} groups ON {met}" if found.frame else "groups"
    shown = [f"{lifted(one)} AS r{at}" for at, one in enumerate(found.regions)]
    sizes = []
    for at, role in enumerate(found.columns):
        if role.what == "size" and role.expr is not None:
            shown.append(f"{lifted(role.expr)} AS c{at}")
            sizes.append(lifted(role.expr))
        elif role.what == "groups":
            where = " AND ".join(sorted(f"({lifted(one)})" for one in role.where))
            shown.append("count(*)" + (f" FILTER (WHERE {where})" if where else "") + f" AS c{at}")
    regions = [lifted(one) for one in found.regions]
    sets = ", ".join("(" + ", ".join([*(regions[at] for at in level), *sizes]) + ")" for level in found.levels)
    return f"WITH groups AS ({groups}) SELECT {', '.join(shown)} FROM {joined} GROUP BY GROUPING SETS ({sets})"


def _shares(found: Conditional) -> str:
    """Columns: rows and cols as k0.., then the share as p, neither scaled nor rounded."""
    write = Renderer(found.sources)
    keys = [*found.rows, *found.cols]
    weight = "count(*)" if found.weight is None else f"sum({write.text(found.weight)})"

    def filtered(conditions: frozenset[Expr]) -> str:
        return weight + (f" FILTER (WHERE {write.all_of(conditions)})" if conditions else "")

    partition = ", ".join(map(write.text, found.rows))
    over = f"OVER ({'PARTITION BY ' + partition if partition else ''})"
    shown = [f"{write.text(key)} AS k{at}" for at, key in enumerate(keys)]
    shown.append(f"{filtered(found.of | found.event)} / sum({filtered(found.of)}) {over} AS p")
    grouped = f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}" if keys else ""
    return f"SELECT {', '.join(shown)} FROM {write.tables()}{_where('WHERE', write.all_of(found.filter))}{grouped}"


def _counts(found: Counts) -> str:
    """Columns: those of the finding's that are keys or counts, each as c with its position."""
    write = Renderer(found.sources)
    counted = "count(*)" if found.unit is None else f"count(DISTINCT {write.text(found.unit)})"
    shown = []
    for at, role in enumerate(found.columns):
        if role.what == "key" and role.expr is not None:
            shown.append(f"{write.text(role.expr)} AS c{at}")
        elif role.what == "count":
            where = write.all_of(role.where)
            shown.append(counted + (f" FILTER (WHERE {where})" if where else "") + f" AS c{at}")
    keys = [write.text(key) for key in found.keys]
    sets = found.sets or (tuple(range(len(keys))),)
    grouped = ", ".join("(" + ", ".join(keys[at] for at in one) + ")" for one in sets)
    having = write.all_of(found.kept)
    return (
        f"SELECT {', '.join(shown)} FROM {write.tables()}{_where('WHERE', write.all_of(found.filter))}"
        f" GROUP BY GROUPING SETS ({grouped}){_where('HAVING', having)}"
    )


def summary(found: Finding) -> str:
    """A finding in one line, for people and for tests."""
    write = Renderer(found.sources)
    told = [f"{found.kind} of {found.table}"]

    def add(what: str, said: str) -> None:
        if said:
            told.append(f"{what} {said}".strip())

    if isinstance(found, GroupSizes):
        wide = Renderer((*found.sources, *found.frame))
        add("unit", write.list(found.unit))
        add("size", write.text(found.size))
        add("by", wide.list(found.regions))
        add("kept", write.all_of(found.kept))
        if len(found.levels) > 1 or (found.levels and len(found.levels[0]) < len(found.regions)):
            add("levels", " ".join("(" + wide.list(found.regions[at] for at in one) + ")" for one in found.levels))
        add("", "zeros" if found.zeros else "")
    elif isinstance(found, Conditional):
        told[0] = f"conditional {found.name} of {found.table}"
        add("rows", write.list(found.rows))
        add("cols", write.list(found.cols))
        add("event", write.all_of(found.event))
        add("of", write.all_of(found.of))
        add("weight", write.text(found.weight) if found.weight is not None else "")
        add("scale", "" if Fraction(found.scale) == 1 else found.scale)
        add("digits", "" if found.digits is None else str(found.digits))
    elif isinstance(found, Counts):
        add("keys", write.list(found.keys))
        add("unit", write.text(found.unit) if found.unit is not None else "")
        add("sets", " ".join("(" + write.list(found.keys[at] for at in one) + ")" for one in found.sets))
        add(
            "events", "; ".join(sorted(write.all_of(one) or "all" for one in found.events)) if any(found.events) else ""
        )
        add("kept", write.all_of(found.kept))
    elif isinstance(found, RowLevel):
        add("columns", write.list(found.columns))
    elif isinstance(found, Unknown):
        add("because", found.reason)
    add("where", write.all_of(found.filter))
    return " | ".join(told)
