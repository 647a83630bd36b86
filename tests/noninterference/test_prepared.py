"""What is prepared interferes with nothing.

What an analyst observes follows from what was measured, and that from noise and exact marginals alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import duckanon
from duckanon.releases import mechanisms
from duckanon.releases.mechanisms import marginals
from duckanon.releases.preparations import FollowingQuestion, PreparationQuestion
from tests.amounts import many
from tests.engines.seeded import Seeded
from tests.noninterference.__main__ import compare
from tests.noninterference.harness import Comparison, Sent, injecting
from tests.noninterference.test_noninterference import WITH_DELTA
from tests.noninterference.worlds import Pair, make, opened

FACTS = replace(WITH_DELTA, prepared=True)
FOLLOWING = (
    "SELECT count(*) FROM persons",
    "SELECT state, count(*) AS n, low(count(*)), high(count(*)) FROM persons GROUP BY state",
    "SELECT vote, sick, count(*) FROM persons WHERE state <> 'S1' GROUP BY ALL",
    "SELECT state, avg(age), low(avg(age)), high(sum(age)) FROM persons GROUP BY ROLLUP (state)",
    "SELECT m, 100.0 * count(*) / sum(count(*)) OVER () FROM persons WHERE sex = 'x' GROUP BY m",
    "SELECT state, count(*) FILTER (WHERE vote) FROM persons GROUP BY state HAVING count(*) > 10",
    "SELECT state, 1 // count(*) FROM persons GROUP BY state",
    "SELECT state, count(*) FILTER (WHERE vote), avg(age), count(*) FROM persons GROUP BY state",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found: Path = tmp_path_factory.mktemp("prepared") / "pair"
    with injecting():
        make(found, FACTS)
    return found


@pytest.fixture
def pair(folder: Path) -> Iterator[Pair]:
    with injecting(), opened(folder, FACTS) as found:
        yield found


@pytest.mark.ci("two databases with each question's twin; that numbers differ as the exact ones do is tried without it")
def test_nothing_differs(pair: Pair) -> None:
    comparison = Comparison(pair.first, pair.second)
    for sql in (*FOLLOWING, *FACTS.following()):
        comparison.send(Sent(sql))
        comparison.send(Sent(f"FROM explain_privacy('{sql.replace(chr(39), chr(39) * 2)}')"))
    assert FACTS.unit != "record"
    for sql in (FOLLOWING[1], *FACTS.following()):
        answers = pair.first._guard.decide(sql).answers
        assert answers
        assert all(isinstance(one, FollowingQuestion) for one in answers), sql
    compare(comparison, random.Random(8), [], many(100))
    assert comparison.look()
    assert not comparison.differences, comparison.differences[0]
    assert not comparison.unexpected, comparison.unexpected[0]


@pytest.mark.parametrize("call", FACTS.preparations(), ids=["persons", "bills"])
def test_numbers_differ_as_the_exact_ones_do(call: str, tmp_path: Path) -> None:
    make_records(tmp_path)
    drawn, exact, rows = [], [], []
    for which in ("first", "second"):
        with duckanon.connect(tmp_path / "pair" / which / "x.duckdb", role="steward") as con:
            question = asked(con, call)
            cursor = con._con.cursor()
            answer = mechanisms.draw(cursor, question, Seeded(4))
            drawn.append(np.asarray(answer.column("n")))
            rows.append(answer.drop(["n"]))
            exact.append(np.concatenate([one.reshape(-1) for one in marginals.marginals(cursor, question).values()]))
    assert rows[0].equals(rows[1])
    assert (exact[0] != exact[1]).any()
    np.testing.assert_array_equal(drawn[0] - drawn[1], exact[0] - exact[1])


def make_records(path: Path) -> None:
    with injecting():
        make(path / "pair", WITH_DELTA)


def asked(con: duckanon.Connection, call: str) -> PreparationQuestion:
    """The question that a call of prepare charges."""
    found: list[PreparationQuestion] = []
    drawn = mechanisms.draw

    def spy(own: object, question: PreparationQuestion) -> object:
        found.append(question)
        return drawn(own, question)  # type: ignore[arg-type]

    with mock.patch.object(mechanisms, "draw", spy):
        con.execute(call).fetchall()
    return found[0]
