"""The ledger: a line for each charge and each decision of a steward, in the schema `duckanon` of the database.

Lines are only added. A line's number is one more than the last one's, and it is the primary key: if two writers saw the
same last line, one of them fails and tries again. So what a writer checked is still true when its line is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from datetime import UTC, datetime
from fractions import Fraction
from threading import Lock
from time import monotonic
from typing import Any, TypeAlias
from uuid import uuid4

import duckdb

from duckanon.accounting import Charge, written
from duckanon.catalog.names import identifier
from duckanon.errors import BudgetExhausted, InvalidInput
from duckanon.governance.concurrency import Askers, Cursors
from duckanon.governance.ledger_state import LedgerState, Line
from duckanon.governance.locations import Location

SCHEMA = "duckanon"
# The version of the schema's tables. A ledger of another version is not read.
FORMAT = "2"
_TABLES = """
  CREATE SCHEMA IF NOT EXISTS {schema};
  CREATE TABLE IF NOT EXISTS {schema}.meta (name VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
  CREATE TABLE IF NOT EXISTS {schema}.ledger (
    number BIGINT PRIMARY KEY,
    recorded_at TIMESTAMP NOT NULL,
    who VARCHAR NOT NULL,
    schema_name VARCHAR,
    table_name VARCHAR NOT NULL,
    population VARCHAR,
    edition BIGINT,
    action VARCHAR NOT NULL,
    epsilon VARCHAR,
    what VARCHAR NOT NULL,
    unit VARCHAR,
    neighbours VARCHAR,
    release VARCHAR,
    detail VARCHAR
  );
  CREATE TABLE IF NOT EXISTS {schema}.releases (
    release VARCHAR PRIMARY KEY,
    number BIGINT NOT NULL,
    answer BLOB NOT NULL
  );
  CREATE TABLE IF NOT EXISTS {schema}.answers (
    key VARCHAR PRIMARY KEY, number BIGINT NOT NULL, stored BOOLEAN NOT NULL
  );
"""
# Tables of the schema that are no publications.
OURS = re.compile(r"meta|ledger|releases|answers|(answer|domain)_\w+")
# Seconds for which a writer tries again while other writers are faster.
_PATIENCE = 60.0
# What DuckDB says where another writer was faster; where a disk is full it raises the same exception and quotes a path.
_CONFLICT = re.compile("conflict|constraint", re.IGNORECASE)
_QUOTED = re.compile('"[^"]*"')
_COLUMNS = ", ".join(field.name for field in fields(Line))

# Checks the current state, and gives the line to add; None adds nothing.
Decision = Callable[[LedgerState], Mapping[str, Any] | None]
# Writes more in the transaction that adds the line; it gets the line's number. (The type is text: DuckDB reports types
# of its own that a module holds as leaks when Python ends.)
WriteToo: TypeAlias = "Callable[[duckdb.DuckDBPyConnection, int], None]"


def schema_of(database: str) -> str:
    """The schema's name in SQL."""
    return f"{identifier(database)}.{SCHEMA}"


class Ledger:
    """The ledgers of all databases of one instance."""

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors
        # Writers of this module take turns; the primary key keeps others out.
        self._turn = Lock()
        # How many lines this object has added.
        self.added = 0
        self.askers = Askers()
        # Held while a line is added that is not a charge: a server lets the statements end that were decided about
        # before.
        self.before_change: Callable[[], AbstractContextManager[None]] = nullcontext
        # The last known state of each database, and the line after which it was read.
        self._known: dict[str, tuple[LedgerState, Line]] = {}

    def cursor(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A connection of governance's own, closed at the end. It sees what is committed."""
        return self._cursors.cursor()

    def databases(self) -> list[str]:
        """The names of the databases that can have a ledger."""
        with self._cursors.cursor() as cursor:
            found = cursor.execute(
                "SELECT database_name FROM system.main.duckdb_databases() "
                "WHERE NOT internal AND type = 'duckdb' ORDER BY ALL ASC"
            )
            return [name for (name,) in found.fetchall()]

    def lines(self, database: str) -> list[Line]:
        """All lines, in order. Raises InvalidInput for a ledger of another format."""
        with self._cursors.cursor() as cursor:
            return _lines(cursor, database, 0) if _has_ledger(cursor, database) else []

    def state(self, database: str, con: duckdb.DuckDBPyConnection | None = None) -> LedgerState:
        """The current state. con: a connection to read it with; None opens one.

        Raises InvalidInput for a ledger of another format.
        """
        if con is not None:
            return self._state(con, database)
        with self._cursors.cursor() as cursor:
            return self._state(cursor, database)

    def append(self, database: str, decide: Decision, write_too: WriteToo | None = None) -> int | None:
        """Add the line that `decide` gives, and what `write_too` writes, in one transaction of its own.

        Returns the line's number, or None if there was nothing to add. Raises what they raise, and InvalidInput if the
        database cannot be written; then nothing was added.
        """
        with self.before_change():
            return self.append_charge(database, decide, write_too)

    def append_charge(self, database: str, decide: Decision, write_too: WriteToo | None = None) -> int | None:
        """As `append`, for a line that changes no decision but about budgets: it waits for no statement."""
        until = monotonic() + _PATIENCE
        with self._turn:
            while True:
                try:
                    return self._try(database, decide, write_too)
                except (duckdb.ConstraintException, duckdb.TransactionException) as problem:
                    if not _CONFLICT.search(_QUOTED.sub("", str(problem))):
                        raise _cannot_write(database) from None
                    # Another writer was faster, so `decide` must look again.
                    if monotonic() > until:
                        raise InvalidInput(
                            f"Nothing can be recorded: the ledger of {database} is busy. Try again."
                        ) from None
                except duckdb.IOException:
                    raise _cannot_write(database) from None

    @contextmanager
    def transaction(self, database: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction of its own, committed at the end.

        Raises InvalidInput if the database cannot be written.
        """
        with self._cursors.cursor() as cursor:
            found = cursor.execute(
                "SELECT readonly, type FROM system.main.duckdb_databases() WHERE database_name = ?", [database]
            )
            ((readonly, kind),) = found.fetchall()
            if readonly or kind != "duckdb":
                why = "is read-only" if readonly else f"is of type {kind}"
                raise InvalidInput(
                    f"Nothing can be recorded: the database {database} {why}. Open a DuckDB database for writing."
                )
            with _one_moment(cursor):
                yield cursor

    @contextmanager
    def snapshot(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction of its own for reading: all that is read is of one moment, also of a read-only database."""
        with self._cursors.cursor() as cursor, _one_moment(cursor):
            yield cursor

    def _try(self, database: str, decide: Decision, write_too: WriteToo | None) -> int | None:
        state = self.state(database)
        values = decide(state)
        if values is None:
            return None
        with self.transaction(database) as cursor:
            cursor.execute(_TABLES.format(schema=schema_of(database))).fetchall()
            cursor.execute(
                f"INSERT OR IGNORE INTO {schema_of(database)}.meta VALUES ('format', ?), ('identity', ?)",
                [FORMAT, uuid4().hex],
            ).fetchall()
            line = {
                "number": state.number + 1,
                "recorded_at": datetime.now(UTC).replace(tzinfo=None),
                "who": self.askers.current().name,
                **{name: json.dumps(value) if name == "detail" else value for name, value in values.items()},
            }
            cursor.execute(
                f"INSERT INTO {schema_of(database)}.ledger ({', '.join(line)}) VALUES ({', '.join('?' * len(line))})",
                list(line.values()),
            ).fetchall()
            if write_too is not None:
                write_too(cursor, state.number + 1)
        self.added += 1
        if values["action"] == "charge":
            self.askers.current().spent += Fraction(values["epsilon"])
        return state.number + 1

    def _state(self, con: duckdb.DuckDBPyConnection, database: str) -> LedgerState:
        known = self._known.get(database)
        if known is not None:
            state, last = known
            # The last known line is read again: another file may have been attached under the same name.
            added = _lines(con, database, state.number - 1)
            if added[:1] == [last]:
                return self._then(database, state, last, added[1:])
        if not _has_ledger(con, database):
            return LedgerState()
        return self._then(database, LedgerState(), None, _lines(con, database, 0))

    def _then(self, database: str, state: LedgerState, last: Line | None, added: list[Line]) -> LedgerState:
        for line in added:
            state, last = state.after(line), line
        if added and last is not None:
            self._known[database] = state, last
        return state


def where(location: Location) -> dict[str, Any]:
    """The columns of a line that name its table."""
    return {"schema_name": location.schema, "table_name": location.name}


def charge_line(
    state: LedgerState, location: Location, charge: Charge, release: str, action: str = "charge"
) -> dict[str, Any]:
    """The line that records a charge. release: a key of what is released."""
    population = state.population(location)
    return {
        **where(location),
        "population": population and population.name,
        "edition": population and population.edition,
        "action": action,
        "epsilon": written(charge.epsilon),
        "what": charge.what,
        "unit": charge.unit,
        "neighbours": charge.neighbours,
        "release": release,
    }


def affordable(state: LedgerState, location: Location, charge: Charge, who: str) -> None:
    """Raises BudgetExhausted if what is left of a table's budget, or of a user's allotment, does not suffice."""
    population, standing = state.population(location), state.tables.get(location.identity)
    if population is None or population.budget is None or standing is None:
        return
    again = "Ask for less, or repeat an earlier question as it was: its stored answer is free."
    if not population.budget.admits(charge.epsilon):
        raise BudgetExhausted(
            f"The privacy budget of {population.name} does not suffice: epsilon {written(charge.epsilon)} is more "
            f"than the {written(population.budget.remaining)} left of {written(population.budget.total)}. {again}"
        )
    # The cap of one table holds for its whole population: a question about another table costs the same persons.
    policies = [one.policy for one in state.tables.values() if one.policy.population == standing.policy.population]
    cap = min((one.per_edition for one in policies if one.per_edition is not None), default=None)
    if cap is not None and population.in_edition + charge.epsilon > cap:
        raise BudgetExhausted(
            f"Of {population.name} no more than epsilon {written(cap)} may be spent in one edition, and "
            f"{written(population.in_edition)} is spent in this one. {again}"
        )
    allotment = state.allotment(who, population.name)
    if allotment is not None and not allotment.admits(charge.epsilon):
        raise BudgetExhausted(
            f"{who} may spend epsilon {written(allotment.total)} on {population.name}, and "
            f"{written(allotment.remaining)} is left of it: epsilon {written(charge.epsilon)} is more. {again}"
        )


def _cannot_write(database: str) -> InvalidInput:
    return InvalidInput(
        f"Nothing can be recorded: the file of database {database} could not be written. Make room on its disk, and "
        "try again."
    )


def _has_ledger(con: duckdb.DuckDBPyConnection, database: str) -> bool:
    """Whether a database has a ledger. Raises InvalidInput for one of another format."""
    found = con.execute(
        "SELECT 1 FROM system.main.duckdb_tables() "
        "WHERE database_name = ? AND schema_name = ? AND table_name = 'ledger'",
        [database, SCHEMA],
    ).fetchall()
    if not found:
        return False
    try:
        stored = con.execute(f"SELECT value FROM {schema_of(database)}.meta WHERE name = 'format'").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        stored = []
    if stored != [(FORMAT,)]:
        raise _other_format(database)
    return True


def _other_format(database: str) -> InvalidInput:
    return InvalidInput(
        f"The schema duckanon of {database} was written by another version of duckanon, which this one does not read: "
        f"note what was spent, DROP SCHEMA {schema_of(database)} CASCADE with plain DuckDB, and protect the tables "
        "again with what is left."
    )


def _lines(con: duckdb.DuckDBPyConnection, database: str, after: int) -> list[Line]:
    """The lines after the one of that number; none where there is no ledger."""
    try:
        found = con.execute(
            f"SELECT {_COLUMNS} FROM {schema_of(database)}.ledger WHERE number > ? ORDER BY number ASC", [after]
        )
    except (duckdb.CatalogException, duckdb.BinderException):
        return []
    return [Line(*row) for row in found.fetchall()]


@contextmanager
def _one_moment(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction, committed at the end."""
    cursor.begin()
    try:
        yield
        cursor.commit()
    except BaseException:
        _roll_back(cursor)
        raise


def _roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.rollback()
    except duckdb.Error:
        # A transaction that failed to commit is gone already.
        return
