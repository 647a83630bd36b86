"""Questions from the grammar, really drawn: no record makes one fail, changes its form, or moves it too far."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from duckanon.errors import PolicyRefusal
from duckanon.releases.paid_questions import AggregatesQuestion, PaidQuestion
from tests.noninterference import leaks
from tests.noninterference.answers import asked, contribution, difference, too_far
from tests.noninterference.grown import grown
from tests.noninterference.harness import injecting
from tests.noninterference.worlds import Facts, Pair, make, opened, pair

# Each person's records count up to twice; nothing is published.
FACTS = Facts(1, "person", 2, False, False, False, "3000", "NULL")
QUESTIONS = 25


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("grown") / "pair"
    with injecting():
        make(folder, FACTS)
        with opened(folder, FACTS) as found:
            yield found


def wrong(worlds: Pair, one: PaidQuestion, seed: int) -> list[str]:
    """All that is wrong with a question. Two privacy units are looked at."""
    first, second = worlds.first._con.cursor(), worlds.second._con.cursor()
    reasons = [difference(first, second, one, seed)]
    if reasons == [None]:
        reasons.append(too_far(second, one, 2))
        if isinstance(one, AggregatesQuestion):
            reasons.append(contribution(second, one, 2))
    return [reason for reason in reasons if reason]


@pytest.mark.ci("two databases with each question's twin")
def test_nothing_is_wrong_with_questions_that_grew(worlds: Pair) -> None:
    found = list(grown(worlds.first, random.Random(2), QUESTIONS, tries=2_000))
    assert len(found) == QUESTIONS
    assert {one.kind for one in found} == {"aggregates", "group sizes"}
    # Filters are what this is for.
    assert sum(bool(one.filter) for one in found) > QUESTIONS // 4
    for at, one in enumerate(found):
        assert wrong(worlds, one, at) == [], one.what


# Each fails on both ends of DuckDB: what its optimiser takes out of a condition differs.
@pytest.mark.long("that the harness sees a leak: a test of the test")
@pytest.mark.parametrize("condition", ["sex::INTEGER = 7", "income * income > 5", "sex::DATE = DATE '2020-01-01'"])
def test_a_filter_that_fails_on_a_record_is_seen(condition: str, worlds: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    leaks.any_filter(monkeypatch)
    raw = worlds.second._con.cursor()
    raw.execute("INSERT INTO persons (pid, sex, income, age) VALUES (7, 'x', 9223372036854775807, -5)").fetchall()
    one = asked(worlds.first, f"SELECT count(*) FROM persons WHERE {condition}")
    assert wrong(worlds, one, 0) == ["an answer could not be drawn"]


# A table that was built again with a collation answers nothing; making the pair must not ask it.
COLLATED = next(seed for seed in range(1, 10_000, 2) if Facts.of(seed).collated)


def test_a_pair_whose_table_has_a_collation_can_be_made(tmp_path: Path) -> None:
    with injecting(), pair(tmp_path / "pair", COLLATED) as found:
        assert found.facts.collated
        with pytest.raises(PolicyRefusal, match="ask the steward"):
            found.first.execute("SELECT count(*) FROM persons")
