"""Prepared statements and portals (statements with values), and how the rows of a portal are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from duckanon.cancellation import Flag
from duckanon.server.backends import Column, Result
from duckanon.server.codecs import Encoder, data_rows, encoder, sized
from duckanon.server.commands import Command, CopyOptions
from duckanon.server.errors import PgError
from duckanon.server.wire import Field

CHUNK = 1_000


@dataclass
class Prepared:
    """A prepared statement. types: the oids of its parameters. columns: those that were sent to the client, if any.

    written: the text as the client sent it.
    """

    text: str
    command: Command | None
    declared: tuple[int, ...] = ()
    types: Sequence[int] | None = None
    columns: Sequence[Column] | None = None
    written: str = ""


@dataclass
class Portal:
    """A statement with values, and the rest of its result.

    types: the oids of the values. formats: of the columns, 1 for binary; one for all, or one each. hold: whether it
    outlives its transaction. declared: whether it is a cursor of SQL. rows, size: how many rows were sent, and bytes.
    expected: the oids of the columns that were sent to the client before it ran. flag: of all that works for it.
    written: the text as the client sent it.
    """

    text: str
    command: Command | None
    values: Sequence[Any] = ()
    types: Sequence[int] = ()
    formats: Sequence[int] = ()
    hold: bool = False
    declared: bool = False
    expected: Sequence[int] | None = None
    result: Result | None = None
    is_done: bool = False
    rows: int = 0
    size: int = 0
    written: str = ""
    began: float = field(default_factory=perf_counter)
    flag: Flag = field(default_factory=Flag)
    _encoders: Sequence[Encoder] = ()
    _ready: tuple[int, list[bytes]] | None = None

    def fields(self, columns: Sequence[Column]) -> list[Field]:
        """The columns with their formats. Raises PgError for a number of formats that does not fit."""
        formats = self.formats
        if len(formats) > 1 and len(formats) != len(columns):
            raise PgError("08P01", "There is neither one format for all columns nor one for each.")
        each = list(formats) if len(formats) > 1 else [formats[0] if formats else 0] * len(columns)
        return [Field(column.name, column.type, bool(binary)) for column, binary in zip(columns, each, strict=True)]

    def started(self, result: Result, first: int) -> None:
        """Take a result, and prepare its first rows. Raises PgError if other columns were sent to the client before."""
        columns = result.columns or ()
        if self.expected is not None and [column.type.oid for column in columns] != list(self.expected):
            raise PgError("0A000", "The columns of a prepared statement have changed: prepare it again.")
        self._encoders = [encoder(one.type, binary=one.binary) for one in self.fields(columns)]
        self.result = result
        if result.columns is not None and first:
            self._ready = self.next(first)

    def ready(self) -> tuple[int, list[bytes]] | None:
        """The first rows, which were prepared when the statement ran; None once they are taken."""
        found, self._ready = self._ready, None
        return found

    def next(self, count: int) -> tuple[int, list[bytes]]:
        """The next rows as frames, and their number. A number below `count` means that there are no more."""
        assert self.result is not None
        rows = self.result.fetch(count)
        return len(rows), data_rows(rows, self._encoders)

    @property
    def tag(self) -> str:
        """The text that is sent to the client at the end, such as SELECT 5."""
        assert self.result is not None
        count = self.rows if self.result.columns is not None else self.result.changed
        counted = self.result.columns is None or self.result.tag in ("SELECT", "FETCH")
        return f"{self.result.tag} {count}" if counted and count is not None else self.result.tag


def copy_writer(columns: Sequence[Column], options: CopyOptions) -> Callable[[Sequence[Any]], list[bytes]]:
    """A function that writes rows for COPY: the content of one frame for each row, since clients read row by row."""
    if options.form == "binary":
        count, null = len(columns).to_bytes(2), (-1).to_bytes(4, signed=True)
        items = [_behind_length(encoder(column.type, binary=True)) for column in columns]
        return lambda rows: [count + b"".join(row) for row in _written(rows, items, null)]
    null, delimiter = options.null.encode(), options.delimiter.encode()
    escape = _csv_item(options) if options.form == "csv" else _text_item(options)
    items = [_escaped(encoder(column.type, binary=False), escape) for column in columns]
    return lambda rows: [delimiter.join(row) + b"\n" for row in _written(rows, items, null)]


def _written(rows: Sequence[Any], items: Sequence[Encoder], null: bytes) -> Iterable[Sequence[bytes]]:
    """Rows of written values, which are written column by column."""
    columns = zip(*rows, strict=True) if items else ()
    written = [
        [null if value is None else item(value) for value in column]
        for column, item in zip(columns, items, strict=False)
    ]
    return zip(*written, strict=True) if items else [()] * len(rows)


def _behind_length(encode: Encoder) -> Encoder:
    return lambda value: sized(encode(value))


def _escaped(encode: Encoder, escape: Callable[[bytes], bytes]) -> Encoder:
    return lambda value: escape(encode(value))


def copy_header(columns: Sequence[Column], options: CopyOptions) -> bytes:
    """The bytes that COPY sends before the rows."""
    if options.form == "binary":
        return b"PGCOPY\n\xff\r\n\0" + bytes(8)
    if not options.header:
        return b""
    escape = _csv_item(options) if options.form == "csv" else _text_item(options)
    return options.delimiter.encode().join(escape(column.name.encode()) for column in columns) + b"\n"


def copy_end(options: CopyOptions) -> bytes:
    """The bytes that COPY sends after the rows."""
    return b"\xff\xff" if options.form == "binary" else b""


def _text_item(options: CopyOptions) -> Callable[[bytes], bytes]:
    escapes = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\b": b"\\b", b"\f": b"\\f", b"\v": b"\\v"}
    delimiter = options.delimiter.encode()
    escapes.setdefault(delimiter, b"\\" + delimiter)
    special = re.compile(b"|".join(map(re.escape, escapes)))
    return lambda item: special.sub(lambda found: escapes[found[0]], item)


def _csv_item(options: CopyOptions) -> Callable[[bytes], bytes]:
    quote, delimiter, null = options.quote.encode(), options.delimiter.encode(), options.null.encode()
    escape_mark = (options.escape or options.quote).encode()
    special = re.compile(b"|".join(map(re.escape, (quote, escape_mark, delimiter, b"\n", b"\r"))))
    doubled = re.compile(b"|".join(map(re.escape, {quote, escape_mark})))

    def escape(item: bytes) -> bytes:
        if special.search(item) or item in (null, b"\\."):
            return quote + doubled.sub(lambda mark: escape_mark + mark[0], item) + quote
        return item

    return escape
