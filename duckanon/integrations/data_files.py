"""Data files: the format by suffix, reading a file into a table, writing a table to a file."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.integrations import office_files, text_files
from duckanon.integrations.error_sentences import sentence
from duckanon.integrations.office_files import Labels

if TYPE_CHECKING:
    from duckanon.connection import Connection

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".duckdb": "database",
    ".db": "database",
    **office_files.KINDS,
}
_READ = "duckanon.read"
_NO_PLACE = "cannot be written: ask for permission to write in its folder, or choose another folder."
# The CSV of RFC 4180, after a line of names. DuckDB would guess all of this from the records: a stray quote anywhere
# makes it keep the quotes of all values, and lines that begin with # count as comments.
_DIALECT = ("header = true", "quote = '\"'", "escape = '\"'", "comment = ''", "skip = 0")
_WRITERS = {
    "csv": "FORMAT csv, HEADER true",
    "tsv": "FORMAT csv, HEADER true, DELIMITER '\t'",
    "parquet": "FORMAT parquet",
    "json": "FORMAT json, ARRAY true",
    "ndjson": "FORMAT json",
}


@dataclass(frozen=True)
class DataFile:
    """A path and the format that its suffix names. packed: compressed by gzip."""

    path: Path
    kind: str
    packed: bool

    @classmethod
    def of(cls, path: Path) -> DataFile:
        """Raises InvalidInput if the suffix stands for no format."""
        packed = path.suffix.lower() == ".gz"
        kind = _SUFFIXES.get((path.with_suffix("") if packed else path).suffix.lower())
        if kind is None or (packed and kind in {"parquet", "database", *office_files.KINDS.values()}):
            raise InvalidInput(
                f"{path}: the suffix must tell the format: .csv, .tsv, .json, .ndjson (each also with .gz), .parquet, "
                ".xlsx (Excel), .sav (SPSS), .dta (Stata) or .xpt (SAS)."
            )
        return cls(path, kind, packed)

    @property
    def is_delimited(self) -> bool:
        return self.kind in {"csv", "tsv"}

    @property
    def is_office(self) -> bool:
        """Whether it is a file of Excel, SPSS, SAS or Stata."""
        return self.kind in office_files.KINDS.values()

    @property
    def labels(self) -> Labels:
        """What the file says of its columns; only files of SPSS, SAS and Stata do. Raises InvalidInput."""
        return office_files.labels(self.path, self.kind) if self.is_office else Labels()

    def _reader(self, *options: str) -> str:
        if self.kind == "parquet":
            return f"read_parquet({literal(str(self.path))})"
        given = [literal(str(self.path)), *options]
        if self.packed:
            given.append("compression = 'gzip'")
        if self.kind == "tsv":
            given.append("delim = '\t'")
        if self.is_delimited:
            given += _DIALECT
        return f"{'read_csv' if self.is_delimited else 'read_json'}({', '.join(given)})"

    def _as_text(self, con: Connection, typed: Sequence[str]) -> list[str]:
        """The reader's option, if any, that reads all columns as text except those in `typed`."""
        read = {name.lower() for name in typed}
        found = con.execute(f"SELECT column_name FROM (DESCRIBE FROM {self._reader()})").fetchall()  # noqa: S608 - names and paths are quoted
        kinds = [f"{literal(name)}: 'VARCHAR'" for (name,) in found if name.lower() not in read]
        return [f"types = {{{', '.join(kinds)}}}"] if kinds else []

    def load(self, con: Connection, name: str | None = None, *, typed: Sequence[str] | None = None) -> str:
        """Read the file into a temporary table and return that table's name, as the functions take it.

        name: the table's, if not that of the file. typed: of a delimited file, the columns that get types; all others
        stay text. None: every column. Raises InvalidInput if the file cannot be read.
        """
        import duckdb

        # query_table of DuckDB 1.4 loses double quotes inside a name.
        quoted = identifier((name or self.path.name).replace('"', "'"))
        if self.is_office:
            con.register(_READ, office_files.read(self.path, self.kind))
            con.execute(f"CREATE TEMP TABLE {quoted} AS FROM {identifier(_READ)}").fetchall()
            con.unregister(_READ)
            return quoted
        if self.is_delimited:
            self._refuse(text_files.no_text(self.path))
        try:
            options = self._as_text(con, typed) if typed is not None and self.is_delimited else []
            con.execute(f"CREATE TEMP TABLE {quoted} AS FROM {self._reader(*options)}").fetchall()
        except duckdb.Error as error:
            if isinstance(error, duckdb.OutOfMemoryException):
                raise
            self._refuse(self._flaw() if self.is_delimited else None)
            self._refuse(text_files.told(str(error)) or sentence(error))
        if self.is_delimited and self._is_one_column(con, quoted):
            self._refuse(self._flaw())
        return quoted

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise InvalidInput(f"{self.path} cannot be read: {why}")

    def _flaw(self) -> str | None:
        return text_files.flaw(self.path, "\t" if self.kind == "tsv" else None)

    def _is_one_column(self, con: Connection, table: str) -> bool:
        """Whether the file was read as one column whose name has delimiters: so DuckDB reads one with ragged lines."""
        names = con.execute(f"SELECT column_name FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608
        return len(names) == 1 and any(one in names[0][0] for one in ",;\t|")

    def write(self, con: Connection, table: str, labels: Labels | None = None) -> None:
        """Write the table to the file: all of it, or nothing at all. Raises duckdb.Error, OSError or InvalidInput.

        Lists become JSON in a file of a format that has no lists. labels: of the columns that the table was made of.
        """
        if self.is_office:
            found = con.sql(self._rows(con, table)).to_arrow_table()
            own = (labels or Labels()).of_release(found.column_names)
            with _replacing(self.path) as beside:
                office_files.write(beside, self.kind, found, own)
            return
        options = _WRITERS[self.kind] + (", COMPRESSION gzip" if self.packed else "")
        rows = self._rows(con, table)
        with _replacing(self.path) as beside:
            con.execute(f"COPY ({rows}) TO {literal(str(beside))} ({options})").fetchall()

    def _rows(self, con: Connection, table: str) -> str:
        if not self.is_delimited and not self.is_office:
            return f"FROM {table}"
        described = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608
        if self.is_office:
            columns = (
                f"{office_files.fitting(self.kind, identifier(name), kind)} AS {identifier(name)}"
                for name, kind in described
            )
            return f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608
        lists = [identifier(name) for name, kind in described if kind.endswith("[]")]
        if not lists:
            return f"FROM {table}"
        texts = ", ".join(f"CASE WHEN {name} IS NOT NULL THEN to_json({name}) END AS {name}" for name in lists)
        return f"SELECT * REPLACE ({texts}) FROM {table}"  # noqa: S608


def source(
    con: Connection,
    path: Path,
    table: str | None,
    *,
    typed: Sequence[str] | None = None,
    ordered: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> str:
    """The name by which SQL reads the data of `path`: a data file, or `table` in a DuckDB database.

    typed: as for `DataFile.load`. ordered: columns that become intervals, so that text in them is a mistake.
    numbers: others of which that is true. Raises InvalidInput if there is no such file, it cannot be read, `table` is
    missing or out of place, or a column of a delimited file is text that should not be, because of decimal commas or,
    in `ordered`, of a few values.
    """
    file = DataFile.of(path)
    if not path.exists():
        raise InvalidInput(f"There is no file {path}.")
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: name a file in it.")
    if file.kind != "database":
        if table is not None:
            raise InvalidInput(f"--table names a table in a DuckDB database, and {path} is none: leave --table out.")
        read = file.load(con, typed=typed)
        if file.is_delimited:
            _refuse_decimal_commas(con, read, path, [*ordered, *numbers])
        if file.is_delimited or file.kind == "excel":
            _refuse_mixed(con, read, ordered)
        return read
    if table is None:
        raise InvalidInput(f"{path} is a DuckDB database: name a table in it with --table.")
    import duckdb

    from duckanon.catalog.database_files import unopened

    try:
        con.execute(f"ATTACH {literal(str(path))} AS source (READ_ONLY)").fetchall()
    except duckdb.Error as error:
        reason = unopened(path, error, read_only=True)
        if reason is None:
            raise
        raise reason from error
    con.execute("USE source").fetchall()
    return table


def _refuse_decimal_commas(con: Connection, table: str, path: Path, numbers: Sequence[str]) -> None:
    """Raises InvalidInput if all values of a column of text are numbers, some of them with a decimal comma."""
    for name in _texts(con, table, numbers):
        number = rf"regexp_full_match(trim({identifier(name)}), '[-+]?\d+(,\d+)?')"
        ((is_number, commas),) = con.execute(
            f"SELECT bool_and({number}), count(*) FILTER ({identifier(name)} LIKE '%,%') FROM {table}"  # noqa: S608
        ).fetchall()
        if is_number and commas:
            read = path.with_name(f"{path.stem}_read.parquet")
            statement = f"COPY (FROM read_csv({literal(str(path))}, decimal_separator = ',')) TO {literal(str(read))}"
            raise InvalidInput(
                f'Column "{name}" is text, since its numbers have decimal commas. Read the file once with them, and '
                f"take {read} in its place: duckanon sql -c {_for_a_shell(statement)}"
            )


def _for_a_shell(statement: str) -> str:
    """SQL as one word for a shell: in double quotes where nothing in it means more there."""
    return shlex.quote(statement) if set(statement) & set('"$`\\!') else f'"{statement}"'


def _texts(con: Connection, table: str, names: Sequence[str]) -> list[str]:
    """The columns among `names` that are text."""
    wanted = {name.lower() for name in names}
    described = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608
    return [name for name, kind in described if kind == "VARCHAR" and name.lower() in wanted]


def _refuse_mixed(con: Connection, table: str, ordered: Sequence[str]) -> None:
    """Raises InvalidInput if most values of a column of text are numbers or dates: it names the first that is not."""
    for name in _texts(con, table, ordered):
        column = identifier(name)
        for kind in ("DOUBLE", "DATE", "TIMESTAMP"):
            cast = f"TRY_CAST({column} AS {kind}) IS NULL"
            ((all_, wrong, first),) = con.execute(
                f"SELECT count({column}), count({column}) FILTER ({cast}), "  # noqa: S608
                f"min(rowid) FILTER ({column} IS NOT NULL AND {cast}) FROM {table}"
            ).fetchall()
            if 0 < wrong < all_ / 2:
                raise InvalidInput(
                    f'Column "{name}" is text, since {wrong:,} of its {all_:,} values cannot be cast to {kind}; the '
                    f"first is in record {first + 1}. Correct them or leave them empty, or name the column in "
                    f"categorical := [{literal(name)}] to release sets of its values."
                )


def is_database(path: Path) -> bool:
    """Whether the suffix is that of a DuckDB database."""
    return _SUFFIXES.get(path.suffix.lower()) == "database"


def target(path: Path, *, force: bool) -> DataFile:
    """The file to write. Raises InvalidInput if it exists and `force` is not given, or it cannot be written."""
    file = DataFile.of(path)
    if file.kind == "database":
        raise InvalidInput(f"{path}: a release is written to a data file such as release.parquet, not to a database.")
    if file.kind == "sas":
        raise InvalidInput(f"{path}: only SAS writes .sas7bdat. Name the file .xpt, which SAS reads too.")
    free(path, force=force)
    return file


def free(path: Path, *, force: bool) -> None:
    """Raises InvalidInput if there is no place for a new file: it exists and `force` is not given, or has no folder."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: name a file in it.")
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists already: choose another name, or replace it with --force.")
    if not path.parent.is_dir():
        raise InvalidInput(f"There is no folder {path.parent}: make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InvalidInput(f"{path} {_NO_PLACE}")


def put(path: Path, content: bytes) -> None:
    """Write a file: all of it, or nothing at all. Raises InvalidInput or OSError."""
    with _replacing(path) as beside:
        beside.write_bytes(content)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A new name in the same folder. The file that the body writes there takes the place of `path`, or is removed.

    Raises InvalidInput where that fails for want of permission or room: errors would name a file that nobody knows.
    """
    import duckdb

    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield beside
        os.replace(beside, path)
    except (OSError, duckdb.IOException) as error:
        if "Permission denied" in str(error):
            raise InvalidInput(f"{path} {_NO_PLACE}") from error
        if "No space left" in str(error):
            raise InvalidInput(
                f"{path} cannot be written, since the disk is full: make room, or choose another one."
            ) from error
        raise
    finally:
        beside.unlink(missing_ok=True)
