"""HAVING, QUALIFY, windows and arithmetic around counts: the counts are released, the rest is computed from them."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.question import Question, within
from duckanon.rewrite.rules import group_size_queries, plain_counts
from duckanon.rewrite.split import split
from duckanon.rewrite.spot import Counts, GroupSizes
from duckanon.rewrite.spot.trees import Node


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
        found = question.alone(core)
        (one,) = found if len(found) == 1 else (None,)
        reason: str | None = "it is neither"
        if isinstance(one, GroupSizes) and one.table in question.catalog.protected:
            reason = group_size_queries.settle(question, one, core)
        elif isinstance(one, Counts) and one.table in question.catalog.protected:
            reason = plain_counts.settle(question, one, core)
        if reason is not None:
            _put(question, around, part)


def _put(question: Question, old: Node, new: Node) -> None:
    if old is question.bound.query:
        question.bound.query = new
    else:
        old.replace(new)
