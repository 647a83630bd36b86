"""Paid answers through an analyst's connection: charged once, drawn once, and of a form that no record decides."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from shutil import copyfile
from typing import Any

import duckdb
import numpy as np
import pytest

import duckanon
from duckanon.engines import randomness
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.release import plan
from duckanon.engines.groups.request import Request
from duckanon.errors import BudgetExhausted, MachineFailure, PolicyRefusal, UnsupportedQuery
from duckanon.governance import answers
from duckanon.releases import mechanisms, paid_questions
from duckanon.releases.mechanisms import forms, group_sizes
from tests.amounts import sampled
from tests.engines.seeded import Seeded
from tests.guard.truthful import truth
from tests.releases.databases import made, spent

SIZES = "SELECT size, count(*) AS n FROM (SELECT hid, count(*) AS size FROM persons GROUP BY hid) GROUP BY size"
SHARES = "SELECT state, sex, count(*) / sum(count(*)) OVER (PARTITION BY state) AS p FROM persons GROUP BY state, sex"
ASKED = [
    "SELECT count(*) AS n FROM persons",
    "SELECT count(*) AS n FROM persons WHERE age > 70",
    "SELECT sex, count(*) AS n FROM persons GROUP BY sex",
    "SELECT state, county, sick, count(DISTINCT pid) AS n FROM persons GROUP BY ALL",
    SHARES,
    "SELECT sex, avg((age > 3)::INT) AS p, count(*) FILTER (WHERE sick) / count(*) AS q FROM persons GROUP BY sex",
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("paid") / "x.duckdb")


@pytest.fixture
def con(base: Path, tmp_path: Path) -> Iterator[duckanon.Analyst]:
    path = tmp_path / "x.duckdb"
    copyfile(base, path)
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.mark.parametrize("sql", sampled([*ASKED, SIZES]))
def test_the_form_follows_from_policy_and_text(sql: str, tmp_path: Path) -> None:
    """Two tables without a record in common: equal columns, types, keys and order; the decision is the same text."""
    seen = []
    for name, seed, size in (("a", 7, 150), ("b", 5, 0)):
        (tmp_path / name).mkdir()
        path = made(tmp_path / name / "x.duckdb", seed, size)
        with duckanon.connect(path, role="analyst") as con:
            told = con.explain(sql)
            rows = con.execute(sql).fetchall()
            keys = [row[: -1 if "q FROM" not in sql else -2] for row in rows]
            seen.append((con.description, keys, [step.line for step in told.steps], told.sql, spent(con)))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == len({str(one) for one in seen[0][1]})


def test_asked_again_it_is_free_and_the_same(con: duckanon.Analyst) -> None:
    first = con.execute(ASKED[2]).fetchall()
    assert spent(con) == (Fraction(1, 2), 1)
    (step,) = con.explain(ASKED[2]).steps
    assert isinstance(step.drawn, date)
    assert "free: edition 1, drawn" in step.line
    assert con.execute("SELECT count(*) AS m, SEX FROM main.persons AS p GROUP BY ALL ORDER BY SEX").fetchall() == [
        (n, sex) for sex, n in first
    ]
    ((row,),) = [con.execute(f"SELECT epsilon FROM explain_privacy('{ASKED[2]}')").fetchall()]
    assert row == (0.0,)
    assert spent(con) == (Fraction(1, 2), 1)


def test_one_release_of_sizes_answers_for_all(con: duckanon.Analyst) -> None:
    by_county = (
        "SELECT county, size, count(*) AS n FROM (SELECT hid, state, county, count(*) AS size FROM persons "
        "GROUP BY ALL) GROUP BY county, size"
    )
    total = con.execute(f"SELECT sum(n) FROM ({by_county})").fetchall()
    by_state = (
        "SELECT state, size, count(*) AS n FROM (SELECT hid, state, county, count(*) AS size FROM persons"
        " GROUP BY ALL) "
        "GROUP BY state, size"
    )
    assert con.execute(f"SELECT sum(n) FROM ({by_state})").fetchall() == total
    own = "dp_group_sizes('persons', 'hid', ['state', 'county'], epsilon := 0.5, max_size := 8)"
    assert con.execute(f"SELECT sum(groups) FROM {own} WHERE level = 2").fetchall() == total
    assert spent(con) == (Fraction(1, 2), 1)
    con.execute(f"FROM {own.replace('0.5', '0.25')}").fetchall()
    assert spent(con) == (Fraction(3, 4), 2)
    # A group that lies in several counties is one group where no county is named: another question.
    con.execute(SIZES).fetchall()
    assert spent(con) == (Fraction(5, 4), 3)


def test_a_failure_is_one_sentence_and_stays_charged(con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again, it is not charged again, and it has no answer in this edition."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError("the value 7310000000 in row 3")

    monkeypatch.setattr(mechanisms, "draw", fails)
    for _ in range(2):
        with pytest.raises(MachineFailure) as raised:
            con.execute(ASKED[0])
        assert str(raised.value) == answers.FAILED
        assert raised.value.__cause__ is None
        # Nothing of what went wrong hangs on to it.
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
        assert spent(con) == (Fraction(1, 2), 1)
    monkeypatch.undo()
    with pytest.raises(MachineFailure):
        con.execute(ASKED[0])
    assert spent(con) == (Fraction(1, 2), 1)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        RuntimeError("Query interrupted"),
        duckdb.InvalidInputException(
            "Invalid Input Error: Python exception occurred while executing the UDF: KeyboardInterrupt: <EMPTY MESSAGE>"
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_ctrl_c_is_no_failure_of_the_machine(
    con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Whatever DuckDB makes of it; and the charge serves the next who asks."""

    def stopped(*_: object) -> None:
        raise error

    monkeypatch.setattr(mechanisms, "draw", stopped)
    with pytest.raises(KeyboardInterrupt) as raised:
        con.execute(ASKED[0])
    assert raised.value.__context__ is None
    monkeypatch.undo()
    assert len(con.execute(ASKED[0]).fetchall()) == 1
    assert spent(con) == (Fraction(1, 2), 1)


@pytest.mark.parametrize("by", ["", "sex, ", "state, county, "])
@pytest.mark.parametrize("share", ["avg((age = 3)::INT)", "avg(sick::INT)", "count(*) FILTER (WHERE sick) / count(*)"])
def test_a_share_alone_and_beside_its_interval_is_one_question(con: duckanon.Analyst, by: str, share: str) -> None:
    """Two parts of the program answer them."""
    alone = con.execute(f"SELECT {by}{share} AS p FROM persons GROUP BY ALL").fetchall()
    beside = con.execute(f"SELECT {by}{share} AS p, low(p), high(p) FROM persons GROUP BY ALL").fetchall()
    assert [one[:-2] for one in beside] == alone
    assert spent(con) == (Fraction(1, 2), 1)


def test_threads_that_ask_the_same_pay_once(con: duckanon.Analyst) -> None:
    with ThreadPoolExecutor(32) as pool:
        cursors = [con.cursor() for _ in range(32)]
        found = list(pool.map(lambda one: one.execute(ASKED[3]).fetchall(), cursors))
        for one in cursors:
            one.close()
    assert all(one == found[0] for one in found)
    assert spent(con) == (Fraction(1, 2), 1)


def test_a_budget_for_ten_gives_ten(tmp_path: Path) -> None:
    path = made(tmp_path / "x.duckdb", epsilon="1", per_query="0.1")
    with duckanon.connect(path, role="analyst") as con:

        def ask(age: int) -> bool:
            with con.cursor() as own:
                try:
                    own.execute(f"SELECT count(*) FROM persons WHERE age = {age}").fetchall()
                except BudgetExhausted:
                    return False
                return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(ask, range(24))) == 10
        assert spent(con) == (Fraction(1), 10)
        # All or nothing: one of two answers is paid for already, the other one cannot be.
        with pytest.raises(BudgetExhausted):
            con.execute("SELECT (SELECT count(*) FROM persons), (SELECT count(*) FROM persons WHERE sick)")
        assert con.explain("SELECT count(*) FROM persons WHERE age = 99").refusal is not None


def test_two_questions_are_charged_together_or_not_at_all(tmp_path: Path) -> None:
    path = made(tmp_path / "x.duckdb", epsilon="0.7", per_query="0.5")
    with duckanon.connect(path, role="analyst") as con:
        with pytest.raises(BudgetExhausted):
            con.execute("SELECT (SELECT count(*) FROM persons), (SELECT count(*) FROM persons WHERE sick)")
        assert spent(con) == (Fraction(0), 0)
        con.execute("SELECT (SELECT count(*) FROM persons), (SELECT count(1) FROM main.persons)").fetchall()
        assert spent(con) == (Fraction(1, 2), 1)


def test_the_answer_lies_by_its_key_in_a_renamed_copy_too(con: duckanon.Analyst, tmp_path: Path) -> None:
    first = con.execute(ASKED[2]).fetchall()
    con.close()
    copyfile(tmp_path / "x.duckdb", tmp_path / "renamed.duckdb")
    with duckanon.connect(tmp_path / "renamed.duckdb", role="analyst") as other:
        assert other.execute(ASKED[2]).fetchall() == first
        assert spent(other) == (Fraction(1, 2), 1)


def test_a_new_edition_and_a_new_policy_are_new_questions(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    copyfile(base, path)

    def asked() -> tuple[Any, tuple[Fraction, int]]:
        with duckanon.connect(path, role="analyst") as con:
            return con.execute("SELECT state, county, count(*) AS n FROM persons GROUP BY ALL").fetchall(), spent(con)

    def decided(sql: str) -> None:
        with duckanon.connect(path, role="steward") as con:
            con.execute(sql).fetchall()

    first, _ = asked()
    decided("DELETE FROM persons")
    # The records are others, the answer is the one that was drawn.
    assert asked() == (first, (Fraction(1, 2), 1))
    decided("SELECT new_edition('persons')")
    second, paid = asked()
    assert paid == (Fraction(1), 2)
    assert sum(n for *_, n in first) - sum(n for *_, n in second) > 50
    assert [row[:2] for row in first] == [row[:2] for row in second]


def test_what_is_too_large_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE numbers AS SELECT i::INTEGER AS a, i::INTEGER AS b FROM range(1001) r(i); "
            "CREATE TABLE t AS SELECT a, b, 1 AS g FROM numbers; SELECT open_table('numbers'); "
            "SELECT protect('t', epsilon := 1, per_query := 0.1, public := ['a', 'b'], unit := 'g', "
            "hierarchy := ['a'], max_size := 100000, domains := {'a': 'numbers', 'b': 'numbers'})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        for sql, why in (
            ("SELECT a, b, count(*) FROM t GROUP BY a, b", "more than 1,000,000 combinations"),
            (
                "SELECT a, size, count(*) FROM (SELECT g, a, count(*) AS size FROM t GROUP BY g, a) GROUP BY a, size",
                "more than 200",
            ),
            ("FROM dp_group_sizes('t', 'g', epsilon := 0.00001, max_size := 1)", "ten-thousandth"),
        ):
            with pytest.raises((PolicyRefusal, UnsupportedQuery), match=why):
                con.execute(sql)
            assert con.explain(sql).refusal is not None
        assert spent(con) == (Fraction(0), 0)
        assert len(con.execute("SELECT a, count(*) FROM t GROUP BY a").fetchall()) == 1001


@pytest.mark.parametrize("noise", [-1000, -3, 0, 2, 1000])
def test_shares_are_quotients_of_noisy_counts(
    con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, noise: int
) -> None:
    """NULL where a row's noisy total is below 1, else from 0 to 1, rounded as the query rounds."""

    def alternating(_: Fraction, shape: tuple[int, int], __: object) -> np.ndarray:
        made = [noise * (1 - 2 * (at % 2)) - abs(noise) // 2 for at in range(shape[0])]
        return np.array(made, dtype=np.int64).reshape(shape)

    monkeypatch.setattr(randomness, "double_geometric", alternating)
    cells = con.execute("SELECT state, sex, count(*) AS n FROM persons GROUP BY state, sex").fetchall()
    counts = {(state, sex): n for state, sex, n in cells}

    def share(state: str, sex: str) -> float | None:
        total = sum(n for (one, _), n in counts.items() if one == state)
        return None if total < 1 else min(max(counts[state, sex] / total, 0.0), 1.0)

    found = con.execute(SHARES).fetchall()
    assert sorted(found) == sorted((state, sex, share(state, sex)) for state, sex in counts)
    rounded = SHARES.replace("count(*) / sum(count(*)) OVER (PARTITION BY state)",
                             "round(100 * count(*) / sum(count(*)) OVER (PARTITION BY state), 1)")  # fmt: skip
    for state, sex, p in con.execute(rounded).fetchall():
        exact = share(state, sex)
        assert p is None if exact is None else p == pytest.approx(100 * exact, abs=0.0501)
    assert spent(con) == (Fraction(1, 2), 1)


def test_several_shares_at_once(con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "draw", truth)
    sql = (
        "SELECT state, count(*) FILTER (WHERE sick) / count(*) AS s, avg((age > 3)::INT) AS a, "
        "count(*) FILTER (WHERE sick AND age > 3) / nullif(count(*) FILTER (WHERE age > 3), 0) AS b "
        "FROM persons GROUP BY state ORDER BY state"
    )
    assert con.execute(sql).fetchall() == con._con.cursor().execute(sql).fetchall()
    assert spent(con) == (Fraction(1, 2), 1)


def test_sizes_tell_units_without_records(con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch) -> None:
    """A household in two counties counts in each, and an open table says how many there are in all."""
    monkeypatch.setattr(mechanisms, "draw", truth)
    zeros = (
        "SELECT size, count(*) AS n FROM (SELECT u.hid, count(p.hid) AS size FROM units u LEFT JOIN persons p "
        "ON u.hid = p.hid GROUP BY u.hid) GROUP BY size ORDER BY size"
    )
    first = con.execute(zeros).fetchall()
    ((groups,),) = con.execute(f"SELECT sum(n) FROM ({SIZES})").fetchall()
    assert first[0] == (0, max(60 - groups, 0))
    assert [size for size, _ in first] == list(range(9))
    # DuckDB's own LEFT JOIN would have a group of a NULL in that table.
    (step,) = con.explain(zeros).steps
    assert "The groups are the different units in the open table, each once; NULL is no unit." in step.reason


def test_accuracy_is_the_engines_where_the_unit_is_a_record(base: Path) -> None:
    """No noise is added beside the engine's own: equal octets give equal releases."""
    with duckanon.connect(base, role="analyst") as con:
        raw = con._con.cursor()
        (step_asked,) = con._guard.explain(
            "SELECT size, state, county, count(*) FROM (SELECT hid, state, county, count(*) AS size FROM persons "
            "GROUP BY ALL) GROUP BY ALL"
        ).answers
        leaves = forms.form(raw, step_asked)
        sizes = mechanisms.exact(raw, step_asked)[0]
        ranks = group_sizes.ranks_of(leaves, 2)
        parents = tuple(group_sizes.parents_of(upper, lower) for upper, lower in pairwise(ranks))
        engine = plan(Hierarchy(parents), sizes, Request(epsilon=Fraction(1, 2), totals="private"))
        wanted = np.concatenate([one.groups.reshape(-1) for one in engine.release(Seeded(11)).levels])
        mine = mechanisms.draw(raw, step_asked, Seeded(11)).column("groups").to_numpy()
        assert step_asked.contributions == 1
        assert np.array_equal(mine, wanted)


def test_an_answer_that_was_dropped_is_charged_again(con: duckanon.Analyst) -> None:
    """It was seen, so a second draw for nothing could be averaged with it."""
    con.execute(ASKED[0]).fetchall()
    raw = con._con.cursor()
    ((table,),) = raw.execute(
        "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, 'answer_')"
    ).fetchall()
    raw.execute(f'DROP TABLE duckanon."{table}"').fetchall()
    (step,) = con.explain(ASKED[0]).steps
    assert (step.drawn, step.epsilon) == (None, Fraction(1, 2))
    con.execute(ASKED[0]).fetchall()
    con.execute(ASKED[0]).fetchall()
    assert spent(con) == (Fraction(1), 2)


@pytest.mark.parametrize("sql", [ASKED[0], SHARES, SIZES])
def test_an_answer_of_an_older_meaning_is_not_given(
    con: duckanon.Analyst, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What answers mean has changed since: asking again is charged, and the older answer stays as it was."""
    with monkeypatch.context() as patch:
        patch.setattr(paid_questions, "MEANING", 1)
        con.execute(sql).fetchall()
        assert spent(con) == (Fraction(1, 2), 1)
        assert con.explain(sql).steps[0].drawn is not None
    # A decision is kept while no ledger changes, and the package does not change while it runs.
    with con.cursor() as later:
        later._shared.forget()
        later._shared._decided.clear()
        assert later.explain(sql).steps[0].drawn is None
        later.execute(sql).fetchall()
        assert spent(later) == (Fraction(1), 2)
        later.execute(sql).fetchall()
        assert spent(later) == (Fraction(1), 2)
