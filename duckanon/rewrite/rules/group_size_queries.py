"""Group-size queries in ordinary SQL: the release of group sizes stands in their place."""

from __future__ import annotations

from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.rule_context import Question


def apply(question: Question) -> None:
    """Settle the group-size queries that the whole statement asks, and note why where one is not."""
    for found in question.found(GroupSizes):
        question.settle([found], found.node)
