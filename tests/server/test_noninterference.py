"""Non-interference through the wire: two servers of equal public facts, and every byte that comes back is equal."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.noninterference import leaks
from tests.noninterference.harness import _CLOCK, injecting
from tests.noninterference.statements import sent
from tests.noninterference.worlds import Facts, make
from tests.server.client import SYNC, Client, describe, parse
from tests.server.served import Served, serving
from tests.server.ways import WAYS, reset

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
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
        with serving(folder / "first" / "x.duckdb") as first, serving(folder / "second" / "x.duckdb") as second:
            yield first, second


def both(pair: tuple[Served, Served], user: str = "ana") -> list[Client]:
    return [Client(one.host, one.port, seconds=120).log_in(user) for one in pair]


def seen(client: Client, way: str, sql: str, values: tuple[object, ...] = ()) -> str:
    return _CLOCK.sub("<time>", WAYS[way](client, sql, values).raw.decode(errors="replace"))


def test_nothing_differs(pair: tuple[Served, Served]) -> None:
    chance, (first, second), ran = random.Random(11), both(pair), 0
    for at in range(20_000 if LONG else 250):
        one, way = sent(chance), chance.choice(list(WAYS))
        if "\0" in one.sql:
            continue
        values = tuple("" if value is None else value for value in one.parameters)
        told = [seen(client, way, one.sql, values) for client in (first, second)]
        assert told[0] == told[1], (way, one)
        described = [client.ask(parse(one.sql), describe("S"), SYNC).raw for client in (first, second)]
        assert described[0] == described[1], one
        ran += "SELECT" in told[0][-40:]
        if at % 20 == 19:
            for look in LOOK:
                assert seen(first, "simple", look) == seen(second, "simple", look), look
            reset(first)
            reset(second)
    assert ran > 20


def test_the_harness_sees_a_leak(pair: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch) -> None:
    leaks.closed_or_missing(monkeypatch)
    monkeypatch.setattr("duckanon.guard.SharedCatalog.decided", lambda *_: None)
    first, _ = both(pair)
    assert seen(first, "simple", "FROM salaries") != seen(first, "simple", "FROM nothing_there")
