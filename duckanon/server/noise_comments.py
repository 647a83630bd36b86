"""What the catalog says of protected tables: that their numbers get noise. It follows from policies alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from duckanon.catalog.names import TableName, fold
from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Protected

# (database, schema, table, column or '', text), spelled as the catalog lists them.
Comment: TypeAlias = tuple[str, str, str, str, str]


def comments(protected: Mapping[TableName, Protected], columns: Sequence[Sequence[Any]]) -> Iterator[Comment]:
    """The comments of protected tables and of their columns. columns: as `Visible` has them."""
    tables = set()
    for database, schema, table, column, *_ in columns:
        one = protected.get(TableName(fold(database), fold(schema), fold(table)))
        if one is None:
            continue
        if (database, schema, table) not in tables:
            tables.add((database, schema, table))
            yield database, schema, table, "", _of_table(one.policy)
        yield database, schema, table, column, _of_column(one.policy, fold(column))


def _of_table(policy: Policy) -> str:
    if policy.per_query is None:
        return "Protected: no numbers with noise are answered, only what is published."
    return (
        f"Numbers get noise, which protects {policy.protects}. With SET duckanon.intervals = on the ends of the 95 % "
        "interval stand beside each."
    )


def _of_column(policy: Policy, column: str) -> str:
    if column in map(fold, policy.drop):
        return "It is in no answer."
    if policy.per_query is None:
        return "Only what is published is answered."
    is_key, has_bounds = column in map(fold, policy.domains), column in map(fold, policy.bounds)
    if is_key and has_bounds:
        return "Numbers by its values, and sums and means of it, get noise."
    if is_key:
        return "Numbers by its values get noise."
    if has_bounds:
        return "Sums, means and quantiles of it get noise."
    return "Counts with conditions on it get noise."
