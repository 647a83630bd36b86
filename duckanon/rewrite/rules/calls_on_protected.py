"""Calls of duckanon's functions on protected tables: answered by a release, or refused."""

from __future__ import annotations

from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Settle calls on protected tables. Raises Refused for a call that the policy does not allow."""
    for call in list(context.calls):
        name = next((name for name in call.tables.values() if name in context.catalog.protected), None)
        if name is not None:
            context.releases.call(context, call, name)
            context.calls.remove(call)
            context.changed()
