"""k_anonymize and k_compare with conditions on sensitive columns."""

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest

from duckanon.engines.kanon import private_classes
from duckanon.engines.kanon.criteria.enforcement import Settled
from tests.amounts import sampled
from tests.engines.kanon.diversities import diverse

QI = "['age', 'city'], categorical := ['city']"
MIXED = "sensitive := ['illness', 'pay'], l := 3, t := 0.3"


@pytest.fixture
def people(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE people AS SELECT CASE WHEN i % 40 > 0 THEN (hash(i) % 60)::INT END AS age, "
        "'c' || hash(i + 1) % 5 AS city, ['flu', 'hiv', 'cold', NULL][1 + (hash(i + 2) % 4)::INT] AS illness, "
        "CASE WHEN i % 11 > 0 THEN (hash(i + 3) % 9)::INT END AS pay, i AS id FROM range(400) r(i)"
    ).fetchall()
    return con


def classes(con: duckdb.DuckDBPyConnection, release: str, column: str) -> list[list[Any]]:
    """The values of a column in each class, by what is released."""
    found = defaultdict(list)
    for low, high, city, value in con.execute(f"SELECT age_lo, age_hi, city_set, {column} FROM {release}").fetchall():
        found[(low, high, None if city is None else tuple(city))].append(value)
    return list(found.values())


def distance(part: list[Any], whole: list[Any], *, ordered: bool) -> float:
    """Earth mover's distance by its formulas, values in order, NULL last; none from a class without values."""
    if not part:
        return 0.0
    values = sorted(set(whole), key=lambda v: (v is None, v))
    mine, all_ = Counter(part), Counter(whole)
    gaps = np.array([mine[v] / len(part) - all_[v] / len(whole) for v in values])
    return float(np.abs(np.cumsum(gaps)).sum() / (len(values) - 1) if ordered else np.abs(gaps).sum() / 2)


@pytest.mark.parametrize(
    ("share", "also"),
    [("0.05", ""), ("0", ", null_sensitive := 'value'"), ("0", ", within := 'free'")],
)
def test_every_class_holds_what_is_demanded(people: duckdb.DuckDBPyConnection, share: str, also: str) -> None:
    """NULL is no value, also where classes of an earlier release are joined, unless it is said to be one."""
    people.execute(f"CREATE TABLE free AS FROM k_anonymize('people', {QI}, k := 4)").fetchall()
    people.execute(
        f"CREATE TABLE released AS FROM k_anonymize('people', {QI}, k := 4, {MIXED}, max_suppression := {share}{also})"
    ).fetchall()
    ids = [i for (i,) in people.execute("SELECT id FROM released").fetchall()]
    assert len(ids) == len(set(ids))
    assert len(ids) == 400 if share == "0" else 380 <= len(ids) < 400
    for column, ordered in (("illness", False), ("pay", True)):
        found = classes(people, "released", column)
        assert min(map(len, found)) >= 4
        if "'value'" not in also:
            found = [[value for value in part if value is not None] for part in found]
        whole = [value for part in found for value in part]
        assert min(len(set(part)) for part in found) >= 3
        assert max(distance(part, whole, ordered=ordered) for part in found) <= 0.3 + 1e-9
    assert len(found) > 5
    # Without the conditions some class fails them: the test could fail.
    assert min(len(set(part)) for part in classes(people, "free", "illness")) < 3


@pytest.mark.parametrize(
    ("asked", "reported", "share"),
    [
        ("l := 2.5, diversity := 'entropy'", "entropy_l >= 2.5", "0"),
        ("l := 3, diversity := 'recursive', c := 1.5", "recursive_c < 1.5", "0.05"),
    ],
)
def test_entropy_and_recursive_diversity(
    people: duckdb.DuckDBPyConnection, asked: str, reported: str, share: str
) -> None:
    nulls = "null_sensitive := 'value'"
    call = f"{QI}, k := 4, sensitive := ['illness'], {asked}, {nulls}, max_suppression := {share}"
    people.execute(f"CREATE TABLE released AS FROM k_anonymize('people', {call})").fetchall()
    found = [list(Counter(part).values()) for part in classes(people, "released", "illness")]
    kind = "entropy" if "entropy" in asked else "recursive"
    l, c = (Fraction(5, 2), None) if kind == "entropy" else (3, Fraction(3, 2))  # noqa: E741
    assert all(diverse(counts, kind, l, c) for counts in found)
    assert len(found) > 5
    # The release says so by itself, and k_compare said so before.
    ((records, holds),) = people.execute(
        f"SELECT records, {reported} FROM k_report('released', ['age_lo', 'age_hi', 'city_set'], "
        f"sensitive := ['illness'], l := 3, {nulls})"
    ).fetchall()
    assert holds
    assert records == sum(map(sum, found))
    assert records == 400 if share == "0" else 380 <= records < 400
    assert people.execute(f"SELECT {reported}, 400 - suppressed FROM k_compare('people', {call})").fetchall() == [
        (True, records)
    ]
    # Without the condition some class fails: the test could fail.
    people.execute(f"CREATE TABLE free AS FROM k_anonymize('people', {QI}, k := 4)").fetchall()
    free = [list(Counter(part).values()) for part in classes(people, "free", "illness")]
    assert not all(diverse(counts, kind, l, c) for counts in free)


def test_compare_tells_what_the_release_will_be(people: duckdb.DuckDBPyConnection) -> None:
    (row,) = people.execute(
        "SELECT classes, l, t, joined, suppressed, information_loss, avg_class, lower_bound, gap "
        f"FROM k_compare('people', {QI}, k := 4, {MIXED}, max_suppression := 0.05)"
    ).fetchall()
    people.execute(
        f"CREATE TABLE released AS FROM k_anonymize('people', {QI}, k := 4, {MIXED}, max_suppression := 0.05)"
    ).fetchall()
    (report,) = people.execute(
        "SELECT classes, l, t, 400 - records, avg_class FROM k_report('released', ['age_lo', 'age_hi', 'city_set'], "
        "sensitive := ['illness', 'pay'])"
    ).fetchall()
    assert (row[0], row[1], row[4]) == (report[0], report[1], report[3])
    assert row[2] == pytest.approx(report[2])
    assert row[6] == pytest.approx(report[4])
    assert row[3] > 0
    assert 0 < row[7] <= row[5]
    assert row[8] == pytest.approx(1 - row[7] / row[5])
    (plain,) = people.execute(f"SELECT l, t, joined, suppressed FROM k_compare('people', {QI})").fetchall()
    assert plain == (None, None, 0, 0)


def test_rows_in_any_order_and_any_threads(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE shuffled AS FROM people ORDER BY hash(id + 7)").fetchall()
    found = []
    for table, threads in (("people", 1), ("shuffled", 4)):
        people.execute(f"SET threads = {threads}").fetchall()
        found.append(people.execute(f"FROM k_anonymize('{table}', {QI}, {MIXED}, max_suppression := 0.02)").fetchall())
    assert found[0] == found[1]


def test_one_class_if_nothing_else_will_do(people: duckdb.DuckDBPyConnection) -> None:
    rows = people.execute(
        f"SELECT max(class_id), count(*) FROM k_anonymize('people', {QI}, sensitive := ['illness'], t := 0)"
    ).fetchall()
    assert rows == [(1, 400)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    sampled([
        ("l := 3", "l and t are conditions on sensitive columns: name them, as in sensitive := ['illness']."),
        ("t := 0.1", "l and t are conditions on sensitive columns: name them, as in sensitive := ['illness']."),
        ("sensitive := ['pay'], l := 0.9, diversity := 'entropy'",
         "l must be a number above 1, as in l := 2.5."),
        ("sensitive := ['pay'], l := 'inf'::DOUBLE, diversity := 'entropy'",
         "l must be a number above 1, as in l := 2.5."),
        ("sensitive := ['pay'], l := 3, diversity := 'gini'",
         "diversity must be 'distinct', 'entropy' or 'recursive'."),
        ("sensitive := ['pay'], t := 0.3, diversity := 'entropy'",
         "diversity says how l counts: give l, as in l := 3, diversity := 'entropy'."),
        ("sensitive := ['pay'], l := 3, c := 2",
         "c is a part of recursive diversity: add diversity := 'recursive', or leave c out."),
        ("sensitive := ['pay'], l := 3, diversity := 'recursive'",
         "diversity := 'recursive' needs c, as in l := 3, diversity := 'recursive', c := 2."),
        ("sensitive := ['pay'], l := 3, diversity := 'recursive', c := 0",
         "c must be a number above 0, as in c := 3."),
        ("sensitive := ['pay'], l := 2.5, diversity := 'recursive', c := 2",
         "l must be a whole number, as in l := 5."),
        ("sensitive := ['pay'], l := 3, diversity := 'recursive', c := 0.1",
         "Not even all records together are recursively (c, l)-diverse in each sensitive column: choose a smaller l "
         "or a larger c."),
        ("sensitive := ['pay'], l := 8.99999, diversity := 'entropy'",
         "Not even all records together have as much entropy in each sensitive column as l asks: choose a smaller l."),
        ("sensitive := ['pay']", "sensitive names columns without a condition: give l or t, as in l := 3."),
        ("sensitive := ['pay'], l := 1", "l must be 2 or more: every class has one value of a sensitive column."),
        ("sensitive := ['pay'], l := 2.5", "l must be a whole number, as in l := 5."),
        ("sensitive := ['pay'], t := 1.5", "t must be a number from 0 to 1, as in t := 0.2."),
        ("sensitive := ['pay'], t := 'nan'::DOUBLE", "t must be a number from 0 to 1, as in t := 0.2."),
        ("sensitive := ['nope'], l := 2",
         'There is no column "nope" in people; its columns are age, city, illness, pay, id.'),
        ("sensitive := ['AGE'], l := 2", 'Column "AGE" is in sensitive and in qi or drop: name it in one of them.'),
        ("sensitive := ['pay'], l := 2, max_suppression := 1",
         "max_suppression must be a number from 0 to below 1: a release without records is none."),
        ("sensitive := ['pay'], l := 2, max_suppression := -0.1",
         "max_suppression must be a number from 0 to below 1: a release without records is none."),
        ("sensitive := ['illness'], l := 5",
         "l is 5, but a sensitive column has fewer distinct values among the records (NULL is one only with "
         "null_sensitive := 'value'): choose a smaller l."),
    ]),
)  # fmt: skip
def test_mistakes(people: duckdb.DuckDBPyConnection, arguments: str, said: str) -> None:
    for function in ("k_anonymize", "k_compare"):
        with pytest.raises(duckdb.InvalidInputException) as raised:
            people.execute(f"FROM {function}('people', {QI}, {arguments})").fetchall()
        assert str(raised.value).removeprefix("Invalid Input Error: ") == said


@pytest.mark.parametrize(
    "asked", sampled(["l := 4", "l := 3.9, diversity := 'entropy'", "l := 3, diversity := 'recursive', c := 0.7"])
)
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("labels", "k_anonymize made a class that fails l or t: this is a bug in duckanon, nothing was released."),
        ("drop", "k_anonymize dropped too many records: this is a bug in duckanon, nothing was released."),
    ],
)
def test_a_wrong_answer_is_not_released(
    people: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, broken: str, said: str, asked: str
) -> None:
    def settle(records: Any, labels: Any, *_: Any) -> Settled:
        # (The class of the first record holds too few values, or is gone.)
        return Settled(np.where(labels == labels[0], -1, labels) if broken == "drop" else labels, 0, 0)

    monkeypatch.setattr(private_classes, "settle_classes", settle)
    with pytest.raises(duckdb.InvalidInputException) as raised:
        people.execute(
            f"FROM k_anonymize('people', {QI}, sensitive := ['illness'], null_sensitive := 'value', {asked})"
        ).fetchall()
    assert str(raised.value).removeprefix("Invalid Input Error: ") == said
