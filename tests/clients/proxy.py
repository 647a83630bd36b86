"""A proxy between a program and a server of PostgreSQL's protocol, which records each statement and what came of it.

It passes on the bytes of both sides as they are. Programs connect to it without TLS.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread

from duckanon.server.lexer import statements

# The requests for TLS and for GSS encryption, which come before the startup message.
_ENCRYPTION = {80877103, 80877104}
_CANCEL = 80877102


@dataclass
class Exchange:
    """A statement and its end.

    types: the numbers of its parameters' types. values: the parameters' bytes, each with whether it is binary; None for
    NULL. columns: names and numbers of types; None for a statement without rows. error: the SQLSTATE and the sentence.
    """

    text: str
    types: Sequence[int] = ()
    values: Sequence[tuple[bool, bytes | None]] = ()
    columns: Sequence[tuple[str, int]] | None = None
    rows: list[list[bytes | None]] = field(default_factory=list)
    tag: str = ""
    error: tuple[str, str] | None = None
    # The prepared statement that it runs.
    prepared: Exchange | None = None


class _Session:
    """Follows one connection: what was sent waits, in order, for what is answered."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        self._exchanges = exchanges
        self._waiting: deque[tuple[str, Exchange | None]] = deque()
        self._prepared: dict[str, Exchange] = {}
        self._portals: dict[str, Exchange] = {}

    def sent(self, kind: str, body: bytes) -> None:
        """A message of the program."""
        if kind == "Q":
            texts = statements(body[:-1].decode()) or [""]
            asked = [Exchange(text) for text in texts]
            self._exchanges += [one for one in asked if one.text]
            self._waiting += [("Q", one) for one in asked]
            self._waiting.append(("S", None))
        elif kind == "P":
            name, text, rest = body.split(b"\0", 2)
            (count,) = struct.unpack_from("!h", rest)
            self._prepared[name.decode()] = one = Exchange(text.decode(), struct.unpack_from(f"!{count}I", rest, 2))
            self._waiting.append(("P", one))
        elif kind == "B":
            self._bind(body)
        elif kind == "D":
            named = self._prepared if body[:1] == b"S" else self._portals
            self._waiting.append(("D", named.get(body[1:-1].decode())))
        elif kind == "E":
            run = self._portals.get(body.split(b"\0", 1)[0].decode())
            if run is not None and not any(run is other for other in self._exchanges):
                self._exchanges.append(run)
            self._waiting.append(("E", run))
        elif kind in ("S", "C"):
            self._waiting.append((kind, None))

    def _bind(self, body: bytes) -> None:
        portal, name, rest = body.split(b"\0", 2)
        formats, at = _numbers(rest, 0)
        (count,) = struct.unpack_from("!h", rest, at)
        at, values = at + 2, []
        for place in range(count):
            (size,) = struct.unpack_from("!i", rest, at)
            form = formats[place] if len(formats) > 1 else (formats[0] if formats else 0)
            values.append((bool(form), None if size < 0 else rest[at + 4 : at + 4 + size]))
            at += 4 + max(size, 0)
        of = self._prepared.get(name.decode(), Exchange(""))
        self._portals[portal.decode()] = one = Exchange(of.text, of.types, values, of.columns, prepared=of)
        self._waiting.append(("B", one))

    def answered(self, kind: str, body: bytes) -> None:
        """A message of the server."""
        waits, one = self._waiting[0] if self._waiting else ("", None)
        if kind in ("t", "T", "D", "E") and one is not None:
            self._told(kind, body, waits, one)
        is_end = kind in ("C", "I", "s") and waits in ("Q", "E")
        if is_end and one is not None:
            one.tag = body[:-1].decode()
        if kind == "E":
            while self._waiting and self._waiting[0][0] != "S":
                self._waiting.popleft()
        elif self._waiting and (is_end or kind in ("1", "2", "3", "n", "Z") or (kind == "T" and waits == "D")):
            self._waiting.popleft()

    def _told(self, kind: str, body: bytes, waits: str, one: Exchange) -> None:
        """What the server tells of a statement: the types of its parameters, its columns, a row, or an error."""
        runs = [run for run in (*self._exchanges, *self._portals.values()) if run.prepared is one]
        if kind == "t":
            one.types = struct.unpack(f"!{len(body[2:]) // 4}I", body[2:])
            for run in runs:
                run.types = one.types
        elif kind == "T":
            one.columns = _columns(body)
            for run in runs:
                run.columns = one.columns
        elif kind == "D":
            one.rows.append(_row(body))
        else:
            one.error = _error(body)
            if waits == "P" and one.text:
                self._exchanges.append(one)


def _numbers(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    (count,) = struct.unpack_from("!h", body, at)
    return struct.unpack_from(f"!{count}h", body, at + 2), at + 2 + 2 * count


def _columns(body: bytes) -> list[tuple[str, int]]:
    found, at = [], 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        end = body.index(b"\0", at)
        found.append((body[at:end].decode(), struct.unpack_from("!IhI", body, end + 1)[2]))
        at = end + 19
    return found


def _row(body: bytes) -> list[bytes | None]:
    found: list[bytes | None] = []
    at = 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        (size,) = struct.unpack_from("!i", body, at)
        found.append(None if size < 0 else body[at + 4 : at + 4 + size])
        at += 4 + max(size, 0)
    return found


def _error(body: bytes) -> tuple[str, str]:
    parts = {chr(one[0]): one[1:].decode() for one in body.split(b"\0") if one}
    return parts.get("C", ""), parts.get("M", "")


class Proxy:
    """Listens on a free port of this machine, and records what passes. host, port: of the server behind it."""

    def __init__(self, host: str, port: int) -> None:
        self.exchanges: list[Exchange] = []
        self.port = 0
        self._behind = host, port
        self._started = Event()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._started.wait(10), "the proxy does not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._over.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back = None
        try:
            size, code = struct.unpack("!ii", await reader.readexactly(8))
            while code in _ENCRYPTION:
                writer.write(b"N")
                size, code = struct.unpack("!ii", await reader.readexactly(8))
            from_server, back = await asyncio.open_connection(*self._behind)
            back.write(struct.pack("!ii", size, code) + await reader.readexactly(size - 8))
            if code == _CANCEL:
                await from_server.read()
                return
            session = _Session(self.exchanges)
            ways = [
                asyncio.create_task(_pass(reader, back, session.sent)),
                asyncio.create_task(_pass(from_server, writer, session.answered)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            for end in (writer, back):
                if end is not None:
                    end.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tell: Callable[[str, bytes], None]) -> None:
    """Pass on messages, and tell of each."""
    try:
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            tell(chr(head[0]), body)
            writer.write(head + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
