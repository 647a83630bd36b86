"""Group-size queries in ordinary SQL: the release of group sizes stands in their place."""

from __future__ import annotations

from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Settle the group-size queries that the whole statement asks, and note why where one is not."""
    for found in context.found(GroupSizes):
        context.settle([found], found.node)
