"""Limits hold: nobody waits longer than a statement may take, and what ends leaves nothing that goes on."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from psycopg import errors

from duckanon.analyst import Analyst
from duckanon.cancellation import Flag
from duckanon.governance.concurrency import Asker
from duckanon.guard import SharedCatalog
from duckanon.releases import mechanisms
from duckanon.server.execution import _end_of
from duckanon.server.shares import Shares
from tests.server.client import Client, cancel, query
from tests.server.served import Served, serving

COUNT = "SELECT count(*) FROM persons"
# A join by a condition that no index helps, of as many pairs as take minutes.
NESTED = "SELECT count(*) FROM range(3000000) a(x), range(3000000) b(y) WHERE x * x + y = 3 * y - x"
# In seconds: what a client may wait after its statement must end. Two, as the pages say, unless others have the cores.
SOON = 2.0 if os.getloadavg()[0] < (os.cpu_count() or 1) else 4.0


@contextmanager
def soon(seconds: float = SOON) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def ends(served: Served, seconds: float = SOON) -> bool:
    """Whether nothing runs any more, in that time."""
    return served.service._workers.has_ended(seconds)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Statements that name `deaf` listen to nothing until this is set."""
    may_end, run = threading.Event(), Analyst.run

    def runs(self: Analyst, statement: Any, *types: Any) -> Analyst:
        if "deaf" in statement.text:
            may_end.wait(30)
        return run(self, statement, *types)

    monkeypatch.setattr(Analyst, "run", runs)
    yield may_end
    may_end.set()


def test_nobody_waits_for_a_statement_that_does_not_end(served: Served, deaf: threading.Event) -> None:
    with served.login("ana") as con:
        # The first statement of a process is decided about for longer, and would end before it runs.
        con.execute("SELECT 1 + length('first')")
        con.execute("SET statement_timeout = '300ms'")
        with soon(0.3 + SOON), pytest.raises(errors.QueryCanceled, match="took longer"):
            con.execute("SELECT 1 + length('deaf')")
        with soon(), pytest.raises(errors.QueryCanceled, match="An earlier statement"):
            con.execute("SELECT 1 + 2 AS x")
        deaf.set()
        time.sleep(0.3)
        assert con.execute("SELECT 1 + 2 AS x").fetchall() == [(3,)]


@pytest.mark.parametrize("way", ["cancel", "gone", "stop"])
def test_a_statement_ends_for_whoever_waits(served: Served, deaf: threading.Event, way: str) -> None:
    client = Client(served.host, served.port).log_in("ana")
    client.send(query("SELECT 1 + length('deaf')"))
    time.sleep(0.3)
    if way == "cancel":
        Client(served.host, served.port).send(cancel(client.process, client.key))
        with soon():
            assert client.reply().error == "57014"
    elif way == "gone":
        client.close()
    else:
        stopping = threading.Thread(target=served.stop)
        stopping.start()
        with soon():
            assert client.is_ended()
        deaf.set()
        stopping.join()
        return
    # Others go on, and the same user too.
    with served.login("bob") as bob, served.login("ana") as ana, soon():
        assert bob.execute("SELECT 1 + 1 AS x").fetchall() == ana.execute("SELECT 1 + 1 AS x").fetchall() == [(2,)]
    deaf.set()


@pytest.mark.parametrize(
    "sql",
    [
        NESTED,
        "SELECT count(*) FROM range(100000000) a(i) WHERE md5(i::VARCHAR) LIKE 'abcdef%'",
        "FROM k_compare('wide', ['a', 'b', 'c', 'd'], k := 7)",
        "FROM k_anonymize('wide', ['a', 'b', 'c', 'd'], k := 7, method := 'refine')",
        "FROM suppress('cells', ['r', 'g'], ['c'], value := 'n', unit := 'u', n := 4)",
        "FROM metric_mechanism('places', 'p', ['x', 'y'], epsilon := 1)",
    ],
)
def test_what_a_statement_does_ends_with_it(database: Path, sql: str) -> None:
    with serving(database, seconds=60) as served, served.login("stu") as stu, served.login("ana") as con:
        stu.execute(
            "CREATE TABLE wide AS SELECT hash(i) % 5000 AS a, hash(i, 1) % 5000 AS b, hash(i, 2) % 5000 AS c, "
            "hash(i, 3) % 5000 AS d FROM range(60000) r(i)"
        )
        stu.execute(
            "CREATE TABLE cells AS SELECT i % 60 AS r, i % 7 AS g, hash(i, 5) % 80 AS c, hash(i, 6) % 900 AS u, "
            "1 + hash(i) % 12 AS n FROM range(20000) r(i)"
        )
        stu.execute(
            "CREATE TABLE places AS SELECT i AS p, hash(i) % 1000 AS x, hash(i, 1) % 1000 AS y FROM range(900) r(i)"
        )
        for table in ("wide", "cells", "places"):
            stu.execute(f"SELECT open_table('{table}')")
        con.execute("SET statement_timeout = '1500ms'")
        with soon(1.5 + SOON), pytest.raises(errors.QueryCanceled):
            con.execute(sql)
        assert ends(served, 2 * SOON)


def test_a_charged_draw_goes_on_and_is_given_later(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = mechanisms.draw

    def slow(*given: Any) -> Any:
        time.sleep(3)
        return drawn(*given)

    monkeypatch.setattr(mechanisms, "draw", slow)
    with served.login("ana") as con:
        con.execute("SET statement_timeout = '500ms'")
        with soon(0.5 + SOON), pytest.raises(errors.QueryCanceled):
            con.execute(COUNT)
        con.execute("SET statement_timeout = 0")
        assert len(con.execute(COUNT).fetchall()) == 1
        assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(1,)]


def test_a_change_waits_for_no_statement_and_nobody_for_a_change(served: Served, deaf: threading.Event) -> None:
    with served.login("ana") as ana, served.login("bob") as bob, Client(served.host, served.port) as stu:
        stu.log_in("stu")
        waiting = threading.Thread(target=_quietly, args=(ana, "SELECT 1 + length('deaf')"))
        waiting.start()
        time.sleep(0.3)
        with soon():
            assert stu.ask(query("CREATE TABLE new_one AS SELECT 1 AS x")).error == ""
            assert stu.ask(query("SELECT open_table('new_one')")).error == ""
        # A change that takes long holds up nobody.
        stu.send(query(f"CREATE TABLE long AS {NESTED}"))
        time.sleep(0.3)
        with soon():
            assert bob.execute("SELECT x FROM new_one").fetchall() == [(1,)]
        with soon(8):
            assert bob.execute(COUNT).fetchall()
        Client(served.host, served.port).send(cancel(stu.process, stu.key))
        with soon():
            assert stu.reply().error == "57014"
        deaf.set()
        waiting.join()
        assert ends(served)


def test_an_explanation_waits_for_no_steward_and_is_for_whoever_asks(served: Served) -> None:
    """A steward's `publish` has the turn of those who write to the ledger."""
    asked = f"FROM explain_privacy('{COUNT}')"
    with served.login("stu") as stu, served.login("ana") as ana, served.login("bob") as bob:
        bob.execute("SET statement_timeout = '5s'")
        before = ana.execute(asked).fetchall()
        stu.execute("SELECT allot('ana', 'residents', epsilon := 0.001)")
        with served.service._gate.askers.turn(Asker("stu")), soon():
            assert bob.execute(asked).fetchall() == before
            assert ana.execute(asked).fetchall() != before


def _quietly(con: psycopg.Connection[Any], sql: str) -> None:
    try:
        con.execute(sql).fetchall()
    except psycopg.Error:
        return


def test_a_statement_reads_what_was_there_when_it_was_decided(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table is dropped, and another of the name made, between the decision and its run."""
    run = Analyst.run

    def runs(self: Analyst, statement: Any, *types: Any) -> Analyst:
        if "counties" in statement.text:
            monkeypatch.setattr(Analyst, "run", run)
            with served.login("stu") as stu:
                stu.execute("SELECT close_table('counties')")
                stu.execute("DROP TABLE counties")
                stu.execute("CREATE TABLE counties AS SELECT 'secret' AS state, 'secret' AS county")
        return run(self, statement, *types)

    with served.login("ana") as con:
        con.execute("SELECT 1 + 0 AS x")
        monkeypatch.setattr(Analyst, "run", runs)
        rows = con.execute("SELECT state FROM counties ORDER BY ALL").fetchall()
        assert rows == [("A",), ("B",), ("B",), ("C",)]
        with pytest.raises(psycopg.Error):
            con.execute("SELECT state FROM counties")


def test_an_open_table_is_read_again_only_after_rows_were_written(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, aside = list[str](), SharedCatalog._aside

    def counted(self: SharedCatalog) -> Any:
        read.append("")
        return aside(self)

    monkeypatch.setattr(SharedCatalog, "_aside", counted)
    asked = "SELECT c.state, count(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic GROUP BY c.state"
    with served.login("stu") as stu, served.login("ana") as con:
        stu.execute("CREATE TABLE clinics AS SELECT i AS clinic, 'S' || i % 2 AS state FROM range(5) r(i)")
        stu.execute("SELECT open_table('clinics')")
        first = con.execute(asked).fetchall()
        before = len(read)
        assert sorted(con.execute(asked).fetchall()) == sorted(first)
        assert len(read) == before
        stu.execute("UPDATE clinics SET state = 'S0' WHERE clinic = 1")
        con.execute(asked).fetchall()
        assert len(read) > before
        assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(2,)], "It is another question."


def test_users_have_fair_shares_of_threads() -> None:
    shares, may_end, order = Shares(4, 2), threading.Event(), list[str]()
    running = threading.Semaphore(0)

    def work(user: str) -> Callable[[], None]:
        def do() -> None:
            order.append(user)
            running.release()
            may_end.wait(10)

        return do

    futures = [shares.submit("ana", work("ana")) for _ in range(10)]
    futures += [shares.submit("bob", work("bob")) for _ in range(2)]
    for _ in range(4):
        assert running.acquire(timeout=5)
    assert sorted(order) == ["ana", "ana", "bob", "bob"]
    for one in futures[:2]:
        shares.leave_behind(one)
    # There is room for two more, but not of ana's.
    futures.append(shares.submit("cyd", work("cyd")))
    assert running.acquire(timeout=5)
    assert order[-1] == "cyd"
    may_end.set()
    assert shares.has_ended(5)
    for one in futures:
        one.result(5)
    shares.end()


def test_to_wait_for_a_turn_does_not_count(database: Path, deaf: threading.Event) -> None:
    with serving(database, workers=1, per_user=1) as served, served.login("ana") as ana, served.login("bob") as bob:
        waiting = threading.Thread(target=_quietly, args=(ana, "SELECT 1 + length('deaf')"))
        waiting.start()
        time.sleep(0.3)
        threading.Timer(1.5, deaf.set).start()
        bob.execute("SET statement_timeout = '700ms'")
        assert bob.execute("SELECT 2 + 2 AS x").fetchall() == [(4,)]
        waiting.join()


def test_to_wait_for_a_turn_between_two_parts_does_not_count(database: Path, deaf: threading.Event) -> None:
    """What a client copies is read in parts, and others may have the thread between two of them."""
    part = ("x" * 1000 + "\n") * 300
    with serving(database, workers=1, per_user=1) as served, served.login("ana") as ana, served.login("stu") as stu:
        stu.execute("CREATE TABLE loaded (x VARCHAR)")
        stu.execute("SET statement_timeout = '2s'")
        waiting = threading.Thread(target=_quietly, args=(ana, "SELECT 1 + length('deaf')"))
        with stu.cursor().copy("COPY loaded FROM STDIN") as copy:
            copy.write(part)
            time.sleep(0.3)
            waiting.start()
            time.sleep(0.3)
            threading.Timer(2.5, deaf.set).start()
            copy.write(part)
            waiting.join()
        assert stu.execute("SELECT count(*) FROM loaded").fetchall() == [(600,)]


def test_a_flag_stops_what_works_for_it_and_nothing_else() -> None:
    flag, stopped = Flag(), list[int]()
    with flag.stopping(lambda: stopped.append(1)):
        pass
    flag.set()
    assert stopped == []


def test_an_error_for_which_nobody_waits_is_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio prints errors that nobody takes, and DuckDB's may quote a value."""

    async def ends() -> None:
        running: Future[None] = Future()
        running.set_exception(duckdb.ConversionException("Could not convert string 'a secret'"))
        await asyncio.wait({_end_of(running)})

    asyncio.run(ends())
    gc.collect()
    assert "a secret" not in caplog.text


def test_an_error_that_nobody_takes_is_logged_without_its_words(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> None:
        served._loop.call_soon(_raises)

    def _raises() -> None:
        raise duckdb.ConversionException("Could not convert string 'a secret'")

    served.call(fails)
    served.call(lambda: None)
    assert '"kind": "ConversionException"' in served.log()
    assert "a secret" not in served.log() + caplog.text


def test_memory_and_temporary_files_have_limits(database: Path, tmp_path: Path) -> None:
    with (
        serving(database, memory="200MB", temp=tmp_path / "spill", temp_size="1MB") as served,
        served.login("ana") as con,
        served.login("bob") as bob,
    ):
        with pytest.raises(errors.OutOfMemory, match="more memory than there is"):
            con.execute("SELECT len(list(x)) FROM range(60000000) r(x)")
        assert bob.execute(COUNT).fetchall()
        assert not list(database.parent.glob("*.tmp"))


def test_an_answer_gets_the_memory_that_others_have(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it can be made does not depend on what other users do."""
    drawn, tries = mechanisms.draw, list[int]()

    def needs_all(*given: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise duckdb.OutOfMemoryException("Out of Memory Error")
        return drawn(*given)

    monkeypatch.setattr(mechanisms, "draw", needs_all)
    with serving(database) as served, served.login("bob") as bob, Client(served.host, served.port) as ana:
        ana.log_in("ana").send(query(NESTED))
        time.sleep(0.5)
        assert len(bob.execute(COUNT).fetchall()) == 1
        assert ana.reply().error == "53200"
        assert len(tries) == 2
