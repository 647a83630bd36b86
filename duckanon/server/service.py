"""The server: one process, one DuckDB instance that is locked, and the sessions of all its clients."""

from __future__ import annotations

import asyncio
import hmac
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import duckdb

from duckanon.analyst import LOCKED, Analyst
from duckanon.connection import Connection, register
from duckanon.errors import InvalidInput
from duckanon.functions.udf import Instance
from duckanon.governance.instance import governance_of
from duckanon.governance.threads import start
from duckanon.guard import SharedCatalog
from duckanon.server.backends import AnalystBackend, Backend, Catalogs, Gate, StewardBackend
from duckanon.server.catalog import UserCatalog
from duckanon.server.errors import MEMORY_NEEDED, STOPPING, TOO_MANY, PgError
from duckanon.server.first_rows import FirstRows
from duckanon.server.log import Log
from duckanon.server.memory import ProcessMemory, size_in_bytes
from duckanon.server.metrics import Figures, MetricsServer, address, spending, token_in
from duckanon.server.session import Session
from duckanon.server.shares import Shares
from duckanon.server.stream import Stream
from duckanon.server.tls import is_loopback, loaded
from duckanon.server.tries import Tries
from duckanon.server.users import User, UserFile

_T = TypeVar("_T")
# The most connections that have not logged in yet: further ones are closed at once.
_MOST_STRANGERS = 100
_LIGHT_WORKERS = 4
# In seconds: how long what must end may take before the server goes on without it.
_ENDING = 5.0
# In seconds: how long a thread that writes rows may keep Python's lock while others wait for it. With the default, ten
# times as much, a short statement would wait so long several times for each of another user's long results.
_SWITCH = 0.0005
# In seconds: how often the file of users is looked at.
_LOOK_AT_USERS = 1.0


@dataclass(frozen=True)
class Options:
    """How a database is served. seconds: the most that a statement may take; None for any.

    workers, per_user: how many statements run at a time, in all and of one user. threads: of DuckDB's, which they
    share; None: one for each core. memory: of DuckDB for all statements together, such as '4GB'; None: 80 % of the
    machine's. temp, temp_size: the folder of DuckDB's temporary files, None: beside the database, and how large they
    may be together. grace: seconds that statements have to end when the server is stopped. metrics:
    the address and port at which figures are told to who has the token in the file metrics_token; None: nowhere.
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
    per_user: int = 4
    threads: int | None = None
    memory: str | None = None
    temp: Path | None = None
    temp_size: str = "10GB"
    grace: float = 0.5
    metrics: str | None = None
    metrics_token: Path | None = None


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
        self.tls = loaded(options.host, options.tls_cert, options.tls_key)
        self.metrics = _metrics(options, self._figures)
        self.tries = Tries()
        self.log = Log(options.log)
        self.is_stopping = False
        # Whether DuckDB has given the database up, and what ends the server then.
        self.is_broken = False
        self._stopped: asyncio.Event | None = None
        self._con = _opened(path, options)
        self.database = path.name.partition(".")[0]
        governance = governance_of(Instance(self._con).identity, self._con)
        self._shared = SharedCatalog(self._con.cursor(), governance)
        self._gate = Gate(governance.ledger.askers, self._shared.forget)
        governance.ledger.before_change = self._gate.change
        self._shared.rows_stamp = lambda: self._gate.rows_stamp
        self._draws = governance.answers.draws
        self._draws.alone = self._alone
        self._draws.start()
        self._memory = ProcessMemory()
        self._workers = Shares(options.workers, options.per_user)
        self.first_rows = FirstRows()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ledger = governance.ledger
        # Logins and closing do not wait for statements.
        self._light_workers = ThreadPoolExecutor(_LIGHT_WORKERS, "session")
        start(self._light_workers, _LIGHT_WORKERS)
        self._sessions: dict[int, Session] = {}
        # Those that have not logged in.
        self._strangers: set[Session] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> bool:
        """Close the database once every answer that was charged is made.

        False if statements have not ended by then: the database stays open, and the process may end without more ado.
        """
        self._draws.end()
        self._memory.end()
        has_ended = self._workers.has_ended(_ENDING)
        self._workers.end()
        if has_ended:
            self._light_workers.shutdown()
            self._shared.leave()
            self._con.close()
        self.log.close()
        return has_ended

    async def serve(self, started: Callable[[str, int], None]) -> None:
        """Serve until the process gets a signal to end. started: called with the address, once clients can connect."""
        sys.setswitchinterval(_SWITCH)
        said = self._con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
        self._memory.limit(size_in_bytes(said))
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(name, stopped.set)
        with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        await self.serve_until(stopped, started)

    def give_up(self) -> None:
        """End the server: DuckDB has given the database up, as where the disk was full during a checkpoint.

        Nothing is answered before the file is opened again, which whoever watches the process does by starting it.
        """
        if not self.is_broken and self._stopped is not None:
            self.is_broken = True
            self.log.write("database failed", reason="DuckDB must open the file again: start the server")
            self._stopped.set()

    def reload(self) -> None:
        """Read the certificate again, for connections from now on, and open the file of the log again.

        What cannot be read stays as it was; the log says so.
        """
        try:
            self.log.reopen()
        except OSError as error:
            self.log.write("not reloaded", reason=f"the log: {error.strerror}")
        try:
            self.tls = loaded(self.options.host, self.options.tls_cert, self.options.tls_key)
            if self.metrics is not None:
                self.metrics.renew(self.options.tls_cert, self.options.tls_key)
        except InvalidInput as error:
            self.log.write("not reloaded", reason=f"{error} The certificate from before stays in use.")
        else:
            self.log.write("reloaded")

    async def serve_until(self, stopped: asyncio.Event, started: Callable[[str, int], None]) -> None:
        """As `serve`, until an event is set."""
        loop = self._loop = asyncio.get_running_loop()
        self._stopped = stopped
        loop.set_exception_handler(self._failed)
        server = await loop.create_server(
            lambda: Stream(self._begin), self.options.host, self.options.port, backlog=512
        )
        host, port = server.sockets[0].getsockname()[:2]
        self.log.write("start", host=host, port=port, tls=self.tls is not None, read_only=self.options.read_only)
        if self.metrics is not None and self.options.metrics is not None:
            at = address(self.options.metrics)
            self.log.write("metrics", host=at[0], port=await self.metrics.start(*at))
        started(host, port)
        watching = loop.create_task(self._watch_users())
        await stopped.wait()
        watching.cancel()
        server.close()
        if self.metrics is not None:
            self.metrics.close()
        await self._stop()
        self.log.write("stop")

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error that nobody has taken. asyncio would print it, and what it came from may quote a value."""
        self.log.write("internal error", kind=type(context.get("exception")).__name__)

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
            await asyncio.wait(self._tasks, timeout=_ENDING)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ENDING)

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

    async def _watch_users(self) -> None:
        """End the sessions of users that another process removes from the file of users."""
        while True:
            await asyncio.sleep(_LOOK_AT_USERS)
            self.end_removed()

    # For sessions.

    def end_removed(self) -> None:
        """End the sessions of users who are none any more, or have another role."""
        with suppress(InvalidInput):
            known = self.users.read().users
            for session in list(self._sessions.values()):
                user = session.user
                if user is not None and (user.name not in known or known[user.name].role != user.role):
                    session.remove()

    def submit(self, user: str, do: Callable[[], _T]) -> Future[_T]:
        """Call a function in a thread for statements, once it is the user's turn."""
        return self._workers.submit(user, do)

    def leave_behind(self, running: Future[Any]) -> None:
        """Nobody waits any more for what was submitted."""
        self._workers.leave_behind(running)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A context in which a draw has the memory for itself: other statements end, and none begins."""
        loop = self._loop
        with self._workers.pausing(), self._memory.lifted():
            if loop is not None and loop.is_running():
                # The loop may end meanwhile, where the server is stopped.
                with suppress(TimeoutError):
                    asyncio.run_coroutine_threadsafe(self._end_others(), loop).result(2 * _ENDING)
            yield

    async def _end_others(self) -> None:
        """End the statements that run, but for those that only wait for an answer."""
        for session in list(self._sessions.values()):
            if session.is_busy:
                session.finish(MEMORY_NEEDED)
        until = asyncio.get_running_loop().time() + _ENDING
        while any(session.is_busy for session in self._sessions.values()) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.05)

    async def _figures(self) -> Figures:
        """What those who watch the server are told."""
        spendings = await self.light_work(
            lambda: spending([self._ledger.state(database) for database in self._ledger.databases()])
        )
        return Figures(len(self._sessions), self._workers.waiting, spendings)

    async def light_work(self, do: Callable[[], _T]) -> _T:
        """Call a function that takes little time in another thread."""
        return await asyncio.get_running_loop().run_in_executor(self._light_workers, do)

    def backend(self, user: User) -> Backend:
        """A new connection of a user."""
        cursor = self._con.cursor()
        if user.role == "steward":
            return StewardBackend(Connection(register(cursor)), self._gate, user.name, cursor.interrupt)
        return AnalystBackend(Analyst(cursor, self._shared.join()), self._gate, user.name, cursor.interrupt)

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

    def end_statement(self, user: str, process: int, *, session: bool) -> bool:
        """End what another session of a user runs, and the session itself if asked. False if there is none."""
        other = self._sessions.get(process)
        if other is None or other.user is None or other.user.name != user:
            return False
        other.cancel()
        if session:
            other.stop()
        return True


def _bytes(key: int) -> bytes:
    return key.to_bytes(4, signed=True)


def _metrics(options: Options, figures: Callable[[], Awaitable[Figures]]) -> MetricsServer | None:
    """What tells the server's figures, if it is asked for. Raises InvalidInput where that cannot be done."""
    if options.metrics is None:
        return None
    host, _ = address(options.metrics)
    # To this machine they are told as they are: what gathers them there need not know the certificate's name.
    tls = None if is_loopback(host) else loaded(host, options.tls_cert, options.tls_key)
    return MetricsServer(token_in(options.metrics_token), figures, tls)


def _opened(path: Path, options: Options) -> duckdb.DuckDBPyConnection:
    """The database, locked: no files, no network, no settings."""
    if not path.is_file():
        raise InvalidInput(f"There is no database {path}: name a DuckDB file that is there.")
    config = {name: value for name, value in LOCKED.items() if name != "lock_configuration"}
    config |= {"allow_persistent_secrets": False} | ({"threads": options.threads} if options.threads else {})
    config |= {"max_temp_directory_size": options.temp_size}
    config |= {"memory_limit": options.memory} if options.memory else {}
    config |= {"temp_directory": str(options.temp)} if options.temp is not None else {}
    try:
        con = duckdb.connect(str(path), read_only=options.read_only, config=config)
    except (duckdb.ParserException, duckdb.InvalidInputException):
        raise InvalidInput(
            "--memory and --temp-size are sizes such as 4GB or 500MB: DuckDB does not take what is given."
        ) from None
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
