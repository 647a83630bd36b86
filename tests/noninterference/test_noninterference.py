"""Non-interference in short, and that the harness catches leaks. `python -m tests.noninterference` is the long run."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from duckanon.engines.noise import Gaussian
from duckanon.releases.paid_questions import AggregatesQuestion
from tests.noninterference import leaks
from tests.noninterference.__main__ import compare
from tests.noninterference.answers import asked, contribution, difference, moved, questions, too_far
from tests.noninterference.harness import Comparison, Sent, injecting
from tests.noninterference.worlds import Facts, Pair, make, opened

# Each person's records count up to twice; nothing is published, and the budget is large.
FACTS = Facts(1, "person", 2, False, False, False, "3000", "NULL")
# The same with a delta: noise is Gaussian where that is nearer to the truth.
WITH_DELTA = replace(FACTS, delta="1e-9")
STATEMENTS = 100
_TWINS = "that the harness sees leaks: a test of the test"
BY_STATE = "SELECT state, count(*) FROM persons GROUP BY state"
# The pair has an answer to the question by state already, and none to this one.
BY_VOTE = "SELECT vote, count(*) FROM persons GROUP BY vote"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("noninterference") / "pair"
    with injecting():
        make(folder, FACTS)
    return folder


@pytest.fixture
def pair(made: Path, tmp_path: Path) -> Iterator[Pair]:
    """A pair of databases of the test's own."""
    shutil.copytree(made, tmp_path / "pair")
    with injecting(), opened(tmp_path / "pair", FACTS) as found:
        yield found


@pytest.fixture(scope="module")
def made_with_delta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("noninterference") / "delta"
    with injecting():
        make(folder, WITH_DELTA)
    return folder


@pytest.fixture
def pair_with_delta(made_with_delta: Path, tmp_path: Path) -> Iterator[Pair]:
    shutil.copytree(made_with_delta, tmp_path / "delta")
    with injecting(), opened(tmp_path / "delta", WITH_DELTA) as found:
        yield found


# --- both halves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "statements"),
    [(3, STATEMENTS), pytest.param(4, 250, marks=pytest.mark.ci("more than twice as many statements"))],
)
def test_nothing_differs_between_databases_of_equal_public_facts(pair: Pair, seed: int, statements: int) -> None:
    comparison = Comparison(pair.first, pair.second)
    compare(comparison, random.Random(seed), [], statements)
    assert not comparison.differences, comparison.differences[0]
    assert not comparison.unexpected, comparison.unexpected[0]
    # Of what is neither refused nor an error of DuckDB's there must be enough for the test to mean something.
    assert comparison.ran > statements // 10


@pytest.mark.ci("the same with noise that is Gaussian too")
def test_nothing_differs_with_a_delta(pair_with_delta: Pair) -> None:
    test_nothing_differs_between_databases_of_equal_public_facts(pair_with_delta, 5, STATEMENTS)


# Long runs found these: what they raised was no sentence of ours.
RAISED = (
    "SELECT size, count(*) AS n FROM (SELECT household_id, count(*) AS size FROM persons "
    "WHERE county LIKE 'C!%' ESCAPE '!' GROUP BY 1) GROUP BY 1",
    "SELECT sex, avg((sick::mood <> 840171)::INT) FROM persons GROUP BY sex",
    "SELECT sick, avg((TRY_CAST(n AS mood) <> 1)::INT) FROM persons GROUP BY sick",
    "SELECT a.n - b.n FROM (SELECT count(*) n FROM persons) a, (SELECT count(*) n FROM persons WHERE rank = 1) b",
)


def test_what_long_runs_found(pair: Pair) -> None:
    comparison = Comparison(pair.first, pair.second)
    for sql in RAISED:
        assert comparison.send(Sent(sql))
    assert not comparison.unexpected


def test_each_kind_of_answer_alone(pair: Pair) -> None:
    first, second = pair.first._con.cursor(), pair.second._con.cursor()
    kinds = set()
    for at, one in enumerate(questions(pair.first, "pid")):
        assert difference(first, second, one, at) is None, one.what
        assert too_far(second, one, 3) is None, one.what
        kinds.add(one.kind)
    assert kinds == {"aggregates", "group sizes"}


def test_each_kind_of_answer_alone_with_a_delta(pair_with_delta: Pair) -> None:
    test_each_kind_of_answer_alone(pair_with_delta)
    found = [one for one in questions(pair_with_delta.first, "pid") if isinstance(one, AggregatesQuestion)]
    assert any(isinstance(one.noise(each), Gaussian) for one in found for each, _ in one.measures)


def test_what_each_unit_contributes(pair: Pair) -> None:
    con = pair.second._con.cursor()
    for sql in (BY_STATE, "SELECT sex, count(*) FROM persons WHERE age > 17 GROUP BY sex"):
        one = asked(pair.second, sql)
        assert contribution(con, one) is None  # type: ignore[arg-type]


# --- leaks that half (a) catches --------------------------------------------------------------------------------------

CAST = "SELECT count(*) FROM persons WHERE pid < 40 AND name::INTEGER = 7"
SEEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], list[str]]] = {
    "a count of records decides": (leaks.a_count_decides, ["fill", BY_VOTE]),
    "a domain is read from the data": (leaks.domain_of_the_data, ["empty", BY_VOTE]),
    "counted before the charge, and the error told": (leaks.counted_first, [CAST]),
    "an error quotes a value": (leaks.value_in_an_error, [CAST]),
    "a repeat is free by content": (leaks.repeat_by_content, ["fill", BY_VOTE, "empty", BY_VOTE, "look"]),
    "sizes in metadata": (leaks.sizes_in_metadata, ["FROM information_schema.tables"]),
    "did you mean": (leaks.did_you_mean, ["FROM salary"]),
    "closed is not as missing": (leaks.closed_or_missing, ["FROM salaries"]),
}


def _filled(con: duckdb.DuckDBPyConnection, count: int) -> None:
    """Have so many records, of a person each."""
    con.execute("DELETE FROM persons").fetchall()
    con.execute(
        "INSERT INTO persons (pid, household_id, state, county, vote) "
        f"SELECT i, i % 20, 'S0', 'C0', i % 2 = 0 FROM range({count}) r(i)"
    ).fetchall()


def _run(comparison: Comparison, statements: list[str]) -> None:
    for sql in statements:
        if sql in ("fill", "empty"):
            _filled(comparison.first._con.cursor(), 100)
            _filled(comparison.second._con.cursor(), 0 if sql == "empty" else 10)
        elif sql == "look":
            comparison.look()
        else:
            comparison.send(Sent(sql))


@pytest.mark.long(_TWINS)
@pytest.mark.parametrize("leak", SEEN)
def test_a_leak_is_seen(leak: str, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, statements = SEEN[leak]
    comparison = Comparison(pair.first, pair.second)
    patch(monkeypatch)
    _run(comparison, statements)
    assert comparison.differences


@pytest.mark.long(_TWINS)
def test_without_a_leak_nothing_is_seen(pair: Pair) -> None:
    comparison = Comparison(pair.first, pair.second)
    for _, statements in SEEN.values():
        _run(comparison, statements)
    assert comparison.look()
    assert not comparison.differences


# --- leaks that half (b) catches --------------------------------------------------------------------------------------

# DuckDB evaluates what TRY holds for many records at once. Only where that fails each is evaluated alone, and then the
# cast is tried for all of them: one record moves the counts of all.
TRIED = ("NOT TRY(pid = 2 AND sex::INTEGER = 7)", "TRY(pid = 2 AND sex::INTEGER = 7) IS NULL")


@pytest.mark.long(_TWINS)
@pytest.mark.parametrize("condition", TRIED)
def test_try_in_a_filter_is_seen(condition: str, pair: Pair) -> None:
    comparison = Comparison(pair.first, pair.second)
    assert comparison.send(Sent(f"SELECT count(*) FROM persons WHERE {condition}"))
    assert not comparison.ran
    # Were it not refused:
    one = replace(asked(pair.first, "SELECT count(*) FROM persons"), filter=(condition,))
    con = pair.first._con.cursor()
    # Without a trace of deleted records, which DuckDB may cast along.
    con.execute("CREATE OR REPLACE TABLE persons AS FROM persons LIMIT 0").fetchall()
    con.execute("INSERT INTO persons (pid, sex) SELECT i, 'z' FROM range(3, 500) r(i)").fetchall()
    ((distance, made_for),) = moved(con, one, "INSERT INTO persons (pid, sex) VALUES (2, 'x')")
    assert distance > 100 * made_for


@pytest.mark.long(_TWINS)
@pytest.mark.parametrize(
    "leak", [leaks.empty_cells_dropped, leaks.noise_of_the_count], ids=["empty cells dropped", "noise of the count"]
)
def test_a_leak_in_the_form_or_the_noise_is_seen(
    leak: Callable[[pytest.MonkeyPatch], None], pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = asked(pair.first, BY_STATE)
    leak(monkeypatch)
    first, second = pair.first._con.cursor(), pair.second._con.cursor()
    _filled(first, 100)
    _filled(second, 10)
    assert any(difference(first, second, one, seed) is not None for seed in range(9))


ORDERS = {
    "all records of a unit count": leaks.unbounded,
    "the first records of all units": leaks.first_of_all,
    "bounded before the filter": leaks.bounded_before_the_filter,
    "keys by a collation": leaks.keys_by_collation,
}


@pytest.mark.long(_TWINS)
@pytest.mark.parametrize("leak", ORDERS)
def test_a_wrong_order_of_contribution_is_seen(leak: str, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    con = pair.first._con.cursor()
    con.execute(
        "DELETE FROM persons; INSERT INTO persons (pid, sex, age) "
        "SELECT CASE WHEN i < 40 THEN i % 9 ELSE i END, ['1', 'x', 'X'][1 + i % 3], i FROM range(45) r(i)"
    ).fetchall()
    one = asked(pair.first, "SELECT sex, count(*) FROM persons WHERE age > 20 GROUP BY sex")
    assert contribution(con, one) is None  # type: ignore[arg-type]
    assert too_far(con, one) is None
    ORDERS[leak](monkeypatch)
    assert contribution(con, one) is not None  # type: ignore[arg-type]


@pytest.mark.long(_TWINS)
def test_unbounded_contribution_moves_the_counts_too_far(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    con = pair.first._con.cursor()
    con.execute(
        "DELETE FROM persons; INSERT INTO persons (pid, household_id, state, county) "
        "SELECT 1, i, 'S0', 'C0' FROM range(9) r(i)"
    ).fetchall()
    sizes = "SELECT size, count(*) FROM (SELECT household_id, count(*) AS size FROM persons GROUP BY 1) GROUP BY 1"
    asks = [asked(pair.first, BY_STATE), asked(pair.first, sizes)]
    assert [too_far(con, one) for one in asks] == [None, None]
    leaks.unbounded(monkeypatch)
    assert None not in [too_far(con, one) for one in asks]
