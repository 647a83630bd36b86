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
from duckanon.integrations.column_texts import as_date, as_number
from duckanon.integrations.data_files import DataFile, unfit_texts
from duckanon.integrations.reading import Reading
from duckanon.integrations.text_encodings import UTF_8, encoding_of

if TYPE_CHECKING:
    from duckanon.connection import Connection


class Source:
    """What is explored. version: of its content; it grows with each release. told: how a text file was read.
    loading: the statement that reads the file into a table, None where DuckDB alone cannot.

    A data file is read once into a database in memory, and is not opened again. Raises InvalidInput if there is no
    such file or it cannot be read, and duckdb.Error if a database cannot be opened.
    """

    def __init__(self, path: Path, progress: Callable[[str, float], None], reading: Reading | None = None) -> None:
        self.path = path
        self.file = DataFile.of(path)
        if not path.exists():
            raise InvalidInput(f"There is no file {path}.")
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder: name a file in it.")
        self.version = 1
        self.reading = reading or Reading()
        self.told: list[str] = []
        self.loading: str | None = None
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
        read = self.file.load(con, "duckanon.loaded", reading=self.reading, tell=self.told.append)
        unfit = unfit_texts(con, read, self.file, self.reading)
        self.told += [
            f"{name}: {told} --null says which texts stand for missing values." for name, told in unfit.items()
        ]
        con.execute(f"CREATE TABLE {identifier(table)} AS FROM {read}").fetchall()
        self.loading = self._statement(con, table)
        con.execute(f"DROP TABLE {read}").fetchall()

    def _statement(self, con: Connection, table: str) -> str | None:
        """The statement that reads the file as it was read; None for files of offices, and encodings but UTF-8."""
        if self.file.is_office or (self.file.is_delimited and encoding_of(self.path) != UTF_8):
            return None
        reader = self.file.reader(self.reading)
        kinds = [
            dict(con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {one})").fetchall())  # noqa: S608 - quoted
            for one in (reader, identifier(table))
        ]
        sign = self.reading.decimal or ","
        texts = {name: kind for name, kind in kinds[1].items() if kinds[0].get(name) == "VARCHAR" != kind}
        made = {name: as_number(name, sign, kind) for name, kind in texts.items() if kind in ("BIGINT", "DOUBLE")}
        if (form := self.reading.date_format) is not None:
            made |= {name: as_date(name, form) for name, kind in texts.items() if kind == "DATE"}
        written = ", ".join(f"{made[name]} AS {identifier(name)}" for name in kinds[1] if name in made)
        replaced = f"SELECT * REPLACE ({written}) " if made else ""
        return f"CREATE TABLE {identifier(table)} AS\n{replaced}FROM {reader}"

    def free_file(self, suffix: str) -> Path:
        """A new file beside a data file, of the same format: it never exists yet."""
        stem, end = (
            self.path.name.split(".")[0],
            "".join(self.path.suffixes[-2:] if self.file.packed else [self.path.suffix]),
        )
        names = (f"{stem}_{suffix}{'' if i == 1 else f'_{i}'}{end}" for i in range(1, 10_000))
        return next(self.path.with_name(name) for name in names if not os.path.lexists(self.path.with_name(name)))
