"""Subqueries that can be released by themselves; the query around them is then computed from the release.

That computation needs no check: it sees nothing but the release.
"""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.rule_context import RuleContext, within


def apply(context: RuleContext) -> None:
    """Answer the parts of the query that can be released by themselves, the outermost first."""
    for part in list(context.bound.query.find_all(exp.Select)):
        if not within(part, context.bound.query) or not any(within(node, part) for _, node in context.reads):
            continue
        found = [one for one in context.alone(part) if one.table in context.catalog.protected]
        if found:
            context.releases.answer(context, found, part)
