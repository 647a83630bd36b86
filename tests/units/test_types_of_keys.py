"""A look-up by columns of two types, of which one value is equal to several others, would find several rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duckanon
from duckanon.errors import PolicyRefusal

_MADE = """
  CREATE TABLE days AS SELECT i AS d, DATE '5000000-01-01' + i::INTEGER AS far,
    TIMESTAMPTZ '291000-01-01 00:00:00+00' + to_days(i::INTEGER) AS moment FROM range(100) r(i);
  CREATE TABLE items AS SELECT 1152921504606846976 + i AS big, i::INTEGER AS small, i::DECIMAL(20, 0) AS wide
    FROM range(100) r(i);
  CREATE TABLE w AS SELECT 'u' || i AS uid, i % 7 + 0.5 AS pay, (i % 7)::DOUBLE AS x, (i % 7)::SMALLINT AS n,
    TIMESTAMP '2024-01-01' AS ts, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS seen FROM range(20) r(i);
  ALTER TABLE w ALTER pay TYPE DOUBLE;
  CREATE TABLE o (okey BIGINT PRIMARY KEY, cust VARCHAR, x DOUBLE);
  INSERT INTO o SELECT i, 'u' || i, i FROM range(20) r(i);
  SELECT open_table('days'); SELECT open_table('items');
  SELECT protect('w', population := 'p', privacy_unit := 'uid', rows_per_unit := 2, epsilon := 100, per_query := 1,
    bounds := {'ts': [TIMESTAMP '2024-01-01', TIMESTAMP '2024-12-31']});
  SELECT protect('o', population := 'p', privacy_unit := 'cust', rows_per_unit := 2, epsilon := 100, per_query := 1)
"""
_CLOSE = "(SELECT 42.5 + d * 0.00000000000000000000000001 AS k FROM days GROUP BY 1)"


_STARTS = "(SELECT uid, date_trunc('{}', ts) AS m FROM w GROUP BY 1, 2)"
_NEXT = "SELECT count(*) FROM {0} a LEFT JOIN {0} b ON b.uid = a.uid AND b.m = a.m + INTERVAL 1 MONTH"


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path: Path = tmp_path_factory.mktemp("types") / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        for one in _MADE.split(";"):
            steward.execute(one).fetchall()
    with duckanon.connect(path, role="analyst") as analyst:
        yield analyst


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT count(*) FROM w JOIN {_CLOSE} a ON a.k = w.pay JOIN {_CLOSE} b ON b.k = w.pay",
        f"SELECT count(*) FROM w LEFT JOIN {_CLOSE} a ON a.k = w.pay",
        "SELECT count(*) FROM w JOIN items a ON a.big = w.x JOIN items b ON b.big = w.x",
        "SELECT count(*) FROM w JOIN items ON items.wide = w.x",
        "SELECT count(*) FROM w JOIN days ON days.far = w.ts",
        _NEXT.format(_STARTS.format("week")),
        "SELECT count(*) FROM w LEFT JOIN days ON days.far = w.ts",
        "SELECT count(*) FROM w JOIN days ON days.moment = w.seen",
        "SELECT count(*) FROM w WHERE (SELECT max(small) FROM items WHERE items.big = w.x) > 3",
        "SELECT count(*) FROM w WHERE (SELECT small FROM items WHERE items.big = w.x) > 3",
        "SELECT count(*) FROM w, LATERAL (SELECT max(small) AS m FROM items WHERE items.big = w.x) WHERE m > 3",
    ],
)
def test_types_that_do_not_tell_values_apart_find_nothing(con: duckanon.Analyst, sql: str) -> None:
    before = con.execute("SELECT spent_exact FROM privacy_budget()").fetchall()
    with pytest.raises(PolicyRefusal, match="of which one value may be equal to several others"):
        con.execute(sql)
    assert con.execute("SELECT spent_exact FROM privacy_budget()").fetchall() == before


def test_days_and_moments_are_compared_as_one_type(con: duckanon.Analyst) -> None:
    with pytest.raises(PolicyRefusal, match=r"date_trunc\('day', x\)"):
        con.execute("SELECT count(*) FROM w JOIN days ON days.far = w.ts")


def test_a_key_of_another_type_is_no_key(con: duckanon.Analyst) -> None:
    """Each side is cut, as where several rows of a unit meet several: else all orders of a unit would meet one."""
    joined = "SELECT count(*) FROM o a JOIN o b ON b.cust = a.cust AND b.okey = a.{}"
    as_key, as_double = (repr(con.explain(joined.format(column))) for column in ("okey", "x"))
    assert (as_key.count("Cut("), as_double.count("Cut(")) == (0, 2)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM w JOIN items ON items.small = w.n",
        _NEXT.format(_STARTS.format("month")),
        "SELECT count(*) FROM w JOIN items ON items.big = w.n",
        "SELECT count(*) FROM w JOIN items ON items.wide = w.n",
        "SELECT count(*) FROM w JOIN items ON items.small = w.x",
        "SELECT count(*) FROM w WHERE EXISTS (SELECT 1 FROM items WHERE items.big = w.x AND items.small > 3)",
        "SELECT count(*) FROM w WHERE (SELECT max(big) FROM items WHERE items.small = w.x) > 3",
    ],
)
def test_others_do(con: duckanon.Analyst, sql: str) -> None:
    assert len(con.execute(sql).fetchall()) == 1


def test_truth_values_of_a_unit_are_put_together_and_no_numbers(con: duckanon.Analyst) -> None:
    together = "SELECT count(*) FROM (SELECT cust, bool_and({}) AS b FROM o GROUP BY cust) WHERE b"
    assert con.explain(together.format("okey > 3")).refusal is None
    assert con.explain(together.format("okey")).refusal is not None
