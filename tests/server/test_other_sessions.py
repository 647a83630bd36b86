"""pg_cancel_backend and pg_terminate_backend end what the same user runs elsewhere, and nothing of anybody else's."""

from __future__ import annotations

import time
from threading import Thread

import psycopg
import pytest

from duckanon.server import commands

LONG = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"


def running(con: psycopg.Connection[object]) -> tuple[Thread, list[str]]:
    """A statement that runs long, and where its error will be."""
    errors: list[str] = []

    def run() -> None:
        try:
            con.execute(LONG)
        except psycopg.Error as error:
            errors.append(error.sqlstate or type(error).__name__)

    thread = Thread(target=run)
    thread.start()
    time.sleep(0.5)
    return thread, errors


def test_a_user_ends_a_statement_of_its_own(served):
    with served.login("ana") as first, served.login("ana") as second:
        number = first.execute("SELECT pg_backend_pid()").fetchone()[0]
        assert number == first.info.backend_pid
        thread, errors = running(first)
        assert second.execute(f"SELECT pg_cancel_backend({number})").fetchone() == (True,)
        thread.join(10)
        assert errors == ["57014"]
        assert first.execute("SELECT 1").fetchone() == (1,)
        # The same function ends a session when it is asked to.
        assert second.execute(f"SELECT pg_catalog.pg_terminate_backend({number}) AS gone").fetchone() == (True,)
        time.sleep(1)
        with pytest.raises(psycopg.OperationalError):
            first.execute("SELECT 1")


@pytest.mark.parametrize("other", ["bob", "stu"])
def test_nobody_ends_what_another_user_runs(served, other):
    with served.login("ana") as own, served.login(other) as stranger:
        there, missing = (
            stranger.execute(f"SELECT pg_terminate_backend({number})").fetchone()
            for number in (own.info.backend_pid, 1)
        )
        # Whether there is such a session is not told.
        assert there == missing == (False,)
        assert own.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT pg_cancel_backend(7)", commands.EndStatement(7, "pg_cancel_backend", session=False)),
        ("select pg_catalog.pg_terminate_backend ( 7 ) as x;", commands.EndStatement(7, "x", session=True)),
        ("SELECT pg_cancel_backend(7), 1", None),
        ("SELECT pg_cancel_backend(pid) FROM pg_stat_activity", None),
        ("SELECT 1", None),
        ("SELECT set_config('TimeZone', 'UTC', false)", commands.SetConfig("TimeZone", "UTC", "set_config")),
        ("SELECT pg_catalog.set_config('jit', 'off', true) AS x", commands.SetConfig("jit", "off", "x")),
        ("SELECT set_config('jit', 'off', false) FROM pg_settings", None),
        ("SELECT set_config('jit', value, false)", None),
        ("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", commands.Set("TimeZone", "+00:00")),
        ("SET TIME ZONE LOCAL", commands.Set("TimeZone", None)),
        ("SET SESSION TIME ZONE 'UTC'", commands.Set("TimeZone", "UTC")),
    ],
)
def test_how_they_are_read(text, wanted):
    assert commands.command(text) == wanted


def test_set_config_sets_or_fails(served):
    with served.login("ana") as con:
        assert con.execute("SELECT set_config('statement_timeout', '7s', false)").fetchone() == ("7000",)
        assert con.execute("SHOW statement_timeout").fetchone() == ("7000",)
        with pytest.raises(psycopg.Error, match="AT TIME ZONE"):
            con.execute("SELECT set_config('timezone', 'Europe/Berlin', false)")
        assert con.execute("SHOW timezone").fetchone() == ("UTC",)


@pytest.mark.parametrize("zone", ["INTERVAL '+00:00' HOUR TO MINUTE", "'Etc/UTC'", "0", "'GMT'", "INTERVAL '00:00'"])
def test_utc_by_its_names(served, zone):
    with served.login("ana") as con:
        con.execute(f"SET TIME ZONE {zone}")
        assert con.execute("SHOW timezone").fetchone() == ("UTC",)


@pytest.mark.parametrize("zone", ["INTERVAL '+02:00' HOUR TO MINUTE", "'Europe/Berlin'", "2"])
def test_no_other_zone(served, zone):
    with served.login("ana") as con, pytest.raises(psycopg.errors.InvalidParameterValue, match="UTC here"):
        con.execute(f"SET TIME ZONE {zone}")
