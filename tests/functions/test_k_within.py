"""Coarser releases within an earlier one: two releases together tell no more than the finer."""

from collections import Counter, defaultdict
from typing import Any

import duckdb
import numpy as np
import pytest

from duckanon.engines.kanon import coarsening
from tests.functions.released import check
from tests.shared_connection import Begun

CALL = "k_anonymize('people', ['age', 'city', 'born'], categorical := ['city'], within := 'finer'"
CELLS = "age_lo, age_hi, city_set::VARCHAR, born_lo, born_hi"


def make(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TYPE size AS ENUM ('small', 'medium', 'large')").fetchall()
    con.execute(
        "CREATE TABLE people AS SELECT CASE WHEN i % 40 > 0 THEN (hash(i) % 60)::INT END AS age, "
        "CASE WHEN i % 31 > 0 THEN 'c' || hash(i + 1) % 5 END AS city, "
        "DATE '1990-01-01' + (hash(i + 5) % 900)::INT AS born, "
        "['small', 'medium', 'large'][1 + (hash(i + 9) % 3)::INT]::size AS size, "
        "['flu', 'hiv', 'cold'][1 + (hash(i + 2) % 3)::INT] AS illness, i AS id FROM range(600) r(i)"
    ).fetchall()
    con.execute(
        "CREATE TABLE finer AS FROM k_anonymize('people', ['age', 'city', 'born'], k := 3, categorical := ['city'])"
    ).fetchall()


def make_mistakes(con: duckdb.DuckDBPyConnection) -> None:
    make(con)
    con.execute("CREATE TABLE typed AS SELECT * REPLACE (age_lo::BIGINT AS age_lo) FROM finer").fetchall()
    con.execute("CREATE TABLE less AS FROM finer WHERE id > 0").fetchall()
    con.execute("CREATE TABLE twice AS FROM finer UNION ALL FROM finer").fetchall()
    con.execute("CREATE TABLE moved AS SELECT * REPLACE (age + 30 AS age) FROM people").fetchall()
    con.execute(
        "CREATE TABLE other AS FROM k_anonymize('moved', ['age', 'city', 'born'], k := 3, categorical := ['city'])"
    ).fetchall()


@pytest.fixture
def people(begun: Begun) -> duckdb.DuckDBPyConnection:
    return begun(make)


@pytest.mark.parametrize("more", ["", ", sensitive := ['illness'], l := 3, t := 0.4", ", max_suppression := 0.05"])
def test_each_class_is_a_union_of_finer_classes(people: duckdb.DuckDBPyConnection, more: str) -> None:
    people.execute(f"CREATE TABLE coarse AS FROM {CALL}, k := 12{more})").fetchall()
    rows = people.execute(
        "SELECT f.class_id, c.class_id, f.id FROM finer f LEFT JOIN coarse c USING (id) ORDER BY id"
    ).fetchall()
    classes = defaultdict(set)
    for fine, rough, _ in rows:
        classes[fine].add(rough)
    assert all(len(found) == 1 for found in classes.values())
    kept = [rough for _, rough, _ in rows if rough is not None]
    assert min(kept.count(rough) for rough in set(kept)) >= 12
    assert len(kept) == 600 if "max" not in more else 570 <= len(kept) < 600
    assert 1 < len(set(kept)) < len(classes)
    if "max" not in more:
        # It is a release of the table like any other.
        people.execute("CREATE TABLE own AS SELECT age, city, born, size, illness, id FROM people").fetchall()
        check(people, "own", "coarse", ["age", "city", "born"], ["city"], 12)


def test_nothing_to_join_changes_nothing(people: duckdb.DuckDBPyConnection) -> None:
    assert people.execute(f"FROM {CALL}, k := 3)").fetchall() == people.execute("FROM finer").fetchall()


def test_only_the_finer_release_is_looked_at(people: duckdb.DuckDBPyConnection) -> None:
    first = people.execute(f"FROM {CALL}, k := 12)").fetchall()
    # The same cells fit another table: two records of a class change places.
    ((a, b),) = people.execute(
        "SELECT min(id), max(id) FROM finer GROUP BY class_id HAVING count(*) > 2 LIMIT 1"
    ).fetchall()
    people.execute(
        "CREATE OR REPLACE TABLE people AS SELECT * REPLACE ("
        f"CASE id WHEN {a} THEN {b} WHEN {b} THEN {a} ELSE id END AS id) FROM people"
    ).fetchall()
    people.execute("CREATE TABLE shuffled AS FROM finer ORDER BY hash(id)").fetchall()
    assert people.execute(f"FROM {CALL.replace('finer', 'shuffled')}, k := 12)").fetchall() == first


@pytest.mark.parametrize(
    ("more", "least", "most"),
    [("0.05", 570, 600), ("0.1", 540, 570), ("0.1, sensitive := ['illness'], l := 3", 540, 600)],
)
def test_records_that_were_dropped_stay_dropped(
    people: duckdb.DuckDBPyConnection, more: str, least: int, most: int
) -> None:
    people.execute(
        "CREATE OR REPLACE TABLE finer AS FROM k_anonymize('people', ['age', 'city', 'born'], k := 3, "
        "categorical := ['city'], sensitive := ['illness'], l := 2, max_suppression := 0.05)"
    ).fetchall()
    people.execute(f"CREATE TABLE coarse AS FROM {CALL}, k := 12, max_suppression := {more})").fetchall()
    fine, rough = (
        dict(people.execute(f"SELECT id, class_id FROM {table}").fetchall()) for table in ("finer", "coarse")
    )
    assert 570 <= len(fine) < 600
    assert rough.keys() <= fine.keys()
    assert least <= len(rough) <= most
    # Whoever lays both beside each other is left with whole classes of the finer one, also where only that has them.
    seen: dict[Any, set[int]] = defaultdict(set)
    for one, label in fine.items():
        seen[label, rough.get(one)].add(one)
    assert len(seen) == len(set(fine.values()))
    assert min(map(len, seen.values())) >= 3
    sizes = Counter(rough.values())
    assert min(sizes.values()) >= 12
    assert len(sizes) > 1


def test_no_more_is_missing_than_max_suppression_allows(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE OR REPLACE TABLE finer AS FROM finer WHERE class_id > 3").fetchall()
    ((lost,),) = people.execute("SELECT 600 - count(*) FROM finer").fetchall()
    rows = people.execute(f"FROM {CALL}, k := 12, max_suppression := {lost / 600 + 1e-9:.9f})").fetchall()
    assert len(rows) == 600 - lost
    with pytest.raises(duckdb.InvalidInputException, match="they stay dropped"):
        people.execute(f"FROM {CALL}, k := 12, max_suppression := {(lost - 1) / 600:.9f})").fetchall()


def test_columns_may_be_dropped_on_the_way(people: duckdb.DuckDBPyConnection) -> None:
    found = people.execute(
        "FROM k_anonymize('people', ['age'], k := 20, within := 'finer', "
        "drop := ['city_set', 'born_lo', 'born_hi', 'ID'])"
    )
    assert [column[0] for column in found.description] == ["class_id", "age_lo", "age_hi", "size", "illness"]
    assert len(found.fetchall()) == 600


def test_enums(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE sized AS FROM k_anonymize('people', ['size', 'age'], k := 3)").fetchall()
    people.execute(
        "CREATE TABLE coarse AS FROM k_anonymize('people', ['size', 'age'], k := 30, within := 'sized')"
    ).fetchall()
    ((least, wrong),) = people.execute(
        "SELECT (SELECT min(n) FROM (SELECT count(*) AS n FROM coarse GROUP BY class_id)), "
        "count(*) FILTER (NOT p.size BETWEEN c.size_lo AND c.size_hi) FROM coarse c JOIN people p USING (id)"
    ).fetchall()
    assert least >= 30
    assert wrong == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (f"{CALL}, k := 12, method := 'greedy')",
         "within joins the classes of an earlier release: leave method, seconds and options out."),
        (f"{CALL}, k := 12, seconds := 2)",
         "within joins the classes of an earlier release: leave method, seconds and options out."),
        ("k_anonymize('people', ['age', 'city'], categorical := ['city'], within := 'finer')",
         'Column "born" is generalised in finer: name it in qi, or what stands for it in drop.'),
        ("k_anonymize('people', ['id'], within := 'finer')",
         'There is no column "id_lo" in finer; its columns are class_id, age_lo, age_hi, city_set, born_lo, born_hi, '
         "size, illness, id."),
        (f"{CALL.replace('finer', 'typed')}, k := 12)",
         'Column "age_lo" of typed has not the type that a release of column "age" has: cast it.'),
        (f"{CALL.replace('finer', 'less')}, k := 12)",
         "less lacks more records of this table than max_suppression allows. If it dropped them, allow for them, as in "
         "max_suppression := 0.02: they stay dropped."),
        (f"{CALL.replace('finer', 'twice')}, k := 12, max_suppression := 0.5)",
         "twice is no release of this table: it can have no more rows, and each record must lie in one of its "
         "classes, but for those that it dropped. Give the table that it was made from."),
        (f"{CALL.replace('finer', 'other')}, k := 12)",
         "other is no release of this table: it can have no more rows, and each record must lie in one of its "
         "classes, but for those that it dropped. Give the table that it was made from."),
        (f"{CALL}, k := 601)",
         "The table has fewer than k = 601 rows: choose a smaller k, or anonymise more rows together."),
    ],
)  # fmt: skip
def test_mistakes(begun: Begun, call: str, said: str) -> None:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        begun(make_mistakes).execute(f"FROM {call}").fetchall()
    assert str(raised.value).removeprefix("Invalid Input Error: ") == said


def test_a_wrong_answer_is_not_released(people: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(released: Any, *_: Any) -> Any:
        return np.arange(released[0].rows, dtype=np.int32) // 4

    monkeypatch.setattr(coarsening, "coarser", wrong)
    with pytest.raises(duckdb.InvalidInputException, match="made a class of fewer than k records"):
        people.execute(f"FROM {CALL}, k := 12)").fetchall()
