"""Reads what COPY ... FROM STDIN sends: text, CSV or binary, in pieces that end anywhere, into values by column.

Source: PostgreSQL 15 documentation, COPY. An error names the line and the column, and never a value. A line is counted
from 1 in what was sent, the header included; a value in quotes may have several.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from duckanon.server.codecs import Decoder
from duckanon.server.commands import CopyOptions
from duckanon.server.errors import PgError

# In bytes: the longest line, or row, which is kept in memory until its end is here.
_LONGEST = 16 << 20
_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_BAD = "22P04"


@dataclass(frozen=True)
class Rows:
    """lines: of each row. columns: the values of each column, None for NULL."""

    lines: Sequence[int]
    columns: Sequence[Sequence[Any]]


class Reader(Protocol):
    """Reads rows from pieces."""

    def feed(self, piece: bytes) -> Rows:
        """The rows that end in a piece. Raises PgError."""
        ...

    def end(self) -> Rows:
        """The row that ended with the last piece, if it had no end of its own. Raises PgError."""
        ...


def reader(options: CopyOptions, names: Sequence[str], decoders: Sequence[Decoder]) -> Reader:
    """A reader of the columns of these names. decoders: of their values, for the binary format."""
    if options.form == "binary":
        return BinaryReader(names, decoders)
    return LineReader(options, names)


class LineReader:
    """Reads text and CSV. Values are texts."""

    def __init__(self, options: CopyOptions, names: Sequence[str]) -> None:
        self._options, self._names, self._rest = options, names, b""
        self._line, self._is_over, self._has_header = 0, False, options.header
        self._values = self._csv_values if options.form == "csv" else self._text_values
        quote, escape = re.escape(options.quote), re.escape(options.escape or options.quote)
        self._in_quotes = re.compile(rf"{escape}{quote}|{escape}{escape}|{quote}", re.DOTALL)

    def feed(self, piece: bytes) -> Rows:
        end = piece.rfind(b"\n") + 1
        if not end:
            self._rest += piece
            if len(self._rest) > _LONGEST:
                raise PgError("54000", f"Line {self._line + 1} is too long: {_LONGEST >> 20} MiB are the most.")
            return Rows((), ())
        whole, self._rest = self._rest + piece[:end], piece[end:]
        return self._rows(whole, is_last=False)

    def end(self) -> Rows:
        whole, self._rest = self._rest, b""
        return self._rows(whole, is_last=True)

    def _rows(self, whole: bytes, *, is_last: bool) -> Rows:
        if self._is_over or not whole:
            return Rows((), ())
        text = self._decoded(whole)
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if self._is_plain(text):
            first, texts = self._line + 1, [line.removesuffix("\r") for line in lines]
            records = list(zip(range(first, first + len(texts)), texts, strict=True))
            self._line += len(texts)
        else:
            records = self._joined(lines, is_last=is_last)
        return self._split(records)

    def _decoded(self, whole: bytes) -> str:
        try:
            text = whole.decode()
        except UnicodeDecodeError as error:
            line = self._line + 1 + whole[: error.start].count(b"\n")
            raise PgError("22021", f"Line {line} is not UTF-8: save the file as UTF-8.") from None
        if "\0" in text:
            line = self._line + 1 + text[: text.index("\0")].count("\n")
            raise PgError("22021", f"Line {line} has a character 0, which no text has.")
        return text

    def _is_plain(self, text: str) -> bool:
        """Whether every line is a row."""
        return (self._options.quote not in text) if self._options.form == "csv" else ("\\\n" not in text)

    def _joined(self, lines: list[str], *, is_last: bool) -> list[tuple[int, str]]:
        """Rows with the number of their first line. Lines of a row that is not over wait for the next piece."""
        records: list[tuple[int, str]] = []
        held: list[str] = []
        is_open = False
        for line in lines:
            held.append(line)
            is_open = self._goes_on(line, is_open=is_open)
            if not is_open:
                records.append((self._line + 1, "\n".join(held).removesuffix("\r")))
                self._line += len(held)
                held = []
        if held and is_last:
            raise PgError(_BAD, f"The value in quotes that begins in line {self._line + 1} has no end.")
        if held:
            self._rest = "\n".join([*held, ""]).encode() + self._rest
            if len(self._rest) > _LONGEST:
                raise PgError("54000", f"Line {self._line + 1} is too long: {_LONGEST >> 20} MiB are the most.")
        return records

    def _goes_on(self, line: str, *, is_open: bool) -> bool:
        """Whether a row goes on behind a line. is_open: whether it did so behind the line before."""
        if self._options.form != "csv":
            return (len(line) - len(line.rstrip("\\"))) % 2 == 1
        at = 0
        while True:
            if not is_open:
                at = line.find(self._options.quote, at) + 1
                if not at:
                    return False
            closing = next((match for match in self._in_quotes.finditer(line, at) if len(match[0]) == 1), None)
            if closing is None:
                return True
            at, is_open = closing.end(), False

    def _split(self, records: list[tuple[int, str]]) -> Rows:
        if self._has_header and records:
            self._has_header = False
            self._check_header(*records.pop(0))
        at = next((at for at, (_, line) in enumerate(records) if line == "\\."), None)
        if at is not None:
            # The end of data, as it was sent before version 3 of the protocol.
            self._is_over, records = True, records[:at]
        values = [self._values(line) for _, line in records]
        count = len(self._names)
        for (number, _), row in zip(records, values, strict=True):
            if len(row) != count:
                columns = f"{count} column{'s' * (count != 1)}"
                raise PgError(_BAD, f"Line {number} has {len(row)} values, and {columns} are copied.")
        return Rows([number for number, _ in records], list(zip(*values, strict=True)) if values else ())

    def _check_header(self, number: int, line: str) -> None:
        names = self._values(line)
        if self._options.is_matched and names != list(self._names):
            raise PgError(_BAD, f"Line {number} does not have the names of the columns, in their order.")

    def _text_values(self, line: str) -> list[str | None]:
        delimiter, null = self._options.delimiter, self._options.null
        fields: list[str | None] = list(line.split(delimiter))
        if "\\" not in line:
            return [None if field == null else field for field in fields] if null in fields else fields
        joined: list[str] = []
        is_escaped = False
        for text in line.split(delimiter):
            if is_escaped:
                joined[-1] += delimiter + text
            else:
                joined.append(text)
            is_escaped = (len(text) - len(text.rstrip("\\"))) % 2 == 1
        return [None if one == null else _ESCAPED.sub(_unescaped, one) if "\\" in one else one for one in joined]

    def _csv_values(self, line: str) -> list[str | None]:
        quote, delimiter, null = self._options.quote, self._options.delimiter, self._options.null
        if quote not in line:
            fields: list[str | None] = list(line.split(delimiter))
            return [None if field == null else field for field in fields] if null in fields else fields
        csv_values: list[str | None] = []
        parts: list[str] = []
        at, was_quoted = 0, False
        while True:
            quoted, divided = line.find(quote, at), line.find(delimiter, at)
            if quoted >= 0 and (divided < 0 or quoted < divided):
                text, end = self._quoted(line, quoted + 1)
                parts += [line[at:quoted], text]
                at, was_quoted = end, True
                continue
            parts.append(line[at:divided] if divided >= 0 else line[at:])
            value = "".join(parts)
            csv_values.append(None if value == null and not was_quoted else value)
            if divided < 0:
                return csv_values
            parts, at, was_quoted = [], divided + 1, False

    def _quoted(self, line: str, at: int) -> tuple[str, int]:
        """The text in quotes that begins at a place, and the place behind the quote that closes it."""
        parts: list[str] = []
        for match in self._in_quotes.finditer(line, at):
            parts.append(line[at : match.start()])
            if len(match[0]) == 1:
                return "".join(parts), match.end()
            parts.append(match[0][1])
            at = match.end()
        # All quotes of a row are closed: it ends only then.
        raise PgError(_BAD, "A value in quotes has no end.")


def _unescaped(match: re.Match[str]) -> str:
    """What a backslash and what follows it stand for."""
    hexadecimal, octal, other = match.groups()
    if other is not None:
        return _ESCAPES.get(other, other)
    return chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF)


class BinaryReader:
    """Reads the binary format. Values are those of their decoders; a line is the number of a row."""

    def __init__(self, names: Sequence[str], decoders: Sequence[Decoder]) -> None:
        self._names, self._decoders, self._rest = names, decoders, b""
        self._row, self._is_over, self._has_begun = 0, False, False

    def feed(self, piece: bytes) -> Rows:
        self._rest += piece
        rows = self._taken()
        if len(self._rest) > _LONGEST:
            raise PgError("54000", f"Row {self._row + 1} is too long: {_LONGEST >> 20} MiB are the most.")
        return rows

    def end(self) -> Rows:
        rows = self._taken()
        if not self._is_over or self._rest:
            raise PgError(_BAD, "The binary data ends too early, or goes on behind its end.")
        return rows

    def _taken(self) -> Rows:
        """The rows that are whole."""
        at, rows, first = self._begun(), [], self._row + 1
        while at >= 0 and not self._is_over:
            row, end = self._row_at(at)
            if end < 0:
                break
            at = end
            if row is not None:
                rows.append(row)
                self._row += 1
        self._rest = self._rest[max(at, 0) :]
        return Rows(range(first, first + len(rows)), list(zip(*rows, strict=True)) if rows else ())

    def _begun(self) -> int:
        """The place behind the header, -1 while that is not whole."""
        if self._has_begun:
            return 0
        if len(self._rest) < len(_SIGNATURE) + 8:
            return -1
        flags, more = struct.unpack_from("!ii", self._rest, len(_SIGNATURE))
        if not self._rest.startswith(_SIGNATURE) or flags & 0xFFFF0000 or more < 0:
            raise PgError(_BAD, "The data is not in PostgreSQL's binary format: leave FORMAT binary out.")
        end = len(_SIGNATURE) + 8 + int(more)
        self._has_begun = len(self._rest) >= end
        return end if self._has_begun else -1

    def _row_at(self, at: int) -> tuple[list[Any] | None, int]:
        """A row and the place behind it, which is -1 if it is not whole; None for the end of data."""
        rest = self._rest
        if len(rest) < at + 2:
            return None, -1
        (count,) = struct.unpack_from("!h", rest, at)
        at += 2
        if count == -1:
            self._is_over = True
            return None, at
        if count != len(self._names):
            columns = f"{len(self._names)} column{'s' * (len(self._names) != 1)}"
            raise PgError(_BAD, f"Row {self._row + 1} has {count} values, and {columns} are copied.")
        row: list[Any] = []
        for name, decode in zip(self._names, self._decoders, strict=True):
            if len(rest) < at + 4:
                return None, -1
            (size,) = struct.unpack_from("!i", rest, at)
            at += 4
            if size > len(rest) - at:
                return None, -1
            row.append(None if size < 0 else self._value(decode, rest[at : at + size], name))
            at += max(size, 0)
        return row, at

    def _value(self, decode: Callable[[bytes], Any], raw: bytes, name: str) -> Any:
        try:
            return decode(raw)
        except PgError:
            raise PgError(
                "22P03", f"Row {self._row + 1}, column {name}: the value is not one of the column's type in binary."
            ) from None
