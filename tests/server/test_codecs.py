"""Values: written and read as PostgreSQL's own clients write and read them."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from duckanon.server import types
from duckanon.server.codecs import decoder, encoder
from duckanon.server.errors import PgError
from duckanon.server.types import PgType, array_of, pg_type

# Text without the zero byte, which PostgreSQL does not have, and without halves of characters.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
DATES = st.dates()
TIMES = st.times()
MOMENTS = st.datetimes()
SPANS = st.timedeltas(timedelta(days=-1_000_000), timedelta(days=1_000_000))
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=8)


def in_zone(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))


VALUES: dict[str, tuple[PgType, st.SearchStrategy[Any]]] = {
    "bool": (types.BOOL, st.booleans()),
    "int2": (types.INT2, st.integers(-(2**15), 2**15 - 1)),
    "int4": (types.INT4, st.integers(-(2**31), 2**31 - 1)),
    "int8": (types.INT8, st.integers(-(2**63), 2**63 - 1)),
    "hugeint": (types.NUMERIC, st.integers(1 - 10**38, 10**38 - 1).map(Decimal)),
    "numeric": (types.NUMERIC, NUMBERS),
    "float4": (types.FLOAT4, st.floats(width=32, allow_nan=False)),
    "float8": (types.FLOAT8, st.floats(allow_nan=False)),
    "text": (types.TEXT, TEXTS),
    "bytea": (types.BYTEA, st.binary(max_size=20)),
    "date": (types.DATE, DATES),
    "time": (types.TIME, TIMES),
    "timetz": (types.TIMETZ, st.times(timezones=st.integers(0, 840).map(in_zone))),
    "timestamp": (types.TIMESTAMP, MOMENTS),
    "timestamptz": (types.TIMESTAMPTZ, st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))),
    "interval": (types.INTERVAL, SPANS),
    "uuid": (types.UUID, st.uuids()),
    "texts": (array_of(types.TEXT), st.lists(st.none() | TEXTS, max_size=5)),
    "numbers": (array_of(types.INT8), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5)),
    "moments": (array_of(types.TIMESTAMP), st.lists(MOMENTS, max_size=3)),
}


def as_psycopg_reads(kind: PgType, raw: bytes, *, binary: bool) -> Any:
    reads = Transformer()
    return reads.get_loader(kind.oid, Format(int(binary))).load(raw)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_psycopg_reads_what_is_written(name: str, binary: bool, data: st.DataObject) -> None:
    kind, values = VALUES[name]
    value = data.draw(values)
    read = as_psycopg_reads(kind, encoder(kind, binary=binary)(value), binary=binary)
    assert _same(kind, read, value)
    assert type(read) is type(value)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_what_is_written_is_read_again(name: str, binary: bool, data: st.DataObject) -> None:
    kind, values = VALUES[name]
    value = data.draw(values)
    assert _same(kind, decoder(kind.oid, binary=binary)(encoder(kind, binary=binary)(value)), value)


def _same(kind: PgType, read: Any, value: Any) -> bool:
    """Whether two values are the same in their type: the text of a float4 has as many digits as it needs."""
    if kind is types.FLOAT4:
        return struct.pack("!f", read) == struct.pack("!f", value)
    return bool(read == value)


# Without a connection psycopg writes bytes as text for old servers; tests/server/test_session.py sends some.
SENT = {
    **{name: one for name, one in VALUES.items() if name != "bytea"},
    "int": (types.INT8, st.integers(-(2**63), 2**63 - 1)),
}


@pytest.mark.parametrize("form", [PyFormat.TEXT, PyFormat.BINARY])
@pytest.mark.parametrize("name", SENT)
@given(data=st.data())
def test_what_psycopg_sends_is_read(name: str, form: PyFormat, data: st.DataObject) -> None:
    _, values = SENT[name]
    value = data.draw(values)
    writes = Transformer()
    dumper = writes.get_dumper(value, form)
    raw = dumper.dump(value)
    if raw is None:
        return
    read = decoder(dumper.oid, binary=dumper.format == Format.BINARY)(bytes(raw))
    if dumper.oid == 0:  # psycopg leaves the type of a text to the server
        assert read == (str(value) if not isinstance(value, list) else bytes(raw).decode())
    else:
        assert read == value


@given(st.sampled_from([0, *types.BY_OID]), st.booleans(), st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(oid: int, binary: bool, raw: bytes) -> None:
    try:
        decoder(oid, binary=binary)(raw)
    except PgError as error:
        assert error.code in ("22P02", "0A000")  # noqa: PT017


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        (types.INT4.oid, "2147483648"),
        (types.INT4.oid, "1_0"),
        (types.INT4.oid, "٣"),
        (types.INT8.oid, "1" * 5000),
        (types.NUMERIC.oid, "1e999999999"),
        (types.FLOAT8.oid, "0x1p3"),
        (types.DATE.oid, "2020-02-30"),
        (types.INTERVAL.oid, ""),
        (1007, "{1,,2}"),
        (1007, "{1,2}{3}"),
        (1007, "{1,2"),
        (1007, "{" * 40),
    ],
)
def test_what_is_no_value_is_refused(oid: int, text: str) -> None:
    with pytest.raises(PgError, match="not one of its type"):
        decoder(oid, binary=False)(text.encode())


def test_special_values() -> None:
    assert encoder(types.FLOAT8, binary=False)(1.0) == b"1"
    assert encoder(types.FLOAT8, binary=False)(math.inf) == b"Infinity"
    assert encoder(types.FLOAT4, binary=False)(struct.unpack("!f", struct.pack("!f", 0.1))[0]) == b"0.1"
    assert encoder(types.INTERVAL, binary=False)(timedelta(days=1, seconds=-1)) == b"23:59:59"
    assert encoder(types.INTERVAL, binary=False)(timedelta(days=-2, seconds=-5)) == b"-2 days -00:00:05"
    assert encoder(types.TIME, binary=True)("24:00:00") == struct.pack("!q", 86_400_000_000)
    assert encoder(types.JSON, binary=False)({"a": [1, None, Decimal("1.50")], "b": date(2020, 1, 1)}) == (
        b'{"a": [1, null, 1.50], "b": "2020-01-01"}'
    )
    assert encoder(array_of(types.TEXT), binary=False)(["a b", "", None, 'q"\\', "null", "x"]) == (
        rb'{"a b","",NULL,"q\"\\","null",x}'
    )


def test_dates_that_python_does_not_know() -> None:
    assert encoder(types.TIMESTAMP, binary=False)("0044-03-15 (BC) 12:00:00") == b"0044-03-15 12:00:00 BC"
    far = encoder(types.DATE, binary=True)("12000-01-01")
    assert struct.unpack("!i", far) == (date(8000, 1, 1).toordinal() - date(2000, 1, 1).toordinal() + 10 * 146_097,)


def test_types() -> None:
    assert pg_type("DECIMAL(10,2)").modifier == (10 << 16 | 2) + 4
    assert pg_type("INTEGER[]").element == types.INT4
    assert pg_type("INTEGER[3]").oid == 1007
    assert pg_type("INTEGER[][]") is types.JSON
    assert pg_type("STRUCT(a INTEGER[])") is types.JSON
    assert pg_type("ENUM('a[]', 'b')") is types.TEXT


def test_psycopg_agrees_about_oids() -> None:
    for one in types.SCALARS:
        known = psycopg.adapters.types.get(one.oid)
        if known is not None:
            assert (known.array_oid, known.name.strip('"')) == (one.array, one.name)


def test_a_uuid_and_a_time_zone() -> None:
    assert encoder(types.UUID, binary=False)(UUID(int=1)) == b"00000000-0000-0000-0000-000000000001"
    assert encoder(types.TIMESTAMPTZ, binary=False)(datetime(2020, 1, 1, tzinfo=UTC)) == b"2020-01-01 00:00:00+00"
    assert decoder(types.TIME.oid, binary=False)(b"12:30:00") == time(12, 30)
