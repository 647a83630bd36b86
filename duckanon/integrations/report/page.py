"""The page: facts as HTML. The template engine escapes every text, and the page loads nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from duckanon.integrations.report.facts import Facts
from duckanon.integrations.report.templates import templates
from duckanon.integrations.results import figure

# The page shows the last lines of the ledger; privacy_ledger() returns all of them.
_MOST_LINES = 200
_RISK = {
    "records": "records",
    "classes": "classes",
    "k": "k",
    "singletons": "alone",
    "max_risk": "highest risk",
    "avg_risk": "average risk",
    "l": "l",
    "t": "t",
}


def page(facts: Facts, record: Mapping[str, Any] | None = None) -> str:
    """The HTML page. record: of the files that leave, if there is one."""
    environment = templates()
    environment.filters["figure"] = lambda value, name: figure(name, value)
    pictures = [
        (caption, picture.says, Markup(picture.inline(f"picture{i}-")))  # noqa: S704 - matplotlib escapes its texts
        for i, (caption, picture) in enumerate(facts.assessment.pictures, 1)
    ]
    return environment.get_template("page.html").render(
        facts=facts,
        points=facts.points,
        pictures=pictures,
        releases=_releases(facts),
        lines=list(reversed(facts.ledger))[:_MOST_LINES],
        risk=_RISK,
        record=record,
    )


def _releases(facts: Facts) -> list[tuple[str, str]]:
    """Every release that was judged, by name, with what it is in words."""
    found = facts.assessment
    copies = [
        (one.table, f"{one.figures['records']:,} records, k-anonymous by {', '.join(one.qi)}: k = {one.figures['k']}")
        for one in found.released
    ]
    shares = [(one.label, f"shares of {one.figures['n']:,} records") for one in found.shares]
    return [*copies, *shares, *((one.table, one.what) for one in found.noisy)]
