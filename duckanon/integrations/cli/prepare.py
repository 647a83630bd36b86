"""`duckanon prepare`: plans the tables of a dashboard from its queries, where they stand, and with --buy buys them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon.catalog.names import TableName
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import as_options, call
from duckanon.integrations.cli.options import OutputFormat
from duckanon.integrations.results import Format, Result
from duckanon.integrations.terminal.errors import one_sentence

if TYPE_CHECKING:
    from duckanon.connection import Connection


def prepare(
    database: Annotated[Path, typer.Argument(metavar="DB", help="The DuckDB database.", exists=True)],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The protected table.")],
    file: Annotated[
        str | None, typer.Option("--file", metavar="SQL", help="A file of queries, or a pattern of files;")
    ] = None,
    exposure: Annotated[
        str | None, typer.Option("--exposure", metavar="NAME", help="or a dbt exposure, whose models are the queries,")
    ] = None,
    project: Annotated[
        Path, typer.Option("--project", metavar="FOLDER", help="of this dbt project, which dbt has compiled.")
    ] = Path(),
    epsilon: Annotated[str | None, typer.Option("--epsilon", metavar="E", help="The most that it may cost;")] = None,
    within: Annotated[
        float | None, typer.Option("--within", metavar="N", help="or how far numbers of records may be off.")
    ] = None,
    buy: Annotated[bool, typer.Option("--buy", help="Buy what the plan shows.")] = False,
    form: OutputFormat = Format.TABLE,
) -> None:
    """Plan the tables from which a dashboard's queries follow, and with --buy, buy them.

    Without --buy nothing is read or charged. Queries that do not read TABLE are left
    out. Afterwards the dashboard's questions are free, and their numbers agree.
    """
    with one_sentence(as_options):
        from duckanon.integrations.cli.script import show
        from duckanon.integrations.results import fetch
        from duckanon.integrations.terminal.session import Session

        if (file is None) == (exposure is None):
            raise InvalidInput("Say where the queries stand: in a file, with --file, or in dbt, with --exposure.")

        def work(con: Connection) -> Result:
            asked = [] if exposure is None else _of_exposure(con, project, exposure)
            terms = {"file": file, "epsilon": epsilon, "within": within, "buy": buy or None}
            return fetch(con.execute(call("prepare", table, queries=asked, **terms)))

        with Session(str(database), role="steward") as session:
            show(session.run("Preparing" if buy else "Planning", work), form)


def _of_exposure(con: Connection, project: Path, exposure: str) -> list[str]:
    from duckanon.integrations.dbt.exposures import queries

    rows = con.execute("SELECT tbl FROM policies() WHERE database = current_database()").fetchall()
    return queries(project, exposure, {TableName.of(name) for (name,) in rows})
