"""Data files: the format by suffix, reading a file into a table, writing a table to a file."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.schema import looks_like_a_value
from duckanon.integrations import column_texts, office_files, text_encodings, text_files
from duckanon.integrations.error_sentences import sentence
from duckanon.integrations.office_files import Labels
from duckanon.integrations.reading import Reading, Tell, silent

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

    @property
    def _delimiter(self) -> str | None:
        return "\t" if self.kind == "tsv" else None

    def reader(self, reading: Reading, *options: str) -> str:
        """The call of DuckDB that reads the file, if that is in UTF-8 and no office's."""
        if self.kind == "parquet":
            return f"read_parquet({literal(str(self.path))})"
        texts = [literal(str(self.path)), *options]
        if self.packed:
            texts.append("compression = 'gzip'")
        if self.kind == "tsv":
            texts.append("delim = '\t'")
        if self.is_delimited:
            texts += _DIALECT
            texts += [f"nullstr = [{', '.join(map(literal, ('', *reading.null)))}]"] if reading.null else []
            texts += [f"decimal_separator = {literal(reading.decimal)}"] if reading.decimal else []
            texts += [f"dateformat = {literal(reading.date_format)}"] if reading.date_format else []
        return f"{'read_csv' if self.is_delimited else 'read_json'}({', '.join(texts)})"

    def _as_text(self, con: Connection, reading: Reading, typed: Sequence[str]) -> list[str]:
        """The reader's option, if any, that reads all columns as text except those in `typed`."""
        read = {name.lower() for name in typed}
        rows = con.execute(f"SELECT column_name FROM (DESCRIBE FROM {self.reader(reading)})").fetchall()  # noqa: S608 - names and paths are quoted
        kinds = [f"{literal(name)}: 'VARCHAR'" for (name,) in rows if name.lower() not in read]
        return [f"types = {{{', '.join(kinds)}}}"] if kinds else []

    def load(
        self,
        con: Connection,
        name: str | None = None,
        *,
        typed: Sequence[str] | None = None,
        reading: Reading | None = None,
        tell: Tell = silent,
    ) -> str:
        """Read the file into a temporary table and return that table's name, as the functions take it.

        name: the table's, if not that of the file. typed: of a delimited file, the columns that get types; all others
        stay text. None: every column. reading: what is said of the file. tell: gets a sentence for each thing that was
        found out about it. Raises InvalidInput if the file cannot be read.
        """
        reading = reading or Reading()
        # query_table of DuckDB 1.4 loses double quotes inside a name.
        quoted = identifier((name or self.path.name).replace('"', "'"))
        if reading.is_said and not self.is_delimited:
            raise InvalidInput(
                f"{self.path} is no text file with delimiters: --encoding, --decimal, --null and --date-format are for "
                ".csv and .tsv."
            )
        if self.is_office:
            con.register(_READ, office_files.read(self.path, self.kind))
            con.execute(f"CREATE TEMP TABLE {quoted} AS FROM {identifier(_READ)}").fetchall()
            con.unregister(_READ)
            return quoted
        if not self.is_delimited:
            with self._explained():
                con.execute(f"CREATE TEMP TABLE {quoted} AS FROM {self.reader(reading)}").fetchall()
            return quoted
        with self._in_utf_8(reading, tell) as copy:
            with copy._explained(self.path):
                options = [] if typed is None else copy._as_text(con, reading, typed)
                con.execute(f"CREATE TEMP TABLE {quoted} AS FROM {copy.reader(reading, *options)}").fetchall()
            if copy._is_one_column(con, quoted):
                self._refuse(copy._flaw())
            for text in (copy._doubled(con, quoted), copy._unsure_dates(con, quoted, reading)):
                if text:
                    tell(f"{self.path.name}: {text}")
        numbers = column_texts.to_numbers(con, quoted, column_texts.texts(con, quoted, typed), reading.decimal)
        if numbers and reading.decimal is None:
            tell(f"{self.path.name}: {_listed(numbers)} read with decimal commas; --decimal . says that they are none.")
        if reading.date_format is not None:
            texts = column_texts.texts(con, quoted, typed)
            if days := column_texts.to_dates(con, quoted, texts, reading.date_format):
                tell(
                    f"{self.path.name}: {_listed(days)} written in two ways, as {reading.date_format} and as %Y-%m-%d; "
                    "both are read as dates."
                )
        return quoted

    @contextmanager
    def _in_utf_8(self, reading: Reading, tell: Tell) -> Iterator[DataFile]:
        """The file, or its copy in UTF-8. Raises InvalidInput where it is no text, or not in the encoding."""
        self._refuse(text_files.no_text(self.path))
        said = reading.encoding
        text = text_encodings.encoding_of(self.path) if said is None else text_encodings.named(said, self.path)
        if text is None:
            self._refuse(self._flaw())
        encoding = text or text_encodings.UTF_8
        with text_encodings.as_utf_8(self.path, encoding) as path:
            if said is None and encoding != text_encodings.UTF_8:
                called = text_encodings.NAMES[encoding]
                tell(f"{self.path.name}: read as {called}, since it is not UTF-8; --encoding names another one.")
            yield self if path == self.path else replace(self, path=path, packed=False)

    @contextmanager
    def _explained(self, told_as: Path | None = None) -> Iterator[None]:
        """Turn DuckDB's errors about the file into sentences without values. told_as: the file that they name."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            named = replace(self, path=told_as or self.path)
            named._refuse(self._flaw() if self.is_delimited else None)
            named._refuse(text_files.told(str(error)) or sentence(error))

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise InvalidInput(f"{self.path} cannot be read: {why}")

    def _flaw(self) -> str | None:
        return text_files.flaw(self.path, self._delimiter)

    def _is_one_column(self, con: Connection, table: str) -> bool:
        """Whether the file was read as one column whose name has delimiters: so DuckDB reads one with ragged lines."""
        names = con.execute(f"SELECT column_name FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608
        return len(names) == 1 and any(text in names[0][0] for text in ",;\t|")

    def _doubled(self, con: Connection, table: str) -> str | None:
        """Which columns have the name of an earlier one, and how they are called now; None if there are none."""
        names = text_files.header(self.path, self._delimiter)
        read = [name for (name,) in con.execute(f"SELECT column_name FROM (DESCRIBE FROM {table})").fetchall()]  # noqa: S608
        lower = [name.lower() for name in names]
        again = [i for i, name in enumerate(lower) if name in lower[:i]]
        if not again or len(read) != len(names):
            return None
        if any(map(looks_like_a_value, names)):
            return "several columns have the same name, and perhaps the first line has values: put names into it."
        called = ", ".join(f"column {i + 1} is read as {read[i]}" for i in again)
        return f"several columns are named {', '.join(dict.fromkeys(names[i] for i in again))}: {called}."

    def _unsure_dates(self, con: Connection, table: str, reading: Reading) -> str | None:
        """That days and months of dates might be taken for each other; None where a value or somebody says which."""
        described = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {table})").fetchall()  # noqa: S608
        days = [identifier(name) for name, kind in described if kind == "DATE"]
        if reading.date_format or not days:
            return None
        ((form,),) = con.execute(f"SELECT DateFormat FROM sniff_csv({self._sniffed})").fetchall()  # noqa: S608
        if form is None or form.startswith(("%Y", "%y")) or "%b" in form.lower():
            return None
        tells = " OR ".join(f"day({name}) > 12" for name in days)
        if con.execute(f"SELECT 1 FROM {table} WHERE {tells} LIMIT 1").fetchall():  # noqa: S608
            return None
        return f"no date tells days from months; they are read as {form}. --date-format says another order."

    @property
    def _sniffed(self) -> str:
        options = ", ".join(_DIALECT + (("delim = '\t'",) if self.kind == "tsv" else ()))
        return f"{literal(str(self.path))}, {options}" + (", compression = 'gzip'" if self.packed else "")

    def lines_of(self, records: Sequence[int], reading: Reading) -> list[int]:
        """The lines of a delimited file in which these records begin. records: their numbers from 1, ascending."""
        with self._in_utf_8(reading, silent) as copy:
            return text_files.lines_of(copy.path, records, self._delimiter)

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

    def export(self, con: Connection, table: str) -> str | None:
        """The statement that writes a table to the file; None where DuckDB writes no such file."""
        if self.is_office:
            return None
        options = _WRITERS[self.kind] + (", COMPRESSION gzip" if self.packed else "")
        return f"COPY ({self._rows(con, table)}) TO {literal(str(self.path))} ({options})"

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
    reading: Reading | None = None,
    tell: Tell = silent,
) -> str:
    """The name by which SQL reads the data of `path`: a data file, or `table` in a DuckDB database.

    typed, reading, tell: as for `DataFile.load`. ordered: columns that must be numbers or dates, as those that become
    intervals and weights; text in them is a mistake. Raises InvalidInput if there is no such file, it cannot be read,
    `table` is missing or out of place, or a column in `ordered` is text because of a few values.
    """
    file = DataFile.of(path)
    if not path.exists():
        raise InvalidInput(f"There is no file {path}.")
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder: name a file in it.")
    reading = reading or Reading()
    if file.kind != "database":
        if table is not None:
            raise InvalidInput(f"--table names a table in a DuckDB database, and {path} is none: leave --table out.")
        read = file.load(con, typed=typed, reading=reading, tell=tell)
        if file.is_delimited or file.kind == "excel":
            _refuse_texts(con, read, file, ordered, reading)
        return read
    if reading.is_said:
        raise InvalidInput(f"{path} is a DuckDB database, whose columns have types: say how a text file is read only.")
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


def _refuse_texts(con: Connection, table: str, file: DataFile, ordered: Sequence[str], reading: Reading) -> None:
    """Raises InvalidInput if a column of text was to be numbers or dates: it says where, and not what stands there."""
    for name in column_texts.texts(con, table, ordered):
        if column_texts.is_ambiguous(con, table, name):
            raise InvalidInput(
                f'Column "{name}" is text, since its commas may be decimal, or stand between thousands: say which with '
                "--decimal , or --decimal ."
            )
        wrong = column_texts.unfit(con, table, name, reading.decimal, reading.date_format)
        if wrong is None:
            continue
        missing = " say with --null which texts stand for missing values," if file.is_delimited else ""
        raise InvalidInput(
            f'Column "{name}" is text: {told_unfit(wrong, file, reading)} Correct them or leave them empty,{missing} '
            f"or name the column in categorical := [{literal(name)}] to release sets of its values."
        )


def unfit_texts(con: Connection, table: str, file: DataFile, reading: Reading) -> dict[str, str]:
    """A sentence for each column of text that might be numbers or dates, by its name: what keeps it from that."""
    if not (file.is_delimited or file.kind == "excel"):
        return {}
    found = {}
    for name in column_texts.texts(con, table):
        if not reading.decimal and column_texts.is_ambiguous(con, table, name):
            found[name] = "Its commas may be decimal, or stand between thousands: say which with --decimal."
        elif reading.decimal and column_texts.has_other_sign(con, table, name, reading.decimal):
            found[name] = f"Its numbers have another sign before decimals than {reading.decimal}, so it stays text."
        elif wrong := column_texts.unfit(con, table, name, reading.decimal, reading.date_format):
            found[name] = told_unfit(wrong, file, reading)
    return found


def told_unfit(wrong: column_texts.Unfit, file: DataFile, reading: Reading) -> str:
    """A sentence on values that cannot be numbers or dates: how many, and where, but not which."""
    is_text = file.is_delimited
    places = file.lines_of(wrong.first, reading) if is_text else wrong.first
    what = ("line" if is_text else "record") + ("" if len(places) == 1 else "s")
    listed = ", ".join(f"{place:,}" for place in places)
    more = f" and {wrong.more:,} more" if wrong.more else ""
    texts = f"; they are {wrong.texts:,} different texts" if 1 < wrong.texts < wrong.wrong else ""
    texts = "; they are one text" if wrong.texts == 1 < wrong.wrong else texts
    return f"{wrong.wrong:,} of its {wrong.all:,} values cannot be {wrong.kind}, in {what} {listed}{more}{texts}."


def _listed(names: Sequence[str]) -> str:
    """Names with the verb that follows."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


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
