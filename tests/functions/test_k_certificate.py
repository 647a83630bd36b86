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
