"""Attacks on composition: what many answers, copies, editions and analysts together must not be worth.

Each attack is held by one analyst or by two who collude: two connections whose answers are joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from shutil import move
from threading import Thread
from typing import Any

import pytest

from duckanon.analyst import Analyst
from duckanon.errors import BudgetExhausted, MachineFailure
from duckanon.governance import answers
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import PaidQuestion
from tests.amounts import sampled
from tests.guard.residents import analyst, make, refused, run, seen, spent

OLDER = "SELECT count(*) FROM persons WHERE age > 30"
BETWEEN = "SELECT count(*) FROM persons WHERE age BETWEEN 30 AND 40"
AGED = "SELECT count(*) FROM persons WHERE age = 30"
BY = "SELECT state, dx, count(*) AS n FROM persons GROUP BY state, dx ORDER BY ALL"
CALL = "FROM dp_group_sizes('persons', 'household', ['state', 'county'], epsilon := 1, max_size := 5) ORDER BY ALL"
SIZES = (
    "SELECT size, count(*) AS n FROM (SELECT household, count(*) AS size FROM persons GROUP BY household) "
    "GROUP BY size ORDER BY size"
)


# --- averages over spellings ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Analyst, Analyst]]:
    """Two analysts who collude. The first has asked; the second words it otherwise."""
    with analyst(make(tmp_path_factory.mktemp("rich") / "x.duckdb", epsilon="9000")) as one, one.cursor() as two:
        run(one, AGED, BY, CALL, SIZES, OLDER, BETWEEN)
        yield one, two


@pytest.mark.parametrize(
    ("first", "again"),
    sampled([
        (AGED, "select COUNT(1) from main.persons where age=30"),
        (AGED, 'SELECT count(*) FROM "PERSONS" WHERE "AGE" = 30'),
        (AGED, "SELECT count(*) FROM x.main.persons AS p WHERE p.age = 30"),
        (AGED, "SELECT count(*) FROM persons WHERE age = '30'"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30.0"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 3e1"),
        (AGED, "SELECT count(*) FROM persons WHERE age = CAST(30 AS TINYINT)"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 AND true"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 AND age = 30"),
        (AGED, "SELECT count(*) FROM persons WHERE (age) = (30)"),
        (AGED, "SELECT count(*) FROM (SELECT * FROM persons WHERE age = 30)"),
        (AGED, "WITH c AS (SELECT age FROM persons) SELECT count(*) FROM c WHERE age = 30"),
        (AGED, "SELECT count(*) FILTER (WHERE age = 30) FROM persons"),
        (AGED, "SELECT count_if(age = 30) FROM persons"),
        (AGED, "SELECT sum(CASE WHEN age = 30 THEN 1 ELSE 0 END) FROM persons"),
        (AGED, "SELECT sum((age = 30)::INTEGER) FROM persons"),
        (AGED, "SELECT sum(1) FROM persons WHERE age = 30"),
        (AGED, "SELECT n FROM aged(30)"),
        (AGED, "SELECT count(*) FROM persons WHERE 30 = age"),
        (AGED, "SELECT count(*) FROM persons WHERE age IN (30)"),
        (OLDER, "SELECT count(*) FROM persons WHERE 30 < age"),
        (BETWEEN, "SELECT count(*) FROM persons WHERE age >= 30 AND age <= 40"),
        (BETWEEN, "SELECT count(*) FROM persons WHERE 40 >= age AND 30 <= age"),
        (BETWEEN, "SELECT count(*) FILTER (WHERE age BETWEEN 30 AND 40) FROM persons"),
        (AGED, "/* again */ SELECT (SELECT count(*) FROM persons WHERE age = 30) AS n"),
        (AGED, "SELECT 1 * n FROM (SELECT count(*) AS n FROM persons WHERE age = 30)"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 HAVING count(*) > -999"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 GROUP BY ()"),
        (AGED, "FROM persons SELECT count(*) WHERE age = 30"),
        (BY, "SELECT STATE, DX, COUNT(*) AS N FROM PERSONS GROUP BY ALL ORDER BY ALL"),
        (BY, "SELECT state, dx, count(*) AS n FROM persons GROUP BY 1, 2 ORDER BY ALL"),
        (BY, "SELECT p.state, p.dx, count(1) AS n FROM main.persons AS p GROUP BY p.state, p.dx ORDER BY ALL"),
        (BY, "SELECT state, dx, count(*) AS n FROM (SELECT state, dx, age FROM persons) GROUP BY ALL ORDER BY ALL"),
        (BY, "WITH c AS (SELECT state AS s, dx AS d FROM persons) "
             "SELECT s, d, count(*) FROM c GROUP BY ALL ORDER BY ALL"),
        (BY, "SELECT state, dx, count(*) AS n FROM persons WHERE true GROUP BY ALL ORDER BY ALL"),
        (BY, "SELECT state, dx, count(*) AS n FROM persons GROUP BY ALL HAVING n > -999 ORDER BY ALL"),
        (BY, "SELECT state, dx, sum(1) AS n FROM persons GROUP BY ALL ORDER BY ALL"),
        (CALL, CALL.replace("'persons'", "'main.persons'").replace("epsilon := 1", "epsilon := '1'")),
        (CALL, CALL.replace("'persons'", "'x.main.persons'").replace("'household'", "'HOUSEHOLD'")),
        (CALL, CALL.replace("epsilon := 1", "epsilon := '2/2'").replace("5)", "5, mechanism := 'auto')")),
        (CALL, CALL.replace("epsilon := 1", "epsilon := 1.000").replace("5)", "5, totals := 'private')")),
        (CALL, f"SELECT * FROM (SELECT * {CALL}) ORDER BY ALL"),
        (SIZES, SIZES.replace("SELECT size, count(*) AS n", "SELECT size, count(1)")),
        (SIZES, "WITH h AS (SELECT household, count(*) AS s FROM persons GROUP BY 1) "
                "SELECT s, count(*) FROM h GROUP BY ALL ORDER BY s"),
        (SIZES, "SELECT size, sum(groups) FROM dp_group_sizes('persons', 'household', [], "
                "epsilon := 1, max_size := 5) WHERE level = 0 GROUP BY size ORDER BY size"),
    ]),
)  # fmt: skip
def test_the_same_question_in_other_words_is_one_answer(rich: tuple[Analyst, Analyst], first: str, again: str) -> None:
    """An average of it and itself is no better than it, and it is free, for whoever asks."""
    one, two = rich
    before = spent(one)
    expected = one.execute(first).fetchall()
    assert two.execute(again).fetchall() == expected
    assert spent(one) == before


@pytest.mark.parametrize(
    ("first", "again"),
    sampled([
        (AGED, "SELECT count(*) FROM persons WHERE NOT age <> 30"),
        (AGED, "SELECT count(*) FROM persons WHERE age BETWEEN 30 AND 30"),
        (AGED, "SELECT count(*) FROM persons WHERE age IS NOT DISTINCT FROM 30"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 OR false"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 OR age = 30"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 AND person >= 0"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 AND income > 0"),
        (AGED, "SELECT count(*) FROM persons WHERE age = 30 AND dx LIKE '%'"),
        (AGED, "SELECT count(age) FROM persons WHERE age = 30"),
        (AGED, "SELECT count(DISTINCT person) FROM persons WHERE age = 30"),
        (BY, "SELECT state, dx, count(*) AS n FROM persons GROUP BY dx, state ORDER BY ALL"),
        (BY, "SELECT state, dx, count(*) AS n FROM persons WHERE state IN ('A', 'B', 'C') GROUP BY ALL ORDER BY ALL"),
        (BY, "SELECT state, dx, count(*) AS n FROM persons WHERE dx IS NOT NULL GROUP BY ALL ORDER BY ALL"),
        (CALL, CALL.replace("5)", "5, split := [1, 1, 1])")),
        (CALL, CALL.replace("5)", "5, split := [1, 2, 1])")),
        (CALL, CALL.replace("max_size := 5", "max_size := 4")),
        (CALL, CALL.replace("epsilon := 1", "epsilon := '999999999999/1000000000000'")),
        (CALL, CALL.replace("['state', 'county']", "['state']")),
        (CALL, CALL.replace("5)", "5, mechanism := 'topdown')")),
    ]),
)  # fmt: skip
def test_what_gives_fresh_noise_is_charged(rich: tuple[Analyst, Analyst], first: str, again: str) -> None:
    """Rephrased so that it counts the same records: either it is the stored answer, or it is paid for."""
    one, two = rich
    expected, before = one.execute(first).fetchall(), spent(one)
    price = sum((Fraction(str(step.epsilon)) for step in two.explain(again).steps if step.drawn is None), Fraction())
    found = two.execute(again).fetchall()
    if spent(one) == before:
        assert found == expected
    else:
        assert abs(spent(one) - before - price) < Fraction(1, 10**9)
        assert price > Fraction(99, 100)
    # And then it is free for both, however often.
    after = spent(one)
    assert [con.execute(again).fetchall() for con in rich] == [found, found]
    assert spent(two) == after


# --- charges add up ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asks", "price"),
    sampled([
        ((AGED, BY), "2"),
        ((AGED, AGED.replace("30", "31")), "2"),
        ((BY, "SELECT clinic, count(*) FROM visits GROUP BY clinic"), "2"),
        (("SELECT dx, count(*) FROM persons GROUP BY dx", "SELECT dx, count(*) FROM visits GROUP BY dx"), "2"),
        (("SELECT count(*) FROM visits", "SELECT count(DISTINCT person) FROM visits"), "2"),
        ((AGED, CALL, SIZES), "3"),
        ((CALL.replace("epsilon := 1", "epsilon := '1/3'"), CALL.replace("epsilon := 1", "epsilon := 0.1")), "13/30"),
        ((CALL, CALL.replace("max_size := 5", "max_size := 1")), "2"),
        ((CALL, CALL.replace("['state', 'county']", "['state']"), CALL.replace("['state', 'county']", "[]")), "3"),
        (("SELECT (SELECT count(*) FROM persons), (SELECT count(*) FROM visits)",), "2"),
        (("SELECT count(*) FROM persons UNION ALL SELECT count(*) FROM persons",), "1"),
        (("SELECT state, avg((dx = 'hiv')::INTEGER) FROM persons GROUP BY state",), "1"),
        (("SELECT a.n - b.n FROM (SELECT count(*) AS n FROM persons) a, "
          "(SELECT count(*) AS n FROM persons WHERE person <> 8) b",), "2"),
        (("CREATE TEMP TABLE mine AS SELECT count(*) AS n FROM persons", "FROM mine", "FROM mine"), "1"),
        ((BY + " LIMIT 0",), "0"),
    ]),
)  # fmt: skip
def test_charges_of_one_population_add_up(
    path: Path, draws: list[PaidQuestion], asks: tuple[str, ...], price: str
) -> None:
    """Over tables, kinds, keys, filters and parts of one statement; what was drawn is what was charged."""
    with analyst(path) as one, analyst(path) as two:
        for at, sql in enumerate(asks):
            run((one, two)[at % 2] if "mine" not in "".join(asks) else one, sql)
        assert spent(one) == spent(two) == Fraction(price)
        assert sum((asked.epsilon for asked in draws), Fraction()) == Fraction(price)
        # The keys differ, and nothing was drawn twice.
        assert len({asked.key for asked in draws}) == len(draws)
        run(two, *asks)
        assert spent(one) == Fraction(price)


@pytest.mark.parametrize("ending", ["ROLLBACK", "COMMIT"])
def test_no_transaction_takes_a_charge_back(path: Path, draws: list[PaidQuestion], ending: str) -> None:
    with analyst(path) as con:
        run(con, AGED, "BEGIN")
        # What stands is not read in it either: it would not see what is made now.
        assert seen(con, AGED)[:2] == ("error", "UnsupportedQuery")
        assert seen(con, BY)[:2] == ("error", "UnsupportedQuery")
        run(con, ending)
        assert spent(con) == len(draws) == 1


# --- the end of the budget --------------------------------------------------------------------------------------------


def ages(first: int, last: int) -> list[str]:
    return [AGED.replace("30", str(age)) for age in range(first, last)]


def test_two_who_collude_have_one_budget(scarce: Path, draws: list[PaidQuestion]) -> None:
    with analyst(scarce) as one, analyst(scarce) as two:
        first = [con.execute(sql).fetchall() for con, sql in zip((one, two), ages(30, 32), strict=True)]
        for con in (one, two):
            for sql in (*ages(32, 36), CALL, SIZES, "SELECT count(*) FROM visits"):
                assert "no more than epsilon 2 may be spent in one edition" in refused(con, sql)
            # What both have asked stays free, for each other too.
            assert [con.execute(sql).fetchall() for sql in ages(30, 32)] == first
        assert spent(one) == len(draws) == 2


def test_the_edge_of_the_budget_tells_nothing(scarce: Path, tmp_path: Path) -> None:
    """What is refused for want of money is refused in the same words whatever the records are."""
    other = make(tmp_path / "y.duckdb", "UPDATE persons SET dx = 'hiv'", epsilon="4", more="per_edition := 2,")
    move(other, tmp_path / "other.duckdb")
    with analyst(scarce) as one, analyst(tmp_path / "other.duckdb") as two:
        for con in (one, two):
            run(con, *ages(30, 32))
        for sql in (AGED + " AND dx = 'hiv'", BY, CALL, "SELECT count(*) FROM persons WHERE name = 'n8'"):
            assert seen(one, sql) == seen(two, sql)
            assert str(one.explain(sql)).replace("other", "x") == str(two.explain(sql)).replace("other", "x")


def test_threads_do_not_overdraw(scarce: Path, draws: list[PaidQuestion]) -> None:
    outcomes: list[Any] = []

    def ask(con: Analyst, sql: str) -> None:
        try:
            outcomes.append((sql, con.sql(sql).fetchall()))
        except BudgetExhausted:
            outcomes.append((sql, None))

    with analyst(scarce) as one, analyst(scarce) as two:
        threads = [Thread(target=ask, args=(con, sql)) for sql in ages(30, 38) for con in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert spent(one) == len(draws) == 2
    answered = {sql: rows for sql, rows in outcomes if rows is not None}
    assert len(answered) == 2
    assert all(rows == answered[sql] for sql, rows in outcomes if rows is not None)


def test_a_question_that_cannot_be_paid_whole_is_not_paid_in_part(scarce: Path, draws: list[PaidQuestion]) -> None:
    with analyst(scarce) as con:
        run(con, AGED)
        refused(con, "SELECT (SELECT count(*) FROM persons), (SELECT count(*) FROM visits)", "one edition")
        assert spent(con) == len(draws) == 1


@pytest.mark.parametrize(
    "epsilon",
    sampled(["1.000000000001", "1e300", "'1e400'", "'inf'", "'nan'", "-1", "0", "1e-320", "'1/99999999999999'",
             "0.0000001", "NULL", "'a'", "'1/0'", "[1]"]),
)  # fmt: skip
def test_no_epsilon_is_a_way_around(path: Path, draws: list[PaidQuestion], epsilon: str) -> None:
    with analyst(path) as con:
        refused(con, CALL.replace("epsilon := 1", f"epsilon := {epsilon}"))
        assert spent(con) == len(draws) == 0


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["Conversion Error: n8 has hiv", "out of memory at 240 records"])
def test_a_failure_is_charged_once_and_says_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Nor can it be had again and again: there is no answer after it."""
    drawn = mechanisms.draw

    def fail(con: Any, asked: PaidQuestion) -> Any:
        raise ValueError(words)

    monkeypatch.setattr(answers, "STRICT", False)
    monkeypatch.setattr(mechanisms, "draw", fail)
    with analyst(path) as con:
        said = set()
        for sql in (AGED, AGED, CALL):
            with pytest.raises(MachineFailure) as raised:
                con.execute(sql)
            said.add(str(raised.value))
            # Nor does what Python keeps beside an error tell it.
            assert (raised.value.__cause__, raised.value.__context__) == (None, None)
        assert len(said) == 1
        assert spent(con) == 2
        monkeypatch.setattr(mechanisms, "draw", drawn)
        with pytest.raises(MachineFailure):
            con.execute(AGED)
        assert spent(con) == 2
