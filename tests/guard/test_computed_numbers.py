"""Sums and means of what is computed from columns: TPC-H's queries over a single protected table of lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.errors import InvalidInput, PolicyRefusal
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import AggregatesQuestion
from tests.guard.truthful import truth
from tests.releases.databases import spent

# Every value lies within its bounds, and each owner has four lines.
_LINES = """
  CREATE TABLE lineitem AS SELECT i // 4 AS owner, i AS line, (1 + i * 13 % 50)::DECIMAL(15, 2) AS l_quantity,
    ((90000 + i * 7919 % 10494950) / 100)::DECIMAL(15, 2) AS l_extendedprice,
    (i % 11 / 100)::DECIMAL(15, 2) AS l_discount, (i * 3 % 9 / 100)::DECIMAL(15, 2) AS l_tax,
    ['A', 'N', 'R'][1 + i % 3] AS l_returnflag, ['F', 'O'][1 + i // 3 % 2] AS l_linestatus,
    DATE '1992-01-02' + (i * 31 % 2500)::INTEGER AS l_shipdate,
    DATE '1992-01-03' + (i * 31 % 2500 + i % 30)::INTEGER AS l_receiptdate,
    ['AIR', 'MAIL', 'AIR REG'][1 + i % 3] AS l_shipmode,
    ['DELIVER IN PERSON', 'NONE'][1 + i % 2] AS l_shipinstruct,
    ['PROMO TIN', 'STANDARD TIN'][1 + i // 2 % 2] AS p_type, 1 + i % 50 AS p_size,
    ['Brand#12', 'Brand#23', 'Brand#34'][1 + i // 5 % 3] AS p_brand,
    ['SM CASE', 'MED BAG', 'LG BOX'][1 + i // 7 % 3] AS p_container, i % 600 AS place
  FROM range(12000) r(i)
"""
_POLICY = """
  SELECT protect('lineitem', privacy_unit := 'owner', rows_per_unit := 4, epsilon := 10000, per_query := 1,
    public := ['l_returnflag', 'l_linestatus', 'place'], drop := ['line'],
    domains := {'l_returnflag': ['A', 'N', 'R'], 'l_linestatus': ['F', 'O'], 'place': {'from': 0, 'to': 599}},
    bounds := {'l_quantity': [0, 50, 1], 'l_extendedprice': [0, 110000, 0.01], 'l_discount': [0, 0.1, 0.01],
      'l_tax': [0, 0.08, 0.01], 'l_shipdate': [DATE '1992-01-01', DATE '1998-12-31'],
      'l_receiptdate': ['1992-01-01', '1999-12-31']})
"""
REVENUE = "l_extendedprice * (1 - l_discount)"
TPCH = {
    "1": f"""SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
      sum({REVENUE}) AS sum_disc_price, sum({REVENUE} * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
      avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
      FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
      GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "6": """SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01'
      AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01
      AND l_quantity < 24""",
    "14": f"""SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN {REVENUE} ELSE 0 END) / sum({REVENUE})
      AS promo_revenue FROM lineitem WHERE l_shipdate >= DATE '1995-09-01'
      AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH""",
    "19": f"""SELECT sum({REVENUE}) AS revenue FROM lineitem WHERE
      (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity >= 1
        AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5 AND l_shipmode IN ('AIR', 'AIR REG')
        AND l_shipinstruct = 'DELIVER IN PERSON')
      OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX') AND l_quantity >= 10
        AND l_quantity <= 10 + 10 AND p_size BETWEEN 1 AND 40 AND l_shipmode IN ('AIR', 'AIR REG')
        AND l_shipinstruct = 'DELIVER IN PERSON')""",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lines") / "x.duckdb"
    with duckanon.connect(found, role="steward") as con:
        con.execute(_LINES).fetchall()
        con.execute(_POLICY).fetchall()
    return found


@pytest.fixture
def con(path: Path) -> Iterator[duckanon.Analyst]:
    with duckanon.connect(path, role="analyst") as found:
        yield found


@pytest.fixture
def exact(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[duckanon.Analyst, duckdb.DuckDBPyConnection]]:
    """An analyst whose answers have no noise, and DuckDB itself."""
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(path, role="analyst") as con, con._con.cursor() as plain:
        yield con, plain


@pytest.mark.parametrize("query", TPCH)
def test_without_noise_it_is_duckdbs_own_answer(
    exact: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], query: str
) -> None:
    con, plain = exact
    mine, theirs = con.execute(TPCH[query]).fetchall(), plain.execute(TPCH[query]).fetchall()
    assert theirs[0][-1]
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            assert type(a) is type(b)
            # Sums are equal to the last step, and quotients as far as floats go.
            assert a == (pytest.approx(b, rel=1e-12) if isinstance(b, float) else b)


def test_sums_beyond_what_floats_hold_are_exact(exact: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection]) -> None:
    con, plain = exact
    sql = "SELECT place, sum(l_extendedprice * l_extendedprice * 0.0001 * (1 + l_tax)) FROM lineitem GROUP BY place"
    # More than 10^13 steps are rounded to fewer.
    for (_, mine), (_, theirs) in zip(*(sorted(one.execute(sql).fetchall()) for one in (con, plain)), strict=True):
        assert isinstance(mine, Decimal)
        assert abs(mine - theirs) <= Decimal("0.00002")
    sql = f"SELECT l_returnflag, sum({REVENUE} * (1 + l_tax) * l_quantity * 100) AS s FROM lineitem"
    mine, theirs = (one.execute(f"{sql} GROUP BY ALL ORDER BY ALL").fetchall() for one in (con, plain))
    assert mine == theirs
    assert int(mine[0][1] * 10**6) > 2**53
    assert isinstance(mine[0][1], Decimal)


def test_bounds_and_steps_are_told_before(con: duckanon.Analyst) -> None:
    (step,) = con.explain(TPCH["1"]).steps
    assert f"{REVENUE}: 0 to 110000 by 0.0001" in step.reason
    assert f"{REVENUE} * (1 + l_tax): 0 to 118800 by 0.000001" in step.reason
    (step,) = con.explain("SELECT avg(l_receiptdate - l_shipdate) FROM lineitem").steps
    assert "l_receiptdate - l_shipdate: -2556 to 2921 by 1" in step.reason


def test_the_same_number_written_in_another_way_is_the_same_question(con: duckanon.Analyst) -> None:
    first = con.execute(f"SELECT sum({REVENUE} * (1 + l_tax)) FROM lineitem").fetchall()
    before = spent(con)
    for sql in (
        "SELECT sum((1 + l_tax) * (1 - l_discount) * l_extendedprice) FROM lineitem",
        "SELECT sum(x) FROM (SELECT (1 - l_discount) * l_extendedprice * (l_tax + 1) AS x FROM lineitem)",
        "WITH c AS (SELECT -l_discount + 1 AS rest, * FROM lineitem) "
        "SELECT sum(rest * l_extendedprice * (1 + l_tax)) FROM c",
    ):
        assert con.execute(sql).fetchall() == first
    assert spent(con) == before


def test_intervals_of_wide_sums_hold_the_true_ones(con: duckanon.Analyst, path: Path) -> None:
    """Totals of more than 64 bits, in 600 cells."""
    of = f"{REVENUE} * (1 + l_tax)"
    sql = f"SELECT place, low(sum({of})), high(sum({of})), low(avg({of})), high(avg({of})) FROM lineitem GROUP BY place"
    told = con.execute(sql).fetchall()
    with con._con.cursor() as plain:
        rows = plain.execute(f"SELECT place, sum({of}), avg({of}) FROM lineitem GROUP BY 1").fetchall()
    true = {place: (s, m) for place, s, m in rows}
    for at in (0, 1):
        held = sum(float(row[1 + 2 * at]) <= float(true[row[0]][at]) <= float(row[2 + 2 * at]) for row in told)
        # 570 are expected; fewer than 545 have a chance below one in 100,000.
        assert 545 <= held <= 600
    assert all(row[2] > row[1] for row in told)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ("{'d': [0, 9]}", "must be dates, as in bounds := {'d': \\[DATE"),
        ("{'x': [DATE '2020-01-01', DATE '2021-01-01']}", 'The bounds of "x" must be numbers'),
        ("{'d': [DATE '2020-01-02', DATE '2020-01-02']}", "its earliest and its latest"),
        ("{'d': ['yesterday', 'today']}", "least and its largest"),
    ],
)
def test_bounds_are_of_the_type_of_their_column(bounds: str, said: str) -> None:
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("CREATE TABLE t (d DATE, x INTEGER)")
        with pytest.raises((InvalidInput, duckdb.Error), match=said):
            con.execute(f"SELECT protect('t', epsilon := 1, per_query := 1, bounds := {bounds})").fetchall()


def test_timestamps_have_bounds_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as steward:
        steward.execute(
            "CREATE TABLE t AS SELECT TIMESTAMP '2020-01-01' + INTERVAL (i * 7) HOUR AS a, i AS i FROM range(90) r(i)"
        )
        steward.execute(
            "SELECT protect('t', epsilon := 9, per_query := 1, "
            "bounds := {'a': [TIMESTAMP '2020-01-01', TIMESTAMP '2021-01-01 12:00:00']})"
        ).fetchall()
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con, con._con.cursor() as plain:
        for unit in ("second", "minute", "hour", "day", "month", "quarter", "year"):
            sql = f"SELECT sum(date_diff('{unit}', TIMESTAMP '2019-12-31 23:59:59', a)), avg(hour(a)) FROM t"
            ((mine, m),), ((theirs, t),) = (one.execute(sql).fetchall() for one in (con, plain))
            assert mine == theirs, unit
            assert m == pytest.approx(t)


@pytest.mark.parametrize("taken", ["CAST(1000000 AS BIGINT)", "CAST(-1000000 AS BIGINT)", "CAST(NULL AS BIGINT)"])
@pytest.mark.parametrize(
    "sql", ["SELECT sum(a * 2) FROM t", "SELECT k, var_pop(a + a), median(a * 2) FROM t GROUP BY k"]
)
def test_a_wrong_bound_costs_no_privacy(tmp_path: Path, sql: str, taken: str) -> None:
    """Whatever is computed of a record, the totals that it adds to are those that the noise is made for."""
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT i AS u, i % 2 AS k, i % 5 AS a FROM range(20) r(i)").fetchall()
        con.execute(
            "SELECT protect('t', privacy_unit := 'u', rows_per_unit := 1, epsilon := 9, per_query := 1, "
            "public := ['k'], domains := {'k': [0, 1]}, bounds := {'a': [0, 4]})"
        ).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        (asked,) = con.explain(sql).answers
        assert isinstance(asked, AggregatesQuestion)
        measures: Any = asked.measures
        wrong = tuple((replace(one, number=replace(one.number, value=taken)), share) for one, share in measures)
        for (measure, _), found in zip(wrong, mechanisms.exact(con._con, replace(asked, measures=wrong)), strict=True):
            assert found.min() >= 0
            assert found.sum() in {0, 20, 20 * getattr(measure, "whole", 1)}


@pytest.mark.parametrize(
    "number",
    ["sum(1e308)", "sum(1e-320)", "avg(l_tax * 1e308)", "var_pop(l_quantity * 1e151)", "stddev(l_quantity * 1e-200)",
     "sum(CASE WHEN l_tax > 0 THEN 1e200 END)", "corr(l_quantity * 1e50, l_tax * 1e50)"],
)  # fmt: skip
def test_what_no_double_could_hold_is_refused_before_it_is_charged(con: duckanon.Analyst, number: str) -> None:
    """It was charged and could not be made, or was infinite, or raised an error of Python's."""
    before = spent(con)
    with pytest.raises(PolicyRefusal, match=r"in steps of less than 10\^-60 or more than 10\^60"):
        con.execute(f"SELECT {number} FROM lineitem")
    assert spent(con) == before
