"""Group-size queries in ordinary SQL: replaced by the release of group sizes."""

from __future__ import annotations

from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Answer the group-size queries in the statement, and note why one is not answered."""
    for found in context.found(GroupSizes):
        context.settle([found], found.node)
