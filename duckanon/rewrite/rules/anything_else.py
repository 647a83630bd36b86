"""The last rule: whatever no other rule has settled is refused, and the nearest release is suggested."""

from __future__ import annotations

from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Refuse the statement if anything of it is still open."""
    for call in context.calls:
        context.refuse(f"call of {call.function}", None, f"{call.function} cannot be called here: ask the steward.")
    for name, _ in context.reads:
        said = [(kind, reason) for kind, table, reason in context.reasons if table == name]
        plain = f"{context.label(name)} is protected, and this query is none of those that can be released."
        kind, reason = said[0] if said else ("other use", plain)
        context.refuse(kind, name, f"{reason} {context.releases.offers(context, name, kind)}")
