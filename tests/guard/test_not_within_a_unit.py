"""What would be answered with other rows than DuckDB's is not: found by somebody who tried joins from outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.releases import mechanisms
from duckanon.units.building import Builder
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
            "Values of different types are compared",
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


@pytest.mark.parametrize("read", ["orders", "customers JOIN orders USING (c)"])
def test_a_sum_in_a_group_is_told_to_lack_the_bounds_of_its_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """The policy was said to offer no group sizes. With the bounds that are asked for it has an answer."""
    monkeypatch.setattr(mechanisms, "draw", truth)
    path = tmp_path / "x.duckdb"
    protected = (
        "SELECT protect('{}', population := 'c', privacy_unit := 'c', rows_per_unit := {}, epsilon := 100, "
        "per_query := 1{})"
    )
    with duckanon.connect(path, role="steward") as steward:
        steward.execute("CREATE TABLE customers AS SELECT c FROM range(60) r(c)")
        steward.execute("CREATE TABLE orders AS SELECT i // 3 AS c, i % 7 AS qty FROM range(180) r(i)")
        steward.execute("CREATE MACRO closed() AS TABLE SELECT c, sum(qty) AS t FROM orders GROUP BY c")
        steward.execute(protected.format("customers", 1, "")).fetchall()
        steward.execute(protected.format("orders", 3, "")).fetchall()
    sql = f"SELECT avg(t) AS a FROM (SELECT c, sum(qty) AS t FROM {read} GROUP BY c)"
    with duckanon.connect(path, role="analyst") as analyst:
        with pytest.raises(DuckanonError, match=r"`sum\(qty\)` cannot be answered.* bounds := {'qty': \["):
            analyst.execute(sql)
        with pytest.raises(DuckanonError) as refused:
            analyst.execute("SELECT avg(t) FROM closed()")
        assert "qty" not in str(refused.value)
    with duckanon.connect(path, role="steward") as steward:
        steward.execute("SELECT unprotect('orders')").fetchall()
        steward.execute(protected.format("orders", 3, ", bounds := {'qty': [0, 6]}")).fetchall()
    with duckanon.connect(path, role="analyst") as analyst:
        assert isinstance(analyst, duckanon.Analyst)
        with analyst._con.cursor() as plain:
            assert analyst.execute(sql).fetchall() == plain.execute(sql).fetchall()


@pytest.mark.parametrize("number", ["count(*)", "avg(o)"])
def test_a_lateral_query_for_numbers_of_all_units_is_refused(con: duckanon.Analyst, number: str) -> None:
    asked = f"LATERAL (SELECT {number} AS m FROM customers y JOIN orders USING (c) WHERE y.segment = x.segment) t"
    with pytest.raises(DuckanonError, match="What may be asked"):
        con.execute(f"SELECT count(*) FROM customers x, {asked} WHERE x.c < t.m").fetchall()
    grouped = f"(SELECT segment, {number} AS m FROM customers JOIN orders USING (c) GROUP BY segment) t"
    joined = f"SELECT count(*) FROM customers x, {grouped} WHERE x.segment = t.segment"
    assert len(con.execute(joined).fetchall()) == 1


def _averages(depth: int) -> str:
    """Each above the average of its segment among those above the average of theirs, and so on."""
    opened = "".join(
        f"c{at}.c > (SELECT avg(o) FROM customers c{at + 1} JOIN orders USING (c) "
        f"WHERE c{at + 1}.segment = c{at}.segment AND "
        for at in range(depth)
    )
    return f"SELECT count(*) FROM customers c0 WHERE {opened}true{')' * depth}"


def _groups(depth: int) -> str:
    opened, closed = "SELECT c, max(o) - min(o) AS o FROM (" * depth, ") GROUP BY c" * depth
    return f"SELECT count(*) FROM ({opened}SELECT c, o FROM orders{closed})"


@pytest.mark.parametrize("nested", [_averages, _groups])
def test_work_does_not_double_with_each_query_around_another(
    con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, nested: Callable[[int], str]
) -> None:
    made = Counter[int]()
    real = Builder.block

    def block(self: Builder, *given: Any, **named: Any) -> Any:
        made[depth] += 1
        return real(self, *given, **named)

    monkeypatch.setattr(Builder, "block", block)
    for depth in (3, 7):
        con.explain(nested(depth))
    assert 0 < made[3] < made[7] < 9 * made[3]
