"""The commands `duckanon plot ...`: pictures of what duckanon's functions give, or gave.

None of them spends any budget: what has noise is drawn from where it was released to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckanon.errors import InvalidInput
from duckanon.functions.sqltext import literal
from duckanon.integrations.calls import call, split, weights, whole
from duckanon.integrations.data_files import DataFile, free, put, source
from duckanon.integrations.terminal.errors import one_sentence

if TYPE_CHECKING:
    from duckanon.connection import Connection
    from duckanon.integrations.plots import Picture

plot = typer.Typer(no_args_is_help=True, help="Draw results as SVG or PNG: loss and risk, bounds, sizes, mechanisms.")

In = Annotated[Path, typer.Argument(metavar="IN", help="A data file, or a DuckDB database together with --table.")]
Out = Annotated[Path, typer.Option("--out", metavar="PICTURE", help="The picture to write: .svg or .png.")]
TableName = Annotated[
    str | None, typer.Option("--table", metavar="NAME", help="The table, if IN is a DuckDB database (.duckdb, .db).")
]
Force = Annotated[bool, typer.Option("--force", help="Replace PICTURE if it exists.")]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="A title of your own.")]
Columns = list[str] | None
Features = Annotated[
    Columns, typer.Option("--features", metavar="COLUMNS", help="Where records are, as in x,y or latitude,longitude.")
]
Metric = Annotated[str, typer.Option("--metric", help="euclidean, manhattan, haversine (km) or cosine.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="Make the mechanism at this epsilon.")]
Radius = Annotated[float | None, typer.Option("--radius", help="Records further apart need not look alike.")]


@plot.command("compare")
def compare(
    source_: In,
    out: Out,
    qi: Annotated[Columns, typer.Option("--qi", metavar="COLUMNS", help="Quasi-identifiers, as in age,zip.")] = None,
    k: Annotated[Columns, typer.Option("--k", metavar="NUMBERS", help="As in 2,5,10.")] = None,
    methods: Annotated[Columns, typer.Option("--methods", metavar="NAMES", help="As in auto,order.")] = None,
    categorical: Annotated[Columns, typer.Option("--categorical", metavar="COLUMNS", help="Sets of values.")] = None,
    weights_: Annotated[Columns, typer.Option("--weights", metavar="WEIGHTS", help="As in age=2,zip=1.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", help="How long to search.")] = None,
    table: TableName = None,
    title: Title = None,
    force: Force = False,
) -> None:
    """Loss and risk of k-anonymous copies against k. Without --qi, IN holds a result of k_compare."""

    def query(name: str) -> str:
        if not qi:
            return _stored(name)
        given = {
            "k": whole(k or ["2,5,10,20,50"], "--k"),
            "methods": split(methods),
            "categorical": split(categorical),
            "weights": weights(weights_),
            "seconds": seconds,
        }
        return call("k_compare", name, split(qi), **given)

    _draw(source_, table, out, force, lambda con, name: _plotted("compare", con, query(name), title=title))


@plot.command("bounds")
def bounds(
    source_: In,
    out: Out,
    rows: Annotated[Columns, typer.Option("--rows", metavar="COLUMNS", help="The columns that go down.")] = None,
    cols: Annotated[Columns, typer.Option("--cols", metavar="COLUMNS", help="The columns that go across.")] = None,
    count: Annotated[
        str | None, typer.Option("--count", metavar="COLUMN", help="The column of counts, if any.")
    ] = None,
    p: Annotated[str | None, typer.Option("--p", metavar="COLUMN", help="The column of published shares.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="With --p: how many records were published.")] = None,
    digits: Annotated[int | None, typer.Option("--digits", help="With --p: decimals of rounded shares.")] = None,
    counts: Annotated[bool, typer.Option("--counts/--no-counts", help="Show the true counts, if known.")] = True,
    table: TableName = None,
    title: Title = None,
    force: Force = False,
) -> None:
    """Bounds of a table's counts, disclosed ones marked. Without --rows, IN holds a result of cell_bounds."""

    def query(name: str) -> str:
        if not rows:
            return _stored(name)
        if not cols:
            raise InvalidInput("--rows needs --cols: the columns that go across.")
        if p is None:
            return call("cell_bounds", name, split(rows), split(cols), count=count)
        if n is None:
            raise InvalidInput("--p needs --n: how many records the shares are of.")
        return call("conditional_bounds", name, split(rows), split(cols), p, n, digits=digits)

    options = {"cols": split(cols) or None, "counts": counts, "title": title}
    _draw(source_, table, out, force, lambda con, name: _plotted("bounds", con, query(name), **options))


@plot.command("sizes")
def sizes(
    source_: In,
    out: Out,
    table: TableName = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="What the release cost, for the title.")] = None,
    truth: Annotated[
        str | None, typer.Option("--truth", metavar="NAME", help="Draw the true sizes of this table or file over it.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", metavar="COLUMN", help="With --truth: what tells groups.")
    ] = None,
    title: Title = None,
    force: Force = False,
) -> None:
    """Released group sizes with their intervals. IN holds what dp_group_sizes released: drawing spends nothing."""

    def work(con: Connection, name: str) -> Picture:
        query, options = _stored(name), {"epsilon": epsilon, "title": title}
        if truth is not None:
            if unit is None:
                raise InvalidInput("--truth needs --unit: the column that tells groups apart.")
            columns = [one[0] for one in con.execute(f"DESCRIBE {query}").fetchall()]
            hierarchy = [one for one in columns if one not in ("level", "size", "groups", "low", "high")]
            persons = truth if DataFile.of(source_).kind == "database" else source(con, Path(truth), None)
            options["truth"] = con.sql(call("group_sizes", persons, unit, hierarchy))
        return _plotted("sizes", con, query, **options)

    _draw(source_, table, out, force, work)


@plot.command("mechanism")
def mechanism(
    source_: In,
    out: Out,
    id_: Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="What names records.")] = None,
    features: Features = None,
    epsilon: Epsilon = None,
    radius: Radius = None,
    metric: Metric = "euclidean",
    table: TableName = None,
    title: Title = None,
    force: Force = False,
) -> None:
    """A perturbation matrix. Without --id, IN holds a result of metric_mechanism; else one is made for its records."""

    def query(name: str) -> str:
        return _stored(name) if id_ is None else _made(name, id_, features, epsilon, radius, metric)

    _draw(source_, table, out, force, lambda con, name: _plotted("mechanism", con, query(name), title=title))


@plot.command("map")
def map_(
    source_: In,
    out: Out,
    id_: Annotated[str, typer.Option("--id", metavar="COLUMN", help="What names records.")],
    features: Features = None,
    epsilon: Epsilon = None,
    radius: Radius = None,
    metric: Metric = "euclidean",
    made: Annotated[
        str | None, typer.Option("--mechanism", metavar="NAME", help="The table or file that holds the mechanism.")
    ] = None,
    secrets: Annotated[Columns, typer.Option("--secrets", metavar="NAMES", help="Up to four, as in A,B.")] = None,
    unit: Annotated[str, typer.Option("--unit", help="The unit of the features, such as km.")] = "",
    table: TableName = None,
    title: Title = None,
    force: Force = False,
) -> None:
    """Where a few secrets may go, on the map of the records in IN. The mechanism is made, or is that of --mechanism."""

    def work(con: Connection, name: str) -> Picture:
        if made is None:
            query = _made(name, id_, features, epsilon, radius, metric)
        else:
            query = _stored(made if DataFile.of(source_).kind == "database" else source(con, Path(made), None))
        return _plotted(
            "map",
            con,
            query,
            places=con.sql(_stored(name)),
            id=id_,
            features=split(features),
            metric=metric,
            unit=unit,
            secrets=split(secrets) or None,
            title=title,
        )

    _draw(source_, table, out, force, work)


def _stored(name: str) -> str:
    return f"FROM query_table({literal(name)})"


def _made(name: str, id_: str, features: Columns, epsilon: float | None, radius: float | None, metric: str) -> str:
    if not features or epsilon is None:
        raise InvalidInput("A mechanism needs --features, as in --features x,y, and --epsilon.")
    return call("metric_mechanism", name, id_, split(features), epsilon=epsilon, radius=radius, metric=metric)


# What to do where IN does not hold a result already.
_ELSE = {
    "compare": "name its quasi-identifiers with --qi, and it is made",
    "bounds": "name its columns with --rows and --cols, and it is made",
    "sizes": "release it into a table first, with CREATE TABLE published AS FROM dp_group_sizes(...)",
    "mechanism": "name --id, --features and --epsilon, and it is made",
    "map": "leave --mechanism out and name --epsilon, and it is made",
}


def _plotted(kind: str, con: Connection, query: str, **options: Any) -> Picture:
    from duckanon.integrations.plots import PICTURES
    from duckanon.integrations.plots import plot as drawn

    result, needed = con.sql(query), PICTURES[kind]
    if not needed.needs <= set(result.columns):
        raise InvalidInput(f"This is no result of {needed.of}: {_ELSE[kind]}.")
    return drawn(result, kind, con=con, **options)


def _draw(path: Path, table: str | None, out: Path, force: bool, work: Callable[[Connection, str], Picture]) -> None:
    """Write the picture that `work` makes, given a connection and the name of IN's data on it."""
    with one_sentence():
        from duckanon.integrations.plots.picture import form, ready
        from duckanon.integrations.terminal.output import say
        from duckanon.integrations.terminal.session import Session

        kind = form(out)
        free(out, force=force)
        ready()

        def bytes_(con: Connection) -> tuple[bytes, str]:
            picture = work(con, source(con, path, table))
            return picture.bytes(kind), picture.says

        with Session(role="steward") as session:
            content, says = session.run(f"Drawing {path.name}", bytes_)
        put(out, content)
        say(f"Wrote {out}: {says}")
