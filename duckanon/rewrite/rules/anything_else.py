"""The last rule: what no other has settled is refused, with the release that comes nearest."""

from __future__ import annotations

from duckanon.rewrite.rule_context import Question


def apply(question: Question) -> None:
    """Refuse the statement if anything of it is still open."""
    for call in question.calls:
        question.refuse(f"call of {call.function}", None, f"{call.function} cannot be called here: ask the steward.")
    for name, _ in question.reads:
        said = [(kind, reason) for kind, table, reason in question.reasons if table == name]
        plain = f"{question.label(name)} is protected, and this query is none of those that can be released."
        kind, reason = said[0] if said else ("other use", plain)
        question.refuse(kind, name, f"{reason} {question.kinds.offers(question, name, kind)}")
