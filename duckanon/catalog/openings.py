"""Which tables and views stewards have opened: by their own names, or with all tables of their schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from duckanon.catalog.names import fold

# In place of a table's name, it means every table of the schema.
ALL_TABLES = "*"
Schema = TypeVar("Schema", bound="str | None")


def is_open(
    identity: tuple[Schema, str],
    columns: Sequence[str],
    opened: Mapping[tuple[Schema, str], Sequence[str]],
    ever: Collection[tuple[Schema, str]],
) -> bool:
    """Whether analysts may read a table as it is.

    identity: its schema and its name, folded. columns: those that it has now. opened: the columns of each open table as
    they were then; of (schema, ALL_TABLES) the names of the tables that the schema had. ever: the tables that ever had
    a policy.

    By its name a table is open while it has the same columns. With its schema a table that ever had a policy is not
    open; and where the schema has such tables, only those are that were there when it was opened: a later one may be a
    protected table under another name, or a copy of it.
    """
    named = opened.get(identity)
    if named is not None and list(map(fold, named)) == list(map(fold, columns)):
        return True
    schema, name = identity
    listed = opened.get((schema, ALL_TABLES))
    if listed is None or identity in ever:
        return False
    return all(of != schema for of, _ in ever) or name in map(fold, listed)


def is_like_one_of(columns: Iterable[str], gone: Iterable[Collection[str]]) -> bool:
    """Whether a table has all columns that the policy of some protected table names. gone: of those not there now."""
    held = set(map(fold, columns))
    return any(held >= set(map(fold, named)) for named in gone if named)
