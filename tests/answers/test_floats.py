"""Floats whose policy declares no step: computed within units, too, they are rounded to steps that do not show."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

import pytest

from tests.answers.checking import Both, beside_duckdb

RECORDS = 300
_RECORDS = f"""
  CREATE TABLE a AS SELECT i AS id, (i % 50) / 100.0::DOUBLE AS x, i % 50 AS n, (i % 9 / 8)::FLOAT AS f,
    (i % 40 / 10)::DECIMAL(6, 1) AS price FROM range({RECORDS}) r(i);
  CREATE TABLE b AS SELECT i AS id, (i % 7) / 10.0::DOUBLE AS x, i % 50 AS n, (i % 5 / 4)::FLOAT AS f,
    (0.05 + i % 40 / 10)::DECIMAL(6, 2) AS price FROM range({RECORDS}) r(i)
"""
_CALLS = """
  SELECT protect('a', population := 'p', epsilon := 9999, privacy_unit := 'id', rows_per_unit := 1, per_query := 1,
    bounds := {'x': [0, 1], 'n': [0, 50], 'f': [-1, 3], 'price': [0, 5, 0.1]});
  SELECT protect('b', population := 'p', epsilon := 9999, privacy_unit := 'id', rows_per_unit := 1, per_query := 1,
    bounds := {'x': [0, 1], 'n': [0, 50], 'f': [-1, 3], 'price': [0.05, 5.05, 0.2]})
"""
STATEMENTS = [
    "SELECT sum(x), avg(x) FROM (SELECT x FROM a UNION ALL SELECT x FROM b)",
    "SELECT sum(f) FROM (SELECT f FROM a UNION ALL SELECT f FROM b)",
    "SELECT sum(v) FROM (SELECT x AS v FROM a UNION ALL SELECT n FROM b)",
    "SELECT sum(v) FROM (SELECT n AS v FROM a UNION ALL SELECT x FROM b)",
    "SELECT sum(v) FROM (SELECT x AS v FROM a UNION ALL SELECT 0.25::DOUBLE FROM b)",
    "SELECT sum(v) FROM (SELECT 0.1::DOUBLE AS v FROM a UNION ALL SELECT 0.25::DOUBLE FROM b)",
    "SELECT sum(v) FROM (SELECT n / 10 AS v FROM a UNION ALL SELECT 0.25::DOUBLE FROM b)",
    "SELECT sum(v) FROM (SELECT price AS v FROM a UNION ALL SELECT 0.05::DECIMAL(6, 2) FROM b)",
    "SELECT sum(v) FROM (SELECT n AS v FROM a UNION ALL SELECT n * 2 + 1 FROM b)",
    "SELECT sum(x) FROM (FROM a UNION FROM b)",
    "SELECT sum(CASE WHEN n > 3 THEN x ELSE 0 END) FROM (FROM a UNION ALL FROM b)",
    "SELECT sum(s) FROM (SELECT id, max(x) AS s FROM a GROUP BY id)",
    "SELECT sum(s) FROM (SELECT id, min(f) AS s FROM a GROUP BY id)",
    "SELECT sum(s) FROM (SELECT id, max(x) FILTER (x < 0.3) AS s FROM a GROUP BY id)",
    "SELECT sum(s) FROM (SELECT id, max(x) OVER (PARTITION BY id) AS s FROM a)",
    "SELECT sum(s) FROM (SELECT id, sum(x * n) AS s FROM a GROUP BY id)",
    "SELECT sum((SELECT max(x) FROM b WHERE b.id = a.id)) FROM a",
    "SELECT sum(l.m) FROM a, LATERAL (SELECT max(x) AS m FROM b WHERE b.id = a.id) l",
    "SELECT sum(greatest(a.x, b.x)) FROM a JOIN b USING (id)",
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with beside_duckdb(tmp_path_factory.mktemp("floats") / "x.duckdb", _RECORDS, _CALLS) as found:
        yield found


@pytest.mark.parametrize("sql", STATEMENTS)
def test_they_are_rounded_to_a_millionth_of_the_way_between_their_bounds(both: Both, sql: str) -> None:
    (numbers,), (exact,) = (each.execute(sql).fetchall() for each in both)
    for number, own in zip(numbers, exact, strict=True):
        # The widest way is that of `n`, 50, or 1,000 of its products.
        assert isclose(number, own, rel_tol=1e-9, abs_tol=2 * RECORDS * 1e-6 * 50 / 2)
