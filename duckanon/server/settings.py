"""What a session may SET and SHOW: an allow-list. Most settings accept only one value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from duckanon.server.errors import PgError
from duckanon.server.scram import ITERATIONS

_TIME = re.compile(r"(\d{1,9})\s*(us|ms|s|min|h|d)?", re.ASCII)
# The names of UTC, and an offset of nothing from it.
_UTC = re.compile(
    r"(?:etc/)?(?:utc|uct|gmt|universal|zulu|greenwich)|z|default|(?:utc|gmt)?[+-]?0{1,2}(?::?00){0,2}", re.IGNORECASE
)
_UNITS = {"us": 0.001, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")
VERSION = "15.0"


@dataclass(frozen=True)
class Setting:
    """A setting. name: as it is shown. accepts: converts a new value to the stored one; raises ValueError with a hint.

    reported: whether the client is told of a new value.
    """

    name: str
    default: str
    accepts: Callable[[str], str]
    reported: bool = False


def _one_of(*values: str) -> Callable[[str], str]:
    def accepts(text: str) -> str:
        for value in values:
            if text.lower() == value.lower():
                return value
        raise ValueError(", ".join(values))

    return accepts


def _fixed(_: str) -> str:
    raise ValueError


def _encoding(text: str) -> str:
    if re.sub(r"[^a-z0-9]", "", text.lower()) in ("utf8", "unicode"):
        return "UTF8"
    raise ValueError("UTF8")


def _date_style(text: str) -> str:
    if text.partition(",")[0].strip().lower() != "iso":
        raise ValueError("ISO")
    return "ISO, MDY"


def _zone(text: str) -> str:
    if _UTC.fullmatch(text.strip()):
        return "UTC"
    raise ValueError("UTC")


def _milliseconds(text: str) -> str:
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("a time such as 5s")
    return str(round(int(match[1]) * _UNITS[match[2] or "ms"]))


def _digits(text: str) -> str:
    if not re.fullmatch(r"-?\d{1,2}", text) or not -15 <= int(text) <= 3:
        raise ValueError("-15 to 3")
    return text


def _search_path(text: str) -> str:
    names = [part.strip().strip('"') for part in text.split(",")]
    if not set(names) <= {"", "main", "public", "$user", "pg_catalog", "information_schema"}:
        raise ValueError("main")
    return text


def _name(given: str) -> str:
    """Printable ASCII, as PostgreSQL keeps it."""
    return "".join(text if " " <= text <= "~" else "?" for text in given)[:63]


def _on_off(text: str) -> str:
    if text.lower() in ("on", "true", "yes", "1"):
        return "on"
    if text.lower() in ("off", "false", "no", "0"):
        return "off"
    raise ValueError("on, off")


_ON_OFF = _one_of("on", "off")
_ISOLATION = _one_of("read committed", "read uncommitted", "repeatable read", "serializable")
_LISTED = (
    Setting("application_name", "", _name, reported=True),
    Setting("bytea_output", "hex", _one_of("hex")),
    Setting("client_encoding", "UTF8", _encoding, reported=True),
    Setting("client_min_messages", "notice", _one_of(*_LEVELS)),
    Setting("DateStyle", "ISO, MDY", _date_style, reported=True),
    Setting("duckanon.intervals", "off", _on_off),
    Setting("default_transaction_isolation", "read committed", _ISOLATION),
    Setting("default_transaction_read_only", "off", _ON_OFF, reported=True),
    Setting("extra_float_digits", "1", _digits),
    Setting("idle_in_transaction_session_timeout", "0", _one_of("0")),
    Setting("in_hot_standby", "off", _fixed, reported=True),
    Setting("integer_datetimes", "on", _fixed, reported=True),
    Setting("IntervalStyle", "postgres", _one_of("postgres"), reported=True),
    Setting("is_superuser", "off", _fixed, reported=True),
    Setting("jit", "off", _one_of("off")),
    Setting("lc_collate", "C", _fixed),
    Setting("lc_ctype", "C", _fixed),
    Setting("lock_timeout", "0", _one_of("0")),
    Setting("max_identifier_length", "63", _fixed),
    Setting("password_encryption", "scram-sha-256", _one_of("scram-sha-256")),
    Setting("row_security", "on", _one_of("on", "off")),
    # Programs make verifiers with so many rounds: psql's `\password`, where its libpq is of PostgreSQL 16 or newer.
    Setting("scram_iterations", str(ITERATIONS), _one_of(str(ITERATIONS)), reported=True),
    Setting("search_path", "main", _search_path),
    Setting("server_encoding", "UTF8", _fixed, reported=True),
    Setting("server_version", VERSION, _fixed, reported=True),
    Setting("server_version_num", "150000", _fixed),
    Setting("session_authorization", "", _fixed, reported=True),
    Setting("standard_conforming_strings", "on", _one_of("on"), reported=True),
    Setting("statement_timeout", "0", _milliseconds),
    Setting("TimeZone", "UTC", _zone, reported=True),
    Setting("transaction_isolation", "read committed", _ISOLATION),
    Setting("transaction_read_only", "off", _ON_OFF),
)
_KNOWN = {setting.name.lower(): setting for setting in _LISTED}
# What to write in place of another value.
_INSTEAD = {
    "TimeZone": ": write x AT TIME ZONE 'Europe/Berlin' for another zone",
    "search_path": ": write the schema before a table's name",
}
# Parameters of the startup message that are no settings.
_ALSO = {"user", "database", "options", "replication"}
# A setting in the startup parameter `options`, which libpq takes from PGOPTIONS too.
_OPTION = re.compile(r"(?:^|\s)(?:-c\s*|--)([\w.]+)=(\S*)", re.ASCII)


class Settings:
    """The settings of one session. own: values that hold from the start."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._start = {setting.name: own.get(setting.name, setting.default) for setting in _LISTED}
        self._values = dict(self._start)

    def begin(self, given: Mapping[str, str]) -> None:
        """Set what a client requests at the start. A value that is not supported leaves the setting as it is."""
        options = dict(_OPTION.findall(given.get("options", "")))
        for name, value in {**options, **given}.items():
            setting = _KNOWN.get(name.lower())
            if setting is not None and name.lower() not in _ALSO:
                try:
                    self._start[setting.name] = setting.accepts(value)
                except ValueError:
                    continue
        self._values = dict(self._start)

    def get(self, name: str) -> str | None:
        """The value; None for a setting that does not exist."""
        setting = _KNOWN.get(name.lower())
        return None if setting is None else self._values[setting.name]

    def set(self, name: str, value: str | None) -> tuple[str, str] | None:
        """Set a value; None sets it as it was at the start. Returns name and value if the client is to be told.

        Raises PgError for a setting or a value that is not in the list.
        """
        setting = _KNOWN.get(name.lower())
        if setting is None:
            raise PgError("42704", f"There is no setting {name[:60]} here: SHOW ALL lists those that there are.")
        try:
            new = self._start[setting.name] if value is None else setting.accepts(value)
        except ValueError as allowed:
            if str(allowed):
                said = f"{setting.name} may be set to {allowed} here, and to nothing else"
                raise PgError("22023", f"{said}{_INSTEAD.get(setting.name, '')}.") from None
            raise PgError("55P02", f"{setting.name} cannot be changed.") from None
        self._values[setting.name] = new
        return (setting.name, new) if setting.reported else None

    def reset(self) -> list[tuple[str, str]]:
        """Set all as at the start. Returns what the client is to be told."""
        self._values = dict(self._start)
        return self.reported()

    def reported(self) -> list[tuple[str, str]]:
        """The settings of which the client is told."""
        return [(setting.name, self._values[setting.name]) for setting in _LISTED if setting.reported]

    def all(self) -> list[tuple[str, str]]:
        return [(setting.name, self._values[setting.name]) for setting in _LISTED]

    @property
    def has_intervals(self) -> bool:
        """Whether the ends of intervals are shown beside noisy numbers."""
        return self._values["duckanon.intervals"] == "on"

    @property
    def statement_seconds(self) -> float | None:
        """The session's own limit for a statement; None if it has none."""
        return int(self._values["statement_timeout"]) / 1000 or None
