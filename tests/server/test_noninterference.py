"""Non-interference through the wire: two servers of equal public facts, and every byte that comes back is equal."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.amounts import LONG
from tests.noninterference import leaks
from tests.noninterference.harness import injecting
from tests.noninterference.worlds import Facts, make
from tests.server.served import Served
from tests.server.two_servers import both, compared, seen, servers

FACTS = Facts(1, "person", 2, False, False, False, "3000", "NULL")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    folder = tmp_path_factory.mktemp("wire") / "pair"
    with injecting():
        make(folder, FACTS)
        with servers(folder) as found:
            yield found


@pytest.mark.ci("two servers with each statement's twin; tests/noninterference asks without servers")
def test_nothing_differs(pair: tuple[Served, Served]) -> None:
    statements = 20_000 if LONG else 500
    found = compared(pair, statements, random.Random(12))
    assert not found.differences
    assert found.ran > statements // 25


@pytest.mark.long("that the harness sees a leak: a test of the test")
def test_the_harness_sees_a_leak(pair: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch) -> None:
    leaks.closed_or_missing(monkeypatch)
    monkeypatch.setattr("duckanon.guard.SharedCatalog.decided", lambda *_: None)
    with both(pair) as (first, _):
        assert seen(first, "simple", "FROM salaries") != seen(first, "simple", "FROM nothing_there")
