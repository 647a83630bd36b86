"""Reads of single records: what answers for them is a published k-anonymous table."""

from __future__ import annotations

from duckanon.rewrite.recognize import RowLevel
from duckanon.rewrite.rule_context import Question


def apply(question: Question) -> None:
    """Refuse reads of a protected table's records, with what may be asked instead."""
    for found in question.found(RowLevel):
        if any(name == found.table for name, _ in question.reads):
            label = question.label(found.table)
            offers = question.kinds.offers(question, found.table, found.shown)
            question.refuse(found.shown, found.table, f"Records of {label} are protected. {offers}")
