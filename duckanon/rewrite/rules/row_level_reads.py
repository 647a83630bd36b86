"""Reads of single records: what answers for them is a k-anonymous copy."""

from __future__ import annotations

from duckanon.rewrite.question import Question
from duckanon.rewrite.rules import anonymized_copies
from duckanon.rewrite.spot import RowLevel

KIND = "row-level read"


def apply(question: Question) -> None:
    """Refuse reads of a protected table's records, with the call that answers for them."""
    for found in question.found(RowLevel):
        if not any(name == found.table for name, _ in question.reads):
            continue
        label, copy = question.label(found.table), anonymized_copies.suggestion(question, found.table)
        how = (
            f"An anonymous copy answers for them: {copy}"
            if copy is not None
            else "The policy names no quasi_identifiers, so there is no anonymous copy either: ask the steward."
        )
        question.refuse(KIND, found.table, f"Records of {label} are protected. {how}")
