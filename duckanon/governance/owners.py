"""Links to the owners of records, as a steward declares them: checked against the catalog when a policy is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from duckanon.catalog.links import at_home, canonical, chain, is_key, is_severed, last, met, owned
from duckanon.catalog.names import TableName, fold, parts_of_column, quoted, spelled
from duckanon.catalog.policy import OWNER, Link, Policy
from duckanon.catalog.reader import stored_tables
from duckanon.catalog.snapshot import Protected, Stored
from duckanon.errors import InvalidInput
from duckanon.governance.ledger import Ledger
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.locations import Location, locate, seen


@dataclass(frozen=True)
class _Parent:
    """The table that a link leads to, and its columns, one for each column of the link, as they were written."""

    location: Location
    columns: tuple[str, ...]

    @property
    def name(self) -> TableName:
        return TableName(*map(fold, self.location.path))

    def told(self, columns: Sequence[str]) -> str:
        return ", ".join(f"{self.location.label}.{column}" for column in columns)


class Owners:
    """The owners of a table's records, by its link. lookup: where the steward looks names up.

    types: of the table's columns, by name. Public facts are read as they are committed.
    """

    def __init__(self, location: Location, lookup: Mapping[str, Any], types: Mapping[str, str], ledger: Ledger) -> None:
        self._location, self._lookup, self._types, self._ledger = location, lookup, types, ledger

    def resolved(self, policy: Policy, state: LedgerState) -> Policy:
        """The policy with its link made out. Raises InvalidInput where the link does not give each record one owner."""
        if not policy.link:
            return policy
        with self._ledger.cursor() as cursor:
            parent, stored = self._parent(cursor, policy), stored_tables(cursor)
        own = {fold(name): name for name in self._types}
        for column in policy.link:
            if fold(column) not in own:
                raise InvalidInput(f'link names a column "{column}", which {self._location.label} does not have.')
        if fold(OWNER) in own:
            raise InvalidInput(f'The column name "{OWNER}" is reserved for duckanon: rename the column.')
        self._check_population(parent, policy, state)
        theirs = stored.get(parent.name)
        if theirs is None:
            raise InvalidInput(f"link names {parent.location.label}, and there is no such table that is committed.")
        link = Link(
            tuple(own[fold(name)] for name in policy.link),
            TableName("", *parent.name[1:]),
            tuple(_column(parent, theirs, column) for column in parent.columns),
        )
        self._check_types(link, parent, theirs)
        _check_key(link, parent, theirs)
        return replace(policy, links=(link,), owner=self._in_words(link, parent, state))

    def kind(self, policy: Policy, state: LedgerState) -> str | None:
        """By what the unit's column identifies units, as `canonical` has it; of a linked table its root's.

        Raises InvalidInput for a linked table whose owners cannot be looked up.
        """
        if not policy.links:
            kinds = {fold(name): kind for name, kind in self._types.items()}
            return canonical(kinds.get(fold(policy.privacy_unit or ""), ""))
        with self._ledger.cursor() as cursor:
            stored = stored_tables(cursor)
        database, own = self._location.database, TableName(*map(fold, self._location.path))
        protected = {
            **protected_tables(state, database, stored),
            own: Protected(at_home(policy, database), Stored(self._location.path, self._types)),
        }
        path = chain(protected, own)
        if path is None:
            raise InvalidInput(
                f"The links of {self._location.label} lead in a circle, or to a table that is not protected any more: "
                "protect the tables in order, the one with the unit's column first."
            )
        root = protected[last(path, own)]
        kind = canonical((root.stored or Stored()).types.get(fold(root.policy.privacy_unit or ""), ""))
        if kind is None:
            raise InvalidInput(
                f"The privacy unit of {self._location.label}, {policy.owner}, is neither a whole number nor a UUID nor "
                "a text, and only these are looked up by links: cast the column."
            )
        if is_severed(protected, own):
            raise InvalidInput(
                f"The owners of the records of {self._location.label} cannot be looked up, since a table on the way "
                "has changed since it was protected: unprotect that table and protect it again."
            )
        return kind

    def _parent(self, cursor: duckdb.DuckDBPyConnection, policy: Policy) -> _Parent:
        """The one table that all columns of a link lead to."""
        parents: dict[TableName, _Parent] = {}
        for written in policy.link.values():
            *table, column = parts_of_column(written)
            name = spelled(table)
            location = locate(name, {**self._lookup, "found": seen(cursor, name)["found"]})
            if not location.lasting or location.definition:
                raise InvalidInput(
                    f"link names {name}, which is no table of the database: write the table and its column, as in "
                    "link := {'l_orderkey': 'orders.o_orderkey'}."
                )
            parent = _Parent(location, ())
            before = parents.get(parent.name, parent)
            parents[parent.name] = replace(before, columns=(*before.columns, column))
        if len(parents) > 1:
            raise InvalidInput(
                "link names several tables, and a record has one owner: name columns of one table, and link that table "
                "to the next."
            )
        (parent,) = parents.values()
        if fold(parent.location.database) != fold(self._location.database):
            raise InvalidInput(f"link leads to another database than that of {self._location.label}: copy the table.")
        if parent.location.identity == self._location.identity:
            raise InvalidInput(f"link leads from {self._location.label} to itself: name the table above it.")
        return parent

    def _check_population(self, parent: _Parent, policy: Policy, state: LedgerState) -> None:
        standing, label = state.tables.get(parent.location.identity), parent.location.label
        if standing is None or standing.policy.population != policy.population:
            raise InvalidInput(
                f"link leads to {label}, which is not protected in the population {policy.population}: protect it "
                "there first, with the unit's column or a link of its own."
            )
        if standing.policy.privacy_unit is None:
            raise InvalidInput(
                f"In the policy of {label} each record is a privacy unit, so no other table's records have one: name "
                "the unit's column there."
            )

    def _check_types(self, link: Link, parent: _Parent, theirs: Stored) -> None:
        own = {fold(name): kind for name, kind in self._types.items()}
        for column, other in zip(link.columns, link.parent_columns, strict=True):
            kinds = own[fold(column)], theirs.types[fold(other)]
            if met("", kinds[0], "", kinds[1]) is None:
                raise InvalidInput(
                    f"{column} is of type {kinds[0]} and {parent.told([other])} of type {kinds[1]}, and a link is by "
                    "columns of the same type that is no float, or by whole numbers: cast one of them."
                )

    def _in_words(self, link: Link, parent: _Parent, state: LedgerState) -> str:
        above = state.tables[parent.location.identity].policy
        root, by = f"{parent.location.label}.{above.privacy_unit}", link.columns
        if above.is_linked:
            root, _, further = (above.owner or "").partition(" by ")
            return f"{root} by {', '.join(by)}, {further}"
        return f"{root} by {', '.join(by)}"


def records_of(con: duckdb.DuckDBPyConnection, location: Location, state: LedgerState, *, orphans: bool = True) -> str:
    """What stands after FROM to read a protected table's records with the column of its policy's privacy unit.

    orphans: whether records of a linked table that have no owner come too, with NULL for it. Raises InvalidInput where
    the owners cannot be looked up.
    """
    if not state.tables[location.identity].policy.is_linked:
        return quoted(location.path)
    protected = protected_tables(state, location.database, stored_tables(con))
    own = TableName(*map(fold, location.path))
    if is_severed(protected, own):
        raise InvalidInput(
            f"The owners of the records of {location.label} cannot be looked up, since a table on the way to "
            f"{state.tables[location.identity].policy.owner} is not protected any more, or lacks a column or its key: "
            "make the key again, and protect what is not."
        )
    return f"({owned(protected, own).records(orphans=orphans)})"


def protected_tables(
    state: LedgerState, database: str, stored: Mapping[TableName, Stored]
) -> dict[TableName, Protected]:
    """The protected tables of a database, as far as links need them. stored: all tables that there are."""
    named = {TableName(fold(database), schema or "", table): policy for (schema, table), policy in state.tables.items()}
    return {
        name: Protected(at_home(policy.policy, database), stored.get(name), policy.version)
        for name, policy in named.items()
    }


def _column(parent: _Parent, stored: Stored, column: str) -> str:
    """The column's name as the table has it."""
    name = {fold(column): column for column in stored.columns}.get(fold(column))
    if name is None:
        raise InvalidInput(f"link names {parent.told([column])}, and there is no such column.")
    return name


def _check_key(link: Link, parent: _Parent, stored: Stored) -> None:
    if is_key(stored, link.parent_columns):
        return
    table, columns = parent.location.written, ", ".join(spelled([column]) for column in link.parent_columns)
    are = "is no key" if len(link.parent_columns) == 1 else "are no key"
    raise InvalidInput(
        f"{parent.told(link.parent_columns)} {are}, so a record could have several owners: ALTER TABLE {table} ADD "
        f"PRIMARY KEY ({columns}), or, if it has another one, CREATE UNIQUE INDEX "
        f"{spelled([f'{parent.location.name}_by_{link.parent_columns[0]}'])} ON {table} ({columns})."
    )
