"""One client's session: from its first byte to its last, as a state machine over the messages of the protocol."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from fractions import Fraction
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from duckanon.errors import InvalidInput
from duckanon.server import commands, wire
from duckanon.server.backends import Backend, Catalogs, Column, Result, catalog_columns, listed
from duckanon.server.codecs import decoder
from duckanon.server.errors import (
    CANCELLED,
    FAILED_TRANSACTION,
    LOGIN_FAILED,
    STOPPING,
    TOO_LONG,
    Told,
    told,
)
from duckanon.server.lexer import statements
from duckanon.server.portals import CHUNK, Portal, Prepared, copy_end, copy_header, copy_writer
from duckanon.server.scram import Exchange, LoginFailed
from duckanon.server.settings import Settings
from duckanon.server.stream import Ended, Stream
from duckanon.server.types import TEXT
from duckanon.server.users import User

if TYPE_CHECKING:
    from duckanon.server.service import Service

_T = TypeVar("_T")
# In seconds: for the login, between a frame's first byte and its last, and for a client to take what waits for it.
_LOGIN, _FRAME, _TAKES = 10.0, 60.0, 60.0
# A failed login takes this long at least, and a statement that is to end is interrupted this often.
_FAILURE, _AGAIN = 0.5, 0.05
# In bytes: what is collected before it is sent.
_PIECE = 1 << 16
# In characters, of what an analyst sends at once.
_LONGEST_TEXT = 100_000
# The most prepared statements and portals of one session.
_MOST_STATEMENTS, _MOST_PORTALS = 1_000, 100
# In seconds: the most that a statement about the catalog may take.
_CATALOG_SECONDS = 10.0
_MOST_SAVEPOINTS = 1000
# What a transaction that has failed still takes.
_ENDS = ("commit", "rollback", "rollback to")


# A quick look: text without any of these words is about no catalog.
_CATALOG = re.compile(
    r"pg_|information_schema|current_|session_user|version|set_config|_privilege|_description|format_type|to_reg|::\s*reg",
    re.IGNORECASE,
)


class Session:
    """One connection. process, key: with which another connection may cancel what it runs."""

    def __init__(self, service: Service, stream: Stream) -> None:
        self._service, self._stream = service, stream
        self.process, self.key = secrets.randbits(31), secrets.randbits(32) - (1 << 31)
        self.user: User | None = None
        self._backend: Backend | None = None
        self._catalogs: Catalogs | None = None
        # The backend's stamp when the catalog instance was filled.
        self._filled: tuple[int, int] | None = None
        self._settings = Settings({})
        self._out = bytearray()
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        # A portal of which the columns were asked and not yet told.
        self._undescribed: Portal | None = None
        self._status = b"I"
        # By name: how many changes of its own the session had made before.
        self._savepoints: dict[str, int] = {}
        self._is_skipping = self._is_working = self._has_noticed = False
        # Why what runs is to end.
        self._ending: tuple[str, str] | None = None
        self._running: Future[Any] | None = None
        # By the event loop's clock.
        self._deadline: float | None = None

    # The session's life.

    async def run(self) -> None:
        """Serve the client until it or the server ends the session. Raises nothing."""
        self._stream.lost = lambda: self.finish(CANCELLED)
        try:
            async with asyncio.timeout(_LOGIN):
                is_open = await self._open()
            if is_open:
                await self._serve()
        except wire.FrameError as error:
            await self._fatal("08P01", f"The connection ends: {error}.")
        except Told as error:
            await self._fatal(error.code, error.text)
        except (ConnectionError, TimeoutError):
            pass
        except Exception as error:
            self._service.log.write("internal error", user=self._name, kind=type(error).__name__)
            await self._fatal("XX000", "The connection ends: the server has failed, and its log says where.")
        finally:
            self._service.left(self)
            await self._release()
            self._stream.close()

    async def _release(self) -> None:
        if self._running is not None and not self._running.done():
            # A connection is not closed under what runs on it.
            self.finish(STOPPING)
            await asyncio.wait({asyncio.wrap_future(self._running)})
        self._portals.clear()
        backend, self._backend = self._backend, None
        catalogs, self._catalogs = self._catalogs, None
        self._filled = None
        for one in (backend, catalogs):
            if one is not None:
                await self._service.light_work(one.close)

    async def _fatal(self, code: str, text: str) -> None:
        """Tell the client why the connection ends."""
        self._out += wire.error(code, text, severity="FATAL")
        try:
            await self._flush()
        except (ConnectionError, TimeoutError):
            return

    def finish(self, why: tuple[str, str]) -> None:
        """End what runs, as soon as that can be."""
        if self._is_working and self._ending is None:
            self._ending = why
            self._interrupt()

    def cancel(self) -> None:
        """End the statement that runs, at its user's wish."""
        self.finish(CANCELLED)

    def renumber(self) -> None:
        """Take another number, since there is a session of this one."""
        self.process = secrets.randbits(31)

    def stop(self) -> None:
        """End the session: at once where it waits for the client, else after what runs."""
        self._stream.stop()

    def _interrupt(self) -> None:
        """Interrupt the backend until what runs has ended: it may not have begun to run in DuckDB."""
        if self._is_working and self._ending is not None and self._backend is not None:
            self._backend.cancel()
            asyncio.get_running_loop().call_later(_AGAIN, self._interrupt)

    # The beginning: encryption, a cancel request, or a login.

    async def _open(self) -> bool:
        """Whether a session has begun."""
        tries = 0
        while True:
            length = wire.body_length(await self._stream.read(4), wire.LONGEST_STARTUP)
            first = wire.opening(await self._stream.read(length))
            if isinstance(first, wire.Cancel):
                self._service.cancel(first.process, first.key)
                return False
            if isinstance(first, wire.Startup):
                return await self._begin(first)
            tries += 1
            if tries > 2 or self._stream.is_encrypted:
                raise wire.FrameError("encryption is asked for again")
            tls = self._service.tls
            if first.by == "tls" and tls is not None:
                await self._stream.start_tls(wire.ENCRYPTED, tls.context, _LOGIN)
            else:
                await self._stream.write(wire.NOT_ENCRYPTED)

    async def _begin(self, startup: wire.Startup) -> bool:
        given = dict(startup.parameters)
        unknown = [name for name in given if name.startswith("_pq_.")]
        if startup.minor or unknown:
            self._out += wire.negotiate_version(unknown)
        if self._service.tls is not None and not self._stream.is_encrypted:
            raise Told("28000", "This server speaks TLS only: connect with sslmode=require or better.")
        if given.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise Told("0A000", "There is no replication here.")
        await self._log_in(given.get("user", ""))
        assert self.user is not None
        names = (self._service.database, self.user.name, "postgres", "")
        if given.get("database", "") not in names:
            raise Told("3D000", f"There is one database here: connect to {self._service.database}.")
        self._service.joined(self)
        await self._connect()
        self._settings = Settings(
            {"session_authorization": self.user.name, "is_superuser": "on" if self._is_steward else "off"}
            | ({"default_transaction_read_only": "on"} if self._service.options.read_only else {})
        )
        self._settings.begin(given)
        self._out += wire.authentication_ok()
        for name, value in self._settings.reported():
            self._out += wire.parameter_status(name, value)
        self._out += wire.backend_key(self.process, self.key) + wire.ready(self._status)
        return True

    async def _connect(self) -> None:
        user = self.user
        assert user is not None
        self._backend = await self._service.light_work(lambda: self._service.backend(user))
        self._backend.check = self._check

    async def _log_in(self, name: str) -> None:
        """Find out who it is. Raises Told."""
        began = perf_counter()
        try:
            users = await self._service.light_work(self._service.users.read)
            tls = self._service.tls if self._stream.is_encrypted else None
            exchange = Exchange(users.verifier(name), None if tls is None else tls.end_point, known=name in users.users)
            self._out += wire.authentication_sasl(exchange.mechanisms)
            mechanism, first = wire.sasl_initial(await self._password())
            self._out += wire.authentication_continue(exchange.first(mechanism, first))
            final = exchange.final(await self._password())
            self._out += wire.authentication_final(final)
            self.user = users.users[name]
            self._service.log.write("login", user=name, role=self.user.role, peer=self._stream.peer)
        except (LoginFailed, InvalidInput) as error:
            reason = str(error) or None
            self._service.log.write("login failed", user=name[:63], peer=self._stream.peer, reason=reason)
            await asyncio.sleep(max(0.0, _FAILURE - (perf_counter() - began)))
            raise Told(*LOGIN_FAILED) from None

    async def _password(self) -> bytes:
        await self._flush()
        header = await self._stream.read(5)
        body = await self._stream.read(wire.body_length(header[1:], wire.LONGEST_SASL))
        found = wire.message(header[:1], body)
        if not isinstance(found, wire.Password):
            raise wire.FrameError("a password was asked for, and something else was sent")
        return found.body

    # The messages.

    async def _serve(self) -> None:
        while True:
            try:
                message = await self._message()
            except Ended:
                if self._service.is_stopping:
                    raise Told(*STOPPING) from None
                raise
            if message is wire.TERMINATE:
                return
            await self._handle(message)
            if (
                self._service.is_stopping
                and self._status == b"I"
                and (message is wire.SYNC or isinstance(message, wire.Query))
            ):
                raise Told(*STOPPING)

    async def _message(self) -> wire.Message:
        header = self._stream.has(5)
        longest = wire.LONGEST if self._is_steward else wire.LONGEST_ANALYST
        if header is None or self._stream.buffered < 5 + wire.body_length(header[1:], longest):
            # Everything is sent before the session waits for the client.
            if self._undescribed is None:
                await self._flush()
            header = await self._peek()
        body_length = wire.body_length(header[1:], longest)
        async with asyncio.timeout(_FRAME):
            frame = await self._stream.read(5 + body_length)
        return wire.message(header[:1], frame[5:])

    async def _peek(self) -> bytes:
        """The next frame's header, which stays where it is."""
        while (header := self._stream.has(5)) is None:
            await self._stream.more()
        return header

    async def _handle(self, message: wire.Message) -> None:
        if isinstance(message, wire.Query):
            if self._is_skipping:
                return
            self._undescribed = None
            await self._guarded(lambda: self._query(message.text))
            self._out += wire.ready(self._status)
        elif message is wire.SYNC:
            if not self._is_skipping:
                await self._guarded(self._tell_undescribed)
            self._is_skipping, self._undescribed = False, None
            if self._status == b"I":
                self._end_portals()
            self._out += wire.ready(self._status)
        elif isinstance(message, wire.Password):
            raise wire.FrameError("a password was sent that was not asked for")
        elif not self._is_skipping and not isinstance(message, wire.CopyData | wire.CopyFail):
            self._is_skipping = not await self._guarded(lambda: self._extended(message))
        if len(self._out) > _PIECE:
            await self._flush()

    async def _guarded(self, step: Callable[[], Any]) -> bool:
        """Take a step. An error is told to the client, and the answer is False."""
        try:
            await step()
            return True
        except (wire.FrameError, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            self._undescribed = None
            self._tell(error)
            if self._status == b"T":
                self._status = b"E"
            return False

    def _tell(self, error: Exception) -> None:
        said = told(error, all_words=self._is_steward)
        if said.code == "XX000":
            self._service.log.write("internal error", user=self._name, kind=type(error).__name__)
        self._out += wire.error(said.code, said.text)

    @property
    def _name(self) -> str:
        return self.user.name if self.user is not None else ""

    async def _query(self, text: str) -> None:
        """The simple protocol: all statements of a text, until one fails."""
        self._portals.pop("", None)
        parts = statements(self._limited(text))
        if not parts:
            self._out += wire.EMPTY_QUERY
        for part in parts:
            await self._execute(Portal(part, commands.command(part)), 0, tell=True)

    async def _extended(self, message: wire.Message) -> None:
        pending, self._undescribed = self._undescribed, None
        if isinstance(message, wire.Execute):
            portal = self._portal(message.portal)
            if pending is not None and pending is not portal:
                await self._tell_columns(pending)
            await self._execute(portal, message.limit, tell=pending is portal)
            return
        if pending is not None:
            await self._tell_columns(pending)
        if isinstance(message, wire.Parse):
            self._parse(message)
        elif isinstance(message, wire.Bind):
            await self._bind(message)
        elif isinstance(message, wire.Describe):
            await self._describe(message)
        elif isinstance(message, wire.Close):
            if message.kind == "S":
                self._prepared.pop(message.name, None)
            else:
                self._portals.pop(message.name, None)
            self._out += wire.CLOSE_COMPLETE
        elif message is wire.FLUSH:
            await self._flush()

    def _limited(self, text: str) -> str:
        """The text, if it is no longer than what the guard reads."""
        if len(text) > _LONGEST_TEXT and not self._is_steward:
            raise Told("54000", f"A text has {_LONGEST_TEXT:,} characters at most: split it with temporary tables.")
        return text

    @property
    def _is_steward(self) -> bool:
        return self.user is not None and self.user.role == "steward"

    def _parse(self, message: wire.Parse) -> None:
        if message.name and message.name in self._prepared:
            raise Told("42P05", "There is a prepared statement of that name: deallocate it first.")
        if len(self._prepared) >= _MOST_STATEMENTS:
            raise Told("54000", f"A session has {_MOST_STATEMENTS:,} prepared statements at most: deallocate some.")
        parts = statements(self._limited(message.text))
        if len(parts) > 1:
            raise Told("42601", "A prepared statement is one statement: send each of them alone.")
        text = parts[0] if parts else ""
        self._prepared[message.name] = Prepared(text, commands.command(text), message.types)
        self._out += wire.PARSE_COMPLETE

    async def _bind(self, message: wire.Bind) -> None:
        prepared = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise Told("42P03", "There is a cursor of that name: close it first.")
        if len(self._portals) >= _MOST_PORTALS:
            raise Told("54000", f"A session has {_MOST_PORTALS} open cursors at most: close some.")
        types = await self._types(prepared)
        if len(types) != len(message.values):
            raise Told("08P01", f"The statement has {len(types)} parameters, and {len(message.values)} values came.")
        formats = message.formats if len(message.formats) > 1 else [*message.formats, 0][:1] * len(types)
        values = [
            None if raw is None else decoder(oid, binary=bool(binary))(raw)
            for raw, oid, binary in zip(message.values, types, formats, strict=True)
        ]
        expected = [one.type.oid for one in prepared.columns] if prepared.columns is not None else None
        self._portals[message.portal] = Portal(
            prepared.text, prepared.command, values, types, message.result_formats, expected=expected
        )
        self._out += wire.BIND_COMPLETE

    async def _types(self, prepared: Prepared) -> Sequence[int]:
        """The oids of a statement's parameters."""
        assert self._backend is not None
        backend, text = self._backend, _inner(prepared.command) or prepared.text
        if prepared.types is None:
            catalogs = await self._catalog_of(text)
            if catalogs is not None:
                guessed = [one.oid for one in await self._work(lambda: catalogs.parameters(text))]
                given = [*prepared.declared, *[0] * (len(guessed) - len(prepared.declared))]
                prepared.types = [one or guess for one, guess in zip(given, guessed, strict=False)]
                return prepared.types
            prepared.types = await self._work(lambda: backend.parameter_types(text, prepared.declared))
        return prepared.types

    async def _describe(self, message: wire.Describe) -> None:
        if message.kind == "P":
            # The next message may be the one that runs it; then its result says what its columns are.
            self._undescribed = self._portal(message.name)
            return
        prepared = self._statement(message.name)
        types = await self._types(prepared)
        prepared.columns = await self._columns(prepared.text, prepared.command, types)
        self._out += wire.parameter_description(types)
        self._out += _described(Portal("", None), prepared.columns)

    async def _tell_undescribed(self) -> None:
        portal, self._undescribed = self._undescribed, None
        if portal is not None:
            await self._tell_columns(portal)

    async def _tell_columns(self, portal: Portal) -> None:
        """Tell the columns of a portal, which does not run for it."""
        if portal.result is not None:
            columns = portal.result.columns
        else:
            columns = await self._columns(portal.text, portal.command, portal.types)
            portal.expected = None if columns is None else [one.type.oid for one in columns]
        self._out += _described(portal, columns)

    async def _columns(
        self, text: str, command: commands.Command | None, types: Sequence[int]
    ) -> Sequence[Column] | None:
        """The columns of a statement, which does not run for it and costs nothing."""
        assert self._backend is not None
        backend = self._backend
        if isinstance(command, commands.Show):
            return self._shown(command).columns
        if isinstance(command, commands.Fetch) and not command.move:
            portal = self._portal(command.name)
            return portal.result.columns if portal.result is not None else None
        if command is not None or not text:
            return None
        catalogs = await self._catalog_of(text)
        if catalogs is not None:
            return catalog_columns(await self._work(lambda: catalogs.describe(text)))
        return await self._work(lambda: backend.describe(text, types))

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise Told("26000", "There is no prepared statement of that name.")
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Told("34000", "There is no cursor of that name: it ends with its transaction.")
        return self._portals[name]

    # Running.

    async def _execute(self, portal: Portal, limit: int, *, tell: bool) -> None:
        """Run a portal, or go on with it, and send its rows. tell: whether its columns are told first."""
        self._deadline = asyncio.get_running_loop().time() + self._seconds if self._seconds else None
        ends = isinstance(portal.command, commands.Transaction) and portal.command.action in _ENDS
        if self._status == b"E" and not ends:
            raise Told(*FAILED_TRANSACTION)
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
        """Put frames of rows behind what waits to be sent. Raises Told beyond the limits."""
        options = self._service.options
        portal.rows += number
        portal.size += sum(map(len, frames))
        if portal.rows > options.max_rows or portal.size > options.max_bytes:
            most = f"{options.max_rows:,} rows and {options.max_bytes >> 20:,} MiB"
            raise Told("54000", f"A result has {most} at most here: ask for less.")
        self._out += b"".join(frames)
        if len(self._out) > _PIECE:
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
        backend, catalogs = self._backend, await self._catalog_of(portal.text)

        def run() -> None:
            if catalogs is not None:
                answer = catalogs.run(portal.text, portal.values, _CATALOG_SECONDS)
                found = listed("SELECT", catalog_columns(answer), answer.rows)
            else:
                found = backend.run(portal.text, portal.values)
            portal.started(found, first)

        await self._work(run)

    async def _catalog_of(self, text: str) -> Catalogs | None:
        """The catalog instance, if a statement is one for it. It is filled anew when there is something else to see."""
        assert self._backend is not None
        backend, make = self._backend, self._service.catalogs
        if make is None or not _CATALOG.search(text):
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

    def _check(self) -> None:
        """Raises Told if what runs is to end. Called from worker threads."""
        if self._ending is not None:
            raise Told(*self._ending)

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
            raise Told(*(self._ending or CANCELLED)) from None
        finally:
            self._is_working = False
            if late is not None:
                late.cancel()

    @property
    def _seconds(self) -> float | None:
        limits = [one for one in (self._service.options.seconds, self._settings.statement_seconds) if one]
        return min(limits, default=None)

    async def _copy_out(self, portal: Portal, command: commands.CopyOut) -> None:
        assert self._backend is not None
        backend, options = self._backend, command.options
        portal.began = perf_counter()
        result = await self._work(lambda: backend.run(command.query, portal.values))
        if result.columns is None:
            raise Told("42601", "COPY ... TO STDOUT is for queries: this one has no rows.")
        portal.result, columns = result, result.columns
        write = copy_writer(columns, options)
        self._out += wire.copy_out(len(columns), binary=options.form == "binary")
        # Clients read one row from each frame, and the binary header in front of the first one.
        header = copy_header(columns, options)
        before = header if options.form == "binary" else b""
        if header and not before:
            self._out += wire.copy_data(header)

        def step() -> list[bytes]:
            return [wire.copy_data(write(row)) for row in result.fetch(CHUNK)]

        def first() -> list[bytes]:
            rows = result.fetch(CHUNK)
            return [wire.copy_data((b"" if at else before) + write(row)) for at, row in enumerate(rows)]

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

    # Statements about the session.

    async def _command(self, portal: Portal, command: commands.Command) -> Result | None:
        """Do what a statement about the session says. None: it is one of DuckDB's after all."""
        if isinstance(command, commands.Transaction):
            return await self._transaction(command)
        if isinstance(command, commands.Declare):
            return await self._declare(command, portal.values)
        if isinstance(command, commands.Fetch):
            return await self._fetch(command)
        if isinstance(command, commands.DiscardAll):
            return await self._discard()
        return self._at_once(command)

    def _at_once(self, command: commands.Command) -> Result | None:
        """As `_command`, for statements that wait for nothing."""
        if isinstance(command, commands.Set):
            return self._set(command)
        if isinstance(command, commands.Show):
            return self._shown(command)
        if isinstance(command, commands.CloseCursor):
            return self._close_cursor(command.name)
        if isinstance(command, commands.Deallocate):
            return self._deallocate(command.name)
        if isinstance(command, commands.CopyIn):
            raise Told("0A000", "COPY ... FROM STDIN is not known here: insert rows with INSERT.")
        assert isinstance(command, commands.Done)
        return Result(command.tag)

    def _close_cursor(self, name: str | None) -> Result:
        if name is None:
            self._portals.clear()
            return Result("CLOSE CURSOR ALL")
        if self._portals.pop(name, None) is None:
            raise Told("34000", "There is no cursor of that name: it ends with its transaction.")
        return Result("CLOSE CURSOR")

    def _deallocate(self, name: str | None) -> Result:
        if name is None:
            self._prepared.clear()
            return Result("DEALLOCATE ALL")
        if self._prepared.pop(name, None) is None:
            raise Told("26000", "There is no prepared statement of that name.")
        return Result("DEALLOCATE")

    async def _transaction(self, command: commands.Transaction) -> Result:
        assert self._backend is not None
        backend, action = self._backend, command.action
        if command.name:
            return self._savepoint(action, command.name)
        if action == "begin":
            if self._status != b"I":
                self._notice("25001", "A transaction has begun already.", "WARNING")
                return Result("BEGIN")
            await self._work(backend.begin)
            self._status = b"T"
            if backend.role == "analyst" and not self._has_noticed:
                self._has_noticed = True
                self._notice("00000", "Each statement is committed by itself: ROLLBACK undoes nothing here.", "NOTICE")
            return Result("BEGIN")
        if self._status == b"I":
            self._notice("25P01", "There is no transaction.", "WARNING")
            return Result(action.upper())
        is_kept = action == "commit" and self._status == b"T"
        self._status = b"I"
        self._savepoints.clear()
        self._end_portals()
        await self._work(backend.commit if is_kept else backend.rollback)
        return Result("COMMIT" if is_kept else "ROLLBACK")

    def _savepoint(self, action: str, name: str) -> Result:
        """Savepoints are kept by name: drivers set them around each statement. What was written stays written."""
        assert self._backend is not None
        if self._status == b"I":
            raise Told("25P01", f"{action.upper()} is for a transaction: BEGIN one first.")
        if action == "savepoint":
            if len(self._savepoints) >= _MOST_SAVEPOINTS:
                raise Told("54000", f"A transaction has {_MOST_SAVEPOINTS} savepoints at most: release some.")
            self._savepoints[name] = self._backend.stamp[1]
            return Result("SAVEPOINT")
        if name not in self._savepoints:
            raise Told("3B001", "There is no savepoint of that name.")
        if action == "release":
            del self._savepoints[name]
            return Result("RELEASE")
        if self._backend.role == "steward" and self._backend.stamp[1] != self._savepoints[name]:
            raise Told("0A000", "What was written since the savepoint is not undone alone: ROLLBACK the transaction.")
        self._status = b"T"
        return Result("ROLLBACK")

    def _end_portals(self) -> None:
        """Close all cursors that end with their transaction."""
        self._portals = {name: one for name, one in self._portals.items() if one.hold}

    def _notice(self, code: str, text: str, severity: str) -> None:
        if self._settings.get("client_min_messages") not in ("warning", "error") or severity == "WARNING":
            self._out += wire.notice(code, text, severity=severity)

    def _set(self, command: commands.Set) -> Result | None:
        if not command.name:
            for name, value in self._settings.reset():
                self._out += wire.parameter_status(name, value)
            return Result("RESET")
        known = self._settings.get(command.name) is not None
        if not known and self._is_steward:
            # DuckDB's own, as far as the server's configuration lets it be set.
            return None
        told_of = self._settings.set(command.name, command.value)
        if told_of is not None:
            self._out += wire.parameter_status(*told_of)
        return Result("SET")

    def _shown(self, command: commands.Show) -> Result:
        if not command.name:
            rows = self._settings.all()
            return listed("SHOW", [Column("name", TEXT), Column("setting", TEXT)], rows)
        value = self._settings.get(command.name)
        if value is None:
            raise Told("42704", f"There is no setting {command.name[:60]} here: SHOW ALL lists those that there are.")
        return listed("SHOW", [Column(command.name, TEXT)], [(value,)])

    async def _declare(self, command: commands.Declare, values: Sequence[Any]) -> Result:
        if self._status == b"I" and not command.hold:
            raise Told("25P01", "A cursor is declared in a transaction, or WITH HOLD.")
        if command.name in self._portals:
            raise Told("42P03", "There is a cursor of that name: close it first.")
        if len(self._portals) >= _MOST_PORTALS:
            raise Told("54000", f"A session has {_MOST_PORTALS} open cursors at most: close some.")
        cursor = Portal(command.query, None, values, (), (int(command.binary),), command.hold, declared=True)
        await self._start(cursor, 0)
        if cursor.result is None or cursor.result.columns is None:
            raise Told("42601", "A cursor is declared for a query.")
        self._portals[command.name] = cursor
        return Result("DECLARE CURSOR")

    async def _fetch(self, command: commands.Fetch) -> Result:
        cursor = self._portal(command.name)
        source = cursor.result
        if not cursor.declared or source is None:
            raise Told("34000", "FETCH is for cursors that were declared.")
        most = self._service.options.max_rows
        count = most + 1 if command.count is None else min(command.count, most + 1)

        def rows() -> list[Any]:
            found: list[Any] = []
            while len(found) < count:
                more = source.fetch(min(CHUNK, count - len(found)))
                found += more
                if not more:
                    break
            return found

        found = await self._work(rows)
        if command.move:
            return Result(f"MOVE {len(found)}")
        return listed("FETCH", source.columns or (), found)

    async def _discard(self) -> Result:
        if self._status != b"I":
            raise Told("25001", "DISCARD ALL is for outside of transactions.")
        for name, value in self._settings.reset():
            self._out += wire.parameter_status(name, value)
        self._prepared.clear()
        await self._release()
        await self._connect()
        return Result("DISCARD ALL")

    # What is sent and what is logged.

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
            said = "58000" if isinstance(error, ConnectionError) else told(error, all_words=False).code
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


def _inner(command: commands.Command | None) -> str:
    """The query in a statement about the session, which its parameters belong to."""
    return command.query if isinstance(command, commands.Declare | commands.CopyOut) else ""


def _described(portal: Portal, columns: Sequence[Column] | None) -> bytes:
    return wire.NO_DATA if columns is None else wire.row_description(portal.fields(columns))
