"""COPY ... FROM STDIN on a steward's connection: rows are checked and inserted piece by piece, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa

from duckanon.catalog.names import quoted
from duckanon.connection import Connection
from duckanon.server import types
from duckanon.server.codecs import decoder
from duckanon.server.commands import CopyIn
from duckanon.server.copy_rows import Rows, reader
from duckanon.server.errors import PgError
from duckanon.server.types import pg_type

# What PostgreSQL writes in another way than DuckDB reads it: these texts are decoded before.
_DECODED = {types.BYTEA.oid, types.BOOL.oid}
_WHOLE = {types.INT2.oid, types.INT4.oid, types.INT8.oid}
_WHOLE_TYPES = {"HUGEINT", "UHUGEINT", "UBIGINT"}
_VIEW = "_dk_copied"


class Loading:
    """One COPY. begins: whether the transaction is its own. writing: the context in which that is committed."""

    def __init__(
        self, con: Connection, command: CopyIn, *, begins: bool, writing: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._con, self._command, self._begins, self._writing = con, command, begins, writing
        listed = ", ".join(map(quoted, ([column] for column in command.columns))) or "*"
        if begins:
            con.execute("BEGIN")
        try:
            described = con.execute(f"DESCRIBE SELECT {listed} FROM {command.table}").fetchall()
        except BaseException:
            self.abandon()
            raise
        self.names = [str(row[0]) for row in described]
        self._kinds = [str(row[1]) for row in described]
        is_binary = command.options.form == "binary"
        oids = [pg_type(kind).oid for kind in self._kinds]
        self._decode = [
            decoder(oid, binary=False)
            if not is_binary and (oid in _DECODED or types.BY_OID[oid].element is not None)
            else None
            for oid in oids
        ]
        decoders = [decoder(oid, binary=True) for oid in oids] if is_binary else []
        self._reader = reader(command.options, self.names, decoders)
        self.rows = 0

    def feed(self, piece: bytes) -> None:
        """Insert the rows that end in a piece of what is sent. Raises PgError, and what DuckDB raises."""
        self._insert(self._reader.feed(piece))

    def finish(self) -> None:
        """Insert the rest, and commit the transaction if it is this one's own."""
        self._insert(self._reader.end())
        if self._begins:
            with self._writing():
                self._con.execute("COMMIT")

    def abandon(self) -> None:
        """Undo everything, where the transaction is this one's own; else its ROLLBACK does."""
        if self._begins:
            with suppress(duckdb.Error):
                self._con.execute("ROLLBACK")

    def _insert(self, rows: Rows) -> None:
        if not rows.lines:
            return
        arrays = [self._array(at, rows) for at in range(len(self.names))]
        columns = [f"c{at}" for at in range(len(arrays))]
        self._con.register(_VIEW, pa.table([*arrays, pa.array(rows.lines, pa.int64())], names=[*columns, "line"]))
        try:
            self._check(columns)
            target, casts = ", ".join(quoted([name]) for name in self.names), map(self._cast, columns, self._kinds)
            self._con.execute(
                f"INSERT INTO {self._command.table} ({target}) SELECT {', '.join(casts)} FROM {_VIEW}"
            ).fetchall()
        except duckdb.ConstraintException as error:
            raise PgError(
                "23000",
                f"One of the lines {rows.lines[0]:,} to {rows.lines[-1]:,} breaks a constraint of the table, such as "
                "a key, a CHECK or NOT NULL.",
            ) from error
        finally:
            with suppress(duckdb.Error):
                self._con.unregister(_VIEW)
        self.rows += len(rows.lines)

    def _array(self, at: int, rows: Rows) -> pa.Array:
        """The values of a column for DuckDB: texts, or what they were decoded to."""
        values, decode = rows.columns[at], self._decode[at]
        if decode is not None:
            values = [
                None if value is None else self._decoded(decode, value, rows.lines[row], at)
                for row, value in enumerate(values)
            ]
        elif self._command.options.form != "binary":
            return pa.array(values, pa.string())
        return pa.array([_plain(value) for value in values])

    def _decoded(self, decode: Callable[[bytes], Any], value: str, line: int, at: int) -> Any:
        try:
            return decode(value.encode())
        except PgError:
            raise self._misfit(line, at) from None

    def _check(self, columns: Sequence[str]) -> None:
        """Raises PgError for the first value that is none of its column's type, by its line and column."""
        misfits = [self._misfits(column, kind) for column, kind in zip(columns, self._kinds, strict=True)]
        # (An aggregate for texts too, which all fit: columns of texts alone have one row here as others do.)
        firsts = ", ".join(f"min(line) FILTER (WHERE {misfit or 'false'})" for misfit in misfits)
        (value,) = self._con.execute(f"SELECT {firsts} FROM {_VIEW}").fetchall()
        wrong = [(line, at) for at, line in enumerate(value) if line is not None]
        if wrong:
            raise self._misfit(*min(wrong))

    def _misfits(self, column: str, kind: str) -> str:
        """A condition on values that the column's type does not have; '' where it has all."""
        if kind == "VARCHAR":
            return ""
        cast = self._cast(column, kind).replace("CAST(", "TRY_CAST(")
        condition = f"{column} IS NOT NULL AND {cast} IS NULL"
        if pg_type(kind).oid in _WHOLE or kind in _WHOLE_TYPES:
            # DuckDB would round.
            condition += f" OR contains(CAST({column} AS VARCHAR), '.')"
        return condition

    def _misfit(self, line: int, at: int) -> PgError:
        kind = self._kinds[at].partition("(")[0]
        return PgError("22P02", f"Line {line:,}, column {self.names[at]}: the value is none of the type {kind}.")

    def _cast(self, column: str, kind: str) -> str:
        is_json = pg_type(kind) is types.JSON and kind != "JSON"
        return f"CAST(CAST({column} AS JSON) AS {kind})" if is_json else f"CAST({column} AS {kind})"


def _plain(value: Any) -> Any:
    """A value that Arrow takes: whole numbers of any size, and UUIDs, as texts."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, UUID) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
        return str(value)
    return value
