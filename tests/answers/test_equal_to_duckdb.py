"""Statements over random data whose answers, without noise, are DuckDB's own: names, rows and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.errors import PolicyRefusal
from duckanon.releases import mechanisms
from tests.amounts import sampled
from tests.answers.checking import without_noise
from tests.answers.equality import QUANTILE, difference, in_order, is_ordered, is_quantile, tolerance
from tests.answers.world import STEPS, WIDTHS, all_kinds, make
from tests.guard.truthful import truth

STATEMENTS = [
    one.strip()
    for one in Path("fixtures/answers/statements.sql").read_text(encoding="utf-8").split(";\n")
    if one.strip()
]
# By this column's name a statement says that it asks for a quantile.
_QUANTILE = "quantile_of"


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = make(tmp_path_factory.mktemp("answers") / "x.duckdb", seed=0.25)
    with without_noise(path) as found:
        yield found


@pytest.fixture(scope="module")
def plain(con: duckanon.Analyst) -> Iterator[duckdb.DuckDBPyConnection]:
    with con._con.cursor() as found:
        yield found


@pytest.fixture(scope="module")
def rich() -> Iterator[duckdb.DuckDBPyConnection]:
    with all_kinds() as found:
        yield found


def test_there_are_five_hundred_of_them() -> None:
    assert len(set(STATEMENTS)) >= 500


# The list goes through columns and conditions: of two neighbours, one is like the other.
@pytest.mark.parametrize("sql", sampled(STATEMENTS, every=4))
def test_it_is_duckdbs_own_answer(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, rich: duckdb.DuckDBPyConnection, sql: str
) -> None:
    mine = con.execute(sql).fetchall()
    names = [one[0] for one in con.description]
    if _QUANTILE in sql:
        return check_quantiles(plain, sql, mine)
    theirs = plain.execute(sql).fetchall()
    assert names == [one[0] for one in plain.description]
    assert con.decision is not None
    note = " ".join(step.reason for step in con.decision.steps)
    possible = rich.execute(sql).fetchall()
    allowed = tolerance(sql, note, WIDTHS)
    assert difference(sql, mine, theirs, possible, allowed) is None
    if is_ordered(sql):
        assert in_order(mine, theirs, allowed)
    return None


@pytest.mark.parametrize("condition", ["sex = 'f'", "seen > DATE '2024-01-10'"])
def test_a_condition_does_not_change_the_type_of_a_sum(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, condition: str
) -> None:
    sql = (
        f"SELECT sum(days) FILTER (WHERE {condition}), sum(CASE WHEN {condition} THEN days END), "
        f"sum(cost) FILTER (WHERE {condition}), sum(CASE WHEN {condition} THEN cost ELSE 0 END) FROM visits"
    )
    told, own = con.execute(sql), plain.execute(sql)
    assert [str(one[1]) for one in told.description] == [str(one[1]) for one in own.description]


# Plain counts, whose cells each record lies in one of.
COUNTS = [
    one
    for one in STATEMENTS
    if re.match(r"SELECT (\w+, )*count\(\*\) AS n FROM visits( WHERE| GROUP BY|$)", one)
    and not re.search("SELECT.*SELECT|ROLLUP|CUBE|SETS|HAVING|QUALIFY|LIMIT", one)
]


def test_where_records_are_left_out_each_unit_counts_as_often_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "x.duckdb", seed=-0.5, contributions=2)
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(path, role="analyst") as con, con._con.cursor() as plain:
        for sql in COUNTS:
            source = re.split(r" GROUP BY | ORDER BY ", sql.split(" AS n ")[1])[0]
            own = f"SELECT patient, least(count(*), 2) AS n {source} GROUP BY patient"
            ((counted,),) = plain.execute(f"SELECT coalesce(sum(n), 0) FROM ({own})").fetchall()
            mine = {row[:-1]: row[-1] for row in con.execute(sql).fetchall()}
            theirs = {row[:-1]: row[-1] for row in plain.execute(sql).fetchall()}
            assert sum(mine.values()) == counted, sql
            assert all(number <= theirs.get(cell, 0) for cell, number in mine.items()), sql


def check_quantiles(plain: duckdb.DuckDBPyConnection, sql: str, mine: list[tuple[Any, ...]]) -> None:
    found = QUANTILE.search(sql)
    assert found is not None
    column = found["column"] or found["of"] or found["ordered"]
    at = Fraction(found["at"] or found["place"] or "0.5")
    listed = {row[:-1]: row[-1] for row in plain.execute(QUANTILE.sub(f"list({column})", sql)).fetchall()}
    assert {row[:-1] for row in mine} == set(listed)
    for row in mine:
        assert is_quantile(listed[row[:-1]], at, row[-1], STEPS[column])


# What is added up, in types that differ from those of the columns.
TYPED = [
    "days::BIGINT", "days::DOUBLE", "days::HUGEINT", "score::DOUBLE", "cost::DOUBLE", "1", "1.0", "1.50", "-days",
    "urgent::DOUBLE", "urgent::DECIMAL(4, 1)", "urgent::INT", "round(cost)", "floor(cost)", "floor(days)", "0.5 * days",
    "CASE WHEN urgent THEN days::BIGINT END", "CASE WHEN urgent THEN 1.5 ELSE 0 END", "(age > 40)::DOUBLE", "days / 2",
    "CASE WHEN urgent THEN days ELSE 0.0 END", "coalesce(cost, 0)", "days * cost", "abs(days) + 0.250",
]  # fmt: skip


@pytest.mark.parametrize("typed", [TYPED[at::4] for at in range(4)])
def test_sums_have_duckdbs_own_types(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, typed: list[str]) -> None:
    sql = f"SELECT {', '.join(f'sum({one})' for one in typed)} FROM visits"
    told, own = con.execute(sql), plain.execute(sql)
    assert [str(one[1]) for one in told.description] == [str(one[1]) for one in own.description]
    assert told.fetchall()[0] == pytest.approx(own.fetchall()[0])


def test_quantiles_have_the_types_of_casts(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection) -> None:
    values = ("days", "days::BIGINT", "days::DOUBLE", "cost", "score", "age")
    sql = f"SELECT {', '.join(f'quantile_disc({one}, 0.5), median({one})' for one in values)} FROM visits"
    told, own = con.execute(sql), plain.execute(sql)
    assert [str(one[1]) for one in told.description] == [str(one[1]) for one in own.description]


@pytest.mark.parametrize(
    "rounded",
    [
        "cost::BIGINT", "score::BIGINT", "cost::HUGEINT", "(CASE WHEN urgent THEN cost ELSE 0 END)::INT",
        "(CASE WHEN urgent THEN 1.5 ELSE 0 END)::INT", "1.5::INT",
    ],
)  # fmt: skip
@pytest.mark.parametrize("aggregate", ["sum", "avg", "median", "var_pop"])
def test_a_cast_that_rounds_is_not_left_out(con: duckanon.Analyst, aggregate: str, rounded: str) -> None:
    with pytest.raises(PolicyRefusal, match=r"could change a number|without loss"):
        con.execute(f"SELECT {aggregate}({rounded}) FROM visits")


@pytest.mark.parametrize("kind", ["TINYINT", "UTINYINT", "INTEGER", "UINTEGER", "BIGINT", "HUGEINT"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT avg(seen + days::{} - DATE '2023-01-01') FROM visits",
        "SELECT seen - 3::{} AS k, count(*) FROM visits GROUP BY k",
        "SELECT count(*) FROM visits WHERE seen + 3::{} > DATE '2023-02-01'",
        "SELECT count(*) FROM visits WHERE seen > DATE '2023-02-01' + 3::{}",
    ],
)
def test_dates_are_moved_by_what_duckdb_moves_them_by(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str, kind: str
) -> None:
    asked = sql.format(kind)
    try:
        own = plain.execute(asked).fetchall()
    except duckdb.BinderException:
        with pytest.raises(PolicyRefusal):
            con.execute(asked)
    else:
        assert len(con.execute(asked).fetchall()) >= len(own)
