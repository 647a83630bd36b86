"""The server: one process, one DuckDB instance that is locked, and the sessions of all its clients."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import signal
import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import duckdb

from duckanon.analyst import LOCKED, Analyst
from duckanon.connection import Connection, register
from duckanon.errors import InvalidInput
from duckanon.functions.udf import Instance
from duckanon.governance.instance import governance_of
from duckanon.guard import SharedCatalog
from duckanon.server.backends import AnalystBackend, Backend, Catalogs, Gate, StewardBackend
from duckanon.server.catalog import UserCatalog
from duckanon.server.errors import STOPPING, TOO_MANY, PgError
from duckanon.server.log import Log
from duckanon.server.scram import end_point
from duckanon.server.session import Session
from duckanon.server.stream import Stream
from duckanon.server.tries import Tries
from duckanon.server.users import User, UserFile

_T = TypeVar("_T")
# The most connections that have not logged in yet: further ones are closed at once.
_MOST_STRANGERS = 100


@dataclass(frozen=True)
class Options:
    """How a database is served. seconds: the most that a statement may take; None for any.

    workers: how many statements run at a time. threads: of DuckDB's, which they share; None: one for each core.
    grace: seconds that statements have to end when the server is stopped.
    """

    host: str = "127.0.0.1"
    port: int = 5433
    tls_cert: Path | None = None
    tls_key: Path | None = None
    read_only: bool = False
    log: Path | None = None
    seconds: float | None = 300.0
    max_rows: int = 10_000_000
    max_bytes: int = 4 << 30
    connections: int = 500
    connections_per_user: int = 100
    workers: int = 16
    threads: int | None = None
    grace: float = 30.0


@dataclass(frozen=True)
class Tls:
    """The server's certificate. end_point: what logins are bound to; None where that is not defined."""

    context: ssl.SSLContext
    end_point: bytes | None


# Makes what answers a user's statements about the catalog, from the user's role and name.
CatalogMaker: TypeAlias = "Callable[[str, str], Catalogs]"


class Service:
    """A served database. Made before the event loop runs; `close` is called after it has ended.

    Raises InvalidInput for a database without users, for a host that needs TLS, and for certificates that do not load.
    """

    def __init__(self, path: Path, options: Options, catalogs: CatalogMaker | None = None) -> None:
        self.options, self.catalogs = options, catalogs or self._catalog
        self.users = UserFile(path)
        self.users.read()
        self.tls = _tls(options)
        self.tries = Tries()
        self.log = Log(options.log)
        self.is_stopping = False
        self._con = _opened(path, options)
        self.database = path.name.partition(".")[0]
        governance = governance_of(Instance(self._con).identity, self._con)
        self._shared = SharedCatalog(self._con.cursor(), governance)
        self._gate = Gate(governance.ledger.askers, self._shared.forget)
        governance.ledger.before_change = self._gate.change
        self._workers = ThreadPoolExecutor(options.workers, "statement")
        # Logins and closing do not wait for statements.
        self._light_workers = ThreadPoolExecutor(4, "session")
        self._sessions: dict[int, Session] = {}
        # Those that have not logged in.
        self._strangers: set[Session] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Close the database once all running statements have ended, so that no charge is interrupted."""
        self._workers.shutdown()
        self._light_workers.shutdown()
        self._shared.leave()
        self._con.close()
        self.log.close()

    async def serve(self, started: Callable[[str, int], None]) -> None:
        """Serve until the process gets a signal to end. started: called with the address, once clients can connect."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(name, stopped.set)
        await self.serve_until(stopped, started)

    async def serve_until(self, stopped: asyncio.Event, started: Callable[[str, int], None]) -> None:
        """As `serve`, until an event is set."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Stream(self._begin), self.options.host, self.options.port, backlog=512
        )
        host, port = server.sockets[0].getsockname()[:2]
        self.log.write("start", host=host, port=port, tls=self.tls is not None, read_only=self.options.read_only)
        started(host, port)
        await stopped.wait()
        server.close()
        await self._stop()
        self.log.write("stop")

    async def _stop(self) -> None:
        """End all sessions: those that wait at once, the others when their statements end, or after the grace."""
        self.is_stopping = True
        for session in list(self._sessions.values()):
            session.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.options.grace)
        for session in list(self._sessions.values()):
            session.finish(STOPPING)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _begin(self, stream: Stream) -> None:
        """A client has connected."""
        if self.is_stopping or len(self._strangers) >= _MOST_STRANGERS:
            stream.abort()
            return
        session = Session(self, stream)
        self._strangers.add(session)
        task = asyncio.get_running_loop().create_task(session.run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # For sessions.

    def submit(self, do: Callable[[], _T]) -> Future[_T]:
        """Call a function in a thread for statements."""
        return self._workers.submit(do)

    async def light_work(self, do: Callable[[], _T]) -> _T:
        """Call a function that takes little time in another thread."""
        return await asyncio.get_running_loop().run_in_executor(self._light_workers, do)

    def backend(self, user: User) -> Backend:
        """A new connection of a user."""
        cursor = self._con.cursor()
        if user.role == "steward":
            return StewardBackend(Connection(register(cursor)), self._gate, user.name)
        return AnalystBackend(Analyst(cursor, self._shared.join()), self._gate, user.name)

    def _catalog(self, role: str, name: str) -> Catalogs:
        return UserCatalog(name, self.database, writes=role == "steward" and not self.options.read_only)

    def joined(self, session: Session) -> None:
        """A user has logged in. Raises PgError if there are too many connections."""
        assert session.user is not None
        same = [one for one in self._sessions.values() if one.user is not None and one.user.name == session.user.name]
        if len(self._sessions) >= self.options.connections or len(same) >= self.options.connections_per_user:
            raise PgError(*TOO_MANY)
        while session.process in self._sessions:
            session.renumber()
        self._sessions[session.process] = session
        self._strangers.discard(session)

    def left(self, session: Session) -> None:
        """A session has ended."""
        self._strangers.discard(session)
        if self._sessions.get(session.process) is session:
            del self._sessions[session.process]
            if session.user is not None:
                self.log.write("logout", user=session.user.name)

    def cancel(self, process: int, key: int) -> None:
        """Cancel the running statement of a session, if the key is that session's. The client gets no answer."""
        session = self._sessions.get(process)
        if session is not None and hmac.compare_digest(session.key.to_bytes(4, signed=True), _bytes(key)):
            session.cancel()


def _bytes(key: int) -> bytes:
    return key.to_bytes(4, signed=True)


def _opened(path: Path, options: Options) -> duckdb.DuckDBPyConnection:
    """The database, locked: no files, no network, no settings."""
    if not path.is_file():
        raise InvalidInput(f"There is no database {path}: name a DuckDB file that is there.")
    config = {name: value for name, value in LOCKED.items() if name != "lock_configuration"}
    config |= {"allow_persistent_secrets": False} | ({"threads": options.threads} if options.threads else {})
    try:
        con = duckdb.connect(str(path), read_only=options.read_only, config=config)
    except duckdb.IOException as error:
        if "Permission denied" in str(error):
            raise InvalidInput(_no_permission(path, options)) from error
        raise InvalidInput(
            f"{path} cannot be opened: another process has it open, or it is no DuckDB database. A server opens it "
            "alone."
        ) from error
    if not options.read_only and not os.access(path.parent, os.W_OK):
        # DuckDB would find it out at the first charge: it writes a file beside the database.
        con.close()
        raise InvalidInput(_no_permission(path, options))
    con.execute("SET GLOBAL TimeZone = 'UTC'").fetchall()
    con.execute("SET GLOBAL lock_configuration = true").fetchall()
    return register(con)


def _no_permission(path: Path, options: Options) -> str:
    if options.read_only:
        return f"{path} cannot be read: give the server's user permission to read it."
    return (
        f"{path} cannot be written: give the server's user permission to write the file and its folder, or serve it "
        "with --read-only."
    )


def _tls(options: Options) -> Tls | None:
    """The certificate. Raises InvalidInput where there is none and other machines could connect."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise InvalidInput("TLS needs both --tls-cert and --tls-key.")
    if options.tls_cert is None or options.tls_key is None:
        if not _is_loopback(options.host):
            raise InvalidInput(
                f"Without TLS only this machine is served: leave --host {options.host} out, or give --tls-cert and "
                "--tls-key."
            )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
        certificate = _first_certificate(options.tls_cert.read_text())
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InvalidInput(
            "The certificate or its key cannot be read: both are PEM files, without a password."
        ) from error
    return Tls(context, end_point(certificate))


def _first_certificate(pem: str) -> bytes:
    """The server's own certificate, which is the first of a file, in DER."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = pem.index(begin)
    return ssl.PEM_cert_to_DER_cert(pem[start : pem.index(end, start) + len(end)] + "\n")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
