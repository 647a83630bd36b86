"""What the expressions of a SELECT mean: names are looked up in its scope, and spellings of one thing become equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, TypeAlias

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.aggregates import AGGREGATES, ONE_NAME, WINDOWED
from duckanon.rewrite.algebra.expressions import (
    NULL,
    SOMEWHERE,
    Aggregate,
    Argument,
    Branch,
    Case,
    Column,
    Comparison,
    Constant,
    Direction,
    Exists,
    Expr,
    Field,
    InQuery,
    ScalarQuery,
    Star,
    TypeName,
    Unclear,
    Window,
    WindowFunction,
    Word,
    conjuncts,
)
from duckanon.rewrite.algebra.forms import typed
from duckanon.rewrite.algebra.nodes import ROOT, Node, given, name_of, nodes_of, sql
from duckanon.rewrite.algebra.relations import Opaque, Output, Relation, Source, Table


class Tables(Protocol):
    """What is known of the tables that a query with resolved names reads.

    macros: folded names of functions that users defined and that stand in the query, each with the protected tables
    that it may read.
    """

    @property
    def macros(self) -> Mapping[str, Sequence[Table]]: ...

    def relation(self, node: Node) -> Relation | None:
        """What a name in FROM means; None where it is the name of a CTE."""
        ...

    def mentioned(self, text: str) -> Sequence[Table]:
        """The protected tables that a text may name."""
        ...

    def function_reads(self, node: Node, queries: Sequence[Relation]) -> Opaque:
        """What the call of a table function reads. queries: those that stand in its arguments."""
        ...


@dataclass
class Visible:
    """A source under its alias, with its columns if they are known. USING hides the second of two equal columns."""

    alias: str
    source: Source
    columns: tuple[str, ...] | None
    hidden: frozenset[str] = frozenset()
    semi: bool = False


@dataclass
class Scope:
    """The sources of one SELECT, the names it gives to its outputs, and the query around it."""

    resolve: Callable[[Node, Scope], Relation]
    number: Callable[[], int]
    macros: Mapping[str, Sequence[Table]]
    outer: Scope | None = None
    ctes: dict[str, tuple[Node, Scope]] = field(default_factory=dict)
    visible: list[Visible] = field(default_factory=list)
    windows: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, Expr] = field(default_factory=dict)
    # While HAVING is translated: an output's name comes before a column that is not grouped by.
    keys: tuple[Expr, ...] | None = None

    def without_aliases(self) -> Scope:
        """The same sources, for other outputs."""
        return Scope(self.resolve, self.number, self.macros, self.outer, self.ctes, list(self.visible))

    def fresh(self) -> int:
        return self.number()

    def query(self, node: Node) -> Relation:
        """The relation of a subquery in an expression, which can use these sources too."""
        return self.resolve(node, self)

    def macro(self, name: str, operands: tuple[Expr, ...]) -> Expr:
        """A call of a macro: its meaning is not known, but the tables that it may read are."""
        reads = tuple(ScalarQuery(relation) for relation in self.macros[name])
        return Unclear(name, self.fresh(), (*operands, *reads))

    def column(self, name: str) -> Expr:
        """An unqualified name: a column, an output, a source as one value, or else a column of the outer query."""
        expression = self._own(name)
        if expression is None and self.outer is not None:
            return self.outer.column(name)
        return Column(SOMEWHERE, name) if expression is None else expression

    def _own(self, name: str) -> Expr | None:
        sure = [
            visible
            for visible in self.visible
            if visible.columns is not None and name in visible.columns and name not in visible.hidden
        ]
        column = Column(sure[0].source.number, name) if sure else None
        alias = self.aliases.get(name)
        if column is not None and (alias is None or self.keys is None or column in self.keys):
            return column
        if alias is not None:
            return alias
        whole = next((visible for visible in self.visible if visible.alias == name and not visible.semi), None)
        untold = [
            visible
            for visible in self.visible
            if visible.columns is None and name not in visible.hidden and not visible.semi
        ]
        if whole is not None and not untold:
            return Star(whole.source.number)
        if untold:
            return Column(untold[0].source.number if len(untold) == 1 else SOMEWHERE, name)
        return None

    def qualified(self, table: str, name: str) -> Expr | None:
        """`table.name`, here or in the outer query; None if no source has that alias."""
        for visible in self.visible:
            if visible.alias == table and not (
                visible.columns is not None and name not in visible.columns and name != "rowid"
            ):
                return Column(visible.source.number, name)
        return None if self.outer is None else self.outer.qualified(table, name)

    def star(self, table: str) -> Expr:
        """`table.*` as one value."""
        for visible in self.visible:
            if visible.alias == table:
                return Star(visible.source.number)
        return Star(SOMEWHERE) if self.outer is None else self.outer.star(table)

    def stars(self) -> tuple[Expr, ...]:
        """Every source of this SELECT as one value."""
        return tuple(Star(visible.source.number) for visible in self.visible)

    def expanded(self, table: str | None, without: frozenset[str], replaced: dict[str, Expr]) -> list[Output] | None:
        """The outputs of `*` or `table.*`; None if no source has that alias."""
        outputs: list[Output] = []
        chosen = [visible for visible in self.visible if (table is None and not visible.semi) or visible.alias == table]
        for visible in chosen:
            skipped = without | (visible.hidden if table is None else frozenset())
            if visible.columns is None:
                outputs.append(Output("*", Star(visible.source.number, frozenset(skipped))))
                outputs += [Output(name, expr) for name, expr in replaced.items()]
                continue
            for name in visible.columns:
                if name not in skipped:
                    outputs.append(Output(name, replaced.get(name) or Column(visible.source.number, name)))
        return outputs if chosen else None

    def cte(self, name: str) -> tuple[Node, Scope] | None:
        """The common table expression of that name, with the scope in which it is written."""
        pair = self.ctes.get(fold(name))
        return pair if pair is not None or self.outer is None else self.outer.cte(name)


Translator: TypeAlias = Callable[[Node, Scope], Expr]


def translate(node: Node, scope: Scope) -> Expr:
    """The symbolic expression of a node in a scope."""
    kind: Any = type(node)
    return _translator(kind)(node, scope)


@cache
def _translator(kind: Any) -> Translator:
    """What translates the nodes of a class."""
    return next(translated for kinds, translated in _BY_KIND if issubclass(kind, kinds))


def _whole(_: Node, scope: Scope) -> Expr:
    """COLUMNS(...), or a star as a value."""
    return Unclear("COLUMNS", scope.fresh(), scope.stars())


def _in(node: Node, scope: Scope) -> Expr:
    query = node.args.get("query")
    return InQuery(scope.query(query), translate(node.this, scope)) if query else _function(node, scope)


def _column(node: Node, scope: Scope) -> Expr:
    path = [fold(part.name) for part in node.parts]
    if isinstance(node.this, exp.Star):
        return scope.star(path[-2]) if len(path) > 1 else Unclear("*", scope.fresh(), scope.stars())
    # catalog.schema.table.column, table.column or column; further parts are fields of the column.
    if len(path) == 1:
        return scope.column(path[0])
    for at in range(len(path) - 2, -1, -1):
        expression = scope.qualified(path[at], path[at + 1])
        if expression is not None:
            return _fields(expression, path[at + 2 :])
    return _fields(scope.column(path[0]), path[1:])


def _fields(expr: Expr, path: list[str]) -> Expr:
    for name in path:
        expr = Field(expr, name)
    return expr


def _case(node: Node, scope: Scope) -> Expr:
    """CASE in all its forms, and if()."""
    subject = translate(node.this, scope) if isinstance(node, exp.Case) and node.this is not None else None
    branches: list[Branch] = []
    for branch in [node] if isinstance(node, exp.If) else node.args["ifs"]:
        condition = translate(branch.this, scope)
        met = condition if subject is None else Comparison("=", subject, condition)
        branches.append(Branch(met, translate(branch.args["true"], scope)))
    default = node.args.get("false") if isinstance(node, exp.If) else node.args.get("default")
    return Case(tuple(branches), NULL if default is None else translate(default, scope))


def _filtered(node: Node, scope: Scope) -> Expr:
    inner, condition = translate(node.this, scope), translate(node.expression.this, scope)
    if isinstance(inner, Aggregate):
        return replace(inner, where=inner.where | conjuncts(condition))
    return Unclear("FILTER", scope.fresh(), (inner, condition))


def _aggregate(node: Node, scope: Scope) -> Expr:
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileCont | exp.PercentileDisc):
        return _within_group(node, scope)
    written = name_of(node)
    name = ONE_NAME.get(written, written)
    if name in scope.macros:
        return scope.macro(name, tuple(_operands(node, scope)))
    operands: list[Expr] = []
    order: list[Expr] = []
    ways: tuple[Direction, ...] = ()
    distinct = False
    for argument in _arguments(node):
        if isinstance(argument, exp.Distinct):
            distinct = True
            operands += [translate(part, scope) for part in argument.expressions]
        elif isinstance(argument, exp.Order):
            operands += [translate(argument.this, scope)] if argument.this is not None else []
            order += [translate(part.this, scope) for part in argument.expressions]
            ways = directions(argument.expressions)
        elif not isinstance(argument, exp.Star):
            operands.append(translate(argument, scope))
    if name == "count_star":
        return Aggregate("count", (), distinct)
    if order and written in ("first", "arbitrary"):
        # The value of the first row may be NULL, and any_value is the first that is none.
        name = "first"
    aggregate = Aggregate(name, tuple(operands), distinct, order=tuple(order), directions=ways)
    if distinct or aggregate.argument is None:
        return aggregate
    if name == "count_if":
        return Aggregate("count", where=conjuncts(aggregate.argument))
    counts = name == "count" and isinstance(aggregate.argument, Constant)
    return Aggregate("count") if counts or aggregate == Aggregate("sum", (Constant("1"),)) else aggregate


def _within_group(node: Node, scope: Scope) -> Expr:
    """`percentile_cont(0.5) WITHIN GROUP (ORDER BY x)` as `percentile_cont(x, 0.5)`."""
    terms, name = node.expression.expressions, name_of(node.this)
    if len(terms) != 1 or terms[0].args.get("desc") or node.this.args.get("expression") is not None:
        return Unclear(name, scope.fresh(), tuple(translate(term.this, scope) for term in terms))
    return Aggregate(name, (translate(terms[0].this, scope), translate(node.this.this, scope)))


def _arguments(node: Node) -> list[Node]:
    """The arguments of a function in order, with options such as string_agg's separator."""
    nodes: list[Node] = []
    for name in [*node.arg_types, *(name for name in node.args if name not in node.arg_types)]:
        argument = node.args.get(name)
        nodes += [
            child for child in (argument if isinstance(argument, list) else [argument]) if isinstance(child, ROOT)
        ]
    return nodes


def _operands(node: Node, scope: Scope) -> list[Expr]:
    return [
        translate(argument, scope)
        for argument in _arguments(node)
        if not isinstance(argument, exp.Star | exp.Distinct | exp.Order | exp.DataType)
    ]


def _window(node: Node, scope: Scope) -> Expr:
    call = node.this
    partition = list(node.args.get("partition_by") or [])
    order, spec, named = node.args.get("order"), node.args.get("spec"), node.args.get("alias")
    for _ in range(100):
        if named is None:
            break
        base = scope.windows.get(fold(named.name))
        if base is None:
            return Unclear("OVER", scope.fresh(), (translate(call, scope),))
        partition += base.args.get("partition_by") or []
        order, spec = order or base.args.get("order"), spec or base.args.get("spec")
        named = base.args.get("alias")
    inner = call.this if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) else call
    own = name_of(inner) in WINDOWED
    over = Window(
        WindowFunction(name_of(inner), tuple(_operands(inner, scope))) if own else translate(call, scope),
        frozenset(translate(key, scope) for key in partition),
        tuple(translate(expression.this, scope) for expression in order.expressions) if order is not None else (),
        sql(spec) if spec is not None else "",
        directions(order.expressions) if order is not None else (),
        isinstance(call, exp.IgnoreNulls),
    )
    if over.order and not over.frame and set(over.order) <= over.partition:
        # The order ties all rows of a partition, so the frame is the whole partition.
        return Window(over.call, over.partition)
    return over


def directions(terms: Sequence[Node]) -> tuple[Direction, ...]:
    """How the terms of ORDER BY sort; nothing where all do so as SQL has it by itself."""
    directions = tuple(Direction(bool(term.args.get("desc")), bool(term.args.get("nulls_first"))) for term in terms)
    return directions if any(map(any, directions)) else ()


def _lambda(node: Node, scope: Scope) -> Expr:
    own = {
        fold(expression.name)
        for expression in [*node.expressions, node.args.get("expression")]
        if isinstance(expression, exp.Identifier)
    }
    around = node.find_ancestor(exp.Query)
    read = [
        column
        for column in nodes_of(node, exp.Column)
        if not (len(column.parts) == 1 and fold(column.name) in own) and column.find_ancestor(exp.Query) is around
    ]
    queries = [query for query in nodes_of(node, exp.Query) if query.find_ancestor(exp.Query) is around]
    return Unclear("lambda", scope.fresh(), tuple(translate(query, scope) for query in [*read, *queries]))


def _function(node: Node, scope: Scope) -> Expr:
    """A call of a macro or an aggregate, or everything else."""
    if isinstance(node, exp.Func) and name_of(node) in scope.macros:
        return scope.macro(name_of(node), tuple(_operands(node, scope)))
    if isinstance(node, _AGGREGATES) or name_of(node) in AGGREGATES:
        return _aggregate(node, scope)
    return _call(node, scope)


_AGGREGATES = (exp.AggFunc, exp.WithinGroup)
# The first class of these that a node is of decides.
_BY_KIND: tuple[tuple[Any, Translator], ...] = (
    ((exp.Paren, exp.Alias, exp.IgnoreNulls), lambda node, scope: translate(node.this, scope)),
    (exp.Column, _column),
    (exp.Identifier, lambda node, scope: scope.column(fold(node.name))),
    (exp.Literal, lambda node, _: Constant(node.this, node.is_string)),
    ((exp.Star, exp.Columns), _whole),
    ((exp.Subquery, exp.Query), lambda node, scope: ScalarQuery(scope.query(node))),
    (exp.Exists, lambda node, scope: Exists(scope.query(node.this))),
    (exp.In, _in),
    (exp.Window, _window),
    (exp.Filter, _filtered),
    ((exp.Case, exp.If), _case),
    ((exp.Lambda, exp.Comprehension), _lambda),
    (ROOT, _function),
)


def _call(node: Node, scope: Scope) -> Expr:
    return typed(type(node).__name__, {name: _argument(value, scope) for name, value in given(node)})


_WORDS = (exp.Var, exp.Identifier)


def _argument(argument: Any, scope: Scope) -> Argument:
    if isinstance(argument, exp.DataType):
        return TypeName(sql(argument))
    if isinstance(argument, _WORDS):
        return Word(argument.name, isinstance(argument, exp.Identifier))
    if isinstance(argument, ROOT):
        return translate(argument, scope)
    if isinstance(argument, list):
        return tuple(
            translate(element, scope) if isinstance(element, ROOT) else Constant(str(element), is_text=True)
            for element in argument
        )
    return argument if isinstance(argument, str | bool | int) else str(argument)
