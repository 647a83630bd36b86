"""Each rule by itself: what it settles, what it leaves, and what it says, statement by statement and compared whole."""

from __future__ import annotations

import logging
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from duckanon.engines.noise import Laplace
from duckanon.engines.noise_tails import least_width
from duckanon.errors import DuckanonError, PolicyRefusal, UnsupportedQuery
from duckanon.releases.paid_questions import AggregatesQuestion
from duckanon.rewrite import rule_context, rules
from duckanon.rewrite.normalize.resolve import Resolver
from tests.rewrite.fixtures import FIXTURES, Entry, entries
from tests.rewrite.guarded import PUBLISHED, decided, numbered, same

RULES = [one.__name__ for one in rules.RULES]
ALL = [(rule, entry) for rule in RULES for entry in entries(f"rewrite/rules/{rule}")]


def after(sql: str) -> str:
    """What runs in a statement's place, or the refusal."""
    try:
        return numbered(decided(sql).sql or "")
    except DuckanonError as error:
        return f"refused: {error}"


def test_every_rule_has_its_fixture_and_runs() -> None:
    assert sorted(RULES) == sorted(path.stem for path in (FIXTURES / "rewrite" / "rules").glob("*.sql"))
    assert len(RULES) == len(set(RULES))


@pytest.mark.parametrize(("rule", "entry"), [pytest.param(*one, id=f"{one[0]}: {one[1].title}") for one in ALL])
def test_before_and_after(rule: str, entry: Entry) -> None:
    (wanted,) = entry.found
    assert same(after(entry.sql), wanted)


@pytest.mark.parametrize("rule", [one for one in RULES if one != "anything_else"])
def test_without_a_rule_the_guard_is_stricter(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a missing rule would settle is refused, or left to another rule that answers the same question."""
    kept = tuple(one for one in rules.RULES if one.__name__ != rule)
    monkeypatch.setattr("duckanon.rewrite.decide.RULES", kept)
    changed = 0
    for entry in entries(f"rewrite/rules/{rule}"):
        found = after(entry.sql)
        changed += found != entry.found[0]
        if "answer_" in found or "refused: " in found or "answer_" in entry.found[0]:
            assert '"Persons"' not in found.partition("refused: ")[0]
        # A refusal is never turned into an answer.
        if entry.found[0].startswith("refused: "):
            assert found.startswith("refused: "), entry.title
    assert changed, rule


def test_offers_name_what_is_published() -> None:
    with pytest.raises(PolicyRefusal, match=r'What may be asked: FROM "persons_k5" or '):
        decided("SELECT name FROM persons", PUBLISHED)
    with pytest.raises(PolicyRefusal, match=r'FROM "persons_k5"'):
        decided("FROM k_anonymize('persons', ['age'], k := 5)", PUBLISHED)
    with pytest.raises(PolicyRefusal, match=r"Its policy offers no release: ask the steward\.$"):
        decided("SELECT name FROM persons", per_query=None)


def test_what_a_policy_does_not_offer() -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("SELECT count(*) FROM persons", {"per_query": None}, "The policy offers no counts with noise"),
        (
            "SELECT count(*) FROM persons",
            {"privacy_unit": "patient"},
            "The table does not stand as its policy needs it",
        ),
        ("SELECT sex, avg(sick::INT) FROM persons GROUP BY sex", {"per_query": None}, "offers no counts with noise"),
        ("SELECT n, count(*) FROM sizes() GROUP BY n", {"max_size": None}, "The policy offers no group sizes"),
        ("SELECT n, count(*) FROM sizes() GROUP BY n", {"unit": None}, "The policy offers no group sizes"),
        ("SELECT count(*) FROM (SELECT DISTINCT age FROM persons)", {"unit": None}, r"ask for .*count\(DISTINCT age\)"),
        ("SELECT count(*) FROM persons", {"per_query": Fraction(1, 10**5)}, "less than a ten-thousandth"),
        ("SELECT count(*) FROM persons", {"rows_per_unit": 10**9}, "wider than a billion"),
        ("SELECT n, count(*) FROM sizes() GROUP BY n", {"rows_per_unit": 10**6}, "wider than a million"),
        ("SELECT n, count(*) FROM sizes() GROUP BY n", {"max_size": 10**8}, "more than 20,000,000 sizes"),
    ]
    for sql, changed, why in cases:
        with pytest.raises(PolicyRefusal, match=why):
            decided(sql, **changed)


@pytest.mark.parametrize(
    ("asked", "scale"),
    [
        ("SELECT sex, count(*) FROM persons GROUP BY sex", Fraction(4)),
        ("SELECT count(*) FROM persons", Fraction(4)),
        ("SELECT count(DISTINCT pid) FROM persons", Fraction(2)),
        ("SELECT sex, count(DISTINCT pid) FROM persons GROUP BY sex", Fraction(4)),
        ("SELECT sex, avg(sick::INT) FROM persons GROUP BY sex", Fraction(4)),
    ],
)
def test_noise_follows_the_privacy_unit(asked: str, scale: Fraction) -> None:
    """Two records of a unit count, and epsilon is one half."""
    (one,) = decided(asked).answers
    assert isinstance(one, AggregatesQuestion)
    ((measure, _),) = one.measures
    assert (one.noise(measure), one.epsilon) == (Laplace(scale), Fraction(1, 2))
    if "DISTINCT" not in asked:
        (alone,) = decided(asked, privacy_unit=None, rows_per_unit=None).answers
        assert isinstance(alone, AggregatesQuestion)
        assert alone.noise(measure) == Laplace(Fraction(2))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(2), Fraction(12), Fraction(50)])
def test_the_spread_is_the_least_that_holds_95_per_cent(scale: Fraction) -> None:
    from math import exp

    a = exp(-1 / scale)

    def beyond(m: int) -> float:
        return 2 * a ** (m + 1) / (1 + a)

    width = least_width(Laplace(scale), 1)
    assert beyond(width) <= 0.05
    assert width == 0 or beyond(width - 1) > 0.05


def test_one_question_is_charged_once() -> None:
    first, second = decided(
        "SELECT a.n - b.n FROM (SELECT count(*) AS n FROM persons WHERE sick) AS a, "
        "(SELECT count(*) AS n FROM main.persons AS p WHERE p.SICK) AS b"
    ).answers
    assert first == second
    assert first.key == second.key


def test_parameters_need_values() -> None:
    for sql in ("SELECT count(*) FROM persons WHERE age = ?", "SELECT count(*) + $a FROM persons"):
        with pytest.raises(UnsupportedQuery, match="give their values beside it"):
            decided(sql)
    assert decided("SELECT shop FROM shops WHERE shop = ?").answers == []


def test_what_touches_nothing_runs() -> None:
    for sql in (
        "SELECT 1",
        "SELECT state FROM shops",
        "SELECT twice(shop) FROM shops",
        "FROM sides",
        "CREATE TEMP TABLE a AS SELECT shop FROM shops",
        "DROP TABLE mine",
        "SHOW TABLES",
    ):
        assert [str(one.verdict) for one in decided(sql).steps] == ["runs"]
    for sql in ("INSERT INTO shops SELECT 1, 'a'", "DROP TABLE shops", "CREATE TEMP TABLE x.main.a AS SELECT 1"):
        with pytest.raises(UnsupportedQuery):
            decided(sql)


def test_a_recogniser_that_fails_recognises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails closed and says so, without a word of the statement; under test it is raised."""

    def fails(*_: object) -> None:
        raise ValueError("the word pomegranate of the statement")

    monkeypatch.setattr(rule_context, "findings", fails)
    monkeypatch.setattr(Resolver, "shown", fails)
    with pytest.raises(ValueError, match="pomegranate"):
        decided("SELECT count(*) AS pomegranate FROM persons")
    monkeypatch.setattr(rule_context, "STRICT", False)
    with (
        caplog.at_level(logging.ERROR, "duckanon.guard"),
        pytest.raises(PolicyRefusal, match="in a way that is not followed") as raised,
    ):
        decided("SELECT count(*) AS pomegranate FROM persons")
    assert "A recogniser failed" in caplog.text
    assert "pomegranate" not in caplog.text + str(raised.value)


def test_rules_do_not_know_each_other() -> None:
    for rule in rules.RULES:
        assert not set(RULES) & set(rule.__code__.co_names), rule.__name__


def test_the_policy_of_another_version_is_another_question() -> None:
    (one,) = decided("SELECT count(*) FROM persons").answers
    assert replace(one, version=4).key != one.key != replace(one, edition=3).key


@pytest.mark.parametrize(
    "counted",
    ["count(*) OVER (PARTITION BY sex)", "sum(1) OVER w", "sum((edu = 'a')::INT) OVER (w)"],
)
def test_a_count_over_a_window_is_the_count_by_its_partition(counted: str) -> None:
    """Also where the window has a name; a sum keeps the type that DuckDB gives it."""
    over = after(f"SELECT DISTINCT sex, {counted} AS n FROM persons WINDOW w AS (PARTITION BY sex)")
    assert over == after(f"SELECT sex, {counted.partition(' OVER ')[0]} AS n FROM persons GROUP BY sex")
    assert ("HUGEINT" in over) == counted.startswith("sum")
