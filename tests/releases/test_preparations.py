"""What follows from a preparation: as DuckDB has it where there is no noise, charged once, and private as a whole."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.engines.discrete_gaussian import discrete_gaussian
from duckanon.engines.noise import Gaussian
from duckanon.releases import mechanisms
from duckanon.releases.mechanisms import marginals
from duckanon.releases.paid_questions import AggregatesQuestion
from duckanon.releases.preparations import FollowingQuestion, PreparationQuestion
from tests.amounts import sampled

RECORDS = """
CREATE TABLE persons AS SELECT i // 2 AS pid, ['GA', 'NY', 'CA', NULL][1 + (i // 12) % 4] AS state,
  ['f', 'm', 'M'][1 + (i // 3) % 3] AS sex, 20 + i % 12 AS age, (i * 37) % 101 AS income,
  CASE WHEN i % 5 > 0 THEN (i % 9) / 4.0 END AS score, i % 2 = 0 AS sick
FROM range(400) r(i);
CREATE TABLE plain AS FROM persons
"""
POLICY = """
SELECT protect('persons', {unit} epsilon := 4, delta := 1e-9, per_query := 0.01,
  public := ['state', 'sex', 'age', 'sick'], bounds := {{'income': [0, 100], 'score': [0, 2, 0.25]}},
  domains := {{'state': ['GA', 'NY', 'CA', NULL], 'sex': ['f', 'm', 'M'], 'age': {{'from': 20, 'to': 31, 'step': 1}},
    'sick': [true, false]}})
"""
UNIT = "privacy_unit := 'pid', rows_per_unit := 2,"
PREPARE = """
FROM prepare('persons', epsilon := 1, buy := true,
  by := [['state', 'sex', 'sick'], ['age', 'state'], ['state', 'sex', 'income'], ['score', 'age']])
"""
# What follows from several tables of it, each number from one.
SEVERAL = (
    "SELECT state, count(*), sum(income), count(*) FILTER (WHERE age > 24) FROM persons GROUP BY state",
    "SELECT state, count(*) FILTER (WHERE sex = 'f') AS f, count(*) FILTER (WHERE age > 24) FROM persons GROUP BY ALL",
    "SELECT count(*) FILTER (WHERE sick), sum(income), avg(score), count(*) FILTER (WHERE age > 24) FROM persons",
    "SELECT state, avg(sick::INT), rank() OVER (ORDER BY avg(income), state) AS r FROM persons "
    "WHERE state <> 'GA' GROUP BY ROLLUP (state) HAVING count(*) FILTER (WHERE age > 24) > 3",
    "SELECT state, count(*) FILTER (WHERE sex = 'f') / count(*), avg(income) + count(*) FILTER (WHERE age > 24) "
    "FROM persons GROUP BY state",
)
# What follows from it.
QUESTIONS = (
    "SELECT count(*) FROM persons",
    "SELECT state, count(*) FROM persons GROUP BY state",
    "SELECT sex, state, count(*) AS n FROM persons GROUP BY ALL ORDER BY n DESC, sex, state LIMIT 4",
    "SELECT age, count(*) FROM persons WHERE state = 'GA' GROUP BY age",
    "SELECT age // 5 AS band, count(*) FROM persons GROUP BY band",
    "SELECT count(*) FROM persons WHERE age BETWEEN 22 AND 25 AND state IN ('GA', 'NY')",
    "SELECT count(*) FROM persons WHERE state IS NULL OR age < 24",
    "SELECT state, sex, count(*) FROM persons GROUP BY ROLLUP (state, sex)",
    "SELECT state, sex, count(*) FROM persons GROUP BY CUBE (state, sex)",
    "SELECT state, count(*) FILTER (WHERE sex = 'f') AS f, count(*) AS n FROM persons GROUP BY state",
    "SELECT state, sum(CASE WHEN sick THEN 1 ELSE 0 END) FROM persons GROUP BY state",
    "SELECT state, avg(sick::INT) FROM persons GROUP BY state",
    "SELECT CASE WHEN age < 25 THEN 'young' ELSE 'old' END AS k, count(*) FROM persons GROUP BY k",
    "SELECT state, count(*) FROM persons GROUP BY state HAVING count(*) > 80",
    "SELECT sum(income), avg(income), count(income) FROM persons",
    "SELECT state, sum(income), avg(income) FROM persons WHERE sex = 'm' GROUP BY state",
    "SELECT age, avg(score), count(score), count(*) FROM persons GROUP BY age",
    "SELECT sum(score) FROM persons WHERE age > 24",
    "SELECT age, count(score) FROM persons GROUP BY age",
    "SELECT count(score) FROM persons WHERE age > 24",
    "SELECT state, count(*) FILTER (WHERE sex = 'f') FROM persons GROUP BY state",
    "SELECT state, sex, 100.0 * count(*) / sum(count(*)) OVER (PARTITION BY state) FROM persons GROUP BY state, sex",
    "SELECT sum(income) / count(*) FROM persons",
    "SELECT state, sum(2 * income + 1), avg(income / 4), sum(income) FROM persons GROUP BY ALL",
    "SELECT sum(income) / count(income) FROM persons",
    "SELECT state, sum(-income), avg(-income), sum(3 - income), avg(0 - income::DOUBLE / 4) FROM persons GROUP BY ALL",
    "SELECT age, avg(2 - score), sum(-2 * score + 1) FROM persons GROUP BY age",
    "SELECT sum(income - 3 * income), -sum(-income), sum(100 - income) / count(income) FROM persons",
    "SELECT age, count(*) FROM persons WHERE score IS NOT NULL GROUP BY ROLLUP (age)",
    "SELECT age, sum(score), avg(score), count(*) FROM persons WHERE score IS NOT NULL AND age > 22 GROUP BY age",
    "SELECT age, count(*) FILTER (WHERE score IS NULL) AS z, count(score) / count(*), avg((score IS NULL)::INT), "
    "avg(CASE WHEN score IS NOT NULL THEN 1 ELSE 0 END), sum(score) / count(*) FROM persons GROUP BY age",
    "SELECT age, sum(coalesce(score, 1)), avg(coalesce(score, 0)), sum(CASE WHEN score IS NULL THEN 2 ELSE -score END) "
    "FROM persons GROUP BY age",
    "SELECT avg((age > 24)::INT) FROM persons WHERE score IS NOT NULL",
    "SELECT state, sum(income / 100::DECIMAL(10, 2)), avg(income::DOUBLE * 2::SMALLINT) FROM persons GROUP BY state",
    # Shares that are put together from several SELECTs and windows.
    "SELECT state, 100.0 * count(*) / (SELECT count(*) FROM persons) FROM persons GROUP BY state",
    "WITH whole AS (SELECT count(*) AS n FROM persons) "
    "SELECT state, count(*) / any_value(n) FROM persons, whole GROUP BY state",
    "SELECT state, n * 100.0 / sum(n) OVER () FROM (SELECT state, count(*) AS n FROM persons GROUP BY state)",
    "SELECT DISTINCT sex, count(*) OVER (PARTITION BY sex) * 1.0 / count(*) OVER () FROM persons",
    "SELECT state, rank() OVER (ORDER BY count(*) DESC, state) FROM persons GROUP BY state",
    "SELECT upper(sex) AS s, count(*) FROM persons GROUP BY s",
    "WITH w AS (SELECT state, count(*) AS n FROM persons GROUP BY state) SELECT max(n), sum(n) FROM w",
    *SEVERAL,
)
# What does not: it needs other tables, other conditions, or is no linear function.
OTHERS = (
    "SELECT age, sex, count(*) FROM persons GROUP BY ALL",
    "SELECT count(*) FROM persons WHERE income > 50",
    "SELECT count(*) FROM persons WHERE sick AND age = 20",
    "SELECT median(income) FROM persons",
    "SELECT stddev_pop(income) FROM persons",
    "SELECT sum(income * income) FROM persons",
    "SELECT sum(income % 7) FROM persons",
    "SELECT sum(income + score) FROM persons",
    "SELECT age, sum(income) FROM persons GROUP BY age",
    "SELECT state, count(*) FROM persons WHERE score IS NULL GROUP BY state",
    "SELECT count(*) FROM persons WHERE score IS NULL OR age > 24",
    "SELECT sum(income) FROM persons WHERE score IS NOT NULL",
    "SELECT state, count(DISTINCT sex) FROM persons GROUP BY state",
    "SELECT state, count(*) FILTER (WHERE income > 50) FROM persons GROUP BY state",
    "SELECT state, count(score) FROM persons GROUP BY state",
    "SELECT state, sum(income) FILTER (WHERE score IS NOT NULL) FROM persons GROUP BY state",
    "SELECT state, avg(sick::INT) FILTER (WHERE income > 50) FROM persons GROUP BY state",
)


def no_noise(variance: Fraction, shape: Any, source: Any) -> np.ndarray:
    return np.zeros(shape, dtype=np.int64)


@pytest.fixture(scope="module", params=["", UNIT], ids=["records", "units"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a preparation without noise, of records or of units with two records each."""
    path: Path = tmp_path_factory.mktemp("prepared") / "x.duckdb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "discrete_gaussian", no_noise)
        with duckanon.connect(path, role="steward") as con:
            con.execute(RECORDS).fetchall()
            con.execute(POLICY.format(unit=request.param)).fetchall()
            con.execute(PREPARE).fetchall()
    return path


def rows(con: Any, sql: str) -> list[tuple[Any, ...]]:
    found = [
        tuple(float(one) if isinstance(one, (int, float)) else one for one in row)
        for row in con.execute(sql).fetchall()
    ]
    return found if "ORDER BY n" in sql else sorted(found, key=repr)


@pytest.fixture(scope="module")
def expected(made: Path) -> dict[str, list[tuple[Any, ...]]]:
    with duckanon.connect(made, role="steward") as con:
        return {one: rows(con, one.replace("persons", "plain")) for one in QUESTIONS}


@pytest.fixture(scope="module")
def analyst(made: Path, expected: dict[str, list[tuple[Any, ...]]]) -> Iterator[Analyst]:
    """For tests that buy nothing. The steward has left the file by then."""
    with duckanon.connect(made, role="analyst") as con:
        yield con


@pytest.mark.parametrize("sql", sampled(QUESTIONS, every=3))
def test_without_noise_it_is_what_duckdb_says_and_costs_nothing(
    sql: str, analyst: Analyst, expected: dict[str, list[tuple[Any, ...]]]
) -> None:
    before = spent(analyst)
    found = rows(analyst, sql)
    assert spent(analyst) == before
    assert before[1] == 1
    assert len(found) == len(expected[sql])
    for one, other in zip(found, expected[sql], strict=True):
        numbers = [[each for each in row if isinstance(each, float)] for row in (one, other)]
        texts = [[each for each in row if not isinstance(each, float)] for row in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-9)
        assert texts[0] == texts[1]
    decision = analyst.explain(sql)
    assert all(isinstance(one, FollowingQuestion) for one in decision.answers)
    assert all(step.drawn is not None for step in decision.steps)
    assert decision.steps[0].reason.startswith("Free: it follows from what was prepared on ")


# Of values that are in no domain, of which records have some.
OUTSIDE = (
    "SELECT count(*) FROM persons WHERE sex = 'M'",
    "SELECT count(*) FROM persons WHERE sex IN ('f', 'M') AND state = 'GA'",
    "SELECT state, count(*) FROM persons WHERE state = 'GA' AND (sex = 'f' OR sex = 'M') GROUP BY state",
    "SELECT count(*) FROM persons WHERE state IS NULL",
    "SELECT state, count(*) FILTER (WHERE sex = 'M') FROM persons WHERE state = 'NY' GROUP BY state",
    "SELECT sum(income) FROM persons WHERE age > 28",
)
INSIDE = (
    "SELECT count(*) FROM persons WHERE sex IN ('f', NULL)",
    "SELECT count(*) FROM persons WHERE sex = 'f' OR sex = 'm'",
    "SELECT count(*) FROM persons WHERE age < 28 AND age > 25",
)


@pytest.mark.parametrize("earlier", [PREPARE, "SELECT state, sex, count(*) FROM persons GROUP BY ALL"])
def test_values_outside_of_a_domain_are_no_zeros(earlier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number was told as 0, within 0 of the truth, from tables that have no row of them."""
    monkeypatch.setattr(marginals, "discrete_gaussian", no_noise)
    monkeypatch.setattr(Gaussian, "draw", lambda self, shape, source, **_: no_noise(self.variance, shape, source))
    policy = POLICY.format(unit="").replace(", 'M'], 'age'", "], 'age'").replace("'CA', NULL]", "'CA']")
    path, is_prepared = tmp_path / "x.duckdb", earlier is PREPARE
    with duckanon.connect(path, role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(policy.replace("'to': 31", "'to': 27")).fetchall()
        con.execute(earlier if is_prepared else "SELECT 1").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        con.execute("SELECT 1" if is_prepared else earlier).fetchall()
        for sql in OUTSIDE:
            before = spent(con)[1]
            assert rows(con, sql) == rows(con._con.cursor(), sql.replace("persons", "plain"))
            assert spent(con)[1] == before + 1
        for sql in INSIDE if is_prepared else ():
            assert con.explain(sql).steps[0].drawn is not None
            assert rows(con, sql) == rows(con._con.cursor(), sql.replace("persons", "plain"))


def test_a_number_is_the_same_beside_others(tmp_path: Path) -> None:
    """Each follows from the tables that it needs, whatever else is asked: with records outside of others' domains."""
    asked = ["count(*)", "count(*) FILTER (WHERE sex = 'f')", "count(*) FILTER (WHERE age > 24)", "avg(income)"]
    asked += [f"{side}({one})" for one in asked for side in ("low", "high")]
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(POLICY.format(unit="").replace(", 'M'], 'age'", "], 'age'")).fetchall()
        con.execute(PREPARE).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        query = "SELECT state, {} FROM persons GROUP BY ROLLUP (state) ORDER BY grouping(state), state"
        together = query.format(", ".join(asked))
        decision = con.explain(together)
        assert [type(one) for one in decision.answers] == [FollowingQuestion] * 3
        assert all(step.drawn is not None for step in decision.steps)
        shown = list(zip(*con.execute(together).fetchall(), strict=True))[1:]
        for one, column in zip(asked, shown, strict=True):
            assert [row[1] for row in con.execute(query.format(one)).fetchall()] == pytest.approx(column)
        assert "Noise of " in str(con.sql(together))
        assert spent(con)[1] == 1


@pytest.mark.parametrize("sql", OTHERS)
def test_what_does_not_follow_is_paid(sql: str, analyst: Analyst) -> None:
    decision = analyst.explain(sql)
    assert not any(isinstance(one, FollowingQuestion) for one in decision.answers)


def test_no_record_is_read_for_it(made: Path, analyst: Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = mechanisms.draw

    def spy(con: Any, question: Any) -> Any:
        assert isinstance(question, FollowingQuestion)
        return drawn(con, question)

    monkeypatch.setattr(mechanisms, "draw", spy)
    analyst.execute("SELECT sex, count(*) FROM persons WHERE state <> 'GA' GROUP BY sex").fetchall()


def test_ends_are_around_the_truth_and_as_wide_as_is_said(analyst: Analyst) -> None:
    for sql in ("count(*)", "sum(income)", "avg(income)", "avg((sex = 'f')::INT)", "count(*) FILTER (WHERE sex = 'm')"):
        found = analyst.execute(
            f"SELECT state, {sql} AS x, low({sql}) AS low, high({sql}) AS high FROM persons GROUP BY state"
        ).fetchall()
        assert len(found) == 4
        for _, x, low, high in found:
            assert low < x < high or low == 0 < high
    step = analyst.explain("SELECT state, count(*) FROM persons GROUP BY state").steps[0]
    ((low, high, n),) = analyst.execute(
        "SELECT low(count(*)), high(count(*)), count(*) FROM persons GROUP BY state HAVING state = 'GA'"
    ).fetchall()
    assert high - n == step.within == n - low or low == 0


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyst]:
    """An analyst of a preparation of records with its noise."""
    path = tmp_path_factory.mktemp("noisy") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(POLICY.format(unit="")).fetchall()
        con.execute(PREPARE.replace("epsilon := 1", "epsilon := 2")).fetchall()
    with duckanon.connect(path, role="analyst") as analyst:
        yield analyst


@pytest.mark.parametrize("aggregate", ["sum", "avg"])
@pytest.mark.parametrize(
    "rises", ["income", "2 * income + 1", "score", "score / 3 - 1", "income - 3", "5 * (income - 50)"]
)
def test_what_falls_has_the_interval_of_what_rises_turned_around(aggregate: str, rises: str, noisy: Analyst) -> None:
    key = "age" if "score" in rises else "state"
    number = f"{aggregate}({rises})"
    up = noisy.execute(
        f"SELECT {number}, low({number}), high({number}) FROM persons GROUP BY ROLLUP ({key})"
    ).fetchall()
    for falls in (f"-({rises})", f"0 - ({rises})", f"(-1) * ({rises})"):
        turned = number.replace(rises, falls)
        sql = f"SELECT {turned}, high({turned}), low({turned}) FROM persons GROUP BY ROLLUP ({key})"
        for row, expected in zip(noisy.execute(sql).fetchall(), up, strict=True):
            assert [float(one) for one in row] == pytest.approx([-float(one) for one in expected], abs=1e-6)
            assert row[2] < row[1]
        near = [
            re.findall(r"within [\d.,]+", noisy.explain(f"SELECT {one} FROM persons").steps[0].reason)
            for one in (turned, number)
        ]
        assert near[0] == near[1] != []
    assert spent(noisy)[1] == 1


WIDE = """
SELECT protect('wide', privacy_unit := 'person', rows_per_unit := 1, epsilon := 20, delta := 1e-9, per_query := 0.05,
  public := ['g', 's'], bounds := {{'x': [0, 9]}},
  domains := {{'g': {{'from': 0, 'to': {last}, 'step': 1}}, 's': ['a', 'b']}})
"""


def reasons(tmp_path: Path, last: int, *questions: str) -> list[tuple[str, Any]]:
    """What is said of questions about a table with keys up to `last`, and within how many records."""
    path = tmp_path / f"{last}.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE wide AS SELECT i AS person, i % 5 AS g, 'a' AS s, i % 10 AS x FROM range(9) r(i)")
        con.execute(WIDE.format(last=last)).fetchall()
        con.execute("FROM prepare('wide', by := [['g', 'x'], ['g', 's']], epsilon := 0.4, buy := true)").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        steps = [con.explain(one).steps[0] for one in questions]
        assert all(one.drawn is not None for one in steps)
        return [(one.reason.partition(". ")[2], one.within) for one in steps]


def test_the_width_of_many_rows_is_that_of_one(tmp_path: Path) -> None:
    """A width of 0 was said of more rows than are looked at."""
    by_cells = "SELECT g, count(*) FROM wide GROUP BY g", "SELECT g, sum(x), count(x) FROM wide WHERE g > 7 GROUP BY g"
    few, many = (reasons(tmp_path, last, *by_cells) for last in (99, 20_000))
    for (_, near), (reason, within) in zip(few, many, strict=True):
        assert near - 1 <= within <= near + 1
        assert "no interval" not in reason
    assert f"95 % are within {many[0][1]} of the truth" in many[0][0]
    assert "SUM(x) within " in many[1][0]


def test_no_width_is_said_that_is_not_known(tmp_path: Path) -> None:
    ((counts, within), (sums, _)) = reasons(
        tmp_path,
        20_000,
        "SELECT g // 2 AS h, count(*) FROM wide GROUP BY h",
        "SELECT g // 2 AS h, sum(x) FROM wide GROUP BY h",
    )
    assert within is None
    for said in (counts, sums):
        assert said.startswith(
            "The numbers have noise. How near to the truth a number is depends on its row: low and high say it."
        )


def test_the_cut_is_named(made: Path, analyst: Analyst) -> None:
    reason = analyst.explain("SELECT count(*) FROM persons WHERE state = 'GA'").steps[0].reason
    assert "Records whose values in a condition or a sum are outside of the columns' domains do not count." in reason
    with duckanon.connect(made, role="analyst") as con:
        ((unit,),) = con.execute("SELECT privacy_unit FROM policies()").fetchall()
    assert ("a sample of 2 counts, picked among all records and before any condition" in reason) is (unit is not None)


# --- the call ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def steward(tmp_path: Path) -> Iterator[Any]:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(POLICY.format(unit=UNIT)).fetchall()
        yield con


def spent(con: Any) -> tuple[Fraction, int]:
    ((exact, charges),) = con.execute("SELECT spent_exact, charges FROM privacy_budget()").fetchall()
    return Fraction(exact), charges


def test_a_plan_is_shown_and_costs_nothing(steward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "marginals", None)
    shown = steward.execute(PREPARE.replace(", buy := true", "")).fetchall()
    assert [row[0] for row in shown] == [
        ["age", "state"],
        ["age", "score"],
        ["sex", "sick", "state"],
        ["sex", "state", "income"],
    ]
    assert [row[1] for row in shown] == [48, 12, 24, 12]
    assert {row[-1] for row in shown} == {None}
    assert spent(steward) == (Fraction(0), 0)


def test_the_same_call_is_free_and_another_is_not(steward: Any) -> None:
    steward.execute(PREPARE).fetchall()
    once = spent(steward)
    assert Fraction("0.999") < once[0] <= 1
    shown = steward.sql(PREPARE)
    assert str(shown) == str(shown)
    turned = PREPARE.replace("['state', 'sex', 'sick'], ['age', 'state']", "['STATE', 'age'], ['sick', 'sex', 'state']")
    steward.execute(turned).fetchall()
    assert spent(steward) == once
    steward.execute(PREPARE.replace("epsilon := 1", "epsilon := 0.5")).fetchall()
    assert spent(steward)[1] == 2


def test_what_is_shown_is_what_is_charged(steward: Any) -> None:
    ((price,), *_) = steward.execute(f"SELECT price_exact {PREPARE.replace(', buy := true', '')}").fetchall()
    steward.execute(PREPARE).fetchall()
    assert spent(steward) == (Fraction(price), 1)


def test_a_draw_that_failed_is_final_in_its_edition(steward: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = discrete_gaussian

    def failing(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(marginals, "discrete_gaussian", failing)
    with pytest.raises(duckdb.Error, match="The answer could not be made on this machine"):
        steward.execute(PREPARE).fetchall()
    once = spent(steward)
    assert once[1] == 1
    asked = "FROM explain_privacy('SELECT state, count(*) FROM persons GROUP BY state', role := 'analyst')"
    assert "prepared" not in str(steward.execute(asked).fetchall())
    assert steward.execute("FROM prepared()").fetchall() == []
    shown = steward.execute(f"SELECT prepared_on {PREPARE.replace(', buy := true', '')}").fetchall()
    assert {day for (day,) in shown} == {None}
    monkeypatch.setattr(marginals, "discrete_gaussian", sampler)
    with pytest.raises(duckdb.Error, match="there is none in this edition"):
        steward.execute(PREPARE).fetchall()
    assert spent(steward) == once
    steward.execute("SELECT new_edition('persons')").fetchall()
    steward.execute(PREPARE).fetchall()
    assert spent(steward)[1] == 2
    assert "prepared" in str(steward.execute(asked).fetchall())


def test_what_was_dropped_is_charged_again_and_another_draw(steward: Any) -> None:
    steward.execute(PREPARE).fetchall()
    once = spent(steward)
    ((name,),) = steward.execute(
        "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, 'answer_')"
    ).fetchall()
    steward.execute(f"DROP TABLE duckanon.{name}").fetchall()
    steward.execute(PREPARE).fetchall()
    assert spent(steward) == (2 * once[0], 2)


def test_an_accuracy_is_kept(steward: Any) -> None:
    shown = steward.execute(
        "SELECT \"columns\", within, price FROM prepare('persons', by := [['state'], ['sex', 'age']], within := 20)"
    ).fetchall()
    assert max(row[1] for row in shown) == 20
    dearer = steward.execute(
        "SELECT price FROM prepare('persons', by := [['state'], ['sex', 'age']], within := 19)"
    ).fetchall()
    assert dearer[0][0] > shown[0][2]


@pytest.mark.parametrize("unit", ["", UNIT])
@pytest.mark.parametrize("by", ["[[]]", "[['income']]", "[[], ['score']]"])
def test_tables_without_keys(unit: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "discrete_gaussian", no_noise)
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(POLICY.format(unit=unit)).fetchall()
        con.execute(f"FROM prepare('persons', by := {by}, epsilon := 1, buy := true)").fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as analyst:
        assert analyst.execute("SELECT count(*) FROM persons").fetchall() == [(400,)]
        assert spent(analyst)[1] == 1


def test_tables_of_queries(steward: Any) -> None:
    shown = steward.execute(
        "SELECT \"columns\" FROM prepare('persons', epsilon := 1, queries := ["
        "'SELECT state, avg(income) FROM persons WHERE sex = ''f'' GROUP BY state', 'SELECT count(*) FROM persons'])"
    ).fetchall()
    assert [row[0] for row in shown] == [[], ["sex", "state", "income"]]
    with pytest.raises(
        duckdb.Error, match=r"`SELECT median\(income\) FROM persons` is not answered from prepared tables"
    ):
        steward.execute(
            "FROM prepare('persons', epsilon := 1, queries := ['SELECT median(income) FROM persons'])"
        ).fetchall()


def test_tables_of_a_file_of_queries(steward: Any, tmp_path: Path) -> None:
    steward.execute("CREATE TABLE others AS FROM range(3); SELECT open_table('others')").fetchall()
    (tmp_path / "one.sql").write_text(
        "-- by state; and ages\nSELECT state, count(*) FROM persons GROUP BY state;\nSELECT count(*) FROM others;\n"
    )
    (tmp_path / "two.sql").write_text("SELECT age, avg(income) FROM persons WHERE sex <> ';' GROUP BY age")
    (tmp_path / "none.sql").write_text("-- nothing yet\n")
    shown = f"SELECT \"columns\" FROM prepare('persons', epsilon := 1, file := '{tmp_path}/%s')"
    assert steward.execute(shown % "one.sql").fetchall() == [(["state"],)]
    both = [(["state"],), (["age", "sex", "income"],)]
    assert steward.execute(shown % "???.sql").fetchall() == both
    # Its queries are those of `queries`, so it is the same preparation, and a second purchase is free.
    steward.execute(shown.replace(")", ", buy := true)") % "one.sql").fetchall()
    steward.execute(
        "FROM prepare('persons', epsilon := 1, buy := true, queries := ['SELECT count(*) FROM persons GROUP BY state'])"
    ).fetchall()
    assert spent(steward)[1] == 1
    for name, says in (
        ("none.sql", "holds no query"),
        ("missing.sql", "There is no file"),
    ):
        with pytest.raises(duckdb.Error, match=says):
            steward.execute(shown % name).fetchall()
    with pytest.raises(duckdb.Error, match="None of the queries reads persons"):
        steward.execute("FROM prepare('persons', epsilon := 1, queries := ['SELECT count(*) FROM others'])").fetchall()


def test_a_connection_without_files_reads_none(steward: Any, tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text("SELECT state, count(*) FROM persons GROUP BY state")
    steward.execute("SET enable_external_access = false").fetchall()
    with pytest.raises(duckdb.Error, match="disabled"):
        steward.execute(f"FROM prepare('persons', epsilon := 1, file := '{tmp_path}/one.sql')").fetchall()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("by := [['pid']], epsilon := 1", "public columns with a domain, and of numbers with bounds: pid is none"),
        ("by := [['town']], epsilon := 1", 'by names a column "town", which persons does not have'),
        ("by := [['income', 'score']], epsilon := 1", "A table has one number at most"),
        ("by := ['state'], epsilon := 1", "by must list the columns of each table"),
        ("by := [['state']], epsilon := 1, within := 3", "give one of them"),
        ("by := [['state']], epsilon := 3, buy := true", "The privacy budget of main.persons does not suffice"),
    ],
)
def test_refusals(call: str, says: str, steward: Any) -> None:
    with pytest.raises(duckdb.Error, match=says):
        steward.execute(f"FROM prepare('persons', {call})").fetchall()
    assert spent(steward) == (Fraction(0), 0)


def test_a_population_without_delta_has_none(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(POLICY.format(unit="").replace("delta := 1e-9,", "")).fetchall()
        with pytest.raises(duckdb.Error, match="has no delta, and what is prepared has Gaussian noise"):
            con.execute(PREPARE).fetchall()


def test_an_edition_or_a_policy_ends_it(steward: Any, tmp_path: Path) -> None:
    steward.execute(PREPARE).fetchall()
    current = "SELECT edition, any_value(is_current) FROM prepared() GROUP BY edition ORDER BY edition"
    assert steward.execute(current).fetchall() == [(1, True)]
    steward.execute("SELECT new_edition('persons')").fetchall()
    assert steward.execute(current).fetchall() == [(1, False)]
    (row,) = steward.execute(
        "FROM explain_privacy('SELECT state, count(*) FROM persons GROUP BY state', role := 'analyst')"
    ).fetchall()
    assert "prepared" not in str(row)
    steward.execute(PREPARE).fetchall()
    assert spent(steward)[1] == 2
    assert steward.execute(current).fetchall() == [(1, False), (2, True)]
    steward.execute("SELECT unprotect('persons')").fetchall()
    steward.execute(POLICY.format(unit=UNIT)).fetchall()
    assert steward.execute(current).fetchall() == [(1, False), (2, False)]


def test_analysts_see_what_is_prepared_and_do_not_buy(made: Path, analyst: Analyst) -> None:
    assert analyst.execute("SELECT count(*) FROM prepared()").fetchall() == [(4,)]
    with pytest.raises(duckanon.errors.DuckanonError):
        analyst.execute(PREPARE).fetchall()


# --- privacy of the whole ---------------------------------------------------------------------------------------------

# Each unit's records: (state, sex, income). The domains have two values each, and others lie outside.
UNITS: tuple[tuple[tuple[str | None, str | None, int | None], ...], ...] = (
    (("GA", "f", 4), ("GA", "f", 4)),
    (("NY", "m", 0), ("GA", None, None), ("zz", "m", 2)),
    (("GA", "m", 1), ("NY", "f", 3), ("NY", "f", 3), (None, None, 9)),
    (("zz", "q", None),),
)


def bought(tmp_path: Path, by: str, rows_per_unit: int) -> tuple[Any, PreparationQuestion]:
    """A steward's connection to a database of UNITS, and the question that a call of prepare charges."""
    con = duckanon.connect(tmp_path / "small.duckdb", role="steward")
    con.execute("CREATE TABLE t (u INTEGER, state VARCHAR, sex VARCHAR, income INTEGER)").fetchall()
    con.execute(
        f"SELECT protect('t', privacy_unit := 'u', rows_per_unit := {rows_per_unit}, epsilon := 4, delta := 1e-9, "
        "per_query := 0.1, public := ['state', 'sex'], bounds := {'income': [0, 4]}, "
        "domains := {'state': ['GA', 'NY'], 'sex': ['f', 'm']})"
    ).fetchall()
    asked: list[PreparationQuestion] = []
    with pytest.MonkeyPatch.context() as patch:
        drawn = mechanisms.draw

        def noted(own: duckdb.DuckDBPyConnection, question: PreparationQuestion) -> pa.Table:
            asked.append(question)
            return drawn(own, question)

        patch.setattr(mechanisms, "draw", noted)
        con.execute(f"FROM prepare('t', by := {by}, epsilon := 1, buy := true)").fetchall()
    return con, asked[0]


def exactly(con: Any, question: PreparationQuestion, units: Any) -> dict[tuple[int, ...], np.ndarray]:
    """The measured marginals of some units, without noise."""
    con.execute("DELETE FROM t").fetchall()
    for at, records in units:
        for one in records:
            con.execute("INSERT INTO t VALUES (?, ?, ?, ?)", [at, *one])
    return marginals.marginals(con, question)


def loss(question: PreparationQuestion, one: Any, other: Any) -> Fraction:
    """The zero-concentrated loss between two databases: of each marginal the squared distance by twice the variance."""
    return sum(
        (
            Fraction(int((np.asarray(one[table] - other[table]) ** 2).sum())) / (2 * variance)
            for table, variance in question.variances.items()
        ),
        Fraction(0),
    )


BY = "[['state', 'sex'], ['state', 'income'], ['sex'], []]"


@pytest.mark.parametrize("rows_per_unit", [1, 2, 3])
def test_a_unit_changes_all_marginals_together_by_what_is_charged(tmp_path: Path, rows_per_unit: int) -> None:
    con, question = bought(tmp_path, BY, rows_per_unit)
    assert question.renyi is not None
    most = question.renyi.rho(question.epsilon)
    worst = Fraction(0)
    numbered = list(enumerate(UNITS))
    for size in range(len(UNITS) + 1):
        for some in itertools.combinations(numbered, size):
            whole = exactly(con, question, some)
            for left in range(len(some)):
                found = loss(question, whole, exactly(con, question, some[:left] + some[left + 1 :]))
                assert found <= most
                worst = max(worst, found)
    # The first unit's records are all alike. So the test can fail: with a smaller scale the loss is above the charge.
    assert (worst == most) is (rows_per_unit <= 2)
    con.close()


def test_all_marginals_count_the_same_records(tmp_path: Path) -> None:
    """And not what a twin counts that picks each unit's records anew for every marginal."""
    con, question = bought(tmp_path, BY, 1)
    known = question.renyi
    assert known is not None
    units = [(at, UNITS[2]) for at in range(40)]
    found = exactly(con, question, units)
    assert consistent(question, found)
    twin: dict[tuple[int, ...], np.ndarray] = {}
    for table in question.design.measured:
        keys = [at for at in table if at < len(question.keys)]
        design = replace(
            question.design,
            keys=tuple(question.design.keys[at] for at in keys),
            sizes=tuple(question.design.sizes[at] for at in keys),
            numbers=question.design.numbers if len(keys) < len(table) else (),
            tables=(tuple(range(len(table))),),
            measured={tuple(range(len(table))): Fraction(1)},
        )
        own = replace(
            question,
            keys=tuple(question.keys[at] for at in keys),
            numbers=question.numbers if len(keys) < len(table) else (),
            design=design,
            epsilon=known.of_rho(Fraction(1, 2)),
        )
        twin[table] = marginals.marginals(con, own)[tuple(range(len(table)))]
    assert not consistent(question, twin)
    con.close()


def consistent(question: PreparationQuestion, found: dict[tuple[int, ...], np.ndarray]) -> bool:
    """Whether marginals agree in what they have in common."""
    for one, other in itertools.combinations(found, 2):
        both = [at for at in one if at in other]
        sums = []
        for table in (one, other):
            left = tuple(place for place, at in enumerate(table) if at not in both)
            sums.append(found[table].sum(axis=left) / question.design.workload.whole(table))
        if not np.allclose(*sums):
            return False
    return len(found) > 1


def test_a_paid_question_is_no_preparation(analyst: Analyst) -> None:
    (asked,) = analyst.explain(OTHERS[0]).answers
    assert isinstance(asked, AggregatesQuestion)
    assert asked.follows is None


def test_a_linked_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginals, "discrete_gaussian", no_noise)
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(
            "CREATE TABLE orders (o INTEGER PRIMARY KEY, who INTEGER); "
            "CREATE TABLE items (o INTEGER, kind VARCHAR, n INTEGER);"
            "INSERT INTO orders SELECT i, i // 2 FROM range(40) r(i); INSERT INTO orders VALUES (40, NULL);"
            "INSERT INTO items SELECT i % 45, ['a', 'b'][1 + i % 2], i % 5 FROM range(90) r(i)"
        ).fetchall()
        policy = "population := 'buyers', epsilon := 4, delta := 1e-9, per_query := 0.1, rows_per_unit := 4"
        con.execute(f"SELECT protect('orders', privacy_unit := 'who', {policy})").fetchall()
        con.execute(
            f"SELECT protect('items', link := {{'o': 'orders.o'}}, {policy}, public := ['kind'], "
            "bounds := {'n': [0, 4]}, domains := {'kind': ['a', 'b']})"
        ).fetchall()
        con.execute("FROM prepare('items', by := [['kind', 'n']], epsilon := 1, buy := true)").fetchall()
        expected = con.execute(
            "SELECT kind, count(*), sum(n), avg(n) FROM items JOIN orders USING (o) WHERE who IS NOT NULL GROUP BY kind"
        ).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as analyst:
        sql = "SELECT kind, count(*), sum(n), avg(n) FROM items GROUP BY kind"
        found = analyst.execute(sql).fetchall()
        reason = analyst.explain(sql).steps[0].reason
    assert sorted(found) == [pytest.approx(one) for one in sorted(expected)]
    assert reason.startswith("Free: it follows")
    assert "a sample of 4 counts" in reason


CHARGED = {
    "SELECT state, count(*) FROM persons WHERE income > 3 GROUP BY state": "prepared tables: `income > 3` cannot be",
    "SELECT sex, age, count(*) FROM persons GROUP BY ALL": "No prepared table has age, sex together.",
    "SELECT state, sum(score) FROM persons GROUP BY state": "No prepared table has state, score together.",
    "SELECT median(income) FROM persons": "Not from prepared tables: `median(income)` cannot",
}


@pytest.mark.parametrize(("sql", "why"), CHARGED.items())
def test_it_is_said_why_what_is_prepared_does_not_answer(sql: str, why: str, made: Path) -> None:
    with duckanon.connect(made, role="analyst") as con:
        step = con.explain(sql).steps[0]
        assert step.drawn is None
        assert why in step.reason
        con.execute(sql).fetchall()
        assert "prepared" not in con.explain(sql).steps[0].reason


def test_where_nothing_is_prepared_nothing_is_said_of_it(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        con.execute(RECORDS).fetchall()
        con.execute(POLICY.format(unit="")).fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        assert all("prepared" not in con.explain(sql).steps[0].reason for sql in CHARGED)
