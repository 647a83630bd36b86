"""`duckanon tables`: what follows from the published tables of a protected table together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon.integrations.calls import as_options, call, split
from duckanon.integrations.cli.options import Columns, OutputFormat
from duckanon.integrations.results import Format, Result
from duckanon.integrations.terminal.errors import one_sentence

if TYPE_CHECKING:
    from duckanon.connection import Connection

tables = typer.Typer(no_args_is_help=True, help="What follows from all published tables of a protected table.")


@tables.callback()
def _tables() -> None:
    """What follows from all published tables of a protected table."""


@tables.command()
def audit(
    database: Annotated[Path, typer.Argument(metavar="DB", help="The DuckDB database.", exists=True)],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The protected table.")],
    variables: Annotated[
        Columns, typer.Option("--vars", metavar="NAMES", help="Audit a table of counts by these, too;")
    ] = None,
    given: Annotated[Columns, typer.Option("--given", metavar="NAMES", help="or of shares within these;")] = None,
    digits: Annotated[int | None, typer.Option("--digits", metavar="D", help="rounded to so many decimals.")] = None,
    form: OutputFormat = Format.TABLE,
) -> None:
    """Say which cells of few people follow from all publications of a table, and from a candidate with them.

    Ends with 1 if a cell is not proven open. Nothing is changed.
    """
    with one_sentence(as_options):
        from duckanon.integrations.cli.script import show
        from duckanon.integrations.results import fetch
        from duckanon.integrations.terminal.session import Session

        candidate = {"vars": split(variables), "given": split(given)} if variables else {}
        asked = {} if digits is None else {"digits": digits}

        def work(con: Connection) -> Result:
            more = {"candidate": {**candidate, **asked}} if candidate or asked else {}
            return fetch(con.execute(call("release_audit", table, **more)))

        with Session(str(database), role="steward") as session:
            result = session.run("Auditing the publications", work)
        show(result, form)
        if not all(row["safe"] for row in result.records()):
            raise typer.Exit(1)
