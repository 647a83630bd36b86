"""Reads of single records: refused, with a published k-anonymous table suggested."""

from __future__ import annotations

from duckanon.rewrite.recognize import Aggregates, RecordReads
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Refuse reads of a protected table's records, with what may be asked instead."""
    for found in context.found(RecordReads):
        if any(name == found.table for name, _ in context.reads):
            plain = f"Records of {context.label(found.table)} are protected."
            said = (why for kind, table, why in context.reasons if table == found.table and kind == Aggregates.shown)
            offers = context.releases.offers(context, found.table, found.shown)
            context.refuse(found.shown, found.table, f"{next(said, plain)} {offers}")
