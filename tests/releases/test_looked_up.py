"""Columns that are looked up for each record are prepared like its own: as DuckDB has it, and private as a whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.catalog.names import literals
from duckanon.releases import mechanisms
from duckanon.releases.mechanisms import marginals
from duckanon.releases.preparations import PreparationQuestion
from tests.amounts import sampled
from tests.releases.test_preparations import loss, no_noise, rows, spent

TABLES = """
CREATE TABLE buyers (pid INTEGER PRIMARY KEY, sex VARCHAR);
CREATE TABLE orders (o INTEGER PRIMARY KEY, who INTEGER, status VARCHAR, nation INTEGER);
CREATE TABLE items (o INTEGER, kind INTEGER, state VARCHAR, n INTEGER);
CREATE TABLE visits (pid INTEGER, kind INTEGER);
CREATE TABLE kinds (k BIGINT, category VARCHAR, class VARCHAR, price DECIMAL(6,2), code BIGINT);
CREATE TABLE nations (n INTEGER PRIMARY KEY, region VARCHAR, size INTEGER)
"""
RECORDS = """
INSERT INTO buyers SELECT i, ['f', 'm'][1 + i % 2] FROM range(30) r(i);
INSERT INTO orders SELECT i, CASE WHEN i < 78 THEN i // 2 END, ['open', 'done'][1 + i % 2], i % 5 FROM range(80) r(i);
INSERT INTO items SELECT i % 85, nullif(i % 12, 11), ['a', 'b'][1 + i // 2 % 2], i % 5 FROM range(240) r(i);
INSERT INTO visits SELECT i % 40, i % 12 FROM range(100) r(i);
INSERT INTO kinds SELECT i, ['toys', 'books', NULL][1 + i % 3], ['x', 'y'][1 + i % 2], nullif(i, 4) * 1.25,
  10000000000000000 + i % 2 FROM range(10) r(i);
INSERT INTO kinds VALUES (NULL, 'none', 'x', 500, 0);
INSERT INTO nations SELECT i, ['east', 'west'][1 + i % 2], i * i - 2 FROM range(4) r(i)
"""
TERMS = "population := 'buyers', epsilon := 4, delta := 1e-9, per_query := 0.1, rows_per_unit := {rows}"
POLICIES = (
    "SELECT protect('buyers', privacy_unit := 'pid', {terms}, public := ['sex'], domains := {{'sex': ['f', 'm']}})",
    "SELECT protect('orders', privacy_unit := 'who', {terms}, public := ['status'], "
    "bounds := {{'nation': [0, 4]}}, domains := {{'status': ['open', 'done']}})",
    "SELECT protect('items', link := {{'o': 'orders.o'}}, {terms}, public := ['state'], bounds := {{'n': [0, 4]}}, "
    "domains := {{'state': ['a', 'b']}})",
    "SELECT protect('visits', privacy_unit := 'pid', {terms})",
    "SELECT open_table('kinds'), open_table('nations')",
)
OWNED = "(SELECT items.* FROM items JOIN orders USING (o) WHERE who IS NOT NULL)"
# Queries of items that follow. `{}` stands for the records.
QUERIES = (
    "SELECT k.category, count(*) FROM {} AS i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "SELECT k.category, i.state, sum(n), avg(n) FROM {} AS i LEFT JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "SELECT o.status, count(*) FROM {} AS i JOIN orders o ON i.o = o.o GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i JOIN orders o USING (o) GROUP BY state",
    "SELECT c.region, count(*) FROM {} AS i JOIN orders o ON i.o = o.o JOIN nations c ON c.n = o.nation "
    "WHERE i.state = 'a' GROUP BY ALL",
    "SELECT k.class, count(*) FILTER (WHERE k.category = 'toys') AS t, count(*) AS n FROM {} AS i, kinds k "
    "WHERE i.kind = k.k GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i GROUP BY state",
    "SELECT k.category IS NULL AS z, 100.0 * count(*) / sum(count(*)) OVER () FROM {} AS i "
    "JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "WITH j AS (SELECT k.category, i.n FROM {} AS i JOIN kinds k ON i.kind = k.k) "
    "SELECT category, sum(n) FROM j GROUP BY category",
    "SELECT category, count(*) FROM (SELECT k.category FROM {} AS i JOIN kinds k ON i.kind = k.k WHERE state = 'b') "
    "GROUP BY category",
    "SELECT k.category, c.region, count(*) FROM {} AS i LEFT JOIN kinds k ON i.kind = k.k JOIN orders o ON o.o = i.o "
    "LEFT JOIN nations c ON c.n = o.nation GROUP BY ALL",
    # A key whose values are too large for sums.
    "SELECT k.code, count(*) FROM {} AS i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    # Numbers that are looked up.
    "SELECT state, sum(k.price), avg(k.price), count(k.price) FROM {} AS i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "SELECT state, sum(k.price), sum(n), count(*) FROM {} AS i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "SELECT k.class, sum(k.price), count(*) FROM {} AS i JOIN kinds k ON i.kind = k.k WHERE i.state = 'b' GROUP BY ALL",
    "SELECT o.status, sum(c.size) FROM {} AS i JOIN orders o ON i.o = o.o LEFT JOIN nations c ON c.n = o.nation "
    "GROUP BY ALL",
    "SELECT state, sum(o.nation) FROM {} AS i JOIN orders o ON i.o = o.o GROUP BY state HAVING count(*) > 100",
    # What is computed of them, and whether there is a number.
    "SELECT state, avg(-k.price), sum(1 - 2 * k.price), sum(coalesce(k.price, 3)), sum(k.price) / count(*) "
    "FROM {} AS i LEFT JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "SELECT k.class, sum(coalesce(k.price, 3)), avg(-k.price) FROM {} AS i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i LEFT JOIN kinds k ON i.kind = k.k WHERE k.price IS NULL GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i JOIN kinds k ON i.kind = k.k WHERE k.price IS NOT NULL GROUP BY ALL",
    "SELECT k.class, count(*) FROM {} AS i JOIN kinds k ON i.kind = k.k WHERE k.price IS NULL GROUP BY ALL",
    # Whether there are rows, of the record's own unit or of open tables.
    "SELECT state, count(*) FROM {} AS i WHERE o IN (SELECT o FROM orders WHERE status = 'open') GROUP BY ALL",
    "SELECT state, sum(n), avg(n) FROM {} AS i WHERE kind IN (SELECT k FROM kinds WHERE class = 'x') GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i WHERE NOT EXISTS (FROM kinds k WHERE k.k = i.kind AND k.class = 'x') "
    "GROUP BY ALL",
    "SELECT state, count(*), count(*) FILTER (WHERE EXISTS (SELECT 1 FROM items j WHERE j.o = i.o AND j.n = 4)) AS f "
    "FROM {} AS i GROUP BY ALL",
    "SELECT o.status, count(*) FROM {} AS i JOIN orders o ON i.o = o.o WHERE EXISTS (SELECT * FROM buyers b "
    "WHERE b.pid = o.who AND b.sex = 'f') OR i.state = 'a' GROUP BY ALL",
    "SELECT EXISTS (SELECT 1 FROM nations c WHERE c.n = i.n) AS e, count(*) FROM {} AS i GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i SEMI JOIN kinds k ON i.kind = k.k AND k.price > 5 GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i ANTI JOIN kinds k ON i.kind = k.k GROUP BY ALL",
    "SELECT state, count(*) FROM {} AS i WHERE i.kind IN (SELECT DISTINCT k FROM kinds WHERE category IS NULL) "
    "AND i.o IN (SELECT o FROM orders WHERE nation < 3) GROUP BY ALL HAVING count(*) > 1",
)
OF_VISITS = "SELECT b.sex, count(*) FROM visits v JOIN buyers b ON v.pid = b.pid GROUP BY b.sex"


def protected(path: Path, rows_per_unit: int = 12) -> Any:
    con = duckanon.connect(path, role="steward")
    con.execute(TABLES).fetchall()
    terms = TERMS.format(rows=rows_per_unit)
    for one in POLICIES:
        con.execute(one.format(terms=terms)).fetchall()
    return con


def prepare(table: str, queries: Any, more: str = "buy := true") -> str:
    return f"FROM prepare('{table}', queries := {literals(queries)}, epsilon := 0.5, {more})"


ITEMS = [one.format("items") for one in QUERIES]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with preparations without noise."""
    path: Path = tmp_path_factory.mktemp("looked_up") / "x.duckdb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "discrete_gaussian", no_noise)
        with protected(path) as con:
            con.execute(RECORDS).fetchall()
            con.execute(prepare("items", ITEMS)).fetchall()
            con.execute(prepare("visits", [OF_VISITS])).fetchall()
    return path


@pytest.fixture
def analyst(made: Path) -> Iterator[Analyst]:
    with duckanon.connect(made, role="analyst") as con:
        yield con


@pytest.fixture(scope="module")
def steward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Of a database without records, to whom plans are shown."""
    with protected(tmp_path_factory.mktemp("planned") / "x.duckdb") as con:
        yield con


@pytest.mark.parametrize("query", sampled(QUERIES))
def test_as_duckdb_has_it_and_free(query: str, made: Path, analyst: Analyst) -> None:
    step = analyst.explain(query.format("items")).steps[0]
    assert step.reason.startswith("Free: it follows from what was prepared"), step.reason
    found = rows(analyst, query.format("items"))
    with duckdb.connect() as plain:
        plain.execute(TABLES + ";" + RECORDS).fetchall()
        expected = rows(plain, query.format(OWNED))
    # Combinations that no record has are told with zeros.
    empty = [one for one in found if all(each in (0, None) for each in one[-1:])]
    assert [one for one in found if one not in empty] == [pytest.approx(one) for one in expected]


def test_counts_of_units_are_paid_for_beside_what_is_prepared(made: Path) -> None:
    joined = "{} i JOIN orders o USING (o) JOIN kinds k ON i.kind = k.k"
    asked = f"SELECT k.category, count(*), count(DISTINCT o.who) FROM {joined}"
    with duckanon.connect(made, role="analyst") as con:
        before = spent(con)
        assert con.execute(asked.format("items") + " GROUP BY ALL").fetchall()
        assert spent(con) > before


def test_records_of_the_same_unit(analyst: Analyst) -> None:
    """Visits of nobody who is among the buyers find nothing."""
    assert analyst.explain(OF_VISITS).steps[0].reason.startswith("Free")
    assert rows(analyst, OF_VISITS) == [("f", 40), ("m", 40)]


def test_what_is_prepared_says_what_is_looked_up(analyst: Analyst) -> None:
    told = [one for (one,) in analyst.execute("SELECT columns FROM prepared() WHERE tbl = 'main.items'").fetchall()]
    assert ["orders.status by o"] in told
    assert ["kinds.category by kind, if any", "state", "n"] in told
    assert ["nations.region by nation by o", "state"] in told


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "SELECT i.state, count(*) FROM items i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
            "`kinds k` cannot be answered. The join with kinds leaves out records that find nothing there",
        ),
        (
            "SELECT k.k, count(*) FROM items i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
            "The join with kinds leaves out records",
        ),
        (
            "SELECT k.k, count(*) FROM items i JOIN kinds k ON k.k = i.kind + 1 GROUP BY ALL",
            "kinds is looked up by what is computed from a record, .* let the steward store what is computed",
        ),
        (
            "SELECT a.state, count(*) FROM items a JOIN items b ON a.o = b.o GROUP BY ALL",
            "items is no look-up: a record must find one row there at most",
        ),
        (
            "SELECT b.sex, count(*) FROM items i JOIN buyers b ON i.n = b.pid GROUP BY ALL",
            "buyers and items are both protected, and nothing in the join says that their records are of one unit",
        ),
        (
            "SELECT o.status, count(*) FROM orders o LEFT JOIN items i ON i.o = o.o GROUP BY ALL",
            "is no look-up",
        ),
        (
            "SELECT state, count(*) FROM items WHERE kind NOT IN (SELECT k FROM kinds) GROUP BY ALL",
            r"`kind NOT IN \(SELECT k FROM kinds\)` cannot be answered. IN is NULL where a column of it is",
        ),
        (
            "SELECT state, count(*) FROM items WHERE n IN (SELECT nation FROM orders) GROUP BY ALL",
            r"`n IN \(SELECT nation FROM orders\)` cannot be answered. A subquery asks records of other units",
        ),
        (
            "SELECT state, count(*) FROM items i "
            "WHERE EXISTS (SELECT 1 FROM orders o WHERE o.o = i.o AND o.nation < i.n) GROUP BY ALL",
            "cannot be answered. What is prepared follows subqueries of EXISTS and IN that read one table",
        ),
        (
            "SELECT state, count(*) FROM items i WHERE i.n = (SELECT max(n) FROM nations) GROUP BY ALL",
            "cannot be answered. A subquery for a value is no column of what is prepared",
        ),
        (
            "SELECT state, count(*) FROM (SELECT state, o FROM items GROUP BY ALL HAVING count(*) > 1) GROUP BY ALL",
            "What is computed of several records of a unit is no column of a record",
        ),
        (
            "SELECT state, sum(i.n) FROM items i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
            "The join with kinds leaves out records",
        ),
        (
            "SELECT state, sum(length(k.class)) FROM items i JOIN kinds k ON i.kind = k.k GROUP BY ALL",
            "cannot be answered",
        ),
        ("SELECT state, count(*) FROM items WHERE n > 2 GROUP BY ALL", "`n > 2` cannot be answered"),
    ],
)
def test_what_is_no_column_is_quoted(query: str, says: str, steward: Any) -> None:
    with pytest.raises(duckdb.Error, match=says):
        steward.execute(prepare("items", [query], "buy := false")).fetchall()


def test_another_content_of_an_open_table_is_another_question(tmp_path: Path) -> None:
    with protected(tmp_path / "x.duckdb") as con:
        con.execute(RECORDS).fetchall()
        con.execute(prepare("items", ITEMS[:1])).fetchall()
        asked = f"SELECT reason FROM explain_privacy({literals(ITEMS[:1])[1:-1]}, role := 'analyst')"

        def is_free() -> bool:
            ((reason,),) = con.execute(asked).fetchall()
            return str(reason).startswith("Free: it follows")

        assert is_free()
        con.execute("UPDATE kinds SET category = 'games' WHERE k = 0").fetchall()
        assert not is_free()
        con.execute(prepare("items", ITEMS[:1])).fetchall()
        assert spent(con)[1] == 2
        assert is_free()
        con.execute("UPDATE kinds SET category = 'toys' WHERE k = 0").fetchall()
        con.execute("UPDATE kinds SET class = 'z' WHERE k = 0").fetchall()
        # The first purchase has these values, and another column makes no difference.
        assert is_free()
        con.execute(prepare("items", ITEMS[:1])).fetchall()
        assert spent(con)[1] == 2


def test_a_domain_of_another_policy_that_changed_in_place_is_another_question(tmp_path: Path) -> None:
    """Its values had other places among the cells, and a row was told the number of another."""
    by_status, of_nation = ITEMS[2], ITEMS[16]
    with protected(tmp_path / "x.duckdb") as con:
        con.execute(RECORDS).fetchall()
        con.execute(prepare("items", [by_status, of_nation])).fetchall()

        def is_free(query: str) -> bool:
            ((reason,),) = con.execute(
                f"SELECT reason FROM explain_privacy({literals([query])[1:-1]}, role := 'analyst')"
            ).fetchall()
            return str(reason).startswith("Free: it follows")

        assert is_free(by_status)
        assert is_free(of_nation)
        orders = POLICIES[1].format(terms=TERMS.format(rows=12))
        con.execute(orders.replace("['open', 'done']", "['lost', 'open', 'done']")).fetchall()
        assert not is_free(by_status)
        assert is_free(of_nation)
        con.execute(
            orders.replace("['open', 'done']", "['lost', 'open', 'done']").replace("[0, 4]", "[0, 3]")
        ).fetchall()
        assert not is_free(of_nation)


# --- privacy of the whole ---------------------------------------------------------------------------------------------

# Of each unit: its orders, each with status, nation, and items (kind, state, n).
UNITS: tuple[tuple[tuple[str, int, tuple[tuple[int, str, int], ...]], ...], ...] = (
    (("open", 0, ((0, "a", 4), (0, "a", 4))),),
    (("done", 1, ((1, "b", 0),)), ("open", 9, ((2, "a", 2), (77, "zz", 3)))),
    (("lost", 2, ((0, "b", 1), (1, "a", 0), (5, "a", 4))),),
)


def bought(tmp_path: Path, rows_per_unit: int) -> tuple[Any, PreparationQuestion]:
    con = protected(tmp_path / "x.duckdb", rows_per_unit)
    con.execute(
        "INSERT INTO kinds SELECT i, ['toys', 'books', NULL][1 + i % 3], 'x', i, 0 FROM range(6) r(i); "
        "INSERT INTO nations VALUES (0, 'east', 1), (1, 'west', 2), (2, 'west', 3)"
    ).fetchall()
    asked: list[PreparationQuestion] = []
    with pytest.MonkeyPatch.context() as patch:
        drawn = mechanisms.draw

        def noted(own: duckdb.DuckDBPyConnection, question: PreparationQuestion) -> Any:
            asked.append(question)
            return drawn(own, question)

        patch.setattr(mechanisms, "draw", noted)
        con.execute(prepare("items", [ITEMS[at] for at in (1, 2, 4, 12, 16, 17, 20)])).fetchall()
    return con, asked[0]


def exactly(con: Any, question: PreparationQuestion, units: Any) -> dict[tuple[int, ...], np.ndarray]:
    con.execute("DELETE FROM items; DELETE FROM orders").fetchall()
    for at, orders in units:
        for number, (status, nation, items) in enumerate(orders):
            order = 10 * at + number
            con.execute("INSERT INTO orders VALUES (?, ?, ?, ?)", [order, at, status, nation])
            for one in items:
                con.execute("INSERT INTO items VALUES (?, ?, ?, ?)", [order, *one])
    return marginals.marginals(con, question)


@pytest.mark.parametrize("rows_per_unit", [1, 2, 3])
def test_a_unit_changes_all_marginals_by_what_is_charged(tmp_path: Path, rows_per_unit: int) -> None:
    """A unit leaves with the records in which its others are looked up."""
    con, question = bought(tmp_path, rows_per_unit)
    assert question.renyi is not None
    most, worst = question.renyi.rho(question.epsilon), Fraction(0)
    numbered = list(enumerate(UNITS))
    for size in range(len(UNITS) + 1):
        for some in itertools.combinations(numbered, size):
            whole = exactly(con, question, some)
            for left in range(len(some)):
                found = loss(question, whole, exactly(con, question, some[:left] + some[left + 1 :]))
                assert found <= most
                worst = max(worst, found)
    # So the test can fail: with a smaller scale the loss is above the charge.
    assert (worst == most) is (rows_per_unit <= 2)
    con.close()


def test_a_record_counts_once_whatever_an_open_table_holds(tmp_path: Path) -> None:
    """Rows that come after the decision make no record count twice: the twin that joins them as they are would."""
    con, question = bought(tmp_path, 3)
    before = exactly(con, question, list(enumerate(UNITS)))
    con.execute("INSERT INTO kinds SELECT * FROM kinds").fetchall()
    after = exactly(con, question, list(enumerate(UNITS)))
    assert all(np.array_equal(before[one], after[one]) for one in before)
    joined = con.execute("SELECT count(*) FROM items JOIN kinds ON kind = k").fetchall()[0][0]
    assert joined > con.execute("SELECT count(*) FROM items").fetchall()[0][0]
    con.close()
