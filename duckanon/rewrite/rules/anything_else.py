"""The last rule: what no other has settled is refused, with the release that comes nearest."""

from __future__ import annotations

from duckanon.rewrite.question import Question
from duckanon.rewrite.rules import anonymized_copies, group_size_calls
from duckanon.rewrite.spot.names import TableName


def apply(question: Question) -> None:
    """Refuse the statement if anything of it is still open."""
    for call in question.calls:
        name = next(name for name in call.tables.values() if name in question.catalog.protected)
        question.refuse(
            f"call of {call.function}",
            name,
            f"{call.function} shows exact values of {question.label(name)}, which is protected: it is for the steward. "
            + offers(question, name),
        )
    for name, _ in question.reads:
        said = [(kind, reason) for kind, table, reason in question.reasons if table == name]
        plain = f"{question.label(name)} is protected, and this query is none of those that can be released."
        kind, reason = said[0] if said else ("other use", plain)
        question.refuse(kind, name, f"{reason} {offers(question, name)}")


def offers(question: Question, name: TableName) -> str:
    """What may be asked of the table instead."""
    sizes, copy = group_size_calls.suggestion(question, name), anonymized_copies.suggestion(question, name)
    found = ([f"FROM {sizes}"] if sizes else []) + ([copy] if copy else [])
    if not found:
        return "Its policy offers no release: ask the steward."
    return f"What may be asked: {' or '.join(found)}."
