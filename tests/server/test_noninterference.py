"""Non-interference through the wire: two servers of equal public facts, and every byte that comes back is equal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.amounts import LONG
from tests.noninterference import leaks
from tests.noninterference.harness import _CLOCK, injecting
from tests.noninterference.statements import sent
from tests.noninterference.worlds import Facts, make
from tests.server.client import SYNC, Client, describe, parse
from tests.server.served import Served, serving
from tests.server.ways import WAYS, reset

FACTS = Facts(1, "person", 2, False, False, False, "3000", "NULL")
# After each statement in turn: what tools ask, and what an analyst may look at.
LOOK = (
    "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL",
    "SELECT relname, reltuples, relkind FROM pg_catalog.pg_class WHERE relkind IN ('r', 'v') ORDER BY ALL",
    "SELECT attrelid::regclass, attname, atttypid FROM pg_catalog.pg_attribute WHERE attnum > 0 ORDER BY ALL",
    "FROM privacy_budget()",
    "SELECT * EXCLUDE (recorded_at) FROM privacy_ledger()",
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    folder = tmp_path_factory.mktemp("wire") / "pair"
    with injecting():
        make(folder, FACTS)
        # With more threads, the order of rows is chance.
        with (
            serving(folder / "first" / "x.duckdb", threads=1) as first,
            serving(folder / "second" / "x.duckdb", threads=1) as second,
        ):
            yield first, second


@contextmanager
def both(pair: tuple[Served, Served]) -> Iterator[tuple[Client, Client]]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(Client(one.host, one.port, seconds=120)) for one in pair)
        yield first.log_in("ana"), second.log_in("ana")


def seen(client: Client, way: str, sql: str, values: tuple[object, ...] = ()) -> tuple[str, str]:
    """The kinds of messages that come back, and all that they say."""
    found = WAYS[way](client, sql, values)
    # Rows as values: the length before a time depends on the time.
    said = f"{found.rows}{found.besides.decode(errors='replace')}"
    return found.kinds, _CLOCK.sub("<time>", said)


@pytest.mark.parametrize(
    ("seed", "statements"),
    [(11, 20_000 if LONG else 100), pytest.param(12, 500, marks=pytest.mark.ci("five times as many statements"))],
)
def test_nothing_differs(pair: tuple[Served, Served], seed: int, statements: int) -> None:
    chance, ran = random.Random(seed), 0
    with both(pair) as (first, second):
        for at in range(statements):
            one, way = sent(chance), chance.choice(list(WAYS))
            if "\0" in one.sql:
                continue
            values = tuple("" if value is None else value for value in one.parameters)
            told = [seen(client, way, one.sql, values) for client in (first, second)]
            assert told[0] == told[1], (way, one)
            described = [client.ask(parse(one.sql), describe("S"), SYNC).raw for client in (first, second)]
            assert described[0] == described[1], one
            ran += "E" not in told[0][0]
            if at % 20 == 19:
                for look in LOOK:
                    assert seen(first, "simple", look) == seen(second, "simple", look), look
                reset(first)
                reset(second)
    assert ran > statements // 25


@pytest.mark.ci("that the harness sees a leak: a test of the test")
def test_the_harness_sees_a_leak(pair: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch) -> None:
    leaks.closed_or_missing(monkeypatch)
    monkeypatch.setattr("duckanon.guard.SharedCatalog.decided", lambda *_: None)
    with both(pair) as (first, _):
        assert seen(first, "simple", "FROM salaries") != seen(first, "simple", "FROM nothing_there")
