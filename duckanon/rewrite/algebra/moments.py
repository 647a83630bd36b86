"""Dates, times and spans of time that stand in a statement: read from texts, moved, truncated, and brought into a zone.

Texts are read as DuckDB reads them: the time zone in a text does not change a date or a timestamp without time zone.
A moment with a time zone is kept as the time of the session's zone, since it is compared with times without one.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAY_TEXT = re.compile(
    r"\s*(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?"
    r"(?: ?(Z|[+-]\d{2}(?::?\d{2})?)| (UTC))?\s*",
    re.ASCII,
)
_TIME_TEXT = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_SPAN = re.compile(r"\s*([-+]?\d{1,9})\s*([a-z]+)", re.ASCII | re.IGNORECASE)
_CLOCK = re.compile(r"\s*([-+]?)(\d{1,4}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?\s*", re.ASCII)
_HOUR = 3_600_000_000
# Months, days and microseconds of each unit of an interval.
_UNITS = {
    "year": (12, 0, 0),
    "quarter": (3, 0, 0),
    "month": (1, 0, 0),
    "mon": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, _HOUR),
    "minute": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
    "millisecond": (0, 0, 1_000),
    "microsecond": (0, 0, 1),
}
_MOST_DAYS, _MOST_MICROS = 4_000_000, 10**17
_NAMES_OF_UTC = frozenset({"UTC", "UCT", "GMT", "GMT0", "Z", "ZULU", "UNIVERSAL", "GREENWICH"})
# Around a change of its clocks a zone has times twice, or not at all.
_NEAR, _LONG = timedelta(hours=3), timedelta(hours=26)


class Now(date):
    """The day on which a statement is decided about. moment: the time then, in the session's zone. zone: this zone.

    It is a date, and equal to one: what depends on the day alone needs nothing else. `current_date` is the day, and
    `now()` its first moment, so that a question stays the same all day. exact: whether `now()` is the moment itself.
    """

    moment: datetime
    zone: tzinfo | None
    exact: bool
    _read: list[bool]

    @classmethod
    def at(cls, moment: datetime, zone: tzinfo | None = None) -> Now:
        """moment: without a zone, as clocks in the session's zone show it."""
        now = cls(moment.year, moment.month, moment.day)
        now.moment, now.zone, now.exact, now._read = moment, zone, False, []
        return now

    @classmethod
    def in_zone(cls, name: str) -> Now:
        """The present moment in a zone, by DuckDB's name for it; in the machine's, if Python does not know it."""
        zone = zone_named(name)
        if zone is None:
            return cls.at(datetime.now())
        return cls.at(datetime.now(zone).replace(tzinfo=None), zone)

    def exactly(self, moment: datetime) -> Now:
        """The same, with another moment as `now()`."""
        other = Now.at(moment, self.zone)
        other.exact, other._read = True, self._read
        return other

    def read(self) -> datetime:
        """The moment itself: what is computed from it may be something else in a second."""
        self._read.append(True)
        return self.moment

    @property
    def is_read(self) -> bool:
        """Whether something was computed from more than the day."""
        return bool(self._read)


def now_of(today: date) -> datetime:
    """What `now()` is: the first moment of the day, or the moment itself where that is asked for."""
    if isinstance(today, Now) and today.exact:
        return today.moment
    return datetime(today.year, today.month, today.day)


def zone_of(today: date | None) -> tzinfo | None:
    """The session's zone; None if it is not known."""
    return today.zone if isinstance(today, Now) else None


# --- texts ------------------------------------------------------------------------------------------------------------


def _parts(text: str) -> tuple[date, str, str] | None:
    """The day, the time and the zone in a text; '' for what it does not have. Raises ValueError."""
    if text == "epoch":
        return date(1970, 1, 1), "", ""
    match = _DAY_TEXT.fullmatch(text)
    if match is None:
        return None
    return date.fromisoformat(match[1]), match[2] or "", match[3] or match[4] or ""


def read_date(text: str) -> date | None:
    """The day in a text, which may have a time and a zone. Raises ValueError."""
    parts = _parts(text)
    return None if parts is None else parts[0]


def read_timestamp(text: str) -> datetime | None:
    """The time in a text, whatever zone it has. Raises ValueError."""
    parts = _parts(text)
    return None if parts is None else datetime.combine(parts[0], time.fromisoformat(_padded(parts[1] or "00:00")))


def read_instant(text: str, zone: tzinfo | None) -> datetime | None:
    """The moment in a text, as the time of a zone; None if that is not known exactly. Raises ValueError."""
    parts, at = _parts(text), read_timestamp(text)
    if parts is None or at is None:
        return None
    own = read_offset(text)
    if own is None:
        return at if zone is not None and _is_plain(at, zone) else None
    return between_zones(at, own, zone)


def read_offset(text: str) -> tzinfo | None:
    """The offset from UTC in the text of a moment; None if it has none. Raises ValueError."""
    parts = _parts(text)
    if parts is None or not parts[2]:
        return None
    return UTC if parts[2] in ("Z", "UTC") else datetime.fromisoformat(f"2000-01-01T00:00:00{parts[2]}").tzinfo


def read_time(text: str) -> time | None:
    """Raises ValueError."""
    return time.fromisoformat(_padded(text)) if _TIME_TEXT.fullmatch(text) else None


def _padded(clock: str) -> str:
    """A time whose fraction has six digits."""
    whole, point, part = clock.partition(".")
    return f"{whole}.{part:0<6}" if point else whole


def zone_named(name: str) -> tzinfo | None:
    """A time zone by its name; None for one that is not known."""
    try:
        return UTC if name.upper().removeprefix("ETC/") in _NAMES_OF_UTC else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def between_zones(at: datetime, zone: tzinfo, other_zone: tzinfo | None) -> datetime | None:
    """A time of one zone as that of another; None near a change of clocks, where times without a zone are unclear."""
    if other_zone is None or not _is_plain(at, zone):
        return None
    moment = at.replace(tzinfo=zone).astimezone(other_zone).replace(tzinfo=None)
    return moment if _is_plain(moment, other_zone) else None


def _is_plain(at: datetime, zone: tzinfo) -> bool:
    """Whether times around this one are in the same order with the zone and without it. Raises OverflowError."""
    if zone is UTC:
        return True
    spread = [(at + by).replace(tzinfo=zone).utcoffset() for by in (-_LONG, -_NEAR, timedelta(0), _NEAR, _LONG)]
    known = [offset for offset in spread if offset is not None]
    return len(known) == len(spread) and len(set(known[1:4])) == 1 and max(known) - min(known) <= _NEAR


# --- spans of time ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Duration:
    """Months, days and microseconds, which are added in this order."""

    months: int = 0
    days: int = 0
    micros: int = 0

    def times(self, factor: int) -> Duration:
        return Duration(self.months * factor, self.days * factor, self.micros * factor)


def read_interval(text: str) -> Duration | None:
    """A span such as '1 year 2 mons', '-700 day' or '1 day 02:03:04'; None for one that is not read."""
    total, at = [0, 0, 0], 0
    while match := _SPAN.match(text, at):
        name = match[2].lower()
        per = _UNITS.get(name) or _UNITS.get(name.removesuffix("s"))
        if per is None:
            return None
        at = match.end()
        total = [old + int(match[1]) * factor for old, factor in zip(total, per, strict=True)]
    clock = _CLOCK.fullmatch(text, at)
    if clock is not None:
        whole = (int(clock[2]) * 60 + int(clock[3])) * 60 + int(clock[4] or 0)
        micros = whole * 1_000_000 + int(f"{clock[5] or '':0<6}")
        total[2] += -micros if clock[1] == "-" else micros
    is_read = clock is not None or (at > 0 and not text[at:].strip())
    return Duration(*total) if is_read else None


def moved(day: date, by: Duration, sign: int) -> datetime | None:
    """A date or a time plus or minus a span; None for spans of many thousand years. Raises ValueError."""
    if abs(by.days) > _MOST_DAYS or abs(by.micros) > _MOST_MICROS:
        return None
    at = day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)
    year, month = divmod(at.year * 12 + at.month - 1 + sign * by.months, 12)
    at = at.replace(year=year, month=month + 1, day=min(at.day, monthrange(year, month + 1)[1]))
    return at + timedelta(days=sign * by.days, microseconds=sign * by.micros)


# --- parts ------------------------------------------------------------------------------------------------------------

UNIT_NAMES = {"dayofmonth": "day", "dow": "dayofweek", "weekday": "dayofweek", "doy": "dayofyear"}
PARTS: Mapping[str, Callable[[date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar()[1],
    "day": lambda day: day.day,
    "dayofweek": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "dayofyear": lambda day: day.timetuple().tm_yday,
    "hour": lambda at: at.hour if isinstance(at, datetime) else 0,
    "minute": lambda at: at.minute if isinstance(at, datetime) else 0,
}
_FINE = {
    "hour": {"minute": 0, "second": 0, "microsecond": 0},
    "minute": {"second": 0, "microsecond": 0},
    "second": {"microsecond": 0},
}


def truncated(unit: str, day: date) -> datetime | None:
    """The first moment of a year, quarter, month, week, day, hour, minute or second; None for other units."""
    at = day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)
    if unit in _FINE:
        return at.replace(**_FINE[unit])  # type: ignore[arg-type]
    first = datetime(day.year, day.month, day.day)
    if unit == "week":
        return first - timedelta(days=first.weekday())
    if unit in ("month", "quarter", "year"):
        months = {"month": 1, "quarter": 3, "year": 12}[unit]
        return first.replace(month=(first.month - 1) // months * months + 1, day=1)
    return first if unit == "day" else None


def last_day(day: date) -> date:
    """The last day of a month."""
    return date(day.year, day.month, monthrange(day.year, day.month)[1])
