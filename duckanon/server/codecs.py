"""Values on the wire: from the values of DuckDB's Python client to PostgreSQL's text and binary forms, and back.

Source: PostgreSQL 15, src/backend/utils/adt. Dates, timestamps and intervals are DuckDB's texts, as
`duckanon.rewrite.column_texts` has them, or Python's values; the time 24:00 is a text.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias
from uuid import UUID

import duckdb

from duckanon.rewrite.algebra import moments
from duckanon.server import types
from duckanon.server.errors import PgError
from duckanon.server.types import PgType

Encoder: TypeAlias = Callable[[Any], bytes]
Decoder: TypeAlias = Callable[[Any], Any]

_EPOCH, _EPOCH_UTC = datetime(2000, 1, 1), datetime(2000, 1, 1, tzinfo=UTC)
_DAY_ZERO = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_NULL = struct.pack("!i", -1)
_INT2, _INT4, _INT8 = struct.Struct("!h"), struct.Struct("!i"), struct.Struct("!q")
_FLOAT4, _FLOAT8 = struct.Struct("!f"), struct.Struct("!d")
_FAR = re.compile(r"(\d+)-(\d\d)-(\d\d)( \(BC\))?(?: (.*))?")


def encoder(kind: PgType, *, binary: bool) -> Encoder:
    """A function that writes the values of a type, other than NULL."""
    if kind.element is not None:
        return _array_encoder(kind.element, binary=binary)
    return (_BINARY if binary else _TEXT).get(kind.oid, _text)


def data_rows(rows: Sequence[Sequence[Any]], encoders: Sequence[Encoder]) -> list[bytes]:
    """Rows as frames."""
    count, pack = len(encoders).to_bytes(2), _INT4.pack
    if not encoders:
        return [b"D" + pack(6) + count] * len(rows)
    columns = [
        [_NULL if value is None else sized(encode(value)) for value in column]
        for column, encode in zip(zip(*rows, strict=True), encoders, strict=False)
    ]
    bodies = map(b"".join, zip(*columns, strict=True))
    return [b"D" + pack(len(body) + 6) + count + body for body in bodies]


def sized(written: bytes) -> bytes:
    """A value, preceded by its length."""
    return _INT4.pack(len(written)) + written


# To text.


def _text(value: Any) -> bytes:
    return str(value).encode(errors="replace")


def _float_text(value: float) -> bytes:
    if value != value:
        return b"NaN"
    if value in (float("inf"), float("-inf")):
        return b"Infinity" if value > 0 else b"-Infinity"
    return repr(value).removesuffix(".0").encode()


def _float4_text(value: float) -> bytes:
    """The fewest digits that give the same number of 32 bits."""
    if value != value or value in (float("inf"), float("-inf")):
        return _float_text(value)
    for digits in range(6, 10):
        short = float(f"{value:.{digits}g}")
        if abs(short) < 3.5e38 and _as_float4(short) == value:
            return _float_text(short)
    return _float_text(value)


def _as_float4(value: float) -> float:
    try:
        return float(_FLOAT4.unpack(_FLOAT4.pack(value))[0])
    except OverflowError:
        return float("inf")


def _decimal_text(value: Any) -> bytes:
    return (format(value, "f") if isinstance(value, Decimal) else str(value)).encode()


def _far(text: str) -> str:
    """A date or a timestamp that is text already: DuckDB writes '0044-03-15 (BC) 12:00:00', the rest as PostgreSQL."""
    return f"{text.replace(' (BC)', '')} BC" if "(BC)" in text else text


def _date_text(value: date | str) -> bytes:
    return (_far(value) if isinstance(value, str) else value.isoformat()).encode()


def _timestamp_text(value: datetime | str) -> bytes:
    return (_far(value) if isinstance(value, str) else value.isoformat(sep=" ")).encode()


def _timestamptz_text(value: datetime | str) -> bytes:
    if isinstance(value, str):
        return _far(value).encode()
    return value.astimezone(UTC).isoformat(sep=" ").removesuffix(":00").encode()


_SPAN = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) months? ?)?(?:(-?\d+) days? ?)?(?:(-)?(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?"
)


def _span_of(value: timedelta | str) -> tuple[int, int, int]:
    """Months, days and microseconds of an interval: of DuckDB's text, such as '1 year -2 days 03:00:00.5'."""
    if isinstance(value, timedelta):
        return 0, *_days_and_rest(value)
    match = _SPAN.fullmatch(value)
    assert match is not None
    years, months, days, hours, minutes, seconds = (int(match[at] or 0) for at in (1, 2, 3, 5, 6, 7))
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(f"{match[8] or '':0<6}")
    return years * 12 + months, days, -micros if match[4] else micros


def _interval_text(value: timedelta | str) -> bytes:
    """As PostgreSQL writes it: a part that is positive behind one that is not has its sign."""
    months, days, rest = _span_of(value)
    sign = -1 if months < 0 else 1
    years, months = sign * (abs(months) // 12), sign * (abs(months) % 12)
    parts: list[str] = []
    is_before = False
    for many, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if many:
            parts.append(f"{'+' if is_before and many > 0 else ''}{many} {unit}{'' if many == 1 else 's'}")
            is_before = many < 0
    seconds, micros = divmod(abs(rest), 1_000_000)
    if rest or not parts:
        mark = "-" if rest < 0 else "+" if is_before else ""
        clock = f"{mark}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(clock + (f".{micros:06}".rstrip("0") if micros else ""))
    return " ".join(parts).encode()


def _days_and_rest(value: timedelta) -> tuple[int, int]:
    """Days and microseconds of the same sign."""
    whole = value // _MICROSECOND
    days = abs(whole) // _DAY * (-1 if whole < 0 else 1)
    return days, whole - days * _DAY


def _json_text(value: Any) -> bytes:
    return (value if isinstance(value, str) else _json(value)).encode(errors="replace")


def _json(value: Any) -> str:
    """A nested value as JSON. A value that JSON has no type for is a string."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(str(name))}: {_json(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, int | Decimal) or (isinstance(value, float) and abs(value) < float("inf")):
        return format(value, "f") if isinstance(value, Decimal) else repr(value)
    if isinstance(value, bytes):
        return _quoted("\\x" + value.hex())
    return _quoted(value.isoformat() if isinstance(value, date | time) else str(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_TEXT: dict[int, Encoder] = {
    types.BOOL.oid: lambda value: b"t" if value else b"f",
    **dict.fromkeys((types.INT2.oid, types.INT4.oid, types.INT8.oid), b"%d".__mod__),
    types.BYTEA.oid: lambda value: b"\\x" + value.hex().encode(),
    types.FLOAT4.oid: _float4_text,
    types.FLOAT8.oid: _float_text,
    types.NUMERIC.oid: _decimal_text,
    types.DATE.oid: _date_text,
    types.TIMESTAMP.oid: _timestamp_text,
    types.TIMESTAMPTZ.oid: _timestamptz_text,
    types.INTERVAL.oid: _interval_text,
    types.JSON.oid: _json_text,
}


# To binary.


def numeric(value: Decimal | int) -> bytes:
    """PostgreSQL's binary numeric: digits to the base 10,000, with the exponent of the first."""
    value = Decimal(value)
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    negative, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    written = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, fraction = written[: max(0, len(written) - scale)], written.zfill(scale)[-scale:] if scale else ""
    whole, fraction = "0" * (-len(whole) % 4) + whole, fraction + "0" * (-len(fraction) % 4)
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        del groups[0]
        weight -= 1
    while groups and groups[-1] == 0:
        del groups[-1]
    sign = 0x4000 if negative and groups else 0
    head = struct.pack("!hhHh", len(groups), weight if groups else 0, sign, scale)
    return head + struct.pack(f"!{len(groups)}h", *groups)


def _clock(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _clock_binary(value: time | str) -> bytes:
    return _INT8.pack(_DAY if isinstance(value, str) else _clock(value))


def _timetz_binary(value: time) -> bytes:
    east = value.utcoffset() or timedelta()
    return struct.pack("!qi", _clock(value), -int(east.total_seconds()))


def _ordinal(year: int, month: int, day: int) -> int:
    """The number of a day in the proleptic Gregorian calendar, where 1 January of the year 1 is 1."""
    cycles, of_cycle = divmod(year - 1, 400)
    return date(of_cycle + 1, month, day).toordinal() + cycles * 146_097


def _far_moment(text: str) -> tuple[int, int]:
    """Days and microseconds since 2000 of a date or timestamp in DuckDB's text."""
    match = _FAR.fullmatch(text)
    if match is None:
        raise PgError("22008", "A date or time of the result has no binary form: ask for it as text.")
    year = 1 - int(match[1]) if match[4] else int(match[1])
    clock = (match[5] or "00:00:00").removesuffix("+00")
    return _ordinal(year, int(match[2]), int(match[3])) - _DAY_ZERO, _clock(time.fromisoformat(clock))


def _date_binary(value: date | str) -> bytes:
    if isinstance(value, str):
        # Python reads most of them, and several times faster.
        try:
            day = date.fromisoformat(value)
        except ValueError:
            return _INT4.pack(_forever(value, _LAST_DAY) or _far_moment(value)[0])
    else:
        day = value
    return _INT4.pack(day.toordinal() - _DAY_ZERO)


def _timestamp_binary(value: datetime | str) -> bytes:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            if endless := _forever(value, _LAST_MOMENT):
                return _INT8.pack(endless)
            days, micros = _far_moment(value)
            return _INT8.pack(days * _DAY + micros)
    else:
        moment = value
    return _INT8.pack((moment - (_EPOCH if moment.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND)


def _forever(text: str, last: int) -> int:
    """PostgreSQL's number for infinity and for its negative; 0 for another text."""
    return {"infinity": last, "-infinity": -last - 1}.get(text, 0)


def _interval_binary(value: timedelta | str) -> bytes:
    months, days, rest = _span_of(value)
    return struct.pack("!qii", rest, days, months)


_BINARY: dict[int, Encoder] = {
    types.BOOL.oid: lambda value: b"\1" if value else b"\0",
    types.BYTEA.oid: bytes,
    types.INT2.oid: _INT2.pack,
    types.INT4.oid: _INT4.pack,
    types.INT8.oid: _INT8.pack,
    types.OID.oid: struct.Struct("!I").pack,
    types.FLOAT4.oid: _FLOAT4.pack,
    types.FLOAT8.oid: _FLOAT8.pack,
    types.NUMERIC.oid: numeric,
    types.DATE.oid: _date_binary,
    types.TIME.oid: _clock_binary,
    types.TIMETZ.oid: _timetz_binary,
    types.TIMESTAMP.oid: _timestamp_binary,
    types.TIMESTAMPTZ.oid: _timestamp_binary,
    types.INTERVAL.oid: _interval_binary,
    types.JSON.oid: _json_text,
    types.UUID.oid: lambda value: (value if isinstance(value, UUID) else UUID(str(value))).bytes,
}
_BARE = re.compile(r'[^{}",\\\s]+')


def _array_encoder(element: PgType, *, binary: bool) -> Encoder:
    encode = encoder(element, binary=binary)

    def as_text(value: Iterable[Any]) -> bytes:
        written = ("NULL" if one is None else _item(encode(one).decode()) for one in value)
        return ("{" + ",".join(written) + "}").encode()

    def as_binary(value: Sequence[Any]) -> bytes:
        if not value:
            return struct.pack("!iii", 0, 0, element.oid)
        items = []
        for one in value:
            written = None if one is None else encode(one)
            items.append(_NULL if written is None else sized(written))
        head = struct.pack("!iiiii", 1, int(_NULL in items), element.oid, len(value), 1)
        return head + b"".join(items)

    return as_binary if binary else as_text


def _item(text: str) -> str:
    """An item of an array, in quotes where it needs them."""
    if _BARE.fullmatch(text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# From the wire: the values of parameters.

_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_INFINITE = {"nan", "inf", "infinity", "-inf", "-infinity"}
# Of the wire: the days and times after and before all others.
_FOREVER = {"infinity": "infinity", "+infinity": "infinity", "-infinity": "-infinity"}
_LAST_DAY, _LAST_MOMENT = 2**31 - 1, 2**63 - 1
_ESCAPED_BYTE = re.compile(rb"\\(\\|[0-3][0-7][0-7])")
_ESCAPED_BYTES = re.compile(rb"(?:[^\\]|\\\\|\\[0-3][0-7][0-7])*", re.DOTALL)
_RANGES = {types.INT2.oid: 15, types.INT4.oid: 31, types.INT8.oid: 63}
_DEEPEST = 6
# The most digits of a number, and of its exponent: a short text must not become a long number.
_MOST_DIGITS, _MOST_EXPONENT = 1_000, 400
_DECIMAL_DIGITS = 38


_NAMES = frozenset({24, 2202, 2203, 2204, 2205, 2206, 4089, 4096})


def decoder(oid: int, *, binary: bool) -> Decoder:
    """A function that reads a parameter's value from bytes. Raises PgError for a type that the server does not support.

    oid: 0 is text. The function raises PgError for bytes that are not a value of the type.
    """
    # Names of catalogs' entries, such as regclass, are texts here.
    kind = types.BY_OID.get(types.TEXT.oid if oid in _NAMES or not oid else oid)
    if kind is None:
        raise PgError("0A000", f"The type with oid {oid} is not known here: send the parameter as text.")
    if kind.element is not None:
        element = kind.element.oid
        return _checked(
            (lambda raw: _array_binary(raw, element)) if binary else lambda raw: _array_text(raw.decode(), element)
        )
    if binary:
        return _checked(_FROM_BINARY.get(kind.oid, _utf8))
    reads = _FROM_TEXT.get(kind.oid, str)
    return _checked(lambda raw: reads(_utf8(raw)))


def _checked(read: Decoder) -> Decoder:
    def checked(raw: bytes) -> Any:
        try:
            return read(raw)
        except (ValueError, OverflowError, struct.error, InvalidOperation, IndexError):
            # The text of the original error may quote the value.
            raise PgError("22P02", "The value of a parameter is not one of its type.") from None

    return checked


def _utf8(raw: bytes) -> str:
    text = raw.decode()
    if "\0" in text:
        raise ValueError
    return text


def _bool(text: str) -> bool:
    said = text.strip().lower()
    if said in ("t", "true", "1", "on", "yes", "y"):
        return True
    if said in ("f", "false", "0", "off", "no", "n"):
        return False
    raise ValueError


def _whole(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not _WHOLE.fullmatch(text) or len(text) > 40:
            raise ValueError
        number = int(text)
        if not -(1 << bits) <= number < 1 << bits:
            raise ValueError
        return number

    return read


def _float(text: str) -> float:
    if not _NUMBER.fullmatch(text) and text.strip().lower() not in _INFINITE:
        raise ValueError
    return float(text)


def _decimal(text: str) -> Any:
    if not _NUMBER.fullmatch(text) or len(text) > _MOST_DIGITS:
        raise ValueError
    return _sized(Decimal(text))


def _sized(number: Decimal) -> Any:
    if number.is_finite() and abs(number.adjusted()) > _MOST_EXPONENT:
        raise ValueError
    # DuckDB's client makes a float of a decimal with more digits than a DECIMAL has.
    is_huge = number.is_finite() and number.adjusted() >= _DECIMAL_DIGITS and abs(number) < 2**127
    if not is_huge or number != int(number):
        return number
    return duckdb.Value(str(int(number)), duckdb.sqltype("HUGEINT"))


def _bytea(text: str) -> bytes:
    """Bytes as hexadecimal digits, or in PostgreSQL's older form with octal numbers."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    raw = text.encode("ascii")
    if not _ESCAPED_BYTES.fullmatch(raw):
        raise ValueError
    return _ESCAPED_BYTE.sub(lambda item: b"\\" if item[1] == b"\\" else bytes([int(item[1], 8)]), raw)


def _date(text: str) -> Any:
    """A day, also with a time zone after it, as pgjdbc sends it."""
    if (forever := _FOREVER.get(text.strip().lower())) is not None:
        return duckdb.Value(forever, duckdb.sqltype("DATE"))
    day = moments.read_date(text)
    return date.fromisoformat(text) if day is None else day


def _datetime(text: str) -> Any:
    """A timestamp without time zone; one that the text has is left out, as PostgreSQL does."""
    if (forever := _FOREVER.get(text.strip().lower())) is not None:
        return duckdb.Value(forever, duckdb.sqltype("TIMESTAMP"))
    timestamp = moments.read_timestamp(text)
    return datetime.fromisoformat(text).replace(tzinfo=None) if timestamp is None else timestamp


def _datetimetz(text: str) -> Any:
    if (forever := _FOREVER.get(text.strip().lower())) is not None:
        return duckdb.Value(forever, duckdb.sqltype("TIMESTAMPTZ"))
    read = moments.read_instant(text, UTC)
    if read is not None:
        return read.replace(tzinfo=UTC)
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _time(text: str) -> time:
    return time.fromisoformat(text).replace(tzinfo=None)


def _zoned_clock(value: time) -> Any:
    """A time with a time zone; west of UTC as DuckDB's own value, since its client does not take Python's."""
    if value.utcoffset() is None or value.utcoffset() == abs(value.utcoffset() or timedelta()):
        return value
    return duckdb.Value(value.isoformat(), duckdb.sqltype("TIME WITH TIME ZONE"))


def _span(text: str) -> Any:
    duration = moments.read_interval(text.strip())
    if duration is None:
        raise ValueError
    return _interval(duration.months, duration.days, duration.micros)


def _interval(months: int, days: int, micros: int) -> Any:
    """A time span; of months as DuckDB's own value, since Python has none."""
    if not months:
        return timedelta(days=days, microseconds=micros)
    return duckdb.Value(f"{months} months {days} days {micros} microseconds", duckdb.sqltype("INTERVAL"))


_FROM_TEXT: dict[int, Callable[[str], Any]] = {
    types.BOOL.oid: _bool,
    types.BYTEA.oid: _bytea,
    **{oid: _whole(bits) for oid, bits in _RANGES.items()},
    types.OID.oid: _whole(32),
    types.FLOAT4.oid: _float,
    types.FLOAT8.oid: _float,
    types.NUMERIC.oid: _decimal,
    types.DATE.oid: _date,
    types.TIME.oid: _time,
    types.TIMETZ.oid: lambda text: _zoned_clock(time.fromisoformat(text)),
    types.TIMESTAMP.oid: _datetime,
    types.TIMESTAMPTZ.oid: _datetimetz,
    types.INTERVAL.oid: _span,
    types.UUID.oid: UUID,
}


def _unpacked(form: str) -> Decoder:
    shape = struct.Struct(form)
    return lambda raw: shape.unpack(raw)[0]


def read_numeric(raw: bytes) -> Any:
    """The inverse of `numeric`. A long whole number is a HUGEINT. Raises ValueError or struct.error."""
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    if sign == 0xC000:
        return Decimal("NaN")
    if sign not in (0, 0x4000) or abs(weight) > _MOST_DIGITS or not 0 <= scale <= _MOST_DIGITS or count < 0:
        raise ValueError
    groups = struct.unpack(f"!{count}h", raw[8:])
    if count > _MOST_DIGITS or not all(0 <= group < 10_000 for group in groups):
        raise ValueError
    digits, shift = int("".join(f"{group:04}" for group in groups) or "0"), 4 * (weight - count + 1) + scale
    # Whole numbers throughout: arithmetic with decimals would round.
    coefficient, lost = divmod(digits, 10**-shift) if shift < 0 else (digits * 10**shift, 0)
    if lost:
        raise ValueError
    return _sized(Decimal((int(sign != 0 and digits != 0), tuple(map(int, str(coefficient))), -scale)))


def _day(raw: bytes) -> Any:
    days = int(_INT4.unpack(raw)[0])
    if days in (_LAST_DAY, -_LAST_DAY - 1):
        return _date("infinity" if days > 0 else "-infinity")
    return date.fromordinal(days + _DAY_ZERO)


def _moment(epoch: datetime, read: Callable[[str], Any]) -> Decoder:
    """Reads microseconds since an epoch. read: reads a text of this type."""

    def decode(raw: bytes) -> Any:
        micros = int(_INT8.unpack(raw)[0])
        if micros in (_LAST_MOMENT, -_LAST_MOMENT - 1):
            return read("infinity" if micros > 0 else "-infinity")
        return epoch + micros * _MICROSECOND

    return decode


def _clock_from(micros: int) -> time:
    if not 0 <= micros < _DAY:
        raise ValueError
    return (datetime.min + timedelta(microseconds=micros)).time()


def _zoned_clock_from(raw: bytes) -> Any:
    micros, west = struct.unpack("!qi", raw)
    return _zoned_clock(_clock_from(micros).replace(tzinfo=timezone(timedelta(seconds=-west))))


def _span_from(raw: bytes) -> Any:
    micros, days, months = struct.unpack("!qii", raw)
    return _interval(months, days, micros)


def _binary_bool(raw: bytes) -> bool:
    if raw not in (b"\0", b"\1"):
        raise ValueError
    return raw == b"\1"


def _jsonb(raw: bytes) -> str:
    if raw[:1] != b"\1":
        raise ValueError
    return _utf8(raw[1:])


def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


_FROM_BINARY: dict[int, Decoder] = {
    types.BOOL.oid: _binary_bool,
    types.BYTEA.oid: bytes,
    types.INT2.oid: _unpacked("!h"),
    types.INT4.oid: _unpacked("!i"),
    types.INT8.oid: _unpacked("!q"),
    types.OID.oid: _unpacked("!I"),
    types.FLOAT4.oid: _unpacked("!f"),
    types.FLOAT8.oid: _unpacked("!d"),
    types.NUMERIC.oid: read_numeric,
    types.DATE.oid: _day,
    types.TIME.oid: lambda raw: _clock_from(_INT8.unpack(raw)[0]),
    types.TIMETZ.oid: _zoned_clock_from,
    types.TIMESTAMP.oid: _moment(_EPOCH, _datetime),
    types.TIMESTAMPTZ.oid: _moment(_EPOCH_UTC, _datetimetz),
    types.INTERVAL.oid: _span_from,
    types.UUID.oid: _uuid,
    types.JSONB.oid: _jsonb,
}


def _array_binary(raw: bytes, element: int) -> list[Any]:
    dimensions, _, oid = struct.unpack_from("!iii", raw)
    if dimensions == 0 and len(raw) == 12:
        return []
    if not 1 <= dimensions <= _DEEPEST or oid != element:
        raise ValueError
    lengths = [int(struct.unpack_from("!i", raw, 12 + 8 * number)[0]) for number in range(dimensions)]
    at, read = 12 + 8 * dimensions, decoder(element, binary=True)
    items: list[Any] = []
    while at < len(raw):
        size = int(_INT4.unpack_from(raw, at)[0])
        at += 4
        if size < -1 or size > len(raw) - at:
            raise ValueError
        items.append(None if size == -1 else read(raw[at : at + size]))
        at += max(size, 0)
    return _shaped(items, lengths)


def _shaped(items: list[Any], lengths: Sequence[int]) -> list[Any]:
    """The items as lists within lists of these lengths."""
    total = 1
    for length in lengths:
        if length < 1 or length > len(items):
            raise ValueError
        total *= length
    if total != len(items):
        raise ValueError
    for length in reversed(lengths[1:]):
        items = [items[at : at + length] for at in range(0, len(items), length)]
    return items


def _array_text(text: str, element: int) -> list[Any]:
    """A list such as {1,2,NULL,"a b",{3}}."""
    read = decoder(element, binary=False)
    levels: list[list[Any]] = []
    at, found, due = 0, None, True  # due: whether an item must come, after a comma or at the start
    while at < len(text):
        one = text[at]
        if found is not None:
            raise ValueError
        if one == "{" and due and len(levels) < _DEEPEST:
            levels.append([])
            at += 1
        elif one.isspace():
            at += 1
        elif one == "}" and levels and (not due or text[:at].rstrip()[-1] == "{"):
            done = levels.pop()
            if levels:
                levels[-1].append(done)
            else:
                found = done
            at, due = at + 1, False
        elif one == "," and levels and not due:
            at, due = at + 1, True
        elif levels and due:
            written, quoted, at = _array_item(text, at)
            nothing = not quoted and written.upper() == "NULL"
            levels[-1].append(None if nothing else read(written.encode()))
            due = False
        else:
            raise ValueError
    if found is None:
        raise ValueError
    return found


_PLAIN_ITEM = re.compile(r'[^{},"\\]+')
_QUOTED_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def _array_item(text: str, at: int) -> tuple[str, bool, int]:
    """An item of a list, whether it was in quotes, and the place after it."""
    quoted = _QUOTED_ITEM.match(text, at)
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted[1]), True, quoted.end()
    plain = _PLAIN_ITEM.match(text, at)
    if plain is None or not plain[0].strip():
        raise ValueError
    return plain[0].strip(), False, plain.end()
