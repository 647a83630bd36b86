"""HAVING, windows and arithmetic on group sizes and published counts: these are released, the rest is computed."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.normalize.split import split
from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.rule_context import RuleContext, within


def apply(context: RuleContext) -> None:
    """Split each remaining part into numbers and the rest, if the numbers by themselves can be released."""
    for part in list(context.bound.query.find_all(exp.Select)):
        if not within(part, context.bound.query) or not any(within(node, part) for _, node in context.reads):
            continue
        parts = split(part)
        if parts is None:
            continue
        around, core = parts
        _put(context, part, around)
        found = [one for one in context.alone(core) if one.table in context.catalog.protected]
        sizes = len(found) == 1 and isinstance(found[0], GroupSizes)
        answered = sizes and context.releases.answer(context, found, core) is None
        if not answered and not context.releases.follows(context, core):
            _put(context, around, part)


def _put(context: RuleContext, old: Node, new: Node) -> None:
    if old is context.bound.query:
        context.bound.query = new
    else:
        old.replace(new)
