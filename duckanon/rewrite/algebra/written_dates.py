"""Formats of strftime: which parts of a date they write, and so which dates they tell apart."""

from __future__ import annotations

import re

_DIRECTIVES = re.compile("%.")
# What a format says of a date, and the unit of time that it tells apart with all those before.
_WRITTEN = {"%Y": "year", "%m": "month", "%d": "day", "%H": "hour", "%M": "minute", "%S": "second"}


def directives(form: str) -> set[str]:
    """The parts of a date that a format writes."""
    return set(_DIRECTIVES.findall(form)) - {"%%"}


def unit_written(form: str) -> str | None:
    """The unit of time of which a format has one text each, different from all others; None for other formats."""
    used = directives(form)
    return next((unit for at, unit in enumerate(_WRITTEN.values(), 1) if used == set([*_WRITTEN][:at])), None)
