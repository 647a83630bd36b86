"""Conditions on times in zones other than UTC: in each session they choose what DuckDB chooses, also on odd days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import duckdb
import pytest

from duckanon.catalog.names import TableName
from duckanon.catalog.policy import Policy
from duckanon.catalog.snapshot import Catalog, Protected, Stored
from duckanon.releases.available import AvailableReleases
from duckanon.releases.paid_questions import AggregatesQuestion
from duckanon.rewrite.admit import admit
from duckanon.rewrite.algebra import zones
from duckanon.rewrite.algebra.moments import Now
from duckanon.rewrite.decide import decide
from duckanon.rewrite.rule_context import Refused
from duckanon.specification import table_functions

# A record in each half hour of a year, so that the hour is there that clocks show twice, and days of 23 and 25 hours.
_VISITS = """
CREATE TABLE visits AS SELECT i AS id, TIMESTAMP '2024-01-01 00:10:00' + to_seconds(i * 1800) AS ts,
  CASE WHEN i % 11 > 0 THEN TIMESTAMPTZ '2024-01-01 00:10:00+00' + to_seconds(i * 1800) END AS zoned
FROM range(17400) r(i)
"""
_COLUMNS = {"id": "BIGINT", "ts": "TIMESTAMP", "zoned": "TIMESTAMP WITH TIME ZONE"}
_TABLE = TableName("x", "main", "visits")
_CATALOG = Catalog(
    search=[("x", "main")],
    protected={
        _TABLE: Protected(
            Policy(Fraction(4), population="visits", per_query=Fraction(1)), Stored(("x", "main", "visits"), _COLUMNS)
        )
    },
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo", "Australia/Lord_Howe")
_CHANGES = "'2024-03-31', '2024-10-27', '2024-03-10', '2024-11-03', '2024-04-26'"
# In each session: by its own clocks, and by those of a zone that is written.
CONDITIONS = [
    "zoned >= '2024-03-31 00:00:00'",
    "zoned < '2024-10-28'",
    "zoned >= DATE '2024-03-31' AND zoned < DATE '2024-04-01'",
    "zoned BETWEEN TIMESTAMP '2024-06-01 00:00:00' AND TIMESTAMPTZ '2024-07-01 12:00:00+02'",
    "zoned IN ('2024-05-01 00:10:00+00', '2024-05-01 00:10:00', NULL)",
    "zoned = ANY ('{2024-05-01 00:10:00+02}'::timestamptz[])",
    "hour(zoned) = 1",
    "zoned::date = DATE '2024-10-27'",
    "zoned::timestamp < TIMESTAMP '2024-04-26 01:30:00'",
    "date_trunc('day', zoned) = DATE '2024-03-31'",
    "date_trunc('hour', zoned) >= '2024-07-01 01:00:00+00'",
    "epoch(date_trunc('day', zoned)) = 1711839600",
    "date_trunc('month', zoned) AT TIME ZONE 'UTC' < TIMESTAMP '2024-06-01'",
    "hour(zoned AT TIME ZONE 'Europe/Berlin') = 2 AND zoned AT TIME ZONE 'europe/berlin' > TIMESTAMP '2024-10-27'",
    f"CAST(zoned AT TIME ZONE 'America/New_York' AS DATE) IN ({_CHANGES})",
    "ts AT TIME ZONE 'Europe/Berlin' BETWEEN '2024-03-31 00:30:00+00' AND '2024-03-31 01:40:00+00'",
    "ts AT TIME ZONE 'Europe/Berlin' = zoned",
    "ts::timestamptz < zoned OR zoned IS NULL",
    "date_trunc('day', zoned) AT TIME ZONE 'America/New_York' < TIMESTAMP '2024-03-10 20:00:00'",
    "date_trunc('day', date_trunc('day', zoned)) AT TIME ZONE 'America/New_York' < TIMESTAMP '2024-03-10 20:00:00'",
    "time_bucket(INTERVAL '1 day', zoned) AT TIME ZONE 'Asia/Kolkata' = TIMESTAMP '2024-03-10 05:30:00'",
    "strftime(zoned, '%Y-%m-%d %H') = '2024-10-27 02'",
    "time_bucket(INTERVAL '1 day', zoned) = '2024-06-05 00:00:00+00'",
    "zoned AT TIME ZONE 'Asia/Kolkata' AT TIME ZONE 'UTC' > '2024-06-05 00:00:00+00'",
]
# In UTC alone, where the starts of days of moments are days.
IN_UTC = [
    "coalesce(date_trunc('day', zoned), NULL) AT TIME ZONE 'Asia/Kolkata' < TIMESTAMP '2024-03-10 20:00:00'",
    "(date_trunc('day', zoned) + INTERVAL 1 DAY) AT TIME ZONE 'Asia/Kolkata' < TIMESTAMP '2024-03-10 20:00:00'",
    "(date_trunc('day', zoned)::timestamp) AT TIME ZONE 'Asia/Kolkata' < '2024-03-10 20:00:00+00'",
]


def admitted(condition: str, zone: str) -> str:
    """What runs for a condition on records in a session of a zone, as SQL. Raises Refused."""
    statement = admit(f"SELECT count(*) FROM visits WHERE {condition}")
    today = Now.at(datetime(2026, 2, 28, 15, 45, 10), UTC if zone == "UTC" else ZoneInfo(zone))
    (asked,) = decide(statement, _CATALOG, table_functions(), AvailableReleases(), today).answers
    assert isinstance(asked, AggregatesQuestion)
    return " AND ".join(asked.filter)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute(_VISITS)
        yield made


@pytest.mark.parametrize("zone", ZONES)
def test_conditions_choose_what_duckdb_chooses(con: duckdb.DuckDBPyConnection, zone: str) -> None:
    """What runs is the same in each session: the zone is part of it."""
    for one in [*CONDITIONS, *(IN_UTC if zone == "UTC" else [])]:
        found = admitted(one, zone)
        own = one.replace("'{2024-05-01 00:10:00+02}'::", "['2024-05-01 00:10:00+02']::")
        con.execute(f"SET TimeZone = '{zone}'")
        theirs = con.execute(f"SELECT list(id ORDER BY id) FROM visits WHERE {own}").fetchall()
        con.execute("SET TimeZone = 'Pacific/Apia'")
        assert con.execute(f"SELECT list(id ORDER BY id) FROM visits WHERE {found}").fetchall() == theirs, one


@pytest.mark.parametrize(
    ("zone", "asked", "said"),
    [
        ("UTC", "zoned AT TIME ZONE 'Mars/Base' > '2024-01-01'", "AT TIME ZONE takes the constant name of a zone"),
        ("UTC", "ts AT TIME ZONE 'EST' > '2024-01-01'", "AT TIME ZONE takes the constant name of a zone"),
        ("UTC", "ts AT TIME ZONE strftime(ts, '%Y') > '2024-01-01'", "AT TIME ZONE takes the constant name of a zone"),
        ("UTC", f"{'(' * 6}ts{' + INTERVAL 1 DAY)' * 6} AT TIME ZONE 'Asia/Tokyo' > '2024-01-01'", "too often"),
        ("Europe/Berlin", "zoned >= '2024-10-27 02:30:00'", "not of an hour in which the zone's clocks change"),
        ("Europe/Berlin", "zoned >= '2024-03-31 02:30:00'", "not of an hour in which the zone's clocks change"),
        ("Europe/Berlin", "date_trunc('minute', zoned) > '2024-01-01'", "write date_trunc.*AT TIME ZONE"),
    ],
)
def test_what_is_not_followed_says_what_to_write(zone: str, asked: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        admitted(asked, zone)


def test_duckdb_knows_all_zones_of_the_list(con: duckdb.DuckDBPyConnection) -> None:
    """It fails on a record where it does not."""
    known = {name for (name,) in con.execute("SELECT name FROM pg_timezone_names()").fetchall()}
    assert known >= zones.NAMES
    assert len(zones.NAMES) > 500


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Apia"])
def test_ends_of_bounds_are_those_that_duckdb_finds(con: duckdb.DuckDBPyConnection, zone: str) -> None:
    """Also where clocks are put back just after the first moment, or before the last."""
    for first, last in (("2024-10-27 00:30:00", "2024-10-27 01:30:00"), ("2011-12-29 00:00:00", "2024-04-07 00:00:00")):
        ((low, high, *found),) = con.execute(
            "SELECT min(epoch_us(t)), max(epoch_us(t)), min(epoch_us(c)), max(epoch_us(c)), min(epoch_us(m)), "
            "max(epoch_us(m)) FROM (SELECT t, timezone($1, timezone('UTC', t)) AS c, timezone('UTC', timezone($1, t)) "
            "AS m FROM generate_series($2::TIMESTAMP, $3::TIMESTAMP, INTERVAL 30 MINUTE) r(t))",
            [zone, first, last],
        ).fetchall()
        for ends, least, most in (
            (zones.clock_ends(zone, low, high), *found[:2]),
            (zones.moment_ends(zone, low, high), *found[2:]),
        ):
            assert ends[0] <= least
            assert most <= ends[1]
            # What is less than half an hour after a record, or before one.
            assert ends[1] - ends[0] <= most - least + 3_600_000_000
