"""Domains: the values by which columns may be grouped, declared by a steward and copied to the schema `duckanon`.

No record of the protected table is read. The copies do not change while the policy holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from duckanon.catalog.domain_values import misfit, objection, of_other_column
from duckanon.catalog.names import TableName, candidates, fold, literal, parts, quoted
from duckanon.catalog.policy import ENUM, Policy
from duckanon.errors import InvalidInput
from duckanon.governance.ledger import Ledger, schema_of
from duckanon.governance.ledger_state import ALL_TABLES, LedgerState
from duckanon.governance.locations import Location
from duckanon.governance.view_dependencies import reads

# The most values of a domain: nobody groups by more.
_MOST = 1_000_000


@dataclass(frozen=True)
class _Copy:
    """A copy to make. columns: of the protected table, with their types. query: gives the copy's rows.

    lost: a query that counts values which the columns' types would change, as by rounding; empty if none can change.
    """

    columns: Mapping[str, str]
    query: str
    lost: str = ""


@dataclass(frozen=True)
class _Opened:
    """An open table, and the types of its columns by their folded names."""

    path: tuple[str, str, str]
    types: Mapping[str, str]


class Domains:
    """The domains of one table's policy, first checked and then copied. types: of the table's columns, by name."""

    def __init__(self, location: Location, types: Mapping[str, str], ledger: Ledger) -> None:
        self._location, self._ledger = location, ledger
        self._types = {fold(name): kind for name, kind in types.items()}
        self._copies: dict[str, _Copy] = {}

    def check(self, policy: Policy, state: LedgerState) -> None:
        """Plan the copies. Raises InvalidInput unless each source is a list of fitting values or an open table."""
        for column, source in policy.domains.items():
            if fold(column) not in self._types:
                raise InvalidInput(f'domains names a column "{column}", which {self._location.label} does not have.')
            self._copies[column] = self._planned(column, source, policy, state)

    def planned(self, policy: Policy, number: int) -> dict[str, Any]:
        """The names and columns of the copies, and that types were checked, for the ledger's line of that number."""
        return {
            fold(column): [f"domain_{number}_{at}", list(self._copies[column].columns), True]
            for at, column in enumerate(policy.domains)
        }

    def copy(self, cursor: duckdb.DuckDBPyConnection, number: int) -> None:
        """Make the copies, in the transaction that adds the ledger's line of that number."""
        for at, (column, one) in enumerate(self._copies.items()):
            table = f"{schema_of(self._location.database)}.domain_{number}_{at}"
            try:
                cursor.execute(
                    f"CREATE TABLE {table} AS SELECT DISTINCT * FROM ({one.query}) ORDER BY ALL ASC NULLS LAST"
                ).fetchall()
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

    def _planned(self, column: str, source: Any, policy: Policy, state: LedgerState) -> _Copy:
        kind = self._types[fold(column)]
        name = quoted([column])
        if isinstance(source, tuple):
            _check(objection(column, source, kind))
            values = ", ".join(f"({_cast(_literal(one), kind)})" for one in source)
            return _Copy({column: kind}, f"SELECT * FROM (VALUES {values}) AS _dk_listed({name})")
        if source == ENUM and kind.startswith("ENUM("):
            query = f"SELECT CAST(system.main.unnest(system.main.enum_range(NULL::{kind})) AS VARCHAR) AS {name}"
            return _Copy({column: kind}, query)
        return self._of_table(column, str(source), policy, state)

    def _of_table(self, column: str, source: str, policy: Policy, state: LedgerState) -> _Copy:
        """A copy of `column` from an open table, with those of its columns that are above `column` in the hierarchy."""
        opened = self._opened(source, state)
        if opened is None:
            if source == ENUM:
                raise InvalidInput(
                    f'The domain of "{column}" is ENUM, and the column is of another type: list the values, or name an '
                    "open table."
                )
            raise InvalidInput(
                f'The domain of "{column}" is {source}, which is not open: open_table({_literal(source)}) first, or '
                "list the values."
            )
        if fold(column) not in opened.types:
            raise _misfit(column)
        above = [fold(one) for one in policy.hierarchy]
        wanted = policy.hierarchy[: above.index(fold(column))] if fold(column) in above else ()
        columns = [one for one in wanted if fold(one) in opened.types] + [column]
        kinds = {one: self._types[fold(one)] for one in columns}
        for one, kind in kinds.items():
            _check(of_other_column(one, opened.types[fold(one)], kind))
        casts = {quoted([one]): _cast(quoted([one]), kind) for one, kind in kinds.items()}
        shown = ", ".join(f"{cast} AS {name}" for name, cast in casts.items())
        back = [f"CAST({casts[quoted([one])]} AS {opened.types[fold(one)]})" for one in columns]
        differs = " OR ".join(f"{one} IS DISTINCT FROM {name}" for one, name in zip(back, casts, strict=True))
        path = quoted(opened.path)
        lost = f"SELECT system.main.count(*) FROM {path} WHERE {differs}"
        return _Copy(kinds, f"SELECT {shown} FROM {path}", lost)

    def _opened(self, source: str, state: LedgerState) -> _Opened | None:
        named = [fold(part) for part in parts(source)]
        written = TableName(*([""] * (3 - len(named)) + named))
        database, schema = fold(self._location.database), fold(self._location.schema or "main")
        for one in candidates(written, [(database, schema), (database, "main")]):
            if one.catalog != database or one.object == ALL_TABLES:
                continue
            path = (self._location.database, one.schema, one.object)
            with self._ledger.cursor() as cursor:
                types = _types(cursor, path)
                if types is None:
                    continue
                opened = state.is_open((one.schema, one.object), list(types))
                if not opened or state.protected_among(reads(cursor, Location(*path))):
                    return None
            return _Opened(path, {fold(name): kind for name, kind in types.items()})
        return None


def _types(con: duckdb.DuckDBPyConnection, path: tuple[str, str, str]) -> dict[str, str] | None:
    """The columns of a table or view, with their types; None if there is no such table or view."""
    try:
        found = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {quoted(path)})").fetchall()
    except duckdb.Error:
        return None
    return dict(found)


def _misfit(column: str) -> InvalidInput:
    return InvalidInput(misfit(column))


def _check(objection: str | None) -> None:
    if objection is not None:
        raise InvalidInput(objection)


def _cast(value: str, kind: str) -> str:
    """A value in SQL as the copy holds it: values of an ENUM as text, since its type would show all its values."""
    cast = f"CAST({value} AS {kind})"
    return f"CAST({cast} AS VARCHAR)" if kind.startswith("ENUM(") else cast


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return literal(str(value))
