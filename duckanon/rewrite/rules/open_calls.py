"""Calls of duckanon's functions that use no protected table: they run, with the tables' full names in them.

Of privacy_ledger an analyst sees the lines about visible tables only, so that no other table's existence shows.
"""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite import metadata
from duckanon.rewrite.algebra.nodes import Node, copied
from duckanon.rewrite.calls import qualify
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Settle calls on tables that are not protected."""
    for call in list(context.calls):
        if not any(name in context.catalog.protected for name in call.tables.values()):
            paths = {name: context.path(name) for name in call.tables.values()}
            context.approved.append(qualify(call, paths))
            context.calls.remove(call)
            if call.function == "privacy_ledger":
                _narrow(context, call.node)
                context.changed()


def _narrow(context: RuleContext, node: Node) -> None:
    """Replace a call of privacy_ledger by a query for the lines about visible tables."""
    alias, joins = node.args.get("alias"), node.args.get("joins")
    whole = copied(node)
    for part in ("alias", "joins"):
        whole.set(part, None)
    labels = [exp.Literal.string(one) for one in metadata.labels(context.catalog)]
    seen = exp.In(this=exp.column("tbl"), expressions=labels or [exp.Null()])
    holder = exp.Subquery(this=exp.select("*").from_(whole).where(seen))
    holder.set("alias", alias or exp.TableAlias(this=exp.to_identifier("privacy_ledger")))
    holder.set("joins", joins)
    node.replace(holder)
