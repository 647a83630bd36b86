"""The privacy report of the database that is explored, as `duckanon report` writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.errors import InvalidInput
from duckanon.integrations.explore.source import Source

if TYPE_CHECKING:
    from duckanon.connection import Connection


def report_page(con: Connection, source: Source) -> str:
    """The page as HTML. Raises InvalidInput without the extra `report`, or for a data file, which has no ledger."""
    if not source.is_database:
        raise InvalidInput("A report tells of a database with its ledger, and this is a data file.")
    from duckanon.integrations.report import check_installed

    check_installed()
    from duckanon.integrations.report.assessment import Wanted
    from duckanon.integrations.report.facts import gathered
    from duckanon.integrations.report.fingerprint import fingerprint
    from duckanon.integrations.report.page import page
    from duckanon.integrations.report.views import views

    return page(gathered(con, source.path, fingerprint(source.path), views(source.path), Wanted([], [], None)))
