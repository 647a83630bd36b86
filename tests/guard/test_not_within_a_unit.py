"""What would be answered with other rows than DuckDB's is not: found by somebody who tried joins from outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.releases import mechanisms
from tests.guard.truthful import truth

_TABLES = """
  CREATE TABLE customers AS SELECT i AS c, ['home', 'auto'][1 + i % 2] AS segment FROM range(40) r(i);
  CREATE TABLE orders AS SELECT i AS o, i % 30 AS c FROM range(90) r(i);
  CREATE TABLE labels (code VARCHAR COLLATE nocase, label VARCHAR);
  INSERT INTO labels VALUES ('home', 'H'), ('AUTO', 'A');
  SELECT open_table('labels');
  SELECT protect('customers', population := 'p', privacy_unit := 'c', rows_per_unit := 1, epsilon := 1000,
    per_query := 10, public := ['segment'], domains := {'segment': ['home', 'auto']});
  SELECT protect('orders', population := 'p', privacy_unit := 'c', rows_per_unit := 3, per_query := 10,
    bounds := {'o': [0, 90]})
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("within") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in _TABLES.split(";"):
            steward.execute(one).fetchall()
    with pytest.MonkeyPatch.context() as patch, duckanon.connect(path, role="analyst") as found:
        patch.setattr(mechanisms, "draw", truth)
        yield found


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT count(*) FROM (SELECT c FROM orders EXCEPT ALL SELECT c FROM customers)", "EXCEPT ALL"),
        ("SELECT count(*) FROM (SELECT c FROM orders INTERSECT ALL SELECT c FROM customers)", "INTERSECT ALL"),
        ("SELECT count(*) FROM (SELECT c, unnest([1, 2, 3]) AS n FROM customers)", "cannot be answered"),
        ("SELECT count(*) FROM (SELECT c, unnest([]::INT[]) AS n FROM customers)", "cannot be answered"),
        (
            "SELECT count(*) FROM (SELECT c, 42535295865117307932921825928971026432 AS x FROM customers WHERE c = 7 "
            "UNION SELECT c, 1.5 FROM customers)",
            "do not fit into one type",
        ),
    ],
)
def test_it_is_refused_and_not_charged(con: duckanon.Analyst, sql: str, why: str) -> None:
    before = con.execute("FROM privacy_ledger()").fetchall()
    with pytest.raises(DuckanonError, match=why):
        con.execute(sql)
    assert con.execute("FROM privacy_ledger()").fetchall() == before


def test_an_open_table_with_a_collation_is_joined_by_it(con: duckanon.Analyst) -> None:
    """By bytes 'AUTO' would be nobody's label. So the segments are counted first, and DuckDB joins the answer."""
    sql = "SELECT label, count(*) AS n FROM customers JOIN labels ON segment = code GROUP BY label ORDER BY label"
    assert con.execute(sql).fetchall() == [("A", 20), ("H", 20)]


def test_a_value_under_a_condition_that_is_never_met_is_null(con: duckanon.Analyst) -> None:
    """Its answer has no cell. It was left out then, and the draw that needs it failed after the charge."""
    sql = "SELECT count(*) FROM customers WHERE c > (SELECT avg(o) FROM orders WHERE 1 = 0)"
    assert con.execute(sql).fetchall() == [(0,)]


def test_a_subquery_for_a_value_shows_no_column_that_it_does_not_aggregate(con: duckanon.Analyst) -> None:
    """DuckDB refuses it."""
    with pytest.raises(DuckanonError, match="cannot be answered"):
        con.execute("SELECT count(*) FROM customers t WHERE (SELECT count(*) + o.c FROM orders o WHERE o.c = t.c) > 3")
