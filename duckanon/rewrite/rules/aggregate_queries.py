"""Counts, sums, means and quantiles by keys, whatever is computed from them: published counts, or noise, in place."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.normalize.grouped import aggregates_itself
from duckanon.rewrite.recognize import Aggregates
from duckanon.rewrite.rule_context import RuleContext, within


def apply(context: RuleContext) -> None:
    """Answer the remaining SELECTs that aggregate records of one protected table, and note why one is not answered."""
    for part in list(context.bound.query.find_all(exp.Select)):
        read = [name for name, node in context.reads if within(node, part)]
        if read and within(part, context.bound.query) and not context.releases.follows(context, part):
            reason = context.releases.with_noise(context, part)
            if reason is not None and aggregates_itself(part):
                context.reasons.append((Aggregates.shown, read[0], reason))
