"""Why a text file cannot be read: sentences that name the line, the column and the type, and never a value."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from duckanon.integrations.text_encodings import opened

# How much of a file is looked at to see whether it is text.
_HEAD = 1 << 16
_DELIMITERS = ",;\t|"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# DuckDB's errors about CSV and JSON. What else they say is data, or repeats it.
_LINE = re.compile(r"CSV Error on Line: (\d+)")
_CAST = re.compile(r'Error when converting column "([^"\n]*)"\. Could not convert string .* to \'([^\']+)\'', re.DOTALL)
_JSON_TYPE = re.compile(r"JSON transform error in file .*?, in (line|record/value) (\d+):", re.DOTALL)
_QUOTE = "a double quote is not closed, or text follows it. Write a double quote inside a value twice."
_ENCODE = "Most of the file is: correct the line, or name the encoding of all lines, as in --encoding cp1252."


def no_text(path: Path) -> str | None:
    """Why the file is no text with a line of column names, as far as its beginning tells; None if it may be.

    path: a file with or without compression by gzip, as its suffix says. Raises OSError if it cannot be opened.
    """
    try:
        with opened(path) as file:
            head = file.read(_HEAD)
    except (gzip.BadGzipFile, EOFError):
        return "it is not compressed by gzip, as its suffix .gz says. Leave the suffix out, or compress it."
    if not head.strip():
        return "it is empty. The first line has the names of the columns."
    if b"\0" in head and not head.startswith(_UTF_16):
        return "it is binary data and no text. Save it as text, or give it its own suffix, such as .xlsx or .parquet."
    return None


def flaw(path: Path, delimiter: str | None = None) -> str | None:
    """The first record that makes a delimited file unreadable; None if there is no such record.

    That is one with bytes that are no UTF-8, with a double quote out of place, or with another number of fields than
    there are names of columns.
    delimiter: None takes the one that is most frequent in the first line. Raises OSError.
    """
    records = csv.reader(_lines(path), delimiter=delimiter or _likely(path), strict=True)
    line = 1
    try:
        names = next(records, [])
        if _undecoded(names) is not None:
            return f"line 1, the names of the columns, is not UTF-8. {_ENCODE}"
        line = records.line_num + 1
        for fields in records:
            at = _undecoded(fields)
            if at is not None:
                column = f'column "{names[at]}"' if at < len(names) else f"field {at + 1}"
                return f"line {line}, {column}, is not UTF-8. {_ENCODE}"
            if fields and len(fields) != len(names):
                return (
                    f"line {line} has {_counted(len(fields), 'field')}, and the line of column names has "
                    f"{len(names)}. Correct the line; a value that holds the delimiter stands in double quotes."
                )
            line = records.line_num + 1
    except csv.Error as error:
        # The end of the file, or a field without end, comes from a quote that stays open.
        if any(cause in str(error) for cause in ("expected after", "unexpected end", "field larger")):
            return f"line {line}: {_QUOTE}"
        return f"line {line} cannot be split into fields. Correct it."
    return None


def header(path: Path, delimiter: str | None = None) -> list[str]:
    """The names of the columns as a file in UTF-8 has them, some perhaps twice; the delimiter is as for `flaw`."""
    try:
        names = next(csv.reader(_lines(path), delimiter=delimiter or _likely(path)), [])
    except csv.Error:
        return []
    return [name.removeprefix("\ufeff") for name in names]


def lines_of(path: Path, records: Sequence[int], delimiter: str | None = None) -> list[int]:
    """The lines where records begin. records: their numbers from 1, ascending. The other arguments are those of `flaw`.

    A record with a line break in it takes several lines. Those that lie beyond what can be read are left out.
    """
    wanted, values, number = set(records), [], 0
    reader = csv.reader(_lines(path), delimiter=delimiter or _likely(path))
    try:
        next(reader, None)
        line = reader.line_num + 1
        for fields in reader:
            number += bool(fields)
            if fields and number in wanted:
                values.append(line)
                if number == records[-1]:
                    break
            line = reader.line_num + 1
    except csv.Error:
        pass
    return values


def _likely(path: Path) -> str:
    """The delimiter that is most frequent in the first line."""
    with opened(path) as file:
        first = file.readline().decode("utf-8", "surrogateescape")
    return max(_DELIMITERS, key=first.count)


def told(text: str) -> str | None:
    """What an error of DuckDB's about a CSV or JSON file says, without values; None if it is about something else."""
    line, cast, kind = _LINE.search(text), _CAST.search(text), _JSON_TYPE.search(text)
    if kind is not None:
        where = "line" if kind[1] == "line" else "record"
        return f"{where} {kind[2]} has a value of another type than those before it. Correct it."
    if line is None:
        return "no delimiter splits it into columns. Correct it." if "Error when sniffing file" in text else None
    where = f"line {line[1]}"
    if cast is not None:
        return (
            f'{where}, column "{cast[1]}": the value cannot be cast to {cast[2]}, the type of the values before it. '
            "Correct it, or leave it empty."
        )
    if "unterminated quote" in text:
        return f"{where}: {_QUOTE}"
    if "aximum line size" in text:
        return f"{where} is longer than DuckDB reads. Perhaps a double quote is not closed there."
    return f"{where} is no CSV. Correct it."


def _lines(path: Path) -> Iterator[str]:
    """The lines as text. Bytes that are no UTF-8 become lone surrogates."""
    with opened(path) as file:
        for line in file:
            yield line.decode("utf-8", "surrogateescape")


def _undecoded(fields: list[str]) -> int | None:
    """The position of the first field with lone surrogates."""
    for at, field in enumerate(fields):
        if not field.isascii():
            try:
                field.encode()
            except UnicodeEncodeError:
                return at
    return None


def _counted(many: int, one: str) -> str:
    return f"{many:,} {one if many == 1 else one + 's'}"
