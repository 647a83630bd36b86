"""The commands of `duckanon`: what they take, and what each of them prints."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duckanon import __version__
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import as_options, call, split, weights, whole
from duckanon.integrations.cli.options import C, Diversity, Kind, L, MaxSuppression, Sensitive, T, conditions
from duckanon.integrations.cli.plot_commands import plot
from duckanon.integrations.cli.tables_commands import tables
from duckanon.integrations.dbt.commands import app as dbt
from duckanon.integrations.results import Format, Result
from duckanon.integrations.terminal.errors import one_sentence

if TYPE_CHECKING:
    from duckanon.connection import Connection

app = typer.Typer(
    name="duckanon",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(dbt)
app.add_typer(plot, name="plot")
app.add_typer(tables, name="tables")

In = Annotated[Path, typer.Argument(metavar="IN", help="A data file, or a DuckDB database together with --table.")]
Qi = Annotated[
    list[str], typer.Option("--qi", metavar="COLUMNS", help="Quasi-identifiers, as in age,zip. May be repeated.")
]
TableName = Annotated[
    str | None, typer.Option("--table", metavar="NAME", help="The table, if IN is a DuckDB database (.duckdb, .db).")
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", metavar="COLUMNS", help="Quasi-identifiers to release as sets of values."),
]
Weights = Annotated[
    list[str] | None, typer.Option("--weights", metavar="WEIGHTS", help="What counts how much, as in age=2,zip=1.")
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="S", help="How long to search. Results with it may differ by run.")
]


class AuditFormat(StrEnum):
    """How an audit's report is written."""

    TABLE = "table"
    JSON = "json"
    SARIF = "sarif"


OutputFormat = Annotated[Format, typer.Option("--format", help="How to print the answer.")]


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
def k_anonymize(
    source: In,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write. Its suffix tells the format.")],
    qi: Qi,
    k: Annotated[int, typer.Option("--k", help="The least number of records that look alike.")] = 5,
    categorical: Categorical = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMNS", help="Columns to leave out, such as names.")
    ] = None,
    weights_: Weights = None,
    method: Annotated[str, typer.Option("--method", help="How classes are found; auto picks.")] = "auto",
    seconds: Seconds = None,
    sensitive: Sensitive = None,
    l: L = None,  # noqa: E741 - the option's name
    diversity: Kind = Diversity.DISTINCT,
    c: C = None,
    t: T = None,
    max_suppression: MaxSuppression = None,
    within: Annotated[
        str | None,
        typer.Option("--within", metavar="EARLIER", help="Join classes of this earlier release: a file, or a table."),
    ] = None,
    table: TableName = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write an anonymous copy of a table: every record looks like at least k - 1 others.

    A quasi-identifier age becomes age_lo and age_hi. One that is named in
    --categorical, say zip, becomes zip_set: the list of the values in the class.
    A CSV file has no lists, so there it is a JSON array such as ["a", "b"].

    Formats: .csv, .tsv, .json, .ndjson (each also with .gz) and .parquet.
    A CSV file needs a line of column names. From CSV to CSV, columns that are
    neither quasi-identifiers nor sensitive are copied as text: 007 stays 007.
    """
    with one_sentence(as_options):
        from duckanon.integrations.cli.k_anonymize import release

        columns, hidden = split(qi), split(sensitive)
        given = {
            "k": k,
            "method": method,
            "seconds": seconds,
            "weights": weights(weights_),
            "categorical": split(categorical),
            "drop": split(drop),
            **conditions(hidden, l, diversity, c, t, max_suppression, bare=within is not None),
        }
        if within is not None and (method != "auto" or seconds is not None):
            raise InvalidInput("--within joins the classes of an earlier release: leave --method and --seconds out.")
        release(source, out, table, columns, given, sensitive=hidden, within=within, force=force)


@app.command()
def suppress(
    source: In,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write. Its suffix tells the format.")],
    rows: Annotated[
        list[str],
        typer.Option("--rows", metavar="COLUMNS", help="The table's rows; a hierarchy's widest column first."),
    ],
    cols: Annotated[
        list[str] | None, typer.Option("--cols", metavar="COLUMNS", help="Its columns, the same way.")
    ] = None,
    value: Annotated[
        str | None, typer.Option("--value", metavar="COLUMN", help="The column to sum. Default: records are counted.")
    ] = None,
    digits: Annotated[int | None, typer.Option("--digits", help="How many decimals the values have.")] = None,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="RULES", help="threshold, p% or dominance, or several.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="Threshold: cells with fewer contributors. Default: 3.")] = None,
    p: Annotated[float | None, typer.Option("--p", help="p%: the percentage. Default: 10.")] = None,
    contributors: Annotated[
        int | None, typer.Option("--contributors", help="Dominance: how many are looked at together. Default: 1.")
    ] = None,
    percent: Annotated[
        float | None, typer.Option("--percent", help="Dominance: the share that is too much. Default: 75.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option("--unit", metavar="COLUMN", help="Whose each record is. Default: somebody else's each."),
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Add what only the officer may see.")] = False,
    table: TableName = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write a table of counts or sums with all totals, without cells that say too much.

    Besides the sensitive cells as many others are left out as it takes so that
    nobody can compute them from the totals. A row of OUT is a cell: row_level
    and col_level say how many of the columns it tells apart, 0 for totals.
    """
    with one_sentence(as_options):
        from duckanon.integrations.cli.suppress import suppressed

        given = {
            "value": value,
            "digits": digits,
            "rule": split(rule) or None,
            "n": n,
            "p": p,
            "contributors": contributors,
            "percent": percent,
            "unit": unit,
            "audit": audit or None,
        }
        suppressed(source, out, table, split(rows), split(cols), given, force=force)


@app.command()
def report(
    source: In,
    qi: Annotated[
        list[str] | None, typer.Option("--qi", metavar="COLUMNS", help="Quasi-identifiers, as in age,zip.")
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option("--sensitive", metavar="COLUMNS", help="Columns whose values should stay unknown."),
    ] = None,
    table: TableName = None,
    form: OutputFormat = Format.TABLE,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PAGE", help="Write a page (.html) about the whole database IN.")
    ] = None,
    released: Annotated[
        list[str] | None,
        typer.Option("--released", metavar="NAME", help="With --out: a released table; the next --qi is its own."),
    ] = None,
    shares: Annotated[
        list[str] | None,
        typer.Option("--shares", metavar="NAME", help="With --out: a table of which shares are published, by:"),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--rows", metavar="COLUMNS", help="the rows of these shares,")
    ] = None,
    cols: Annotated[
        list[str] | None, typer.Option("--cols", metavar="COLUMNS", help="the columns of these shares,")
    ] = None,
    count: Annotated[
        list[str] | None, typer.Option("--count", metavar="COLUMN", help="and the column of counts, if any.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace PAGE if it exists.")] = False,
) -> None:
    """Say how exposed a table is as it stands; or, with --out, write a page about a database for who signs.

    The page holds policies, releases, budgets, risk of released tables, bounds of
    published shares, pictures, and what is not promised. It is one file, which opens
    without a network. Making it spends nothing and leaves the database as it is.
    """
    if out is None and not qi:
        raise typer.BadParameter("name the columns, as in --qi age,zip; or a page to write with --out.")
    with one_sentence(as_options):
        if out is not None:
            from duckanon.integrations.report import report as write
            from duckanon.integrations.report.requests import asked

            if table is not None:
                raise InvalidInput("A page is about the whole database: name a released table with --released.")
            wanted = asked(released, qi, shares, rows, cols, count)
            write(source, out, wanted, sensitive=split(sensitive), force=force)
            return
        if released or shares or rows or cols or count or force:
            raise InvalidInput(
                "--released, --shares, --rows, --cols, --count and --force belong to a page: name it with --out."
            )
        from duckanon.integrations.cli.risk_tables import explained
        from duckanon.integrations.cli.script import show
        from duckanon.integrations.terminal.output import answers

        columns, hidden = split(qi), split(sensitive)
        result = _answer(source, table, "k_report", columns, sensitive=hidden)
        if form is Format.TABLE:
            answers().print(explained(result.records()[0], columns, hidden))
        else:
            show(result, form)


@app.command()
def compare(
    source: In,
    qi: Qi,
    k: Annotated[list[str] | None, typer.Option("--k", metavar="NUMBERS", help="As in 2,5,10. Default: 5.")] = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", metavar="NAMES", help="As in auto,order,greedy. Default: auto.")
    ] = None,
    categorical: Categorical = None,
    weights_: Weights = None,
    seconds: Seconds = None,
    sensitive: Sensitive = None,
    l: L = None,  # noqa: E741 - the option's name
    diversity: Kind = Diversity.DISTINCT,
    c: C = None,
    t: T = None,
    max_suppression: MaxSuppression = None,
    table: TableName = None,
    form: OutputFormat = Format.TABLE,
) -> None:
    """Say what k-anonymous copies would lose, for each k and method, and how little any copy could lose."""
    with one_sentence(as_options):
        from duckanon.integrations.cli.risk_tables import compared
        from duckanon.integrations.cli.script import show
        from duckanon.integrations.terminal.output import answers

        hidden = split(sensitive)
        given = {
            "k": whole(k or ["5"], "--k"),
            "methods": split(methods),
            "categorical": split(categorical),
            "weights": weights(weights_),
            "seconds": seconds,
            "sensitive": hidden,
            **conditions(hidden, l, diversity, c, t, max_suppression),
        }
        result = _answer(source, table, "k_compare", split(qi), **given)
        if form is Format.TABLE:
            answers().print(compared(result.records()))
        else:
            show(result, form)


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
        from duckanon.integrations.audit.findings import Verdict
        from duckanon.integrations.audit.findings import audit as audited

        read = corpus(paths, database)
        listed = audited(read, split(table))
        if form is AuditFormat.SARIF:
            from duckanon.integrations.audit.sarif import as_sarif

            as_sarif(listed, sys.stdout)
        elif form is AuditFormat.JSON:
            from duckanon.integrations.cli.audit_tables import as_json

            as_json(listed, sys.stdout)
        else:
            from duckanon.integrations.cli.audit_tables import listing
            from duckanon.integrations.terminal.output import answers

            answers().print(listing(listed, len(read.scripts)))
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


def _answer(path: Path, table: str | None, function: str, qi: list[str], **given: object) -> Result:
    """The result of one of duckanon's functions over a data file or a database's table."""
    from duckanon.integrations.data_files import source
    from duckanon.integrations.results import fetch
    from duckanon.integrations.terminal.session import Session

    def work(con: Connection) -> Result:
        return fetch(con.execute(call(function, source(con, path, table), qi, **given)))

    with Session(role="steward") as session:
        return session.run(f"Reading {path.name}", work)
