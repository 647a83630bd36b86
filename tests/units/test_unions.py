"""The type to which a UNION brings numbers holds all their values: a draw that fails on one would tell of a record."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest

from duckanon.rewrite.algebra.constants import WHOLE, reach
from duckanon.rewrite.algebra.filters import NotTotal
from duckanon.units.scope import NotLocal
from duckanon.units.unions import _kind_together

KINDS = [
    *WHOLE,
    "DECIMAL(2,1)",
    "DECIMAL(15,2)",
    "DECIMAL(18,0)",
    "DECIMAL(38,0)",
    "DECIMAL(38,2)",
    "DECIMAL(38,38)",
    "DOUBLE",
]
NUMBERS = [kind for kind in KINDS if kind != "DOUBLE"]


def together(one: str, other: str) -> str | None:
    """The type of both; None where there is none."""
    try:
        return _kind_together(sorted({one, other}))
    except (NotLocal, NotTotal):
        return None


@pytest.mark.parametrize(("one", "other"), list(product(KINDS, NUMBERS)))
def test_the_type_of_two_holds_the_extreme_values_of_both(one: str, other: str, con: duckdb.DuckDBPyConnection) -> None:
    kind = together(one, other)
    for extreme in reach(other) if kind is not None else ():
        scale = int(other.partition(",")[2].rstrip(")") or 0)
        digits = str(int(extreme * 10**scale)).zfill(scale + 1)
        text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        if extreme < 0:
            text = "-" + text.replace("-", "0", 1)
        con.execute(f"SELECT CAST(CAST('{text}' AS {other}) AS {kind})").fetchall()


def test_numbers_that_no_type_holds_have_none() -> None:
    """With 38 digits for HUGEINT, which may have 39, whether a record was there could be told by a failure."""
    assert together("HUGEINT", "DECIMAL(2,1)") is None
    assert together("UHUGEINT", "DECIMAL(15,2)") is None
    assert together("DECIMAL(38,20)", "BIGINT") is None
    assert together("BIGINT", "DECIMAL(15,2)") == "DECIMAL(21,2)"
