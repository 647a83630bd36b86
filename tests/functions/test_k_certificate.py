"""k_certificate and its check in SQL: on every kind of column, and what an outsider's changes to it do."""

from collections.abc import Iterator

import duckdb
import pytest

import duckanon
from tests.amounts import sampled

ARGUMENTS = "['age', 'pay', 'job'], k := 3, categorical := ['job']"
CALLS = [
    ARGUMENTS,
    f"{ARGUMENTS}, weights := {{'age': 3, 'pay': 0}}",
    f"{ARGUMENTS}, bands := {{'age': 10}}",
    "['age', 'job'], k := 2, suppress_cells := true",
    "['age', 'job'], k := 2, hierarchies := {'job': ['job[1:1]']}",
]


@pytest.fixture(scope="module")
def people() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckanon.register(duckdb.connect())
    con.execute(
        "CREATE TABLE people AS SELECT i AS id, nullif(i * i % 23, 4) AS age, 0.5 * (i * 7 % 19) AS pay, "
        "chr(97 + (i * 5 % 7)::INT) || i % 2 AS job FROM range(90) r(i)"
    )
    yield con
    con.close()


def checked(con: duckdb.DuckDBPyConnection, table: str, prices: str, arguments: str) -> dict:
    found = con.execute(f"FROM k_certificate_check('{table}', '{prices}', {arguments})")
    names = [one[0] for one in found.description]
    (row,) = found.fetchall()
    return dict(zip(names, row, strict=True))


@pytest.mark.parametrize("arguments", sampled(CALLS))
def test_a_certificate_is_valid_and_below_the_loss(people: duckdb.DuckDBPyConnection, arguments: str) -> None:
    people.execute(f"CREATE OR REPLACE TABLE proof AS FROM k_certificate('people', {arguments})")
    ((bound, records),) = people.execute(
        "SELECT sum(records * price) / sum(records), sum(records) FROM proof"
    ).fetchall()
    ((loss,),) = people.execute(f"SELECT information_loss FROM k_compare('people', {arguments})").fetchall()
    assert records == 90
    assert 0 < bound <= loss
    found = checked(people, "people", "proof", arguments)
    assert found["valid"]
    assert found["lower_bound"] == found["claimed"] == pytest.approx(bound)
    assert (found["too_high"], found["undecided"], found["unpriced"]) == (0, 0, 0)


def test_changed_prices_are_noticed(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(f"CREATE OR REPLACE TABLE proof AS FROM k_certificate('people', {ARGUMENTS})")
    people.execute("CREATE OR REPLACE TABLE higher AS SELECT * REPLACE (price * 1.05 AS price) FROM proof")
    before, after = (checked(people, "people", name, ARGUMENTS) for name in ("proof", "higher"))
    assert before["valid"]
    assert not after["valid"]
    assert after["too_high"] > 0
    assert after["lower_bound"] < before["lower_bound"] * 1.05
    assert after["claimed"] == pytest.approx(before["claimed"] * 1.05)


def test_missing_and_repeated_prices(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(f"CREATE OR REPLACE TABLE proof AS FROM k_certificate('people', {ARGUMENTS})")
    ((bound, several),) = people.execute(
        "SELECT sum(records * price) FILTER (WHERE age IS NOT NULL) / sum(records), "
        "sum(records) FILTER (WHERE age IS NULL) FROM proof"
    ).fetchall()
    people.execute("CREATE OR REPLACE TABLE part AS FROM proof WHERE age IS NOT NULL")
    # Of several prices the least counts; NULL and NaN are none.
    people.execute("INSERT INTO part SELECT * REPLACE (price + 1 AS price) FROM part")
    people.execute("INSERT INTO part SELECT * REPLACE (NULL AS price) FROM part")
    people.execute("INSERT INTO part SELECT * REPLACE ('nan'::DOUBLE AS price) FROM proof")
    found = checked(people, "people", "part", ARGUMENTS)
    assert found["valid"]
    assert found["unpriced"] == several
    assert found["lower_bound"] == pytest.approx(bound)


def test_other_records_have_no_certificate(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(f"CREATE OR REPLACE TABLE proof AS FROM k_certificate('people', {ARGUMENTS})")
    # Many more records at each point need not lose anything.
    people.execute("CREATE OR REPLACE TABLE crowd AS SELECT people.* FROM people, range(3)")
    found = checked(people, "crowd", "proof", ARGUMENTS)
    assert not found["valid"]
    assert found["lower_bound"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("k_certificate('price_list', ['price'])", 'The certificate would have two columns "price": rename'),
        ("k_certificate('people', ['age'], k := 91)", "The table has fewer than k = 91 rows"),
        ("k_certificate('people', ['age'], seconds := 0)", "seconds must be a number above 0"),
        ("k_certificate_check('people', 'people', ['age'])", 'There is no column "price" in people'),
        ("k_certificate_check('people', 'worded', ['age'])", 'Column "price" is not a number and cannot be a price'),
        ("k_certificate_check('people', NULL, ['age'])", "certificate must be the name of a table or view with prices"),
    ],
)
def test_what_is_refused(people: duckdb.DuckDBPyConnection, call: str, sentence: str) -> None:
    people.execute("CREATE OR REPLACE TABLE price_list AS SELECT 1 AS price")
    people.execute("CREATE OR REPLACE TABLE worded AS SELECT 1 AS age, 'much' AS price")
    with pytest.raises(duckdb.Error, match=sentence):
        people.execute(f"FROM {call}").fetchall()


def test_sums_of_squares_are_bounded_and_checked(people: duckdb.DuckDBPyConnection) -> None:
    """The share of the whole sum of squares, which SQL computes from a release's classes and the table."""
    arguments = f"{ARGUMENTS}, objective := 'sse'"
    people.execute(f"CREATE OR REPLACE TABLE proof AS FROM k_certificate('people', {arguments})").fetchall()
    ((bound, records),) = people.execute(
        "SELECT sum(records * price) / sum(records), sum(records) FROM proof"
    ).fetchall()
    found = checked(people, "people", "proof", arguments)
    assert records == 90
    assert found["valid"]
    assert found["lower_bound"] == found["claimed"] == pytest.approx(bound)
    for method, loss, least, gap in people.execute(
        "SELECT method, information_loss, lower_bound, gap "
        f"FROM k_compare('people', {arguments}, methods := ['auto', 'exact'])"
    ).fetchall():
        assert 0 < bound <= least + 1e-9 <= loss + 2e-9, method
        assert gap == pytest.approx(1 - least / loss)
        assert gap < 0.1
    people.execute("CREATE OR REPLACE TABLE higher AS SELECT * REPLACE (price * 1.2 AS price) FROM proof").fetchall()
    after = checked(people, "people", "higher", arguments)
    assert (after["valid"], after["too_high"] > 0) == (False, True)
    assert after["lower_bound"] < after["claimed"] == pytest.approx(1.2 * bound)
    for more, says in (
        (", bands := {'age': 10}", "leave bands, hierarchies and suppress_cells out"),
        (", suppress_cells := true", "leave categorical, bands and hierarchies out|leave bands, hierarchies"),
    ):
        for call in (f"k_certificate('people', {arguments}{more})", f"k_compare('people', {arguments}{more})"):
            with pytest.raises(duckdb.Error, match=says):
                people.execute(f"FROM {call}").fetchall()


def test_the_share_of_the_sum_of_squares_is_that_of_the_release(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(
        "CREATE OR REPLACE VIEW numbers AS SELECT i AS id, i * i % 23 AS age, 0.5 * (i * 7 % 19) AS pay "
        "FROM range(90) r(i)"
    ).fetchall()
    ((loss,),) = people.execute(
        "SELECT information_loss FROM k_compare('numbers', ['age', 'pay'], k := 4, objective := 'sse')"
    ).fetchall()
    ((within,),) = people.execute(
        "WITH c AS (SELECT class_id, n.age / (SELECT stddev_pop(age) FROM numbers) AS a, "
        "n.pay / (SELECT stddev_pop(pay) FROM numbers) AS p "
        "FROM k_anonymize('numbers', ['age', 'pay'], k := 4, objective := 'sse') JOIN numbers n USING (id)) "
        "SELECT sum(v) / (2 * 90) FROM (SELECT count(*) * (var_pop(a) + var_pop(p)) AS v FROM c GROUP BY class_id)"
    ).fetchall()
    assert loss == pytest.approx(within)
