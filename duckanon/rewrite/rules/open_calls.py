"""Calls that touch no protected table run as they are, with the tables' full names in them."""

from __future__ import annotations

from duckanon.rewrite.calls import qualify
from duckanon.rewrite.question import Question


def apply(question: Question) -> None:
    """Settle calls on tables that are not protected."""
    for call in list(question.calls):
        if not any(name in question.catalog.protected for name in call.tables.values()):
            paths = {name: question.path(name) for name in call.tables.values()}
            question.approved.append(qualify(call, paths))
            question.calls.remove(call)
