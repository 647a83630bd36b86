"""Counts, sums and means of protected records that are joined with what may be seen: the records are counted first."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from duckanon.catalog.names import TableName, fold
from duckanon.rewrite.algebra.nodes import Node, nodes_of, queries_in, within
from duckanon.rewrite.bind import named
from duckanon.rewrite.normalize.eager_aggregation import aggregated_first, sources
from duckanon.rewrite.normalize.grouped import NotFollowed, aggregates_itself
from duckanon.rewrite.recognize import Aggregates
from duckanon.rewrite.rule_context import RuleContext

_ADDED = " The query adds these numbers up over what it joins, and their noise with them."


def apply(context: RuleContext) -> None:
    """Answer the remaining SELECTs of one protected table among other sources, and note why one is not answered."""
    for part in nodes_of(context.bound.query, exp.Select):
        if within(part, context.bound.query) and aggregates_itself(part):
            read = [(name, node) for name, node in context.reads if within(node, part)]
            places = [at for at, one in enumerate(sources(part)) if any(within(node, one) for _, node in read)]
            if len(read) == 1 and len(places) == 1 and (len(sources(part)) > 1 or queries_in(part)):
                _answer(context, part, read[0][0], places[0])


def _answer(context: RuleContext, part: Node, name: TableName, place: int) -> None:
    try:
        columns = _columns(context, sources(part)[place], name)
        around, inner = aggregated_first(part, place, columns, _others(context, part, place))
    except NotFollowed as no:
        if len(sources(part)) == 1 and any(one[0] == Aggregates.shown for one in context.reasons):
            return
        reason = context.not_answered(no.part or part, str(no))
    else:
        context.put(part, around)
        if context.releases.follows(context, inner):
            return
        refused = context.releases.with_noise(context, inner)
        if refused is None:
            context.steps[-1] = replace(context.steps[-1], reason=context.steps[-1].reason + _ADDED)
            return
        context.put(around, part)
        quoted = refused if refused.startswith("`") else context.not_answered(part, refused)
        reason = _about_subquery(context, part, refused) or quoted
    # This reason replaces the earlier one, which only says that there are several sources.
    context.reasons = [one for one in context.reasons if one[0] != Aggregates.shown]
    context.reasons.append((Aggregates.shown, name, reason))


def _about_subquery(context: RuleContext, part: Node, reason: str) -> str | None:
    """What is said where the column that a reason quotes stands in a condition with a subquery; None if in no such."""
    where = part.args.get("where")
    quoted = reason.partition("`")[2].partition("`")[0]
    conditions = [] if where is None else [where.this] if not isinstance(where.this, exp.And) else where.this.flatten()
    for one in conditions:
        inside = {id(column) for query in queries_in(one) for column in nodes_of(query, exp.Column)}
        names = [fold(column.name) for column in nodes_of(one, exp.Column) if id(column) not in inside]
        if inside and fold(quoted) in names:
            return context.not_answered(one, _WITH_QUERY)
    return None


_WITH_QUERY = (
    "A condition with a subquery is followed for columns that the policy calls public and has domains for: ask for the "
    "subquery by itself, and write its value out."
)


def _shows_all(query: Node) -> bool:
    """Whether it is SELECT * of one table, perhaps with conditions, as staging models write it."""
    if not isinstance(query, exp.Select) or len(sources(query)) != 1 or not isinstance(sources(query)[0], exp.Table):
        return False
    shown = query.expressions
    return len(shown) == 1 and isinstance(shown[0], exp.Star) and not any(shown[0].args.values())


def _columns(context: RuleContext, source: Node, name: TableName) -> dict[str, str]:
    """The columns of a source that reads a protected table, as stored, by folded name. Raises NotFollowed."""
    query = source.this if isinstance(source, exp.Subquery) else None
    if isinstance(source, exp.Table) or (query is not None and _shows_all(query)):
        return {fold(one): one for one in context.columns(name)}
    if not isinstance(query, exp.Select) or query.is_star or any(not one.alias_or_name for one in query.expressions):
        raise NotFollowed("Write the columns out that the query in FROM shows, with names.", source)
    return {fold(one.alias_or_name): one.alias_or_name for one in query.expressions}


def _others(context: RuleContext, part: Node, place: int) -> set[str]:
    """The folded names of the columns that the other sources of a SELECT show, as far as its text has them.

    What is on the right of a SEMI or ANTI JOIN is seen in its condition alone.
    """
    hidden = {id(one.this) for one in part.args.get("joins") or [] if one.args.get("kind") in ("SEMI", "ANTI")}
    found: set[str] = set()
    for at, source in enumerate(sources(part)):
        if at != place and id(source) not in hidden:
            if isinstance(source, exp.Table):
                found |= set(map(fold, context.columns(named(source))))
            elif isinstance(source.this, exp.Select):
                found |= {fold(one.alias_or_name) for one in source.this.expressions}
    return found
