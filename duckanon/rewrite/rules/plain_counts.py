"""Counts by keys: replaced by noisy or published counts."""

from __future__ import annotations

from duckanon.rewrite.recognize import Counts
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Answer the counts for which the statement asks, and note why one is not answered."""
    for found in context.found(Counts):
        context.settle([found], found.node)
