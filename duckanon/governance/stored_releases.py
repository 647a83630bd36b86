"""Stored releases: what was released once is given again and costs nothing more.

DuckDB runs a lazy relation each time it is shown, and asking twice for the same must not disclose more than asking
once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge
from duckanon.errors import MachineFailure
from duckanon.governance.answers import not_stored
from duckanon.governance.budgets import in_unit_of
from duckanon.governance.concurrency import Cursors, KeyedLocks
from duckanon.governance.ledger import Ledger, affordable, charge_line
from duckanon.governance.ledger_state import LedgerState
from duckanon.governance.ledger_tables import schema_of
from duckanon.governance.locations import Location

_NOT_STORED = (
    "The release was charged and could not be stored, so it is not given. Make room on the disk of the database, and "
    "repeat the call: that costs nothing."
)


class StoredReleases:
    """The stored releases of all databases of one instance, kept beside their ledgers."""

    def __init__(self, cursors: Cursors, ledger: Ledger) -> None:
        self._cursors, self._ledger = cursors, ledger
        self._locks = KeyedLocks()

    def stored_or_drawn(
        self,
        location: Location,
        release: str,
        charge: Charge,
        draw: Callable[[], pa.Array],
        action: str = "charge",
        *,
        exposed: bool = False,
    ) -> pa.Array:
        """The release of that key: the stored one, or the one that `draw` makes, charged before it is drawn.

        release: a key of all that the release depends on. action: of the ledger's line. Whoever asks for the same
        release at the same time waits. A draw is given to nobody before it is stored, so the charge of one that was
        lost serves the next; unless it may have been seen elsewhere, where it is `exposed`.
        Raises BudgetExhausted, and InvalidInput where nothing can be recorded; then nothing was drawn. Raises
        MachineFailure where the draw cannot be stored; that is charged.
        """
        with self._locks.held((location.database, release)):
            stored = self.stored(location.database, release)
            if stored is not None:
                return stored
            number = self._charge(location, release, charge, action, exposed=exposed)
            answer = draw()
            try:
                self._store(location.database, release, number, answer)
            except duckdb.Error:
                raise MachineFailure(_NOT_STORED) from None
            return answer

    def _charge(self, location: Location, release: str, charge: Charge, action: str, *, exposed: bool) -> int:
        """Record the charge, unless that is done and the draw was lost; returns the line's number."""
        lost = 0

        def line(state: LedgerState) -> Mapping[str, Any] | None:
            nonlocal lost
            lost = 0 if exposed else self._lost(location.database, release)
            if lost:
                return None
            if action != "charge":
                return charge_line(state, location, charge, release, action)
            population = state.population(location)
            price = in_unit_of(charge, None if population is None else population.renyi)
            affordable(state, location, price, self._ledger.askers.current().name)
            return charge_line(state, location, price, release, action)

        return self._ledger.append_charge(location.database, line, not_stored(location.database, release)) or lost

    def _lost(self, database: str, release: str) -> int:
        """The number of the line that charged a draw of this release that was never stored; 0 if there is none."""
        with self._cursors.cursor() as cursor:
            try:
                rows = cursor.execute(
                    f"SELECT number FROM {schema_of(database)}.answers WHERE key = ? AND NOT stored", [release]
                ).fetchall()
            except duckdb.CatalogException:
                return 0
        return int(rows[0][0]) if rows else 0

    def _store(self, database: str, release: str, number: int, answer: pa.Array) -> None:
        with self._ledger.storing(database, release) as cursor:
            cursor.execute(
                f"INSERT OR REPLACE INTO {schema_of(database)}.releases VALUES (?, ?, ?)",
                [release, number, _packed(answer)],
            ).fetchall()

    def stored(self, database: str, release: str) -> pa.Array | None:
        """The release of that key, if it has been drawn."""
        with self._cursors.cursor() as cursor:
            try:
                rows = cursor.execute(
                    f"SELECT answer FROM {schema_of(database)}.releases WHERE release = ?", [release]
                ).fetchall()
            except duckdb.CatalogException:
                return None
        return _unpacked(rows[0][0]) if rows else None


def _packed(answer: pa.Array) -> bytes:
    """An Arrow array as compressed bytes."""
    table = pa.record_batch([answer], ["answer"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(table)
    return sink.getvalue()


def _unpacked(packed: bytes) -> pa.Array:
    return pa.ipc.open_stream(packed).read_all().column("answer").combine_chunks()
