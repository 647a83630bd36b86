"""The ledger: a line for each charge and each decision of a steward, in the schema `duckanon` of the database.

Lines are only added. A line's number is one more than the last one's, and it is the primary key: if two writers saw the
same last line, one of them fails and tries again. So what a writer checked is still true when its line is added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any, TypeAlias
from uuid import uuid4

import duckdb

from duckanon.accounting import Charge, written
from duckanon.errors import BudgetExhausted, InvalidInput, NotRecorded
from duckanon.governance.budgets import cap_of_edition, in_words
from duckanon.governance.concurrency import Askers, Cursors
from duckanon.governance.journal import Journal, failed_entry, journal_of, line_entry, stored_entry
from duckanon.governance.ledger_state import LedgerState, Line
from duckanon.governance.ledger_tables import (
    FORMAT,
    TABLES,
    add_line,
    has_ledger,
    identity_of,
    lines_after,
    one_moment,
    schema_of,
)
from duckanon.governance.locations import Location
from duckanon.governance.recovery import settle

# Seconds for which a writer tries again while other writers are faster.
_PATIENCE = 60.0
# What DuckDB says where another writer was faster; where a disk is full it raises the same exception and quotes a path.
_CONFLICT = re.compile("conflict|constraint", re.IGNORECASE)
_QUOTED = re.compile('"[^"]*"')

# Checks the current state, and gives the line to add; None adds nothing.
Decision = Callable[[LedgerState], Mapping[str, Any] | None]
# Writes more in the transaction that adds the line; it gets the line's number. (The type is text: DuckDB reports types
# of its own that a module holds as leaks when Python ends.)
WriteToo: TypeAlias = "Callable[[duckdb.DuckDBPyConnection, int], None]"


class Ledger:
    """The ledgers of all databases of one instance."""

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors
        # Writers of this module take turns; the primary key keeps others out.
        self._turn = RLock()
        # How many lines this object has added.
        self.added = 0
        self.askers = Askers()
        # Held while a line is added that is not a charge: a server lets the statements end that were decided about
        # before.
        self.before_change: Callable[[], AbstractContextManager[None]] = nullcontext
        # The last known state of each database, and the line after which it was read.
        self._known: dict[str, tuple[LedgerState, Line]] = {}
        # The transaction in which this thread adds lines together.
        self._together: ContextVar[_Together | None] = ContextVar("together", default=None)
        # By the database's path.
        self._journals: dict[str, Journal] = {}
        # What tells the ledgers apart, by database.
        self._identities: dict[str, str] = {}

    def cursor(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A connection of governance's own, closed at the end. It sees what is committed."""
        return self._cursors.cursor()

    def databases(self) -> list[str]:
        """The names of the databases that can have a ledger."""
        with self._cursors.cursor() as cursor:
            rows = cursor.execute(
                "SELECT database_name FROM system.main.duckdb_databases() "
                "WHERE NOT internal AND type = 'duckdb' ORDER BY ALL ASC"
            )
            return [name for (name,) in rows.fetchall()]

    def lines(self, database: str) -> list[Line]:
        """All lines, in order. Raises InvalidInput for a ledger of another format."""
        with self._cursors.cursor() as cursor:
            self._state(cursor, database)
            return lines_after(cursor, database, 0) if has_ledger(cursor, database) else []

    def state(self, database: str, con: duckdb.DuckDBPyConnection | None = None) -> LedgerState:
        """The current state. con: a connection to read it with; None opens one.

        Raises InvalidInput for a ledger of another format, and for a file that differs from its journal.
        """
        if con is None and (together := self._together.get()) is not None:
            con = together.cursor
        if con is not None:
            return self._state(con, database)
        with self._cursors.cursor() as cursor:
            return self._state(cursor, database)

    @contextmanager
    def together(self, database: str, *, keep: bool = True) -> Iterator[None]:
        """A context in which all lines that this thread adds to a database are one transaction: all of them, or none.

        keep: whether they are committed at its end; else they were a trial. An error in the block undoes them. Raises
        NotRecorded where another writer was faster, or the database cannot be written.
        """
        with self.before_change() if keep else nullcontext(), self._turn:
            # The file has what its journal has, before any of it is read.
            self.state(database)
            try:
                with self._recording(database, lines=True) as record:
                    together = _Together(database, record.cursor, dict(self._known))
                    token = self._together.set(together)
                    try:
                        yield
                    finally:
                        self._together.reset(token)
                    if not keep:
                        raise _Trial
                    if together.added:
                        self._journal_lines(record, database, together.added)
            except _Trial:
                return
            except (duckdb.ConstraintException, duckdb.TransactionException) as problem:
                if _CONFLICT.search(_QUOTED.sub("", str(problem))):
                    raise _busy(database) from None
                raise _cannot_write(database) from None
            except duckdb.IOException:
                raise _cannot_write(database) from None

    def append(self, database: str, decide: Decision, write_too: WriteToo | None = None) -> int | None:
        """Add the line that `decide` gives, and what `write_too` writes, in one transaction of its own.

        Returns the line's number, or None if there was nothing to add. Raises what they raise, and InvalidInput if the
        database cannot be written; then nothing was added.
        """
        if (together := self._together.get()) is not None:
            assert together.database == database
            return self._written(together, database, decide, write_too)
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
                        raise _busy(database) from None
                except duckdb.IOException:
                    raise _cannot_write(database) from None

    @contextmanager
    def transaction(self, database: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction of its own, committed at the end.

        Raises NotRecorded if the database cannot be written.
        """
        with self._recording(database, lines=False) as record:
            yield record.cursor

    @contextmanager
    def _recording(self, database: str, *, lines: bool) -> Iterator[_Record]:
        """As `transaction`, with the journal beside the database's file.

        lines: whether lines are added, by one writer of this process after another. What the journal got is taken back
        where the commit fails.
        """
        with self._cursors.cursor() as cursor:
            readonly, kind, journal = self._file(cursor, database)
            if readonly or kind != "duckdb":
                why = "is read-only" if readonly else f"is of type {kind}"
                raise InvalidInput(
                    f"Nothing can be recorded: the database {database} {why}. Open a DuckDB database for writing."
                )
            record = _Record(cursor, journal)
            with journal.turn if journal is not None and lines else nullcontext():
                try:
                    with one_moment(cursor):
                        yield record
                except duckdb.Error:
                    record.take_back()
                    raise

    @contextmanager
    def storing(self, database: str, key: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction in which an answer that was charged, or that follows from others, is stored.

        Before it is committed the journal has it: in an older copy of the file it is not drawn again for that charge.
        Raises InvalidInput and duckdb.Error where it cannot be stored.
        """
        answers = f"{schema_of(database)}.answers"
        with self._recording(database, lines=False) as record:
            yield record.cursor
            paid_by = record.cursor.execute(
                f"UPDATE {answers} SET stored = true WHERE key = ? RETURNING number", [key]
            ).fetchall()
            if record.journal is not None and paid_by:
                entries = [stored_entry(key, number) for (number,) in paid_by]
                record.take_back = record.journal.add(self._identity(record.cursor, database), entries)

    @contextmanager
    def snapshot(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A transaction of its own for reading: all that is read is of one moment, also of a read-only database."""
        with self._cursors.cursor() as cursor, one_moment(cursor):
            yield cursor

    def _try(self, database: str, decide: Decision, write_too: WriteToo | None) -> int | None:
        state = self.state(database)
        values = decide(state)
        if values is None:
            return None
        with self._recording(database, lines=True) as record:
            line = self._write(record.cursor, database, state.number + 1, values, write_too)
            # The last thing before the commit: nothing is given before the journal has its charge.
            self._journal_lines(record, database, [line])
        self.added += 1
        if values["action"] == "charge":
            self.askers.current().spent += Fraction(values["epsilon"])
        return state.number + 1

    def _written(self, together: _Together, database: str, decide: Decision, write_too: WriteToo | None) -> int | None:
        """As `append`, in a transaction that is open. The lines are decisions, not charges."""
        state = self.state(database)
        values = decide(state)
        if values is None:
            return None
        together.added.append(self._write(together.cursor, database, state.number + 1, values, write_too))
        self.added += 1
        return state.number + 1

    def _write(
        self,
        cursor: duckdb.DuckDBPyConnection,
        database: str,
        number: int,
        values: Mapping[str, Any],
        write_too: WriteToo | None,
    ) -> Line:
        """Write a line of that number, and what `write_too` writes, in a transaction. Returns the line."""
        cursor.execute(TABLES.format(schema=schema_of(database))).fetchall()
        cursor.execute(
            f"INSERT OR IGNORE INTO {schema_of(database)}.meta VALUES ('format', ?), ('identity', ?)",
            [FORMAT, uuid4().hex],
        ).fetchall()
        line = Line.of(
            {
                "number": number,
                "recorded_at": datetime.now(UTC).replace(tzinfo=None),
                "who": self.askers.current().name,
                **{name: json.dumps(value) if name == "detail" else value for name, value in values.items()},
            }
        )
        add_line(cursor, database, line)
        if write_too is not None:
            write_too(cursor, number)
        return line

    def note_failed(self, cursor: duckdb.DuckDBPyConnection, database: str, key: str) -> None:
        """Record in the journal that the draw for a question failed, before the cursor's transaction does."""
        _, _, journal = self._file(cursor, database)
        if journal is not None:
            journal.add(self._identity(cursor, database), [failed_entry(key)])

    def _journal_lines(self, record: _Record, database: str, added: list[Line]) -> None:
        """Have the journal, if there is one, hold lines that a transaction adds, and all before."""
        if record.journal is None:
            return
        ledger = self._identity(record.cursor, database)
        # An older journal, or none, gets what it lacks. One that is ahead has a line whose commit failed.
        reached = record.journal.reaches(ledger)
        lines = added if reached >= added[0].number - 1 else lines_after(record.cursor, database, reached)
        record.take_back = record.journal.add(ledger, [line_entry(line) for line in lines])

    def _file(self, cursor: duckdb.DuckDBPyConnection, database: str) -> tuple[bool, str, Journal | None]:
        """Whether a database is read-only, its type, and the journal beside its file.

        There is none in memory, and none for an encrypted file, since the journal would not be.
        """
        rows = cursor.execute(
            "SELECT readonly, type, CASE WHEN NOT encrypted THEN path END FROM system.main.duckdb_databases() "
            "WHERE database_name = ?",
            [database],
        )
        ((readonly, kind, path),) = rows.fetchall()
        if not path or not Path(path).is_file():
            return readonly, kind, None
        if path not in self._journals:
            self._journals[path] = journal_of(path)
        return readonly, kind, self._journals[path]

    def _identity(self, cursor: duckdb.DuckDBPyConnection, database: str) -> str:
        """What tells the ledger of a database apart from others; it is read once."""
        if database not in self._identities:
            self._identities[database] = identity_of(cursor, database)
        return self._identities[database]

    def _settle(self, database: str) -> None:
        """Give a file what it lacks of its journal. Raises InvalidInput where it cannot be written, or differs."""
        with self._turn, self._cursors.cursor() as cursor:
            _, _, journal = self._file(cursor, database)
            if journal is not None:
                with journal.turn:
                    settle(cursor, database, journal)

    def _state(self, con: duckdb.DuckDBPyConnection, database: str) -> LedgerState:
        known = self._read.get(database)
        if known is not None:
            state, last = known
            # The last known line is read again: another file may have been attached under the same name.
            added = lines_after(con, database, state.number - 1)
            if added[:1] == [last]:
                return self._then(database, state, last, added[1:])
        self._identities.pop(database, None)
        if not has_ledger(con, database):
            return LedgerState()
        if self._together.get() is None:
            self._settle(database)
        return self._then(database, LedgerState(), None, lines_after(con, database, 0))

    def _then(self, database: str, state: LedgerState, last: Line | None, added: list[Line]) -> LedgerState:
        for line in added:
            state, last = state.after(line), line
        if added and last is not None:
            self._read[database] = state, last
        return state

    @property
    def _read(self) -> dict[str, tuple[LedgerState, Line]]:
        """What is known of each database, also by what this thread has not committed."""
        together = self._together.get()
        return self._known if together is None else together.known


def where(location: Location) -> dict[str, Any]:
    """The columns of a line that name its table."""
    return {"schema_name": location.schema, "table_name": location.name}


def charge_line(
    state: LedgerState,
    location: Location,
    charge: Charge,
    release: str,
    action: str = "charge",
    detail: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The line that records a charge. release: a key of what is released. detail: what the state needs besides."""
    population = state.population(location)
    told = {**(_paid_for(charge) if charge.noise else {}), **(detail or {})}
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
        **({"detail": told} if told else {}),
    }


def _paid_for(charge: Charge) -> dict[str, Any]:
    """What a line notes of the noise that a charge pays for."""
    return {"noise": charge.noise, **({"keys": True} if charge.keys else {})}


def affordable(state: LedgerState, location: Location, charge: Charge, who: str, beside: Sequence[Charge] = ()) -> None:
    """Raises BudgetExhausted if what is left of a table's budget, or of a user's allotment, does not suffice.

    beside: what else is to be charged to the same population, together with it.
    """
    population, standing = state.population(location), state.tables.get(location.identity)
    if population is None or population.budget is None or standing is None:
        return
    due = sum((charge.epsilon for charge in beside), charge.epsilon)
    price = in_words(due, population.renyi) + (f" for {len(beside) + 1} answers together" if beside else "")
    again = "Ask for less, or repeat an earlier question as it was: its stored answer is free."
    if not population.budget.admits(due):
        raise BudgetExhausted(
            f"The privacy budget of {population.name} does not suffice: {price} is more than the "
            f"{written(population.budget.remaining)} left of {written(population.budget.total)}. {again}"
        )
    if charge.keys and population.keys_left <= sum(charge.keys for charge in beside):
        raise BudgetExhausted(
            f"Keys of {population.name} were found with noise {population.keys:,} times, which is all that its delta "
            "has room for: use keys that were found in this edition, or ask the steward for a domain."
        )
    cap = cap_of_edition(state.policies_of(standing.policy.population))
    if cap is not None and population.in_edition + due > cap:
        raise BudgetExhausted(
            f"Of {population.name} no more than {in_words(cap, population.renyi)} may be spent in one edition, and "
            f"{written(population.in_edition)} is spent in this one: {price} is more than the rest. {again}"
        )
    allotment = state.allotment(who, population.name)
    if allotment is not None and not allotment.admits(due):
        raise BudgetExhausted(
            f"{who} may spend {in_words(allotment.total, population.renyi)} on {population.name}, and "
            f"{written(allotment.remaining)} is left of it: {price} is more. {again}"
        )


def _nothing() -> None:
    """Take back nothing, where nothing was added."""


@dataclass
class _Record:
    """A transaction that is recorded. journal: None if there is none. take_back: undoes what the journal got."""

    cursor: duckdb.DuckDBPyConnection
    journal: Journal | None
    take_back: Callable[[], None] = _nothing


@dataclass(frozen=True)
class _Together:
    """A transaction in which lines are added together.

    known: as `Ledger._known`, with what is not committed. added: the lines so far.
    """

    database: str
    cursor: duckdb.DuckDBPyConnection
    known: dict[str, tuple[LedgerState, Line]]
    added: list[Line] = field(default_factory=list)


class _Trial(Exception):
    """Undoes a transaction that was not to be kept."""


def _busy(database: str) -> NotRecorded:
    return NotRecorded(f"Nothing can be recorded: the ledger of {database} is busy. Try again.")


def _cannot_write(database: str) -> NotRecorded:
    return NotRecorded(
        f"Nothing can be recorded: the file of database {database} could not be written. Make room on its disk, and "
        "try again."
    )
