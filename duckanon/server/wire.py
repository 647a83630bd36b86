"""The frames of PostgreSQL's protocol, version 3: bytes in and out, without input or output.

Source: PostgreSQL 15 documentation, chapter 55. Any bytes give a message or a FrameError, which ends
the session. Nothing is read beyond a frame's end, and a frame must be read completely.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from duckanon.server.types import PgType

# The longest frames in bytes, including their length field: before the login, a steward's, an analyst's.
LONGEST_STARTUP = 10_000
LONGEST_SASL = 4_096
LONGEST = 64 << 20
LONGEST_ANALYST = 2 << 20
_CANCEL, _TLS, _GSS = 80877102, 80877103, 80877104
_INT = struct.Struct("!i")


class FrameError(Exception):
    """Bytes that are not a message of the protocol. The text may be shown to the client."""


@dataclass(frozen=True)
class Startup:
    """The first message. parameters: of the session, such as user and database. minor: of the protocol's version."""

    parameters: Mapping[str, str]
    minor: int = 0


@dataclass(frozen=True)
class Cancel:
    """A request to cancel another session's statement. process, key: as they were sent to that session."""

    process: int
    key: int


@dataclass(frozen=True)
class EncryptionRequest:
    """A request to continue with encryption. by: 'tls' or 'gss'."""

    by: str


@dataclass(frozen=True)
class Password:
    """A step of SASL, read by `sasl_initial` or as it is."""

    body: bytes


@dataclass(frozen=True)
class Query:
    """Run a text of one or more statements."""

    text: str


@dataclass(frozen=True)
class Parse:
    """Prepare a statement. types: oids of its parameters, 0 or left out for those that the server chooses."""

    name: str
    text: str
    types: tuple[int, ...] = ()


@dataclass(frozen=True)
class Bind:
    """Make a portal of a prepared statement and values. formats: 0 for text, 1 for binary; one for all, or one each."""

    portal: str
    statement: str
    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    result_formats: tuple[int, ...] = ()


@dataclass(frozen=True)
class Describe:
    """The columns of a prepared statement (kind 'S') or of a portal ('P')."""

    kind: str
    name: str


@dataclass(frozen=True)
class Execute:
    """Run a portal. limit: the most rows; 0 for all."""

    portal: str
    limit: int = 0


@dataclass(frozen=True)
class Close:
    """Forget a prepared statement (kind 'S') or a portal ('P')."""

    kind: str
    name: str


@dataclass(frozen=True)
class CopyData:
    """A piece of what is copied to the server."""

    body: bytes


@dataclass(frozen=True)
class CopyFail:
    """The client ends copying with an error. reason: the client's text."""

    reason: str


@dataclass(frozen=True)
class Plain:
    """A message without content. kind: 'sync', 'flush', 'terminate' or 'copy done'."""

    kind: str


SYNC, FLUSH, TERMINATE, COPY_DONE = Plain("sync"), Plain("flush"), Plain("terminate"), Plain("copy done")
Opening: TypeAlias = Startup | Cancel | EncryptionRequest
Message: TypeAlias = Password | Query | Parse | Bind | Describe | Execute | Close | CopyData | CopyFail | Plain


class _Body:
    """Reads a frame's body from its start to its end."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def taken(self, size: int) -> bytes:
        if size < 0 or size > len(self._body) - self._at:
            raise FrameError("a message ends too early")
        self._at += size
        return self._body[self._at - size : self._at]

    def int32(self) -> int:
        return int(_INT.unpack(self.taken(4))[0])

    def count(self) -> int:
        """A number of things, from 0 to 65535."""
        return int.from_bytes(self.taken(2))

    def shorts(self) -> tuple[int, ...]:
        """Format codes: 0 or 1 each."""
        numbers = tuple(self.count() for _ in range(self.count()))
        if not set(numbers) <= {0, 1}:
            raise FrameError("a format is neither text nor binary")
        return numbers

    def string(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise FrameError("a text has no end")
        body, self._at = self._body[self._at : end], end + 1
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise FrameError("a text is not UTF-8") from None

    def value(self) -> bytes | None:
        size = self.int32()
        return None if size == -1 else self.taken(size)

    def rest(self) -> bytes:
        return self.taken(len(self._body) - self._at)

    def kind(self) -> str:
        found = self.taken(1)
        if found not in (b"S", b"P"):
            raise FrameError("a message is about neither a statement nor a portal")
        return found.decode()

    def end(self) -> None:
        if self._at != len(self._body):
            raise FrameError("a message is longer than it should be")


def body_length(header: bytes, longest: int) -> int:
    """The length of a body, from the four bytes before it. Raises FrameError if it is more than `longest` allows."""
    length = int(_INT.unpack(header)[0])
    if not 4 <= length <= longest:
        raise FrameError("a message has a length that is not allowed")
    return length - 4


def opening(body: bytes) -> Opening:
    """A message of those that a connection begins with; they have no kind. Raises FrameError."""
    read = _Body(body)
    code = read.int32()
    cancel: Opening
    if code == _CANCEL:
        cancel = Cancel(read.int32(), read.int32())
    elif code in (_TLS, _GSS):
        cancel = EncryptionRequest("tls" if code == _TLS else "gss")
    elif code >> 16 == 3:
        cancel = Startup(_pairs(read), code & 0xFFFF)
    else:
        raise FrameError("the protocol's version is not 3")
    read.end()
    return cancel


def _pairs(read: _Body) -> dict[str, str]:
    pairs: dict[str, str] = {}
    while name := read.string():
        if name in pairs:
            raise FrameError("a parameter of the session is given twice")
        pairs[name] = read.string()
    return pairs


def message(kind: bytes, body: bytes) -> Message:
    """The message of a frame. kind: its first byte. Raises FrameError, also for a kind that is not known."""
    reads = _MESSAGES.get(kind)
    if reads is None:
        raise FrameError("a message is of a kind that is not known")
    read = _Body(body)
    found = reads(read)
    read.end()
    return found


def _parse(read: _Body) -> Parse:
    return Parse(read.string(), read.string(), tuple(read.int32() for _ in range(read.count())))


def _bind(read: _Body) -> Bind:
    portal, statement, formats = read.string(), read.string(), read.shorts()
    values = tuple(read.value() for _ in range(read.count()))
    result_formats = read.shorts()
    if len(formats) > 1 and len(formats) != len(values):
        raise FrameError("there is neither one format for all parameters nor one for each")
    return Bind(portal, statement, formats, values, result_formats)


_MESSAGES: dict[bytes, Callable[[_Body], Message]] = {
    b"p": lambda read: Password(read.rest()),
    b"Q": lambda read: Query(read.string()),
    b"P": _parse,
    b"B": _bind,
    b"D": lambda read: Describe(read.kind(), read.string()),
    b"E": lambda read: Execute(read.string(), max(read.int32(), 0)),
    b"C": lambda read: Close(read.kind(), read.string()),
    b"S": lambda _: SYNC,
    b"H": lambda _: FLUSH,
    b"X": lambda _: TERMINATE,
    b"d": lambda read: CopyData(read.rest()),
    b"c": lambda _: COPY_DONE,
    b"f": lambda read: CopyFail(read.string()),
}


def sasl_initial(body: bytes) -> tuple[str, bytes]:
    """The mechanism that a client chose, and its first message. Raises FrameError."""
    read = _Body(body)
    mechanism, first = read.string(), read.value()
    read.end()
    return mechanism, first or b""


# Messages that the server sends.


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return kind + _INT.pack(len(body) + 4) + body


def _text(text: str) -> bytes:
    """A text with its terminating zero. Zero bytes are left out, and what is no Unicode becomes a question mark."""
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def authentication_ok() -> bytes:
    return frame(b"R", _INT.pack(0))


def authentication_sasl(mechanisms: Sequence[str]) -> bytes:
    return frame(b"R", _INT.pack(10) + b"".join(map(_text, mechanisms)) + b"\0")


def authentication_continue(data: bytes) -> bytes:
    return frame(b"R", _INT.pack(11) + data)


def authentication_final(data: bytes) -> bytes:
    return frame(b"R", _INT.pack(12) + data)


def negotiate_version(unknown: Sequence[str]) -> bytes:
    """The server supports version 3.0, and none of these options."""
    return frame(b"v", struct.pack("!ii", 3 << 16, len(unknown)) + b"".join(map(_text, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    return frame(b"S", _text(name) + _text(value))


def backend_key(process: int, key: int) -> bytes:
    return frame(b"K", struct.pack("!ii", process, key))


def ready(status: bytes) -> bytes:
    """status: b'I' idle, b'T' in a transaction, b'E' in a failed one."""
    return frame(b"Z", status)


def error(code: str, text: str, *, severity: str = "ERROR", hint: str = "", place: int | None = None) -> bytes:
    """place: the number of the character in the statement, from 1, at which the error is."""
    return frame(b"E", _fields(severity, code, text, hint, place))


def notice(code: str, text: str, *, severity: str = "NOTICE") -> bytes:
    return frame(b"N", _fields(severity, code, text, ""))


def _fields(severity: str, code: str, text: str, hint: str, place: int | None = None) -> bytes:
    fields = {"S": severity, "V": severity, "C": code, "M": text, **({"H": hint} if hint else {})}
    if place is not None:
        fields["P"] = str(place)
    return b"".join(name.encode() + _text(value) for name, value in fields.items()) + b"\0"


@dataclass(frozen=True)
class Field:
    """A column of a result. binary: whether its values are sent in binary."""

    name: str
    type: PgType
    binary: bool = False


def row_description(fields: Sequence[Field]) -> bytes:
    parts = [
        _text(field.name)
        + struct.pack("!ihihih", 0, 0, field.type.oid, field.type.size, field.type.modifier, int(field.binary))
        for field in fields
    ]
    return frame(b"T", len(parts).to_bytes(2) + b"".join(parts))


def parameter_description(types: Sequence[int]) -> bytes:
    return frame(b"t", len(types).to_bytes(2) + b"".join(_INT.pack(kind) for kind in types))


def command_complete(tag: str) -> bytes:
    return frame(b"C", _text(tag))


def copy_out(columns: int, *, binary: bool) -> bytes:
    return frame(b"H", bytes([binary]) + columns.to_bytes(2) + int(binary).to_bytes(2) * columns)


def copy_in(columns: int, *, binary: bool) -> bytes:
    return frame(b"G", bytes([binary]) + columns.to_bytes(2) + int(binary).to_bytes(2) * columns)


def copy_data(data: bytes) -> bytes:
    return frame(b"d", data)


PARSE_COMPLETE, BIND_COMPLETE, CLOSE_COMPLETE = frame(b"1"), frame(b"2"), frame(b"3")
NO_DATA, EMPTY_QUERY, PORTAL_SUSPENDED, COPY_OUT_DONE = frame(b"n"), frame(b"I"), frame(b"s"), frame(b"c")
# One byte in answer to an EncryptionRequest.
ENCRYPTED, NOT_ENCRYPTED = b"S", b"N"
