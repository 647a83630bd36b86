"""asyncpg: everything in binary, with parameters, arrays, its own look at types, cursors and COPY."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest

from tests.server.clients.conftest import COUNT, COUNTY_ROWS, RECORDS, Server, needs

needs("asyncpg", library="asyncpg")

import asyncpg  # noqa: E402


def asked(server: Server, ask: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        trusted = ssl.create_default_context(cafile=str(server.certificate))
        con = await asyncpg.connect(
            host=server.host,
            port=server.port,
            user="ana",
            password=server.passwords["ana"],
            database=server.database,
            ssl=trusted,
        )
        try:
            return await ask(con)
        finally:
            await con.close()

    return asyncio.run(run())


def test_parameters_and_arrays(server):
    async def ask(con: Any) -> None:
        found = await con.fetch("SELECT * FROM counties WHERE county = ANY($1::TEXT[]) ORDER BY county", ["c1", "c3"])
        assert [tuple(row) for row in found] == [COUNTY_ROWS[0], COUNTY_ROWS[2]]
        assert await con.fetchval("SELECT $1::INTEGER[]", [1, 2, 3]) == [1, 2, 3]
        assert await con.fetchval("SELECT label FROM counties WHERE county = $1", "c2") == "County 2"
        row = await con.fetchrow("SELECT small, exact, day, list, said FROM kinds WHERE whole = $1", 2)
        assert tuple(row) == (1, Decimal("4.50"), date(2026, 11, 22), [1, 2, None], "Ä€😀")

    asked(server, ask)


def test_catalogs(server):
    async def ask(con: Any) -> None:
        assert await con.fetchval("SELECT typname FROM pg_type WHERE oid = $1", 23) == "int4"
        tables = await con.fetch("SELECT relname FROM pg_class WHERE relkind = $1 ORDER BY 1", b"r")
        assert [row[0] for row in tables] == ["counties", "kinds", "persons"]
        await con.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
        await con.reload_schema_state()

    asked(server, ask)


def test_cursors_and_copy(server):
    async def ask(con: Any) -> None:
        async with con.transaction():
            found = [tuple(row) async for row in con.cursor("SELECT * FROM counties ORDER BY county", prefetch=2)]
        assert found == COUNTY_ROWS
        out = BytesIO()
        await con.copy_from_query("SELECT * FROM counties ORDER BY county", output=out)
        assert out.getvalue().decode().splitlines()[0] == "c1\tCounty 1"
        await con.reset()

    asked(server, ask)


def test_paid_answers_and_refusals(server):
    async def ask(con: Any) -> None:
        first = await con.fetch(COUNT)
        assert [row["county"] for row in first] == ["c1", "c2", "c3", "c4", "c5"]
        assert await con.fetch(COUNT) == first
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await con.fetch(RECORDS)
        await con.execute("SET statement_timeout = 300")
        with pytest.raises(asyncpg.QueryCanceledError):
            await con.fetch("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")

    asked(server, ask)
