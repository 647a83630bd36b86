"""Prepared statements and portals: what a client has named, and how the rows of a portal are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from duckanon.server.backends import Column, Result
from duckanon.server.codecs import Encoder, data_rows, encoder
from duckanon.server.commands import Command, CopyOptions
from duckanon.server.errors import Told
from duckanon.server.wire import Field

CHUNK = 2_000


@dataclass
class Prepared:
    """A prepared statement. types: the oids of its parameters. columns: those that the client was told, if any."""

    text: str
    command: Command | None
    declared: tuple[int, ...] = ()
    types: Sequence[int] | None = None
    columns: Sequence[Column] | None = None


@dataclass
class Portal:
    """A statement with values, and what is left of its result.

    types: the oids of the values. formats: of the columns, 1 for binary; one for all, or one each. hold: whether it
    outlives its transaction. declared: whether it is a cursor of SQL. rows, size: how many rows were sent, and bytes.
    expected: the oids of the columns that the client was told before it ran.
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
    began: float = field(default_factory=perf_counter)
    _encoders: Sequence[Encoder] = ()
    _ready: tuple[int, list[bytes]] | None = None

    def fields(self, columns: Sequence[Column]) -> list[Field]:
        """The columns with their formats. Raises Told for a number of formats that does not fit."""
        formats = self.formats
        if len(formats) > 1 and len(formats) != len(columns):
            raise Told("08P01", "There is neither one format for all columns nor one for each.")
        each = list(formats) if len(formats) > 1 else [formats[0] if formats else 0] * len(columns)
        return [Field(one.name, one.type, bool(binary)) for one, binary in zip(columns, each, strict=True)]

    def started(self, result: Result, first: int) -> None:
        """Take a result, and prepare its first rows. Raises Told if the client was told of other columns."""
        columns = result.columns or ()
        if self.expected is not None and [one.type.oid for one in columns] != list(self.expected):
            raise Told("0A000", "The columns of a prepared statement have changed: prepare it again.")
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
        """What the client is told at the end, such as SELECT 5."""
        assert self.result is not None
        count = self.rows if self.result.columns is not None else self.result.changed
        counted = self.result.columns is None or self.result.tag in ("SELECT", "FETCH")
        return f"{self.result.tag} {count}" if counted and count is not None else self.result.tag


def copy_writer(columns: Sequence[Column], options: CopyOptions) -> Callable[[Sequence[Any]], bytes]:
    """What writes a row as COPY sends it."""
    if options.form == "binary":
        return _binary_row([encoder(one.type, binary=True) for one in columns])
    encoders = [encoder(one.type, binary=False) for one in columns]
    escape = _csv_item(options) if options.form == "csv" else _text_item(options)
    null, delimiter = options.null.encode(), options.delimiter.encode()

    def write(row: Sequence[Any]) -> bytes:
        items = [null if value is None else escape(encode(value)) for value, encode in zip(row, encoders, strict=True)]
        return delimiter.join(items) + b"\n"

    return write


def copy_header(columns: Sequence[Column], options: CopyOptions) -> bytes:
    """What COPY sends before the rows."""
    if options.form == "binary":
        return b"PGCOPY\n\xff\r\n\0" + bytes(8)
    if not options.header:
        return b""
    escape = _csv_item(options) if options.form == "csv" else _text_item(options)
    return options.delimiter.encode().join(escape(one.name.encode()) for one in columns) + b"\n"


def copy_end(options: CopyOptions) -> bytes:
    """What COPY sends after the rows."""
    return b"\xff\xff" if options.form == "binary" else b""


def _binary_row(encoders: Sequence[Encoder]) -> Callable[[Sequence[Any]], bytes]:
    count, null = len(encoders).to_bytes(2), b"\xff\xff\xff\xff"

    def write(row: Sequence[Any]) -> bytes:
        parts = [count]
        for value, encode in zip(row, encoders, strict=True):
            written = null if value is None else encode(value)
            parts.append(written if value is None else len(written).to_bytes(4) + written)
        return b"".join(parts)

    return write


def _text_item(options: CopyOptions) -> Callable[[bytes], bytes]:
    escapes = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\b": b"\\b", b"\f": b"\\f", b"\v": b"\\v"}
    delimiter = options.delimiter.encode()
    escapes.setdefault(delimiter, b"\\" + delimiter)

    def escape(item: bytes) -> bytes:
        for plain, escaped in escapes.items():
            if plain in item:
                item = item.replace(plain, escaped)
        return item

    return escape


def _csv_item(options: CopyOptions) -> Callable[[bytes], bytes]:
    quote, delimiter, null = options.quote.encode(), options.delimiter.encode(), options.null.encode()

    def escape(item: bytes) -> bytes:
        special = item in (null, b"\\.") or any(one in item for one in (quote, delimiter, b"\n", b"\r"))
        return quote + item.replace(quote, quote + quote) + quote if special else item

    return escape
