"""Sums and means of a column that is a key and has bounds: by its values, or as it was measured as a number."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.catalog.names import literals
from duckanon.releases.mechanisms import marginals
from duckanon.releases.preparations import FollowingQuestion
from tests.releases.test_preparations import RECORDS, no_noise, rows

POLICY = """
SELECT protect('persons', epsilon := 4, delta := 1e-9, per_query := 0.01,
  public := ['state', 'sex', 'age', 'visits'], bounds := {'age': [20, 30], 'visits': [0, 3]},
  domains := {'state': ['GA', 'NY', 'CA', NULL], 'sex': ['f', 'm', 'M'], 'age': {'from': 20, 'to': 31, 'step': 1},
    'visits': [0, 1, 2, 3, NULL]})
"""
MORE = "ALTER TABLE persons ADD COLUMN visits INTEGER; UPDATE persons SET visits = nullif(age % 5, 4)"
QUESTIONS = (
    "SELECT sex, avg(age), sum(age), count(*) FROM persons GROUP BY sex",
    "SELECT state, avg(age), sum(age), count(age) FROM persons GROUP BY state",
    "SELECT avg(age) FROM persons WHERE age > 24",
    "SELECT age, sum(age) FROM persons GROUP BY age",
    "SELECT state, sum(age) FILTER (WHERE age > 25) s, avg(age) FROM persons GROUP BY state",
    "SELECT state, sum(age) / count(*) FROM persons GROUP BY state",
    "SELECT state, sum(visits), avg(visits), count(visits), count(*) FROM persons GROUP BY state",
    "SELECT state, sum(visits * visits), avg(2 * visits + 1), sum(3 - visits), sum(visits) FROM persons GROUP BY state",
    "SELECT visits, sum(visits) FROM persons WHERE visits > 0 GROUP BY visits",
)
BY = "by := [['state', 'age'], ['state', 'visits']]"


def protected(path: Path) -> Any:
    con = duckanon.connect(path, role="steward")
    con.execute(RECORDS).fetchall()
    con.execute(MORE).fetchall()
    con.execute(POLICY).fetchall()
    return con


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("keys") / "x.duckdb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "discrete_gaussian", no_noise)
        with protected(path) as con:
            con.execute(
                f"FROM prepare('persons', epsilon := 1, buy := true, {BY}, "
                "queries := ['SELECT sex, avg(age) FROM persons GROUP BY sex'])"
            ).fetchall()
    return path


@pytest.fixture
def analyst(made: Path) -> Iterator[Any]:
    with duckanon.connect(made, role="analyst") as con:
        yield con


@pytest.mark.parametrize("query", QUESTIONS)
def test_as_duckdb_has_it(query: str, analyst: Any) -> None:
    assert analyst.explain(query).steps[0].reason.startswith("Free: it follows")
    with duckdb.connect() as plain:
        plain.execute(RECORDS + ";" + MORE).fetchall()
        clamped = query.replace("sum(age)", "sum(least(age, 30))").replace("avg(age)", "avg(least(age, 30))")
        expected = rows(plain, clamped)
    assert rows(analyst, query) == [pytest.approx(one) for one in expected]


def test_a_number_is_measured_only_where_no_table_has_its_key(tmp_path: Path) -> None:
    asked = ["SELECT sex, avg(age) FROM persons GROUP BY sex", "SELECT state, sum(age) FROM persons GROUP BY state"]
    with protected(tmp_path / "x.duckdb") as con:

        def planned(more: str) -> list[tuple[list[str], int]]:
            call = f"prepare('persons', epsilon := 1, queries := {literals(asked)}{more})"
            return [tuple(one) for one in con.execute(f"SELECT columns, cells FROM {call}").fetchall()]

        assert planned("") == [(["sex", "age"], 3), (["state", "age"], 4)]
        assert planned(", by := [['age', 'state']]") == [(["age", "state"], 48), (["sex", "age"], 3)]


def test_the_nearer_of_both_answers(analyst: Any) -> None:
    """Of the whole table the sum was measured as a number by sex, and follows from the ages by state."""
    (number,) = analyst.explain("SELECT sum(age) FROM persons").answers
    assert isinstance(number, FollowingQuestion)
    assert number.of_keys == ()
    (by_keys,) = analyst.explain("SELECT state, sum(age) FROM persons GROUP BY state").answers
    assert isinstance(by_keys, FollowingQuestion)
    assert by_keys.of_keys == ("age",)


def test_a_multiple_has_the_number_s_own_interval_times_as_wide(tmp_path: Path) -> None:
    """It was charged, though it follows linearly."""
    with protected(tmp_path / "x.duckdb") as con:
        con.execute(
            "FROM prepare('persons', epsilon := 1, buy := true, "
            "queries := ['SELECT sex, avg(age) FROM persons GROUP BY sex'])"
        ).fetchall()
    numbers = "{0}(sum(age)), {0}(sum(4 * age)), {0}(avg(age)), {0}(avg(age / 8 - 1))"
    asked = f"SELECT {numbers.format('low')}, {numbers.format('high')}, sum(4 * age) FROM persons"
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        assert con.explain(asked).steps[0].drawn is not None
        ((*ends, total),) = con.execute(asked).fetchall()
    # As DuckDB has it, a HUGEINT.
    assert isinstance(total, int)
    for one, four, mean, eighth in (ends[:4], ends[4:]):
        assert four == pytest.approx(4 * one, abs=4)
        assert eighth == pytest.approx(mean / 8 - 1)


def test_widths_are_those_of_the_values(made: Path) -> None:
    """The width of a sum by state is that of the ages times their counts, which are not independent."""
    with duckanon.connect(made, role="analyst") as con:
        decision = con.explain("SELECT state, sum(age) FROM persons GROUP BY state")
        (question,) = decision.answers
        design = question.preparation.design
        table = tuple(sorted(design.keys.index(one) for one in ("age", "state")))
        values = [Fraction(min(age, 30)) for age in range(20, 32)]
        axis = table.index(design.keys.index("age"))
        variance = design.variance(table, 1, (axis, values))
        ((_, both_sides),) = decision.noisy
    assert both_sides / 2 == pytest.approx(design.factor(1) * sqrt(variance), abs=1)
    # The twin that takes the counts for independent would have another width.
    independent = float(design.plan.variance(table)) * sum(float(one) ** 2 for one in values)
    assert abs(sqrt(independent) / sqrt(float(variance)) - 1) > 0.005
