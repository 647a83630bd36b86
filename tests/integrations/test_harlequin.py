"""Harlequin itself: its headless command, and its app under Textual's pilot."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harlequin.exception import HarlequinConfigError, HarlequinConnectionError, HarlequinQueryError

from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.integrations.harlequin import DuckanonAdapter
from duckanon.integrations.roles import ROLES
from tests.integrations.protected import COUNT, RECORDS, make


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("harlequin") / "people.duckdb")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without anybody's settings, history or ~/.duckdbrc."""
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


def hsql(*given: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("hsql")), "-a", "duckanon", *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=300)


def test_hsql_as_an_analyst(people: Path) -> None:
    done = hsql(people, "--role", "analyst", "-tA", "-c", f"{COUNT}; FROM cities ORDER BY size LIMIT 1; {RECORDS}")
    assert done.returncode == 1
    women, men, city = done.stdout.split()
    assert women.startswith("f|")
    assert men.startswith("m|")
    assert city == "c0|0"
    told = [line for line in done.stderr.splitlines() if line.startswith("-- ")]
    assert told[0].startswith("-- count of persons: rewritten (epsilon 0.5, edition 1). The counts have noise")
    assert told[1] == "-- query: runs. It touches no protected table."
    assert "Records of persons are protected." in done.stderr


def test_hsql_as_a_steward(people: Path, home: Path) -> None:
    (home / ".duckdbrc").write_text(
        "CREATE TEMP TABLE made AS SELECT 3 AS n;\n.mode csv\nCREATE TEMP VIEW seen AS FROM made;"
    )
    done = hsql(people, "--role", "steward", "-tA", "-c", "FROM seen; FROM k_report('persons', ['nope'])")
    assert done.stdout.strip() == "3"
    assert done.returncode == 1
    # The error is our sentence, without DuckDB's words around it.
    assert done.stderr.splitlines()[-1].startswith('hsql: error: There is no column "nope" in persons;')


def test_what_an_analyst_cannot_have_is_said(people: Path) -> None:
    adapter = DuckanonAdapter([str(people), ":memory:"], role="analyst", extension=["spatial"])
    with pytest.raises(HarlequinConnectionError, match="leave out more than one database, --extension, or say --role"):
        adapter.connect()
    with pytest.raises(HarlequinConfigError, match="role must be steward or analyst"):
        DuckanonAdapter([str(people)], role="root")
    with pytest.raises(HarlequinConnectionError, match="cannot be made, since its folder does not exist"):
        DuckanonAdapter(["/nowhere/at/all.duckdb"]).connect()


def test_the_catalog_of_an_analyst(people: Path) -> None:
    connection = DuckanonAdapter([str(people)], role="analyst", no_init=True).connect()
    try:
        assert connection._get_schemas("people") == [("main",)]
        assert connection._get_tables("people", "main") == [("cities", "BASE TABLE"), ("persons", "PROTECTED")]
        assert connection._get_tables("other", "main") == []
        types = dict(connection._get_columns("people", "main", "persons"))
        assert types["id"] == "BIGINT"
        assert types["mood"] == "VARCHAR"
        if getattr(DuckanonAdapter, "IMPLEMENTS_CATALOG_SEARCH", False):  # since Harlequin 2.11
            (found,) = connection.search_catalog("mood", "columns")
            assert found.item.type_name == "VARCHAR"
            assert connection.search_catalog("duckanon") == connection.search_catalog("payroll") == []
            assert len(connection.search_catalog("e")) == 7
        offered = {one.label: one for one in connection.get_completions()}
        assert "protect" not in offered
        assert not [name for name in offered if name.startswith("_dk_")]
    finally:
        connection.close()


def test_an_analyst_finds_no_way_around_the_guard(people: Path) -> None:
    """What Harlequin or one of its users can reach by an attribute is guarded."""
    connection = DuckanonAdapter([str(people)], role="analyst", no_init=True).connect()
    try:
        cursor = connection.execute("FROM cities ORDER BY size")
        assert cursor is not None
        assert not [name for name in vars(cursor) if not name.startswith("_")]
        assert cursor.set_limit(2).fetchall().num_rows == 2  # type: ignore[union-attr, unused-ignore]
        assert cursor.fetchone() == ("c0", 0)
        assert connection.execute("CREATE TEMP TABLE two AS SELECT 2 AS n") is None
        for way in (connection.conn, connection.conn.cursor()):
            with pytest.raises(UnsupportedQuery, match="analysts cannot see"):
                way.execute("FROM payroll")
            with pytest.raises(PolicyRefusal):
                way.sql(RECORDS)
        with pytest.raises(HarlequinQueryError, match="Records of persons are protected"):
            connection.execute(RECORDS)
        with pytest.raises(HarlequinQueryError):
            connection.execute("SELEC")
        assert connection.validate_sql("SELEC") == ""
        assert connection.validate_sql("SELECT 1") == "SELECT 1"
    finally:
        connection.close()


def test_the_app(people: Path) -> None:
    asyncio.run(_use_the_app(people))


async def _use_the_app(people: Path) -> None:
    from harlequin import Harlequin

    app: Any = Harlequin(adapter=DuckanonAdapter([str(people)], role="analyst", no_init=True))
    async with app.run_test(size=(120, 36), notifications=True) as pilot:

        async def until(holds: Callable[[], Any]) -> None:
            deadline = time.monotonic() + 60
            while not holds():
                assert time.monotonic() < deadline
                await pilot.pause(0.05)

        async def run(text: str) -> None:
            app.editor.text = text
            app.editor.focus()
            await pilot.pause(0.1)
            await pilot.press("ctrl+j")

        def notices() -> list[str]:
            return [notice.message for notice in app._notifications]

        await until(lambda: app.connection and app.editor and app.editor_collection.word_completer)
        assert notices() == [ROLES["analyst"]]

        ((label, value), *_) = app.editor_collection.word_completer("k_an")
        assert label[0] == "k_anonymize"
        assert label[1].startswith("(tbl, qi, k, ")
        assert value == "k_anonymize("
        ((label, value), *_) = app.editor_collection.word_completer("categ")
        assert value == "categorical := "

        await run(f"{COUNT};")
        await until(lambda: app.results_viewer.get_visible_table() is not None)
        table = app.results_viewer.get_visible_table()
        assert table.backend.data.column_names == ["sex", "n"]
        assert any(line.startswith("count of persons: rewritten (") for line in notices())

        await run(RECORDS)
        await until(lambda: len(app.screen_stack) > 1)
        assert app.screen.header == "duckanon refused the statement."
        assert "Records of persons are protected." in str(app.screen.error)
