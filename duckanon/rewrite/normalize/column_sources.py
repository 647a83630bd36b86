"""From which table a column of a subquery or of WITH comes, as the text says: where a PIVOT's values are listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import FROM, Node, arg, copied, nodes_of, queries_in, sources

# What names a query that is read: the expressions of WITH that can be seen, by their folded names.
Named = Mapping[str, Node]


def named_around(node: Node) -> dict[str, Node]:
    """The expressions of WITH that can be seen from a node, and do not hold it."""
    found: dict[str, Node] = {}
    holder: Node | None = node
    while holder is not None:
        given = arg(holder, "with")
        for expression in given.expressions if given is not None else ():
            if all(part is not node for part in expression.walk()):
                found.setdefault(fold(expression.alias), expression)
        holder = holder.parent
    return found


def shown_by(source: Node, named: Named) -> dict[str, Node] | None:
    """The columns of a subquery or of an expression of WITH, by their names; None where these are not written out."""
    query, holder = _query_of(source, named)
    if not isinstance(query, exp.Select) or query.is_star:
        return None
    renamed = holder.args.get("alias")
    names = [column.name for column in renamed.columns] if renamed is not None else []
    own = [expression.alias_or_name for expression in query.expressions]
    shown = [*names, *own[len(names) :]]
    return dict(zip(shown, query.expressions, strict=True)) if all(shown) and len(shown) == len(own) else None


def values_at_source(column: Node, source: Node, named: Named) -> Iterator[Node]:
    """Queries for the different values of a column in the table from which it comes, of which one may be answered.

    They keep the conditions on that column alone. There is none where the source is a table itself.
    """
    yield from _values(column, source, named, ())


def _values(column: Node, source: Node, named: Named, conditions: Sequence[Node]) -> Iterator[Node]:
    query, _ = _query_of(source, named)
    shown = shown_by(source, named)
    expr = next((one.unalias() for name, one in (shown or {}).items() if fold(name) == fold(column.name)), None)
    if not isinstance(query, exp.Select) or expr is None:
        return
    if not isinstance(expr, exp.Column):
        if len(sources(query)) == 1 and not queries_in(expr) and not nodes_of(expr, exp.AggFunc, exp.Window):
            yield _different(expr, sources(query)[0], _over(expr, conditions))
        return
    within = [*_over(expr, conditions), *_on(expr, query)]
    deeper = {name: cte for name, cte in named.items() if cte.this is not query} | named_around(query)
    for inner in sources(query):
        if expr.table and fold(expr.table) != fold(inner.alias_or_name):
            continue
        if isinstance(inner, exp.Table) and _query_of(inner, deeper)[0] is None:
            yield _different(expr, inner, within)
        else:
            yield from _values(expr, inner, deeper, within)


def _query_of(source: Node, named: Named) -> tuple[Node | None, Node]:
    """The query that a source stands for, and the node that may rename its columns; no query for a table."""
    if isinstance(source, exp.Subquery):
        return source.this, source
    cte = named.get(fold(source.name)) if isinstance(source, exp.Table) and not source.db else None
    return (None, source) if cte is None else (cte.this, cte)


def _on(column: Node, query: Node) -> list[Node]:
    """The conditions of a query's WHERE on one column alone."""
    where = query.args.get("where")
    parts = [] if where is None else list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    return [
        part
        for part in parts
        if not queries_in(part)
        and (columns := nodes_of(part, exp.Column))
        and all(_is_same(each, column) for each in columns)
    ]


def _is_same(one: Node, other: Node) -> bool:
    tables = {fold(each.table) for each in (one, other)}
    return fold(one.name) == fold(other.name) and (len(tables) == 1 or "" in tables)


def _over(expr: Node, conditions: Sequence[Node]) -> list[Node]:
    """Conditions on one column, on what that column is."""
    moved = []
    for condition in conditions:
        holder = exp.Paren(this=copied(condition))
        for node in nodes_of(holder, exp.Column):
            node.replace(exp.Paren(this=copied(expr)))
        moved.append(holder)
    return moved


def _different(expr: Node, source: Node, conditions: Sequence[Node]) -> Node:
    """The different values of an expression over a source."""
    query = exp.Select(expressions=[copied(expr)], distinct=exp.Distinct())
    query.set(FROM, exp.From(this=copied(source, ("joins",))))
    for condition in (*conditions, exp.Not(this=exp.Is(this=exp.Paren(this=copied(expr)), expression=exp.Null()))):
        query = query.where(copied(condition), copy=False)
    return query.order_by("1", copy=False)
