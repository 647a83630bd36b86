"""psycopg 3 and psycopg 2: text and binary, prepared, pipelines, server-side cursors, COPY, cancel."""

import threading
import time
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from tests.server.clients.conftest import COUNT, COUNTY_ROWS, RECORDS, Server, needs

needs("psycopg", library="psycopg")
needs("psycopg2", library="psycopg2")

import psycopg  # noqa: E402
import psycopg2  # noqa: E402
from psycopg.types import TypeInfo  # noqa: E402

KINDS = (
    1,
    2,
    3,
    Decimal("4.50"),
    0.25,
    "Ä€😀",
    True,
    date(2026, 11, 22),
    datetime(2026, 11, 22, 13, 14, 15, 500000),
    [1, 2, None],
    UUID(int=1),
    b"ab",
    None,
)


@pytest.fixture
def con(server: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn("ana"), autocommit=True) as one:
        yield one


@pytest.mark.parametrize("binary", [False, True])
def test_values_in_text_and_binary(con, binary):
    assert con.execute("SELECT * FROM kinds", binary=binary).fetchone() == KINDS


@pytest.mark.parametrize("prepare", [False, True])
def test_parameters(con, prepare):
    for number in (1, 4):
        found = con.execute("SELECT label FROM counties WHERE county = %s", (f"c{number}",), prepare=prepare)
        assert found.fetchall() == [(f"County {number}",)]
    assert con.execute("SELECT %s::INTEGER + 1, %b::DATE", (41, date(2026, 1, 2))).fetchone() == (42, date(2026, 1, 2))


def test_pipeline(con):
    with con.pipeline():
        found = [con.execute("SELECT label FROM counties WHERE county = %s", (f"c{one}",)) for one in (1, 2, 3)]
        assert [one.fetchone() for one in found] == [("County 1",), ("County 2",), ("County 3",)]


def test_server_side_cursor(server):
    with psycopg.connect(server.dsn("ana")) as con, con.cursor("mine") as cursor:
        cursor.execute("SELECT * FROM counties ORDER BY county")
        assert cursor.fetchmany(2) == COUNTY_ROWS[:2]
        assert cursor.fetchall() == COUNTY_ROWS[2:]


def test_copy_out(con):
    with con.cursor().copy("COPY (SELECT * FROM counties ORDER BY county) TO STDOUT") as copied:
        assert list(copied.rows()) == COUNTY_ROWS
    with con.cursor().copy("COPY counties TO STDOUT (FORMAT BINARY)") as copied:
        copied.set_types(["text", "text"])
        assert sorted(copied.rows()) == COUNTY_ROWS


def test_cancel(con):
    timer = threading.Timer(0.5, con.cancel)
    timer.start()
    begun = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        con.execute("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b")
    assert time.monotonic() - begun < 10
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_paid_answers_and_refusals(con):
    first = con.execute(COUNT).fetchall()
    assert [row[0] for row in first] == ["c1", "c2", "c3", "c4", "c5"]
    assert con.execute(COUNT, prepare=True, binary=True).fetchall() == first
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
        con.execute(RECORDS)
    assert refused.value.sqlstate == "42501"
    with pytest.raises(psycopg.Error):
        con.execute("SELECT nothing FROM counties")
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_transactions(server):
    with psycopg.connect(server.dsn("ana")) as con:
        assert con.execute("SELECT count(*) FROM counties").fetchone() == (5,)
        with con.transaction():
            assert con.execute("SELECT count(*) FROM counties").fetchone() == (5,)
        con.rollback()


def test_types_are_found_by_name(con):
    found = TypeInfo.fetch(con, "int4")
    assert found is not None
    assert (found.oid, found.array_oid) == (23, 1007)


def test_psycopg2(server):
    con = psycopg2.connect(server.dsn("ana"))
    with con, con.cursor() as cursor:
        cursor.execute("SELECT * FROM counties WHERE county = %s", ("c2",))
        assert cursor.fetchall() == [("c2", "County 2")]
        cursor.execute("SELECT list, exact, day FROM kinds")
        assert cursor.fetchone() == ([1, 2, None], Decimal("4.50"), date(2026, 11, 22))
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(RECORDS)
    con.close()
