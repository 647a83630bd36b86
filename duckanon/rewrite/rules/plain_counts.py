"""Counts by keys: noisy or published counts stand in their place."""

from __future__ import annotations

from duckanon.rewrite.recognize import Counts
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Settle the counts that the whole statement asks, and note why where one is not."""
    for found in context.found(Counts):
        context.settle([found], found.node)
