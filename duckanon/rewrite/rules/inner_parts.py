"""What stands around a query that can be released may be more than is followed: then it stays, around the release.

Whatever is computed from a release is the analyst's own affair.
"""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.rule_context import Question, within


def apply(question: Question) -> None:
    """Settle the parts of the query that can be released by themselves, the outermost first."""
    for part in list(question.bound.query.find_all(exp.Select)):
        if not within(part, question.bound.query) or not any(within(node, part) for _, node in question.reads):
            continue
        found = [one for one in question.alone(part) if one.table in question.catalog.protected]
        if found:
            question.kinds.answer(question, found, part)
