"""Threads on one analyst's connection: no name that is closed is ever seen, and each cursor has its own rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError
from tests.guard.residents import analyst, decide


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckanon.Analyst]:
    path = tmp_path / "x.duckdb"
    decide(
        path,
        "CREATE TABLE people AS SELECT i AS id, 'canary ' || i AS name, i % 2 AS sex FROM range(90) r(i); "
        "CREATE TABLE hidden AS SELECT 'canary' AS canary_column; CREATE TABLE lookup AS FROM range(3000) r(a); "
        "SELECT open_table('lookup'), protect('people', privacy_unit := 'id', rows_per_unit := 1, epsilon := 100, "
        "per_query := 0.5, public := ['sex'], domains := {'sex': ['0', '1']})",
    )
    with analyst(path) as con:
        yield con


def together(*works: Callable[[], None]) -> None:
    """Run works at the same time. DuckDB's own errors, of a result that another thread took, are no matter."""
    failed: list[BaseException] = []
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        begin.wait()
        for _ in range(25):
            try:
                work()
            except (duckdb.Error, DuckanonError) as error:
                if "canary" in str(error):
                    failed.append(error)
            except BaseException as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    assert not failed, failed[0]


def harmless(rows: object) -> None:
    """What comes out of a shared connection may be another thread's rows, but never a record, or the catalog's rows."""
    text = str(rows)
    assert "canary" not in text
    assert "hidden" not in text
    assert "main" not in text


def test_one_connection_for_all(con: duckanon.Analyst) -> None:
    def fetches() -> None:
        con.execute("SELECT a FROM lookup")
        for _ in range(5):
            harmless(con.fetchmany(2))

    def steals() -> None:
        for _ in range(5):
            harmless(con.fetchmany(50))
            harmless(con.fetchall())

    def asks() -> None:
        harmless(con.execute("SELECT sex, count(*) AS n FROM people GROUP BY sex").fetchall())

    def explains() -> None:
        assert con.explain("SELECT sex, count(*) AS n FROM people GROUP BY sex").refusal is None
        assert con.explain("FROM hidden").refusal is not None
        assert con.explain("FROM people").refusal is not None

    def makes() -> None:
        con.execute("CREATE OR REPLACE TEMP TABLE mine AS SELECT a FROM lookup")
        con.execute("DROP TABLE IF EXISTS mine")

    def relates() -> None:
        harmless(con.sql("SELECT a FROM lookup LIMIT 3").fetchall())

    together(fetches, fetches, steals, asks, explains, makes, relates)


def test_a_cursor_for_each(con: duckanon.Analyst) -> None:
    """With a connection of its own each thread gets its own rows, all of them."""

    def own(number: int) -> Callable[[], None]:
        cursor = con.cursor()

        def work() -> None:
            rows = cursor.execute(f"SELECT a, {number} FROM lookup WHERE a < 7 ORDER BY a").fetchall()
            assert rows == [(a, number) for a in range(7)]
            cursor.execute(f"CREATE OR REPLACE TEMP TABLE mine AS SELECT {number} AS n")
            assert cursor.execute("FROM mine").fetchall() == [(number,)]
            assert len(cursor.execute("SELECT sex, count(*) FROM people GROUP BY sex").fetchall()) == 2

        return work

    together(*(own(number) for number in range(6)))
    assert con.execute("SELECT charges FROM privacy_budget()").fetchall() == [(1,)]
