"""The commands of `duckanon`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from duckanon import __version__
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import as_options, call, ordered, privacy_unit, split
from duckanon.integrations.cli.explore import explore
from duckanon.integrations.cli.function_options import takes
from duckanon.integrations.cli.options import After, Before, Columns, Force, In, Out, OutputFormat, TableName
from duckanon.integrations.cli.plot_commands import plot
from duckanon.integrations.cli.serve_commands import serve, user
from duckanon.integrations.cli.tables_commands import tables
from duckanon.integrations.dbt.commands import app as dbt
from duckanon.integrations.results import Format, Result
from duckanon.integrations.terminal.errors import one_sentence

if TYPE_CHECKING:
    from rich.table import Table

    from duckanon.connection import Connection


class _Commands(TyperGroup):
    """All commands. Ctrl-C is told in one word wherever it comes: typer would say nothing."""

    def invoke(self, ctx: Any) -> Any:
        with one_sentence():
            return super().invoke(ctx)


T = TypeVar("T")

app = typer.Typer(
    name="duckanon",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dbt)
app.add_typer(plot, name="plot")
app.add_typer(tables, name="tables")
app.add_typer(user, name="user")
app.command()(serve)
app.command()(explore)


class AuditFormat(StrEnum):
    """How an audit's report is written."""

    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"


def _version(wanted: bool) -> None:
    if wanted:
        print(f"duckanon {__version__}")
        raise typer.Exit


@app.callback()
def duckanon(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Privacy functions inside DuckDB: anonymous copies of tables, and reports on how exposed a table is."""


@app.command()
def demo(k: Annotated[int, typer.Option("--k", help="The least number of records that look alike.")] = 5) -> None:
    """Anonymise 944 real survey records: before, after, risk, loss, and the SQL that did it."""
    with one_sentence(as_options):
        from duckanon.integrations.cli.demo import demo as show

        show(k)


@app.command()
def warm() -> None:
    """Compile all engines now, side by side, so that no first call has to: for container images and CI."""
    from duckanon.integrations.warm import groups
    from duckanon.integrations.warm import warm as compile_all

    print(f"Compiling {len(groups())} groups of engines: this takes some minutes, once on a machine.", flush=True)
    compile_all(report=lambda name: print(f"compiled: {name}", flush=True))


@app.command("k-anonymize")
@takes("k_anonymize")
def k_anonymize(
    source: In,
    out: Out,
    within: Annotated[
        str | None,
        typer.Option("--within", metavar="EARLIER", help="Join classes of this earlier release: a file, or a table."),
    ] = None,
    table: TableName = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Write an anonymous copy of a table: every record looks like at least k - 1 others.

    A quasi-identifier age becomes age_lo and age_hi. One that is named in
    --categorical, say zip, becomes zip_set: the list of the values in the class.
    A CSV file has no lists, so there it is a JSON array such as ["a", "b"].

    Formats: .csv, .tsv, .json, .ndjson (each also with .gz) and .parquet; with the
    extra office .xlsx (Excel), .sav (SPSS), .dta (Stata) and .xpt (SAS), with labels.
    A CSV file needs a line of column names. From CSV to CSV, columns that are
    neither quasi-identifiers nor sensitive are copied as text: 007 stays 007.
    """
    from duckanon.integrations.cli.k_anonymize import release

    release(source, out, table, given, within=within, force=force)


@app.command()
@takes("suppress")
def suppress(
    source: In,
    out: Out,
    cols: Annotated[
        Columns, typer.Option("--cols", metavar="NAMES", help="The same as --rows, for the table's columns.")
    ] = None,
    table: TableName = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Write a table of counts or sums with all totals, without cells that say too much.

    Besides the sensitive cells as many others are left out as it takes so that
    nobody can compute them from the totals. A row of OUT is a cell: row_level
    and col_level say how many of the columns it tells apart, 0 for totals.
    """
    from duckanon.integrations.cli.suppress import suppressed

    suppressed(source, out, table, {**given, "cols": split(cols)}, force=force)


@app.command()
@takes("k_report", required=False)
def report(
    source: In,
    table: TableName = None,
    form: OutputFormat = Format.TABLE,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE", help="Write a page (.html) about the whole database IN.")
    ] = None,
    qi: Annotated[
        Columns,
        typer.Option("--qi", metavar="NAMES", help="Quasi-identifiers, as in age,zip. May be repeated."),
    ] = None,
    released: Annotated[
        Columns,
        typer.Option("--released", metavar="NAME", help="With --out: a released table; the next --qi is its own."),
    ] = None,
    shares: Annotated[
        Columns,
        typer.Option("--shares", metavar="NAME", help="With --out: a table of which shares are published, by:"),
    ] = None,
    rows: Annotated[Columns, typer.Option("--rows", metavar="NAMES", help="the rows of these shares,")] = None,
    cols: Annotated[Columns, typer.Option("--cols", metavar="NAMES", help="the columns of these shares,")] = None,
    count: Annotated[Columns, typer.Option("--count", metavar="NAME", help="and the column of counts, if any;")] = None,
    p: Annotated[
        Columns, typer.Option("--p", metavar="NAME", help="or, if the table holds shares, their column,")
    ] = None,
    n: Annotated[list[int] | None, typer.Option("--n", help="the number of records that they are of,")] = None,
    digits: Annotated[
        list[int] | None, typer.Option("--digits", help="and to how many decimals they are rounded.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="FILE", help="With --out: an exported file, to be judged and identified."),
    ] = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Say how exposed a table is as it stands; or, with --out, write a page about a database for who signs.

    The page holds policies, releases, budgets, risk of released tables, bounds of
    published shares, pictures, and what is not promised. It is one file, which opens
    without a network. Making it spends nothing and leaves the database as it is.
    """
    if out is None and not qi:
        raise typer.BadParameter("name the columns, as in --qi age,zip; or a page to write with --out.")
    hidden = given["sensitive"] or []
    if out is not None:
        from duckanon.integrations.report import report as write
        from duckanon.integrations.report.table_requests import table_requests

        if table is not None:
            raise InvalidInput("A page is about the whole database: name a released table with --released.")
        if any(given[name] is not None for name in ("fraction", "weight", "l")):
            raise InvalidInput(
                "A page has the risk of released tables as it stands: leave --fraction, --weight and --l out."
            )
        requests = table_requests(released, qi, shares, rows=rows, cols=cols, count=count, p=p, n=n, digits=digits)
        write(source, out, requests, files=file or [], sensitive=given["sensitive"], force=force)
        return
    if any((released, shares, rows, cols, count, p, n, digits, file, force)):
        raise InvalidInput(
            "--released, --shares and what belongs to them, --file and --force belong to a page: name it with --out."
        )
    from duckanon.integrations.cli.risk_tables import explained
    from duckanon.integrations.equal_records import equal_records
    from duckanon.integrations.results import fetch
    from duckanon.integrations.terminal.output import say

    def measured(con: Connection, found: str) -> tuple[Result, str | None, str]:
        unit = given["unit"] if given["unit"] is not None else privacy_unit(con, found)
        return (
            fetch(con.execute(call("k_report", found, **{**given, "qi": split(qi)}))),
            unit,
            equal_records(con, found),
        )

    result, unit, equal = _over(source, table, measured, numbers=[given["weight"]] if given["weight"] else [])
    _print(result, form, lambda rows: explained(rows[0], split(qi), hidden, unit or None))
    if equal:
        say(equal)


@app.command()
@takes("k_compare")
def compare(source: In, table: TableName = None, form: OutputFormat = Format.TABLE, **given: Any) -> None:
    """Say what k-anonymous copies would lose, for each k and method, and how little any copy could lose."""
    from duckanon.integrations.cli.risk_tables import compared

    _print(_answer(source, table, "k_compare", given, ordered(given)), form, compared)


@app.command("k-utility")
@takes("k_utility")
def k_utility(
    source: Before,
    after: After,
    table: TableName = None,
    form: OutputFormat = Format.TABLE,
    **given: Any,
) -> None:
    """Say what a release still tells of the table that it was made from: means, correlations, counts, predictions.

    Name the columns of the table; the release has them as they were, or as
    age_lo and age_hi, or as zip_set. Shares and quantiles are in --format json and csv.
    """
    from duckanon.integrations.cli.risk_tables import usefulness
    from duckanon.integrations.cli.utility import utility

    _print(utility(source, after, table, given), form, usefulness)


@app.command("k-subsets")
@takes("k_subsets")
def k_subsets(source: In, table: TableName = None, form: OutputFormat = Format.TABLE, **given: Any) -> None:
    """Say how exposed a table is by each subset of its quasi-identifiers, the most exposed first."""
    from duckanon.integrations.cli.risk_tables import subsets

    _print(_answer(source, table, "k_subsets", given), form, subsets)


@app.command("record-risk")
@takes("record_risk")
def record_risk(source: In, out: Out, table: TableName = None, force: Force = False, **given: Any) -> None:
    """Write a table with the risk of each record, and the few columns by which it is alone (SUDA).

    OUT holds the records as they are: it is as confidential as IN.
    """
    from duckanon.integrations.cli.record_risk import write

    write(source, out, table, given, force=force)


@app.command()
def audit(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help=".sql files, folders, dbt projects or DuckDB databases.")
    ],
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAMES", help="Tables to watch. May be repeated.")
    ] = None,
    database: Annotated[
        Path | None, typer.Option("--database", metavar="DB", help="Watch the tables that are protected there.")
    ] = None,
    form: Annotated[AuditFormat, typer.Option("--format", help="How to print the report.")] = AuditFormat.TABLE,
) -> None:
    """List what SQL asks of tables with people in them, without running it. Exit code 1 if something is unsafe.

    Of the tables named in --table every row-level read, group-size query, table of
    proportions and count is listed. Without --table: group-size queries and tables
    of proportions, of any table.
    """
    with one_sentence():
        from duckanon.integrations.audit.corpus import corpus
        from duckanon.integrations.audit.findings import Verdict, unmentioned
        from duckanon.integrations.audit.findings import audit as audited
        from duckanon.integrations.terminal.output import answer, say, write_table

        read = corpus(paths, database)
        listed = audited(read, split(table))
        for name in unmentioned(read, split(table)):
            say(f"Nothing here mentions a table {name}: check the name that --table gives.")
        if form is AuditFormat.SARIF:
            from duckanon.integrations.audit.sarif import as_sarif

            with answer() as out:
                as_sarif(listed, out)
        elif form is AuditFormat.JSON:
            from duckanon.integrations.cli.audit_tables import as_json

            with answer() as out:
                as_json(listed, out)
        else:
            from duckanon.integrations.cli.audit_tables import listing

            write_table(listing(listed, len(read.scripts)))
    if any(one.verdict is Verdict.UNSAFE for one in listed):
        raise typer.Exit(1)


@app.command()
def sql(
    database: Annotated[
        Path | None, typer.Argument(metavar="[DB]", help="A DuckDB database, made if it is new. Default: in memory.")
    ] = None,
    command: Annotated[str | None, typer.Option("-c", "--command", metavar="SQL", help="Run this and exit.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Open the database for reading only.")] = False,
    role: Annotated[
        str | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="steward, or analyst: guarded by the policies. Default: analyst if a table is protected.",
        ),
    ] = None,
    form: OutputFormat = Format.TABLE,
) -> None:
    """Run SQL with duckanon's functions: from -c, from a pipe, or in a console."""
    with one_sentence():
        from duckanon.integrations.cli.script import run_script
        from duckanon.integrations.roles import ROLES, protects
        from duckanon.integrations.terminal.output import say
        from duckanon.integrations.terminal.session import Session

        if read_only and database is None:
            raise InvalidInput("--read-only needs a database: name its file.")
        with Session(database or ":memory:", read_only=read_only, role=role) as session:
            if command is None and sys.stdin.isatty():
                from duckanon.integrations.cli.console import converse

                converse(session, form)
                return
            if session.con.role == "steward" and session.run("Reading the policies", protects):
                say(f"-- {ROLES['steward']}")
            text = command if command is not None else sys.stdin.buffer.read().decode(errors="surrogateescape")
            run_script(session, text, form)


def _answer(
    path: Path, table: str | None, function: str, given: Mapping[str, object], ordered: Sequence[str] = ()
) -> Result:
    """The result of one of duckanon's functions over a data file or a database's table. ordered: as for `source`."""
    from duckanon.integrations.results import fetch

    return _over(path, table, lambda con, found: fetch(con.execute(call(function, found, **given))), ordered)


def _over(
    path: Path,
    table: str | None,
    work: Callable[[Connection, str], T],
    ordered: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> T:
    """What `work` gives for a connection and the name of the file's table in it. ordered, numbers: as for `source`."""
    from duckanon.integrations.data_files import source
    from duckanon.integrations.terminal.session import Session

    with Session(role="steward") as session:
        return session.run(
            f"Reading {path.name}",
            lambda con: work(con, source(con, path, table, ordered=ordered, numbers=numbers)),
        )


def _print(result: Result, form: Format, as_table: Callable[[Sequence[Mapping[str, Any]]], Table]) -> None:
    """Write a result to stdout; as a table in the words of `as_table`."""
    from duckanon.integrations.cli.script import show
    from duckanon.integrations.terminal.output import write_table

    if form is Format.TABLE:
        write_table(as_table(result.records()))
    else:
        show(result, form)
