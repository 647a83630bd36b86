"""Answers that were paid for: each question is charged once an edition, and its answer is stored and given again.

The charge and the question's key are one transaction; only then are records read. An answer lies in a table of its own
in the schema `duckanon`, which the analyst's statement reads like any other table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge, written
from duckanon.errors import InvalidInput, MachineFailure
from duckanon.governance.ledger import Ledger, affordable, schema_of, where
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.locations import Location

# An epsilon below this share of the budget is hardly ever meant, and lets noise run out of bounds.
LEAST_SHARE = 10_000
# Under test what goes wrong is raised as it is.
STRICT = False
FAILED = (
    "The answer could not be made on this machine. It was charged, and to ask the same again costs nothing: ask the "
    "steward to look at memory and disk."
)


class Stale(Exception):
    """A steward changed the policy, or began an edition, after a statement was decided about: decide again."""


class _Turn:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = Lock()


@dataclass(frozen=True)
class Purchase:
    """What is paid for. key: of the resolved question, the policy's version and the edition, and nothing else."""

    location: Location
    key: str
    version: int
    edition: int
    charge: Charge

    @property
    def path(self) -> tuple[str, str, str]:
        """Where the answer is kept."""
        return self.location.database, "duckanon", f"answer_{self.key}"


class Answers:
    """The paid answers of all databases of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._turns: WeakValueDictionary[tuple[str, str], _Turn] = WeakValueDictionary()
        self._opening = Lock()

    def stand(self, purchase: Purchase, draw: Callable[[duckdb.DuckDBPyConnection], pa.Table]) -> bool:
        """Have the answer to a question stand. Returns whether it was charged now.

        draw: reads the records and draws the noise, by a connection that it is given; it is called after the charge is
        committed. Raises BudgetExhausted, InvalidInput where nothing can be recorded, and Stale: then nothing was
        charged. Raises MachineFailure, in a fixed sentence, where the answer cannot be made; that is charged.
        """
        with self._only_one(purchase), self._ledger.cursor() as con:
            if stands(con, purchase):
                return False
            charged = self._charge(con, purchase)
            try:
                self._store(purchase, draw(con))
                return charged
            except Exception:
                if STRICT:
                    raise
        # Whatever went wrong, its words might hold a value: so it is not the context of this error either.
        raise MachineFailure(FAILED)

    def _charge(self, con: duckdb.DuckDBPyConnection, purchase: Purchase) -> bool:
        location, charge = purchase.location, purchase.charge

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            standing, population = state.tables.get(location.identity), state.population(location)
            if standing is None or population is None or standing.version != purchase.version:
                raise Stale
            if population.edition != purchase.edition:
                raise Stale
            if drawn(con, purchase) is not None:
                return None
            affordable(state, location, charge)
            return {
                **where(location),
                "population": population.name,
                "edition": population.edition,
                "action": "charge",
                "epsilon": written(charge.epsilon),
                "what": charge.what,
                "unit": charge.unit,
                "neighbours": charge.neighbours,
                "release": purchase.key,
            }

        def beside(cursor: duckdb.DuckDBPyConnection, number: int) -> None:
            cursor.execute(
                f"INSERT OR REPLACE INTO {schema_of(location.database)}.answers VALUES (?, ?, false)",
                [purchase.key, number],
            ).fetchall()

        return self._ledger.append(location.database, line, beside) is not None

    def _store(self, purchase: Purchase, answer: pa.Table) -> None:
        with self._ledger.transaction(purchase.location.database) as cursor:
            cursor.register("_dk_answer", answer)
            table = f'{schema_of(purchase.location.database)}."{purchase.path[2]}"'
            cursor.execute(f"CREATE TABLE {table} AS FROM _dk_answer").fetchall()
            cursor.unregister("_dk_answer")
            cursor.execute(
                f"UPDATE {schema_of(purchase.location.database)}.answers SET stored = true WHERE key = ?",
                [purchase.key],
            ).fetchall()

    @contextmanager
    def _only_one(self, purchase: Purchase) -> Iterator[None]:
        with self._opening:
            turn = self._turns.setdefault((purchase.location.database, purchase.key), _Turn())
        with turn.lock:
            yield


def stands(con: duckdb.DuckDBPyConnection, purchase: Purchase) -> bool:
    """Whether a question's answer is stored."""
    try:
        con.execute(f'SELECT 1 FROM {schema_of(purchase.location.database)}."{purchase.path[2]}" LIMIT 0').fetchall()
    except duckdb.CatalogException:
        return False
    return True


def drawn(con: duckdb.DuckDBPyConnection, purchase: Purchase) -> date | None:
    """The day on which a question was charged, if asking it now is free; else None.

    It is free while its answer stands, and where none could be made. An answer that was given and has been dropped
    since would be drawn with other noise, which could be averaged with the first: it is charged once more.
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
        if stands(con, purchase) or not stored:
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
