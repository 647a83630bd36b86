"""A question is charged once in an edition, before its answer is drawn, and its answer is given again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from threading import Event, Thread
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from duckanon.cancellation import Flag, Stopped, working_for
from duckanon.errors import BudgetExhausted, InvalidInput, MachineFailure
from duckanon.governance.answers import LEAST_SHARE, Answers, Purchase, Stale, check_price, day_charged, is_stored
from duckanon.governance.instance import Governance
from duckanon.governance.locations import Location
from tests.governance.without_sql import CHARGE, governance, protect

TABLE = Location("memory", "main", "persons")
ANSWER = pa.table({"n0": pa.array([3], pa.int64())})


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


@pytest.fixture
def made(con: duckdb.DuckDBPyConnection) -> Governance:
    found = governance(con)
    protect(found)
    return found


def purchase(made: Governance, key: str = "one", **changed: Any) -> Purchase:
    version = made.ledger.state("memory").version(TABLE.identity) or 0
    return replace(Purchase(TABLE, key, version, 1, CHARGE), **changed)


def spent(made: Governance) -> Fraction:
    return made.ledger.state("memory").populations["main.persons"].spent


def drawing(drawn: list[Fraction], made: Governance) -> Callable[[duckdb.DuckDBPyConnection], pa.Table]:
    """A draw that notes what was spent when it began."""

    def draw(_: duckdb.DuckDBPyConnection) -> pa.Table:
        drawn.append(spent(made))
        return ANSWER

    return draw


def test_it_is_charged_before_it_is_drawn_and_once(con: duckdb.DuckDBPyConnection, made: Governance) -> None:
    bought, drawn = purchase(made), list[Fraction]()
    assert not is_stored(con, bought)
    assert day_charged(con, bought) is None
    assert made.answers.ensure(bought, drawing(drawn, made))
    assert not made.answers.ensure(bought, drawing(drawn, made))
    assert drawn == [CHARGE.epsilon] == [spent(made)]
    assert is_stored(con, bought)
    assert day_charged(con, bought) is not None
    assert con.execute('FROM duckanon."answer_one"').fetchall() == [(3,)]


def test_an_answer_that_was_dropped_is_charged_again(con: duckdb.DuckDBPyConnection, made: Governance) -> None:
    """A second one has other noise, and the mean of both has less."""
    bought, drawn = purchase(made), list[Fraction]()
    made.answers.ensure(bought, drawing(drawn, made))
    con.execute('DROP TABLE duckanon."answer_one"')
    assert day_charged(con, bought) is None
    assert made.answers.ensure(bought, drawing(drawn, made))
    assert drawn == [CHARGE.epsilon, 2 * CHARGE.epsilon]


def test_a_draw_that_failed_is_charged_once_and_final(
    con: duckdb.DuckDBPyConnection, made: Governance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn again with more memory, success would say how much the records need."""
    monkeypatch.setattr("duckanon.governance.answers.STRICT", False)

    def fail(_: duckdb.DuckDBPyConnection) -> pa.Table:
        raise ValueError("a value of a record")

    bought, drawn = purchase(made), list[Fraction]()
    with pytest.raises(MachineFailure) as told:
        made.answers.ensure(bought, fail)
    assert "a value" not in str(told.value)
    assert told.value.__context__ is None
    assert spent(made) == CHARGE.epsilon
    assert day_charged(con, bought) is not None
    with pytest.raises(MachineFailure):
        made.answers.ensure(bought, drawing(drawn, made))
    with pytest.raises(MachineFailure):
        Answers(made.ledger).ensure(bought, drawing(drawn, made))
    assert drawn == []
    ((cause,),) = con.execute("SELECT cause FROM duckanon.failures").fetchall()
    assert cause == "ValueError: a value of a record", "The steward is told."


def test_an_answer_that_was_not_stored_is_drawn_again(made: Governance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has seen it, and whether it can be stored follows from its form."""
    monkeypatch.setattr("duckanon.governance.answers.STRICT", False)
    bought, drawn = purchase(made), list[Fraction]()

    def full(*_: object) -> None:
        raise duckdb.IOException("No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Answers, "_store", full)
        with pytest.raises(MachineFailure, match="costs nothing"):
            made.answers.ensure(bought, drawing(drawn, made))
    assert not made.answers.ensure(bought, drawing(drawn, made))
    assert drawn == [CHARGE.epsilon] * 2 == [spent(made)] * 2


def test_a_draw_goes_on_when_its_statement_ends(made: Governance) -> None:
    bought, begun, may_end = purchase(made), threading.Event(), threading.Event()
    flag, drawn = Flag(), list[Fraction]()

    def slow(con: duckdb.DuckDBPyConnection) -> pa.Table:
        begun.set()
        assert may_end.wait(20)
        return drawing(drawn, made)(con)

    def asked() -> None:
        with working_for(flag):
            made.answers.ensure(bought, slow)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(asked)
        assert begun.wait(20)
        flag.set()
        with pytest.raises(Stopped):
            ended.result(2)
    may_end.set()
    made.answers.draws.end()
    assert not made.answers.ensure(bought, slow), "It is stored, and drawn once."
    assert drawn == [CHARGE.epsilon]


def test_a_draw_without_room_is_tried_again_alone(made: Governance) -> None:
    """What others need at that moment has no say in whether an answer can be made."""
    bought, alone, drawn = purchase(made), list[bool](), list[Fraction]()

    @contextmanager
    def by_itself():
        alone.append(True)
        yield
        alone.append(False)

    def needs_room(con: duckdb.DuckDBPyConnection) -> pa.Table:
        if alone != [True]:
            raise duckdb.OutOfMemoryException("Out of Memory Error")
        return drawing(drawn, made)(con)

    made.answers.draws.alone = by_itself
    assert made.answers.ensure(bought, needs_room)
    assert alone == [True, False]
    assert drawn == [CHARGE.epsilon]


@pytest.mark.parametrize("changed", [{"version": 99}, {"edition": 2}, {"beside": ((TABLE, 99),)}])
def test_a_decision_of_yesterday_buys_nothing(made: Governance, changed: dict[str, Any]) -> None:
    with pytest.raises(Stale):
        made.answers.ensure(purchase(made, **changed), drawing([], made))
    assert spent(made) == 0


def test_an_answer_may_be_of_several_tables_of_one_population(made: Governance) -> None:
    told = {}
    for name, population in (("orders", "buyers"), ("lines", "buyers"), ("others", "more")):
        protect(made, name, population=population, privacy_unit="person")
        place = Location("memory", "main", name)
        told[name] = place, made.ledger.state("memory").version(place.identity) or 0
    of_orders = replace(purchase(made), location=told["orders"][0], version=told["orders"][1])
    with pytest.raises(Stale):
        made.answers.ensure(replace(of_orders, beside=(told["others"],)), drawing([], made))
    assert made.answers.ensure(replace(of_orders, beside=(told["lines"],)), drawing([], made))


def test_more_than_is_left_buys_nothing(made: Governance) -> None:
    for number in range(10):
        made.answers.ensure(purchase(made, str(number)), drawing([], made))
    with pytest.raises(BudgetExhausted):
        made.answers.ensure(purchase(made), drawing([], made))
    assert spent(made) == 1


def test_a_price_is_no_less_than_a_ten_thousandth() -> None:
    budget = Fraction(3)
    check_price(budget / LEAST_SHARE, budget)
    with pytest.raises(InvalidInput):
        check_price(budget / LEAST_SHARE * Fraction(999, 1000), budget)


def test_who_begins_a_draw_waits_for_it_before_it_runs(made: Governance) -> None:
    """A draw that needs the memory of all other statements ends those that do not wait for an answer."""
    mine, waits, reached = Flag(), list[bool](), Event()

    class First:
        """A thread that is faster than who begins the draw."""

        def submit(self, do: Callable[..., None], *given: Any) -> Future[None]:
            found: Future[None] = Future()

            def work() -> None:
                do(*given)
                found.set_result(None)

            Thread(target=work).start()
            reached.wait(10)
            return found

    @contextmanager
    def alone() -> Iterator[None]:
        waits.append(mine.only_waits)
        reached.set()
        yield

    def draw(_: duckdb.DuckDBPyConnection) -> pa.Table:
        if not waits:
            raise duckdb.OutOfMemoryException("Out of Memory Error")
        return ANSWER

    made.answers.draws._threads = First()  # type: ignore[assignment] # all that is called of a pool
    made.answers.draws.alone = alone
    with working_for(mine):
        assert made.answers.ensure(purchase(made), draw)
    assert waits == [True]
    assert not mine.only_waits
