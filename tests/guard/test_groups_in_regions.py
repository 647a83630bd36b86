"""Groups that lie in several regions, or in none: what is answered without noise is DuckDB's own answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duckanon
from duckanon.errors import PolicyRefusal
from duckanon.releases import group_size_queries, mechanisms
from tests.guard.truthful import truth

TABLES = """
  CREATE TABLE counties AS SELECT * FROM (VALUES ('A', 'a1'), ('A', 'a2'), ('B', 'b1')) v(state, county);
  SELECT setseed(0.25);
  CREATE TABLE persons AS SELECT i AS person, floor(random() * 90)::INTEGER AS hh, random() < 0.5 AS adult,
    [NULL, 'a1', 'a2', 'b1'][1 + floor(random() * 4)::INTEGER] AS county FROM range(260) r(i);
  ALTER TABLE persons ADD COLUMN state VARCHAR;
  UPDATE persons SET state = CASE WHEN county IS NULL THEN 'elsewhere' ELSE upper(county[1]) END
"""
POLICY = """
  SELECT open_table('counties');
  SELECT protect('persons', population := 'residents', privacy_unit := 'person', rows_per_unit := 1, epsilon := 1000,
    per_query := 1, unit := 'hh', hierarchy := ['state', 'county'], max_size := 30,
    domains := {'state': 'counties', 'county': 'counties'})
"""
# Records without a region count where no region is named.
STATEMENTS = [
    "SELECT size, count(*) FROM (SELECT hh, count(*) AS size FROM persons GROUP BY hh) GROUP BY size",
    "SELECT avg(size), count(*) FROM (SELECT hh, count(*) AS size FROM persons GROUP BY hh)",
    "SELECT size, count(*) FROM (SELECT hh, count(*) AS size FROM persons WHERE adult GROUP BY hh) GROUP BY size",
    "SELECT size, count(*) FROM (SELECT hh, count(*) AS size FROM persons WHERE state IN ('A', 'B') "
    "GROUP BY state, hh) GROUP BY size",
    "SELECT state, size, count(*) FROM (SELECT state, hh, count(*) AS size FROM persons WHERE state <> 'elsewhere' "
    "GROUP BY ALL) GROUP BY state, size",
    "SELECT county, size, count(*) FROM (SELECT state, county, hh, count(*) AS size FROM persons "
    "WHERE county IS NOT NULL GROUP BY ALL) GROUP BY ALL",
    "SELECT size, count(*) FROM (SELECT state, county, hh, count(*) AS size FROM persons WHERE county IS NOT NULL "
    "GROUP BY ALL) GROUP BY size",
    # A group with records in several of these regions is one group.
    "SELECT size, count(*) FROM (SELECT hh, count(*) AS size FROM persons WHERE state IN ('A', 'B') GROUP BY hh) "
    "GROUP BY size",
    "SELECT size, count(*) FROM (SELECT hh, count(*) AS size FROM persons WHERE county = 'a1' GROUP BY hh) "
    "GROUP BY size",
    "SELECT size, count(*) FROM (SELECT county, hh, count(*) AS size FROM persons GROUP BY ALL) GROUP BY size",
    "SELECT size, count(*) FROM (SELECT county, hh, count(*) AS size FROM persons WHERE state <> 'A' GROUP BY ALL) "
    "GROUP BY size",
]  # fmt: skip


@pytest.fixture
def con(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[duckanon.Analyst]:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward", config={"threads": 1}) as found:
        for one in (*TABLES.split(";"), *POLICY.split(";")):
            found.execute(one).fetchall()
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as found:
        assert isinstance(found, duckanon.Analyst)
        yield found


def differing(con: duckanon.Analyst) -> list[str]:
    """The statements whose answers are not DuckDB's; rows without groups do not count."""
    found = []
    with con._con.cursor() as plain:
        for sql in STATEMENTS:
            mine = sorted(str(row) for row in con.execute(sql).fetchall() if row[-1] != 0)
            if mine != sorted(str(row) for row in plain.execute(sql).fetchall()):
                found.append(sql)
    return found


def test_answers_are_duckdbs_own(con: duckanon.Analyst) -> None:
    assert differing(con) == []


def test_the_twin_that_always_counts_in_leaf_regions_fails(
    con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_size_queries, "_needed_regions", lambda found, keys, lookup, on_records: len(keys))
    assert len(differing(con)) >= 4


def test_a_region_is_counted_with_all_wider_ones(con: duckanon.Analyst) -> None:
    of_counties = (
        "SELECT county, size, count(*) FROM (SELECT county, hh, count(*) AS size FROM persons {} GROUP BY ALL)"
    )
    with pytest.raises(PolicyRefusal, match="its GROUP BY has all wider ones too, here state"):
        con.execute(f"{of_counties.format('')} GROUP BY ALL")
    one_state = of_counties.format("WHERE state = 'A'")
    found = con.execute(f"{one_state} GROUP BY ALL").fetchall()
    assert {row[0] for row in found} == {"a1", "a2"}
