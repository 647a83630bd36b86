"""The last rule: whatever no other rule has settled is refused, and the nearest release is suggested."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from duckanon.catalog.names import TableName
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Refuse the statement if anything of it is still open."""
    for call in context.calls:
        said = f"{call.function} cannot be called here: ask the steward."
        context.refuse(f"call of {call.function}", None, context.not_answered(call.node, said))
    for name, node in context.reads:
        reasons = [(kind, reason) for kind, table, reason in context.reasons if table == name]
        kind, reason = _shortest(reasons) if reasons else ("other use", _unknown(context, name, node))
        context.refuse(kind, name, f"{reason} {context.releases.offers(context, name, kind)}")


def _shortest(reasons: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The first reason that quotes a part of the query, else the first.

    Of several rules with the same sentence it is the one that quotes the smallest part.
    """
    kind, reason = next((one for one in reasons if one[1].startswith("`")), reasons[0])
    same = [one for _, one in reasons if one.rpartition("` ")[2] == reason.rpartition("` ")[2]]
    return kind, min(same, key=len)


def _unknown(context: RuleContext, name: TableName, read: Node) -> str:
    """Why a read of a protected table that no rule knows is refused."""
    query = read.find_ancestor(exp.Select) or read
    above = query.parent.parent if isinstance(query.parent, exp.Subquery) else query.parent
    if isinstance(query.parent, exp.Exists | exp.In) or isinstance(above, exp.Exists | exp.In):
        part = query.parent if isinstance(query.parent, exp.Exists | exp.In) else above
        return context.not_answered(
            part,
            f"It tells whether {context.label(name)} has a certain record: count the records, which has an answer with "
            "noise, and compare that.",
        )
    said = f"{context.label(name)} is protected, and this query is none of those that can be released."
    return context.not_answered(query, said)
