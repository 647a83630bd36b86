"""The ledger: one line for each charge and each change of a policy, in the schema `duckanon` of the database itself.

Lines are only ever added. A line's number is one above the last one's, and the primary key: of two writers who saw the
same last line, one fails and looks again. So what a writer checked before adding its line holds when the line stands.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from fractions import Fraction
from threading import Lock
from time import monotonic

import duckdb

from duckanon.accounting import Budget, Charge, sequential, written
from duckanon.errors import BudgetExhausted, InvalidInput
from duckanon.governance.door import Door
from duckanon.governance.places import Place
from duckanon.governance.policy import Policy

SCHEMA = "duckanon"
_TABLES = """
  CREATE SCHEMA IF NOT EXISTS {schema};
  CREATE TABLE IF NOT EXISTS {schema}.ledger (
    number BIGINT PRIMARY KEY,
    recorded_at TIMESTAMP NOT NULL,
    who VARCHAR NOT NULL,
    schema_name VARCHAR,
    table_name VARCHAR NOT NULL,
    action VARCHAR NOT NULL,
    epsilon VARCHAR,
    what VARCHAR NOT NULL,
    neighbours VARCHAR,
    release VARCHAR,
    policy VARCHAR
  );
  CREATE TABLE IF NOT EXISTS {schema}.releases (
    release VARCHAR PRIMARY KEY,
    number BIGINT NOT NULL,
    answer BLOB NOT NULL
  );
"""
# How long a writer tries again while others are faster.
_PATIENCE = 60.0


@dataclass(frozen=True)
class Line:
    """One line. recorded_at is UTC; schema_name is None for files, data frames and CTEs.

    action: 'charge', 'release' (one without noise, which costs no epsilon), 'protect' or 'unprotect'. epsilon: exact,
    of a charge. release: the key of what a charge was for, or as JSON what was released without noise. policy: JSON, of
    a table that is protected from here on.
    """

    number: int
    recorded_at: datetime
    who: str
    schema_name: str | None
    table_name: str
    action: str
    epsilon: str | None
    what: str
    neighbours: str | None
    release: str | None
    policy: str | None

    @property
    def place(self) -> Place:
        return Place("", self.schema_name, self.table_name)

    @property
    def charge(self) -> Fraction:
        """What the line cost; zero for a change of a policy."""
        return Fraction(self.epsilon) if self.epsilon is not None else Fraction(0)


_SAME = (
    "system.main.lower(schema_name) = system.main.lower($schema) "
    "AND system.main.lower(table_name) = system.main.lower($name)",
    "schema_name IS NULL AND table_name = $name",
)
_COLUMNS = ", ".join(field.name for field in fields(Line))


@dataclass(frozen=True)
class Account:
    """What the ledger says about one table: its policy, if it is protected, and what was spent on it, ever."""

    policy: Policy | None = None
    spent: Fraction = Fraction(0)
    charges: int = 0
    since: datetime | None = None

    @property
    def budget(self) -> Budget | None:
        return None if self.policy is None else Budget(self.policy.epsilon, self.spent)

    def then(self, line: Line) -> Account:
        """The account after one more line."""
        if line.action == "charge":
            return Account(self.policy, sequential([self.spent, line.charge]), self.charges + 1, self.since)
        if line.action == "release":
            return self
        policy = None if line.policy is None else Policy.load(line.policy)
        return Account(policy, self.spent, self.charges, None if policy is None else line.recorded_at)


def accounts(lines: Iterable[Line]) -> Iterator[tuple[Line, Account]]:
    """Each line, in order, with its table's account after it."""
    found: dict[tuple[str | None, str], Account] = {}
    for line in lines:
        account = found.get(line.place.identity, Account()).then(line)
        found[line.place.identity] = account
        yield line, account


def schema_of(database: str) -> str:
    """The schema's name in SQL."""
    return '"' + database.replace('"', '""') + f'".{SCHEMA}'


class Ledger:
    """The ledgers of all databases of one instance."""

    def __init__(self, door: Door) -> None:
        self._door = door
        # Writers of one process take turns; those of another module or library are met by the primary key.
        self._turn = Lock()

    def databases(self) -> list[str]:
        """The databases that can have a ledger."""
        with self._door.cursor() as cursor:
            found = cursor.execute(
                "SELECT database_name FROM system.main.duckdb_databases() "
                "WHERE NOT internal AND type = 'duckdb' ORDER BY ALL"
            )
            return [name for (name,) in found.fetchall()]

    def lines(self, database: str) -> list[Line]:
        """All lines, in order."""
        with self._door.cursor() as cursor:
            return self._read(cursor, database)

    def account(self, place: Place) -> Account:
        """What the ledger says about a table."""
        with self._door.cursor() as cursor:
            try:
                return self._account(cursor, place)
            except duckdb.CatalogException:
                return Account()

    def charge(self, place: Place, charge: Charge, release: str) -> int:
        """Record a charge for good; returns the line's number.

        Raises BudgetExhausted if the table has a budget that does not suffice.
        """

        def affordable(account: Account) -> None:
            budget = account.budget
            if budget is not None and not budget.admits(charge.epsilon):
                raise BudgetExhausted(
                    f"The privacy budget of {place.label} does not suffice: epsilon {written(charge.epsilon)} is more "
                    f"than the {written(budget.remaining)} left of {written(budget.total)}. Ask for less, or repeat an "
                    "earlier call as it was: its stored release is free."
                )

        return self._append(
            place,
            affordable,
            action="charge",
            epsilon=written(charge.epsilon),
            what=charge.what,
            neighbours=charge.neighbours,
            release=release,
        )

    def decide(self, place: Place, policy: Policy | None, what: str, allowed: Callable[[Account], None]) -> None:
        """Record a table's new policy, or that it has none any more, if `allowed` does not object."""
        self._append(
            place,
            allowed,
            action="unprotect" if policy is None else "protect",
            what=what,
            policy=None if policy is None else policy.dump(),
        )

    def note(self, place: Place, what: str, release: str | None = None) -> None:
        """Record a release that costs no epsilon. release: what later decisions have to know of it."""
        self._append(place, lambda _: None, action="release", what=what, release=release)

    def noted(self, place: Place) -> list[str]:
        """What was recorded of the releases of a table that cost no epsilon, in order."""
        return [
            line.release
            for line in self.lines(place.database)
            if line.action == "release" and line.release is not None and line.place.identity == place.identity
        ]

    @contextmanager
    def transaction(self, database: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction of its own, committed at the end.

        Raises InvalidInput if the database cannot be written.
        """
        with self._door.cursor() as cursor:
            found = cursor.execute(
                "SELECT readonly, type FROM system.main.duckdb_databases() WHERE database_name = ?", [database]
            )
            ((readonly, kind),) = found.fetchall()
            if readonly or kind != "duckdb":
                why = "is read-only" if readonly else f"is of type {kind}"
                raise InvalidInput(
                    f"A charge cannot be recorded: the database {database} {why}. Open a DuckDB database for writing."
                )
            cursor.begin()
            try:
                yield cursor
                cursor.commit()
            except BaseException:
                _roll_back(cursor)
                raise

    def _append(self, place: Place, allowed: Callable[[Account], None], **values: str | None) -> int:
        until = monotonic() + _PATIENCE
        with self._turn:
            while True:
                try:
                    return self._try(place, allowed, values)
                except (duckdb.ConstraintException, duckdb.TransactionException):
                    # Somebody else was faster: what was allowed may not be any more.
                    if monotonic() > until:
                        raise InvalidInput(
                            f"A charge cannot be recorded: the ledger of {place.database} is busy. Try again."
                        ) from None

    def _try(self, place: Place, allowed: Callable[[Account], None], values: dict[str, str | None]) -> int:
        with self.transaction(place.database) as cursor:
            cursor.execute(_TABLES.format(schema=schema_of(place.database))).fetchall()
            allowed(self._account(cursor, place))
            ((last,),) = cursor.execute(
                f"SELECT system.main.max(number) FROM {schema_of(place.database)}.ledger"
            ).fetchall()
            line = {
                "number": (last or 0) + 1,
                "recorded_at": datetime.now(UTC).replace(tzinfo=None),
                "who": _user(),
                "schema_name": place.schema,
                "table_name": place.name,
                **values,
            }
            cursor.execute(
                f"INSERT INTO {schema_of(place.database)}.ledger ({', '.join(line)}) "
                f"VALUES ({', '.join('?' * len(line))})",
                list(line.values()),
            ).fetchall()
        return (last or 0) + 1

    def _account(self, cursor: duckdb.DuckDBPyConnection, place: Place) -> Account:
        """One table's account. However long the ledger is, few rows leave the database."""
        of_place = f"FROM {schema_of(place.database)}.ledger WHERE {_SAME[place.schema is None]}"
        where = {"name": place.name} if place.schema is None else {"name": place.name, "schema": place.schema}
        charges = cursor.execute(
            f"SELECT epsilon, system.main.count(*) {of_place} AND action = 'charge' GROUP BY epsilon", where
        ).fetchall()
        changes = cursor.execute(
            f"SELECT policy, recorded_at {of_place} AND action IN ('protect', 'unprotect') "
            "ORDER BY number DESC LIMIT 1",
            where,
        ).fetchall()
        policy, since = changes[0] if changes else (None, None)
        return Account(
            None if policy is None else Policy.load(policy),
            sequential(Fraction(epsilon) * count for epsilon, count in charges),
            sum(count for _, count in charges),
            since if policy is not None else None,
        )

    def _read(self, cursor: duckdb.DuckDBPyConnection, database: str) -> list[Line]:
        try:
            found = cursor.execute(f"SELECT {_COLUMNS} FROM {schema_of(database)}.ledger ORDER BY number")
        except duckdb.CatalogException:
            return []
        return [Line(*row) for row in found.fetchall()]


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.rollback()
    except duckdb.Error:
        # A transaction that failed to commit is gone already.
        return


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
