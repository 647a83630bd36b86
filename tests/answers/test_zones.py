"""Columns of times in zones other than UTC, on days on which clocks change: in each session what DuckDB says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import duckdb
import pytest

import duckanon
from duckanon import analyst
from duckanon.errors import PolicyRefusal
from duckanon.releases import mechanisms
from tests.amounts import sampled
from tests.answers.equality import Tolerance, difference
from tests.guard.truthful import truth

# A record in each half hour of a year, so that the hour is there that clocks show twice, and days of 23 and 25 hours.
_VISITS = """
SELECT i AS person, TIMESTAMP '2024-01-01 00:10:00' + to_seconds(i * 1800) AS ts, (i % 5)::INTEGER AS n,
  CASE WHEN i % 11 > 0 THEN TIMESTAMPTZ '2024-01-01 00:10:00+00' + to_seconds(i * 1800) END AS zoned
FROM range(17400) r(i)
"""
_PROTECT = """
SELECT protect('visits', privacy_unit := 'person', rows_per_unit := 1, epsilon := 100000, per_query := 10,
  public := ['ts', 'zoned'], bounds := {'ts': ['2024-01-01', '2024-12-31'],
  'zoned': [TIMESTAMPTZ '2024-01-01 00:00:00+00', TIMESTAMPTZ '2024-12-31 00:00:00+00']})
"""
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo")
KEYS = [
    "date_trunc('day', zoned)",
    "date_trunc('week', zoned)",
    "date_trunc('month', zoned)",
    "CAST(date_trunc('quarter', zoned) AS DATE)",
    "zoned::date",
    "hour(zoned)",
    "dayname(zoned)",
    "strftime(zoned, '%Y-%m-%d')",
    "time_bucket(INTERVAL '1 week', zoned)",
    "last_day(zoned)",
    "date_trunc('hour', zoned AT TIME ZONE 'Europe/Berlin')",
    "date_trunc('day', zoned AT TIME ZONE 'Africa/Cairo')::date",
    "date_trunc('month', ts AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York')::date",
    "date_trunc('day', ts AT TIME ZONE 'Europe/Berlin')",
    "date_trunc('week', zoned::timestamptz AT TIME ZONE 'America/New_York') AT TIME ZONE 'America/New_York'",
    "date_trunc('month'::text, timezone('Africa/Cairo'::text, zoned)) AT TIME ZONE 'Africa/Cairo'",
    "hour(date_trunc('day', zoned) AT TIME ZONE 'America/New_York')",
    "CAST(date_trunc('day', zoned) AT TIME ZONE 'Asia/Kolkata' AS DATE)",
    "extract(hour FROM zoned AT TIME ZONE 'America/New_York')",
]
Turn = Callable[[str], tuple[duckanon.Analyst, duckdb.DuckDBPyConnection]]


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turn]:
    """An analyst's connection, whose answers have no noise, and plain DuckDB, both in a zone."""
    path = tmp_path_factory.mktemp("zones") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        steward.execute(f"CREATE TABLE visits AS {_VISITS}")
        steward.execute(_PROTECT).fetchall()
    with pytest.MonkeyPatch.context() as patch, duckdb.connect() as plain:
        patch.setattr(mechanisms, "draw", truth)
        # An analyst cannot set the zone: here the test does.
        patch.setattr(analyst, "LOCKED", {**analyst.LOCKED, "lock_configuration": False})
        plain.execute(f"CREATE TABLE visits AS {_VISITS}")
        with duckanon.connect(path, role="analyst") as found:

            def turn(zone: str) -> tuple[duckanon.Analyst, duckdb.DuckDBPyConnection]:
                found._con.execute(f"SET GLOBAL TimeZone = '{zone}'").fetchall()
                plain.execute(f"SET TimeZone = '{zone}'")
                return found, plain

            yield turn


@pytest.mark.parametrize(("zone", "key"), sampled(list(product(_ZONES, KEYS)), every=3))
def test_keys(turned: Turn, zone: str, key: str) -> None:
    con, plain = turned(zone)
    sql = f"SELECT {key} AS k, count(*) FROM visits GROUP BY k ORDER BY k"
    mine, theirs = con.execute(sql).fetchall(), plain.execute(sql).fetchall()
    assert difference(sql, mine, theirs, [*mine, *theirs], Tolerance()) is None
    kinds = [str(type(one[0])) for one in (mine[0], theirs[0])]
    assert kinds[0] == kinds[1] or "date_trunc" in key


def test_an_answer_of_one_zone_is_none_of_another(turned: Turn) -> None:
    """The same text, the same records: what is stored is given again only where it means the same."""
    sql = "SELECT count(*) FROM visits WHERE zoned < '2024-05-01 00:00:00'"
    found = {}
    for zone in (*_ZONES[:2], *_ZONES[:2]):
        con, plain = turned(zone)
        found[zone] = con.execute(sql).fetchall()
        assert found[zone] == plain.execute(sql).fetchall()
    assert found["UTC"] != found["Europe/Berlin"]


def test_hours_that_a_zone_leaves_out_are_no_keys(turned: Turn) -> None:
    con, plain = turned("Europe/Berlin")
    with pytest.raises(PolicyRefusal, match=r"write date_trunc.'hour', x AT TIME ZONE 'Europe/Berlin'"):
        con.execute("SELECT date_trunc('hour', zoned) AS h, count(*) FROM visits GROUP BY h")
    con, plain = turned("Asia/Kolkata")
    sql = "SELECT date_trunc('hour', zoned) AS h, count(*) FROM visits GROUP BY h"
    mine = {key: number for key, number in con.execute(sql).fetchall() if number}
    assert mine == dict(plain.execute(sql).fetchall())
