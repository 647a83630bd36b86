"""PostgreSQL's patterns of dates and times, as in to_date('2024-03-31', 'YYYY-MM-DD'): read, and written as DuckDB's.

Source: PostgreSQL 15 documentation, section 9.8. The patterns are those that programs use; a format with any other
letter is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta


class NotOfFormat(ValueError):
    """A format with other patterns, or a text that is not one of its format."""


# The patterns, those first that begin with others: what they read, as a part of a regular expression, and what writes
# the same in DuckDB's strftime ('' for none).
_PATTERNS = {
    "YYYY": (r"(?P<year>\d{4})", "%Y"),
    "MM": (r"(?P<month>\d{1,2})", "%m"),
    "DD": (r"(?P<day>\d{1,2})", "%d"),
    "HH24": (r"(?P<hour>\d{1,2})", "%H"),
    "HH12": (r"(?P<half>\d{1,2})", "%I"),
    "HH": (r"(?P<half>\d{1,2})", "%I"),
    "MI": (r"(?P<minute>\d{1,2})", "%M"),
    "SS": (r"(?P<second>\d{1,2})", "%S"),
    "MS": (r"(?P<fraction>\d{1,3})", "%g"),
    "US": (r"(?P<fraction>\d{1,6})", "%f"),
    "AM": (r"(?P<noon>[AaPp][Mm])", "%p"),
    "PM": (r"(?P<noon>[AaPp][Mm])", "%p"),
}
_TOKEN = re.compile(rf'({"|".join(_PATTERNS)})|"([^"]*)"|(.)', re.IGNORECASE | re.DOTALL)
PATTERNS = "YYYY, MM, DD, HH24, HH12, MI, SS, MS, US and AM"


def _tokens(form: str) -> Iterator[tuple[str, str]]:
    """The patterns of a format in upper case, each with its own text, and what stands between. Raises NotOfFormat."""
    for match in _TOKEN.finditer(form):
        if match[1]:
            yield match[1].upper(), match[1]
        elif match[3] and match[3].isalpha():
            raise NotOfFormat
        else:
            yield "", match[2] or match[3] or ""


def read(text: str, form: str) -> datetime:
    """The time that a text says by a format. Raises NotOfFormat for another format, or a text that is not one of it."""
    match = re.fullmatch(_expression(list(_tokens(form))), text.strip(), re.ASCII)
    fields = {} if match is None else {name: value for name, value in match.groupdict().items() if value is not None}
    if "year" not in fields:
        raise NotOfFormat
    year, month, day = (int(fields.get(name, "1")) for name in ("year", "month", "day"))
    try:
        at = datetime(year, month, day, _hour(fields), int(fields.get("minute", 0)), int(fields.get("second", 0)))
        return at + timedelta(microseconds=int(f"{fields.get('fraction', ''):0<6}"))
    except (ValueError, OverflowError):
        raise NotOfFormat from None


def _expression(tokens: list[tuple[str, str]]) -> str:
    """The regular expression of a format. Numbers that follow each other directly have all their digits."""
    patterns = [pattern for pattern, _ in tokens if pattern]
    groups = re.findall(r"<(\w+)>", "".join(_PATTERNS[pattern][0] for pattern in patterns))
    if len(set(groups)) < len(groups):
        raise NotOfFormat
    parts: list[str] = []
    for at, (pattern, between) in enumerate(tokens):
        is_joined = (at + 1 < len(tokens) and tokens[at + 1][0]) or (at > 0 and tokens[at - 1][0])
        plain = _PATTERNS[pattern][0] if pattern else re.escape(between)
        parts.append(re.sub(r"\{1,(\d)\}", r"{\1}", plain) if is_joined else plain)
    return "".join(parts)


def _hour(fields: dict[str, str]) -> int:
    if "half" not in fields:
        return int(fields.get("hour", 0))
    half = int(fields["half"])
    if not 1 <= half <= 12 or "hour" in fields:
        raise NotOfFormat
    return half % 12 + (12 if fields.get("noon", "am").lower() == "pm" else 0)


def as_strftime(form: str) -> str:
    """The format for DuckDB's strftime. Raises NotOfFormat."""
    tokens = list(_tokens(form))
    if not any(pattern for pattern, _ in tokens):
        raise NotOfFormat
    if any(pattern in ("AM", "PM") and token != pattern for pattern, token in tokens):
        # PostgreSQL writes am for it, and DuckDB AM.
        raise NotOfFormat
    return "".join(_PATTERNS[pattern][1] if pattern else token.replace("%", "%%") for pattern, token in tokens)
