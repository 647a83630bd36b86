"""Every mistake gets one sentence that says what was wrong, where, and what to do. The connection works on."""

import duckdb
import pytest

import duckanon
from duckanon.engines.kanon.methods import METHODS

PREFIX = "Invalid Input Error: "

K_ANONYMIZE = {
    "['agee']": 'There is no column "agee" in people; its columns are age, zip, city, pay, tags, since, raw, shut.',
    "['age', 'Age']": 'Column "Age" is named twice in qi: name it once.',
    "[]": "qi is empty: name at least one column, as in qi := ['age', 'zip'].",
    "'age'": "qi must be a list of column names, as in qi := ['age', 'zip'].",
    "[1]": "qi must be a list of column names, as in qi := ['age', 'zip'].",
    "NULL": "qi must be a list of column names, as in qi := ['age', 'zip'].",
    "['age'], k := 1": "k must be 2 or more: with k = 1 every record may stand alone.",
    "['age'], k := -3": "k must be 2 or more: with k = 1 every record may stand alone.",
    "['age'], k := NULL": "k must be a whole number, as in k := 5.",
    "['age'], k := 2.5": "k must be a whole number, as in k := 5.",
    "['age'], k := 9223372036854775808": ("k does not fit into 64 bits: give a smaller whole number, as in k := 5."),
    "['age'], k := -1e30": "k does not fit into 64 bits: give a smaller whole number, as in k := 5.",
    "['age'], k := '5'": "k must be a whole number, as in k := 5.",
    "['age'], k := 10": "The table has fewer than k = 10 rows: choose a smaller k, or anonymise more rows together.",
    "['age'], method := 'magic'": (
        "There is no method 'magic': choose one of " + ", ".join(f"'{name}'" for name in METHODS) + "."
    ),
    "['age'], seconds := 0": "seconds must be a number above 0, as in seconds := 10.",
    "['age'], seconds := 'inf'::DOUBLE": "seconds must be a number, as in seconds := 10.",
    "['age'], seconds := 'soon'": "seconds must be a number, as in seconds := 10.",
    "['age'], seconds := 1, method := 'order'": (
        "Method 'order' takes no time limit: leave seconds out, or choose one of "
        + ", ".join(f"'{name}'" for name, method in METHODS.items() if method.timed)
        + "."
    ),
    "['age'], method := 3": "method must be a name in quotes.",
    "['age'], weights := {'age': -1}": 'The weight of "age" must be a number that is zero or more.',
    "['age'], weights := {'age': 'nan'::DOUBLE}": 'The weight of "age" must be a number that is zero or more.',
    "['age'], weights := {'age': 'inf'::DOUBLE}": 'The weight of "age" must be a number that is zero or more.',
    "['age'], weights := {'age': 'much'}": 'The weight of "age" must be a number that is zero or more.',
    "['age'], weights := {'age': NULL}": 'The weight of "age" must be a number that is zero or more.',
    "['age', 'zip'], weights := {'age': 0, 'zip': 0}": (
        "All weights are zero: give at least one quasi-identifier a weight above zero."
    ),
    "['age'], weights := {'pay': 1}": 'weights names "pay", which is not in qi: weigh quasi-identifiers only.',
    "['age', 'zip'], weights := [1]": "weights has 1 numbers for 2 quasi-identifiers: give one for each.",
    "['age'], weights := 3": "weights must give numbers by name, as in weights := {'age': 2, 'zip': 1}.",
    "['city']": (
        "Column \"city\" is text: name it in categorical := ['city'] to release sets of its values, "
        "or cast it to an ENUM, a number or a date to release intervals."
    ),
    "['age'], categorical := ['city']": (
        'Column "city" is in categorical but not in qi: add it to qi, or take it out of categorical.'
    ),
    "['age'], categorical := 'age'": "categorical must be a list of column names, as in categorical := ['age', 'zip'].",
    "['age'], drop := ['nope']": (
        'There is no column "nope" in people; its columns are age, zip, city, pay, tags, since, raw, shut.'
    ),
    "['age'], drop := ['AGE']": 'Column "AGE" is in both qi and drop: name it in one of them.',
    "['tags']": (
        'Column "tags" is nested and cannot be a quasi-identifier: unnest it, or pick out one field as a column.'
    ),
    "['tags'], categorical := ['tags']": (
        'Column "tags" is nested and cannot be a quasi-identifier: unnest it, or pick out one field as a column.'
    ),
    "['shut']": ('Column "shut" is of type INTERVAL and cannot be a quasi-identifier: cast it to a number of seconds.'),
    "['raw']": 'Column "raw" is of type BLOB and cannot be a quasi-identifier: cast it to VARCHAR.',
    "['pay']": 'Column "pay" holds NaN or infinity: replace them by NULL, or leave those rows out.',
    "['since']": 'Column "since" holds an infinite date: replace it by NULL, or leave those rows out.',
}


@pytest.fixture
def people(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE people AS SELECT i AS age, i * 7 AS zip, 'secret' || i AS city, "
        "CASE WHEN i = 4 THEN 'nan'::DOUBLE ELSE i END AS pay, [i] AS tags, "
        "CASE WHEN i = 4 THEN 'infinity'::DATE ELSE DATE '2020-01-01' END AS since, 'secret'::BLOB AS raw, "
        "INTERVAL 1 DAY AS shut FROM range(9) r(i)"
    ).fetchall()
    return con


def sentence(con: duckdb.DuckDBPyConnection, query: str) -> str:
    """The whole error text, less DuckDB's name for its kind; the connection must work on."""
    with pytest.raises(duckdb.InvalidInputException) as raised:
        con.execute(query).fetchall()
    assert con.execute("SELECT count(*) FROM people").fetchall() == [(9,)]
    text = str(raised.value)
    assert text.startswith(PREFIX)
    assert "secret" not in text
    return text.removeprefix(PREFIX)


@pytest.mark.parametrize("arguments", K_ANONYMIZE)
def test_k_anonymize(people: duckdb.DuckDBPyConnection, arguments: str) -> None:
    assert sentence(people, f"FROM k_anonymize('people', {arguments})") == K_ANONYMIZE[arguments]


def test_infinity(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("UPDATE people SET pay = '-inf'::DOUBLE WHERE age = 4").fetchall()
    assert sentence(people, "FROM k_anonymize('people', ['pay'])") == K_ANONYMIZE["['pay']"]
    people.execute("ALTER TABLE people ALTER since TYPE TIMESTAMP").fetchall()
    assert sentence(people, "FROM k_anonymize('people', ['since'])") == K_ANONYMIZE["['since']"]


def test_an_empty_table(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE nobody AS FROM people WHERE false").fetchall()
    said = sentence(people, "FROM k_anonymize('nobody', ['age'])")
    assert said == "The table has no rows: there is nothing to anonymise."
    assert sentence(people, "FROM k_compare('nobody', ['age'])") == said
    assert sentence(people, "FROM k_report('nobody', ['age'])") == "The table has no rows: there is nothing to report."
    people.execute("CREATE VIEW unknown AS SELECT *, NULL::INTEGER AS person FROM people").fetchall()
    said = sentence(people, "FROM k_report('unknown', ['age'], unit := 'person')")
    assert said == "The table has no rows, or none with a unit: there is nothing to report."


def test_names_are_folded_as_duckdb_folds_them(people: duckdb.DuckDBPyConnection) -> None:
    people.execute('CREATE TABLE two AS SELECT age, age + 1 AS "Ä", since AS "ä" FROM people').fetchall()
    query = """SELECT * EXCLUDE (class_id) FROM k_anonymize('two', ['AGE', 'Ä'], k := 3, drop := ['ä'])"""
    found = people.execute(query)
    assert [column[0] for column in found.description] == ["AGE_lo", "AGE_hi", "Ä_lo", "Ä_hi"]


@pytest.mark.parametrize("function", ["k_anonymize", "k_report", "k_compare"])
def test_a_missing_table(people: duckdb.DuckDBPyConnection, function: str) -> None:
    with pytest.raises(duckdb.CatalogException, match=r"^Catalog Error: Table with name peopel does not exist!"):
        people.execute(f"FROM {function}('peopel', ['age'])").fetchall()
    assert people.execute("SELECT count(*) FROM people").fetchall() == [(9,)]


@pytest.mark.parametrize("table", ["NULL", "''", "3"])
def test_a_table_that_is_no_name(people: duckdb.DuckDBPyConnection, table: str) -> None:
    said = sentence(people, f"FROM k_anonymize({table}, ['age'])")
    assert said == "The first argument must be the name of a table or view, in quotes."


def test_names_of_the_release_that_are_taken(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE twice AS SELECT age, age AS AGE_LO FROM people").fetchall()
    said = sentence(people, "FROM k_anonymize('twice', ['age'])")
    assert said == 'The release would have two columns "age_lo": drop or rename the column of the table.'
    assert len(people.execute("FROM k_anonymize('twice', ['age'], drop := ['age_lo'])").fetchall()) == 9
    people.execute("CREATE TABLE again AS FROM k_anonymize('people', ['age'])").fetchall()
    said = sentence(people, "FROM k_anonymize('again', ['zip'])")
    assert said == 'The release would have two columns "class_id": drop or rename the column of the table.'


def test_our_own_name_is_reserved(people: duckdb.DuckDBPyConnection) -> None:
    people.execute('CREATE TABLE odd AS SELECT age, 1 AS "duckanon.row" FROM people').fetchall()
    said = sentence(people, "FROM k_anonymize('odd', ['age'])")
    assert said == 'The column name "duckanon.row" is reserved for duckanon: rename the column.'


def test_a_wide_table_names_its_first_columns(people: duckdb.DuckDBPyConnection) -> None:
    columns = ", ".join(f"1 AS c{i}" for i in range(40))
    people.execute(f"CREATE TABLE wide AS SELECT {columns}").fetchall()
    said = sentence(people, "FROM k_report('wide', ['nope'])")
    known = ", ".join(f"c{i}" for i in range(30))
    assert said == f'There is no column "nope" in wide; its columns are {known}, ....'


K_REPORT = {
    "['agee']": K_ANONYMIZE["['agee']"],
    "[]": K_ANONYMIZE["[]"],
    "['age'], sensitive := ['nope']": K_ANONYMIZE["['age'], drop := ['nope']"],
    "['age'], sensitive := ['age']": 'Column "age" is in both qi and sensitive: name it in one of them.',
    "['age'], sensitive := ['tags']": (
        'Column "tags" is nested and cannot be a sensitive column: unnest it, or pick out one field as a column.'
    ),
    "['age'], sensitive := ['pay']": K_ANONYMIZE["['pay']"],
}


@pytest.mark.parametrize("arguments", K_REPORT)
def test_k_report(people: duckdb.DuckDBPyConnection, arguments: str) -> None:
    assert sentence(people, f"FROM k_report('people', {arguments})") == K_REPORT[arguments]


K_COMPARE = {
    "['age'], k := [3, 1]": K_ANONYMIZE["['age'], k := 1"],
    "['age'], k := []": "k is empty: give at least one value.",
    "['age'], k := ['a']": "k must be a whole number, as in k := 5.",
    "['age'], k := [5, 10]": K_ANONYMIZE["['age'], k := 10"],
    "['age'], methods := []": "methods is empty: give at least one value.",
    "['age'], methods := ['order', 'magic']": K_ANONYMIZE["['age'], method := 'magic'"],
    "['city']": K_ANONYMIZE["['city']"],
    "['age'], target := 'nope'": K_ANONYMIZE["['age'], drop := ['nope']"],
    "['age'], target := 'age'": 'Column "age" is in both qi and target: name it in one of them.',
    "['age'], target := 'tags'": "The target column is nested: unnest it, or pick out one field as a column.",
    "['age'], target := 3": "target must be a name in quotes.",
}


@pytest.mark.parametrize("arguments", K_COMPARE)
def test_k_compare(people: duckdb.DuckDBPyConnection, arguments: str) -> None:
    assert sentence(people, f"FROM k_compare('people', {arguments})") == K_COMPARE[arguments]


@pytest.mark.parametrize("asked", ["count(*)", "k", "1", "max(k) + 1"])
def test_a_refusal_is_raised_whatever_is_asked_of_the_answer(asked: str) -> None:
    con = duckdb.connect()
    duckanon.register(con)
    con.execute("CREATE TABLE t AS SELECT 1 AS age FROM range(9)").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="l must be 2 or more"):
        con.execute(f"SELECT {asked} FROM k_report('t', ['age'], l := 1)").fetchall()
