"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckanon.integrations.results import Format

In = Annotated[Path, typer.Argument(metavar="IN", help="A data file, or a DuckDB database together with --table.")]
Before = Annotated[
    Path, typer.Argument(metavar="BEFORE", help="The table: a data file, or a DuckDB database together with --table.")
]
After = Annotated[
    str, typer.Argument(metavar="AFTER", help="Its release: a data file; or a table, if BEFORE is a database.")
]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="The file to write. Its suffix tells the format.")]
TableName = Annotated[
    str | None, typer.Option("--table", metavar="NAME", help="The table, if IN is a DuckDB database (.duckdb, .db).")
]
Population = Annotated[
    str | None,
    typer.Option(
        "--population",
        metavar="PEOPLE",
        help="Everybody who could be in IN: a data file with the columns of --qi; or a table, if IN is a database.",
    ),
]
Language = Annotated[
    str | None, typer.Option("--language", metavar="LANGUAGE", help="Of the page: en, or de for German. Default: en.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file to write, if it exists.")]
OutputFormat = Annotated[Format, typer.Option("--format", help="How to print the answer.")]
Columns = list[str] | None
