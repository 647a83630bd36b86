"""Whole quotients and remainders by noisy numbers are NULL where these are 0."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.divisions import without_failing

DIVIDED = ("{} // {}", "{} % {}", "mod({}, {})", "divide({}, {})", "100 // ({} // {})", "100 // (9 + mod({}, {}))")


def written(sql: str) -> str:
    tree = sqlglot.parse_one(sql, read=DIALECT)
    without_failing(tree)
    return str(tree.sql(DIALECT, normalize_functions=False))


@pytest.mark.parametrize("form", DIVIDED)
def test_by_zero_it_is_null_and_else_duckdbs_own(form: str) -> None:
    with duckdb.connect() as con:
        for above, below in [(7, 2), (7, -2), (-7, 3), (9, 9)]:
            sql = f"SELECT {form.format(above, 'n')} FROM (SELECT {below} AS n)"
            assert con.execute(written(sql)).fetchall() == con.execute(sql).fetchall()
        assert con.execute(written(f"SELECT {form.format(7, 'n')} FROM (SELECT 0 AS n)")).fetchall() == [(None,)]


def test_constants_stay() -> None:
    assert written("SELECT n // 2, n % 3 FROM t") == "SELECT n // 2, n % 3 FROM t"
    assert "nullif" in written("SELECT n // 0 FROM t").lower()
