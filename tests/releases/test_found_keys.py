"""Keys found with noise: an answer of its own, paid once an edition, whose values are then keys like any others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from shutil import copyfile
from typing import Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon.engines.noise import Gaussian, Laplace
from duckanon.errors import BudgetExhausted, PolicyRefusal, UnsupportedQuery
from duckanon.guard import Guard
from duckanon.releases import mechanisms
from duckanon.releases.mechanisms import found_keys
from duckanon.releases.paid_questions import KeysQuestion
from duckanon.renyi import KEYS_QUESTIONS, renyi

# Of each person some records: many have 'cold', some 'flu', and everybody one that nobody else has.
PERSONS = """
CREATE TABLE persons AS
SELECT i // 2 AS person, ['GA', 'NY'][1 + i % 2] AS state, i % 90 AS age,
  DATE '2020-01-01' + CAST(i % 3 AS INTEGER) AS day,
  CASE WHEN i % 2 = 0 THEN 'only ' || i WHEN i % 14 = 1 THEN NULL WHEN i % 6 = 1 THEN 'flu' ELSE 'cold' END AS diagnosis
FROM range(12000) r(i)
"""
PROTECT = """
SELECT protect('persons', population := 'people', privacy_unit := 'person', rows_per_unit := 2, epsilon := 3,
  delta := 1e-6, per_query := 0.01, public := ['state', 'diagnosis', 'age', 'day'], bounds := {'age': [0, 90]},
  domains := {'state': ['GA', 'NY'], 'diagnosis': 'found', 'age': 'found', 'day': {'values': 'found', 'nulls': true}})
"""
BY_DIAGNOSIS = "SELECT diagnosis, count(*) AS n FROM persons GROUP BY diagnosis ORDER BY diagnosis"


def protected(path: Path, table: str = PERSONS, protect: str = PROTECT) -> Path:
    with duckanon.connect(path, role="steward") as con:
        con.execute(table).fetchall()
        con.execute(protect).fetchall()
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return protected(tmp_path_factory.mktemp("found") / "x.duckdb")


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(copyfile(made, tmp_path / "x.duckdb"))


@pytest.fixture
def con(path: Path) -> Iterator[duckanon.Analyst]:
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: Any, shape: tuple[int, ...], source: Any, *, is_wide: bool) -> Any:
        return np.zeros(shape, dtype=object if is_wide else np.int64)

    monkeypatch.setattr(Gaussian, "draw", none)
    monkeypatch.setattr(Laplace, "draw", none)


def rows(con: Any, sql: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = con.execute(sql).fetchall()
    return found


def lines(con: Any) -> list[tuple[Any, ...]]:
    return rows(con, "SELECT what, epsilon_exact, noise FROM privacy_ledger() WHERE action = 'charge' ORDER BY number")


@pytest.mark.usefixtures("without_noise")
def test_values_of_many_units_are_keys_and_their_numbers_are_those_of_duckdb(con: duckanon.Analyst, path: Path) -> None:
    found = rows(con, BY_DIAGNOSIS)
    states = rows(con, "SELECT diagnosis, state, count(*), avg(age) FROM persons GROUP BY ALL ORDER BY ALL")
    con.close()
    with duckdb.connect(str(path)) as plain:
        common = "FROM persons WHERE diagnosis IN ('cold', 'flu')"
        assert found == rows(plain, f"SELECT diagnosis, count(*) {common} GROUP BY ALL ORDER BY ALL")
        exact = rows(plain, f"SELECT diagnosis, state, count(*), avg(age) {common} GROUP BY ALL ORDER BY ALL")
    # Those of GA have no record.
    assert [(*one[:2], one[2]) for one in states if one[2]] == [(*one[:2], one[2]) for one in exact]
    assert [one[3] for one in states if one[2]] == pytest.approx([one[3] for one in exact])
    assert {one[0] for one in states} == {"cold", "flu"}


def test_it_is_charged_once_an_edition_with_its_part_of_delta(con: duckanon.Analyst, path: Path) -> None:
    left = "SELECT keys_left, spent_exact FROM privacy_budget()"
    assert rows(con, left) == [(KEYS_QUESTIONS, "0")]
    # To look costs nothing.
    steps = rows(con, f"SELECT kind, epsilon, reason FROM explain_privacy('{BY_DIAGNOSIS}')")
    assert [step[:2] for step in steps] == [("keys", 0.01), ("count", 0.01)]
    assert steps[0][2].startswith(
        "The values of diagnosis are found with noise, once an edition: those that 205 units or more have by their "
        "noisy number, at most 10,000."
    )
    assert rows(con, left) == [(KEYS_QUESTIONS, "0")]
    first = rows(con, BY_DIAGNOSIS)
    assert [key for key, _ in first] == ["cold", "flu"]
    assert rows(con, left) == [(KEYS_QUESTIONS - 1, "0.02")]
    assert lines(con) == [
        ("values of diagnosis of main.persons, found with noise", "0.01", "gaussian, rho 1/910"),
        ("count of records of main.persons by diagnosis", "0.01", "gaussian, rho 1/910"),
    ]
    # Asked again it is free, and so is the list of what was found; another question by the key pays for itself alone.
    assert rows(con, BY_DIAGNOSIS) == first
    assert rows(con, "SELECT DISTINCT diagnosis FROM persons ORDER BY ALL") == [("cold",), ("flu",)]
    rows(con, "SELECT diagnosis, state, count(*) FROM persons GROUP BY ALL")
    assert rows(con, left) == [(KEYS_QUESTIONS - 1, "0.03")]
    con.close()
    with duckanon.connect(path, role="steward") as steward:
        rows(steward, "SELECT new_edition('persons')")
    with duckanon.connect(path, role="analyst") as again:
        rows(again, BY_DIAGNOSIS)
        assert rows(again, left) == [(KEYS_QUESTIONS - 2, "0.05")]


@pytest.mark.usefixtures("without_noise")
def test_parts_of_an_answer_by_found_keys_are_not_bought_again(con: duckanon.Analyst) -> None:
    rows(con, "SELECT diagnosis, state, count(*) FROM persons GROUP BY ALL")
    bought = len(lines(con))
    parts = (
        "SELECT state, count(*) FROM persons WHERE diagnosis = 'flu' GROUP BY state ORDER BY ALL",
        "SELECT count(*) FROM persons WHERE 'cold' = diagnosis AND state = 'NY'",
        "SELECT diagnosis, count(*) FROM persons WHERE state = 'NY' GROUP BY diagnosis ORDER BY ALL",
        "SELECT state, count(*) FILTER (WHERE diagnosis IN ('flu')), count(*) FILTER (WHERE diagnosis = 'cold') "
        "FROM persons GROUP BY state ORDER BY ALL",
    )
    told = [rows(con, one) for one in parts]
    assert len(lines(con)) == bought
    assert all(con.explain(one).steps[-1].reason.startswith("Free: it is a part of") for one in parts)
    common = "(FROM persons WHERE diagnosis IN ('flu', 'cold')) AS persons"
    with con._con.cursor() as plain:
        for one, found in zip(parts, told, strict=True):
            # A state that has none of them is told with zeros.
            exactly = rows(plain, one.replace("FROM persons", f"FROM {common}"))
            assert [each for each in found if each[-1]] == exactly


@pytest.mark.parametrize(
    "where",
    ["diagnosis = 'only 4'", "diagnosis <> 'cold'", "diagnosis IN ('flu', 'only 4')", "diagnosis LIKE 'f%'"],
)
@pytest.mark.usefixtures("without_noise")
def test_a_condition_that_other_values_may_meet_is_asked_anew(con: duckanon.Analyst, where: str) -> None:
    """Each leaves one of the found keys, and records whose diagnosis was not found."""
    rows(con, "SELECT diagnosis, state, count(*) FROM persons GROUP BY ALL")
    bought, asked = len(lines(con)), f"SELECT count(*) FROM persons WHERE {where} AND state = 'NY'"
    (told,) = rows(con, asked)
    assert len(lines(con)) == bought + 1
    with con._con.cursor() as plain:
        assert rows(plain, asked) == [told]


def test_the_list_alone_is_the_paid_answer(con: duckanon.Analyst) -> None:
    assert rows(con, "SELECT DISTINCT diagnosis FROM persons ORDER BY ALL") == [("cold",), ("flu",)]
    assert [line[0] for line in lines(con)] == ["values of diagnosis of main.persons, found with noise"]


@pytest.mark.usefixtures("without_noise")
def test_numbers_dates_and_null(con: duckanon.Analyst) -> None:
    by_day = rows(con, "SELECT day, count(*) FROM persons GROUP BY day ORDER BY day NULLS LAST")
    assert [(str(day), n) for day, n in by_day] == [(f"2020-01-0{at}", 4000) for at in (1, 2, 3)] + [("None", 0)]
    # No age has enough persons.
    assert rows(con, "SELECT age, count(*) FROM persons GROUP BY age") == []
    assert rows(con, "SELECT DISTINCT age FROM persons") == []


@pytest.mark.usefixtures("without_noise")
def test_conditions_on_found_keys_and_totals(con: duckanon.Analyst) -> None:
    flu = rows(con, "SELECT diagnosis, count(*) FROM persons WHERE diagnosis IN ('flu', 'only 4') GROUP BY ALL")
    assert [key for key, _ in flu] == ["flu"]
    assert rows(con, "SELECT diagnosis, count(*) FROM persons WHERE diagnosis = 'only 4' GROUP BY ALL") == []
    both = rows(con, "SELECT diagnosis, count(*) AS n FROM persons GROUP BY ROLLUP (diagnosis) ORDER BY ALL")
    assert both[-1][1] == sum(n for _, n in both[:-1])
    (reason,) = rows(con, f"SELECT DISTINCT reason FROM explain_privacy('{BY_DIAGNOSIS}')")
    assert (
        "Intervals do not cover records left out by rows_per_unit or records whose diagnosis too few share" in reason[0]
    )


def asked(path: Path) -> tuple[Any, KeysQuestion]:
    con = duckanon.connect(path, role="analyst")
    guard: Guard = con._guard
    (question,) = (one for one in guard.decide(BY_DIAGNOSIS).answers if isinstance(one, KeysQuestion))
    return con, question


# --- within units -----------------------------------------------------------------------------------------------------

HOMES = """
CREATE TABLE homes AS
SELECT i AS person, 'r' || i % 3 AS region, CASE WHEN i % 5 > 0 THEN 'city ' || i % 4 END AS city FROM range(6000) r(i)
"""
PROTECT_HOMES = """
SELECT protect('homes', population := 'people', privacy_unit := 'person', rows_per_unit := 1, per_query := 0.01,
  public := ['region', 'city'], domains := {'region': ['r0', 'r1', 'r2'], 'city': {'values': 'found', 'nulls': true}})
"""
FOUND = "FROM persons WHERE diagnosis IN ('cold', 'flu')"
# With the columns that are sought first, and DuckDB's query for those of their values that are found.
WITHIN = {
    "a join by its own key": (
        "SELECT diagnosis, count(*) FROM persons JOIN homes USING (person) GROUP BY diagnosis ORDER BY ALL",
        ["diagnosis"], f"SELECT diagnosis, count(*) {FOUND} GROUP BY ALL ORDER BY ALL"),
    "a join by another's key, with NULL": (
        "SELECT city, count(*) FROM persons JOIN homes USING (person) GROUP BY city ORDER BY ALL",
        ["city"], None),
    "a join by both": (
        "SELECT city, diagnosis, count(*), sum(age) FROM persons JOIN homes USING (person) "
        "WHERE diagnosis > 'a' GROUP BY ALL HAVING count(*) > 0 ORDER BY ALL",
        ["city", "diagnosis"], "SELECT city, diagnosis, count(*), sum(age) FROM persons JOIN homes USING (person) "
        "WHERE diagnosis IN ('cold', 'flu') GROUP BY ALL ORDER BY ALL"),
    "EXISTS": (
        "SELECT diagnosis, count(*) FROM persons WHERE EXISTS (SELECT 1 FROM homes WHERE homes.person = persons.person "
        "AND region = 'r1') GROUP BY ALL HAVING count(*) > 0 ORDER BY ALL",
        ["diagnosis"], f"SELECT diagnosis, count(*) {FOUND} AND person % 3 = 1 GROUP BY ALL ORDER BY ALL"),
    "a window": (
        "SELECT diagnosis, count(*) FROM (SELECT diagnosis, row_number() OVER (PARTITION BY person ORDER BY state DESC)"
        " AS n FROM persons) WHERE n = 1 GROUP BY ALL ORDER BY ALL",
        ["diagnosis"], f"SELECT diagnosis, count(*) {FOUND} AND state = 'NY' GROUP BY ALL ORDER BY ALL"),
    "a group of the unit": (
        "SELECT city, count(*) FROM (SELECT person, city FROM homes GROUP BY person, city) GROUP BY ALL "
        "ORDER BY ALL",
        ["city"], None),
    "a UNION": (
        "SELECT diagnosis, count(*) FROM (SELECT diagnosis, person FROM persons WHERE state = 'GA' UNION ALL "
        "SELECT diagnosis, person FROM persons WHERE state = 'NY') GROUP BY ALL ORDER BY ALL",
        ["diagnosis"], f"SELECT diagnosis, count(*) {FOUND} GROUP BY ALL ORDER BY ALL"),
}  # fmt: skip


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("name", WITHIN)
def test_what_is_computed_within_units_finds_the_keys_that_it_is_shown_by(name: str, path: Path) -> None:
    """As paid answers of the tables that have the columns, before its own; and then it is what DuckDB says."""
    protected(path, HOMES, PROTECT_HOMES)
    asked, sought, plain = WITHIN[name]
    with duckanon.connect(path, role="analyst") as con:
        text = asked.replace("'", "''")
        steps = rows(con, f"SELECT kind, epsilon FROM explain_privacy('{text}')")
        assert [one for one in steps if one[0] == "keys"] == [("keys", 0.01)] * len(sought)
        told = rows(con, asked)
        at = {"diagnosis": "persons", "city": "homes"}
        assert [one[0] for one in lines(con)][:-1] == [
            f"values of {column} of main.{at[column]}, found with noise" for column in sought
        ]
        # Another question by the same keys finds nothing anew.
        rows(con, "SELECT diagnosis, state, city, sum(age) FROM persons JOIN homes USING (person) GROUP BY ALL")
        assert len({one[0] for one in lines(con)}) == len(lines(con)) == len({*sought, "diagnosis", "city"}) + 2
    with duckdb.connect(str(path)) as plainly:
        assert told == rows(plainly, plain or asked)


def test_one_unit_changes_its_own_values_by_one_unit_each(tmp_path: Path) -> None:
    """All neighbours of a small table: one person more changes at most two numbers of units, each by one."""
    known = renyi(Fraction(3), Fraction(1, 10**6))
    for more in range(5):
        table = f"""
        CREATE TABLE persons AS SELECT person, 'GA' AS state, 1 AS age, DATE '2020-01-01' AS day, diagnosis
        FROM (VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, 'b'), (2, NULL), (NULL, 'a')) r(person, diagnosis)
        UNION ALL SELECT 9, 'GA', 1, DATE '2020-01-01', ['a', 'b', 'c', 'd', 'c'][i + 1] FROM range({more}) r(i)
        """
        con, question = asked(protected(tmp_path / f"{more}.duckdb", table))
        values, counts = found_keys.units_by_value(con._guard._shared.own, question)
        con.close()
        units = dict(zip((one.as_py().decode() for one in values), counts.tolist(), strict=True))
        base = {"a": 1, "b": 2}
        changed = Counter(units) - Counter(base)
        assert set(changed.values()) <= {1}
        assert len(changed) == min(more, 2)
        assert question.contributions == 2
        assert known.of_rho(Fraction(question.contributions, 1) / (2 * question.noise.variance)) == question.epsilon


def test_the_threshold_is_that_of_its_part_of_delta(path: Path) -> None:
    con, question = asked(path)
    con.close()
    known = renyi(Fraction(3), Fraction(1, 10**6))
    assert question.noise.variance == 2 * known.order / (2 * Fraction(1, 100))
    # All together, divided by the probability that none of them tells too much, stay within a fourth of delta.
    together = KEYS_QUESTIONS * known.of_keys
    assert together / (1 - together) <= known.keys == known.delta / 4


def test_threads_find_keys_once(con: duckanon.Analyst) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: tuple(rows(con.cursor(), BY_DIAGNOSIS)), range(8)))
    assert len(set(found)) == 1
    assert len(lines(con)) == 2


def test_a_draw_that_failed_is_final_in_its_edition(con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    real = mechanisms.draw

    def fails(*given: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(mechanisms, "draw", fails)
    with pytest.raises(duckanon.errors.MachineFailure):
        rows(con, BY_DIAGNOSIS)
    assert len(lines(con)) == 1
    monkeypatch.setattr(mechanisms, "draw", real)
    with pytest.raises(duckanon.errors.MachineFailure, match="there is none in this edition"):
        rows(con, BY_DIAGNOSIS)
    assert len(lines(con)) == 1


def test_nothing_is_bought_where_both_do_not_fit(tmp_path: Path) -> None:
    scarce = PROTECT.replace("per_query := 0.01", "per_query := 0.01, per_edition := 0.015")
    with duckanon.connect(protected(tmp_path / "x.duckdb", protect=scarce), role="analyst") as con:
        with pytest.raises(
            BudgetExhausted,
            match=r"and 0 is spent in this one: 0\.02 \(Rényi [^)]*\) for 2 answers together is more than the rest",
        ):
            rows(con, BY_DIAGNOSIS)
        assert lines(con) == []
        rows(con, "SELECT DISTINCT diagnosis FROM persons")


def test_the_keys_part_of_delta_ends(path: Path) -> None:
    with duckdb.connect(str(path)) as plain:
        plain.execute(
            """INSERT INTO duckanon.ledger SELECT 1 + i, now()::TIMESTAMP, 'ann', 'main', 'persons', 'people', 1,
            'charge', '0.0000001', 'values', 'one', 'one', 'x', '{"noise": "gaussian, rho 1", "keys": true}'
            FROM range(1, 1001) r(i)"""
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        assert rows(con, "SELECT keys_left FROM privacy_budget()") == [(0,)]
        with pytest.raises(
            BudgetExhausted, match=r"^Keys of people were found with noise 1,000 times, which is all that"
        ):
            rows(con, BY_DIAGNOSIS)
        rows(con, "SELECT state, count(*) FROM persons GROUP BY state")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            ", delta := 1e-6",
            "",
            'The values of "diagnosis" are to be found with noise, for which the population needs a delta',
        ),
        (
            "delta := 1e-6,",
            "delta := 1e-6, hierarchy := ['diagnosis'],",
            '"diagnosis" is in the hierarchy, whose regions',
        ),
        (
            "'age': 'found'",
            "'age': 'found', 'pay': 'found'",
            'The values of "pay" cannot be found with noise, since they are',
        ),
    ],
)
def test_where_keys_cannot_be_found(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        rows(con, PERSONS)
        rows(con, "ALTER TABLE persons ADD COLUMN pay DOUBLE")
        protect = PROTECT.replace("\n  delta := 1e-6", " delta := 1e-6").replace(old, new)
        with pytest.raises(duckdb.Error, match=sentence):
            rows(con, protect)


def test_an_open_table_of_that_name_is_a_domain_as_before(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        rows(con, PERSONS)
        rows(con, "CREATE TABLE found AS SELECT 'flu' AS diagnosis")
        rows(con, "SELECT open_table('found')")
        rows(
            con,
            "SELECT protect('persons', epsilon := 1, per_query := 0.1, public := ['diagnosis'], "
            "domains := {'diagnosis': 'found'})",
        )
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        assert [one for (one, _) in rows(con, BY_DIAGNOSIS)] == ["flu"]


def test_a_column_that_is_not_public_is_not_found(tmp_path: Path) -> None:
    hidden = PROTECT.replace("'diagnosis', 'age', 'day'], bounds", "'age', 'day'], bounds")
    with (
        duckanon.connect(protected(tmp_path / "x.duckdb", protect=hidden), role="analyst") as con,
        pytest.raises((PolicyRefusal, UnsupportedQuery)),
    ):
        rows(con, BY_DIAGNOSIS)
