"""Eager aggregation: one source of a grouping query is aggregated before it is joined (Yan and Larson, VLDB 1995).

SELECT region, count(*) FROM persons JOIN states USING (state) GROUP BY region becomes
SELECT region, sum(n) FROM (SELECT state, count(*) AS n FROM persons GROUP BY state) JOIN states USING (state) GROUP BY
region. The query inside reads one table, so it can be answered by itself. The query around it may join the answer with
anything, and compute from its columns whatever it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import FROM, ROOT, Node, arg, copied, name_of, nodes_of, queries_in, sources, sql
from duckanon.rewrite.column_names import default_name
from duckanon.rewrite.normalize.grouped import ENDS, NotFollowed, aggregates_of

_OTHER = "Told of a join are count, sum and avg: ask for other statistics of the table by itself."
_JOINED = "The query is joined in a way that is not followed: use inner joins, or LEFT JOIN after the protected table."
# Of the columns of the inner query that have aggregates.
_MADE = "_dk_part"
_VOLATILE = frozenset("rand random uuid uuidv4 uuidv7 gen_random_uuid".split())
# Stands in DuckDB's error about a value that is infinite or NaN, where it would be added up.
NOT_FINITE = "_dk_not_finite"
# What makes finite numbers of exact ones.
_STAYS_FINITE = (exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul)


def aggregated_first(
    query: Node, place: int, columns: Mapping[str, str], others: Mapping[str, bool] = MappingProxyType({})
) -> tuple[Node, Node]:
    """The query with one of its sources aggregated, and in it the query that does so. Both are new trees.

    place: of the source among `sources`. columns: of that source, as stored, by folded name. others: folded names of
    the other sources' columns, as far as they are known, and whether their type has finite numbers alone. Raises
    NotFollowed.
    """
    around = copied(query)
    _check(around, place)
    _check_names(around, set(columns) & set(others))
    eager = _Eager(around, sources(around)[place], columns, {name for name, finite in others.items() if finite})
    return around, eager.inner


def _check(query: Node, place: int) -> None:
    """Raises NotFollowed unless each row of the source is kept once for each row that it is joined with."""
    joins = query.args.get("joins") or []
    for source in sources(query):
        if source.args.get("joins") or source.find(exp.Lateral):
            raise NotFollowed(_JOINED, source)
    for at, join in enumerate(joins, 1):
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        sides = {"LEFT"} if at > place else {"RIGHT"} if at == place else {"LEFT", "RIGHT", "FULL"}
        kinds = {"INNER", "CROSS", "OUTER", *(("SEMI", "ANTI") if at > place else ())}
        if join.args.get("method") or side not in {"", *sides} or kind not in {"", *kinds}:
            raise NotFollowed(_JOINED, join)


def _check_names(query: Node, shared: Collection[str]) -> None:
    """Raises NotFollowed for a column without its table where several have one of that name: DuckDB refuses it, too.

    Aliases of the SELECT and columns of USING are one column, and a nested query may have its own.
    """
    known = {fold(expression.alias) for expression in query.expressions if expression.alias}
    known |= {fold(column.name) for join in query.args.get("joins") or [] for column in join.args.get("using") or []}
    inside = {id(node) for source in [*sources(query), *queries_in(query)] for node in nodes_of(source, ROOT)}
    for column in nodes_of(query, exp.Column):
        if (
            id(column) not in inside
            and not column.table
            and fold(column.name) in shared
            and fold(column.name) not in known
        ):
            raise NotFollowed("A column's name is in several of the joined tables: write its table before it.", column)


class SourceColumns:
    """The columns of one source of a SELECT, and which of them the SELECT uses.

    columns: of the source, as stored, by folded name. Raises NotFollowed for a source without a plain alias.
    """

    def __init__(self, query: Node, source: Node, columns: Mapping[str, str]) -> None:
        alias = source.args.get("alias")
        if alias is None or alias.args.get("columns") or not alias.name:
            raise NotFollowed(_JOINED, source)
        self._query, self._columns, self.alias = query, columns, alias.name

    def has(self, column: Node) -> bool:
        """Whether a column of the SELECT is one of the source's, or may be."""
        if column.table:
            return bool(fold(column.table) == fold(self.alias))
        return fold(column.name) in self._columns

    def used(self) -> list[str]:
        """The columns that the SELECT uses, as stored; there they are written with the source's alias alone.

        Raises NotFollowed for stars, rows as values, and what differs from one row of the source to the next.
        """
        above = arg(self._query, "with")
        apart = [*sources(self._query), *([] if above is None else [above])]
        inside = {id(node) for part in apart for node in nodes_of(part, ROOT)}
        for call in nodes_of(self._query, exp.Func):
            if id(call) not in inside and name_of(call) in _VOLATILE:
                raise NotFollowed("Random values beside statistics are not followed: leave them out.", call)
        used: dict[str, None] = {}
        for column in nodes_of(self._query, exp.Column, exp.Star):
            if id(column) in inside:
                continue
            if isinstance(column, exp.Star) or isinstance(column.this, exp.Star):
                raise NotFollowed("A star is not followed here: write the columns out.", column)
            name, known = fold(column.name), fold(column.name) in self._columns
            if name.startswith(_MADE):
                continue
            if not known and (name in (fold(self.alias), "rowid") or self.has(column)):
                raise NotFollowed("Rows are not told apart here: use the columns of the policy.", column)
            if self.has(column):
                used[self._columns[fold(column.name)]] = None
                column.set("db", None)
                column.set("catalog", None)
        for join in self._query.args.get("joins") or []:
            names = [fold(column.name) for column in join.args.get("using") or []]
            used |= {self._columns[name]: None for name in names if name in self._columns}
        return list(used)


class _Eager:
    """Changes a query so that one of its sources is aggregated, and keeps the query that does so as `inner`."""

    def __init__(self, query: Node, source: Node, columns: Mapping[str, str], finite: Collection[str]) -> None:
        self._query, self._source, self._finite = query, SourceColumns(query, source, columns), finite
        self._alias = self._source.alias
        self._shown: dict[str, Node] = {}
        for name in nodes_of(query, exp.Identifier):
            if name.name.lower().startswith(_MADE):
                raise NotFollowed("A name begins with _dk_, as duckanon's own do: choose another one.", name)
        self.inner = exp.Select()
        self._name_outputs()
        for aggregate in list(self._aggregates()):
            aggregate.replace(self._added_up(aggregate))
        where = self._pushed_down()
        for end in nodes_of(query, exp.Anonymous):
            if name_of(end) in ENDS:
                raise NotFollowed("low and high are told of a table by itself, not of a join.", end)
        keys = self._source.used()
        source.replace(exp.Subquery(this=self.inner, alias=copied(source.args["alias"])))
        self._fill(source, keys, where)

    def _name_outputs(self) -> None:
        """Give aggregates the names that DuckDB would give them, before they are written in another way."""
        for expression in self._query.expressions:
            if not isinstance(expression, exp.Alias) and any(True for _ in aggregates_of(expression)):
                expression.replace(exp.alias_(copied(expression), default_name(expression), quoted=True, copy=False))

    def _aggregates(self) -> Iterator[Node]:
        parts = [*self._query.expressions, *(self._query.args.get(clause) for clause in ("having", "qualify", "order"))]
        return (aggregate for part in parts if part is not None for aggregate in aggregates_of(part))

    def _is_of_source(self, node: Node | None) -> bool:
        """Whether an expression depends on nothing but the source's rows."""
        return node is None or (
            not nodes_of(node, exp.Query) and all(map(self._source.has, nodes_of(node, exp.Column)))
        )

    def _inner_column(self, aggregate: Node, where: Node | None) -> Node:
        """The column of the inner query that has an aggregate of the source's rows."""
        if where is not None:
            both = where
            if isinstance(aggregate, exp.Filter):
                aggregate, both = aggregate.this, exp.and_(where, aggregate.expression.this)
            aggregate = exp.Filter(this=aggregate, expression=exp.Where(this=copied(both)))
        written = sql(aggregate)
        name = f"{_MADE}{list(self._shown).index(written) if written in self._shown else len(self._shown)}"
        self._shown[written] = aggregate
        return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(self._alias, quoted=True))

    # --- aggregates -------------------------------------------------------------------------------------------------

    def _added_up(self, node: Node) -> Node:
        """An aggregate over the joined rows, from aggregates of the source's rows."""
        where = node.expression.this if isinstance(node, exp.Filter) else None
        inner = node.this if isinstance(node, exp.Filter) else node
        operand = _operand(inner)
        if self._is_of_source(where):
            condition, kept = where, None
        else:
            condition, kept = None, where
        if self._is_of_source(operand):
            return _sum_of_parts(inner, operand, lambda part: self._inner_column(part, condition), kept)
        assert operand is not None
        count = self._inner_column(exp.Count(this=exp.Star()), condition)
        return _weighted(inner, operand, count, kept, self._added(operand, kept))

    def _added(self, operand: Node, where: Node | None) -> Node:
        """What is added up: it fails where a value is infinite or NaN, of which a sum would show nothing but that.

        It fails before anything is charged, when the query is tried. where: the condition of those that are added up.
        """
        parts = nodes_of(operand, ROOT)
        names = {fold(part.name) for part in parts if isinstance(part, exp.Column)}
        if all(isinstance(part, _STAYS_FINITE) for part in parts) and names <= set(self._finite):
            return operand
        of = exp.Paren(this=operand)
        finite = exp.func("isfinite", exp.cast(copied(of), "DOUBLE"))
        added: Node = exp.Coalesce(this=finite, expressions=[exp.true()])
        if where is not None:
            left_out = exp.Not(this=exp.Coalesce(this=exp.Paren(this=copied(where)), expressions=[exp.false()]))
            added = exp.or_(left_out, added, copy=False)
        message = exp.DPipe(this=exp.Literal.string(f"{NOT_FINITE} "), expression=exp.cast(copied(of), "VARCHAR"))
        fails = exp.cast(exp.Paren(this=message), "BOOLEAN")
        return exp.Case(ifs=[exp.If(this=added, true=copied(of)), exp.If(this=fails, true=copied(of))])

    # --- conditions ----------------------------------------------------------------------------------------

    def _pushed_down(self) -> list[Node]:
        """Take the conditions on the source's rows out of WHERE, and return them."""
        where = self._query.args.get("where")
        if where is None:
            return []
        parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
        own = [part for part in parts if part.find(exp.Column) is not None and self._is_of_source(part)]
        rest = [copied(part) for part in parts if not any(part is pushed for pushed in own)]
        self._query.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
        return [copied(expression) for expression in own]

    def _fill(self, source: Node, keys: list[str], where: list[Node]) -> None:
        """Write the inner query."""
        shown = [exp.column(exp.to_identifier(key, quoted=True), table=self._alias) for key in keys]
        names = [exp.alias_(copied(column), column.name, quoted=True, copy=False) for column in shown]
        counted = [
            exp.alias_(copied(aggregate), f"{_MADE}{at}", quoted=True, copy=False)
            for at, aggregate in enumerate(self._shown.values())
        ]
        self.inner.set("expressions", [*names, *counted])
        self.inner.set(FROM, exp.From(this=source))
        if where:
            self.inner.set("where", exp.Where(this=exp.and_(*where, copy=False)))
        if shown:
            self.inner.set("group", exp.Group(expressions=[copied(column) for column in shown]))


def _operand(aggregate: Node) -> Node | None:
    """What is counted or summed; None for the rows themselves. Raises NotFollowed for other aggregates."""
    operand = aggregate.this
    plain = not isinstance(operand, exp.Distinct | exp.Order | exp.Limit) and not aggregate.expressions
    if not isinstance(aggregate, exp.Count | exp.Sum | exp.Avg) or not plain:
        raise NotFollowed(_OTHER, aggregate)
    return None if operand is None or isinstance(operand, exp.Star) else operand


def _sum_of_parts(aggregate: Node, operand: Node | None, column_of: Callable[[Node], Node], where: Node | None) -> Node:
    """An aggregate of the source's own columns: the aggregates of its parts are added up."""
    if isinstance(aggregate, exp.Avg):
        assert operand is not None
        condition = _condition(operand)
        if condition is not None:
            return _share(condition, column_of, where)
        summed = _sum(column_of(exp.Sum(this=copied(operand))), where)
        return _quotient(summed, _sum(column_of(exp.Count(this=copied(operand))), where))
    total = _sum(column_of(copied(aggregate)), where)
    return _count(total) if isinstance(aggregate, exp.Count) else total


def _weighted(aggregate: Node, operand: Node, count: Node, where: Node | None, added: Node) -> Node:
    """An aggregate of something else than the source's columns: each value counts as often as there are rows of it.

    added: the operand as it is added up.
    """
    present = exp.Not(this=exp.Is(this=exp.Paren(this=copied(operand)), expression=exp.Null()))
    if not isinstance(aggregate, exp.Count):
        summed = _sum(exp.Mul(this=exp.Paren(this=copied(added)), expression=copied(count)), where)
        if isinstance(aggregate, exp.Sum):
            return summed
    here: Node = present if where is None else exp.and_(copied(where), present, copy=False)
    total = _sum(count, here)
    return _count(total) if isinstance(aggregate, exp.Count) else _quotient(summed, total)


def _sum(node: Node, where: Node | None) -> Node:
    total = exp.Sum(this=node)
    return total if where is None else exp.Filter(this=total, expression=exp.Where(this=copied(where)))


def _count(total: Node) -> Node:
    return exp.cast(exp.Coalesce(this=total, expressions=[exp.Literal.number(0)]), "BIGINT")


def _quotient(summed: Node, number: Node) -> Node:
    """A mean; NULL where the noisy number of values is below one."""
    quotient = exp.Div(this=summed, expression=copied(number))
    return exp.Paren(
        this=exp.Case(ifs=[exp.If(this=exp.GTE(this=number, expression=exp.Literal.number(1)), true=quotient)])
    )


def _share(condition: Node, column_of: Callable[[Node], Node], where: Node | None) -> Node:
    """The share of the rows where a condition holds among those where it holds or not, without NULL."""
    known = exp.or_(copied(condition), exp.not_(copied(condition), copy=False), copy=False)
    part, whole = (_sum(column_of(_counted(test)), where) for test in (condition, known))
    least = exp.Greatest(this=_quotient(part, whole), expressions=[exp.Literal.number(0)])
    return exp.Least(this=least, expressions=[exp.Literal.number(1)])


def _counted(condition: Node) -> Node:
    return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=copied(condition)))


def _condition(operand: Node) -> Node | None:
    """The condition whose numbers, 0 and 1, an expression has; None if it is another expression."""
    cast = operand.unnest()
    inner = cast.this.unnest() if isinstance(cast, exp.Cast) else cast
    return inner if isinstance(inner, exp.Predicate | exp.Connector | exp.Not) else None
