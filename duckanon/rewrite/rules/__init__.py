"""The rules, one in each file, in the order in which they are applied to a statement.

Each settles the parts that it understands; no rule depends on another. The last one refuses what is left, so leaving
out a rule makes the guard stricter, never weaker.
"""

from __future__ import annotations

from collections.abc import Callable

from duckanon.rewrite.rule_context import RuleContext
from duckanon.rewrite.rules import (
    aggregate_queries,
    aggregates_over_joins,
    anything_else,
    calls_on_protected,
    conditional_tables,
    group_size_queries,
    inner_parts,
    listed_values,
    open_calls,
    parts_of_queries,
    record_reads,
)

Rule = Callable[[RuleContext], None]

RULES: tuple[Rule, ...] = (
    open_calls.apply,
    calls_on_protected.apply,
    group_size_queries.apply,
    conditional_tables.apply,
    inner_parts.apply,
    parts_of_queries.apply,
    aggregate_queries.apply,
    aggregates_over_joins.apply,
    listed_values.apply,
    record_reads.apply,
    anything_else.apply,
)
