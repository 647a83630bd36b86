"""record_risk and k_subsets in SQL."""

import random
from collections import Counter
from itertools import combinations
from math import prod

import duckdb
import numpy as np
import pytest

from duckanon.engines.kanon.risk import journalist
from tests.functions.test_k_report_compare import GUIDE

QI = ["age", "city", "sex", "job"]
ADDED = ["class_size", "risk", "minimal_uniques", "smallest_unique", "suda", "dis_suda", "household_risk"]
KEYS = ["residence", "gender", "education", "labour"]


@pytest.fixture
def people(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute("CREATE TYPE job AS ENUM ('nurse', 'cook', 'clerk')").fetchall()
    con.execute(
        "CREATE TABLE people AS SELECT i AS id, (hash(i) % 25)::INT AS age, "
        "nullif('c' || hash(i + 1) % 5, 'c4') AS city, "
        "hash(i + 2) % 2 = 0 AS sex, ['nurse', 'cook', 'clerk'][1 + (hash(i + 3) % 3)::INT]::job AS job, "
        "{'a': i, 'b': [i % 3]} AS more, i * 0.5 AS half, 1 + hash(i + 4) % 9 AS weight FROM range(150) r(i)"
    ).fetchall()
    return con


def rows(con: duckdb.DuckDBPyConnection, query: str, *given: object) -> list[dict]:
    found = con.execute(query, list(given))
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def counted(table: list[dict], columns: tuple[str, ...]) -> list[int]:
    """How many records share each record's values of these columns."""
    shown = [tuple(row[name] for name in columns) for row in table]
    count = Counter(shown)
    return [count[one] for one in shown]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_record_risk_by_its_definitions(people: duckdb.DuckDBPyConnection, size: int) -> None:
    table = rows(people, "FROM people ORDER BY id")
    found = sorted(rows(people, "FROM record_risk('people', ?, size := ?)", QI, size), key=lambda row: row["id"])
    assert list(found[0]) == [*table[0], *ADDED]
    assert [{name: row[name] for name in table[0]} for row in found] == table
    most = min(size, len(QI))
    subsets = [one for many in range(1, most + 1) for one in combinations(QI, many)]
    alone = {columns: [n == 1 for n in counted(table, columns)] for columns in subsets}
    whole = counted(table, tuple(QI))
    for i, row in enumerate(found):
        own = [
            len(one) for one in subsets if alone[one][i]
            and not any(alone[part][i] for many in range(1, len(one)) for part in combinations(one, many))
        ]  # fmt: skip
        scores = [prod(len(QI) - j for j in range(one, min(most, len(QI) - 1) + 1)) for one in own]
        assert row["class_size"] == whole[i]
        assert row["risk"] == 1 / whole[i]
        assert row["minimal_uniques"] == len(own)
        assert row["smallest_unique"] == min(own, default=None)
        assert row["suda"] == sum(scores)
        assert row["dis_suda"] is None


def test_the_practice_guides_table(con: duckdb.DuckDBPyConnection) -> None:
    """Benschop, Machingauta and Welch 2022: table 4.1 has the individual risk, table 4.5 the scores."""
    con.execute(GUIDE).fetchall()
    found = rows(con, "FROM record_risk('guide', ?, weight := 'weight')", KEYS)
    shown = sorted((row["weight"], row["class_size"], round(row["risk"], 4), row["suda"]) for row in found)
    # The guide computes the risk of classes of more than one record by an approximation, which differs in the last
    # digit.
    wanted = sorted([
        (180, 2, 0.0054, 0), (180, 2, 0.0054, 0), (215, 1, 0.0251, 6), (76, 2, 0.0126, 0), (186, 1, 0.0282, 12),
        (76, 2, 0.0126, 0), (180, 1, 0.0290, 6), (215, 1, 0.0251, 10), (186, 2, 0.0074, 0), (76, 2, 0.0074, 0),
    ])  # fmt: skip
    assert [row[:2] + row[3:] for row in shown] == [row[:2] + row[3:] for row in wanted]
    assert [row[2] for row in shown] == pytest.approx([row[2] for row in wanted], abs=1e-4)


def test_risk_with_what_is_known_of_the_population(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE everybody AS SELECT age, city, sex, job FROM people, range(1 + id % 4)").fetchall()
    plain = {row["id"]: row for row in rows(people, "FROM record_risk('people', ?)", QI)}
    table = rows(people, "FROM people ORDER BY id")
    inside = Counter(tuple(row[name] for name in QI) for row in rows(people, "FROM everybody"))
    for row in rows(people, "FROM record_risk('people', ?, population := 'everybody')", QI):
        assert row["risk"] == 1 / inside[tuple(row[name] for name in QI)]
        assert row["dis_suda"] is None
    weights = Counter()  # type: ignore[var-annotated]
    for row in table:
        weights[tuple(row[name] for name in QI)] += row["weight"]
    for row in rows(people, "FROM record_risk('people', ?, weight := 'weight')", QI):
        size = row["class_size"]
        risk = journalist(np.array([size]), None, size / weights[tuple(row[name] for name in QI)])
        assert row["risk"] == pytest.approx(risk)
        assert (row["dis_suda"] > 0) == (row["suda"] > 0)
    whole = rows(people, "FROM record_risk('people', ?, fraction := 1)", QI)
    assert all(row["risk"] == pytest.approx(plain[row["id"]]["risk"]) for row in whole)


def test_the_average_over_records_is_k_reports(people: duckdb.DuckDBPyConnection) -> None:
    for known in ("", ", fraction := 0.05", ", weight := 'weight'", ", population := 'people'"):
        ((highest, mean),) = people.execute(
            f"SELECT max(risk), avg(risk) FROM record_risk('people', ?{known})", [QI]
        ).fetchall()
        (report,) = rows(people, f"FROM k_report('people', ?{known})", QI)
        kind = "journalist" if known else "risk"
        wanted = (
            (report["journalist_max"], report["journalist_avg"])
            if kind == "journalist"
            else (report["max_risk"], report["avg_risk"])
        )
        assert (highest, mean) == pytest.approx(wanted)


def test_the_order_of_rows_leaves_no_trace(people: duckdb.DuckDBPyConnection) -> None:
    call = "FROM record_risk('{}', ['age', 'city', 'sex'], weight := 'weight', size := 2)"
    wanted = people.execute(call.format("people")).fetchall()
    assert [row[-6] for row in wanted] == sorted((row[-6] for row in wanted), reverse=True)
    for seed in range(3):
        order = list(range(150))
        random.Random(seed).shuffle(order)
        people.execute(
            "CREATE OR REPLACE TABLE places AS SELECT unnest(?) AS i, generate_subscripts(?, 1) AS p", [order, order]
        ).fetchall()
        people.execute(
            "CREATE OR REPLACE TABLE other AS SELECT people.* FROM people JOIN places ON i = id ORDER BY p"
        ).fetchall()
        assert people.execute(call.format("other")).fetchall() == wanted


def test_k_subsets_by_grouping_sets(people: duckdb.DuckDBPyConnection) -> None:
    found = rows(people, "FROM k_subsets('people', ?, size := 4)", QI)
    assert [row["columns"] for row in found] == [list(one) for n in range(1, 5) for one in combinations(QI, n)]
    for row in found:
        keys = ", ".join(row["columns"])
        (wanted,) = rows(
            people,
            "SELECT count(*) AS classes, min(n) AS k, count(*) FILTER (n = 1) AS singletons, 1 / min(n) AS max_risk, "
            f"count(*) / 150 AS avg_risk FROM (SELECT count(*) AS n FROM people GROUP BY {keys})",
        )
        assert {name: row[name] for name in wanted} == pytest.approx(wanted)
    assert rows(people, "FROM k_subsets('people', ?, size := 9)", QI) == found
    (whole,) = rows(people, "FROM k_report('people', ?)", QI)
    assert {name: found[-1][name] for name in ("classes", "k", "singletons", "max_risk", "avg_risk")} == {
        name: pytest.approx(whole[name]) for name in ("classes", "k", "singletons", "max_risk", "avg_risk")
    }


def test_a_release(people: duckdb.DuckDBPyConnection) -> None:
    """Sets of values are compared as they are written; 'a, b' is not 'a' and 'b'."""
    people.execute(
        "CREATE TABLE released AS FROM k_anonymize('people', ['age', 'city'], k := 5, categorical := ['city'])"
    ).fetchall()
    released = ["age_lo", "age_hi", "city_set"]
    for row in rows(people, "FROM k_subsets('released', ?)", released):
        assert row["k"] >= 5
        keys = ", ".join(row["columns"])
        ((classes,),) = people.execute(f"SELECT count(*) FROM (FROM released SELECT DISTINCT {keys})").fetchall()
        assert row["classes"] == classes
    assert {row["suda"] for row in rows(people, "FROM record_risk('released', ?)", released)} == {0.0}
    people.execute("CREATE TABLE sets AS FROM (VALUES (['a, b']), (['a', 'b']), (['a', NULL]), (NULL), ([])) t(s)")
    assert {row["class_size"] for row in rows(people, "FROM record_risk('sets', ['s'])")} == {1}


def test_any_source(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TEMP VIEW few AS SELECT age, sex FROM people WHERE id < 20").fetchall()
    found = people.execute(
        "WITH mine AS (FROM few WHERE sex) SELECT count(*), max(class_size) FROM record_risk('mine', ['age'])"
    ).fetchall()
    assert (
        found
        == people.execute(
            "SELECT sum(n)::BIGINT, max(n) FROM (SELECT count(*) AS n FROM few WHERE sex GROUP BY age)"
        ).fetchall()
    )
    assert len(people.execute("FROM record_risk($1, $2)", ["people", ["job"]]).fetchall()) == 150


def said(con: duckdb.DuckDBPyConnection, query: str) -> str:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        con.execute(query).fetchall()
    return str(raised.value).removeprefix("Invalid Input Error: ")


EMPTY = "The table has no rows: there is nothing to report."
REFUSED = {
    "record_risk('people', ['nope'])": 'There is no column "nope" in people; its columns are id, age, city, sex, job, '
    "more, half, weight.",
    "k_subsets('people', ['nope'])": 'There is no column "nope" in people; its columns are id, age, city, sex, job, '
    "more, half, weight.",
    "k_subsets('people', ['more'])": 'Column "more" is nested and cannot be a quasi-identifier: unnest it, or pick out '
    "one field as a column.",
    "record_risk('people', ['more'])": 'Column "more" is nested and cannot be a quasi-identifier: unnest it, or pick '
    "out one field as a column.",
    "record_risk('people', ['age'], size := 'a')": "size must be a whole number, as in size := 5.",
    "record_risk('people', ['age'], weight := 'job')": 'Column "job" is not a number and cannot be a weight: cast it '
    "to a number.",
    "record_risk('people', ['age'], weight := 'age')": 'Column "age" is in both qi and weight: name it in one of them.',
    "record_risk('people', ['age'], weight := 'half')": 'Column "half" has weights that are missing or not above 0: '
    "correct them.",
    "record_risk('people', ['age'], fraction := 0)": "fraction must be a number above 0 and at most 1: it is "
    "the share of the population that is in the table.",
    "record_risk('people', ['age'], population := 'nobody')": "The population has fewer records of some combination "
    "than the table: it must hold everybody who could be in the table.",
    "record_risk('nobody', ['age'])": EMPTY,
    "k_subsets('nobody', ['age'])": EMPTY,
    "record_risk('taken', ['age'])": 'The release would have two columns "risk": drop or rename the column of the '
    "table.",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refusals(people: duckdb.DuckDBPyConnection, call: str) -> None:
    people.execute("CREATE TABLE nobody AS FROM people WHERE false").fetchall()
    people.execute("CREATE TABLE taken AS SELECT age, 1 AS Risk FROM people").fetchall()
    assert said(people, f"FROM {call}") == REFUSED[call]


def test_too_much(people: duckdb.DuckDBPyConnection) -> None:
    wide = ", ".join(f"i % {j + 2} AS c{j}" for j in range(40))
    people.execute(f"CREATE TABLE wide AS SELECT {wide} FROM range(50) r(i)").fetchall()
    names = [f"c{j}" for j in range(40)]
    for function in ("record_risk", "k_subsets"):
        assert said(people, f"FROM {function}('wide', {names}, size := 5)") == (
            "40 columns have 760,098 subsets of up to 5, too many to search with 50 records: choose a smaller size, "
            "or name fewer columns."
        )
    people.execute("CREATE TABLE long AS SELECT i % 7 AS a, i % 11 AS b FROM range(2_000_000) r(i)").fetchall()
    people.execute("SET memory_limit = '60MB'").fetchall()
    for function in ("record_risk", "k_subsets"):
        found = said(people, f"FROM {function}('long', ['a', 'b'])")
        assert found.startswith(f"{function} would need about ")
        assert found.endswith("raise memory_limit, choose a smaller size, or name fewer columns.")


OWNED = "CREATE TABLE owned AS SELECT *, ['a', 'A', 'b', 'c', 'd', 'e'][1 + (hash(id) % 6)::INT] AS house FROM people"


def test_where_units_count_records_are_told_by_them(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(OWNED).fetchall()
    found = rows(people, "FROM record_risk('owned', ['age', 'city'], unit := 'house')")
    houses = {
        columns: Counter(
            {key: len({r["house"] for r in found if shown(r, columns) == key}) for key in keys(found, columns)}
        )
        for columns in (("age", "city"), ("age",), ("city",))
    }
    for row in found:
        size = houses["age", "city"][shown(row, ("age", "city"))]
        lone = [one for one in (("age",), ("city",)) if houses[one][shown(row, one)] == 1]
        expected = len(lone) if lone else int(size == 1)
        assert (row["class_size"], row["risk"], row["minimal_uniques"]) == (size, 1 / size, expected)
    subsets = rows(people, "FROM k_subsets('owned', ['age', 'city'], unit := 'house')")
    for row in subsets:
        sizes = houses[tuple(row["columns"])].values()
        assert (row["classes"], row["k"], row["singletons"]) == (len(sizes), min(sizes), list(sizes).count(1))
        assert row["avg_risk"] == pytest.approx(len(sizes) / sum(sizes))
        columns = tuple(row["columns"])
        assert row["units_alone"] == len({r["house"] for r in found if houses[columns][shown(r, columns)] == 1})


def test_a_household_is_found_where_one_of_its_members_is(people: duckdb.DuckDBPyConnection) -> None:
    """The guide's hierarchical risk: 1 less the chance that none of its members is found."""
    people.execute(
        f"{OWNED.replace('owned', 'living')}; "
        "INSERT INTO living SELECT * REPLACE (1000 AS id, NULL AS house) FROM living LIMIT 1"
    ).fetchall()
    for more in ("", ", fraction := 0.1", ", weight := 'weight'"):
        found = rows(people, f"FROM record_risk('living', ['age', 'city'], household := 'house'{more})")
        missed: dict[str, list[float]] = {}
        for row in found:
            missed.setdefault(row["house"], []).append(1 - row["risk"])
        for row in found:
            expected = row["risk"] if row["house"] is None else 1 - prod(sorted(missed[row["house"]]))
            assert row["household_risk"] == pytest.approx(expected, abs=1e-15)
            assert row["household_risk"] >= row["risk"] - 1e-15
        # Neither the order of the records nor threads have a part in it.
        people.execute("SET threads = 3; CREATE OR REPLACE TABLE mixed AS FROM living ORDER BY hash(id)").fetchall()
        mixed = rows(people, f"FROM record_risk('mixed', ['age', 'city'], household := 'house'{more})")
        assert {row["id"]: row for row in mixed} == {row["id"]: row for row in found}


def test_persons_of_a_household_that_is_the_unit_are_counted_one_by_one(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(OWNED).fetchall()
    call = "FROM record_risk('owned', ['age', 'city'], household := 'house', unit := '{}') ORDER BY id"
    assert rows(people, call.format("HOUSE")) == rows(people, call.format(""))


def shown(row: dict, columns: tuple[str, ...]) -> tuple:
    return tuple(row[name] for name in columns)


def keys(table: list[dict], columns: tuple[str, ...]) -> set[tuple]:
    return {shown(row, columns) for row in table}


def test_a_population_of_units(people: duckdb.DuckDBPyConnection) -> None:
    people.execute(OWNED).fetchall()
    others = "SELECT * REPLACE (house || '!' AS house) FROM owned"
    people.execute(f"CREATE TABLE everybody AS FROM owned UNION ALL {others}").fetchall()
    call = "FROM record_risk('owned', ['age'], unit := 'house', population := 'everybody')"
    assert all(row["risk"] == 1 / (2 * row["class_size"]) for row in rows(people, call))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("record_risk('people', ['age'], unit := 'city')", 'Column "city" holds NULL: say whose each record is'),
        ("record_risk('people', ['age'], unit := 'age')", 'Column "age" is in both qi and unit'),
        ("record_risk('people', ['age'], unit := 'id', weight := 'weight')", "weight says how many people a record"),
        ("record_risk('people', ['age'], unit := 'house')", 'There is no column "house" in people'),
        ("k_subsets('people', ['age'], unit := 'house')", 'There is no column "house" in people'),
        ("k_subsets('people', ['age'], unit := 'age')", 'Column "age" is in both qi and unit'),
        ("k_subsets('nobody', ['age'], unit := 'city')", "The table has no rows with a unit"),
    ],
)
def test_what_units_are_refused(people: duckdb.DuckDBPyConnection, call: str, said: str) -> None:
    people.execute("CREATE TABLE nobody AS SELECT age, NULL::VARCHAR AS city FROM people").fetchall()
    with pytest.raises(duckdb.Error, match="Invalid Input") as raised:
        people.execute(f"FROM {call}").fetchall()
    assert said in str(raised.value)
