"""Paid answers: each question is charged once in an edition, and its stored answer is given again.

One transaction records the charge and the question's key; only after that are records read. Each answer is a table of
its own in the schema `duckanon`, which the analyst's statement reads like any other table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge, written
from duckanon.errors import InvalidInput, MachineFailure, was_interrupted
from duckanon.governance.concurrency import KeyedLocks
from duckanon.governance.ledger import Ledger, WriteToo, affordable, charge_line, schema_of
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.locations import Location

# The smallest charge, as a part of the budget. A smaller one is most likely a mistake, and its noise would be very
# large.
LEAST_SHARE = 10_000
# Tests set it: then an error while an answer is made is raised as it is.
STRICT = False
FAILED = (
    "The answer could not be made on this machine. It was charged, and to ask the same again costs nothing: ask the "
    "steward to look at memory and disk."
)


class Stale(Exception):
    """The policy or the edition changed after the guard decided about a statement: it must decide again."""


@dataclass(frozen=True)
class Purchase:
    """A question as it is charged. key: a hash of the resolved question, the policy's version and the edition.

    beside: other protected tables that the answer is drawn from, with the versions of their policies.
    """

    location: Location
    key: str
    version: int
    edition: int
    charge: Charge
    beside: tuple[tuple[Location, int], ...] = ()

    @property
    def path(self) -> tuple[str, str, str]:
        """The full name of the table that holds the answer."""
        return self.location.database, "duckanon", f"answer_{self.key}"


class Answers:
    """The paid answers of all databases of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._locks = KeyedLocks()

    def ensure(self, purchase: Purchase, draw: Callable[[duckdb.DuckDBPyConnection], pa.Table]) -> bool:
        """Make sure that the answer to a question is stored. Returns whether that was charged now.

        draw: reads the records on the connection that it gets, and draws the noise; called after the charge is
        committed. Raises BudgetExhausted, InvalidInput where nothing can be recorded, and Stale: then nothing was
        charged. Raises MachineFailure, in a fixed sentence, where the answer cannot be made; that is charged. Raises
        KeyboardInterrupt after Ctrl-C, also where DuckDB makes an error of its own of it; the charge serves the next
        who asks.
        """
        with self._locks.held((purchase.location.database, purchase.key)), self._ledger.cursor() as con:
            if is_stored(con, purchase):
                return False
            charged = self._charge(con, purchase)
            try:
                self._store(purchase, draw(con))
                return charged
            except Exception as error:
                if STRICT:
                    raise
                stopped = was_interrupted(error)
        # The cause may quote a value of the data, so it must not be attached to this error as its context either.
        if stopped:
            raise KeyboardInterrupt
        raise MachineFailure(FAILED)

    def _charge(self, con: duckdb.DuckDBPyConnection, purchase: Purchase) -> bool:
        location, charge = purchase.location, purchase.charge

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            version, population = state.version(location.identity), state.population(location)
            if version is None or population is None or version != purchase.version:
                raise Stale
            if population.edition != purchase.edition:
                raise Stale
            for other, also_version in purchase.beside:
                also = state.tables.get(other.identity)
                changed = state.version(other.identity) != also_version
                if also is None or changed or also.policy.population != population.name:
                    raise Stale
            if day_charged(con, purchase) is not None:
                return None
            affordable(state, location, charge, self._ledger.askers.current().name)
            return charge_line(state, location, charge, purchase.key)

        recorded = not_stored(location.database, purchase.key)
        return self._ledger.append_charge(location.database, line, recorded) is not None

    def _store(self, purchase: Purchase, answer: pa.Table) -> None:
        with self._ledger.transaction(purchase.location.database) as cursor:
            cursor.register("_dk_answer", answer)
            table = f'{schema_of(purchase.location.database)}."{purchase.path[2]}"'
            cursor.execute(f"CREATE TABLE {table} AS FROM _dk_answer").fetchall()
            cursor.unregister("_dk_answer")
            now_stored(cursor, purchase.location.database, purchase.key)


def not_stored(database: str, key: str) -> WriteToo:
    """Records with a charge that what it pays for is not stored yet: until then it may be drawn for that charge."""

    def write(cursor: duckdb.DuckDBPyConnection, number: int) -> None:
        cursor.execute(
            f"INSERT OR REPLACE INTO {schema_of(database)}.answers VALUES (?, ?, false)", [key, number]
        ).fetchall()

    return write


def now_stored(cursor: duckdb.DuckDBPyConnection, database: str, key: str) -> None:
    """Records that it is stored."""
    cursor.execute(f"UPDATE {schema_of(database)}.answers SET stored = true WHERE key = ?", [key]).fetchall()


def is_stored(con: duckdb.DuckDBPyConnection, purchase: Purchase) -> bool:
    """Whether the answer to a question is stored."""
    try:
        con.execute(f'SELECT 1 FROM {schema_of(purchase.location.database)}."{purchase.path[2]}" LIMIT 0').fetchall()
    except duckdb.CatalogException:
        return False
    return True


def day_charged(con: duckdb.DuckDBPyConnection, purchase: Purchase) -> date | None:
    """The day on which a question was charged, if asking it now is free; else None.

    It is free while its answer is stored, and if none could be made. If the answer was given and dropped since, another
    one would have other noise, which could be averaged with the first: so it is charged again.
    """
    schema = schema_of(purchase.location.database)
    try:
        found = con.execute(
            f"SELECT recorded_at, stored FROM {schema}.answers JOIN {schema}.ledger USING (number) WHERE key = ?",
            [purchase.key],
        ).fetchall()
    except duckdb.CatalogException:
        return None
    for recorded_at, stored in found:
        if is_stored(con, purchase) or not stored:
            day: date = recorded_at.date()
            return day
    return None


def check_price(epsilon: Any, budget: Any) -> None:
    """Raises InvalidInput for an epsilon below a ten-thousandth of the budget."""
    if epsilon * LEAST_SHARE < budget:
        raise InvalidInput(
            f"epsilon {written(epsilon)} is less than a ten-thousandth of the budget: the answer would be noise alone. "
            f"Ask for {written(budget / LEAST_SHARE)} or more."
        )
