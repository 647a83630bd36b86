"""Whose the records of a linked table are: by links from table to table, up to the column of the privacy unit.

A record of a linked table has the owner of the one record of its parent that has its key. The parent's key is PRIMARY
KEY or UNIQUE, so DuckDB keeps each record to one owner; records without a parent, or with an owner that is NULL, belong
to nobody and never count. Without the key a record could have many owners, and would survive the removal of each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from duckanon.catalog.names import TableName, fold, identifier, quoted
from duckanon.catalog.policy import OWNER, Link, Policy
from duckanon.catalog.snapshot import Catalog, Owned, Protected, Stored
from duckanon.catalog.types import WHOLE

# Types, besides whole numbers and text, whose values DuckDB compares in one way: no floats, intervals or nested types.
_COMPARED = re.compile(r"UUID|DATE|BOOLEAN|BLOB|TIME|TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?|DECIMAL\(\d+,\d+\)")
# Whole numbers of different widths are compared as this type, which does not hold the largest of the second one.
_WIDEST, _TOO_WIDE = "HUGEINT", "UHUGEINT"


def canonical(kind: str) -> str | None:
    """What a unit's column identifies units by: all columns of a population must have the same; None for others."""
    if kind in WHOLE:
        return "whole numbers"
    if _is_text(kind):
        return "text"
    return "UUIDs" if kind == "UUID" else None


def met(own: str, own_kind: str, theirs: str, their_kind: str) -> str | None:
    """SQL that compares two columns, by their types, and cannot fail; None for types that are not linked.

    Text is compared by its bytes: under a collation one key would be many.
    """
    if _is_text(own_kind) and _is_text(their_kind):
        return f"{_bytes(own)} = {_bytes(theirs)}"
    if own_kind == their_kind:
        linked = own_kind in WHOLE or _COMPARED.fullmatch(own_kind)
        return f"{own} = {theirs}" if linked else None
    whole = own_kind in WHOLE and their_kind in WHOLE
    if not whole or _TOO_WIDE in (own_kind, their_kind):
        return None
    return f"CAST({own} AS {_WIDEST}) = CAST({theirs} AS {_WIDEST})"


def is_key(parent: Stored, columns: tuple[str, ...]) -> bool:
    """Whether DuckDB lets no two records of a table have the same values in some columns, but for NULL."""
    wanted = frozenset(map(fold, columns))
    return any(key <= wanted for key in parent.unique)


def at_home(policy: Policy, database: str) -> Policy:
    """The policy as a table of a database has it: its links lead to tables of the same database."""
    home = fold(database)
    return replace(
        policy, links=tuple(replace(link, parent=link.parent._replace(catalog=home)) for link in policy.links)
    )


def owner_path(catalog: Catalog, table: TableName) -> tuple[Link, ...]:
    """The links from a protected table up to the one that has the unit's column; none where it has that itself."""
    path = chain(catalog.protected, table)
    assert path is not None
    return path


def owner_column(catalog: Catalog, table: TableName) -> str | None:
    """The unit's column, of the table at the end of `owner_path`; None: each record is a unit."""
    return catalog.protected[last(owner_path(catalog, table), table)].policy.privacy_unit


def own_unit(protected: Mapping[TableName, Protected], table: TableName) -> str | None:
    """The table's own column that is the unit, folded; None if it has none.

    A link to the very column of the unit has its value, as that of orders to the customers' numbers.
    """
    policy = protected[table].policy
    if not policy.is_linked:
        return None if policy.privacy_unit is None else fold(policy.privacy_unit)
    (link,) = policy.links
    above = protected[link.parent].policy
    if above.is_linked or above.privacy_unit is None:
        return None
    own = {fold(theirs): fold(mine) for mine, theirs in zip(link.columns, link.parent_columns, strict=True)}
    return own.get(fold(above.privacy_unit))


def last(path: tuple[Link, ...], table: TableName) -> TableName:
    """The table at the end of a path that begins at `table`."""
    return path[-1].parent if path else table


def chain(protected: Mapping[TableName, Protected], table: TableName) -> tuple[Link, ...] | None:
    """As `owner_path`; None where a table on the way is not protected, or comes twice."""
    path: list[Link] = []
    table_names = {table}
    while protected[table].policy.is_linked:
        (link,) = protected[table].policy.links
        table = link.parent
        if table in table_names or table not in protected:
            return None
        table_names.add(table)
        path.append(link)
    return tuple(path)


def is_severed(protected: Mapping[TableName, Protected], table: TableName) -> bool:
    """Whether the owners of a linked table's records cannot be looked up any more: of another table never.

    It follows from policies and schemas: a table on the way is gone or not protected, or lacks a column or the key, or
    its columns have other types, or the unit's column identifies units in no canonical way.
    """
    policy, stored = protected[table].policy, protected[table].stored
    if not policy.is_linked:
        return False
    path = chain(protected, table)
    if path is None or stored is None or OWNER in stored.types:
        return True
    for link in path:
        parent = protected[link.parent]
        if parent.policy.population != policy.population or not _joins(stored, link, parent.stored):
            return True
        stored = parent.stored
        assert stored is not None
    unit = protected[path[-1].parent].policy.privacy_unit
    return unit is None or canonical(stored.types.get(fold(unit), "")) is None


def with_owners(protected: Mapping[TableName, Protected], table: TableName) -> Protected:
    """A linked table with the query for its records' owners, or severed."""
    here = protected[table]
    severed = is_severed(protected, table)
    return replace(here, severed=severed, owned=None if severed else owned(protected, table))


def owned(protected: Mapping[TableName, Protected], table: TableName) -> Owned:
    """How the records of a linked table get their owner. The table must not be severed.

    Each record comes once at most, since the parents' columns are keys.
    """
    path, child = chain(protected, table), protected[table].stored
    assert path
    assert child is not None
    joins, alias, stored = [], "r", child
    for at, link in enumerate(path, start=1):
        parent = protected[link.parent].stored
        assert parent is not None
        tests = " AND ".join(_conditions(stored, alias, link, parent, f"p{at}"))
        joins.append(f"{quoted(parent.path)} AS p{at} ON {tests}")
        alias, stored = f"p{at}", parent
    unit = protected[path[-1].parent].policy.privacy_unit
    assert unit is not None
    above = protected[path[0].parent].stored
    assert above is not None
    by = tuple(map(identifier, path[0].columns))
    if any(_is_text(child.types[fold(column)]) for column in path[0].columns):
        by = ()
    return Owned(quoted(child.path), quoted(above.path), tuple(joins), f"{alias}.{identifier(unit)}", by)


def _joins(child: Stored, link: Link, parent: Stored | None) -> bool:
    """Whether a link can be followed: the columns exist, their types meet, and those of the parent are a key."""
    if parent is None or not is_key(parent, link.parent_columns):
        return False
    if not {*map(fold, link.columns)} <= set(child.types) or not {*map(fold, link.parent_columns)} <= set(parent.types):
        return False
    return None not in _compared(child, "r", link, parent, "p")


def _conditions(child: Stored, alias: str, link: Link, parent: Stored, other: str) -> list[str]:
    return [text for text in _compared(child, alias, link, parent, other) if text is not None]


def _compared(child: Stored, alias: str, link: Link, parent: Stored, other: str) -> list[str | None]:
    """The conditions of a join, for each pair of columns; None for a pair whose types are not linked."""
    return [
        met(
            f"{alias}.{identifier(own)}",
            child.types[fold(own)],
            f"{other}.{identifier(theirs)}",
            parent.types[fold(theirs)],
        )
        for own, theirs in zip(link.columns, link.parent_columns, strict=True)
    ]


def _is_text(kind: str) -> bool:
    return kind == "VARCHAR" or kind.startswith("ENUM(")


def _bytes(text: str) -> str:
    return f"system.main.encode(CAST({text} AS VARCHAR))"
