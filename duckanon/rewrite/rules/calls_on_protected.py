"""A call of duckanon's on a protected table is a release of some kind, or it is refused."""

from __future__ import annotations

from duckanon.rewrite.rule_context import Question


def apply(question: Question) -> None:
    """Settle calls whose table is protected. Raises Refused where one is no release that the policy offers."""
    for call in list(question.calls):
        name = next((name for name in call.tables.values() if name in question.catalog.protected), None)
        if name is not None:
            question.kinds.call(question, call, name)
            question.calls.remove(call)
