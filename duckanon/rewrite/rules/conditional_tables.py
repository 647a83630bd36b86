"""Conditional tables: shares within rows, one or several in one SELECT, answered together."""

from __future__ import annotations

from duckanon.rewrite.recognize import Conditional
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Answer the conditional tables for which the statement asks, and note why one is not answered."""
    together: dict[int, list[Conditional]] = {}
    for found in context.found(Conditional):
        together.setdefault(id(found.node), []).append(found)
    for shares in together.values():
        context.settle(shares, shares[0].node)
