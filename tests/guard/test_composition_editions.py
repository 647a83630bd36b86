"""Attacks on composition over time and place: editions, changes of records and policies, copies of the file."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from shutil import copyfile, move
from typing import Any

import pytest

from duckanon.releases.paid_questions import PaidQuestion
from tests.amounts import sampled
from tests.guard.residents import POLICY, analyst, decide, refused, run, seen, spent
from tests.guard.test_composition import AGED, BY, CALL, SIZES, ages

# --- copies of the file -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "name"),
    sampled([(copyfile, "y.duckdb"), (move, "a b.duckdb"), (copyfile, "main.duckdb"), (move, "temp.duckdb"),
     (copyfile, "duckanon.duckdb"), (move, "x")]),
)  # fmt: skip
def test_a_file_knows_what_it_answered(path: Path, draws: list[PaidQuestion], how: Any, name: str) -> None:
    """Under any name and in any place: the answers, what was spent, and the edition."""
    questions = (AGED, BY, CALL, SIZES)
    with analyst(path) as con:
        first = [con.execute(sql).fetchall() for sql in questions]
    (path.parent / "elsewhere").mkdir()
    there = path.parent / "elsewhere" / name
    how(path, there)
    with analyst(there) as con:
        assert [con.execute(sql).fetchall() for sql in questions] == first
        assert spent(con) == 4
        assert len(draws) == 4
        run(con, AGED.replace("30", "31"))
        assert spent(con) == 5


# --- editions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "price"),
    sampled(
        [
            (["SELECT 1"], 1),
            (["DELETE FROM persons WHERE person = 8"], 1),
            (["DELETE FROM persons"], 1),
            (["UPDATE persons SET age = 99"], 1),
            (["CREATE OR REPLACE TABLE persons AS FROM persons WHERE person <> 8"], 1),
            (["CREATE TABLE kept AS FROM persons", "DROP TABLE persons", "ALTER TABLE kept RENAME TO persons"], 1),
            (["ALTER TABLE persons ADD COLUMN more INTEGER"], 1),
            (["SELECT open_table('salaries')"], 1),
            (["SELECT close_table('counties')"], 1),
            (["INSERT INTO counties VALUES ('D', 'd1')"], 1),
            (["SELECT new_edition('persons')"], 2),
            (["SELECT new_edition('visits')"], 2),
            (["DELETE FROM persons WHERE person = 8", "SELECT new_edition('persons')"], 2),
            (["SELECT new_edition('persons')", "SELECT new_edition('persons')"], 2),
            (["SELECT unprotect('visits')"], 1),
        ]
    ),
)
def test_an_answer_lasts_as_long_as_its_edition(
    path: Path, draws: list[PaidQuestion], changes: list[str], price: int
) -> None:
    """Whatever happens to the records: the difference of two answers is not one person, and only an edition costs."""
    with analyst(path) as con:
        first = con.execute(AGED).fetchall()
    decide(path, *changes)
    with analyst(path) as con:
        found = con.execute(AGED).fetchall()
        assert (found == first) or price == 2
        assert spent(con) == len(draws) == price
        assert len({asked.edition for asked in draws}) == price


@pytest.mark.parametrize("more", ["", "per_query := 1,"])
def test_protecting_again_gives_nothing_back(path: Path, draws: list[PaidQuestion], more: str) -> None:
    with analyst(path) as con:
        run(con, AGED, CALL)
    again = POLICY.format(epsilon="100", more="")
    decide(path, "SELECT unprotect('persons')", again.replace("per_query := 1,", more or "per_query := 2,"))
    with analyst(path) as con:
        assert spent(con) == 2
        run(con, AGED)
        # Another policy asks anew, and pays.
        assert spent(con) == sum((asked.epsilon for asked in draws), Fraction()) >= 3


def test_an_unprotected_table_is_closed(path: Path) -> None:
    with analyst(path) as con:
        run(con, "SELECT count(*) FROM visits")
    decide(path, "SELECT unprotect('visits')")
    with analyst(path) as con:
        assert seen(con, "FROM visits") == seen(con, "FROM nothing")
        assert seen(con, "SELECT count(*) FROM visits") == seen(con, "SELECT count(*) FROM nothing")
        assert spent(con) == 1


def test_each_edition_has_its_cap_and_all_have_one_budget(scarce: Path, draws: list[PaidQuestion]) -> None:
    for edition in range(3):
        with analyst(scarce) as con:
            outcomes = [seen(con, sql)[0] for sql in ages(30, 34)]
            assert outcomes == (["rows"] * 2 + ["error"] * 2 if edition < 2 else ["error"] * 4)
        decide(scarce, "SELECT new_edition('persons')")
    with analyst(scarce) as con:
        assert spent(con) == len(draws) == 4
        assert "The privacy budget of residents does not suffice" in refused(con, BY)
        # An edition is over with its answers: they are not to be had beside new ones.
        refused(con, AGED)
