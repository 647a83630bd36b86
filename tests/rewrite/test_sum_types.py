"""Types of sums are DuckDB's own, for all that is added up."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duckanon.rewrite.algebra.expressions import Branch, Case, Cast, Column, Comparison, Constant, Expr, Round
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.algebra.sum_types import sum_type
from tests.rewrite.test_bounds import EXPRESSIONS, TYPES

KINDS = ["BIGINT", "HUGEINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(10,3)", "DECIMAL(38,0)"]
WRITTEN = st.one_of(
    EXPRESSIONS,
    st.builds(Cast, EXPRESSIONS, st.sampled_from(KINDS)),
    st.sampled_from([Constant(one) for one in ("1", "1.0", "1.50", "0.5", "1e3")]),
    st.builds(
        lambda one, other: Case((Branch(Comparison(">", Column(1, "n"), Constant("3")), one),), other),
        st.builds(Cast, EXPRESSIONS, st.sampled_from(KINDS)),
        st.sampled_from([Constant("0"), Constant("0.50"), Column(1, "price"), Column(1, "huge")]),
    ),
    st.builds(Round, EXPRESSIONS, st.just(Constant("2"))),
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        found.execute(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in TYPES.items())})")
        yield found


def test_they_are_duckdbs_own(con: duckdb.DuckDBPyConnection) -> None:
    known = 0

    @given(WRITTEN)
    def check(expr: Expr) -> None:
        try:
            (own,) = con.sql(f"SELECT sum({Renderer().text(expr)}) FROM t").types
        except duckdb.BinderException:
            assume(False)
        found = sum_type(expr, TYPES)
        nonlocal known
        known += found != ""
        assert found in ("", str(own)), Renderer().text(expr)

    check()
    assert known > 0


@pytest.mark.parametrize(
    "kind", ["INTEGER", "UTINYINT", "HUGEINT", "UHUGEINT", "BOOLEAN", "FLOAT", "DECIMAL(8,2)", "DECIMAL(38,38)"]
)
def test_those_of_columns_are_known(kind: str) -> None:
    with duckdb.connect() as con:
        (own,) = con.sql(f"SELECT sum(x) FROM (SELECT CAST(NULL AS {kind}) AS x)").types
    assert (sum_type(Column(1, "x"), {"x": kind}) or "DOUBLE") == str(own)
