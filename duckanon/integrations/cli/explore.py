"""`duckanon explore`: the choices before a release, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duckanon.errors import InvalidInput
from duckanon.integrations.cli.in_options import ReadOptions
from duckanon.integrations.cli.option_groups import grouped
from duckanon.integrations.terminal.errors import one_sentence
from duckanon.integrations.terminal.output import inform

_EXTRA = ("anyio", "h11", "starlette", "uvicorn")


@grouped
def explore(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A DuckDB database, or a data file.")],
    reads: ReadOptions,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, or only print its address.")
    ] = True,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.01, max=1440, help="End after so many minutes without use.")
    ] = 30,
    session: Annotated[
        Path | None, typer.Option("--session", help="Keep a session in this file, not beside PATH.")
    ] = None,
) -> None:
    """See in a browser what a release would lose and give away, then make it.

    The page is for this machine only, and its address works once. PATH is open for
    reading only until you confirm a release. A release of a data file is a new file
    beside it. Ctrl-C ends it.
    """
    with one_sentence():
        try:
            from duckanon.integrations.explore.service import Service, open_browser
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] not in _EXTRA:
                raise
            raise InvalidInput("The page needs its extra: pip install 'duckanon[explore]'.") from None

        def started(address: str) -> None:
            inform(f"Exploring {path} at {address}")
            print("The address works once, on this machine only. Ctrl-C ends it.", flush=True)
            if browser:
                open_browser(address)

        try:
            if Service(path, idle=60 * minutes, reading=reads.reading, session=session).run(started):
                print(f"Nobody has used the page for {minutes:g} minutes: ended.", flush=True)
        except KeyboardInterrupt:
            print("Ended.", flush=True)
