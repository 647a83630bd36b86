"""Dates and timestamps of the queries of a UNION lie within bounds that hold for all; answers are DuckDB's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.answers.checking import Both, beside_duckdb, check

RECORDS = 400
_COLUMNS = """
  CASE WHEN i % 11 <> 0 THEN DATE '2023-11-15' + (i * 7 % 500)::INTEGER END AS day,
  CASE WHEN i % 10 <> 0 THEN DATE '2024-01-01' + (i * 3 % 200)::INTEGER END AS done,
  CASE WHEN i % 13 <> 0 THEN TIMESTAMP '2023-12-30 22:00:00' + to_seconds(i::BIGINT * 86399 % 34560000) END AS moment
"""
_RECORDS = f"""
  CREATE TABLE a AS SELECT i AS id, {_COLUMNS} FROM range({RECORDS}) r(i);
  CREATE TABLE m AS SELECT i // 4 AS id, {_COLUMNS} FROM range({RECORDS}) r(i)
"""
_BOUNDS = """
  bounds := {'day': ['2023-11-01', '2025-06-30'], 'done': ['2024-01-01', '2024-12-31'],
    'moment': ['2023-12-01 00:00:00', '2025-06-30 00:00:00']}
"""
_CALLS = f"""
  SELECT protect('a', population := 'p', epsilon := 9999, privacy_unit := 'id', rows_per_unit := 1, per_query := 1,
    {_BOUNDS});
  SELECT protect('m', population := 'p', epsilon := 9999, privacy_unit := 'id', rows_per_unit := 4, per_query := 1,
    {_BOUNDS})
"""
UNIONS = [
    "SELECT day AS v FROM m UNION ALL SELECT done FROM m",
    "SELECT day AS v FROM m UNION ALL SELECT moment FROM a",
    "SELECT moment AS v FROM a UNION ALL SELECT done FROM m",
    "SELECT id, min(day) AS v FROM m GROUP BY id UNION ALL SELECT id, min(moment) FROM m GROUP BY id",
    "SELECT id, date_trunc('month', min(day)) AS v FROM m GROUP BY id UNION ALL SELECT id, moment FROM m",
    "SELECT id, min(day) + 1 AS v FROM m GROUP BY id UNION ALL SELECT id, moment + INTERVAL 1 HOUR FROM a",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with beside_duckdb(tmp_path_factory.mktemp("dates") / "x.duckdb", _RECORDS, _CALLS) as found:
        yield found


@pytest.mark.parametrize("union", UNIONS)
def test_times_since_a_day(both: Both, union: str) -> None:
    check(*both, f"SELECT avg(date_diff('day', DATE '2024-01-01', v)), count(v) FROM ({union})", 2 * RECORDS)


@pytest.mark.parametrize("union", UNIONS)
def test_counts_by_year(both: Both, union: str) -> None:
    sql = f"SELECT year(v), count(*) FROM ({union}) GROUP BY ALL"
    mine, theirs = (Counter(dict(each.execute(sql).fetchall())) for each in both)
    assert +mine == theirs
