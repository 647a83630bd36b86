"""Quotients of statistics that cannot leave a range: they are in it or NULL, whatever the noise and the type."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import duckanon
from duckanon.errors import PolicyRefusal

# Types of columns of numbers.
TYPES = {"a": "INTEGER", "b": "DOUBLE", "c": "FLOAT", "d": "DECIMAL(9, 2)"}
# Quotients of a column v with bounds from 0 to 100, and their ranges.
QUOTIENTS = {
    "sum(v) / count(*)": (0, 100),
    "sum(v) / nullif(count(*), 0)": (0, 100),
    "100.0 * sum(v) / count(v)": (0, 10_000),
    "sum(v) FILTER (WHERE e) / count(*) FILTER (WHERE e)": (0, 100),
    "sum(v) FILTER (WHERE e) / count(*)": (0, 100),
    "sum(v) FILTER (WHERE e) / count(v) FILTER (WHERE e)": (0, 100),
    "sum(v) FILTER (WHERE e) / sum(v)": (0, 1),
    "-2 * sum(v) FILTER (WHERE e) / sum(v)": (-2, 0),
    "sum(v) / sum(sum(v)) OVER ()": (0, 1),
    "sum(v) / sum(count(*)) OVER ()": (0, 100),
    "count(v) / count(*)": (0, 1),
    "count(*) FILTER (WHERE e) / count(*)": (0, 1),
}
BESIDE = [", count(*)", ", sum(z)", ", stddev(v)"]


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    """Of the 100 keys hardly any has records, so that most numbers are noise."""
    path = tmp_path_factory.mktemp("divided") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        columns = ", ".join(f"(i * 7 % 100)::{kind} AS {name}" for name, kind in TYPES.items())
        con.execute(
            "CREATE TABLE t AS SELECT i AS pid, i % 40 AS k, i % 3 = 0 AS e, 1 AS z, i % 9 - 4 AS m, "
            f"{columns} FROM range(80) r(i)"
        )
        bounds = ", ".join(f"'{name}': [0, 100]" for name in (*TYPES, "z")) + ", 'm': [-4, 4]"
        con.execute(
            "SELECT protect('t', privacy_unit := 'pid', rows_per_unit := 2, epsilon := 2000, per_query := 1, "
            f"public := ['k'], bounds := {{{bounds}}}, domains := {{'k': {{'from': 0, 'to': 99, 'step': 1}}}})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.mark.parametrize("quotient", QUOTIENTS)
def test_they_are_in_their_range_for_each_type_of_number(con: duckanon.Analyst, quotient: str) -> None:
    least, most = QUOTIENTS[quotient]
    for name, beside in [*((one, "") for one in TYPES), *(("b", one) for one in BESIDE)]:
        asked = f"SELECT k, {quotient} AS x{beside} FROM t GROUP BY k".replace("(v)", f"({name})")
        outside = [one for _, one, *_ in con.execute(asked).fetchall() if one is not None and not least <= one <= most]
        assert not outside, asked


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    "quotient", ["sum(v) / count(*)", "sum(v) FILTER (WHERE e) / sum(v)", "sum(v) / sum(sum(v)) OVER ()"]
)
def test_they_have_ends_for_each_type_of_number(con: duckanon.Analyst, quotient: str, name: str) -> None:
    shown = quotient.replace("(v)", f"({name})")
    rows = con.execute(f"SELECT k, {shown}, low({shown}), high({shown}) FROM t GROUP BY k").fetchall()
    most = 100 if "count" in quotient else 1
    assert all(0 <= low <= high <= most for _, _, low, high in rows)


@pytest.mark.parametrize("beside", ["stddev(b)", "sum(a)"])
def test_where_the_noise_is_not_followed_the_ends_are_refused_as_such(con: duckanon.Analyst, beside: str) -> None:
    with pytest.raises(
        PolicyRefusal, match=r"^`low\(sum\(b\) / count\(\*\)\)` cannot be answered\. This quotient is kept"
    ):
        con.execute(f"SELECT k, low(sum(b) / count(*)), {beside} FROM t GROUP BY k")
    con.execute(f"SELECT k, sum(b) / count(*), {beside} FROM t GROUP BY k").fetchall()


def test_what_may_leave_every_range_stays_as_it_is(con: duckanon.Analyst) -> None:
    """A unit may have two records, so there are more records than units."""
    rows = con.execute(
        "SELECT k, sum(b) / count(DISTINCT pid), count(*) / count(DISTINCT pid) FROM t GROUP BY k"
    ).fetchall()
    assert any(not 0 <= one <= 1 for *_, one in rows)


def test_a_share_of_sums_that_has_no_ends_is_told_so(con: duckanon.Analyst) -> None:
    """Not that there are no shares of sums: without low it is answered."""
    share = "sum(m) / sum(sum(m)) OVER ()"
    con.execute(f"SELECT k, {share} AS p FROM t GROUP BY k").fetchall()
    with pytest.raises(PolicyRefusal, match=r"^`low\(p\)` cannot be answered\. low and high are the ends"):
        con.execute(f"SELECT k, {share} AS p, low(p) FROM t GROUP BY k")
