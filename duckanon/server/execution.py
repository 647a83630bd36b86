"""Runs the statements of one session, and sends their results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from duckanon.cancellation import Flag, Stopped, working_for
from duckanon.server import commands, wire
from duckanon.server.backends import Backend, Catalogs, Result, catalog_columns, listed
from duckanon.server.catalog_query import MENTIONS
from duckanon.server.errors import CANCELLED, FAILED_TRANSACTION, STILL_ENDING, STOPPING, TOO_LONG, PgError, pg_error
from duckanon.server.loading import Loading
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
# In seconds: how often the clock of a statement that waits for a thread is looked at.
_LOOK = 0.1
# In seconds: how long a client waits for the end of a statement that must end.
_GIVE_UP = 1.0
# In bytes: output is collected up to this size before it is sent.
PIECE = 1 << 16
# In bytes: what a client copies is collected up to this size before it is read.
_COPIED = 1 << 18
# In seconds: the most that a statement about the catalog may take.
_CATALOG_SECONDS = 10.0
# The most messages and statements of one session that are handled before other sessions may go on.
_MOST_IN_A_ROW = 32
# The commands that are accepted in a transaction that has failed.
_ENDS = ("commit", "rollback", "rollback to")


@dataclass
class Copying:
    """What a client copies to the server. ended: set when that must end, and why. is_over: whether all has come."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    why: tuple[str, str] | None = None
    is_over: bool = False


def _taken(ended: asyncio.Future[Any]) -> None:
    """Take an error for which nobody waits: asyncio would print it, and it may quote a value."""
    if not ended.cancelled():
        ended.exception()


def _end_of(running: Future[Any]) -> asyncio.Future[Any]:
    """The end of what nobody waits for any more."""
    found = asyncio.wrap_future(running)
    found.add_done_callback(_taken)
    return found


class Execution:
    """The connection on which the statements of one session run, with its prepared statements and portals."""

    # The number of the session, by which its user may end what it runs.
    process: int

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
        # The error with which the running statement must end, and what is set when nobody waits for its end any more.
        self._ending: tuple[str, str] | None = None
        self._given_up: asyncio.Future[None] | None = None
        self._running: Future[Any] | None = None
        # What still ends of an earlier statement, for which nobody waits.
        self._left_behind: Future[Any] | None = None
        self._flag = Flag()
        self._late: asyncio.TimerHandle | None = None
        # What the client copies to the server.
        self._copying: Copying | None = None
        # How many steps were taken since other sessions could last go on.
        self._in_a_row = 0
        # How long the statement may take, and when that ends by the event loop's clock, once it has begun. Whether it
        # waits for a thread: that moves the end.
        self._allowed: float | None = None
        self._deadline: float | None = None
        self._is_waiting = False

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
        ending = [one for one in (self._running, self._left_behind) if one is not None and not one.done()]
        if ending:
            # A connection is not closed while a statement runs on it.
            self.finish(STOPPING)
            self._flag.set()
            await asyncio.wait(set(map(_end_of, ending)))
        self._portals.clear()
        backend, self._backend = self._backend, None
        catalogs, self._catalogs = self._catalogs, None
        self._filled = None
        for one in (backend, catalogs):
            if one is not None:
                await self._service.light_work(one.close)

    def finish(self, why: tuple[str, str]) -> None:
        """End the running statement as soon as possible. Its client waits a moment longer at most."""
        if self._copying is not None and not self._copying.ended.is_set():
            self._copying.why = why
            self._copying.ended.set()
        if self._is_working and self._ending is None:
            self._ending = why
            self._interrupt(self._flag)
            asyncio.get_running_loop().call_later(_GIVE_UP, self._give_up, self._given_up)

    @staticmethod
    def _give_up(given_up: asyncio.Future[None] | None) -> None:
        if given_up is not None and not given_up.done():
            given_up.set_result(None)

    @property
    def is_busy(self) -> bool:
        """Whether a statement runs that does more than to wait for an answer, or what was left of one."""
        if self._left_behind is not None and not self._left_behind.done():
            return True
        return self._running is not None and not self._running.done() and not self._flag.only_waits

    def cancel(self) -> None:
        """End the statement that runs, at its user's wish."""
        self.finish(CANCELLED)

    def _interrupt(self, flag: Flag) -> None:
        """Interrupt a statement until it has ended: it may not yet have begun to run in DuckDB."""
        running = self._running
        if running is not None and not running.done() and flag is self._flag:
            flag.set()
            asyncio.get_running_loop().call_later(_AGAIN, self._interrupt, flag)

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise PgError("34000", "There is no cursor of that name: it ends with its transaction.")
        return self._portals[name]

    async def _execute(self, portal: Portal, limit: int, *, tell: bool) -> None:
        """Run a portal, or go on with it, and send its rows. tell: whether the columns are sent first."""
        self._allowed, self._deadline = self._seconds, None
        self._flag = portal.flag
        ends = isinstance(portal.command, commands.Transaction) and portal.command.action in _ENDS
        if self._status == b"E" and not ends:
            raise PgError(*FAILED_TRANSACTION)
        if not portal.text:
            self._out += (wire.NO_DATA if tell else b"") + wire.EMPTY_QUERY
            return
        try:
            if isinstance(portal.command, commands.CopyOut):
                await self._copy_out(portal, portal.command)
            elif isinstance(portal.command, commands.CopyIn):
                await self._copy_in(portal, portal.command)
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
            if self._is_at_hand(portal, first):
                await self._let_others()
            else:
                with self._service.first_rows.awaited():
                    await self._start(portal, first)
        result = portal.result
        assert result is not None
        self._tell_noise(portal)
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

    def _is_at_hand(self, portal: Portal, first: int) -> bool:
        """Whether the result is known without running anything; then its first rows are prepared."""
        assert self._backend is not None
        result = self._backend.at_hand(portal.text) if portal.command is None and not portal.values else None
        if result is not None:
            portal.began = perf_counter()
            portal.started(result, first)
        return result is not None

    def _tell_noise(self, portal: Portal) -> None:
        """Say once what noise a result has, before its rows."""
        result = portal.result
        if result is not None and result.noise is not None:
            self._notice("00000", result.noise, "NOTICE")
            result.noise = None

    def _notice(self, code: str, text: str, severity: str) -> None:
        if self._settings.get("client_min_messages") not in ("warning", "error") or severity == "WARNING":
            self._out += wire.notice(code, text, severity=severity)

    async def _next(self, portal: Portal, count: int) -> tuple[int, list[bytes]]:
        first_rows = self._service.first_rows

        def next_rows() -> tuple[int, list[bytes]]:
            with first_rows.behind():
                return portal.next(count)

        return await self._work(next_rows)

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
        backend.has_intervals = self._settings.has_intervals
        if make is None or not MENTIONS.search(text):
            return None

        def filled() -> Catalogs | None:
            catalogs = self._catalogs if self._catalogs is not None else make(backend.role, self._name)
            self._catalogs = catalogs
            catalogs.process = self.process
            if not catalogs.answers(text):
                return None
            if self._filled != backend.stamp:
                stamp, visible = backend.stamp, backend.visible()
                catalogs.fill(visible.columns, visible.tables, visible.comments)
                self._filled = stamp
            return catalogs

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
        """Do something in a worker thread, for as long as a statement may take. To wait for a thread does not count.

        Where what must end does not end at once, it is left behind, and the client goes on.
        """
        await self._nothing_left_behind()
        loop, flag, user = asyncio.get_running_loop(), self._flag, self._name
        given_up, asked = loop.create_future(), loop.time()
        self._is_working, self._ending, self._given_up = True, None, given_up
        self._is_waiting = True

        def checked() -> _T:
            # It has a thread: from now on its time counts.
            if self._allowed is not None:
                now = loop.time()
                self._deadline = now + self._allowed if self._deadline is None else self._deadline + now - asked
                flag.limit(max(self._deadline - now, 0.0))
            self._is_waiting = False
            try:
                with working_for(flag), flag.stopping(self._stop):
                    self._check()
                    return do()
            except Stopped:
                pass
            # An engine may see that the time is over before anybody has looked at the clock.
            raise PgError(*(self._ending or (CANCELLED if flag.left != 0 else TOO_LONG)))

        running = self._running = self._service.submit(user, checked)
        waiting: asyncio.Future[_T] = asyncio.wrap_future(running)
        if self._allowed is not None:
            # (A later part of a statement has less time left than all of it.)
            left = self._allowed if self._deadline is None else self._deadline - loop.time()
            self._late = loop.call_later(left, self._look_at_clock, flag)
        try:
            both: set[asyncio.Future[Any]] = {waiting, given_up}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                self._leave_behind(running, waiting)
                raise PgError(*(self._ending or CANCELLED))
            return waiting.result()
        except duckdb.InterruptException:
            raise PgError(*(self._ending or CANCELLED)) from None
        finally:
            self._is_working = False
            given_up.cancel()
            if self._late is not None:
                self._late.cancel()

    def _look_at_clock(self, flag: Flag) -> None:
        """End the statement if its time is over; look again later if it began later, or waits for a thread still."""
        if self._allowed is None or not self._is_working or flag is not self._flag:
            return
        loop = asyncio.get_running_loop()
        left = _LOOK if self._is_waiting or self._deadline is None else self._deadline - loop.time()
        if left <= 0:
            self.finish(TOO_LONG)
        else:
            self._late = loop.call_later(left, self._look_at_clock, flag)

    def _leave_behind(self, running: Future[Any], waiting: asyncio.Future[Any]) -> None:
        """Let what must end go on by itself until it ends."""
        waiting.add_done_callback(_taken)
        if not running.cancel():
            self._left_behind = running
            self._service.leave_behind(running)

    async def _nothing_left_behind(self) -> None:
        """Wait a moment for what was left behind. Raises PgError if it has not ended then."""
        left = self._left_behind
        if left is None:
            return
        if not left.done():
            await asyncio.wait({_end_of(left)}, timeout=_GIVE_UP)
        if not left.done():
            raise PgError(*STILL_ENDING)
        self._left_behind = None

    def _stop(self) -> None:
        """Stop what runs on the backend's connection. Called from any thread."""
        if self._backend is not None:
            self._backend.cancel()

    @property
    def _seconds(self) -> float | None:
        limits = [number for number in (self._service.options.seconds, self._settings.statement_seconds) if number]
        return min(limits, default=None)

    async def _copy_out(self, portal: Portal, command: commands.CopyOut) -> None:
        options = command.options
        portal.began = perf_counter()
        catalogs = await self._catalog_of(command.query)
        result = await self._work(lambda: self._answer(catalogs, command.query, portal.values))
        if result.columns is None:
            raise PgError("42601", "COPY ... TO STDOUT is for queries: this one has no rows.")
        portal.result, columns = result, result.columns
        self._tell_noise(portal)
        write = copy_writer(columns, options)
        self._out += wire.copy_out(len(columns), binary=options.form == "binary")
        # Clients read one row from each frame, and the binary header in front of the first one.
        header = copy_header(columns, options)
        before = header if options.form == "binary" else b""
        if header and not before:
            self._out += wire.copy_data(header)

        first_rows = self._service.first_rows

        def step() -> list[bytes]:
            with first_rows.behind():
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

    async def _copy_in(self, portal: Portal, command: commands.CopyIn) -> None:
        """Take rows from the client: all of them, or none."""
        assert self._backend is not None
        backend, portal.began = self._backend, perf_counter()
        loading = await self._work(lambda: backend.load(command))
        self._copying = Copying()
        try:
            self._out += wire.copy_in(len(loading.names), binary=command.options.form == "binary")
            await self._flush()
            while (piece := await self._copied()) is not None:
                await self._work(partial(loading.feed, piece))
            await self._work(loading.finish)
        except BaseException:
            await self._abandon(loading)
            raise
        finally:
            self._copying = None
        portal.rows = loading.rows
        self._out += wire.command_complete(f"COPY {loading.rows}")
        portal.is_done = True

    async def _abandon(self, loading: Loading) -> None:
        """Undo what was copied, once what still runs of it has ended."""
        left = self._left_behind
        if left is not None and not left.done():
            left.add_done_callback(lambda _: loading.abandon())
        else:
            await self._service.light_work(loading.abandon)

    async def _copied(self) -> bytes | None:
        """The next piece of what the client copies; None behind the last one. Raises PgError if the client gives up."""
        assert self._copying is not None
        found = bytearray()
        if self._copying.why is not None:
            raise PgError(*self._copying.why)
        while not self._copying.is_over and len(found) < _COPIED:
            message = self._buffered() or await self._copy_message(self._copying)
            if isinstance(message, wire.CopyData):
                found += message.body
            elif message is wire.COPY_DONE:
                self._copying.is_over = True
            elif isinstance(message, wire.CopyFail):
                raise PgError("57014", "The client has given up copying: nothing was copied.")
            elif message not in (wire.FLUSH, wire.SYNC):
                raise wire.FrameError("something else was sent while rows were copied")
        return bytes(found) or None

    async def _copy_message(self, copying: Copying) -> wire.Message:
        """Wait for the client's next message. Raises PgError if the statement is to end meanwhile."""
        loop = asyncio.get_running_loop()
        left = None if self._deadline is None else max(self._deadline - loop.time(), 0.0)
        reading, ended = asyncio.ensure_future(self._message()), asyncio.ensure_future(copying.ended.wait())
        both: set[asyncio.Future[Any]] = {reading, ended}
        try:
            await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            raise PgError(*(copying.why or TOO_LONG))
        finally:
            for one in both:
                one.cancel()
            # Only then may another message be waited for.
            await asyncio.gather(*both, return_exceptions=True)

    async def _message(self) -> wire.Message:
        """The client's next message."""
        raise NotImplementedError

    def _buffered(self) -> wire.Message | None:
        """The client's next message, if it is here already."""
        raise NotImplementedError

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
        told_of = (commands.CopyOut, commands.CopyIn, commands.UserChange, commands.Explain)
        if portal.command is not None and error is None and not isinstance(portal.command, told_of):
            return
        result, said = portal.result, None
        if error is not None:
            said = "58000" if isinstance(error, ConnectionError) else pg_error(error, all_words=False).code
        decision = result.decision if result is not None else None
        spent = result.spent if result is not None else getattr(error, "spent", Fraction(0))
        self._service.log.write(
            "statement",
            user=self._name,
            text=portal.command.shown if isinstance(portal.command, commands.UserChange) else portal.text,
            decision=None if decision is None else "; ".join(f"{one.kind}: {one.verdict}" for one in decision.steps),
            epsilon=str(spent) if spent else None,
            rows=portal.rows,
            ms=round((perf_counter() - portal.began) * 1000, 1),
            error=said,
        )
