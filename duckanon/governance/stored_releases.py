"""Stored releases: what was released once is given again and costs nothing more.

DuckDB runs a lazy relation each time it is shown, and asking twice for the same must not disclose more than asking
once.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import duckdb
import pyarrow as pa

from duckanon.accounting import Charge
from duckanon.governance.cursors import Cursors
from duckanon.governance.keyed_locks import KeyedLocks
from duckanon.governance.ledger import Ledger, schema_of
from duckanon.governance.locations import Location


class StoredReleases:
    """The stored releases of all databases of one instance, kept beside their ledgers."""

    def __init__(self, cursors: Cursors, ledger: Ledger) -> None:
        self._cursors, self._ledger = cursors, ledger
        self._locks = KeyedLocks()

    def stored_or_drawn(
        self, location: Location, release: str, charge: Charge, draw: Callable[[], pa.Array], action: str = "charge"
    ) -> pa.Array:
        """The release of that key: the stored one, or the one that `draw` makes, charged before it is drawn.

        release: a key of all that the release depends on. action: of the ledger's line. Whoever asks for the same
        release at the same time waits.
        Raises BudgetExhausted, and InvalidInput where nothing can be recorded; then nothing was drawn.
        """
        with self._locks.held((location.database, release)):
            stored = self.stored(location.database, release)
            if stored is not None:
                return stored
            number = self._ledger.charge(location, charge, release, action)
            answer = draw()
            with self._ledger.transaction(location.database) as cursor:
                cursor.execute(
                    f"INSERT OR REPLACE INTO {schema_of(location.database)}.releases VALUES (?, ?, ?)",
                    [release, number, _packed(answer)],
                ).fetchall()
            return answer

    def stored(self, database: str, release: str) -> pa.Array | None:
        """The release of that key, if it has been drawn."""
        with self._cursors.cursor() as cursor:
            try:
                found = cursor.execute(
                    f"SELECT answer FROM {schema_of(database)}.releases WHERE release = ?", [release]
                ).fetchall()
            except duckdb.CatalogException:
                return None
        return _unpacked(found[0][0]) if found else None


def _packed(answer: pa.Array) -> bytes:
    """An Arrow array as compressed bytes."""
    table = pa.record_batch([answer], ["answer"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(table)
    return sink.getvalue()


def _unpacked(packed: bytes) -> pa.Array:
    return pa.ipc.open_stream(packed).read_all().column("answer").combine_chunks()
