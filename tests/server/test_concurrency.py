"""Many at a time: one budget to its last part, a steward who changes what others ask, a server that is killed."""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

from tests.amounts import LONG
from tests.guard.residents import make
from tests.server.client import Client, query
from tests.server.killed import start
from tests.server.served import Served, add_users, serving


def asked(served: Served, sql: str, user: str = "stu") -> list[tuple[str | None, ...]]:
    with Client(served.host, served.port, seconds=60).log_in(user) as client:
        found = client.ask(query(sql))
        assert not found.errors, found.errors
        return found.rows


def test_one_budget_is_spent_exactly(tmp_path: Path) -> None:
    """64 connections of four users (16 in short) ask for 5 each of a budget of 40."""
    connections, budget = (64, 40) if LONG else (16, 12)
    with serving(make(tmp_path / "people.duckdb", epsilon=str(budget))) as served:
        at_once = threading.Barrier(connections)

        def spend(which: int) -> list[str]:
            user = ("ana", "bob", "cyd", "dan")[which % 4]
            with Client(served.host, served.port, seconds=120).log_in(user) as client:
                at_once.wait(60)
                return [
                    client.ask(query(f"SELECT count(*) FROM persons WHERE age < {20 + which * 5 + at}")).error
                    for at in range(5)
                ]

        with ThreadPoolExecutor(connections) as pool:
            found = [error for errors in pool.map(spend, range(connections)) for error in errors]
        assert sorted(set(found)) == ["", "53400"]
        assert found.count("") == budget
        ((spent, charges),) = asked(
            served, "SELECT spent_exact, charges FROM privacy_budget() WHERE population = 'residents'"
        )
        assert Fraction(spent or 0) == budget
        assert charges == str(budget)
        ((keys,),) = asked(served, "SELECT count(DISTINCT release) FROM duckanon.ledger WHERE action = 'charge'")
        assert keys == str(budget)


def repeat(served: Served, user: str, seconds: float, step: Callable[[Client, int], None]) -> threading.Thread:
    """A thread in which a user takes a step again and again."""

    def run() -> None:
        with Client(served.host, served.port, seconds=60).log_in(user) as client:
            until, at = time.monotonic() + seconds, 0
            while time.monotonic() < until:
                step(client, at)
                at += 1

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.ci("many statements at once")
def test_a_macro_over_a_protected_table_is_never_called(served: Served) -> None:
    """A steward makes and drops a macro with the name of a function that analysts call meanwhile."""
    seconds, seen, answered = (60 if LONG else 4), set(), threading.Event()

    def change(client: Client, at: int) -> None:
        made = "CREATE MACRO upper(x) AS (SELECT max(name) FROM persons)"
        assert not client.ask(query("DROP MACRO upper" if at % 2 else made)).errors
        if at % 2:
            # On a busy machine no look may be decided before the next CREATE: once, it waits for one.
            answered.wait(30)

    def look(client: Client, _: int) -> None:
        found = client.ask(query("SELECT upper('a'), upper(state) FROM counties LIMIT 1"))
        seen.add((tuple(found.rows), found.error))
        if found.rows:
            answered.set()

    threads = [repeat(served, user, seconds, look) for user in ("ana", "bob", "ana")]
    threads.append(repeat(served, "stu", seconds, change))
    for one in threads:
        one.join(seconds + 60)
    assert (("A", "A"),) in {rows for rows, _ in seen}, seen
    assert all(rows == (("A", "A"),) or (not rows and error) for rows, error in seen), seen


@pytest.mark.ci("many statements at once")
def test_a_table_that_is_closed_is_not_read_afterwards(served: Served) -> None:
    """What is open changes all the time; each answer is one of a moment in which it was asked."""
    is_open, seconds = [False], (60 if LONG else 4)
    # Odd while a change is under way: then both outcomes are right.
    moment, wrong = [0], []

    def change(client: Client, at: int) -> None:
        moment[0] += 1
        found = client.ask(query("SELECT open_table('salaries')" if at % 2 == 0 else "SELECT close_table('salaries')"))
        assert not found.errors, found.errors
        is_open[0] = at % 2 == 0
        moment[0] += 1

    def look(client: Client, _: int) -> None:
        before, expected = moment[0], is_open[0]
        found = client.ask(query("SELECT x FROM salaries"))
        if before % 2 == 0 and before == moment[0] and bool(found.rows) != expected:
            wrong.append((expected, found))

    threads = [repeat(served, user, seconds, look) for user in ("ana", "bob")]
    threads.append(repeat(served, "stu", seconds, change))
    for one in threads:
        one.join(seconds + 60)
    assert not wrong


def test_what_a_macro_of_a_steward_records_names_the_steward(served: Served) -> None:
    with Client(served.host, served.port).log_in("stu") as client:
        for text in (
            "CREATE MACRO shut() AS close_table('counties')",
            "CREATE VIEW shutting AS SELECT shut()",
            "FROM shutting",
        ):
            assert not client.ask(query(text)).errors
        ledger = "SELECT who FROM duckanon.ledger WHERE action = 'close' ORDER BY number DESC LIMIT 1"
        assert client.ask(query(ledger)).rows == [("stu",)]


def test_an_analyst_never_waits_for_a_steward_who_reads(served: Served) -> None:
    with Client(served.host, served.port).log_in("stu") as steward:
        steward.send(query("SELECT count(*) FROM " + ", ".join(f"range(100000) r{n}" for n in range(4))))
        time.sleep(0.3)
        assert asked(served, "SELECT count(*) FROM counties", "ana") == [("4",)]


def test_a_statement_of_constants_waits_for_nobody(served: Served) -> None:
    """It is run without a turn and without a thread once it has been decided about; others still wait for a change."""
    with (
        Client(served.host, served.port).log_in("ana") as client,
        Client(served.host, served.port).log_in("bob") as other,
    ):
        client.ask(query("SELECT 1"))
        with served.service._gate.change():
            assert client.ask(query("SELECT 1")).rows == [("1",)]
            other.send(query("SELECT state FROM counties LIMIT 0"))
            other.socket.settimeout(0.5)
            with pytest.raises(TimeoutError):
                other.message()
        other.socket.settimeout(30)
        assert other.reply().tags == ["SELECT 0"]


def test_many_constants_at_once_hold_up_nobody(served: Served) -> None:
    with (
        Client(served.host, served.port).log_in("ana") as client,
        Client(served.host, served.port).log_in("bob") as other,
    ):
        client.ask(query("SELECT 1"))
        client.send(query("SELECT 1;" * 5_000))
        client.message()
        assert other.ask(query("SELECT 1")).rows == [("1",)]
        client.socket.setblocking(False)
        seen = b""
        with contextlib.suppress(BlockingIOError):
            while piece := client.socket.recv(1 << 20):
                seen += piece
        client.socket.setblocking(True)
        assert seen.count(b"SELECT 1\0") < 4_999
        assert client.reply().status == "I"


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("seed", range(10 if LONG else 1))
def test_kill(tmp_path: Path, seed: int) -> None:
    """SIGKILL at random moments of charges: none is lost, and an answer that was given stays and is free.

    A question is charged again only where it was under way at a kill, once for each: if the journal has its charge or
    its answer, and the file has not, it may have been given.
    `HYPOTHESIS_PROFILE=long` kills 1,000 times: 100 times over each of ten databases.
    """
    path, chance = make(tmp_path / "people.duckdb", epsilon="9000"), random.Random(seed)
    add_users(path)
    given: dict[int, str | None] = {}
    cut_off: Counter[int] = Counter()
    for _ in range(100 if LONG else 3):
        process, port = start(path)
        # What was asked when the last server was killed is asked again, and then what nobody has asked.
        last, answered, sent = max(given, default=0), threading.Event(), set[int]()

        def ask(which: int) -> None:
            # Each question is asked by two at a time.
            try:
                with Client("127.0.0.1", port).log_in(("ana", "bob")[which % 2]) as client:  # noqa: B023
                    for at in range(last - 1 + which // 2, last + 400, 2):  # noqa: B023
                        sent.add(at)  # noqa: B023
                        found = client.ask(query(counted(at)))
                        assert not found.errors, found.errors
                        assert given.setdefault(at, found.rows[0][0]) == found.rows[0][0]
                        if at > last + 2:  # noqa: B023
                            answered.set()  # noqa: B023
            except (ConnectionError, OSError):
                return

        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(ask, which) for which in range(4)]
            assert answered.wait(60)
            time.sleep(chance.uniform(0, 0.4))
            process.kill()
            for one in asking:
                one.result(60)
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
        cut_off.update(sent - given.keys())
    with serving(path) as served, Client(served.host, served.port, seconds=60).log_in("stu") as steward:
        # The function takes in what only the journal has; the table by itself does not.
        of_charges = "FROM privacy_ledger() WHERE action = 'charge'"
        ((lines, spent),) = steward.ask(query(f"SELECT count(*), sum(epsilon)::INT {of_charges}")).rows
        assert lines == spent
        age = "regexp_extract(what, '-?[0-9]+')"
        counts = steward.ask(query(f"SELECT {age}, count(*) {of_charges} GROUP BY 1")).rows
        charged = {int(at or 0): int(count or 0) for at, count in counts}
        assert given.keys() <= charged.keys()
        assert {at: count for at, count in charged.items() if count > 1 + cut_off[at]} == {}
        with Client(served.host, served.port, seconds=60).log_in("ana") as client:
            for at, answer in given.items():
                assert client.ask(query(counted(at))).rows == [(answer,)]
        assert steward.ask(query(f"SELECT count(*) {of_charges}")).rows == [(lines,)]
        print(f"{lines} charges, {len(given)} answers")


def counted(age: int) -> str:
    return f"SELECT count(*) FROM persons WHERE age < {age}"
