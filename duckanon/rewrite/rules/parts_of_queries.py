"""HAVING, windows and arithmetic on group sizes and published counts: these are released, the rest is computed."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import nodes_of
from duckanon.rewrite.normalize.split import split
from duckanon.rewrite.recognize import GroupSizes
from duckanon.rewrite.rule_context import RuleContext


def apply(context: RuleContext) -> None:
    """Split each remaining part into numbers and the rest, if the numbers by themselves can be released."""
    for part in context.parts():
        parts = split(part)
        if parts is None:
            continue
        around, core = parts
        # DuckDB takes `current_date AS "current_date"` for a column that refers to itself.
        for day in nodes_of(around, exp.CurrentDate):
            day.replace(exp.cast(exp.Literal.string(context.today.isoformat()), "DATE"))
        context.put(part, around)
        found = [one for one in context.alone(core) if one.table in context.catalog.protected]
        sizes = len(found) == 1 and isinstance(found[0], GroupSizes)
        answered = sizes and context.releases.answer(context, found, core) is None
        if not answered and not context.releases.follows(context, core):
            context.put(around, part)
