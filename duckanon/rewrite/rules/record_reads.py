"""Reads of single records: refused, with a published k-anonymous table suggested."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node, copied
from duckanon.rewrite.recognize import Aggregates, RecordReads
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Refuse reads of a protected table's records, with what may be asked instead."""
    for found in context.found(RecordReads):
        if any(name == found.table for name, _ in context.reads):
            plain = f"Records of {context.label(found.table)} are protected."
            plain = context.not_answered(_shown(context, found.node), plain)
            said = (why for kind, table, why in context.reasons if table == found.table and kind == Aggregates.shown)
            offers = context.releases.offers(context, found.table, found.shown)
            context.refuse(found.shown, found.table, f"{next(said, plain)} {offers}")


def _shown(context: RuleContext, node: Node) -> Node:
    """The first column of a SELECT that shows protected records; all of the SELECT if none does by itself."""
    for one in node.expressions if isinstance(node, exp.Select) else ():
        alone = copied(node)
        for clause in ("having", "qualify", "order", "group", "distinct"):
            alone.set(clause, None)
        alone.set("expressions", [copied(one)])
        reads = context.recognised(alone, node)
        if any(isinstance(found, RecordReads) and found.columns for found in reads):
            return one.unalias()
    return node
