"""The ledger and the release store, below SQL: threads, two writers, ROLLBACK, errors, what cannot be written."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from duckanon.accounting import Charge
from duckanon.errors import BudgetExhausted, InvalidInput
from duckanon.governance.books import Books, books_of
from tests.governance.books import CHARGE, answer, books, seen


def ask(made: Books, number: int, epsilon: Fraction = CHARGE.epsilon, sees: dict[str, Any] | None = None) -> pa.Array:
    charge = replace(CHARGE, epsilon=epsilon)
    return made.once("persons", sees or seen("persons"), {"number": number}, charge, lambda: answer(number))


def test_a_release_is_charged_once_and_given_again() -> None:
    with duckdb.connect() as con:
        made = books(con)
        first = ask(made, 1)
        assert ask(made, 1).equals(first)
        assert ask(made, 1).type == first.type
        assert len(made.lines()) == 1
        ask(made, 2)
        ((one, two),) = [made.lines()]
        assert (one["number"], two["number"]) == (1, 2)
        assert (one["epsilon_exact"], one["epsilon"], one["remaining"]) == ("0.1", 0.1, None)
        assert (one["what"], one["neighbours"], one["tbl"]) == ("a call", "neighbours", "main.persons")


def test_the_charge_stands_before_the_noise_and_after_an_error() -> None:
    with duckdb.connect() as con:
        made = books(con)

        def draw() -> pa.Array:
            assert len(made.lines()) == 1
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            made.once("persons", seen("persons"), {}, CHARGE, draw)
        assert len(made.lines()) == 1
        made.once("persons", seen("persons"), {}, CHARGE, lambda: answer(1))
        assert len(made.lines()) == 2


def test_a_budget_is_spent_to_the_last_tenth_and_stored_releases_stay_free() -> None:
    with duckdb.connect() as con:
        made = books(con)
        said = made.protect("persons", seen("persons"), Fraction(1), "unit")
        assert said == "main.persons is protected: of epsilon 1 in all, 0 is spent and 1 left."
        for number in range(10):
            ask(made, number)
        with pytest.raises(BudgetExhausted) as raised:
            ask(made, 10, Fraction(1, 10**12))
        assert str(raised.value) == (
            "The privacy budget of main.persons does not suffice: epsilon 0.000000000001 is more than the 0 left of 1. "
            "Ask for less, or repeat an earlier call as it was: its stored release is free."
        )
        assert ask(made, 3).equals(answer(3))
        (budget,) = made.budgets()
        assert (budget["spent_exact"], budget["remaining_exact"], budget["charges"]) == ("1", "0", 10)
        assert [line["remaining_exact"] for line in made.lines()][:3] == ["1", "0.9", "0.8"]


def test_what_was_spent_stays_spent() -> None:
    with duckdb.connect() as con:
        made, sees = books(con), seen("persons")
        ask(made, 1)
        assert made.protect("PERSONS", sees, Fraction(1, 5), None).endswith("0.1 is spent and 0.1 left.")
        with pytest.raises(
            InvalidInput, match=r"main\.persons is protected already: unprotect\('main\.persons'\) first"
        ):
            made.protect("persons", sees, Fraction(2), None)
        assert made.protect("persons", sees, Fraction(1, 5), None).endswith("0.1 is spent and 0.1 left.")
        assert made.unprotect("persons", sees) == (
            "main.persons is no longer protected: releases are recorded, and no budget limits them."
        )
        assert made.unprotect("persons", sees) == "main.persons is not protected: nothing has changed."
        assert made.budgets() == []
        ask(made, 2, Fraction(3))
        assert made.protect("persons", sees, Fraction(1), None).endswith(
            "of epsilon 1 in all, 3.1 is spent and 0 left."
        )
        actions = [line["action"] for line in made.lines()]
        assert actions == ["charge", "protect", "unprotect", "charge", "protect"]


def test_a_budget_is_of_one_table() -> None:
    with duckdb.connect() as con:
        made, sees = books(con), seen("persons", "others")
        made.protect("persons", sees, Fraction(1, 10), None)
        ask(made, 1)
        made.once("others", sees, {"number": 1}, CHARGE, lambda: answer(1))
        made.once("people.csv", sees, {"number": 1}, CHARGE, lambda: answer(1))
        assert [line["tbl"] for line in made.lines()] == ["main.persons", "main.persons", "main.others", "people.csv"]
        with pytest.raises(InvalidInput, match="is no table or view that lasts, so it cannot be protected"):
            made.protect("people.csv", sees, Fraction(1), None)


def test_a_view_is_known_by_its_sql() -> None:
    with duckdb.connect() as con:
        made = books(con)
        for definition in ("all", "all but one", "all"):
            ask(made, 1, sees=seen("persons", definition=definition))
        assert len(made.lines()) == 2


def test_thirty_two_threads_ask_for_a_budget_that_suffices_for_ten(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "l.duckdb")) as con:
        made, sees = books(con), seen("persons", database="l")
        made.protect("persons", sees, Fraction(1), None)
        ready = threading.Barrier(32)

        def one(number: int) -> bool:
            ready.wait()
            try:
                ask(made, number, sees=sees)
            except BudgetExhausted:
                return False
            return True

        with ThreadPoolExecutor(32) as pool:
            assert sum(pool.map(one, range(32))) == 10
        assert [line["number"] for line in made.lines()] == list(range(1, 12))


def test_two_writers_that_know_nothing_of_each_other(tmp_path: Path) -> None:
    """Two books on two connections: no lock in common, nothing but the numbers of lines."""
    file = str(tmp_path / "l.duckdb")
    with duckdb.connect(file) as con, duckdb.connect(file) as other:
        both, sees = [books(con), books(other)], seen("persons", database="l")
        both[0].protect("persons", sees, Fraction(2), None)
        ready = threading.Barrier(8)

        def one(thread: int) -> int:
            ready.wait()
            got = 0
            for step in range(5):
                try:
                    ask(both[thread % 2], 100 * thread + step, sees=sees)
                    got += 1
                except BudgetExhausted:
                    pass
            return got

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(one, range(8))) == 20
        assert [line["number"] for line in both[1].lines()] == list(range(1, 22))
        assert both[1].budgets()[0]["remaining_exact"] == "0"


def test_a_line_that_was_written_in_between_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two writers looks again: what it was allowed before, it is not any more."""
    with duckdb.connect() as con:
        made, sees = books(con), seen("persons")
        made.protect("persons", sees, Fraction(1, 10), None)
        ledger = made._ledger
        real, tries = ledger._account, []

        def account(cursor: Any, place: Any) -> Any:
            found = real(cursor, place)
            if not tries:
                tries.append(1)
                ask(books(con), 77)
            return found

        monkeypatch.setattr(ledger, "_account", account)
        with pytest.raises(BudgetExhausted):
            ask(made, 1)
        assert [line["action"] for line in made.lines()] == ["protect", "charge"]


def test_who_asks_for_the_same_at_the_same_time_waits() -> None:
    with duckdb.connect() as con:
        made, ready, drawn = books(con), threading.Barrier(8), []

        def draw() -> pa.Array:
            drawn.append(1)
            return answer(len(drawn))

        def one(_: int) -> pa.Array:
            ready.wait()
            return made.once("persons", seen("persons"), {}, CHARGE, draw)

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(one, range(8)))
        assert len(drawn) == len(made.lines()) == 1
        assert all(each.equals(answer(1)) for each in found)


def test_rollback_does_not_refund() -> None:
    with duckdb.connect() as con:
        made = books(con)
        con.begin()
        con.execute("CREATE TABLE t(i INT)").fetchall()
        ask(made, 1)
        con.rollback()
        assert len(made.lines()) == 1
        ask(made, 1)
        assert len(made.lines()) == 1


def test_the_ledger_outlives_the_process_and_follows_its_file(tmp_path: Path) -> None:
    file = str(tmp_path / "a.duckdb")
    with duckdb.connect(file) as con:
        first = ask(books(con), 1, sees=seen("persons", database="a"))
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{file}' AS \"an other\"").fetchall()
        made = books(con)
        assert [line["database"] for line in made.lines()] == ["an other"]
        assert ask(made, 1, sees=seen("persons", database="an other")).equals(first)
        assert len(made.lines()) == 1


def test_what_is_read_only_gives_what_it_has_and_charges_nothing(tmp_path: Path) -> None:
    file, sees = str(tmp_path / "a.duckdb"), seen("persons", database="a")
    with duckdb.connect(file) as con:
        ask(books(con), 1, sees=sees)
    with duckdb.connect(file, read_only=True) as con:
        made = books(con)
        assert ask(made, 1, sees=sees).equals(answer(1))
        with pytest.raises(InvalidInput) as raised:
            ask(made, 2, sees=sees)
        assert str(raised.value) == (
            "A charge cannot be recorded: the database a is read-only. Open a DuckDB database for writing."
        )
        assert len(made.lines()) == 1


def test_books_of_one_instance_are_the_same_and_keep_nothing_open(tmp_path: Path) -> None:
    file = str(tmp_path / "a.duckdb")
    with duckdb.connect(file) as con, duckdb.connect(file) as other:
        made = books_of("x", con)
        assert books_of("x", other) is made
        assert books_of("y", con) is not made
        con.close()
        assert made.lines() == []
    with pytest.raises(InvalidInput, match="duckanon has no connection left to record a charge with"):
        made.lines()
    # Another mode is refused while the instance lives.
    duckdb.connect(file, read_only=True).close()


def test_a_charge_must_cost_something() -> None:
    with pytest.raises(InvalidInput):
        Charge(Fraction(-1), "what", "neighbours")


def test_what_a_user_calls_by_our_names_stands_for_nothing() -> None:
    with duckdb.connect(config={"python_scan_all_frames": True}) as con:
        ledger = releases = con.execute("SELECT 1 AS number, 'charge' AS action").df()
        for macro in ("max(x) AS 7", "lower(x) AS 'x'", "count() AS 7"):
            con.execute(f"CREATE MACRO {macro}").fetchall()
        made = books(con)
        assert made.lines() == []
        made.protect("persons", seen("persons"), Fraction(1, 5), None)
        ask(made, 1)
        ask(made, 2)
        with pytest.raises(BudgetExhausted):
            ask(made, 3)
        assert [line["number"] for line in made.lines()] == [1, 2, 3]
        assert len(ledger) == len(releases) == 1
