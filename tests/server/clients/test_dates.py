"""Dates, times, lists and time spans as parameters, from drivers of four languages, over open and protected tables."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duckanon.releases import mechanisms
from tests.guard.truthful import truth
from tests.server.clients.conftest import needs
from tests.server.served import Served, password, serving
from tests.server.visits import make

JAR = Path("/usr/share/java/postgresql.jar")
# Of each driver's values: a condition with one parameter, and the same with a constant.
DAY, TIME, MOMENT = date(2024, 3, 1), datetime(2024, 2, 1, 10, 30, 0, 123000), datetime(2024, 2, 1, 10, 30, tzinfo=UTC)
TOKYO = timezone(timedelta(hours=9))
CONDITIONS: list[tuple[str, Any, str]] = [
    ("day >= {}", DAY, "day >= DATE '2024-03-01'"),
    ("ts < {}", TIME, "ts < TIMESTAMP '2024-02-01 10:30:00.123'"),
    ("ts < {}", MOMENT, "ts < TIMESTAMP '2024-02-01 10:30:00'"),
    ("ts < {}::timestamptz", MOMENT.astimezone(TOKYO), "ts < TIMESTAMP '2024-02-01 10:30:00'"),
    (
        "ts >= TIMESTAMP '2024-06-01' - {}::interval",
        timedelta(days=40, hours=3),
        "ts >= TIMESTAMP '2024-04-21 21:00:00'",
    ),
    ("n = ANY({})", [1, 2, 3], "n IN (1, 2, 3)"),
    ("n <> ALL({}::int[])", [1, 2, 3], "n NOT IN (1, 2, 3)"),
    ("kind = ANY({})", ["a", "b"], "kind IN ('a', 'b')"),
    ("day = ANY({})", [date(2024, 3, 1), date(2024, 3, 2)], "day IN (DATE '2024-03-01', DATE '2024-03-02')"),
    ("day BETWEEN {} AND DATE '2024-04-01'", DAY, "day BETWEEN DATE '2024-03-01' AND DATE '2024-04-01'"),
]


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose answers have no noise."""
    path = make(tmp_path_factory.mktemp("visits") / "visits.duckdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanisms, "draw", truth)
        with serving(path) as found:
            yield found


def asked(table: str, condition: str, mark: str) -> str:
    return f"SELECT count(*) FROM {table} WHERE {condition.format(mark)}"


@pytest.mark.parametrize("table", ["visits", "open_visits"])
@pytest.mark.parametrize("is_binary", [False, True])
def test_psycopg(visits: Served, table: str, is_binary: bool) -> None:
    mark = "%b" if is_binary else "%t"
    with visits.login("ana") as con:
        for condition, value, same in CONDITIONS:
            own = con.execute(f"SELECT count(*) FROM open_visits WHERE {same}").fetchall()
            assert con.execute(asked(table, condition, mark), [value]).fetchall() == own, condition


@pytest.mark.parametrize("table", ["visits", "open_visits"])
def test_asyncpg(visits: Served, table: str) -> None:
    needs("asyncpg", library="asyncpg")
    import asyncpg

    async def run() -> None:
        host, port = visits.host, visits.port
        con = await asyncpg.connect(host=host, port=port, user="ana", password=password("ana"), database="visits")
        try:
            for condition, value, same in CONDITIONS:
                if isinstance(value, datetime) and value.tzinfo is not None and "timestamptz" not in condition:
                    continue  # It takes a time for the type that the server says, without a zone.
                own = await con.fetchval(f"SELECT count(*) FROM open_visits WHERE {same}")
                assert await con.fetchval(asked(table, condition, "$1"), value) == own, condition
        finally:
            await con.close()

    asyncio.run(run())


def test_what_python_has_no_value_for(visits: Served) -> None:
    """Time spans of months, and days after all others."""
    with visits.login("ana") as con:
        for text, binary in (("1 mon 2 days 03:00:00", False), ("2 years -1 mons", False)):
            found = con.execute(
                "SELECT (TIMESTAMP '2024-01-31' + %s::interval)::text", [text], binary=binary
            ).fetchall()
            assert found == con.execute(f"SELECT (TIMESTAMP '2024-01-31' + INTERVAL '{text}')::text").fetchall()
        assert con.execute(
            "SELECT n FROM forever WHERE d = %s::date AND t = %s::timestamp", ["infinity", "-infinity"]
        ).fetchall() == [(1,)]
        assert con.execute(
            "SELECT count(*) FROM visits WHERE ts > TIMESTAMP '2024-03-31' - %s::interval", ["1 mon"]
        ).fetchall() == (con.execute("SELECT count(*) FROM open_visits WHERE ts > TIMESTAMP '2024-02-29'").fetchall())


@pytest.mark.ci("Java is started")
def test_pgjdbc(visits: Served) -> None:
    needs("Java", program="java")
    needs("JPype", library="jpype")
    needs("pgjdbc", file=JAR)
    import jpype

    if not jpype.isJVMStarted():
        jpype.startJVM(classpath=[str(JAR)], convertStrings=True)
    given = jpype.JClass("java.util.Properties")()
    given.setProperty("user", "ana")
    given.setProperty("password", password("ana"))
    url = f"jdbc:postgresql://{visits.host}:{visits.port}/visits"
    con = jpype.JClass("org.postgresql.Driver")().connect(url, given)
    sql, time = jpype.JPackage("java").sql, jpype.JPackage("java").time
    objects = jpype.JClass("java.lang.Object")
    cases = [
        ("day >= ?", lambda one: one.setDate(1, sql.Date.valueOf("2024-03-01")), "day >= DATE '2024-03-01'"),
        (
            "ts < ?",
            lambda one: one.setTimestamp(1, sql.Timestamp.valueOf("2024-02-01 10:30:00.123")),
            "ts < TIMESTAMP '2024-02-01 10:30:00.123'",
        ),
        ("day = ?", lambda one: one.setObject(1, time.LocalDate.of(2024, 3, 1)), "day = DATE '2024-03-01'"),
        (
            "ts < ?",
            lambda one: one.setObject(1, time.OffsetDateTime.parse("2024-02-01T10:30:00Z")),
            "ts < TIMESTAMP '2024-02-01 10:30:00'",
        ),
        (
            "n = ANY (?)",
            lambda one: one.setArray(1, con.createArrayOf("int4", jpype.JArray(objects)([1, 2, 3]))),
            "n IN (1, 2, 3)",
        ),
        (
            "kind <> ALL (?)",
            lambda one: one.setArray(1, con.createArrayOf("text", jpype.JArray(objects)(["a", "b"]))),
            "kind = 'c'",
        ),
    ]
    try:
        with visits.login("bob") as other:
            for table in ("open_visits", "visits"):
                for condition, set_value, same in cases:
                    ((own,),) = other.execute(f"SELECT count(*) FROM open_visits WHERE {same}").fetchall()
                    statement = con.prepareStatement(f"SELECT count(*) FROM {table} WHERE {condition}")
                    # The sixth time it sends values in binary.
                    for _ in range(7):
                        set_value(statement)
                        found = statement.executeQuery()
                        assert found.next()
                        assert found.getLong(1) == own, (table, condition)
    finally:
        con.close()


# As tests/server/clients/test_node.py has them.
MODULES = Path(os.environ.get("NODE_PATH") or Path(__file__).parents[3] / ".clients" / "node_modules")
_NODE = """
const [url, ...conditions] = process.argv.slice(1);
const values = [new Date('2024-02-01T10:30:00Z'), ['a', 'b'], [1, 2, 3], '2024-03-01'];
(async () => {
  const found = [];
  if (process.env.DRIVER === 'pg') {
    const { Client } = require('pg');
    const client = new Client(url);
    await client.connect();
    for (const [at, one] of conditions.entries())
      found.push(Number((await client.query(one.replace('{}', '$1'), [values[at]])).rows[0].n));
    await client.end();
  } else {
    const sql = require('postgres')(url, { max: 1, onnotice: () => {} });
    for (const [at, one] of conditions.entries())
      found.push(Number((await sql.unsafe(one.replace('{}', '$1'), [values[at]]))[0].n));
    await sql.end();
  }
  console.log(JSON.stringify(found));
})().catch(error => { console.error(error); process.exit(1); });
"""


@pytest.mark.parametrize("driver", ["pg", "postgres"])
@pytest.mark.parametrize("table", ["visits", "open_visits"])
def test_node(visits: Served, driver: str, table: str) -> None:
    needs("Node", program="node")
    needs(f"Node's {driver}", file=MODULES / driver)
    conditions = ["ts < {}", "kind = ANY({})", "n = ANY({})", "day >= {}"]
    same = ["ts < TIMESTAMP '2024-02-01 10:30:00'", "kind IN ('a', 'b')", "n IN (1, 2, 3)", "day >= DATE '2024-03-01'"]
    url = f"postgresql://ana:{password('ana').replace(' ', '%20')}@{visits.host}:{visits.port}/visits"
    texts = [f"SELECT count(*) AS n FROM {table} WHERE {one}" for one in conditions]
    environment = {**os.environ, "NODE_PATH": str(MODULES), "DRIVER": driver, "TZ": "UTC"}
    done = subprocess.run(
        ["node", "-e", _NODE, url, *texts], env=environment, text=True, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    with psycopg.connect(visits.dsn("bob")) as con:
        own = [con.execute(f"SELECT count(*) FROM open_visits WHERE {one}").fetchone() for one in same]
    assert json.loads(done.stdout) == [one[0] for one in own if one is not None]
