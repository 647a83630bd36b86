"""HAVING, QUALIFY, windows and arithmetic on counts: the counts are released, and the rest is computed from them."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.normalize.split import split
from duckanon.rewrite.recognize import Counts, GroupSizes
from duckanon.rewrite.rule_context import RuleContext, within


def apply(context: RuleContext) -> None:
    """Split each remaining part into counts and the rest, if the counts by themselves can be released."""
    for part in list(context.bound.query.find_all(exp.Select)):
        if not within(part, context.bound.query) or not any(within(node, part) for _, node in context.reads):
            continue
        parts = split(part)
        if parts is None:
            continue
        around, core = parts
        _put(context, part, around)
        found = [one for one in context.alone(core) if one.table in context.catalog.protected]
        counted = len(found) == 1 and isinstance(found[0], GroupSizes | Counts)
        if not counted or context.releases.answer(context, found, core) is not None:
            _put(context, around, part)


def _put(context: RuleContext, old: Node, new: Node) -> None:
    if old is context.bound.query:
        context.bound.query = new
    else:
        old.replace(new)
