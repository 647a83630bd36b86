"""A call of duckanon's on a protected table is a release of some kind, or it is refused."""

from __future__ import annotations

from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Settle calls whose table is protected. Raises Refused where one is no release that the policy offers."""
    for call in list(context.calls):
        name = next((name for name in call.tables.values() if name in context.catalog.protected), None)
        if name is not None:
            context.releases.call(context, call, name)
            context.calls.remove(call)
