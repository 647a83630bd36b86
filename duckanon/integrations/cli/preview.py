"""`duckanon preview`: how the columns of a file are read, and what is in their way. No value is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from duckanon.catalog.names import identifier, literal
from duckanon.integrations.cli.in_options import InOptions
from duckanon.integrations.data_files import DataFile, unfit_texts
from duckanon.integrations.empty_records import in_words, no_value
from duckanon.integrations.terminal.output import printable
from duckanon.integrations.terminal.session import Session

if TYPE_CHECKING:
    from duckanon.connection import Connection

_NOTE = (
    "Say with --null, --decimal and --date-format how values are written: every command that reads a file takes these."
)


@dataclass(frozen=True)
class Column:
    """A column as it was read. missing: how many of the records have none. told: what keeps it from being numbers."""

    name: str
    type: str
    missing: int
    different: int
    told: str


def preview(path: Path, reads: InOptions) -> Table:
    """The columns of a file as a table. Raises InvalidInput, duckdb.Error or Cancelled."""
    with Session(role="steward") as session:
        records, columns, empty = session.run(f"Reading {path.name}", lambda con: read(con, path, reads))
    title = f"{path.name}: {records:,} records"
    table = Table(box=box.ROUNDED, title=title, title_justify="left", caption=_caption(empty), caption_justify="left")
    for name in ("column", "type", "missing", "different", ""):
        table.add_column(name, justify="right" if name in ("missing", "different") else "left")
    for column in columns:
        cells = (
            printable(column.name),
            column.type,
            f"{column.missing:,}",
            f"{column.different:,}",
            printable(column.told),
        )
        table.add_row(*map(Text, cells))
    return table


def _caption(empty: int) -> str:
    if not empty:
        return _NOTE
    return f"{in_words(empty)}\n{_NOTE}"


def read(con: Connection, path: Path, reads: InOptions) -> tuple[int, list[Column], int]:
    """The number of records, the columns, and how many records have no value in any of them."""
    table = reads.source(con, path)
    source = f"system.main.query_table({literal(table)})"
    described = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE FROM {source})").fetchall()  # noqa: S608 - a literal
    figures = ", ".join(f"count({identifier(name)}), count(DISTINCT {identifier(name)})" for name, _ in described)
    nothing = no_value([name for name, _ in described])
    (value,) = con.execute(
        f"SELECT count(*), count(*) FILTER ({nothing}), {figures} FROM {source}"  # noqa: S608
    ).fetchall()
    records, empty, counts = value[0], value[1], value[2:]
    told = unfit_texts(con, table, DataFile.of(path), reads.reading)
    columns = [
        Column(name, kind, records - count, different, told.get(name, ""))
        for (name, kind), count, different in zip(described, counts[::2], counts[1::2], strict=True)
    ]
    return records, columns, empty
