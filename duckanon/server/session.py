"""One client's session: from its first byte to its last, as a state machine over the messages of the protocol."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from duckanon.server import commands, wire
from duckanon.server.backends import Column
from duckanon.server.codecs import decoder
from duckanon.server.error_places import place
from duckanon.server.errors import CANCELLED, REMOVED, STOPPING, PgError, pg_error
from duckanon.server.execution import PIECE
from duckanon.server.lexer import apart, statements
from duckanon.server.login import log_in
from duckanon.server.portals import Portal, Prepared
from duckanon.server.session_statements import MOST_PORTALS, SessionStatements
from duckanon.server.settings import Settings
from duckanon.server.stream import Ended, Stream

if TYPE_CHECKING:
    from duckanon.server.service import Service

# In seconds: for the login, and between a frame's first byte and its last.
_LOGIN, _FRAME = 10.0, 60.0
# In characters: the longest text that an analyst may send at once.
_LONGEST_TEXT = 100_000
# The most prepared statements of one session.
_MOST_STATEMENTS = 1_000
# The longest frames that are kept with their messages, in bytes, and the most of them.
_SHORT, _MOST_KNOWN = 40, 100


class Session(SessionStatements):
    """One connection. process, key: with which another connection may cancel what it runs."""

    def __init__(self, service: Service, stream: Stream) -> None:
        super().__init__(service, stream)
        # The certificate of this connection, also if it is renewed during the login.
        self._tls = service.tls
        self.process, self.key = secrets.randbits(31), secrets.randbits(32) - (1 << 31)
        # A portal whose columns were asked for and not sent yet.
        self._undescribed: Portal | None = None
        self._is_skipping = False
        self._known: dict[bytes, wire.Message] = {}
        # The text that the client sent, of which a statement runs or is prepared, and where it begins in it.
        self._written = "", 0
        # Whether the session ends because its user is none any more.
        self._is_removed = False

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
        except PgError as error:
            await self._fatal(error.code, error.text)
        except (ConnectionError, TimeoutError):
            pass
        except Exception as error:
            self._service.log.write("internal error", user=self._name, kind=type(error).__name__)
            await self._fatal("XX000", "The connection ends: the server has failed, and its log says where.")
        finally:
            self._service.left(self)
            self._stream.close()
            await self._release()

    async def _fatal(self, code: str, text: str) -> None:
        """Tell the client why the connection ends."""
        self._out += wire.error(code, text, severity="FATAL")
        try:
            await self._flush()
        except (ConnectionError, TimeoutError):
            return

    def renumber(self) -> None:
        """Take another number, since another session has this one."""
        self.process = secrets.randbits(31)

    def remove(self) -> None:
        """End the session, and what runs in it: its user was removed. What was charged is made all the same."""
        self._is_removed = True
        self.finish(REMOVED)
        self.stop()

    def stop(self) -> None:
        """End the session: at once if it waits for the client, else after the running statement."""
        self._stream.stop()

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
            tls = self._tls
            if first.by == "tls" and tls is not None:
                await self._stream.start_tls(wire.ENCRYPTED, tls.context, _LOGIN)
            else:
                await self._stream.write(wire.NOT_ENCRYPTED)

    async def _begin(self, startup: wire.Startup) -> bool:
        parameters = dict(startup.parameters)
        unknown = [name for name in parameters if name.startswith("_pq_.")]
        if startup.minor or unknown:
            self._out += wire.negotiate_version(unknown)
        if self._tls is not None and not self._stream.is_encrypted:
            raise PgError("28000", "This server speaks TLS only: connect with sslmode=require or better.")
        if parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise PgError("0A000", "There is no replication here.")
        await self._flush()
        self.user = await log_in(self._service, self._stream, self._tls, parameters.get("user", ""))
        names = (self._service.database, self.user.name, "postgres", "")
        if parameters.get("database", "") not in names:
            raise PgError("3D000", f"There is one database here: connect to {self._service.database}.")
        self._service.joined(self)
        await self._connect()
        self._settings = Settings(
            {"session_authorization": self.user.name, "is_superuser": "on" if self._is_steward else "off"}
            | ({"default_transaction_read_only": "on"} if self._service.options.read_only else {})
        )
        self._settings.begin(parameters)
        self._out += wire.authentication_ok()
        for name, value in self._settings.reported():
            self._out += wire.parameter_status(name, value)
        self._out += wire.backend_key(self.process, self.key) + wire.ready(self._status)
        return True

    # The messages.

    async def _serve(self) -> None:
        while True:
            try:
                message = await self._message()
            except Ended:
                if self._service.is_stopping or self._is_removed:
                    raise PgError(*(REMOVED if self._is_removed else STOPPING)) from None
                raise
            if message is wire.TERMINATE:
                return
            await self._handle(message)
            await self._let_others()
            if (
                self._service.is_stopping
                and self._status == b"I"
                and (message is wire.SYNC or isinstance(message, wire.Query))
            ):
                raise PgError(*STOPPING)

    async def _message(self) -> wire.Message:
        header = self._stream.has(5)
        longest = wire.LONGEST if self._is_steward else wire.LONGEST_ANALYST
        length = 0 if header is None else 5 + wire.body_length(header[1:], longest)
        if header is None or self._stream.buffered < length:
            # Everything is sent before the session waits for the client.
            if self._undescribed is None:
                await self._flush()
            header = await self._peek()
            length = 5 + wire.body_length(header[1:], longest)
        frame = self._stream.take(length)
        if frame is None:
            async with asyncio.timeout(_FRAME):
                frame = await self._stream.read(length)
        return self._read(frame)

    def _read(self, frame: bytes) -> wire.Message:
        """The message of a frame. Drivers send the same short ones with each statement, which are read once."""
        message = self._known.get(frame)
        if message is None:
            message = wire.message(frame[:1], frame[5:])
            if len(frame) <= _SHORT:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[frame] = message
        return message

    def _buffered(self) -> wire.Message | None:
        header = self._stream.has(5)
        if header is None:
            return None
        frame = self._stream.take(5 + wire.body_length(header[1:], wire.LONGEST))
        return None if frame is None else wire.message(header[:1], frame[5:])

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
            if self._status == b"I" and self._portals:
                self._end_portals()
            self._out += wire.ready(self._status)
        elif isinstance(message, wire.Password):
            raise wire.FrameError("a password was sent that was not asked for")
        elif not self._is_skipping and not isinstance(message, wire.CopyData | wire.CopyFail):
            self._is_skipping = not await self._guarded(lambda: self._extended(message))
        if len(self._out) > PIECE:
            await self._flush()

    async def _guarded(self, step: Callable[[], Any]) -> bool:
        """Await one step. If it raises an error, the error is sent to the client, and False is returned."""
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
        said = pg_error(error, all_words=self._is_steward)
        if isinstance(error, duckdb.FatalException):
            self._service.give_up()
        if said.code == "XX000":
            self._service.log.write("internal error", user=self._name, kind=type(error).__name__)
        text, start = self._written
        self._out += wire.error(said.code, said.text, place=place(text, said.text, start))

    async def _query(self, text: str) -> None:
        """The simple protocol: all statements of a text, until one fails."""
        self._portals.pop("", None)
        parts, at = statements(self._limited(text)), 0
        if not parts:
            self._out += wire.EMPTY_QUERY
        for part in parts:
            at = text.index(part, at)
            self._written = text, at
            await self._execute(Portal(part, commands.command(part)), 0, tell=True)

    async def _extended(self, message: wire.Message) -> None:
        pending, self._undescribed = self._undescribed, None
        if isinstance(message, wire.Execute):
            portal = self._portal(message.portal)
            self._written = portal.written, 0
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
        """The text. Raises PgError if it is longer than the guard accepts."""
        if len(text) > _LONGEST_TEXT and not self._is_steward:
            raise PgError("54000", f"A text has {_LONGEST_TEXT:,} characters at most: split it with temporary tables.")
        return text

    def _parse(self, message: wire.Parse) -> None:
        if message.name and message.name in self._prepared:
            raise PgError("42P05", "There is a prepared statement of that name: deallocate it first.")
        if len(self._prepared) >= _MOST_STATEMENTS:
            raise PgError("54000", f"A session has {_MOST_STATEMENTS:,} prepared statements at most: deallocate some.")
        parts = statements(self._limited(message.text))
        if len(parts) > 1:
            raise PgError("42601", "A prepared statement is one statement: send each of them alone.")
        text = apart(parts[0]) if parts else ""
        self._prepared[message.name] = Prepared(text, commands.command(text), message.types, written=message.text)
        self._out += wire.PARSE_COMPLETE

    async def _bind(self, message: wire.Bind) -> None:
        prepared = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise PgError("42P03", "There is a cursor of that name: close it first.")
        if len(self._portals) >= MOST_PORTALS:
            raise PgError("54000", f"A session has {MOST_PORTALS} open cursors at most: close some.")
        types = await self._types(prepared)
        if len(types) != len(message.values):
            raise PgError("08P01", f"The statement has {len(types)} parameters, and {len(message.values)} values came.")
        formats = message.formats if len(message.formats) > 1 else [*message.formats, 0][:1] * len(types)
        values = [
            None if raw is None else decoder(oid, binary=bool(binary))(raw)
            for raw, oid, binary in zip(message.values, types, formats, strict=True)
        ]
        expected = [column.type.oid for column in prepared.columns] if prepared.columns is not None else None
        self._portals[message.portal] = Portal(
            prepared.text,
            prepared.command,
            values,
            types,
            message.result_formats,
            expected=expected,
            written=prepared.written,
        )
        self._out += wire.BIND_COMPLETE

    async def _types(self, prepared: Prepared) -> Sequence[int]:
        """The oids of a statement's parameters."""
        assert self._backend is not None
        backend, text = self._backend, _inner(prepared.command) or prepared.text
        if prepared.types is None:
            catalogs = await self._catalog_of(text)
            if catalogs is not None:
                guessed = [pg_type.oid for pg_type in await self._work(lambda: catalogs.parameters(text))]
                numbers = [*prepared.declared, *[0] * (len(guessed) - len(prepared.declared))]
                prepared.types = [number or guess for number, guess in zip(numbers, guessed, strict=False)]
                return prepared.types
            prepared.types = await self._work(lambda: backend.parameter_types(text, prepared.declared))
        return prepared.types

    async def _describe(self, message: wire.Describe) -> None:
        if message.kind == "P":
            # The next message may run it; then the columns are known from its result.
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
        """Send the columns of a portal without running it."""
        self._written = portal.written, 0
        if portal.result is not None:
            columns = portal.result.columns
        else:
            columns = await self._columns(portal.text, portal.command, portal.types)
            portal.expected = None if columns is None else [column.type.oid for column in columns]
        self._out += _described(portal, columns)

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise PgError("26000", "There is no prepared statement of that name.")
        self._written = self._prepared[name].written, 0
        return self._prepared[name]


def _inner(command: commands.Command | None) -> str:
    """The query inside a statement about the session, such as DECLARE: the parameters belong to it."""
    return command.query if isinstance(command, commands.Declare | commands.CopyOut | commands.Explain) else ""


def _described(portal: Portal, columns: Sequence[Column] | None) -> bytes:
    return wire.NO_DATA if columns is None else wire.row_description(portal.fields(columns))
