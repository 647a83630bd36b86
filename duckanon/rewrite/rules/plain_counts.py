"""Counts by keys: noisy or published counts stand in their place."""

from __future__ import annotations

from duckanon.rewrite.recognize import Counts
from duckanon.rewrite.rule_context import Question


def apply(question: Question) -> None:
    """Settle the counts that the whole statement asks, and note why where one is not."""
    for found in question.found(Counts):
        question.settle([found], found.node)
