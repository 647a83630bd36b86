"""What stands around a query that can be released may be more than is followed: then it stays, around the release.

Whatever is computed from a release is the analyst's own affair.
"""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.rule_context import RuleContext, within


def apply(context: RuleContext) -> None:
    """Settle the parts of the query that can be released by themselves, the outermost first."""
    for part in list(context.bound.query.find_all(exp.Select)):
        if not within(part, context.bound.query) or not any(within(node, part) for _, node in context.reads):
            continue
        found = [one for one in context.alone(part) if one.table in context.catalog.protected]
        if found:
            context.releases.answer(context, found, part)
