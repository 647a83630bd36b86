"""Values of drivers' types go to the server and come back the same, in text and in binary."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

import duckanon
from tests.server.served import Served, serving

_TABLE = """
CREATE TABLE t AS SELECT 12345678901234567890123456789012345678::DECIMAL(38, 0) AS whole,
  1234567890123456789012345678.0123456789::DECIMAL(38, 10) AS exact,
  -0.1234567890123456789012345678901234567::DECIMAL(38, 37) AS part,
  170141183460469231731687303715884105727::HUGEINT AS huge, '{"a": [1, null]}'::JSON AS doc
"""
DECIMALS = {
    "whole": Decimal("12345678901234567890123456789012345678"),
    "exact": Decimal("1234567890123456789012345678.0123456789"),
    "part": Decimal("-0.1234567890123456789012345678901234567"),
    "huge": Decimal(2**127 - 1),
}
# A type, as a cast has it, and a value.
VALUES: list[tuple[str, Any]] = [
    ("uuid", UUID(int=2**127 + 5)),
    ("int[]", [1, None, 3]),
    ("bigint[]", []),
    ("text[]", ["a", "b,c", 'q"', None, "", "NULL"]),
    ("uuid[]", [UUID(int=5), None]),
    ("date[]", [date(2024, 1, 1), None]),
    ("timestamp[]", [datetime(2024, 1, 1, 10)]),
    ("interval[]", [timedelta(days=-3, seconds=5)]),
    ("float8[]", [1.5, float("inf")]),
    ("bool[]", [True, False, None]),
    ("bytea", b"\0\xff'\\"),
    ("text", "Ä€😀'\\"),
    ("bigint", 2**63 - 1),
    ("float4", 1.5),
    ("float8", 0.1),
    ("boolean", True),
    ("date", date(2024, 2, 29)),
    ("time", time(10, 30, 0, 5)),
    ("timetz", time(10, 30, tzinfo=timezone(timedelta(hours=-2)))),
    ("timestamp", datetime(2024, 1, 1, 10, 30, 0, 5)),
    ("timestamptz", datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=9)))),
    ("interval", timedelta(days=-3, seconds=5)),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("ways") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(_TABLE)
        con.execute("SELECT open_table('t')").fetchall()
    with serving(path) as found:
        yield found


def one(con: psycopg.Connection[Any], sql: str, values: list[Any], *, binary: bool) -> Any:
    (row,) = con.execute(sql.encode(), values, binary=binary).fetchall()
    return row[0]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("mark", ["%t", "%b"])
@pytest.mark.parametrize("user", ["ana", "stu"])
def test_values_come_back(served: Served, user: str, mark: str, binary: bool) -> None:
    with served.login(user) as con:
        for kind, value in VALUES:
            assert one(con, f"SELECT {mark}::{kind}", [value], binary=binary) == value, kind
        for name, number in DECIMALS.items():
            assert one(con, f"SELECT {name} FROM t WHERE {name} = {mark}", [number], binary=binary) == number
            assert one(con, f"SELECT {mark}", [number], binary=binary) == number
        # Neither is a float on its way.
        assert con.execute("SELECT count(*) FROM t WHERE huge = %s", [DECIMALS["huge"] - 1]).fetchall() == [(0,)]
        document = {"a": [1, None]}
        assert one(con, f"SELECT {mark}::json", [Json(document)], binary=binary) == document
        assert one(con, "SELECT doc FROM t", [], binary=binary) == document
        moment = one(con, f"SELECT {mark}::timestamptz", [datetime(2024, 1, 1, tzinfo=UTC)], binary=binary)
        assert moment.utcoffset() == timedelta(0)


@pytest.mark.parametrize("mark", ["%t", "%b"])
def test_an_analyst_may_write_jsonb(served: Served, mark: str) -> None:
    """DuckDB has one type for JSON."""
    with served.login("ana") as con:
        for sql in (f"SELECT {mark}::jsonb", f"SELECT CAST({mark} AS JSONB)", f"SELECT TRY_CAST({mark} AS jsonb)"):
            assert one(con, sql, [Jsonb({"a": 1})], binary=False) == {"a": 1}
        assert one(con, "SELECT doc::jsonb ->> 'a' FROM t", [], binary=False) == "[1,null]"
        assert con.execute("SELECT TRY_CAST('{' AS jsonb)").fetchall() == [(None,)]
