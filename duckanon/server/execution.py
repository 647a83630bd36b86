"""Runs the statements of one session, and sends their results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from fractions import Fraction
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from duckanon.server import commands, wire
from duckanon.server.backends import Backend, Catalogs, Result, catalog_columns, listed
from duckanon.server.catalog_query import MENTIONS
from duckanon.server.errors import CANCELLED, FAILED_TRANSACTION, STOPPING, TOO_LONG, PgError, pg_error
from duckanon.server.portals import CHUNK, Portal, Prepared, copy_end, copy_header, copy_writer
from duckanon.server.settings import Settings
from duckanon.server.stream import Stream
from duckanon.server.users import User

if TYPE_CHECKING:
    from duckanon.server.service import Service

_T = TypeVar("_T")
# In seconds: how long a client may take to receive what was sent, and the time between two attempts to interrupt a
# statement that must end.
_TAKES, _AGAIN = 60.0, 0.05
# In bytes: output is collected up to this size before it is sent.
PIECE = 1 << 16
# In seconds: the most that a statement about the catalog may take.
_CATALOG_SECONDS = 10.0
# The most messages and statements of one session that are handled before other sessions may go on.
_MOST_IN_A_ROW = 32
# The commands that are accepted in a transaction that has failed.
_ENDS = ("commit", "rollback", "rollback to")


class Execution:
    """The connection on which the statements of one session run, with its prepared statements and portals."""

    def __init__(self, service: Service, stream: Stream) -> None:
        self._service, self._stream = service, stream
        self.user: User | None = None
        self._backend: Backend | None = None
        self._catalogs: Catalogs | None = None
        # The backend's stamp when the catalog instance was filled.
        self._filled: tuple[int, int] | None = None
        self._settings = Settings({})
        self._out = bytearray()
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._status = b"I"
        self._is_working = False
        # The error with which the running statement must end.
        self._ending: tuple[str, str] | None = None
        self._running: Future[Any] | None = None
        # How many steps were taken since other sessions could last go on.
        self._in_a_row = 0
        # By the event loop's clock.
        self._deadline: float | None = None

    @property
    def _name(self) -> str:
        return self.user.name if self.user is not None else ""

    @property
    def _is_steward(self) -> bool:
        return self.user is not None and self.user.role == "steward"

    async def _connect(self) -> None:
        user = self.user
        assert user is not None
        self._backend = await self._service.light_work(lambda: self._service.backend(user))
        self._backend.check = self._check

    async def _release(self) -> None:
        if self._running is not None and not self._running.done():
            # A connection is not closed while a statement runs on it.
            self.finish(STOPPING)
            await asyncio.wait({asyncio.wrap_future(self._running)})
        self._portals.clear()
        backend, self._backend = self._backend, None
        catalogs, self._catalogs = self._catalogs, None
        self._filled = None
        for one in (backend, catalogs):
            if one is not None:
                await self._service.light_work(one.close)

    def finish(self, why: tuple[str, str]) -> None:
        """End the running statement as soon as possible."""
        if self._is_working and self._ending is None:
            self._ending = why
            self._interrupt()

    def cancel(self) -> None:
        """End the statement that runs, at its user's wish."""
        self.finish(CANCELLED)

    def _interrupt(self) -> None:
        """Interrupt the backend until the statement has ended: it may not yet have begun to run in DuckDB."""
        if self._is_working and self._ending is not None and self._backend is not None:
            self._backend.cancel()
            asyncio.get_running_loop().call_later(_AGAIN, self._interrupt)

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise PgError("34000", "There is no cursor of that name: it ends with its transaction.")
        return self._portals[name]

    async def _execute(self, portal: Portal, limit: int, *, tell: bool) -> None:
        """Run a portal, or go on with it, and send its rows. tell: whether the columns are sent first."""
        self._deadline = asyncio.get_running_loop().time() + self._seconds if self._seconds else None
        ends = isinstance(portal.command, commands.Transaction) and portal.command.action in _ENDS
        if self._status == b"E" and not ends:
            raise PgError(*FAILED_TRANSACTION)
        if not portal.text:
            self._out += (wire.NO_DATA if tell else b"") + wire.EMPTY_QUERY
            return
        try:
            if isinstance(portal.command, commands.CopyOut):
                await self._copy_out(portal, portal.command)
            else:
                await self._rows(portal, limit, tell=tell)
        except Exception as error:
            self._logged(portal, error)
            raise
        if portal.is_done:
            self._logged(portal, None)

    async def _rows(self, portal: Portal, limit: int, *, tell: bool) -> None:
        first = min(CHUNK, limit or CHUNK)
        if portal.result is None:
            await self._start(portal, first)
        result = portal.result
        assert result is not None
        if tell:
            self._out += wire.NO_DATA if result.columns is None else b""
            self._out += b"" if result.columns is None else wire.row_description(portal.fields(result.columns))
        sent, is_suspended = 0, False
        while result.columns is not None and not portal.is_done:
            count = min(CHUNK, limit - sent) if limit else CHUNK
            prepared = portal.ready()
            number, frames = prepared if prepared is not None else await self._next(portal, count)
            await self._send(portal, number, frames)
            sent += number
            if number < count:
                break
            if limit and sent >= limit:
                is_suspended = True
                break
        if is_suspended:
            self._out += wire.PORTAL_SUSPENDED
            return
        portal.is_done = True
        self._out += wire.command_complete(portal.tag)

    async def _next(self, portal: Portal, count: int) -> tuple[int, list[bytes]]:
        return await self._work(lambda: portal.next(count))

    async def _send(self, portal: Portal, number: int, frames: Sequence[bytes]) -> None:
        """Append frames of rows to the output. Raises PgError if a limit is exceeded."""
        options = self._service.options
        portal.rows += number
        portal.size += sum(map(len, frames))
        if portal.rows > options.max_rows or portal.size > options.max_bytes:
            most = f"{options.max_rows:,} rows and {options.max_bytes >> 20:,} MiB"
            raise PgError("54000", f"A result has {most} at most here: ask for less.")
        self._out += b"".join(frames)
        if len(self._out) > PIECE:
            await self._flush()

    async def _start(self, portal: Portal, first: int) -> None:
        """Run a portal's statement, and prepare its first rows."""
        portal.began = perf_counter()
        if portal.command is not None:
            result = await self._command(portal, portal.command)
            if result is not None:
                portal.started(result, first)
                return
        assert self._backend is not None
        catalogs = await self._catalog_of(portal.text)
        result = self._backend.run_at_once(portal.text, portal.values) if catalogs is None else None
        if result is not None:
            portal.started(result, first)
            await self._let_others()
            return
        await self._work(lambda: portal.started(self._answer(catalogs, portal.text, portal.values), first))

    def _answer(self, catalogs: Catalogs | None, text: str, values: Sequence[Any]) -> Result:
        """The result of a statement; the catalog instance answers catalog queries. Called from worker threads."""
        assert self._backend is not None
        if catalogs is None:
            return self._backend.run(text, values)
        answer = catalogs.run(text, values, _CATALOG_SECONDS)
        return listed("SELECT", catalog_columns(answer), answer.rows)

    async def _catalog_of(self, text: str) -> Catalogs | None:
        """The catalog instance, if a statement is a catalog query; filled again if what the user sees has changed."""
        assert self._backend is not None
        backend, make = self._backend, self._service.catalogs
        if make is None or not MENTIONS.search(text):
            return None

        def filled() -> Catalogs | None:
            made = self._catalogs if self._catalogs is not None else make(backend.role, self._name)
            self._catalogs = made
            if not made.answers(text):
                return None
            if self._filled != backend.stamp:
                stamp, seen = backend.stamp, backend.visible()
                made.fill(seen.columns, seen.tables)
                self._filled = stamp
            return made

        return await self._work(filled)

    async def _let_others(self) -> None:
        """Let other sessions go on from time to time: called after each step that did not wait for anything."""
        self._in_a_row += 1
        if self._in_a_row >= _MOST_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)

    def _check(self) -> None:
        """Raises PgError if the running statement must end. Called from worker threads."""
        if self._ending is not None:
            raise PgError(*self._ending)

    async def _work(self, do: Callable[[], _T]) -> _T:
        """Do something in a worker thread, for as long as a statement may take."""
        loop = asyncio.get_running_loop()
        self._is_working, self._ending = True, None
        late = loop.call_at(self._deadline, self.finish, TOO_LONG) if self._deadline else None

        def checked() -> _T:
            self._check()
            return do()

        running = self._running = self._service.submit(checked)
        try:
            return await asyncio.wrap_future(running)
        except duckdb.InterruptException:
            raise PgError(*(self._ending or CANCELLED)) from None
        finally:
            self._is_working = False
            if late is not None:
                late.cancel()

    @property
    def _seconds(self) -> float | None:
        limits = [one for one in (self._service.options.seconds, self._settings.statement_seconds) if one]
        return min(limits, default=None)

    async def _copy_out(self, portal: Portal, command: commands.CopyOut) -> None:
        options = command.options
        portal.began = perf_counter()
        catalogs = await self._catalog_of(command.query)
        result = await self._work(lambda: self._answer(catalogs, command.query, portal.values))
        if result.columns is None:
            raise PgError("42601", "COPY ... TO STDOUT is for queries: this one has no rows.")
        portal.result, columns = result, result.columns
        write = copy_writer(columns, options)
        self._out += wire.copy_out(len(columns), binary=options.form == "binary")
        # Clients read one row from each frame, and the binary header in front of the first one.
        header = copy_header(columns, options)
        before = header if options.form == "binary" else b""
        if header and not before:
            self._out += wire.copy_data(header)

        def step() -> list[bytes]:
            return [wire.copy_data(row) for row in write(result.fetch(CHUNK))]

        def first() -> list[bytes]:
            rows = write(result.fetch(CHUNK))
            return [wire.copy_data(row) for row in [*(before + row for row in rows[:1]), *rows[1:]]]

        frames = await self._work(first)
        if not frames and before:
            self._out += wire.copy_data(before)
        while frames:
            await self._send(portal, len(frames), frames)
            frames = await self._work(step) if len(frames) == CHUNK else []
        end = copy_end(options)
        self._out += wire.copy_data(end) if end else b""
        self._out += wire.COPY_OUT_DONE + wire.command_complete(f"COPY {portal.rows}")
        portal.is_done = True

    async def _command(self, portal: Portal, command: commands.Command) -> Result | None:
        """Carry out a statement about the session. None: DuckDB must run it after all."""
        raise NotImplementedError

    # Sending and logging.

    async def _flush(self) -> None:
        if self._out:
            data, self._out = self._out, bytearray()
            await self._stream.write(data, _TAKES)

    def _logged(self, portal: Portal, error: Exception | None) -> None:
        """Log a statement that has ended."""
        if portal.command is not None and error is None and not isinstance(portal.command, commands.CopyOut):
            return
        result, said = portal.result, None
        if error is not None:
            said = "58000" if isinstance(error, ConnectionError) else pg_error(error, all_words=False).code
        decision = result.decision if result is not None else None
        spent = result.spent if result is not None else getattr(error, "spent", Fraction(0))
        self._service.log.write(
            "statement",
            user=self._name,
            text=portal.text,
            decision=None if decision is None else "; ".join(f"{one.kind}: {one.verdict}" for one in decision.steps),
            epsilon=str(spent) if spent else None,
            rows=portal.rows,
            ms=round((perf_counter() - portal.began) * 1000, 1),
            error=said,
        )
