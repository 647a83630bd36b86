"""A client that speaks frame by frame, so that a test can send what no driver sends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType

from tests.server.served import password as password_of


class ScramClient:
    """The client's side of a login. header: what it says about binding. bound: what it binds to."""

    def __init__(self, password: str, header: bytes = b"n,,", bound: bytes = b"") -> None:
        self._password, self._header, self._bound = password, header, bound
        self._nonce = secrets.token_hex(8)
        self.server = b""

    def first(self) -> bytes:
        return self._header + f"n=,r={self._nonce}".encode()

    def final(self, answer: bytes) -> bytes:
        said = dict(part.split("=", 1) for part in answer.decode().split(","))
        salted = _salted(self._password, said["s"], int(said["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c={base64.b64encode(self._header + self._bound).decode()},r={said['r']}"
        whole = f"n=,r={self._nonce},{answer.decode()},{without}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), whole, "sha256")
        self.server = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), whole, "sha256"))
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return f"{without},p={base64.b64encode(proof).decode()}".encode()


@cache
def _salted(password: str, salt: str, rounds: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), rounds)


def frame(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def query(value: str) -> bytes:
    return frame(b"Q", text(value))


def parse(value: str, name: str = "") -> bytes:
    return frame(b"P", text(name), text(value), b"\0\0")


def bind(*values: str, name: str = "", portal: str = "") -> bytes:
    given = [struct.pack("!i", len(one.encode())) + one.encode() for one in values]
    return frame(b"B", text(portal), text(name), b"\0\0", struct.pack("!h", len(given)), *given, b"\0\0")


def describe(kind: str, name: str = "") -> bytes:
    return frame(b"D", kind.encode(), text(name))


def execute(limit: int = 0, portal: str = "") -> bytes:
    return frame(b"E", text(portal), struct.pack("!i", limit))


SYNC, FLUSH, TERMINATE = frame(b"S"), frame(b"H"), frame(b"X")
STARTUP = struct.pack("!i", 3 << 16)
TLS_REQUEST = struct.pack("!ii", 8, 80877103)


def startup(user: str, database: str = "") -> bytes:
    body = STARTUP + text("user") + text(user) + text("database") + text(database) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def cancel(process: int, key: int) -> bytes:
    return struct.pack("!iiii", 16, 80877102, process, key)


@dataclass
class Reply:
    """What came until the server was ready: the kinds of messages in order, what some of them say, and all bytes.

    besides: the bytes of all messages but rows.
    """

    kinds: str = ""
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    columns: list[tuple[str, int]] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    errors: list[dict[str, str]] = field(default_factory=list)
    copied: bytes = b""
    raw: bytes = b""
    besides: bytes = b""
    status: str = ""

    @property
    def error(self) -> str:
        return self.errors[0]["C"] if self.errors else ""

    def take(self, kind: bytes, body: bytes) -> None:
        self.kinds += kind.decode()
        self.raw += kind + body
        if kind != b"D":
            self.besides += kind + body
        if kind == b"D":
            self.rows.append(tuple(_values(body)))
        elif kind == b"T":
            self.columns = list(_columns(body))
        elif kind == b"t":
            self.parameters = list(struct.unpack_from(f"!{struct.unpack_from('!h', body)[0]}i", body, 2))
        elif kind == b"C":
            self.tags.append(body[:-1].decode())
        elif kind == b"E":
            self.errors.append({part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part})
        elif kind == b"d":
            self.copied += body
        elif kind == b"Z":
            self.status = body.decode()


def _values(body: bytes):
    at = 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        size = struct.unpack_from("!i", body, at)[0]
        at += 4
        yield None if size < 0 else body[at : at + size].decode(errors="replace")
        at += max(size, 0)


def _columns(body: bytes):
    at = 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        end = body.index(b"\0", at)
        yield body[at:end].decode(), struct.unpack_from("!ihihih", body, end + 1)[2]
        at = end + 19


class Client:
    """A connection. It raises ConnectionError where the server has ended it."""

    def __init__(self, host: str, port: int, *, tls: ssl.SSLContext | None = None, seconds: float = 30) -> None:
        self.socket: socket.socket = socket.create_connection((host, port), seconds)
        self.process = self.key = 0
        if tls is not None:
            self.send(TLS_REQUEST)
            assert self.read(1) == b"S"
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise ConnectionError
            found += piece
        return found

    def message(self) -> tuple[bytes, bytes]:
        kind, length = struct.unpack("!ci", self.read(5))
        return kind, self.read(length - 4)

    def log_in(self, user: str, password: str | None = None, database: str = "") -> Client:
        scram = ScramClient(password_of(user) if password is None else password)
        self.send(startup(user, database))
        self.expect(b"R")
        first = scram.first()
        self.send(frame(b"p", text("SCRAM-SHA-256"), struct.pack("!i", len(first)), first))
        self.send(frame(b"p", scram.final(self.expect(b"R")[4:])))
        self.expect(b"R")
        while True:
            kind, body = self.message()
            if kind == b"E":
                raise ConnectionError(body)
            if kind == b"K":
                self.process, self.key = struct.unpack("!ii", body)
            if kind == b"Z":
                return self

    def expect(self, kind: bytes) -> bytes:
        found, body = self.message()
        if found != kind:
            raise ConnectionError(body)
        return body

    def ask(self, *frames: bytes) -> Reply:
        """Send frames, and read all up to the server's being ready."""
        self.send(*frames)
        return self.reply()

    def reply(self) -> Reply:
        found = Reply()
        while not found.status:
            found.take(*self.message())
        return found

    def is_ended(self) -> bool:
        """Whether the server ends the connection; what it says before is read."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
