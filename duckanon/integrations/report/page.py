"""The page itself: facts into HTML. Every text is escaped by the template engine; nothing is fetched when it opens.

Jinja2 rather than string.Template, since it escapes what nobody thought of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from duckanon.integrations.plots.style import printable
from duckanon.integrations.report.facts import Facts
from duckanon.integrations.results import figure

# Ledgers grow without end; who wants all of it asks privacy_ledger().
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


def page(facts: Facts) -> str:
    """The HTML page."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = lambda value, name: figure(name, value)
    pictures = [
        (caption, picture.says, Markup(picture.inline(f"picture{i}-")))  # noqa: S704 - matplotlib escapes its texts
        for i, (caption, picture) in enumerate(facts.judged.pictures, 1)
    ]
    return environment.get_template("page.html").render(
        facts=facts,
        points=facts.points,
        pictures=pictures,
        lines=list(reversed(facts.ledger))[:_MOST_LINES],
        style=Markup((Path(__file__).parent / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        risk=_RISK,
    )


def _finalize(value: Any) -> Any:
    """What the page shows of a value: names with control characters written out, nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value
