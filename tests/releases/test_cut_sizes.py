"""Sizes within a unit are computed as they are; where they are cut, an answer says so, or it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import PolicyRefusal

RECORDS = "SELECT i % 30 AS u, i % 7 AS x FROM range(100) r(i) WHERE i % 30 < 20 OR i % 3 = 0"
CUT = {"count(*)": 3, "sum(x)": 9, "count(DISTINCT x)": 3}
ASKED = (
    "SELECT count(*) FROM (SELECT u FROM t GROUP BY u HAVING {})",
    "SELECT count(*) FILTER (WHERE {}) FROM (SELECT u, {size} AS s FROM t GROUP BY u)",
    "SELECT sum(CASE WHEN {} THEN 1 ELSE 0 END) FROM (SELECT u, {size} AS s FROM t GROUP BY u)",
)
TESTS = ("{s} > {c}", "{c} < {s}", "{s} >= {c}", "{s} < {c}", "{c} >= {s}", "{s} BETWEEN 1 AND {c}", "{s} = {c}",
         "{s} IN (2, {c})", "NOT ({s} <> {c})")  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cut") / "x.duckdb"
    with duckanon.connect(made, role="steward") as con:
        con.execute(f"CREATE TABLE t AS {RECORDS}")
        con.execute(
            "SELECT protect('t', epsilon := 1000000, per_query := 1000, privacy_unit := 'u', rows_per_unit := 3, "
            "unit := 'u', max_size := 9, bounds := {'x': [0, 6]})"
        ).fetchall()
    return made


@pytest.fixture
def con(path: Path) -> Any:
    with duckanon.connect(path, role="analyst") as found:
        yield found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([*CUT]), st.sampled_from(ASKED), st.sampled_from(TESTS), st.integers(1, 30))
def test_a_comparison_is_answered_as_without_the_cut_or_refused(
    con: Any, size: str, asked: str, test: str, number: int
) -> None:
    """What is cut says so, and only numbers below the cut are compared: a size at it stands for all larger ones."""
    name = size if "HAVING" in asked else "s"
    sql = asked.format(test.format(s=name, c=number), size=size)
    told = con.explain(sql).steps[0]
    is_cut = f"above {CUT[size]} count as {CUT[size]}" in told.reason
    if str(told.verdict) == "refused":
        assert is_cut
        with pytest.raises(PolicyRefusal):
            con.execute(sql)
    elif number < CUT[size] or not is_cut:
        wanted = duckdb.execute(f"WITH t AS ({RECORDS}) {sql}").fetchall()
        assert con.execute(sql).fetchall() == wanted
