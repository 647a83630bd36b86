"""The HTML templates of this folder, and how their values are shown.

Jinja2 is used, not string.Template, because it escapes every value by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from duckanon.integrations import translations
from duckanon.integrations.plots.style import printable

_FOLDER = Path(__file__).parent


def templates() -> Environment:
    """The templates, which all have the style as `style`, and what writes texts in the context's language.

    In them `_` gives a text, and `html` one with tags of our own, whose values are escaped.
    """
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "_": translations.gettext,
        "html": lambda message: Markup(translations.gettext(message)),  # noqa: S704 - our own
        "language": translations.language(),
    }
    environment.filters |= {
        "number": translations.number,
        "exact": translations.exact,
        "day": translations.day,
    }
    environment.globals["style"] = Markup((_FOLDER / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - our own
    return environment


def _shown(value: Any) -> Any:
    """A value as a page shows it: control characters escaped, NULL as an empty text."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value
