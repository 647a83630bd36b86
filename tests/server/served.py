"""A server in a thread of the test's process, and logins to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg

from duckanon.server.service import CatalogMaker, Options, Service
from duckanon.server.users import UserFile

USERS = {"ana": "analyst", "bob": "analyst", "cyd": "analyst", "dan": "analyst", "stu": "steward"}


def password(name: str) -> str:
    return f"the password of {name}"


def add_users(path: Path) -> None:
    for name, role in USERS.items():
        UserFile(path).add(name, role, password(name))


class Served:
    """A server that runs. host, port: where."""

    def __init__(self, path: Path, options: Options, catalogs: CatalogMaker | None = None) -> None:
        if not UserFile(path).path.exists():
            add_users(path)
        self.path = path
        self.service = Service(path, replace(options, port=0, log=path.with_suffix(".log")), catalogs)
        self.host, self.port = "127.0.0.1", 0
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._started = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._started.wait(20)

    def _run(self) -> None:
        def started(_: str, port: int) -> None:
            self.port = port
            self._started.set()

        self._loop.run_until_complete(self.service.serve_until(self._stopped, started))
        self._loop.close()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(60)
            assert not self._thread.is_alive()
            self.service.close()

    def call(self, do: Callable[[], None]) -> None:
        """Call a function in the server's event loop, as a signal's handler."""
        done = Event()

        def called() -> None:
            do()
            done.set()

        self._loop.call_soon_threadsafe(called)
        assert done.wait(20)

    def log(self) -> str:
        return self.path.with_suffix(".log").read_text()

    def dsn(self, name: str) -> str:
        return f"host={self.host} port={self.port} user={name} password='{password(name)}' dbname={self.path.stem}"

    def login(self, name: str, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(name), **{"autocommit": True, "connect_timeout": 20, **more})


@contextmanager
def serving(path: Path, **options: Any) -> Iterator[Served]:
    served = Served(path, Options(**options))
    try:
        yield served
    finally:
        served.stop()
