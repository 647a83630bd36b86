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
from duckanon.integrations.cli.backup_commands import backup, restore, upgrade
from duckanon.integrations.cli.explore import explore
from duckanon.integrations.cli.function_options import takes
from duckanon.integrations.cli.in_options import InOptions
from duckanon.integrations.cli.option_groups import grouped
from duckanon.integrations.cli.options import (
    After,
    Before,
    Columns,
    Force,
    In,
    Language,
    Out,
    OutputFormat,
    Population,
)
from duckanon.integrations.cli.page_options import PageOptions
from duckanon.integrations.cli.plot_commands import plot
from duckanon.integrations.cli.policy_commands import init, policy
from duckanon.integrations.cli.prepare import prepare
from duckanon.integrations.cli.record_commands import key, verify
from duckanon.integrations.cli.record_options import RecordOptions
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
app.add_typer(policy, name="policy")
app.add_typer(key, name="key")
app.command()(init)
app.command()(serve)
app.command()(backup)
app.command()(restore)
app.command()(upgrade)
app.command()(explore)
app.command()(prepare)
app.command()(verify)


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


@app.command()
@grouped
def preview(source: In, reads: InOptions) -> None:
    """Say how each column of a file is read, and in which lines values keep it from being numbers or dates.

    No value is shown. Try --encoding, --decimal, --null and --date-format here: every
    command that reads a file takes them.
    """
    with one_sentence(as_options):
        from duckanon.integrations.cli.preview import preview as columns
        from duckanon.integrations.terminal.output import write_table

        write_table(columns(source, reads))


@app.command("k-anonymize")
@takes("k_anonymize")
def k_anonymize(
    source: In,
    out: Out,
    reads: InOptions,
    within: Annotated[
        str | None,
        typer.Option("--within", metavar="EARLIER", help="Join classes of this earlier release: a file, or a table."),
    ] = None,
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

    release(source, out, reads, given, within=within, force=force)


@app.command()
@takes("suppress")
def suppress(
    source: In,
    out: Out,
    reads: InOptions,
    cols: Annotated[
        Columns, typer.Option("--cols", metavar="NAMES", help="The same as --rows, for the table's columns.")
    ] = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Write a table of counts or sums with all totals, without cells that say too much.

    Besides the sensitive cells as many others are left out as it takes so that
    nobody can compute them from the totals. A row of OUT is a cell: row_level
    and col_level say how many of the columns it tells apart, 0 for totals.
    """
    from duckanon.integrations.cli.suppress import suppressed

    suppressed(source, out, reads, {**given, "cols": split(cols)}, force=force)


@app.command()
@takes("k_report", required=False)
def report(
    source: In,
    reads: InOptions,
    page: PageOptions,
    record: RecordOptions,
    form: OutputFormat = Format.TABLE,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE", help="Write a page (.html) about the whole database IN.")
    ] = None,
    qi: Annotated[
        Columns,
        typer.Option("--qi", metavar="NAMES", help="Quasi-identifiers, as in age,zip. May be repeated."),
    ] = None,
    population: Population = None,
    language: Language = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Say how exposed a table is as it stands; or, with --out, write a page about a database for who signs.

    The page holds policies, releases, budgets, risk of released tables, bounds of
    published shares, pictures, and what is not promised. It is one file, which opens
    without a network. Making it spends nothing and leaves the database as it is.
    """
    recorded = record.written(source, page.file or [], force=force)
    if out is None and recorded is not None and not qi:
        return
    if out is None and not qi:
        raise typer.BadParameter("name the columns, as in --qi age,zip; or a page to write with --out.")
    if out is not None:
        from duckanon.integrations.report import report as write

        if reads.table is not None:
            raise InvalidInput("A page is about the whole database: name a released table with --released.")
        own = ("fraction", "weight", "l", "null_sensitive")
        if population is not None or any(given[name] is not None for name in own):
            raise InvalidInput(
                "A page has the risk of released tables as it stands: leave --population, --fraction, --weight, --l "
                "and --null-sensitive out."
            )
        files, hidden = page.file or [], given["sensitive"]
        told = {"sensitive": hidden, "language": language or "en", "record": recorded}
        write(source, out, page.requests(qi), files=files, force=force, **told)
        return
    if page.are_given or force or language is not None:
        raise InvalidInput(
            "--released, --shares and what belongs to them, --file, --language and --force belong to a page: name it "
            "with --out."
        )
    _report(source, reads, form, population, {**given, "qi": split(qi)})


def _report(source: Path, reads: InOptions, form: Format, population: str | None, arguments: Mapping[str, Any]) -> None:
    """Print the row of k_report, and how many records equal others."""
    from duckanon.integrations.cli.risk_tables import explained
    from duckanon.integrations.equal_records import equal_records
    from duckanon.integrations.terminal.output import say

    def measured(con: Connection, found: str) -> tuple[Result, str | None, str]:
        people = population and reads.other(con, population, "--population", source)
        return *_of_units(con, "k_report", found, {**arguments, "population": people}), equal_records(con, found)

    result, unit, equal = _over(source, reads, measured, [arguments["weight"]] if arguments["weight"] else [])
    _print(result, form, lambda rows: explained(rows[0], arguments["qi"], arguments["sensitive"] or [], unit))
    if equal:
        say(equal)


@app.command()
@grouped
def approval(
    source: In,
    page: PageOptions,
    out: Annotated[Path, typer.Option("--out", metavar="PAGE", help="The page (.html) to write.")],
    qi: Annotated[Columns, typer.Option("--qi", metavar="NAMES", help="Of a table named with --released.")] = None,
    sensitive: Annotated[
        Columns, typer.Option("--sensitive", metavar="NAMES", help="Columns whose values should stay unknown.")
    ] = None,
    language: Language = None,
    force: Force = False,
) -> None:
    """Write a sheet for each release of a database, to fill in and sign: what it is, for whom, why, and the decision.

    Making it spends nothing and leaves the database as it is.
    """
    with one_sentence():
        from duckanon.integrations.report import approve

        hidden, files = None if sensitive is None else split(sensitive), page.file or []
        approve(source, out, page.requests(qi), files=files, sensitive=hidden, language=language or "en", force=force)


@app.command()
@takes("k_compare")
def compare(source: In, reads: InOptions, form: OutputFormat = Format.TABLE, **given: Any) -> None:
    """Say what k-anonymous copies would lose, for each k and method, and how little any copy could lose."""
    from duckanon.integrations.cli.risk_tables import compared

    result, unit = _over(source, reads, lambda con, found: _of_units(con, "k_compare", found, given), ordered(given))
    _print(result, form, lambda rows: compared(rows, unit))


@app.command("k-utility")
@takes("k_utility")
def k_utility(
    source: Before,
    after: After,
    reads: InOptions,
    columns: Annotated[
        Columns,
        typer.Option(
            "--columns",
            metavar="NAMES",
            help="Columns of the table. Default: those of AFTER by which no record is found, as the report has it.",
        ),
    ] = None,
    form: OutputFormat = Format.TABLE,
    **given: Any,
) -> None:
    """Say what a release still tells of the table that it was made from: means, correlations, counts, predictions.

    Name the columns of the table; the release has them as they were, or as
    age_lo and age_hi, or as zip_set. Shares and quantiles are in --format json and csv.
    """
    from duckanon.integrations.cli.risk_tables import usefulness
    from duckanon.integrations.cli.utility import utility

    _print(utility(source, after, reads, {**given, "columns": split(columns)}), form, usefulness)


@app.command("k-subsets")
@takes("k_subsets")
def k_subsets(source: In, reads: InOptions, form: OutputFormat = Format.TABLE, **given: Any) -> None:
    """Say how exposed a table is by each subset of its quasi-identifiers, the most exposed first."""
    from duckanon.integrations.cli.risk_tables import subsets

    result, unit = _over(source, reads, lambda con, found: _of_units(con, "k_subsets", found, given))
    _print(result, form, lambda rows: subsets(rows, unit))


@app.command("record-risk")
@takes("record_risk")
def record_risk(
    source: In, out: Out, reads: InOptions, population: Population = None, force: Force = False, **given: Any
) -> None:
    """Write a table with the risk of each record, and the few columns by which it is alone (SUDA).

    OUT holds the records as they are: it is as confidential as IN.
    """
    from duckanon.integrations.cli.record_risk import write

    write(source, out, reads, {**given, "population": population}, force=force)


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


def _of_units(con: Connection, function: str, table: str, arguments: Mapping[str, object]) -> tuple[Result, str | None]:
    """A function's result over a table, and the column of the units that it counted; None where it counted records."""
    from duckanon.integrations.results import fetch

    unit = arguments["unit"] if arguments["unit"] is not None else privacy_unit(con, table)
    return fetch(con.execute(call(function, table, **arguments))), str(unit) if unit else None


def _over(path: Path, reads: InOptions, work: Callable[[Connection, str], T], ordered: Sequence[str] = ()) -> T:
    """What `work` gives for a connection and the name of the file's table in it. ordered: as for `source`."""
    from duckanon.integrations.terminal.session import Session

    with Session(role="steward") as session:
        return session.run(f"Reading {path.name}", lambda con: work(con, reads.source(con, path, ordered=ordered)))


def _print(result: Result, form: Format, as_table: Callable[[Sequence[Mapping[str, Any]]], Table]) -> None:
    """Write a result to stdout; as a table in the words of `as_table`."""
    from duckanon.integrations.cli.script import show
    from duckanon.integrations.terminal.output import write_table

    if form is Format.TABLE:
        write_table(as_table(result.records()))
    else:
        show(result, form)
