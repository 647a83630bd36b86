"""The privacy report: one page about a database, for the person who has to approve its releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.errors import InvalidInput
from duckanon.integrations.data_files import DataFile, free, put
from duckanon.integrations.report.table_requests import TableRequest
from duckanon.integrations.terminal.output import say
from duckanon.integrations.terminal.session import Session
from duckanon.integrations.translations import ENGLISH, speaking

if TYPE_CHECKING:
    from duckanon.integrations.report.facts import Facts


def report(
    path: Path,
    out: Path,
    requests: Sequence[TableRequest] = (),
    *,
    files: Sequence[Path] = (),
    sensitive: Sequence[str] | None = None,
    language: str = ENGLISH,
    force: bool,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write the page about the database at `path` to `out`. The database is opened for reading only.

    requests: tables to assess besides those that are found. files: exported files, which are identified by their
    hashes and assessed too. sensitive: columns whose values should stay unknown; None: nobody said which.
    language: `en`, or one that has a catalogue. record: the record of these files, which the page then shows.
    Raises InvalidInput, duckdb.Error, OSError or Cancelled; then there is no page.
    """
    with speaking(language):
        facts = _facts(path, out, requests, files=files, sensitive=sensitive, force=force)
        from duckanon.integrations.report.page import page

        put(out, page(facts, record).encode())
    say(f"Wrote {out}: {facts.said}")


def approve(
    path: Path,
    out: Path,
    requests: Sequence[TableRequest] = (),
    *,
    files: Sequence[Path] = (),
    sensitive: Sequence[str] | None = None,
    language: str = ENGLISH,
    force: bool,
) -> None:
    """Write the approval page, a sheet for each release, to `out`. The arguments are those of `report`."""
    with speaking(language):
        facts = _facts(path, out, requests, files=files, sensitive=sensitive, force=force)
        from duckanon.integrations.report.approval import approval, sheets

        put(out, approval(facts).encode())
        many = len(sheets(facts))
    say(f"Wrote {out}: {many:,} {'sheet' if many == 1 else 'sheets'} to fill in and sign.")


def _facts(
    path: Path,
    out: Path,
    requests: Sequence[TableRequest],
    *,
    files: Sequence[Path],
    sensitive: Sequence[str] | None,
    force: bool,
) -> Facts:
    """What a page says. The arguments are those of `report`."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"{out}: a report's name ends in .html.")
    free(out, force=force)
    if not path.exists():
        raise InvalidInput(f"There is no file {path}.")
    if path.is_dir() or DataFile.of(path).kind != "database":
        raise InvalidInput(f"{path} is no DuckDB database (.duckdb, .db): a page tells of a database with its ledger.")
    for file in files:
        if DataFile.of(file).kind == "database":
            raise InvalidInput(f"--file {file} is a database: make a page about it of its own.")
        if not file.is_file():
            raise InvalidInput(f"--file: there is no file {file}.")
    check_installed()
    from duckanon.integrations.report.assessment import Wanted
    from duckanon.integrations.report.facts import gathered
    from duckanon.integrations.report.fingerprint import fingerprint
    from duckanon.integrations.report.views import views

    wanted = Wanted(requests, files, sensitive)
    with Session(path, read_only=True, role="steward") as session:
        prints = session.run(f"Reading {path.name}", lambda _: fingerprint(path))
        read = session.run(f"Reading the views of {path.name}", lambda _: views(path))
        return session.run(f"Judging {path.name}", lambda con: gathered(con, path, prints, read, wanted))


def check_installed() -> None:
    """Raises InvalidInput where what the page is made with is missing."""
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("jinja2", "matplotlib", "markupsafe"):
            raise
        raise InvalidInput("A report needs its extra: pip install 'duckanon[report]'.") from None
    del jinja2
