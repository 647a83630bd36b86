"""Subqueries that can be released by themselves; the query around them is then computed from the release.

That computation needs no check: it sees nothing but the release.
"""

from __future__ import annotations

from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Answer the parts of the query that can be released by themselves, the outermost first."""
    for part in context.parts():
        found = [one for one in context.alone(part) if one.table in context.catalog.protected]
        if found:
            context.releases.answer(context, found, part)
