"""Joins, subqueries and sets over random customers, orders and lines: without noise the answers are DuckDB's own."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.errors import PolicyRefusal
from tests.amounts import sampled
from tests.answers.checking import made, without_noise
from tests.answers.equality import is_quantile

STATEMENTS = [
    one.strip()
    for one in Path("fixtures/answers/within_units.sql").read_text(encoding="utf-8").split(";\n")
    if one.strip()
]
# Every record lies in its domains and bounds, and no unit has more records than count. So nothing is left out.
_RECORDS = """
  INSERT INTO nation SELECT i, 'nation ' || i, i % 2, '' FROM range(5) r(i);
  INSERT INTO part SELECT i, 'part', 'm', 'Brand#' || [12, 23, 34][1 + i % 3],
    ['PROMO TIN', 'SMALL TIN'][1 + i % 2], 1 + i % 20, ['SM BOX', 'MED BOX', 'LG BOX'][1 + i % 3], 1, ''
    FROM range(30) r(i);
  INSERT INTO customer SELECT i, 'c' || i, '', (random() * 4)::INTEGER,
    [13, 31, 23, 29, 30, 18, 17, 99][1 + i % 8]::VARCHAR || '-1',
    floor(random() * 1000 - 200)::DECIMAL(15, 2), ['BUILDING', 'MACHINERY'][1 + i % 2], '' FROM range(200) r(i);
  INSERT INTO orders SELECT i, (i * 7) % 150, ['F', 'O'][1 + floor(random() * 2)::INTEGER],
    floor(random() * 600)::DECIMAL(15, 2), DATE '1995-01-01' + floor(random() * 365)::INTEGER, '1-URGENT', 'k', 0, ''
    FROM range(500) r(i);
  INSERT INTO lineitem SELECT i // 2, floor(random() * 30)::BIGINT, 1, 1 + i % 2, 1 + floor(random() * 30)::INTEGER,
    floor(random() * 1000)::DECIMAL(15, 2), (floor(random() * 11) / 100)::DECIMAL(15, 2), 0, 'A', 'F',
    DATE '1995-06-01' + floor(random() * 200)::INTEGER, DATE '1995-06-01', DATE '1995-06-01',
    ['DELIVER IN PERSON', 'NONE'][1 + i % 2], ['AIR', 'AIR REG', 'SHIP'][1 + i % 3], '' FROM range(900) r(i)
"""
_CALLS = """
  CREATE TABLE closed AS SELECT 1 AS s_key;
  CREATE VIEW seen AS SELECT s_key FROM closed;
  SELECT open_table('nation'), open_table('part'), open_table('seen');
  SELECT protect('customer', population := 'customers', privacy_unit := 'c_custkey', rows_per_unit := 1,
    epsilon := 100000, per_query := 10, public := ['c_mktsegment', 'c_nationkey', 'c_phone'],
    domains := {'c_mktsegment': ['BUILDING', 'MACHINERY'], 'c_nationkey': {'from': 0, 'to': 4}},
    bounds := {'c_acctbal': [-1000, 1000, 0.01]});
  SELECT protect('orders', population := 'customers', privacy_unit := 'o_custkey', rows_per_unit := 10,
    epsilon := 100000, per_query := 10, public := ['o_orderstatus'], domains := {'o_orderstatus': ['F', 'O']},
    bounds := {'o_totalprice': [0, 1000, 0.01]});
  SELECT protect('lineitem', population := 'lines', privacy_unit := 'l_orderkey', rows_per_unit := 2,
    epsilon := 100000, per_query := 10,
    bounds := {'l_quantity': [1, 50], 'l_extendedprice': [0, 1000, 0.01], 'l_discount': [0, 0.1, 0.01]})
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    schema = Path("fixtures/tpch/schema.sql").read_text(encoding="utf-8")
    with without_noise(made(tmp_path_factory.mktemp("within") / "x.duckdb", schema, _RECORDS, _CALLS)) as found:
        yield found


@pytest.fixture(scope="module")
def plain(con: duckanon.Analyst) -> Iterator[duckdb.DuckDBPyConnection]:
    with con._con.cursor() as found:
        yield found


@pytest.mark.parametrize("sql", sampled(STATEMENTS, every=3), ids=lambda sql: sql[:70])
def test_it_is_duckdbs_own_answer(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    if "median(" in sql:
        # A median is told to a step of the bounds.
        listed = dict(plain.execute(sql.replace("median(", "list(")).fetchall())
        told = dict(con.execute(sql).fetchall())
        assert told.keys() == listed.keys()
        assert all(is_quantile(listed[key], Fraction(1, 2), value, 2.0) for key, value in told.items())
        return
    mine, theirs = (_by_texts(one.execute(sql).fetchall()) for one in (con, plain))
    assert theirs.keys() <= mine.keys()
    for key, numbers in mine.items():
        # Cells that nobody is in are rows of zeros.
        wanted = theirs.get(key, [0.0] * len(numbers))
        assert [one or 0 for one in numbers] == pytest.approx([one or 0 for one in wanted], rel=1e-3, abs=0.01)


def _by_texts(rows: list[tuple[Any, ...]]) -> dict[tuple[str, ...], list[Any]]:
    """The numbers of each row, by its texts."""
    found = {
        tuple(one for one in row if isinstance(one, str)): [
            None if one is None else float(one) for one in row if not isinstance(one, str)
        ]
        for row in rows
    }
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SELECT count(*) FROM customer JOIN orders ON c_custkey = o_custkey JOIN mine ON k = c_custkey",
            "`mine` cannot be answered. A temporary table is seen by nobody else: join the answer with it.",
        ),
        (
            "SELECT count(*) FROM customer "
            "WHERE EXISTS (SELECT 1 FROM orders, mine WHERE k = o_custkey AND k = c_custkey)",
            "`mine` cannot be answered. A temporary table is seen by nobody else: join the answer with it.",
        ),
        (
            "SELECT count(*) FROM customer JOIN orders ON c_custkey = o_custkey JOIN seen ON s_key = c_custkey",
            "cannot be answered. What stands behind a view is not joined with protected records here: join the answer.",
        ),
    ],
)
def test_what_is_no_open_table_is_not_joined_within_units(con: duckanon.Analyst, sql: str, said: str) -> None:
    con.execute("CREATE OR REPLACE TEMP TABLE mine AS SELECT 1 AS k")
    with pytest.raises(PolicyRefusal) as raised:
        con.execute(sql)
    assert said in str(raised.value)
