"""Numbers of open tables that are infinite or NaN are added up nowhere: it is refused before anything is charged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon
from duckanon.errors import UnsupportedQuery
from tests.releases.databases import spent

_MADE = """
CREATE TABLE t AS SELECT i AS u, (i % 5)::INTEGER AS k, i % 2 = 0 AS even FROM range(100) r(i);
CREATE TABLE o (k INTEGER PRIMARY KEY, inf DOUBLE, nan FLOAT, fine DOUBLE, zero INTEGER);
INSERT INTO o VALUES (0, 1.5, 2, 2, 0), (1, 'inf', 2, 2, 1), (2, 1, 'nan', 2, 1), (3, NULL, NULL, NULL, NULL);
SELECT open_table('o');
SELECT protect('t', privacy_unit := 'u', rows_per_unit := 1, epsilon := 1000, per_query := 1, public := ['k', 'even'],
  domains := {'k': [0, 1, 2, 3, 4], 'even': [true, false]});
"""
REFUSED = [
    "SELECT sum(o.inf) FROM t JOIN o USING (k)",
    "SELECT even, avg(o.nan) FROM t JOIN o USING (k) GROUP BY even",
    "SELECT avg(o.inf * 2 + 1) FROM t, o",
    "SELECT sum(o.k * o.nan) FROM t JOIN mine AS o USING (k)",
    "SELECT even, sum(o.k / o.zero) FROM t JOIN (SELECT k, zero FROM o) AS o ON t.k >= o.k GROUP BY even",
    "WITH w AS (SELECT k, abs(inf) AS x FROM o) SELECT sum(w.x) FILTER (WHERE even) FROM t JOIN w USING (k)",
    "SELECT sum(o.inf * t.k) FROM t JOIN o USING (k) WHERE o.zero = 1",
]


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("infinite") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(_MADE).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        con.execute("CREATE TEMP TABLE mine AS SELECT * FROM o").fetchall()
        yield con


@pytest.mark.parametrize("sql", REFUSED)
def test_they_are_refused_before_the_charge(con: duckanon.Analyst, sql: str) -> None:
    before = spent(con)
    with pytest.raises(UnsupportedQuery, match=r"infinite or NaN .* WHERE isfinite\(x\)\.$"):
        con.execute(sql)
    assert spent(con) == before


@pytest.mark.parametrize("of", ["o.inf", "o.nan", "o.k / o.zero"])
def test_conditions_leave_them_out(con: duckanon.Analyst, of: str) -> None:
    for where in (f"FROM t JOIN o USING (k) WHERE isfinite({of})", f"FILTER (WHERE isfinite({of})) FROM t, o"):
        ((total,),) = con.execute(f"SELECT sum({of}) {where}").fetchall()
        assert abs(total) < 10_000


def test_finite_numbers_are_added_up(con: duckanon.Analyst) -> None:
    ((total, mean, whole),) = con.execute(
        "SELECT sum(o.fine), avg(o.fine), sum(o.zero) FROM t JOIN o USING (k)"
    ).fetchall()
    assert abs(total - 120) < 200
    # 95 % are within 0.2, and of Laplace noise one in a million is not within 1.
    assert mean == pytest.approx(2, abs=1)
    assert isinstance(whole, int)
