"""Paid answers: each question is charged once in an edition, and its stored answer is given again.

One transaction records the charge and the question's key; only after that are records read. Each answer is a table of
its own in the schema `duckanon`, which the analyst's statement reads like any other table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge, written
from duckanon.catalog.arrow_texts import received
from duckanon.errors import InvalidInput, MachineFailure, was_interrupted
from duckanon.governance.budgets import in_words
from duckanon.governance.concurrency import Key, KeyedLocks
from duckanon.governance.draws import Draws, NotKept, waited
from duckanon.governance.ledger import Ledger, WriteToo, affordable, charge_line
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.ledger_tables import FAILURES, schema_of
from duckanon.governance.locations import Location
from duckanon.renyi import Renyi

# The smallest charge, as a part of the budget. A smaller one is most likely a mistake, and its noise would be very
# large. Gaussian noise is as wide at the square of it.
LEAST_SHARE = 10_000
# Tests set it: then an error while an answer is made is raised as it is.
STRICT = False
FAILED = (
    "The answer could not be made on this machine. It was charged, and there is none in this edition: ask the steward, "
    "who finds the cause in the table duckanon.failures."
)
NOT_KEPT = (
    "The answer could not be stored on this machine. It was charged, and to ask the same again costs nothing: ask the "
    "steward to make room on its disk."
)


class Stale(Exception):
    """The policy or the edition changed after the guard decided about a statement: it must decide again."""


@dataclass(frozen=True)
class Purchase:
    """A question as it is charged. key: a hash of the resolved question, the policy's version and the edition.

    charge: None for what follows from what was charged before. beside: other protected tables that the answer is drawn
    from, with the versions of their policies. detail: what the ledger's line has besides, for JSON. changed: the number
    of the newest change of a policy in place that was known when the question was decided about.
    """

    location: Location
    key: str
    version: int
    edition: int
    charge: Charge | None
    beside: tuple[tuple[Location, int], ...] = ()
    detail: Mapping[str, Any] | None = None
    changed: int = 0

    @property
    def path(self) -> tuple[str, str, str]:
        """The full name of the table that holds the answer."""
        return self.location.database, "duckanon", f"answer_{self.key}"


class Answers:
    """The paid answers of all databases of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._locks = KeyedLocks()
        self.draws = Draws()
        # The questions whose draws failed, also where that could not be recorded.
        self._failed: set[Key] = set()

    def ensure(self, purchase: Purchase, draw: Callable[[duckdb.DuckDBPyConnection], pa.Table]) -> bool:
        """Make sure that the answer to a question is stored. Returns whether that was charged now.

        draw: reads the records on the connection that it gets, and draws the noise; called after the charge is
        committed, on a thread of its own, or without a charge where the answer follows from stored ones, which alone it
        reads then. Raises BudgetExhausted, InvalidInput where nothing can be recorded, and
        Stale: then nothing was charged. Raises MachineFailure, in a fixed sentence, where the answer could not be made:
        that is charged, and final for this question. Raises Stopped or KeyboardInterrupt if the statement is to end
        while the answer is made; the draw goes on.
        """
        key, charged = (purchase.location.database, purchase.key), False
        drawing = self.draws.running(key)
        if drawing is None:
            with self._locks.held(key):
                # Another may have begun it before this one came in.
                drawing = self.draws.running(key)
                if drawing is None:
                    with self._ledger.cursor() as con:
                        if is_stored(con, purchase):
                            return False
                        self._check_failed(con, purchase)
                        charged = purchase.charge is not None and self._charge(con, purchase, purchase.charge)
                    drawing = self.draws.begin(
                        key,
                        partial(self._drawn, draw),
                        partial(self._store, purchase),
                        partial(self._record_failure, purchase),
                    )
        try:
            waited(drawing)
            return charged
        except Exception as error:
            if STRICT:
                raise
            stopped, said = was_interrupted(error), NOT_KEPT if isinstance(error, NotKept) else FAILED
        # The cause may quote a value of the data, so it must not be attached to this error as its context either.
        if stopped:
            raise KeyboardInterrupt
        raise MachineFailure(said)

    def _drawn(self, draw: Callable[[duckdb.DuckDBPyConnection], pa.Table]) -> pa.Table:
        with self._ledger.cursor() as con:
            return draw(con)

    def _check_failed(self, con: duckdb.DuckDBPyConnection, purchase: Purchase) -> None:
        """Raises MachineFailure for a question whose draw failed."""
        if (purchase.location.database, purchase.key) in self._failed or has_failed(con, purchase):
            raise MachineFailure(FAILED)

    def _record_failure(self, purchase: Purchase, cause: BaseException) -> None:
        """Record that a question's draw failed, for stewards. What cannot be recorded holds while the process runs.

        What follows from stored answers reads no record, so it may be tried again.
        """
        if purchase.charge is None:
            return
        database = purchase.location.database
        self._failed.add((database, purchase.key))
        with suppress(duckdb.Error, InvalidInput), self._ledger.transaction(database) as cursor:
            self._ledger.note_failed(cursor, database, purchase.key)
            cursor.execute(FAILURES.format(schema=schema_of(database))).fetchall()
            cursor.execute(
                f"INSERT OR REPLACE INTO {schema_of(database)}.failures VALUES (?, now()::TIMESTAMP, ?)",
                [purchase.key, f"{type(cause).__name__}: {cause}"],
            ).fetchall()

    def _charge(self, con: duckdb.DuckDBPyConnection, purchase: Purchase, charge: Charge) -> bool:
        location = purchase.location

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            version, population = state.version(location.identity), state.population(location)
            if version is None or population is None or version != purchase.version:
                raise Stale
            if population.edition != purchase.edition or state.changed != purchase.changed:
                raise Stale
            for other, also_version in purchase.beside:
                also = state.tables.get(other.identity)
                changed = state.version(other.identity) != also_version
                if also is None or changed or also.policy.population != population.name:
                    raise Stale
            if day_charged(con, purchase) is not None:
                return None
            affordable(state, location, charge, self._ledger.askers.current().name)
            return charge_line(state, location, charge, purchase.key, detail=purchase.detail)

        recorded = not_stored(location.database, purchase.key)
        return self._ledger.append_charge(location.database, line, recorded) is not None

    def _store(self, purchase: Purchase, answer: pa.Table) -> None:
        with self._ledger.storing(purchase.location.database, purchase.key) as cursor:
            cursor.register("_dk_answer", answer)
            table = f'{schema_of(purchase.location.database)}."{purchase.path[2]}"'
            cursor.execute(f"CREATE TABLE {table} AS SELECT {received(answer)} FROM _dk_answer").fetchall()
            cursor.unregister("_dk_answer")


def not_stored(database: str, key: str) -> WriteToo:
    """Records with a charge that what it pays for is not stored yet: until then it may be drawn for that charge."""

    def write(cursor: duckdb.DuckDBPyConnection, number: int) -> None:
        cursor.execute(
            f"INSERT OR REPLACE INTO {schema_of(database)}.answers VALUES (?, ?, false)", [key, number]
        ).fetchall()

    return write


def is_stored(con: duckdb.DuckDBPyConnection, purchase: Purchase) -> bool:
    """Whether the answer to a question is stored."""
    return is_answered(con, purchase.location.database, purchase.key)


def is_answered(con: duckdb.DuckDBPyConnection, database: str, key: str) -> bool:
    """The same, by the question's key."""
    try:
        con.execute(f'SELECT 1 FROM {schema_of(database)}."answer_{key}" LIMIT 0').fetchall()
    except duckdb.CatalogException:
        return False
    return True


def has_failed(con: duckdb.DuckDBPyConnection, purchase: Purchase) -> bool:
    """Whether a draw for a question failed."""
    try:
        found = con.execute(
            f"SELECT 1 FROM {schema_of(purchase.location.database)}.failures WHERE key = ?", [purchase.key]
        )
        return found.fetchall() != []
    except duckdb.CatalogException:
        return False


def day_charged(con: duckdb.DuckDBPyConnection, purchase: Purchase) -> date | None:
    """The day on which a question was charged, if asking it now is free; else None.

    It is free while its answer is stored, and if none is made yet or could be made. If the answer was given and dropped
    since, another one would have other noise, which could be averaged with the first: so it is charged again.
    """
    schema = schema_of(purchase.location.database)
    try:
        rows = con.execute(
            f"SELECT recorded_at, stored FROM {schema}.answers JOIN {schema}.ledger USING (number) WHERE key = ?",
            [purchase.key],
        ).fetchall()
    except duckdb.CatalogException:
        return None
    for recorded_at, stored in rows:
        if is_stored(con, purchase) or not stored:
            day: date = recorded_at.date()
            return day
    return None


def check_price(epsilon: Any, budget: Any, renyi: Renyi | None = None) -> None:
    """Raises InvalidInput for an epsilon below a ten-thousandth of the budget.

    renyi: how the population accounts if it has a delta; then the budget is its capacity, and less is left to ask for.
    """
    if renyi is not None:
        if epsilon * LEAST_SHARE**2 < budget:
            raise InvalidInput(
                f"{in_words(epsilon, renyi)} is less than a hundred-millionth of the budget: the answer would be noise "
                f"alone. Ask for {written(budget / LEAST_SHARE**2)} or more."
            )
        return
    if epsilon * LEAST_SHARE < budget:
        raise InvalidInput(
            f"epsilon {written(epsilon)} is less than a ten-thousandth of the budget: the answer would be noise alone. "
            f"Ask for {written(budget / LEAST_SHARE)} or more."
        )
