"""Tables that say whose a record is in different ways: by the unit's column, and by a link to that column."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import duckanon
from duckanon.releases import mechanisms
from tests.guard.truthful import truth

_TABLES = """
  CREATE TABLE customers AS SELECT i AS c, ['a', 'b'][1 + i % 2] AS segment FROM range(40) r(i);
  ALTER TABLE customers ADD PRIMARY KEY (c);
  CREATE TABLE orders AS SELECT i AS o, i % 45 AS c FROM range(90) r(i);
  CREATE TABLE calls AS SELECT i % 20 AS c, i AS day FROM range(30) r(i);
  SELECT protect('customers', population := 'p', privacy_unit := 'c', rows_per_unit := 1, epsilon := 1000,
    per_query := 10, public := ['segment'], domains := {'segment': ['a', 'b']});
  SELECT protect('orders', population := 'p', link := {'c': 'customers.c'}, rows_per_unit := 3, per_query := 10);
  SELECT protect('calls', population := 'p', privacy_unit := 'c', rows_per_unit := 3, per_query := 10)
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("links") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in _TABLES.split(";"):
            steward.execute(one).fetchall()
    with pytest.MonkeyPatch.context() as patch, duckanon.connect(path, role="analyst") as found:
        patch.setattr(mechanisms, "draw", truth)
        yield found


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The records that have an owner."""
    with duckdb.connect() as found:
        for one in _TABLES.split(";")[:4]:
            found.execute(one)
        found.execute("DELETE FROM orders WHERE c NOT IN (SELECT c FROM customers)")
        yield found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM orders a JOIN calls b ON a.c = b.c",
        "SELECT count(DISTINCT a.c) FROM orders a JOIN calls b ON a.c = b.c",
        "SELECT segment, count(*) FROM customers JOIN orders USING (c) GROUP BY segment ORDER BY segment",
        "SELECT count(*) FROM (SELECT c FROM orders UNION SELECT c FROM calls)",
        "SELECT count(*) FROM orders WHERE c IN (SELECT c FROM calls)",
        "SELECT count(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM calls k WHERE k.c = o.c)",
        "SELECT count(*) FROM (SELECT c, count(*) AS n FROM orders GROUP BY c HAVING count(*) > 1)",
    ],
)
def test_they_are_of_one_unit(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert con.execute(sql).fetchall() == plain.execute(sql).fetchall()
