"""The same statements sent to two servers of equal public facts, and what comes back from each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.noninterference.harness import _CLOCK, is_by_chance
from tests.noninterference.statements import sent
from tests.server.client import SYNC, Client, describe, parse
from tests.server.served import Served, serving
from tests.server.ways import WAYS, reset

# After some statements: what tools ask, and what an analyst may look at.
LOOK = (
    "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL",
    "SELECT relname, reltuples, relkind FROM pg_catalog.pg_class WHERE relkind IN ('r', 'v') ORDER BY ALL",
    "SELECT attrelid::regclass, attname, atttypid FROM pg_catalog.pg_attribute WHERE attnum > 0 ORDER BY ALL",
    "FROM privacy_budget()",
    "SELECT * EXCLUDE (recorded_at) FROM privacy_ledger()",
)
_LOOKED = 20
# The bytes of each that a difference shows.
_SHOWN = 400


@dataclass
class Compared:
    """What was found. ran: how many statements were answered without an error."""

    sent: int = 0
    ran: int = 0
    differences: list[str] = field(default_factory=list)


@contextmanager
def servers(folder: Path) -> Iterator[tuple[Served, Served]]:
    """Both databases of a pair (`tests.noninterference.worlds.make`), served."""
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
    """The kinds of messages that come back, and all that they say: rows, errors and notices."""
    found = WAYS[way](client, sql, values)
    if is_by_chance(sql) and not found.errors:
        return "", "rows by chance"
    # Rows as values: the length before a time depends on the time.
    said = f"{found.rows}{found.besides.decode(errors='replace')}"
    return found.kinds, _CLOCK.sub("<time>", said)


def compared(pair: tuple[Served, Served], statements: int, chance: random.Random) -> Compared:
    """Send statements to both, each in a way of its own, and look around after some of them."""
    found = Compared()
    with both(pair) as (first, second):
        while found.sent < statements:
            one, way = sent(chance), chance.choice(list(WAYS))
            if "\0" in one.sql:
                continue
            found.sent += 1
            values = tuple("" if value is None else value for value in one.parameters)
            told = [seen(client, way, one.sql, values) for client in (first, second)]
            _note(found, f"{way}: {one}", *map(repr, told))
            described = [client.ask(parse(one.sql), describe("S"), SYNC).raw for client in (first, second)]
            _note(found, f"described: {one}", *map(repr, described))
            found.ran += "E" not in told[0][0]
            if found.sent % _LOOKED == 0:
                for look in LOOK:
                    _note(found, look, *(repr(seen(client, "simple", look)) for client in (first, second)))
                reset(first)
                reset(second)
    return found


def _note(found: Compared, sent: str, first: str, second: str) -> None:
    if first != second:
        at = next((at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
        begin = max(0, at - _SHOWN // 4)
        found.differences.append(f"{sent}\n  {first[begin : at + _SHOWN]}\n  {second[begin : at + _SHOWN]}")
