"""The current time in a question about a protected table: written out to the day, so that a refresh is no charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

import duckanon
from duckanon.rewrite.algebra.moments import Now

_TABLE = """
CREATE TABLE visits AS SELECT i AS person, TIMESTAMP '2026-02-01' + to_hours(i) AS ts, ['a', 'b'][1 + i % 2] AS kind
FROM range(1000) r(i)
"""
_PROTECT = (
    "SELECT protect('visits', epsilon := 100, per_query := 1, public := ['kind'], domains := {'kind': ['a', 'b']})"
)
RECENT = "SELECT count(*) FROM visits WHERE ts >= now() - INTERVAL '7 days'"


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckanon.Analyst]:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        steward.execute(_TABLE)
        steward.execute(_PROTECT).fetchall()
    with duckanon.connect(path, role="analyst") as found:
        yield found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the clock, in UTC."""

    def set_to(text: str) -> None:
        moment = datetime.fromisoformat(text)
        monkeypatch.setattr(Now, "in_zone", classmethod(lambda cls, _: cls.at(moment, UTC)))

    return set_to


def spent(con: duckanon.Analyst) -> Fraction:
    ((found,),) = con.execute("SELECT spent FROM privacy_budget()").fetchall()
    return Fraction(found)


def test_a_refresh_on_the_same_day_is_free(con: duckanon.Analyst, clock: Callable[[str], None]) -> None:
    clock("2026-02-28 08:00:00")
    first = con.execute(RECENT).fetchall()
    assert spent(con) == 1
    for later in ("2026-02-28 08:00:01", "2026-02-28 23:59:59.999999"):
        clock(later)
        assert con.execute(RECENT).fetchall() == first
    assert spent(con) == 1
    # The same with the day written out is the same question, and so are the other names of the time.
    same = "SELECT count(*) FROM visits WHERE ts >= TIMESTAMP '2026-02-21 00:00:00'"
    others = (same, RECENT.replace("now()", "current_timestamp"), RECENT.replace("now()", "localtimestamp"))
    assert all(con.execute(one).fetchall() == first for one in others)
    assert spent(con) == 1
    clock("2026-03-01 00:00:00")
    con.execute(RECENT).fetchall()
    assert spent(con) == 2


def test_it_is_said_what_was_written_out(con: duckanon.Analyst, clock: Callable[[str], None]) -> None:
    clock("2026-02-28 08:00:00")
    con.execute(RECENT).fetchall()
    assert con.decision is not None
    (said,) = [step.reason for step in con.decision.steps if step.epsilon is not None]
    assert said.endswith("now() is 2026-02-28 00:00 UTC in its conditions all day, so asking again today is free.")
    con.execute("SELECT count(*) FROM visits WHERE ts >= TIMESTAMP '2026-02-21'").fetchall()
    assert "now()" not in con.decision.steps[0].reason


@pytest.mark.parametrize(
    ("kept", "same", "other"),
    [
        ("date_trunc('hour', now())", "2026-02-28 08:59:59", "2026-02-28 09:00:00"),
        ("date_trunc('day', now() - INTERVAL '6 hours')", "2026-03-01 05:59:59", "2026-03-01 06:00:00"),
        ("date_trunc('minute', now()) - INTERVAL '3 hours'", "2026-02-28 08:00:59", "2026-02-28 08:01:00"),
        ("date_trunc('month', now())", "2026-02-01 00:00:00", "2026-03-01 00:00:00"),
    ],
)
def test_of_a_truncated_time_so_much_counts(
    con: duckanon.Analyst, clock: Callable[[str], None], kept: str, same: str, other: str
) -> None:
    asked = f"SELECT count(*) FROM visits WHERE ts < {kept}"
    clock("2026-02-28 08:00:00")
    con.execute(asked).fetchall()
    clock(same)
    con.execute(asked).fetchall()
    assert spent(con) == 1
    clock(other)
    con.execute(asked).fetchall()
    assert spent(con) == 2


def test_elsewhere_it_is_the_time(con: duckanon.Analyst) -> None:
    """What is shown beside an answer, and what reads no protected table, is not written out."""
    ((is_now, count),) = con.execute(
        "SELECT now() > TIMESTAMPTZ '2026-01-01 00:00:00+00', count(*) FROM visits"
    ).fetchall()
    assert is_now
    assert isinstance(count, int)
    assert con.execute("SELECT abs(epoch(now()) - epoch(get_current_timestamp())) < 60").fetchall() == [(True,)]
