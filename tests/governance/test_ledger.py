"""The ledger and the release store, below SQL: threads, two writers, ROLLBACK, errors, what cannot be written."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from duckanon.accounting import Charge
from duckanon.errors import BudgetExhausted, InvalidInput
from duckanon.governance.instance import Governance, governance_of
from duckanon.governance.ledger_state import Line
from duckanon.governance.locations import Location
from tests.governance.without_sql import CHARGE, answer, governance, protect, seen


def ask(
    made: Governance, number: int, epsilon: Fraction = CHARGE.epsilon, sees: dict[str, Any] | None = None
) -> pa.Array:
    charge = replace(CHARGE, epsilon=epsilon)
    return made.stored_or_drawn("persons", sees or seen("persons"), {"number": number}, charge, lambda: answer(number))


def test_a_release_is_charged_once_and_given_again() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        first = ask(made, 1)
        assert ask(made, 1).equals(first)
        assert ask(made, 1).type == first.type
        assert len(made.lines()) == 1
        ask(made, 2)
        ((one, two),) = [made.lines()]
        assert (one["number"], two["number"]) == (1, 2)
        assert (one["epsilon_exact"], one["epsilon"], one["remaining"]) == ("0.1", 0.1, None)
        assert (one["what"], one["neighbours"], one["tbl"]) == ("a call", "neighbours", "main.persons")


def test_the_charge_stands_before_the_noise_and_after_an_error_and_serves_the_next_draw() -> None:
    with duckdb.connect() as con:
        made = governance(con)

        def draw() -> pa.Array:
            assert len(made.lines()) == 1
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            made.stored_or_drawn("persons", seen("persons"), {}, CHARGE, draw)
        assert len(made.lines()) == 1
        made.stored_or_drawn("persons", seen("persons"), {}, CHARGE, lambda: answer(1))
        assert len(made.lines()) == 1


def test_a_budget_is_spent_to_the_last_tenth_and_stored_releases_stay_free() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        assert protect(made) == (
            "main.persons is protected: of epsilon 1 in all, 0 is spent and 1 left. A charge protects one record."
        )
        for number in range(10):
            ask(made, number)
        with pytest.raises(BudgetExhausted) as raised:
            ask(made, 10, Fraction(1, 10**12))
        assert str(raised.value) == (
            "The privacy budget of main.persons does not suffice: epsilon 0.000000000001 is more than the 0 left of 1. "
            "Ask for less, or repeat an earlier question as it was: its stored answer is free."
        )
        assert ask(made, 3).equals(answer(3))
        (budget,) = made.budgets()
        assert (budget["spent_exact"], budget["remaining_exact"], budget["charges"]) == ("1", "0", 10)
        assert [line["remaining_exact"] for line in made.lines()][:3] == ["1", "0.9", "0.8"]


def test_what_was_spent_stays_spent() -> None:
    with duckdb.connect() as con:
        made, sees = governance(con), seen("persons")
        ask(made, 1)
        assert "0.1 is spent and 0.1 left." in protect(made, "PERSONS", sees, epsilon=Fraction(1, 5))
        with pytest.raises(
            InvalidInput, match=r"main\.persons is protected already: unprotect\('main\.persons'\) first"
        ):
            protect(made, epsilon=Fraction(2))
        assert "0.1 is spent and 0.1 left." in protect(made, epsilon=Fraction(1, 5))
        assert made.decisions.unprotect("persons", sees) == (
            "main.persons is no longer protected: it is closed to analysts, and what was spent on it and published "
            "of it stays so."
        )
        assert made.decisions.unprotect("persons", sees) == "main.persons is not protected: nothing has changed."
        assert made.budgets() == []
        ask(made, 2, Fraction(3))
        assert "of epsilon 1 in all, 3.1 is spent and 0 left." in protect(made)
        actions = [line["action"] for line in made.lines()]
        assert actions == ["charge", "protect", "unprotect", "charge", "protect"]


def test_a_budget_is_of_one_population() -> None:
    with duckdb.connect() as con:
        made, sees = governance(con), seen("persons", "others")
        protect(made, epsilon=Fraction(1, 10))
        ask(made, 1)
        made.stored_or_drawn("others", sees, {"number": 1}, CHARGE, lambda: answer(1))
        made.stored_or_drawn("people.csv", sees, {"number": 1}, CHARGE, lambda: answer(1))
        assert [(line["tbl"], line["population"]) for line in made.lines()] == [
            *2 * [("main.persons", "main.persons")],
            ("main.others", None),
            ("people.csv", None),
        ]
        with pytest.raises(InvalidInput, match="is no table that lasts, so it cannot be protected"):
            protect(made, "people.csv", sees)


def test_a_view_is_known_by_its_sql() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        for definition in ("all", "all but one", "all"):
            ask(made, 1, sees=seen("persons", definition=definition))
        assert len(made.lines()) == 2


def test_thirty_two_threads_ask_for_a_budget_that_suffices_for_ten(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "l.duckdb")) as con:
        made, sees = governance(con), seen("persons", database="l")
        protect(made, sees=sees)
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
    """Two governances on two connections: no lock in common, nothing but the numbers of lines."""
    file = str(tmp_path / "l.duckdb")
    with duckdb.connect(file) as con, duckdb.connect(file) as other:
        both, sees = [governance(con), governance(other)], seen("persons", database="l")
        protect(both[0], sees=sees, epsilon=Fraction(2))
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
        made = governance(con)
        protect(made, epsilon=Fraction(1, 10))
        real, tries = made.ledger.state, []

        def state(*given: Any) -> Any:
            found = real(*given)
            # The first look is for the table's privacy unit, the second for what is left.
            tries.append(1)
            if len(tries) == 2:
                ask(governance(con), 77)
            return found

        monkeypatch.setattr(made.ledger, "state", state)
        with pytest.raises(BudgetExhausted):
            ask(made, 1)
        assert [line["action"] for line in made.lines()] == ["protect", "charge"]


def test_who_asks_for_the_same_at_the_same_time_waits() -> None:
    with duckdb.connect() as con:
        made, ready, drawn = governance(con), threading.Barrier(8), []

        def draw() -> pa.Array:
            drawn.append(1)
            return answer(len(drawn))

        def one(_: int) -> pa.Array:
            ready.wait()
            return made.stored_or_drawn("persons", seen("persons"), {}, CHARGE, draw)

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(one, range(8)))
        assert len(drawn) == len(made.lines()) == 1
        assert all(each.equals(answer(1)) for each in found)


def test_rollback_does_not_refund() -> None:
    with duckdb.connect() as con:
        made = governance(con)
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
        first = ask(governance(con), 1, sees=seen("persons", database="a"))
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{file}' AS \"an other\"").fetchall()
        made = governance(con)
        assert [line["database"] for line in made.lines()] == ["an other"]
        assert ask(made, 1, sees=seen("persons", database="an other")).equals(first)
        assert len(made.lines()) == 1


def test_a_renamed_file_and_a_copy_keep_their_ledger(tmp_path: Path) -> None:
    """A database knows itself by an identity of its own; a copy goes on by itself from where it was made."""
    file, renamed, copy = (str(tmp_path / f"{name}.duckdb") for name in ("a", "renamed", "copy"))
    with duckdb.connect(file) as con:
        sees = seen("persons", database="a")
        made = governance(con)
        protect(made, sees=sees)
        first = ask(made, 1, sees=sees)
    Path(file).rename(renamed)
    shutil.copy(renamed, copy)
    identity = "SELECT value FROM {}.duckanon.meta WHERE name = 'identity'"
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{renamed}' AS x; ATTACH '{copy}' AS y").fetchall()
        made = governance(con)
        assert con.execute(identity.format("x")).fetchall() == con.execute(identity.format("y")).fetchall()
        for database in "xy":
            assert ask(made, 1, sees=seen("persons", database=database)).equals(first)
        assert len(made.lines()) == 4
        ask(made, 2, Fraction(1, 2), seen("persons", database="x"))
        ask(made, 3, Fraction(1, 3), seen("persons", database="y"))
        assert [one["spent_exact"] for one in made.budgets()] == ["0.6", "13/30"]
        # Each takes the other's name, while what held under it is still known.
        con.execute(f"DETACH x; DETACH y; ATTACH '{renamed}' AS y; ATTACH '{copy}' AS x").fetchall()
        assert [one["spent_exact"] for one in made.budgets()] == ["13/30", "0.6"]


@pytest.mark.parametrize(
    "older",
    [
        "CREATE TABLE duckanon.ledger (number BIGINT PRIMARY KEY, epsilon VARCHAR)",
        "CREATE TABLE duckanon.ledger (id INTEGER); CREATE TABLE duckanon.meta (name VARCHAR, value VARCHAR)",
        "CREATE TABLE duckanon.ledger (number BIGINT); "
        "CREATE TABLE duckanon.meta AS SELECT 'format' AS name, '1' AS value",
    ],
)
def test_another_format_is_told_in_a_sentence(older: str) -> None:
    with duckdb.connect() as con:
        con.execute(f"CREATE SCHEMA duckanon; {older}").fetchall()
        made = governance(con)
        for what in (made.lines, made.budgets, made.policies, lambda: protect(made), lambda: ask(made, 1)):
            with pytest.raises(InvalidInput) as raised:
                what()
            assert str(raised.value) == (
                "The schema duckanon of memory was written by another version of duckanon: duckanon upgrade FILE "
                "carries over what was spent from an earlier one, and a newer one needs a newer duckanon."
            )
        con.execute('DROP SCHEMA "memory".duckanon CASCADE').fetchall()
        ask(made, 1)


def test_what_holds_is_folded_line_by_line(tmp_path: Path) -> None:
    """What is known from before and the lines since give what all lines together give."""
    with duckdb.connect(str(tmp_path / "l.duckdb")) as con:
        sees = seen("persons", "others", database="l")
        known, fresh = governance(con), governance(con)
        for step in (
            lambda: ask(known, 1, sees=sees),
            lambda: protect(known, sees=sees, population="people", privacy_unit="person"),
            lambda: protect(fresh, "others", sees, epsilon=None, population="people", privacy_unit="id"),
            lambda: known.decisions.new_edition("others", sees),
            lambda: ask(fresh, 2, sees=sees),
            lambda: known.decisions.unprotect("persons", sees),
        ):
            with suppress(InvalidInput):
                step()
            states = [made.ledger.state("l") for made in (known, fresh, governance(con))]
            assert states[0] == states[1] == states[2]


def test_what_is_read_only_gives_what_it_has_and_charges_nothing(tmp_path: Path) -> None:
    file, sees = str(tmp_path / "a.duckdb"), seen("persons", database="a")
    with duckdb.connect(file) as con:
        ask(governance(con), 1, sees=sees)
    with duckdb.connect(file, read_only=True) as con:
        made = governance(con)
        assert ask(made, 1, sees=sees).equals(answer(1))
        with pytest.raises(InvalidInput) as raised:
            ask(made, 2, sees=sees)
        assert str(raised.value) == (
            "Nothing can be recorded: the database a is read-only. Open a DuckDB database for writing."
        )
        assert len(made.lines()) == 1


def test_a_table_has_a_policy_once_it_is_protected() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        place = Location("memory", "main", "persons")
        assert made.policy_of("persons", seen("persons")) == (place, None)
        protect(made, epsilon=Fraction(3))
        location, policy = made.policy_of("persons", seen("persons", "visits"))
        assert location == place
        assert policy == made.ledger.state("memory").tables[place.identity].policy
        assert made.policy_of("visits", seen("persons", "visits"))[1] is None


def test_governance_of_one_instance_is_the_same_and_keeps_nothing_open(tmp_path: Path) -> None:
    file = str(tmp_path / "a.duckdb")
    with duckdb.connect(file) as con, duckdb.connect(file) as other:
        made = governance_of("x", con)
        assert governance_of("x", other) is made
        assert governance_of("y", con) is not made
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
        made = governance(con)
        assert made.lines() == []
        protect(made, epsilon=Fraction(1, 5))
        ask(made, 1)
        ask(made, 2)
        with pytest.raises(BudgetExhausted):
            ask(made, 3)
        assert [line["number"] for line in made.lines()] == [1, 2, 3]
        assert len(ledger) == len(releases) == 1


def test_lines_that_are_known_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long ledger only the last known line and later ones are read."""
    from duckanon.governance import ledger, ledger_tables

    real, read = ledger_tables.lines_after, []

    def lines(con: duckdb.DuckDBPyConnection, database: str, after: int) -> list[Line]:
        read.append(after)
        return real(con, database, after)

    with duckdb.connect() as con:
        made = governance(con)
        for number in range(5):
            ask(made, number)
        monkeypatch.setattr(ledger, "lines_after", lines)
        assert made.ledger.state("memory").number == made.ledger.state("memory").number == 5
        assert read == [3, 4]


def test_charges_from_before_a_unit_was_named_protect_one_record() -> None:
    """A unit with twenty records is protected twenty times less by them, so the budget does not say otherwise."""
    with duckdb.connect() as con:
        made = governance(con)
        charge = Charge(Fraction(2), "a call", "one record, added or removed")
        made.stored_or_drawn("persons", seen("persons"), {"number": 1}, charge, lambda: answer(1))
        said = protect(made, privacy_unit="person", epsilon=Fraction(4), rows_per_unit=2)
        assert "Charges of 2 from before it was named protect one record alone." in said
        (budget,) = made.budgets()
        assert budget["spent"] == 2
        assert budget["neighbours"].endswith(
            "2 of the 2 spent was charged before that unit was named, and holds for one record alone"
        )


def test_charges_from_before_count_alike_where_the_unit_is_a_record() -> None:
    with duckdb.connect() as con:
        made = governance(con)
        charge = Charge(Fraction(2), "a call", "one record, added or removed")
        made.stored_or_drawn("persons", seen("persons"), {"number": 1}, charge, lambda: answer(1))
        assert "from before" not in protect(made, epsilon=Fraction(4))
        assert made.budgets()[0]["neighbours"] == "one record, added or removed"
