"""The order in which questions are asked changes nothing: what follows from an earlier answer is what DuckDB says."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon.engines.noise import Gaussian, Laplace
from tests.amounts import many, sampled

# Diagnoses that few have are not found; the state without a name has a county.
RECORDS = """
CREATE TABLE places AS FROM (VALUES ('Bibb', 'GA'), ('Cobb', 'GA'), ('Kings', 'NY'), ('Lost', NULL)) t(county, state);
CREATE TABLE persons AS SELECT county, state, ['f', 'm'][1 + (i // 4) % 2] AS sex,
  CASE WHEN i % 50 = 0 THEN 'rare ' || i ELSE ['cold', 'flu', NULL][1 + i % 3] END AS diag,
  i % 11 AS income, CASE WHEN i % 7 > 2 THEN i % 5 END AS score
FROM range(6000) r(i) JOIN (SELECT row_number() OVER (ORDER BY county) - 1 AS place, * FROM places) ON place = i % 4;
"""
PROTECT = """
SELECT protect('persons', epsilon := 100, delta := 1e-6, per_query := 0.01,
  hierarchy := ['state', 'county'], public := ['sex', 'diag'], bounds := {'income': [0, 10], 'score': [0, 4]},
  domains := {'county': 'places', 'state': ['GA', 'NY', NULL], 'sex': ['f', 'm'],
    'diag': {'values': 'found', 'nulls': true}})
"""
# All rows that there may be.
FORM = """
CREATE TABLE form AS FROM places CROSS JOIN (VALUES ('f'), ('m')) s(sex)
CROSS JOIN (VALUES ('cold'), ('flu'), (NULL)) d(diag)
"""
KEYS = ("diag", "diag, sex", "sex, state", "county", "county, diag", "state, diag, sex")
# With the columns that each reads. They are joined by AND.
CONDITIONS = {
    "true": set[str](),
    "diag = 'flu'": {"diag"},
    "diag IS NULL": {"diag"},
    "diag <> 'cold'": {"diag"},
    "(diag = 'flu' OR sex = 'm')": {"diag", "sex"},
    "sex = 'f'": {"sex"},
    "state IS DISTINCT FROM 'NY'": {"state"},
    "county = 'Cobb'": {"county"},
    "(state = 'GA' OR diag = 'flu')": {"state", "diag"},
    "income > 5": {"income"},
}
WHERES = (["diag <> 'cold'", "sex = 'f'"], ["income > 5", "diag = 'flu'"], *([one] for one in CONDITIONS))
NUMBERS = (
    "count(*)",
    "sum(income)",
    "count(score)",
    "count(*) FILTER (WHERE income > 5)",
    "count(*) FILTER (WHERE sex = 'f')",
    "count(*) FILTER (WHERE diag = 'flu')",
    "sum(income) FILTER (WHERE score IS NOT NULL)",
)
QUESTIONS = tuple(product(KEYS, WHERES, NUMBERS))


def written(keys: str, where: Sequence[str], number: str) -> str:
    return f"SELECT {keys}, {number} FROM persons WHERE {' AND '.join(where)} GROUP BY {keys}"


def expected(plain: Any, keys: str, where: Sequence[str], number: str) -> dict[tuple[Any, ...], int]:
    """Of each row that there may be the number that DuckDB has."""
    exact = {row[:-1]: row[-1] for row in plain.execute(written(keys, where, number)).fetchall()}
    # Conditions on keys that are shown leave rows out, and those on what the places of counties tell.
    shown = {*keys.split(", ")} | ({"state"} if "county" in keys else set())
    kept = ["true", *(one for one in where if CONDITIONS[one] <= shown)]
    form = plain.execute(f"SELECT DISTINCT {keys} FROM form WHERE {' AND '.join(kept)}").fetchall()
    return {row: exact.get(row) or 0 for row in form}


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: Any, shape: tuple[int, ...], source: Any, *, is_wide: bool) -> Any:
        return np.zeros(shape, dtype=object if is_wide else np.int64)

    monkeypatch.setattr(Gaussian, "draw", none)
    monkeypatch.setattr(Laplace, "draw", none)


def asked(path: Path, questions: Sequence[tuple[str, Sequence[str], str]]) -> int:
    """Ask questions one after the other. Returns how many of them were free."""
    with duckdb.connect() as plain, duckanon.connect(path / "x.duckdb", role="steward") as con:
        for sql in (RECORDS, "SELECT open_table('places')", PROTECT):
            con.execute(sql).fetchall()
        plain.execute(RECORDS + FORM)
        exact = [expected(plain, *one) for one in questions]
    charges = "SELECT charges FROM privacy_budget()"
    with duckanon.connect(path / "x.duckdb", role="analyst") as con:
        free = 0
        for one, right in zip(questions, exact, strict=True):
            ((before,),) = con.execute(charges).fetchall()
            rows = con.execute(written(*one)).fetchall()
            assert {row[:-1]: row[-1] or 0 for row in rows} == right, one
            assert len(rows) == len(right)
            free += con.execute(charges).fetchall() == [(before,)]
    return free


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("turn", sampled([1, -1]))
@pytest.mark.parametrize("at", sampled(range(3), 3))
def test_no_order_of_questions_changes_an_answer(tmp_path: Path, turn: int, at: int) -> None:
    """Of each two questions one is asked first in one direction, and the other in the other."""
    some = random.Random(at).sample(QUESTIONS, many(150, least=50))
    # Whole answers come first in one direction, and what may follow from them in the other.
    ordered = sorted(some, key=lambda one: (one[1] != ["true"], one[2] not in ("count(*)", "sum(income)")))
    assert asked(tmp_path, ordered[::turn]) > 0


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("where", sampled(WHERES, 6))
def test_a_condition_is_never_lost(tmp_path: Path, where: Sequence[str]) -> None:
    """After answers by all keys, with which every condition on keys alone could be answered."""
    several = ("diag", "diag, sex", "sex, state", "state, diag, sex")
    earlier = [(keys, ["true"], number) for keys in several for number in ("count(*)", "sum(income)")]
    asked(tmp_path, [*earlier, *((keys, where, number) for keys in several[:3] for number in NUMBERS)])
