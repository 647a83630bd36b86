"""The commands `duckanon plot ...`: pictures of results, stored ones or new ones.

None of them spends any budget: releases with noise are drawn from the table that stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duckanon.catalog.names import literal
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call, split, whole
from duckanon.integrations.cli.function_options import takes
from duckanon.integrations.cli.in_options import InOptions
from duckanon.integrations.cli.option_groups import grouped
from duckanon.integrations.cli.options import Columns, Force, In
from duckanon.integrations.data_files import free, put
from duckanon.integrations.terminal.errors import one_sentence

if TYPE_CHECKING:
    from duckanon.connection import Connection
    from duckanon.integrations.plots import Picture

plot = typer.Typer(
    no_args_is_help=True, help="Draw results as SVG or PNG: loss and risk, bounds, sizes, mechanisms, utility."
)

Out = Annotated[Path, typer.Option("--out", metavar="PICTURE", help="The picture to write: .svg or .png.")]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="A title of your own.")]


@plot.command("compare")
@takes("k_compare", required=False)
def compare(
    source_: In,
    out: Out,
    reads: InOptions,
    k: Annotated[Columns, typer.Option("--k", metavar="NUMBERS", help="Every k to try. Default: 2,5,10,20,50.")] = None,
    title: Title = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Loss and risk of k-anonymous copies against k. Without --qi, IN holds a result of k_compare."""

    def query(name: str) -> str:
        if not given["qi"]:
            return _stored(name)
        return call("k_compare", name, k=whole(k or ["2,5,10,20,50"], "--k"), **given)

    _draw(source_, reads, out, force, lambda con, name: _plotted("compare", con, query(name), title=title))


@plot.command("bounds")
@takes("conditional_bounds", required=False)
def bounds(
    source_: In,
    out: Out,
    reads: InOptions,
    count: Annotated[
        str | None, typer.Option("--count", metavar="COLUMN", help="The column of counts, if IN holds counts.")
    ] = None,
    counts: Annotated[bool, typer.Option("--counts/--no-counts", help="Show the true counts, if known.")] = True,
    small: Annotated[int, typer.Option("--small", help="Counts from 1 to SMALL - 1 have a mark of their own.")] = 5,
    title: Title = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Bounds of a table's counts, disclosed ones marked; with --p and --n those that published shares leave.

    Without --rows, IN holds a result of cell_bounds.
    """
    rows, cols = given["rows"], given["cols"]

    def query(name: str) -> str:
        if not rows:
            return _stored(name)
        if not cols:
            raise InvalidInput("--rows needs --cols: the columns that go across.")
        if given["p"] is None:
            return call("cell_bounds", name, rows, cols, count=count)
        if given["n"] is None:
            raise InvalidInput("--p needs --n: how many records the shares are of.")
        return call("conditional_bounds", name, **given)

    shown = {"cols": cols, "counts": counts, "small": small, "title": title}
    _draw(source_, reads, out, force, lambda con, name: _plotted("bounds", con, query(name), **shown))


@plot.command("sizes")
@grouped
def sizes(
    source_: In,
    out: Out,
    reads: InOptions,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="What the release cost, for the title.")] = None,
    truth: Annotated[
        str | None, typer.Option("--truth", metavar="NAME", help="Draw the true sizes of this table or file over it.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option("--unit", metavar="COLUMN", help="With --truth: the column that identifies a group.")
    ] = None,
    title: Title = None,
    force: Force = False,
) -> None:
    """Released group sizes with their intervals. IN holds what dp_group_sizes released: drawing spends nothing."""

    def work(con: Connection, name: str) -> Picture:
        query, shown = _stored(name), {"epsilon": epsilon, "title": title}
        if truth is not None:
            if unit is None:
                raise InvalidInput("--truth needs --unit: the column that identifies a group.")
            columns = [row[0] for row in con.execute(f"DESCRIBE {query}").fetchall()]
            hierarchy = [column for column in columns if column not in ("level", "size", "groups", "low", "high")]
            persons = reads.other(con, truth, "--truth", source_)
            shown["truth"] = con.sql(call("group_sizes", persons, unit, hierarchy))
        return _plotted("sizes", con, query, **shown)

    _draw(source_, reads, out, force, work)


@plot.command("mechanism")
@takes("metric_mechanism", required=False)
def mechanism(source_: In, out: Out, reads: InOptions, title: Title = None, force: Force = False, **given: Any) -> None:
    """A perturbation matrix. Without --id, IN holds a result of metric_mechanism; else one is made for its records."""

    def query(name: str) -> str:
        return _stored(name) if given["id"] is None else _made(name, given)

    _draw(source_, reads, out, force, lambda con, name: _plotted("mechanism", con, query(name), title=title))


@plot.command("map")
@takes("metric_mechanism", required=False)
def map_(
    source_: In,
    out: Out,
    reads: InOptions,
    id_: Annotated[str, typer.Option("--id", metavar="TEXT", help="The column that names records.")],
    made: Annotated[
        str | None, typer.Option("--mechanism", metavar="NAME", help="The table or file that holds the mechanism.")
    ] = None,
    secrets: Annotated[Columns, typer.Option("--secrets", metavar="NAMES", help="Up to four, as in A,B.")] = None,
    unit: Annotated[str, typer.Option("--unit", help="The unit of the features, such as km.")] = "",
    title: Title = None,
    force: Force = False,
    **given: Any,
) -> None:
    """Where a few secrets may go, on the map of the records in IN. The mechanism is made, or is that of --mechanism."""

    def work(con: Connection, name: str) -> Picture:
        if made is None:
            query = _made(name, {"id": id_, **given})
        else:
            query = _stored(reads.other(con, made, "--mechanism", source_))
        return _plotted(
            "map",
            con,
            query,
            places=con.sql(_stored(name)),
            id=id_,
            features=given["features"] or [],
            metric=given["metric"] or "euclidean",
            unit=unit,
            secrets=split(secrets) or None,
            title=title,
        )

    _draw(source_, reads, out, force, work)


@plot.command("utility")
@takes("k_utility", required=False)
def utility(
    source_: In,
    out: Out,
    reads: InOptions,
    after: Annotated[
        str | None, typer.Option("--after", metavar="AFTER", help="The release of IN: a data file, or a table of IN.")
    ] = None,
    title: Title = None,
    force: Force = False,
    **given: Any,
) -> None:
    """What a release still tells of each column. Without --after, IN holds a result of k_utility."""

    def work(con: Connection, name: str) -> Picture:
        from duckanon.integrations.cli.utility import compared

        if after is None:
            return _plotted("utility", con, _stored(name), title=title)
        if not given["columns"]:
            raise InvalidInput("Name the columns to compare, as in --columns age,zip.")
        return _plotted("utility", con, compared(con, name, source_, after, given), title=title)

    _draw(source_, reads, out, force, work)


def _stored(name: str) -> str:
    return f"FROM query_table({literal(name)})"


def _made(name: str, arguments: Mapping[str, Any]) -> str:
    if not arguments["features"] or arguments["epsilon"] is None:
        raise InvalidInput("A mechanism needs --features, as in --features x,y, and --epsilon.")
    return call("metric_mechanism", name, **arguments)


# What to do where IN does not hold a result already.
_ELSE = {
    "compare": "name its quasi-identifiers with --qi, and it is made",
    "bounds": "name its columns with --rows and --cols, and it is made",
    "sizes": "release it into a table first, with CREATE TABLE published AS FROM dp_group_sizes(...)",
    "mechanism": "name --id, --features and --epsilon, and it is made",
    "map": "leave --mechanism out and name --epsilon, and it is made",
    "utility": "name the release with --after and the columns with --columns, and it is made",
}


def _plotted(kind: str, con: Connection, query: str, **options: Any) -> Picture:
    from duckanon.integrations.plots import PICTURES
    from duckanon.integrations.plots import plot as drawn

    result, needed = con.sql(query), PICTURES[kind]
    if not needed.needs <= set(result.columns):
        raise InvalidInput(f"This is no result of {needed.of}: {_ELSE[kind]}.")
    return drawn(result, kind, con=con, **options)


def _draw(path: Path, reads: InOptions, out: Path, force: bool, work: Callable[[Connection, str], Picture]) -> None:
    """Write the picture that `work` makes, given a connection and the name of IN's data on it."""
    with one_sentence():
        from duckanon.integrations.plots.picture import form, ready
        from duckanon.integrations.terminal.output import say
        from duckanon.integrations.terminal.session import Session

        kind = form(out)
        free(out, force=force)
        ready()

        def bytes_(con: Connection) -> tuple[bytes, str]:
            picture = work(con, reads.source(con, path))
            return picture.bytes(kind), picture.says

        with Session(role="steward") as session:
            content, says = session.run(f"Drawing {path.name}", bytes_)
        put(out, content)
        say(f"Wrote {out}: {says}")
