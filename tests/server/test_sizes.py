"""A short text may not stand for a large statement: what it means is bounded as its text is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from duckanon.errors import UnsupportedQuery
from tests.guard.residents import analyst, decide, make

TOO_LARGE = "too large once its views, macros and WITH are written out"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = make(tmp_path_factory.mktemp("sizes") / "people.duckdb")
    decide(found, "CREATE MACRO twice(x) AS x + x")
    return found


def doubled(times: int) -> str:
    parts = ["a0 AS (SELECT 1 AS x)"] + [
        f"a{at + 1} AS (SELECT l.x FROM a{at} AS l, a{at} AS r)" for at in range(times)
    ]
    return f"WITH {', '.join(parts)} SELECT count(*) FROM a{times}"


def test_with_that_doubles(path: Path) -> None:
    with analyst(path) as con:
        assert con.execute(doubled(6)).fetchall() == [(1,)]
        began = time.monotonic()
        with pytest.raises(UnsupportedQuery, match=TOO_LARGE):
            con.execute(doubled(30))
        assert time.monotonic() - began < 2


def test_temporary_views_that_double_also_while_they_are_made(path: Path) -> None:
    with analyst(path) as con:
        con.execute("CREATE TEMP VIEW v0 AS SELECT 1 AS x")
        began, at, refusal = time.monotonic(), 0, None
        while refusal is None and at < 40:
            try:
                con.execute(f"CREATE TEMP VIEW v{at + 1} AS SELECT l.x FROM v{at} AS l, v{at} AS r")
            except UnsupportedQuery as error:
                refusal = error
            at += 1
        assert refusal is not None
        assert time.monotonic() - began < 20


@pytest.mark.long("a view of 8,000 constants is read twenty times")
def test_views_of_long_texts(path: Path) -> None:
    with analyst(path) as con:
        con.execute(f"CREATE TEMP VIEW long_one AS SELECT 1 IN ({', '.join(['1'] * 8000)}) AS x")
        read = ", ".join(f"long_one AS r{at}" for at in range(20))
        began = time.monotonic()
        with pytest.raises(UnsupportedQuery, match=TOO_LARGE):
            con.execute(f"SELECT r0.x FROM {read}")
        assert time.monotonic() - began < 40


def test_macros_that_double_what_they_are_called_with(path: Path) -> None:
    with analyst(path) as con:
        call = "1"
        for _ in range(16):
            call = f"twice({call})"
        began = time.monotonic()
        with pytest.raises(UnsupportedQuery):
            con.execute(f"SELECT {call}")
        assert time.monotonic() - began < 10
