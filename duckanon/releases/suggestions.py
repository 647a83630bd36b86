"""What may be asked of a table whose records somebody browses: a chart, a mean and a total, of its own columns.

All of it follows from the policy. Each question is one that the releases of `noisy_aggregates` answer.
"""

from __future__ import annotations

from datetime import date
from itertools import chain

from duckanon.catalog.names import TableName, fold, literal, spelled
from duckanon.catalog.types import DATES, NUMBERS, base
from duckanon.rewrite.rule_context import RuleContext

# How many periods a chart over time may have when it is made from a column's bounds.
_MOST_PERIODS = 63

# Types of which months are asked for.
_WITH_MONTHS = DATES | {"TIMESTAMP WITH TIME ZONE"}


def browsed(context: RuleContext, name: TableName) -> list[str]:
    """A chart of a protected table, and a mean or a table of two columns; none where its policy offers no counts."""
    if not _has_counts(context, name):
        return []
    table, keys = context.written(name), _keys(context, name)
    charts = [_over_time(context, name, table), *(_bars(table, key) for key in keys)]
    texts = [*[chart for chart in charts if chart][:1], *_means(context, name, table, keys)[:1]]
    if len(texts) < 2 and len(keys) > 1:
        texts.append(f"SELECT {keys[0]}, {keys[1]}, count(*) FROM {table} GROUP BY ALL")
    return texts


def total(context: RuleContext, name: TableName) -> list[str]:
    """The count of a protected table, and what it would cost; nothing where its policy offers no counts."""
    count = f"SELECT count(*) FROM {context.written(name)}"
    return [count, f"FROM explain_privacy({literal(count)})"] if _has_counts(context, name) else []


def _has_counts(context: RuleContext, name: TableName) -> bool:
    protected = context.catalog.protected[name]
    return protected.policy.per_query is not None and protected.stands


def _bars(table: str, key: str) -> str:
    return f"SELECT {key}, count(*) AS n FROM {table} GROUP BY {key} ORDER BY n DESC"


def _keys(context: RuleContext, name: TableName) -> list[str]:
    """The columns by which the table may be grouped as they are, spelled as SQL."""
    protected = context.catalog.protected[name]
    stored = {fold(column): column for column in context.columns(name)}
    public = (fold(name) for name in (*protected.policy.public, *protected.policy.hierarchy))
    return [spelled([stored[text]]) for text in dict.fromkeys(public) if text in protected.domains and text in stored]


def _over_time(context: RuleContext, name: TableName, table: str) -> str:
    """Counts by month or year of a column of dates or moments that has bounds; empty where there is none."""
    policy, types = context.catalog.protected[name].policy, context.types(name)
    public = {fold(name) for name in policy.public}
    for column, bounds in policy.bounds.items():
        if fold(column) in public and base(types.get(fold(column), "")) in _WITH_MONTHS:
            unit = _period(*bounds[:2])
            if unit:
                shown = f"date_trunc('{unit}', {spelled([column])}) AS {unit}"
                return f"SELECT {shown}, count(*) AS n FROM {table} GROUP BY {unit} ORDER BY {unit}"
    return ""


def _period(least: str, most: str) -> str:
    """The shortest of month and year of which there are few between two bounds; empty where years are many too."""
    try:
        first, last = date.fromisoformat(least[:10]), date.fromisoformat(most[:10])
    except ValueError:
        return ""
    years = last.year - first.year
    if 12 * years + last.month - first.month < _MOST_PERIODS:
        return "month"
    return "year" if years < _MOST_PERIODS else ""


def _means(context: RuleContext, name: TableName, table: str, keys: list[str]) -> list[str]:
    """The mean of each numeric column with bounds, by the table's first key."""
    policy, types = context.catalog.protected[name].policy, context.types(name)
    kept = {fold(name) for name in chain(policy.drop, (policy.privacy_unit or "", policy.unit or ""))}
    key = next(iter(keys), "")
    return [
        f"SELECT {key}, avg({spelled([bound])}) FROM {table} GROUP BY ALL"
        if key
        else f"SELECT avg({spelled([bound])}) FROM {table}"
        for bound in policy.bounds
        if fold(bound) not in kept and base(types.get(fold(bound), "")) in NUMBERS and spelled([bound]) not in keys
    ]
