"""Counts, sums, means and quantiles by keys, whatever is computed from them: published counts, or noise, in place."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node, nodes_of, within
from duckanon.rewrite.normalize.grouped import aggregates_itself
from duckanon.rewrite.recognize import Aggregates
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Answer the remaining SELECTs that aggregate records of one protected table, and note why one is not answered."""
    for part in nodes_of(context.bound.query, exp.Select):
        read = [name for name, node in context.reads if within(node, part)]
        if read and within(part, context.bound.query) and not context.releases.follows(context, part):
            reason = context.releases.with_noise(context, part)
            if reason is not None and aggregates_itself(part):
                outer = context.outer_column(part)
                if outer is not None:
                    reason = context.not_answered(_condition(outer), _CORRELATED)
                context.reasons.append((Aggregates.shown, read[0], reason))


_CORRELATED = (
    "It makes the subquery depend on the row around it, so there is no one answer: ask for the statistic by the "
    "columns of the condition, with GROUP BY, and join the answer."
)


def _condition(column: Node) -> Node:
    """The comparison in which a column stands; the column itself if it stands in none."""
    found = column.find_ancestor(exp.Predicate, exp.Select)
    return found if isinstance(found, exp.Predicate) else column
