"""k_utility in SQL."""

import sys
from datetime import date

import duckdb
import pytest

from tests.extras import needs
from tests.shared_connection import Begun

PEOPLE = """
CREATE TYPE size AS ENUM ('small', 'middle', 'large');
CREATE TABLE people AS SELECT i AS id, 20 + (hash(i) % 50)::INT AS age, 'c' || hash(i + 1) % 6 AS city,
  DATE '2000-01-01' + (hash(i + 2) % 900)::INT AS since,
  ['small', 'middle', 'large'][1 + (hash(i + 3) % 3)::INT]::size AS size,
  hash(i + 4) % 2 = 0 AS sick, (hash(i + 5) % 1000) / 7 AS pay FROM range(400) r(i);
CREATE TABLE released AS FROM k_anonymize('people', ['age', 'city', 'since', 'size'], k := 4, categorical := ['city'],
  drop := ['id']);
"""
COLUMNS = ["age", "city", "since", "size", "sick", "pay"]


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(PEOPLE).fetchall()


@pytest.fixture
def people(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


def rows(con: duckdb.DuckDBPyConnection, query: str, *given: object) -> list[dict]:
    found = con.execute(query, list(given))
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_the_figures_that_sql_has_too(people: duckdb.DuckDBPyConnection) -> None:
    found = rows(people, "FROM k_utility('people', 'released', ?)", COLUMNS)
    by = {(one["measure"], *one["columns"], one["value"]): one for one in found}
    ((mean, deviation, median, pay, together),) = people.execute(
        "SELECT avg(age), stddev_pop(age), quantile_disc(age, 0.5), avg(pay), corr(age, pay) FROM people"
    ).fetchall()
    assert by["mean", "age", None]["before"] == pytest.approx(mean)
    assert by["standard_deviation", "age", None]["before"] == pytest.approx(deviation)
    assert by["quantile", "age", "50 %"]["before"] == median
    assert by["correlation", "age", "pay", None]["before"] == pytest.approx(together)
    ((mean, spread),) = people.execute(
        "SELECT avg((age_lo + age_hi) / 2), "
        "var_pop((age_lo + age_hi) / 2) + avg(((age_hi - age_lo + 1) ** 2 - 1) / 12) FROM released"
    ).fetchall()
    assert by["mean", "age", None]["after"] == pytest.approx(mean)
    assert by["standard_deviation", "age", None]["after"] == pytest.approx(spread**0.5)
    # What is copied is as it was.
    for name in ("sick", "pay"):
        assert by["total_variation", name, None]["difference"] == 0
    assert by["mean", "pay", None]["after"] == pytest.approx(pay)
    assert by["mean", "pay", None]["difference"] == 0
    # A set's members are equally likely, an interval of an ENUM holds what lies between its ends.
    ((share,),) = people.execute(
        "SELECT avg(list_contains(city_set, 'c2')::INT / len(city_set)) FROM released"
    ).fetchall()
    assert by["share", "city", "c2"]["after"] == pytest.approx(share)
    ((middle,),) = people.execute(
        "SELECT avg(CASE WHEN 'middle'::size BETWEEN size_lo AND size_hi "
        "THEN 1 / (1 + enum_code(size_hi) - enum_code(size_lo)) ELSE 0 END) FROM released"
    ).fetchall()
    assert by["share", "size", "middle"]["after"] == pytest.approx(middle)
    assert [one["value"] for one in found if (one["measure"], one["columns"]) == ("share", ["size"])] == [
        "small", "middle", "large",
    ]  # fmt: skip
    labels = [one["value"] for one in found if (one["measure"], one["columns"]) == ("share", ["since"])]
    assert len(labels) == 10
    assert labels[0].startswith("2000-01-0")
    assert by["mean", "since", None]["before"] == pytest.approx(
        people.execute("SELECT avg(since - DATE '1970-01-01') FROM people").fetchall()[0][0]
    )
    assert date.fromisoformat(labels[-1].split()[-1]).year == 2002
    errors = [one["difference"] for one in found if one["measure"] == "query_error"]
    assert 0 < errors[0] < errors[1] < errors[2]


def test_a_table_is_its_own_release(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(
        "CREATE TABLE mixed AS FROM people UNION ALL BY NAME SELECT NULL::INT AS age FROM range(9)"
    ).fetchall()
    for one in rows(people, "FROM k_utility('mixed', 'mixed', ?, queries := 200)", COLUMNS):
        assert one["difference"] in (0, None)
        assert one["before"] == one["after"]


def test_the_order_of_rows_leaves_no_trace(people: duckdb.DuckDBPyConnection) -> None:
    call = "FROM k_utility('{}', '{}', ?, queries := 100)"
    wanted = people.execute(call.format("people", "released"), [COLUMNS]).fetchall()
    people.execute(
        "CREATE TABLE other AS FROM people ORDER BY pay; CREATE TABLE copy AS FROM released ORDER BY pay, sick"
    )
    people.execute("SET threads = 1").fetchall()
    assert people.execute(call.format("other", "copy"), [COLUMNS]).fetchall() == wanted


def test_cells_that_show_nothing(con: duckdb.DuckDBPyConnection) -> None:
    """A class that mixes NULL with values releases NULL."""
    con.execute("CREATE TABLE t AS SELECT i % 4 AS a, nullif(i % 3, 0) AS b FROM range(12) r(i)").fetchall()
    con.execute(
        "CREATE TABLE r AS SELECT 0 AS a_lo, 3 AS a_hi, NULL::INT AS b_lo, NULL::INT AS b_hi FROM range(12)"
    ).fetchall()
    found = {(one["measure"], *one["columns"]): one for one in rows(con, "FROM k_utility('t', 'r', ['a', 'b'])")}
    assert (found["missing", "b"]["before"], found["missing", "b"]["after"]) == (pytest.approx(1 / 3), 1.0)
    assert found["mean", "b"]["after"] is None
    assert found["mean", "a"]["after"] == 1.5
    assert found["total_variation", "b"]["difference"] == pytest.approx(2 / 3)


def test_a_column_that_is_missing_throughout(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT NULL::INT AS a, NULL::VARCHAR AS b, i AS c FROM range(5) r(i)").fetchall()
    found = rows(con, "FROM k_utility('t', 't', ['a', 'b', 'c'])")
    assert {one["difference"] for one in found} <= {0.0, None}


def test_bands(con: duckdb.DuckDBPyConnection) -> None:
    """A band ends before its upper end; an open one goes as far as the table's values."""
    con.execute(
        "CREATE TABLE t AS SELECT i % 60 AS age, (i % 60) / 4 AS pay, DATE '2020-01-01' + (i % 60)::INT AS day "
        "FROM range(600) r(i)"
    ).fetchall()
    con.execute(
        "CREATE TABLE r AS FROM k_anonymize('t', ['age', 'pay', 'day'], k := 5, "
        "bands := {'age': {'width': 5, 'bottom': 10, 'top': 50}, 'pay': 1, 'day': '5 days'})"
    ).fetchall()
    assert con.execute("SELECT count(*) FROM r WHERE age_lo IS NULL OR age_hi IS NULL").fetchall()[0][0] > 0
    call = "FROM k_utility('t', 'r', ['age', 'pay', 'day'], bands := ['AGE', 'pay', 'day'])"
    by = {(one["measure"], *one["columns"], one["value"]): one for one in rows(con, call)}
    ((age, pay, day),) = con.execute(
        "SELECT avg((coalesce(age_lo, 0) + coalesce(age_hi, 60) - 1) / 2), avg((pay_lo + pay_hi) / 2), "
        "avg(((day_lo - DATE '1970-01-01') + (day_hi - DATE '1970-01-01') - 1) / 2) FROM r"
    ).fetchall()
    assert by["mean", "age", None]["after"] == pytest.approx(age)
    assert by["mean", "pay", None]["after"] == pytest.approx(pay)
    assert by["mean", "day", None]["after"] == pytest.approx(day)
    # Values that are spread evenly stay so.
    assert by["total_variation", "day", None]["difference"] < 0.01
    assert ("missing", "age", None) not in by


LEVELS = """
CREATE TABLE places AS FROM (VALUES ('c0', 'north'), ('c1', 'north'), ('c2', 'north'), ('c3', 'south'), ('c4', 'south'),
  ('c5', 'south'), ('c6', 'south'));
CREATE TABLE labelled AS FROM k_anonymize('people', ['city', 'age'], k := 60, hierarchies := {'city': 'places',
  'age': ['(age // 10)::VARCHAR || ''0s''', 'CASE WHEN age < 40 THEN ''young'' ELSE ''old'' END']});
"""


def test_labels_of_a_hierarchy(people: duckdb.DuckDBPyConnection) -> None:
    """A label stands for all leaves below it, alike, also for those that do not occur."""
    people.execute("UPDATE people SET city = NULL WHERE id % 50 = 0").fetchall()
    people.execute(LEVELS).fetchall()
    people.execute("UPDATE labelled SET city_label = '*' WHERE id % 7 = 0 AND city_label IS NOT NULL").fetchall()
    ((some, every, null),) = people.execute(
        "SELECT count(*) FILTER (city_label = 'south'), count(*) FILTER (city_label = '*'), "
        "count(*) FILTER (city_label IS NULL) FROM labelled"
    ).fetchall()
    assert min(some, every, null) > 0
    call = (
        "FROM k_utility('people', 'labelled', ['CITY', 'age'], hierarchies := {'city': 'places', "
        "'age': ['(age // 10)::VARCHAR || ''0s''', 'CASE WHEN age < 40 THEN ''young'' ELSE ''old'' END']})"
    )
    by = {(one["measure"], *one["columns"], one["value"]): one for one in rows(people, call)}
    for city, above in (("c1", "north"), ("c5", "south")):
        ((before, after),) = people.execute(
            f"SELECT (SELECT avg((city IS NOT DISTINCT FROM '{city}')::INT) FROM people), (SELECT sum(CASE city_label "
            f"WHEN '{city}' THEN 1 WHEN '{above}' THEN 1 / {3 if above == 'north' else 4} WHEN '*' THEN 1 / 7 ELSE 0 "
            "END) / 400 FROM labelled)"
        ).fetchall()
        one = by["share", "CITY", city]
        assert (one["before"], one["after"]) == (pytest.approx(before), pytest.approx(after))
    assert by["missing", "CITY", None]["after"] == pytest.approx(null / 400)
    assert ("mean", "age", None) not in by
    assert 0 < by["total_variation", "age", None]["difference"] < 0.5


def test_labels_of_bands(con: duckdb.DuckDBPyConnection) -> None:
    """What method 'global' releases as labels of bands is measured like bands; '*' is any value."""
    con.execute(
        "CREATE TABLE t AS SELECT i % 60 AS age, DATE '2020-01-01' + (i % 60)::INT AS day, (i % 60) / 4 AS pay, "
        "(i % 10)::DECIMAL(9, 2) AS digit FROM range(600) r(i)"
    ).fetchall()
    con.execute(
        "CREATE TABLE r AS FROM k_anonymize('t', ['age', 'day', 'pay', 'digit'], k := 5, method := 'global', bands := "
        "{'age': {'width': 5, 'bottom': 10, 'top': 50}, 'day': '5 days', 'pay': 1.5, 'digit': 20})"
    ).fetchall()
    con.execute(
        "UPDATE r SET digit_label = '*'; CREATE TABLE ends AS SELECT *, "
        "CASE WHEN age_label LIKE '[,%' THEN -99 ELSE regexp_extract(age_label, '[0-9]+')::INT END AS low FROM r"
    ).fetchall()
    call = "FROM k_utility('t', 'r', ['age', 'day', 'pay', 'digit'], bands := ['age', 'day', 'pay', 'digit'])"
    by = {(one["measure"], *one["columns"], one["value"]): one for one in rows(con, call)}
    ((age,),) = con.execute(
        "SELECT avg(CASE low WHEN -99 THEN 4.5 WHEN 50 THEN 54.5 ELSE low + 2 END) FROM ends"
    ).fetchall()
    assert con.execute("SELECT count(*) FROM ends WHERE low IN (-99, 50)").fetchall() == [(200,)]
    assert by["mean", "age", None]["after"] == pytest.approx(age)
    assert by["total_variation", "day", None]["difference"] < 0.01
    assert by["mean", "pay", None]["after"] == pytest.approx(by["mean", "pay", None]["before"], abs=0.75)
    assert by["mean", "digit", None]["after"] == pytest.approx(4.5)


def test_prediction(people: duckdb.DuckDBPyConnection) -> None:
    needs("utility")
    people.execute(
        "UPDATE people SET sick = age > 40, pay = age * 3 + CASE city WHEN 'c1' THEN 30 ELSE 0 END"
    ).fetchall()
    people.execute(
        "CREATE OR REPLACE TABLE released AS "
        "FROM k_anonymize('people', ['age', 'city'], k := 40, categorical := ['city'])"
    ).fetchall()
    call = "FROM k_utility('people', 'released', ['age', 'city'], target := ?, queries := 1) WHERE measure = ?"
    (common, logistic) = rows(people, call, "sick", "accuracy")
    assert (common["value"], logistic["value"]) == ("commonest value", "logistic regression")
    assert logistic["before"] > 0.95
    assert common["before"] < 0.75
    assert common["after"] == pytest.approx(common["before"], abs=0.05)
    (ridge,) = rows(people, call, "pay", "r_squared")
    assert ridge["before"] > 0.99
    assert 0.5 < ridge["after"] <= ridge["before"]
    assert ridge["columns"] == ["pay"]
    # A target that is generalised itself.
    assert [one["columns"] for one in rows(people, call, "city", "accuracy")] == [["city"]] * 2


def test_prediction_says_what_to_install(people: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert said(people, "FROM k_utility('people', 'released', ['age'], target := 'sick', queries := 1)") == (
        "target needs scikit-learn: pip install 'duckanon[utility]'."
    )


def said(con: duckdb.DuckDBPyConnection, query: str) -> str:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        con.execute(query).fetchall()
    return str(raised.value).removeprefix("Invalid Input Error: ")


REFUSED = {
    "'people', NULL, ['age']": "after must be the name of the release, a table or view, in quotes.",
    "'people', 'released', ['age', 'AGE']": 'Column "AGE" is named twice in columns: name it once.',
    "'people', 'released', ['id']": 'Nothing in released stands for column "id": it has neither "id" nor "id_lo" and '
    '"id_hi" nor "id_set" nor "id_label". Leave the column out of columns.',
    "'people', 'odd', ['age']": 'Column "age_lo" of odd has not the type that a release of column "age" has: cast it.',
    "'people', 'odd', ['city']": 'Column "city_set" of odd has not the type that a release of column "city" has: cast '
    "it.",
    "'people', 'released', ['age'], bands := ['pay']": 'Column "pay" is in bands but not in columns: add it to '
    "columns, or take it out of bands.",
    "'people', 'people', ['age'], bands := ['age']": 'Column "age" has no bands in people: take it out of bands.',
    "'people', 'released', ['size'], bands := ['size']": 'Column "size" has no bands in released: take it out of '
    "bands.",
    "'people', 'labelled', ['city']": 'Column "city" is released as labels: name it in hierarchies, as in the call of '
    "k_anonymize, or in bands if they are labels of bands, or leave it out of columns.",
    "'people', 'labelled', ['city'], hierarchies := {'size': ['left(size, 1)']}": 'hierarchies names "size", which is '
    "not in columns: add it there, or leave it out.",
    "'people', 'labelled', ['city'], hierarchies := {'city': ['left(city, 1)']}": 'Column "city_label" holds a label '
    'that the hierarchy of "city" lacks: give the hierarchy that the release was made with.',
    "'people', 'labelled', ['city'], hierarchies := {'city': 'few'}": 'Column "city" holds a value that its hierarchy '
    "lacks: give the hierarchy a row for each value.",
    "'people', 'released', ['age'], hierarchies := {'age': ['age // 10']}": 'Column "age" has no labels in released: '
    "take it out of hierarchies.",
    "'people', 'labelled', ['age'], bands := ['age']": 'Column "age_label" holds a label that is none of a band, as in '
    "[30, 40): name the column in hierarchies, with the hierarchy that the release was made with.",
    "'people', 'labelled', ['since'], bands := ['since']": 'Column "since_label" holds labels of bands whose ends are '
    "not of the column's type: name the column in hierarchies, with the hierarchy that the release was made with.",
    "'people', 'nobody', ['age']": "One of the tables has no rows: there is nothing to compare.",
    "'people', 'people', ['age'], queries := 0": "queries must be from 1 to 100,000: how many random counts are "
    "compared.",
    "'people', 'people', ['more']": 'There is no column "more" in people; its columns are id, age, city, since, size, '
    "sick, pay.",
    "'endless', 'endless', ['x']": 'Column "x" holds NaN or infinity: replace them by NULL, or leave those rows out.',
    "'lists', 'lists', ['x']": 'Column "x" is nested and cannot be a column to compare: unnest it, or pick out one '
    "field as a column.",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_refusals(people: duckdb.DuckDBPyConnection, arguments: str) -> None:
    people.execute(
        "CREATE TABLE odd AS SELECT 'x' AS age_lo, 'y' AS age_hi, 'z' AS city_set; "
        "CREATE TABLE nobody AS FROM people WHERE false; CREATE TABLE endless AS SELECT 'inf'::DOUBLE AS x; "
        "CREATE TABLE lists AS SELECT [1] AS x; CREATE TABLE few AS SELECT 'c1', 'north'; "
        "CREATE TABLE labelled AS SELECT 'north' AS city_label, 'young' AS age_label, '[3, 4)' AS since_label"
    ).fetchall()
    assert said(people, f"FROM k_utility({arguments})") == REFUSED[arguments]


def test_what_would_not_fit(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE long AS SELECT i AS a FROM range(1_000_000) r(i)").fetchall()
    people.execute("SET memory_limit = '100MB'").fetchall()
    found = said(people, "FROM k_utility('long', 'long', ['a'])")
    assert found.startswith("k_utility would need about 343 MiB beside DuckDB, more than memory_limit (")
    assert found.endswith("raise memory_limit, or name fewer columns.")
