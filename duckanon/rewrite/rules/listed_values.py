"""Different values of public columns: the policy lists them, so no record is read and nothing is charged."""

from __future__ import annotations

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import ROOT, Node, given, queries_in
from duckanon.rewrite.normalize.eager_aggregation import SourceColumns, sources
from duckanon.rewrite.normalize.grouped import NotFollowed, aggregates_of
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Answer a query that shows each combination of values once, from the domains of its columns."""
    query = context.bound.query
    if len(context.reads) == 1 and _shows_values(query):
        name, node = context.reads[0]
        reader = next((one for one in (query, *map(_projection, sources(query))) if _reads(one, node)), None)
        if reader is not None:
            try:
                columns = SourceColumns(reader, node, {fold(one): one for one in context.columns(name)}).used()
            except NotFollowed:
                return
            context.releases.listed(context, name, columns, node)


def _reads(query: Node | None, node: Node) -> bool:
    return query is not None and any(node is one for one in sources(query))


def _projection(source: Node) -> Node | None:
    """The SELECT in a source of FROM, if it shows columns of each of its rows and nothing else."""
    query = source.this if isinstance(source, exp.Subquery) else None
    plain = isinstance(query, exp.Select) and all(isinstance(one.unalias(), exp.Column) for one in query.expressions)
    return query if plain and {one for one, _ in given(query)} <= {"expressions", "from", "from_", "where"} else None


def _shows_values(query: Node) -> bool:
    """Whether each combination of values comes out once, without a statistic of its records."""
    if (
        not isinstance(query, exp.Select)
        or query.find(exp.Window) is not None
        or any(queries_in(one) for name, one in given(query) if name not in ("from", "from_") and isinstance(one, ROOT))
    ):
        return False
    distinct, group = query.args.get("distinct"), query.args.get("group")
    once = group is not None or (distinct is not None and not distinct.args.get("on"))
    parts = [*query.expressions, *(query.args.get(one) for one in ("having", "order"))]
    return once and not any(True for part in parts if part is not None for _ in aggregates_of(part))
