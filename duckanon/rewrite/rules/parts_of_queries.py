"""HAVING, QUALIFY, windows and arithmetic around counts: the counts are released, the rest is computed from them."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.normalize.split import split
from duckanon.rewrite.recognize import Counts, GroupSizes
from duckanon.rewrite.rule_context import Question, within


def apply(question: Question) -> None:
    """Split what is left into counts and the rest, where the counts by themselves can be released."""
    for part in list(question.bound.query.find_all(exp.Select)):
        if not within(part, question.bound.query) or not any(within(node, part) for _, node in question.reads):
            continue
        parts = split(part)
        if parts is None:
            continue
        around, core = parts
        _put(question, part, around)
        found = [one for one in question.alone(core) if one.table in question.catalog.protected]
        counted = len(found) == 1 and isinstance(found[0], GroupSizes | Counts)
        if not counted or question.kinds.answer(question, found, core) is not None:
            _put(question, around, part)


def _put(question: Question, old: Node, new: Node) -> None:
    if old is question.bound.query:
        question.bound.query = new
    else:
        old.replace(new)
