"""What an analyst is answered about a linked table: owners are bounded, and without the keys there is no answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckanon
from duckanon.errors import DuckanonError, PolicyRefusal
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import PaidQuestion

# Three levels, of which the middle one has a key of two columns and names that differ in case only.
SHOP = """
CREATE TABLE customers (name VARCHAR UNIQUE, person VARCHAR);
CREATE TABLE orders (number BIGINT, place VARCHAR, customer VARCHAR, UNIQUE (number, place));
CREATE TABLE lines (ordered INTEGER, place VARCHAR, kind VARCHAR, price INTEGER);
"""
POLICIES = (
    "protect('customers', population := 'p', epsilon := 90, privacy_unit := 'person', rows_per_unit := 1)",
    "protect('orders', population := 'p', link := {'customer': 'customers.name'}, per_query := 9, rows_per_unit := 2)",
    "protect('lines', population := 'p', link := {'ordered': 'orders.number', 'place': 'orders.place'}, "
    "per_query := 9, rows_per_unit := 2, public := ['kind'], domains := {'kind': ['x', 'y']}, "
    "bounds := {'price': [0, 9]}, unit := 'place', max_size := 3)",
)
ASKED = {
    "count": "SELECT count(*) FROM lines",
    "by kind": "SELECT kind, count(*) FROM lines GROUP BY kind",
    "filtered": "SELECT count(*) FROM lines WHERE price > 4",
    "sum": "SELECT kind, sum(price) FROM lines GROUP BY kind",
    "sizes": "SELECT n, count(*) FROM (SELECT place, count(*) AS n FROM lines GROUP BY place) GROUP BY n",
}
ROWS = st.fixed_dictionaries(
    {
        "customers": st.dictionaries(st.sampled_from(["a", "A", "b"]), st.sampled_from(["ann", "Ann", None])).map(
            lambda one: [*one.items()]
        ),
        "orders": st.dictionaries(
            st.tuples(st.sampled_from([1, 2, None]), st.sampled_from(["p", "P"])), st.sampled_from([*"aAb", None])
        ).map(lambda one: [(*key, name) for key, name in one.items()]),
        "lines": st.lists(
            st.tuples(
                st.sampled_from([1, 2, 3, None]), st.sampled_from(["p", "P", None]), st.sampled_from(["x", "y", "z"]),
                st.integers(-2, 12),
            ),
            max_size=9,
        ),
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("shop") / "x.duckdb")


def make(path: Path) -> Path:
    with duckanon.connect(path) as con:
        con.execute(SHOP).fetchall()
        for policy in POLICIES:
            con.execute(f"SELECT {policy}").fetchall()
    return path


def fill(con: Any, rows: dict[str, list[Any]]) -> None:
    for name in ("lines", "orders", "customers"):
        con.execute(f"DELETE FROM {name}").fetchall()
        for row in rows[name]:
            con.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row)).fetchall()


@pytest.fixture(scope="module")
def asked(path: Path) -> dict[str, PaidQuestion]:
    """The questions behind the statements, as they are decided."""
    found: dict[str, PaidQuestion] = {}
    drawn = mechanisms.draw
    with duckanon.connect(path, role="analyst") as con:
        for name, sql in ASKED.items():

            def spy(own: Any, question: PaidQuestion, name: str = name) -> Any:
                found[name] = question
                return drawn(own, question)

            mechanisms.draw = spy  # type: ignore[assignment] # as long as statements run here
            try:
                con.execute(sql).fetchall()
            finally:
                mechanisms.draw = drawn
    return found


@given(ROWS, st.sampled_from(["ann", "Ann"]), st.sampled_from(["", "nocase"]))
def test_a_unit_changes_the_exact_values_by_no_more_than_is_charged(
    path: Path, asked: dict[str, PaidQuestion], rows: dict[str, list[Any]], gone: str, collation: str
) -> None:
    """It takes its records of all tables with it, and moves at most rows_per_unit of them: 2, and 9 for each price."""
    names = {name for name, person in rows["customers"] if person == gone}
    keys = {(number, place) for number, place, name in rows["orders"] if name in names}
    rest = {
        "customers": [one for one in rows["customers"] if one[0] not in names],
        "orders": [one for one in rows["orders"] if one[2] not in names],
        "lines": [one for one in rows["lines"] if one[:2] not in keys],
    }
    with duckdb.connect(str(path)) as con:
        con.execute(f"SET default_collation = '{collation}'").fetchall()
        values = []
        for some in (rows, rest):
            fill(con, some)
            values.append({name: mechanisms.exact(con, question) for name, question in asked.items()})
        for name, most in (("count", 2), ("by kind", 2), ("filtered", 2)):
            ((before,), (after,)) = (one[name] for one in values)
            assert (before - after).min(initial=0) >= 0
            assert abs(before - after).sum() <= most
        assert abs(values[0]["sum"][0] - values[1]["sum"][0]).sum() <= 2 * 9
        # Each record moves its group from one size to another.
        assert abs(values[0]["sizes"][0] - values[1]["sizes"][0]).sum() <= 2 * 2


@given(ROWS)
def test_a_question_counts_the_records_that_have_an_owner(
    path: Path, asked: dict[str, PaidQuestion], rows: dict[str, list[Any]]
) -> None:
    person, customer = dict(rows["customers"]), {(number, place): name for number, place, name in rows["orders"]}
    owners = Counter(person.get(customer.get(one[:2])) for one in rows["lines"] if one[0] is not None)
    with duckdb.connect(str(path)) as con:
        fill(con, rows)
        (found,) = mechanisms.exact(con, asked["count"])
        assert found.sum() == sum(min(many, 2) for owner, many in owners.items() if owner is not None)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make(tmp_path / "x.duckdb")


BREAKS = {
    "the key": "CREATE OR REPLACE TABLE orders AS FROM orders",
    "the table": "DROP TABLE orders",
    "a column": "CREATE OR REPLACE TABLE customers (name VARCHAR UNIQUE)",
    "a type": "CREATE OR REPLACE TABLE customers (name VARCHAR UNIQUE, person DOUBLE)",
    "the policy": "SELECT unprotect('orders')",
}


@pytest.mark.parametrize("what", BREAKS)
def test_without_a_part_of_the_way_to_owners_nothing_is_answered(shop: Path, what: str) -> None:
    with duckanon.connect(shop, role="steward") as con:
        con.execute(BREAKS[what]).fetchall()
    with duckanon.connect(shop, role="analyst") as con:
        for sql in ASKED.values():
            with pytest.raises(PolicyRefusal):
                con.execute(sql)
        assert con.execute("SELECT sum(charges) FROM privacy_budget()").fetchall() == [(0,)]
        ((reason,),) = con.execute("SELECT reason FROM explain_privacy('SELECT count(*) FROM lines')").fetchall()
        assert "keys that its links need" in reason


def test_a_key_that_is_made_again_opens_the_table_again(shop: Path) -> None:
    with duckanon.connect(shop, role="steward") as con:
        con.execute(BREAKS["the key"]).fetchall()
        con.execute("CREATE UNIQUE INDEX again ON orders (place, number)").fetchall()
    with duckanon.connect(shop, role="analyst") as con:
        assert len(con.execute(ASKED["by kind"]).fetchall()) == 2


def test_a_parent_that_is_protected_anew_makes_it_another_question(shop: Path) -> None:
    def charges() -> int:
        with duckanon.connect(shop, role="analyst") as con:
            con.execute(ASKED["count"]).fetchall()
            ((found,),) = con.execute("SELECT charges FROM privacy_budget()").fetchall()
            return int(found)

    assert charges() == charges() == 1
    with duckanon.connect(shop, role="steward") as con:
        con.execute("SELECT unprotect('customers')").fetchall()
        con.execute(f"SELECT {POLICIES[0].replace('rows_per_unit := 1', 'rows_per_unit := 2')}").fetchall()
    assert charges() == charges() == 2


def test_the_unit_is_named_in_words_and_is_no_column(shop: Path) -> None:
    with duckanon.connect(shop, role="analyst") as con:
        ((reason,),) = con.execute("SELECT reason FROM explain_privacy('SELECT count(*) FROM lines')").fetchall()
        assert "all records of one main.customers.person by ordered, place, customer (a sample of 2 counts)" in reason
        described = con.execute("DESCRIBE lines").fetchall()
        assert [one[:1] for one in described] == [("ordered",), ("place",), ("kind",), ("price",)]
        for sql in (
            'SELECT count(DISTINCT "duckanon.unit") FROM lines',
            'SELECT count(*) FROM lines GROUP BY "duckanon.unit"',
        ):
            with pytest.raises(DuckanonError) as refused:
                con.execute(sql)
            assert "Binder" not in str(refused.value)
        ((unit,),) = con.execute(
            "SELECT DISTINCT unit FROM privacy_ledger() WHERE tbl = 'main.lines' AND unit IS NOT NULL"
        ).fetchall()
        assert unit.startswith("all records of one main.customers.person by")
