"""The type to which a UNION brings numbers holds all their values: a draw that fails on one would tell of a record."""

from __future__ import annotations

import random
from itertools import product

import duckdb
import pytest

from duckanon.catalog.types import WHOLE, reach
from duckanon.errors import DuckanonError
from duckanon.rewrite.algebra.filters import NotTotal
from duckanon.units.scope import NotLocal
from duckanon.units.unions import _kind_together
from tests.amounts import many
from tests.units.checks import Equal, Neighbours, ask, world
from tests.units.world import records

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


# Nations and places have the same list of values, each in its own policy.
_PLACES = "SELECT c, nation AS n, bal AS v FROM customer {} SELECT c, place, 1 FROM orders"
BY_PLACE = [
    f"SELECT n, count(*), sum(v) FROM ({_PLACES.format('UNION ALL')}) q GROUP BY n",
    f"SELECT n, count(*) FROM ({_PLACES.format('UNION')}) q GROUP BY n",
    f"SELECT n, count(*) FROM ({_PLACES.format('UNION ALL')} UNION ALL SELECT c, nation, 2 FROM customer) q GROUP BY n",
    f"SELECT n, count(DISTINCT c) FROM ({_PLACES.format('UNION ALL')}) q WHERE n = 'a' OR n IS NULL GROUP BY n",
    "SELECT q.n, count(*) FROM customer c LEFT JOIN (SELECT c, n FROM (SELECT c, nation AS n FROM customer UNION "
    "SELECT c, place FROM orders) GROUP BY c, n) q ON q.c = c.c GROUP BY q.n",
]


@pytest.mark.parametrize("wide", [False, True])
def test_a_column_of_tables_with_the_same_values_is_a_key(wide: bool) -> None:
    with world(by_person=False, wide=wide) as (con, about):
        asked = [one for sql in BY_PLACE if (one := ask(con, sql)) is not None]
        assert [one.sql for one in asked] == BY_PLACE
        rng = random.Random(29)
        checked = Equal(con, about, rng) if wide else Neighbours(con, about, rng)
        for _ in range(many(10)):
            assert list(map(str, checked.check(asked, records(rng, customers=6, tame=wide)))) == []


@pytest.mark.parametrize("other", ["prio", "CAST(o AS VARCHAR)", "'a'", "NULL"])
def test_a_column_that_has_other_values_too_is_none(other: str) -> None:
    sql = (
        "SELECT n, count(*) FROM (SELECT c, nation AS n FROM customer UNION ALL SELECT c, {} FROM orders) q GROUP BY n"
    )
    with world(by_person=False, wide=True) as (con, _), pytest.raises(DuckanonError, match="public"):
        con._guard.decide(sql.format(other))
