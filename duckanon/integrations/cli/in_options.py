"""How IN is read: a table of a database, or a text file and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon.integrations.cli.options import TableName
from duckanon.integrations.data_files import DataFile, is_database, source
from duckanon.integrations.reading import Reading
from duckanon.integrations.terminal.output import say

if TYPE_CHECKING:
    from duckanon.connection import Connection

Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Of a text file, such as cp1252. Default: found out, and told."),
]
Decimal = Annotated[
    str | None,
    typer.Option("--decimal", metavar="SIGN", help="Of a text file: the sign before decimals, a comma or a point."),
]
Null = Annotated[
    list[str] | None,
    typer.Option("--null", metavar="TEXT", help="Of a text file: a text for a missing value. May be repeated."),
]
DateFormat = Annotated[
    str | None,
    typer.Option("--date-format", metavar="FORMAT", help="Of a text file: how dates are written, as %d.%m.%Y."),
]


@dataclass(frozen=True)
class ReadOptions:
    """What is said of a text file."""

    encoding: Encoding = None
    decimal: Decimal = None
    null: Null = None
    date_format: DateFormat = None

    @property
    def reading(self) -> Reading:
        """Raises InvalidInput for what cannot be."""
        return Reading(self.encoding, self.decimal, tuple(self.null or ()), self.date_format)


@dataclass(frozen=True)
class InOptions(ReadOptions):
    """How IN is read."""

    table: TableName = None

    def source(
        self, con: Connection, path: Path, *, typed: Sequence[str] | None = None, ordered: Sequence[str] = ()
    ) -> str:
        """The name by which SQL reads IN, as `data_files.source` has it. What was found out is told on stderr."""
        return source(con, path, self.table, typed=typed, ordered=ordered, reading=self.reading, tell=say)

    def other(self, con: Connection, text: str, option: str, inside: Path) -> str:
        """The name by which SQL reads another table that an option names: a file, or a table of the database IN.

        A text file is read as IN is. inside: IN. Raises InvalidInput if there is no such file.
        """
        if is_database(inside) and not Path(text).exists():
            return text
        file = DataFile.of(Path(text))
        reading = self.reading if file.is_delimited else None
        if not file.path.is_file() or file.kind == "database":
            return source(con, file.path, None)
        return file.load(con, f"{option} {file.path.name}", reading=reading, tell=say)
