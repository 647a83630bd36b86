"""Intervals of months, infinite and far dates, in results: as PostgreSQL 15 writes them, in text and in binary."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import pq

import duckanon
from duckanon.rewrite.column_texts import has_texts, with_texts
from tests.server.served import Served, serving

_LAST_DAY, _LAST_MOMENT = struct.pack("!i", 2**31 - 1), struct.pack("!q", 2**63 - 1)
_FIRST_MOMENT = struct.pack("!q", -(2**63))
# A value of DuckDB's, with PostgreSQL's text, and its bytes.
VALUES = {
    "INTERVAL '14 months'": ("1 year 2 mons", struct.pack("!qii", 0, 0, 14)),
    "INTERVAL '1 year 2 months -3 days 04:05:06.5'": (
        "1 year 2 mons -3 days +04:05:06.5",
        struct.pack("!qii", 14_706_500_000, -3, 14),
    ),
    "INTERVAL '-1 month -25 hours'": ("-1 mons -25:00:00", struct.pack("!qii", -90_000_000_000, 0, -1)),
    "INTERVAL '30 days'": ("30 days", struct.pack("!qii", 0, 30, 0)),
    "INTERVAL '24 hours'": ("24:00:00", struct.pack("!qii", 86_400_000_000, 0, 0)),
    "INTERVAL '0 days'": ("00:00:00", bytes(16)),
    "INTERVAL '2147483647 days'": ("2147483647 days", struct.pack("!qii", 0, 2**31 - 1, 0)),
    "INTERVAL '3000000 hours'": ("3000000:00:00", struct.pack("!qii", 3_000_000 * 3_600_000_000, 0, 0)),
    "DATE 'infinity'": ("infinity", _LAST_DAY),
    "DATE '9999-12-31'": ("9999-12-31", struct.pack("!i", (date.max - date(2000, 1, 1)).days)),
    "TIMESTAMP '-infinity'": ("-infinity", _FIRST_MOMENT),
    "TIMESTAMP '0001-01-01'": ("0001-01-01 00:00:00", None),
    "TIMESTAMPTZ 'infinity'": ("infinity", _LAST_MOMENT),
    "'infinity'::TIMESTAMP_NS": ("infinity", _LAST_MOMENT),
    "DATE '0044-03-15 (BC)'": ("0044-03-15 BC", None),
    "TIMESTAMP '2024-01-01 00:00:00.5'": ("2024-01-01 00:00:00.5", None),
    "TIMESTAMPTZ '2024-01-01 00:00:00.25+02'": ("2023-12-31 22:00:00.25+00", None),
    "[DATE 'infinity', NULL]": (
        "{infinity,NULL}",
        struct.pack("!iiiiii", 1, 1, 1082, 2, 1, 4) + _LAST_DAY + b"\xff" * 4,
    ),
    "[INTERVAL '1 month']": ('{"1 mon"}', None),
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("endless") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT " + ", ".join(f"{one} AS c{at}" for at, one in enumerate(VALUES)))
        con.execute("SELECT open_table('t')").fetchall()
    with serving(path) as found:
        yield found


def value(con: psycopg.Connection[object], sql: str, *, binary: bool) -> bytes | None:
    found = con.pgconn.exec_params(sql.encode(), [], result_format=int(binary))
    assert found.status == pq.ExecStatus.TUPLES_OK, found.error_message
    return found.get_value(0, 0)


@pytest.mark.parametrize("user", ["ana", "stu"])
def test_nothing_is_lost_in_a_result(served: Served, user: str) -> None:
    """Of columns, and of constants, which the second time are answered without a thread."""
    with served.login(user) as con:
        for at, (one, (text, raw)) in enumerate(VALUES.items()):
            for sql in (f"SELECT c{at} FROM t", f"SELECT {one}", f"SELECT {one}"):
                assert value(con, sql, binary=False) == text.encode(), sql
                assert raw is None or value(con, sql, binary=True) == raw, sql


@pytest.mark.parametrize("user", ["ana", "stu"])
def test_names_types_and_order_stay(served: Served, user: str) -> None:
    """In the simple protocol, with equal names, through a cursor and through COPY."""
    rows = "(VALUES (3, DATE '-infinity'), (1, DATE 'infinity'), (2, NULL)) AS v(n, day)"
    query = f"SELECT n, day, day, count(*) OVER () FROM {rows} ORDER BY n DESC;"
    with served.login(user) as con:
        found = con.pgconn.exec_(query.encode())
        assert [found.fname(at) for at in range(4)] == [b"n", b"day", b"day", b"count"]
        assert [found.ftype(at) for at in range(4)] == [23, 1082, 1082, 20]
        days = [b"-infinity", None, b"infinity"]
        assert [found.get_value(at, 1) for at in range(3)] == days
        with con.transaction():
            con.execute(f"DECLARE c CURSOR FOR {query}")
            fetched = [con.pgconn.exec_(b"FETCH 1 FROM c").get_value(0, 1) for _ in range(3)]
        assert fetched == days
        with con.cursor().copy(f"COPY ({query.removesuffix(';')}) TO STDOUT") as copied:
            assert b"".join(copied).split(b"\n")[0] == b"3\t-infinity\t-infinity\t3"


def test_parameters_come_back(served: Served) -> None:
    for user in ("ana", "stu"):
        with served.login(user) as con:
            found = con.pgconn.exec_params(b"SELECT $1::interval, $2::timestamp", [b"1 mon", b"infinity"])
            assert [found.get_value(0, at) for at in range(2)] == [b"1 mon", b"infinity"]


@pytest.mark.parametrize("user", ["ana", "stu"])
def test_columns_have_the_types_of_the_parameters_at_hand(served: Served, user: str) -> None:
    """Not those of the parameters with which the same text was sent before."""
    with served.login(user) as con:
        for one in (date(2024, 5, 1), 7, "a", timedelta(days=2), date(2024, 5, 1)):
            for query in ("SELECT %s AS x", "SELECT %s AS x FROM t LIMIT 1"):
                assert con.execute(query, [one]).fetchall() == [(one,)], (query, one)


def test_errors_are_those_of_the_statement(served: Served) -> None:
    """What runs in place of it is not seen: the line of an error is the line of the statement."""
    with served.login("stu") as con, pytest.raises(psycopg.Error, match="LINE 2: "):
        con.execute("SELECT c0,\n c0::VARCHAR::INTEGER FROM t").fetchall()
    with served.login("ana") as con, pytest.raises(psycopg.Error) as failed:
        con.execute("SELECT c0, nosuch FROM t")
    assert failed.value.diag.statement_position == "12"


def test_the_query_that_runs() -> None:
    assert not has_texts(["INTEGER", "VARCHAR", "TIME", "STRUCT(a DATE)", "DATE[][]"])
    assert with_texts("SELECT 1", ["INTEGER"]) == "SELECT 1"
    assert with_texts("SELECT 1, current_date -- day", ["INTEGER", "DATE"]) == (
        "FROM (SELECT 1, current_date -- day\n) AS t(c0, c1) SELECT c0, CAST(c1 AS VARCHAR)"
    )


def test_a_change_of_a_table_changes_the_types(tmp_path: Path) -> None:
    """The types of a query are kept as long as nothing changes."""
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
    with serving(path) as found, found.login("stu") as con:
        assert con.execute("SELECT x FROM t").fetchall() == [(1,)]
        for change in ("DROP TABLE t", "CREATE TABLE t AS SELECT DATE '2024-01-01' AS x"):
            con.execute(change.encode())
        assert con.execute("SELECT x FROM t").fetchall() == [(date(2024, 1, 1),)]
