"""Domains: the values by which columns may be grouped, declared by a steward and copied to the schema `duckanon`.

No record of the protected table is read. The copies do not change while the policy holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from duckanon.catalog.domain_sources import ENUM, DomainSource, Range, WithNull, is_found
from duckanon.catalog.domain_values import FINDABLE, misfit, objection, of_other_column
from duckanon.catalog.names import TableName, candidates, fold, literal, parts, parts_of_column, quoted, spelled
from duckanon.catalog.openings import ALL_TABLES
from duckanon.catalog.policy import Domain, Policy
from duckanon.errors import InvalidInput
from duckanon.governance.domain_copies import cast, creation, types_of, written_out
from duckanon.governance.ledger import Ledger
from duckanon.governance.ledger_state import LedgerState, TablePolicy
from duckanon.governance.ledger_tables import schema_of
from duckanon.governance.locations import Location
from duckanon.governance.policy_changes import comparable
from duckanon.governance.view_dependencies import reads

# The most values of a domain: nobody groups by more.
_MOST = 1_000_000


@dataclass(frozen=True)
class _Copy:
    """A copy to make. columns: of the protected table, with their types. query: gives the copy's rows.

    lost: a query that counts values which the columns' types would change, as by rounding; empty if none can change.
    copied: of an open table its schema and name, and its columns in the order of `columns`.
    """

    columns: Mapping[str, str]
    query: str
    lost: str = ""
    copied: tuple[tuple[str, str], tuple[str, ...]] | None = None


@dataclass(frozen=True)
class _Relation:
    """A table or view, and the types of its columns by their folded names. is_open: whether analysts read it."""

    path: tuple[str, str, str]
    types: Mapping[str, str]
    is_open: bool

    def has(self, column: str) -> bool:
        return self.is_open and fold(column) in self.types


class Domains:
    """The domains of one table's policy, first checked and then copied. types: of the table's columns, by name."""

    def __init__(self, location: Location, types: Mapping[str, str], ledger: Ledger) -> None:
        self._location, self._ledger = location, ledger
        self._types = {fold(name): kind for name, kind in types.items()}
        self._columns: tuple[str, ...] = ()
        self._copies: dict[str, _Copy] = {}
        # Of a policy that is changed in place: the copies that stay.
        self._kept: dict[str, Domain] = {}

    def check(self, policy: Policy, state: LedgerState) -> None:
        """Plan the copies. Raises InvalidInput unless each source is a list of fitting values or an open table."""
        self._columns, self._copies, self._kept = tuple(policy.domains), {}, {}
        for column, source in policy.domains.items():
            if fold(column) not in self._types:
                raise InvalidInput(f'domains names a column "{column}", which {self._location.label} does not have.')
            if policy.delta is not None and is_found(source):
                _check_found(column, self._types[fold(column)], policy)
            else:
                self._copies[column] = self._planned(column, source, policy, state)

    def grown(self, policy: Policy, standing: TablePolicy, state: LedgerState) -> dict[str, int]:
        """As `check`, for a policy that is to change one that stands: by folded column how many values a domain gains.

        Copies that gain none stay. Raises InvalidInput for a domain that would lose a value.
        """
        self.check(policy, state)
        sources = {fold(name): source for name, source in standing.policy.domains.items()}
        for column, source in policy.domains.items():
            if fold(column) in sources:
                comparable(column, sources[fold(column)], source)
        found: dict[str, int] = {}
        for column, copy in list(self._copies.items()):
            before = sources.get(fold(column))
            stands = standing.domains.get(fold(column))
            gained = self._gained(column, copy, stands, is_same=before == policy.domains[column])
            if gained or stands is None:
                found[fold(column)] = gained
            else:
                del self._copies[column]
                self._kept[column] = stands
        return found

    def _gained(self, column: str, copy: _Copy, stands: Domain | None, *, is_same: bool) -> int:
        """How many values a copy that is to be made has that the standing one lacks.

        is_same: whether the source is the one that stands, so that a copy of it which lost values is not to be made.
        """
        if stands is not None and is_same and copy.copied is None:
            return 0
        names = _listed(copy.columns)
        new = f"SELECT DISTINCT {names} FROM ({copy.query})"
        with self._ledger.cursor() as cursor:
            try:
                if stands is None:
                    return _number(cursor, new)
                old = f"SELECT {names} FROM {schema_of(self._location.database)}.{quoted([stands.table])}"
                lost, gained = _number(cursor, f"{old} EXCEPT {new}"), _number(cursor, f"{new} EXCEPT {old}")
            except duckdb.Error:
                raise _misfit(column) from None
        same_table = (copy.copied and copy.copied[0]) == (stands.copied and stands.copied[0])
        if lost or not same_table or sorted(map(fold, stands.columns)) != sorted(map(fold, copy.columns)):
            if is_same:
                return 0
            raise InvalidInput(
                f'The domain of "{column}" would lose values that it has, and in place it only gets more: keep them, '
                "or unprotect the table first."
            )
        return gained

    def planned(self, policy: Policy, number: int) -> dict[str, Any]:
        """The names and columns of the copies, and that types were checked, for the ledger's line of that number."""
        copies = [
            (at, column, self._copies[column]) for at, column in enumerate(policy.domains) if column in self._copies
        ]
        kept = {
            fold(column): [
                domain.table,
                list(domain.columns),
                domain.checked,
                *([domain.copied] if domain.copied else []),
            ]
            for column, domain in self._kept.items()
        }
        return kept | {
            fold(column): [f"domain_{number}_{at}", list(one.columns), True, *([one.copied] if one.copied else [])]
            for at, column, one in copies
        }

    def copy(self, cursor: duckdb.DuckDBPyConnection, number: int) -> None:
        """Make the copies, in the transaction that adds the ledger's line of that number."""
        for at, column in enumerate(self._columns):
            if column not in self._copies:
                continue
            one = self._copies[column]
            table = f"{schema_of(self._location.database)}.domain_{number}_{at}"
            try:
                cursor.execute(creation(table, one.query)).fetchall()
                ((size,),) = cursor.execute(f"SELECT system.main.count(*) FROM {table}").fetchall()
                ((lost,),) = cursor.execute(one.lost).fetchall() if one.lost else [(0,)]
            except duckdb.TransactionException:
                raise
            except duckdb.Error:
                raise _misfit(column) from None
            if lost:
                raise _misfit(column)
            if not 0 < size <= _MOST:
                raise InvalidInput(f'The domain of "{column}" must have 1 to {_MOST:,} values.')

    def _planned(self, column: str, source: DomainSource, policy: Policy, state: LedgerState) -> _Copy:
        kind = self._types[fold(column)]
        name = quoted([column])
        _check(objection(column, source, kind))
        if isinstance(source, tuple | Range):
            return _Copy({column: kind}, written_out(column, source, kind))
        named = source.name if isinstance(source, WithNull) else source
        if named == ENUM and kind.startswith("ENUM("):
            query = f"SELECT CAST(system.main.unnest(system.main.enum_range(NULL::{kind})) AS VARCHAR) AS {name}"
            null = f" UNION ALL SELECT {cast('NULL', kind)}" if isinstance(source, WithNull) else ""
            return _Copy({column: kind}, query + null)
        return self._of_table(column, source, policy, state)

    def _of_table(self, column: str, source: str | WithNull, policy: Policy, state: LedgerState) -> _Copy:
        """A copy of a column of an open table, with those of its columns that are above it in the hierarchy."""
        opened, theirs = self._looked_up(column, source, state)
        folded = [fold(one) for one in policy.hierarchy]
        above = policy.hierarchy[: folded.index(fold(column))] if fold(column) in folded else ()
        sources = {fold(one): domain for one, domain in policy.domains.items()}
        named = {one: self._beside(opened, one, sources.get(fold(one)), state) for one in above}
        columns = {text: each for text, each in named.items() if each is not None} | {column: theirs}
        kinds = {column: self._types[fold(column)] for column in columns}
        for name, each in columns.items():
            _check(of_other_column(name, opened.types[each], kinds[name]))
        path = quoted(opened.path)
        casts = {text: cast(quoted([each]), kinds[text]) for text, each in columns.items()}
        back = {each: f"CAST({casts[one]} AS {opened.types[each]})" for one, each in columns.items()}
        differs = " OR ".join(f"{value} IS DISTINCT FROM {quoted([each])}" for each, value in back.items())
        query = f"SELECT {_shown(casts)} FROM {path}"
        # NULL stands beside the values of each region above, and of each that is NULL itself.
        for name in reversed(columns):
            if not isinstance(sources.get(fold(name)), WithNull):
                break
            casts[name] = cast("NULL", kinds[name])
            query += f" UNION ALL SELECT {_shown(casts)} FROM {path}"
        lost = f"SELECT system.main.count(*) FROM {path} WHERE {differs}"
        _, *table = opened.path
        return _Copy(kinds, query, lost, ((table[0], table[1]), tuple(columns.values())))

    def _beside(self, opened: _Relation, column: str, source: DomainSource | None, state: LedgerState) -> str | None:
        """The column of an open table, folded, that has the values of a column above: its domain, or of its name."""
        if isinstance(source, str | WithNull) and (source if isinstance(source, str) else source.name) != ENUM:
            of, theirs = self._looked_up(column, source, state)
            if of.path == opened.path:
                return theirs
        return fold(column) if fold(column) in opened.types else None

    def _elsewhere(self, column: str, named: Sequence[str], state: LedgerState) -> str | None:
        """An open table, or a column of one, in a schema where names are not looked up, with its schema."""
        for (schema, table), _ in sorted(state.opened.items(), key=str):
            of = self._relation([schema, table], state) if schema else None
            if schema is None or of is None or not of.is_open:
                continue
            if [fold(name) for name in named] == [table] and of.has(column):
                return spelled([schema, table])
            if [fold(name) for name in named[:-1]] == [table] and of.has(named[-1]):
                return spelled([schema, table, named[-1]])
        return None

    def _looked_up(self, column: str, source: str | WithNull, state: LedgerState) -> tuple[_Relation, str]:
        """The open table that a domain names, and the column of it, folded: that of the same name unless it says.

        Raises InvalidInput.
        """
        source = source.name if isinstance(source, WithNull) else source
        whole = self._relation(parts(source), state)
        if whole is not None and whole.has(column):
            return whole, fold(column)
        *table, last = parts_of_column(source)
        of = self._relation(table, state) if table else None
        if of is not None and of.has(last):
            if whole is None:
                return of, fold(last)
            raise InvalidInput(
                f'The domain of "{column}" is {source}, which is a table and a column of another one: write the '
                f"schema too, as in {literal(spelled([*of.path[1:], last]))}."
            )
        if whole is not None and whole.is_open:
            raise _misfit(column)
        if whole is None and of is not None and of.is_open:
            raise InvalidInput(
                f'The domain of "{column}" is {source}, and the open table {spelled(table)} has no such column: name '
                "one that it has, or list the values."
            )
        if is_found(source):
            raise InvalidInput(
                f'The values of "{column}" are to be found with noise, for which the population needs a delta, '
                "which it gets when it is first named: list the values, or name an open table."
            )
        if source == ENUM:
            raise InvalidInput(
                f'The domain of "{column}" is ENUM, and the column is of another type: list the values, or name an '
                "open table."
            )
        elsewhere = self._elsewhere(column, parts_of_column(source), state)
        if whole is None and of is None and elsewhere is not None:
            raise InvalidInput(
                f'The domain of "{column}" is {source}, and the open table is in a schema of its own: write '
                f"{literal(elsewhere)}."
            )
        shut = source if of is None or whole is not None else spelled(table)
        raise InvalidInput(
            f'The domain of "{column}" is {source}, which is not open: open_table({literal(shut)}) first, or list the '
            "values."
        )

    def _relation(self, name: Sequence[str], state: LedgerState) -> _Relation | None:
        """The table or view that a name in parts means in the protected table's database."""
        named = [fold(part) for part in name]
        written = TableName(*([""] * (3 - len(named)) + named))
        database, schema = fold(self._location.database), fold(self._location.schema or "main")
        for candidate in candidates(written, [(database, schema), (database, "main")]):
            if candidate.catalog != database or candidate.object == ALL_TABLES:
                continue
            path = (self._location.database, candidate.schema, candidate.object)
            with self._ledger.cursor() as cursor:
                types = types_of(cursor, path)
                if types is None:
                    continue
                is_open = state.is_open((candidate.schema, candidate.object), list(types))
                is_open = is_open and not state.protected_among(reads(cursor, Location(*path)))
            return _Relation(path, {fold(name): kind for name, kind in types.items()}, is_open)
        return None


def _check_found(column: str, kind: str, policy: Policy) -> None:
    """Raises InvalidInput for a column whose values cannot be found with noise."""
    if kind not in FINDABLE:
        raise InvalidInput(
            f'The values of "{column}" cannot be found with noise, since they are no texts, whole numbers, dates or '
            "truth values: list them, or name an open table."
        )
    if fold(column) in map(fold, policy.hierarchy):
        raise InvalidInput(
            f'"{column}" is in the hierarchy, whose regions are all told: list its values, or name an open table.'
        )


def _listed(columns: Iterable[str]) -> str:
    """Columns in SQL, with commas between them."""
    return ", ".join(quoted([column]) for column in columns)


def _number(cursor: duckdb.DuckDBPyConnection, query: str) -> int:
    ((value,),) = cursor.execute(f"SELECT system.main.count(*) FROM ({query})").fetchall()
    return int(value)


def _misfit(column: str) -> InvalidInput:
    return InvalidInput(misfit(column))


def _check(objection: str | None) -> None:
    if objection is not None:
        raise InvalidInput(objection)


def _shown(casts: Mapping[str, str]) -> str:
    return ", ".join(f"{cast} AS {quoted([name])}" for name, cast in casts.items())
