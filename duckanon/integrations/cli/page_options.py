"""What a page about a database is to judge besides what it finds there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated

import typer

from duckanon.integrations.cli.options import Columns
from duckanon.integrations.report.table_requests import TableRequest, table_requests

Numbers = list[int] | None


@dataclass(frozen=True)
class PageOptions:
    """Released tables, tables of shares and exported files that a page is to judge."""

    released: Annotated[
        Columns,
        typer.Option("--released", metavar="NAME", help="With --out: a released table; the next --qi is its own."),
    ] = None
    shares: Annotated[
        Columns,
        typer.Option("--shares", metavar="NAME", help="With --out: a table of which shares are published, by:"),
    ] = None
    rows: Annotated[Columns, typer.Option("--rows", metavar="NAMES", help="the rows of these shares,")] = None
    cols: Annotated[Columns, typer.Option("--cols", metavar="NAMES", help="the columns of these shares,")] = None
    count: Annotated[Columns, typer.Option("--count", metavar="NAME", help="and the column of counts, if any;")] = None
    p: Annotated[Columns, typer.Option("--p", metavar="NAME", help="or, if the table holds shares, their column,")] = (
        None
    )
    n: Annotated[Numbers, typer.Option("--n", help="the number of records that they are of,")] = None
    digits: Annotated[Numbers, typer.Option("--digits", help="and to how many decimals they are rounded.")] = None
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", metavar="FILE", help="With --out, --record: an exported file, to be judged and identified."
        ),
    ] = None

    @property
    def are_given(self) -> bool:
        return any(astuple(self))

    def requests(self, qi: Sequence[str] | None) -> list[TableRequest]:
        """The tables that are named. Raises InvalidInput where options are missing or left over."""
        of_shares = {name: getattr(self, name) for name in ("rows", "cols", "count", "p", "n", "digits")}
        return table_requests(self.released, qi, self.shares, **of_shares)
