"""The values of public columns as the policy's domains list them: free, and the same whatever the records are."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import TableName, fold, quoted
from duckanon.catalog.snapshot import SCHEMA
from duckanon.releases.key_domains import combinations, dependent_parts
from duckanon.releases.noise import NotOffered, public_key, seek
from duckanon.rewrite.algebra.expressions import Column
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.decision import Step, Verdict
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.rule_context import RuleContext

_TOLD = "These are the values that the policy lists: which of them records have is not told."
_FOUND = (
    "These are the values that the policy lists or that were found with noise: which of them records have is not told."
)
_AROUND = (
    " The query around it is computed from these values. How many of a column's values records have is told with "
    "noise, by count(DISTINCT column)."
)
# Domains that depend on each other count as one.
_MOST_DOMAINS = 2


def listed(context: RuleContext, name: TableName, columns: Sequence[str], node: Node, *, around: bool) -> None:
    """Let a query read the listed combinations of a protected table's public columns in place of its records.

    Nothing is changed if a column has no domain, or if there are too many combinations. around: whether there is a
    query around that for the values.
    """
    try:
        keys = [public_key(context, name, Column(0, fold(column))) for column in columns]
    except NotOffered:
        return
    parts = dependent_parts(keys)
    if not 0 < len(parts) <= _MOST_DOMAINS:
        return
    database = context.path(name)[0]
    shown = ", ".join(f"k{at} AS {quoted([key.column])}" for at, key in enumerate(keys))
    source = " CROSS JOIN ".join(combinations(database, keys, places) for places in parts)
    holder = exp.Subquery(this=sqlglot.parse_one(f"SELECT {shown} FROM {source}", read=DIALECT))
    holder.set("alias", node.args.get("alias"))
    holder.set("joins", node.args.get("joins"))
    context.bound.tables |= {TableName(fold(database), SCHEMA, fold(key.domain)) for key in keys}
    context.replace(node, holder)
    seek(context, name, keys)
    reason = _FOUND if any(key.found for key in keys) else _TOLD
    reason += _AROUND if around else ""
    context.steps.append(Step("values", context.label(name), Verdict.REWRITTEN, reason))
