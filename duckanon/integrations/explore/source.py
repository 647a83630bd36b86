"""The database or data file that is explored, open for reading only except while a confirmed release is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from duckanon.catalog.names import identifier
from duckanon.errors import InvalidInput
from duckanon.integrations.data_files import DataFile

if TYPE_CHECKING:
    from duckanon.connection import Connection


class Source:
    """What is explored. version: of its content; it grows with each release.

    A data file is read once into a database in memory, and is not opened again. Raises InvalidInput if there is no
    such file or it cannot be read, and duckdb.Error if a database cannot be opened.
    """

    def __init__(self, path: Path, progress: Callable[[str, float], None]) -> None:
        self.path = path
        self.file = DataFile.of(path)
        if not path.exists():
            raise InvalidInput(f"There is no file {path}.")
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder: name a file in it.")
        self.version = 1
        self._progress = progress
        self._lock = Lock()
        self._con: Connection | None = self._opened(read_only=True)
        if not self.is_database:
            self._load(self._con)

    @property
    def is_database(self) -> bool:
        return self.file.kind == "database"

    def cursor(self) -> Connection:
        """A connection for one lane of work. The database is opened again if a release has closed it."""
        with self._lock:
            if self._con is None:
                self._con = self._opened(read_only=True)
            return self._con.cursor()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection that may write. All cursors must be closed; afterwards the source is as when it was opened."""
        if not self.is_database:
            with self.cursor() as con:
                yield con
            return
        with self._lock:
            self._close()
            try:
                with self._opened(read_only=False) as con:
                    yield con
            finally:
                self.version += 1

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._con is not None:
            self._con.close()
        self._con = None

    def _opened(self, *, read_only: bool) -> Connection:
        from duckanon.connection import connect

        if not self.is_database:
            return connect(role="steward", progress=self._progress)
        return connect(self.path, role="steward", read_only=read_only, progress=self._progress)

    def _load(self, con: Connection) -> None:
        """Read the file into a table that all cursors see, named as the file."""
        table = self.path.name.split(".")[0] or "data"
        read = self.file.load(con, "duckanon.loaded")
        con.execute(f"CREATE TABLE {identifier(table)} AS FROM {read}").fetchall()
        con.execute(f"DROP TABLE {read}").fetchall()

    def free_file(self, suffix: str) -> Path:
        """A new file beside a data file, of the same format: it never exists yet."""
        stem, end = (
            self.path.name.split(".")[0],
            "".join(self.path.suffixes[-2:] if self.file.packed else [self.path.suffix]),
        )
        names = (f"{stem}_{suffix}{'' if i == 1 else f'_{i}'}{end}" for i in range(1, 10_000))
        return next(self.path.with_name(one) for one in names if not os.path.lexists(self.path.with_name(one)))
