"""Between which numbers or moments columns lie by what WHERE says: no record that it leaves lies outside."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest

from duckanon.catalog.names import TableName
from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Catalog, Protected, Stored
from duckanon.releases import numbers
from duckanon.releases.available import AvailableReleases
from duckanon.rewrite.admit import admit
from duckanon.rewrite.algebra.moments import Now
from duckanon.rewrite.algebra.ranges import Range, ranges
from duckanon.rewrite.decide import decide
from duckanon.specification import table_functions
from tests.rewrite.test_zones import ZONES

NUMBERS = {"n": "INTEGER", "cents": "DECIMAL(5,2)", "small": "UTINYINT"}
TYPES = {"day": "DATE", "ts": "TIMESTAMP", "zoned": "TIMESTAMP WITH TIME ZONE", "f": "DOUBLE", **NUMBERS}
HELD = Protected(
    Policy(
        Fraction(4),
        population="t",
        per_query=Fraction(1),
        public=("ts",),
        bounds={"ts": ("2024-01-01 00:00:00", "2024-12-31 00:00:00")},
    ),
    Stored(("x", "main", "t"), TYPES),
)
CATALOG = Catalog(search=[("x", "main")], protected={TableName("x", "main", "t"): HELD})
ROWS = """
CREATE TABLE t AS SELECT (TIMESTAMP '2024-01-01' + to_seconds(i * 900))::DATE AS day,
  TIMESTAMP '2024-01-01' + to_seconds(i * 900) AS ts,
  TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_seconds(i * 900) AS zoned,
  i AS n FROM range(35040) r(i)
"""
CONDITIONS = [
    "day >= '2024-03-30' AND day < '2024-04-02'",
    "day = DATE '2024-03-31' AND n <> 5",
    "day > TIMESTAMP '2024-03-31 10:00:00' AND day <= TIMESTAMP '2024-06-01 01:00:00'",
    "ts BETWEEN '2024-03-31T00:00:00Z' AND TIMESTAMP '2024-03-31 02:30:00'",
    "'2024-10-27 01:00:00' < ts AND DATE '2024-10-28' > ts",
    "zoned >= '2024-03-31 00:00:00' AND zoned < '2024-04-01'",
    "zoned >= '2024-10-27' AND zoned <= '2024-10-27 04:30:00+00'",
    "zoned AT TIME ZONE 'Europe/Berlin' BETWEEN '2024-10-27 02:15:00' AND '2024-10-27 02:45:00'",
    "zoned AT TIME ZONE 'Europe/Berlin' >= '2024-03-31 02:30:00' AND zoned AT TIME ZONE 'UTC' < '2024-04-01'",
    "zoned AT TIME ZONE 'Africa/Cairo' < TIMESTAMP '2024-04-26 00:30:00' AND zoned > '2024-04-25 00:00:00+00'",
]
NOT_KNOWN = [
    "ts >= '2024-01-01' OR n = 1",
    "NOT ts < '2024-01-01'",
    "n > 5e0",
    "n > '5'",
    "n <> 5",
    "n IN (5, 6e0)",
    "n NOT IN (5, 6)",
    "f > '5'",
    "ts <> '2024-01-01'",
    "ts IS NULL",
]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute(ROWS)
        yield made


def found(condition: str, zone: str) -> dict[str, Range[Any]]:
    """What a question about the table asks for."""
    seen: list[dict[str, Range[Any]]] = []
    today = Now.at(datetime(2026, 2, 28, 15), UTC if zone == "UTC" else ZoneInfo(zone))
    statement = admit(f"SELECT date_trunc('month', ts), count(*) FROM t WHERE {condition} GROUP BY 1")

    def kept(*given: Any) -> dict[str, Range[Any]]:
        seen.append(ranges(*given))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "ranges", kept)
        decide(statement, CATALOG, table_functions(), AvailableReleases(), today)
    return seen[0]


@pytest.mark.parametrize("zone", ZONES[:4])
def test_all_records_lie_within(con: duckdb.DuckDBPyConnection, zone: str) -> None:
    con.execute(f"SET TimeZone = '{zone}'")
    for condition in CONDITIONS:
        ((column, within),) = found(condition, zone).items()
        of = "timezone('UTC', zoned)" if column == "zoned" else f"{column}::TIMESTAMP"
        ((least, most),) = con.execute(f"SELECT min({of}), max({of}) FROM t WHERE {condition}").fetchall()
        assert within.low is not None or "<" in condition
        for end, record in ((within.low, least), (within.high, most)):
            assert end is None or abs(end - record) <= timedelta(days=1 if column == "day" else 0, hours=1), condition
        assert within.low is None or within.low <= least, condition
        assert within.high is None or within.high >= most, condition


ENDS = ("-3", "0", "2", "2.50", "2.505", "3 - 0.995", "CAST(2.5 AS DECIMAL(4,1))", "CAST('7' AS BIGINT)")
COMPARED = (*product((">", ">=", "<", "<=", "="), ENDS), ("BETWEEN", "0.5 AND 2.505"))


@pytest.mark.parametrize("column", NUMBERS)
def test_numbers_lie_between_the_least_and_the_largest(con: duckdb.DuckDBPyConnection, column: str) -> None:
    numbers = (
        f"SELECT (i / 100)::{NUMBERS[column]} AS {column} FROM range({0 if column == 'small' else -800}, 801) r(i)"
    )
    for operator, end in COMPARED:
        condition = f"{column} {operator} {end}"
        asked = f"SELECT min({column}), max({column}) FROM ({numbers}) WHERE {condition}"
        ((least, most),) = con.execute(asked).fetchall()
        within = found(condition, "UTC")[column]
        if least is None:
            low, high = within.within(Fraction(0), Fraction(8))
            assert low == high, condition
        else:
            ends = Fraction(0 if column == "small" else -8), Fraction(8)
            assert within.within(*ends) == (Fraction(least), Fraction(most)), condition


IN = ("n IN (-3, NULL, 40)", "n IN (2.5, 7)", "cents IN (2.505, 2.5, 0)", "day IN ('2024-03-30', DATE '2024-02-01')")


@pytest.mark.parametrize("condition", IN)
def test_what_is_listed_lies_between_the_ends(con: duckdb.DuckDBPyConnection, condition: str) -> None:
    ((column, within),) = found(condition, "UTC").items()
    shown = "i - 9 AS n, (i / 100)::DECIMAL(5, 2) AS cents, DATE '2024-01-01' + i::INT AS day"
    rows = f"SELECT {shown} FROM range(300) r(i)"
    ((least, most, count),) = con.execute(
        f"SELECT min({column}), max({column}), count(*) FROM ({rows}) WHERE {condition}"
    ).fetchall()
    low, high = (end.date() if isinstance(end, datetime) else end for end in (within.low, within.high))
    assert count
    assert low <= least <= most <= high


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("end", ["0.1", "1e-1", "16777217", "CAST(0.3 AS DECIMAL(4,1))", "-33.3"])
def test_floats_lie_within(con: duckdb.DuckDBPyConnection, kind: str, end: str) -> None:
    """Also those to which a constant is rounded, and those next to it."""
    near = f"unnest([({end})::{kind}, nextafter(({end})::{kind}, 1e9), nextafter(({end})::{kind}, -1e9)])"
    for operator in ("<", "<=", "=", ">=", ">"):
        condition = f"f {operator} {end}"
        ((least, most),) = con.execute(f"SELECT min(f), max(f) FROM (SELECT {near} AS f) WHERE {condition}").fetchall()
        within = found(condition, "UTC")["f"]
        assert (within.low is None) == (operator in ("<", "<="))
        assert least is None or within.low is None or within.low <= Fraction(least), condition
        assert most is None or within.high is None or within.high >= Fraction(most), condition


@pytest.mark.parametrize("condition", NOT_KNOWN)
def test_others_say_nothing(condition: str) -> None:
    assert found(condition, "UTC") == {}
