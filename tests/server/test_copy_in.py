"""COPY ... FROM STDIN over the wire, by clients that stewards use."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.connection import connect
from duckanon.server.backends import Column
from duckanon.server.commands import CopyOptions
from duckanon.server.copy_rows import reader
from duckanon.server.portals import copy_writer
from duckanon.server.types import TEXT
from tests.server.served import Served, add_users, password, serving

TABLE = (
    "CREATE OR REPLACE TABLE loaded (n INTEGER, t VARCHAR, b BOOLEAN, d DATE, moment TIMESTAMP, price DECIMAL(10, 2), "
    "id UUID, raw BLOB, parts INTEGER[], x DOUBLE)"
)
ROWS = [
    (
        1,
        "plain",
        True,
        date(2024, 1, 31),
        datetime(2024, 1, 31, 9, 30),
        Decimal("1.50"),
        UUID(int=7),
        b"\x00\xff",
        [1],
        0.5,
    ),
    (2, 'a "quoted"\tand\nbroken, line\\', False, None, None, Decimal("-2.25"), None, b"", [], float("inf")),
    (None, "", None, None, None, None, None, None, [1, None, 3], None),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("copy") / "people.duckdb"
    with connect(path, role="steward") as con:
        con.execute("CREATE TABLE persons (person BIGINT, sex VARCHAR)")
        con.execute(
            "SELECT protect('persons', population := 'people', privacy_unit := 'person', rows_per_unit := 1, "
            "epsilon := 4, per_query := 1, public := ['sex'], domains := {'sex': ['f', 'm']})"
        ).fetchall()
    add_users(path)
    with serving(path) as found:
        yield found


@pytest.fixture
def steward(served: Served) -> Iterator[psycopg.Connection[Any]]:
    with served.login("stu") as con:
        con.execute(TABLE)
        yield con


def send(con: psycopg.Connection[Any], statement: str, pieces: Iterable[str | bytes]) -> int:
    with con.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for one in pieces:
                copy.write(one)
        return cursor.rowcount


def slowly(seconds: float) -> Iterator[str]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield "2\n" * 1_000
        time.sleep(0.05)


def gives_up() -> Iterator[str]:
    yield "1\n" * 200_000
    raise OSError


@pytest.mark.parametrize("form", ["text", "binary"])
def test_rows_come_back_as_they_were(steward: psycopg.Connection[Any], form: str) -> None:
    with steward.cursor() as cursor:
        with cursor.copy(f"COPY loaded FROM STDIN (FORMAT {form})") as copy:
            if form == "binary":
                copy.set_types(
                    ["int4", "text", "bool", "date", "timestamp", "numeric", "uuid", "bytea", "int4[]", "float8"]
                )
            for row in ROWS:
                copy.write_row(row)
        assert cursor.rowcount == 3
    assert steward.execute("FROM loaded").fetchall() == ROWS


def test_csv_with_options(steward: psycopg.Connection[Any]) -> None:
    sent = "t;n\n'it''s; two\nlines';1\n'';2\nNA;NA\r\n"
    options = "FORMAT csv, HEADER match, DELIMITER ';', QUOTE '''', NULL 'NA'"
    assert send(steward, f"COPY loaded (t, n) FROM STDIN ({options})", [*sent]) == 3
    assert steward.execute("SELECT n, t FROM loaded").fetchall() == [(1, "it's; two\nlines"), (2, ""), (None, None)]


@pytest.mark.parametrize(
    ("statement", "sent", "says"),
    [
        ("COPY loaded (n, t) FROM STDIN", "1\ta\n2\n", "Line 2 has 1 values, and 2 columns are copied"),
        (
            "COPY loaded (n, t) FROM STDIN",
            "1\ta\nsecret\tb\n",
            "Line 2, column n: the value is none of the type INTEGER",
        ),
        ("COPY loaded (n) FROM STDIN", "1\n2.5\n", "Line 2, column n: the value is none of the type INTEGER"),
        ("COPY loaded (b) FROM STDIN", "t\nsecret\n", "Line 2, column b: the value is none of the type BOOLEAN"),
        ("COPY loaded (d) FROM STDIN (FORMAT csv, HEADER)", "d\n2024-01-31\n2024-02-31\n", "Line 3, column d"),
        ("COPY loaded (n, t) FROM STDIN (FORMAT csv)", '1,"two\nlines"\nsecret,x\n', "Line 3, column n"),
        ("COPY loaded (n, t) FROM STDIN (FORMAT csv)", '1,"secret\n', "The value in quotes that begins in line 1"),
        ("COPY loaded (n, t) FROM STDIN (FORMAT csv, HEADER match)", "t,n\n", "Line 1 does not have the names"),
        ("COPY loaded (t) FROM STDIN", b"a\n\xff\n", "Line 2 is not UTF-8"),
        ("COPY loaded (n) FROM STDIN (FORMAT binary)", b"no binary format at all", "not in PostgreSQL's binary format"),
        ("COPY nothing FROM STDIN", "1\n", "nothing"),
        ("COPY loaded (nothing) FROM STDIN", "1\n", "nothing"),
    ],
)
def test_errors_name_line_and_column_and_no_value(
    steward: psycopg.Connection[Any], statement: str, sent: str | bytes, says: str
) -> None:
    with pytest.raises(psycopg.Error, match=says) as raised:
        send(steward, statement, [sent])
    assert "secret" not in str(raised.value)
    assert steward.execute("SELECT count(*) FROM loaded").fetchone() == (0,)


def test_what_fails_is_rolled_back_whole(steward: psycopg.Connection[Any]) -> None:
    many = "".join(f"{i}\tx\n" for i in range(100_000))
    with pytest.raises(psycopg.Error, match="Line 100,001, column n"):
        send(steward, "COPY loaded (n, t) FROM STDIN", [many, "no\tx\n"])
    assert steward.execute("SELECT count(*) FROM loaded").fetchone() == (0,)
    with pytest.raises(OSError):  # noqa: PT011 # as it is raised
        send(steward, "COPY loaded (n) FROM STDIN", gives_up())
    assert steward.execute("SELECT count(*) FROM loaded").fetchone() == (0,)


def test_rows_of_texts_alone(steward: psycopg.Connection[Any]) -> None:
    steward.execute("CREATE TABLE texts (a VARCHAR, b VARCHAR)")
    with steward.cursor().copy("COPY texts FROM STDIN") as copy:
        for row in [("x", None), ("", "y")]:
            copy.write_row(row)
    assert steward.execute("SELECT * FROM texts ORDER BY ALL").fetchall() == [("", "y"), ("x", None)]


def test_copy_in_a_transaction(served: Served) -> None:
    with served.login("stu", autocommit=False) as con:
        con.execute(TABLE)
        con.commit()
        send(con, "COPY loaded (n) FROM STDIN", ["1\n2\n"])
        con.rollback()
        assert con.execute("SELECT count(*) FROM loaded").fetchone() == (0,)
        send(con, "COPY loaded (n) FROM STDIN", ["1\n2\n"])
        con.commit()
        assert con.execute("SELECT count(*) FROM loaded").fetchone() == (2,)


def test_a_constraint_that_is_broken(steward: psycopg.Connection[Any]) -> None:
    steward.execute("CREATE OR REPLACE TABLE keyed (n INTEGER PRIMARY KEY)")
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="One of the lines 1 to 2 breaks"):
        send(steward, "COPY keyed FROM STDIN", ["7\n7\n"])
    assert steward.execute("SELECT count(*) FROM keyed").fetchone() == (0,)


def test_protected_tables_are_loaded_and_analysts_load_nothing(
    served: Served, steward: psycopg.Connection[Any]
) -> None:
    assert send(steward, "COPY persons FROM STDIN (FORMAT csv)", ["1,f\n2,m\n"]) == 2
    with served.login("ana") as ana:
        ana.execute("CREATE TEMP TABLE mine AS SELECT 1 AS n")
        for table in ("persons", "mine", "loaded"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is for stewards"):
                send(ana, f"COPY {table} FROM STDIN", ["1\n"])
        assert ana.execute("SELECT count(*) FROM mine").fetchone() == (1,)


def test_cancel_while_the_server_waits_for_rows(steward: psycopg.Connection[Any]) -> None:
    timer = threading.Timer(1.0, steward.cancel_safe)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        send(steward, "COPY loaded (n) FROM STDIN", slowly(4))
    timer.join()
    assert steward.execute("SELECT count(*) FROM loaded").fetchone() == (0,)


def test_a_client_that_is_gone_leaves_nothing(served: Served, steward: psycopg.Connection[Any]) -> None:
    with served.login("stu") as other, other.cursor() as cursor:
        context = cursor.copy("COPY loaded (n) FROM STDIN")
        copy = context.__enter__()
        copy.write("1\n" * 100_000)
        other.close()
    for _ in range(100):
        if steward.execute("SELECT count(*) FROM loaded").fetchone() == (0,):
            break
        time.sleep(0.05)
    steward.execute("DROP TABLE loaded")


def test_a_statements_time_ends_a_copy(steward: psycopg.Connection[Any]) -> None:
    steward.execute("SET statement_timeout = '1s'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        send(steward, "COPY loaded (n) FROM STDIN", slowly(3))
    assert steward.execute("SELECT count(*) FROM loaded").fetchone() == (0,)


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_copies_a_file(served: Served, steward: psycopg.Connection[Any], tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([["n", "t"], *([i, f'row "{i}"\n, of many'] for i in range(20_000))])
    dsn = f"host={served.host} port={served.port} user=stu dbname={served.path.stem}"
    done = subprocess.run(
        ["psql", "-X", "-v", "ON_ERROR_STOP=1", dsn, "-c", f"\\copy loaded (n, t) FROM '{file}' (FORMAT csv, HEADER)"],
        env={"PGPASSWORD": password("stu"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "COPY 20000"), done.stderr
    assert steward.execute("SELECT sum(n), max(length(t)) FROM loaded").fetchone() == (
        199_990_000,
        len('row "19999"\n, of many'),
    )


def test_pandas_loads_a_frame_by_copy(served: Served, steward: psycopg.Connection[Any]) -> None:
    pandas = pytest.importorskip("pandas")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    frame = pandas.DataFrame({"n": range(1000), "t": [f"row {i}" for i in range(1000)]})

    def copied(table: Any, con: Any, keys: list[str], rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        with con.connection.cursor().copy(f"COPY {table.name} ({', '.join(keys)}) FROM STDIN (FORMAT csv)") as copy:
            copy.write(text.getvalue())

    url = f"postgresql+psycopg://stu:{password('stu')}@{served.host}:{served.port}/{served.path.stem}"
    engine = sqlalchemy.create_engine(url)
    frame.to_sql("loaded", engine, if_exists="append", index=False, method=copied)
    engine.dispose()
    assert steward.execute("SELECT count(*), sum(n) FROM loaded").fetchone() == (1000, 499_500)


@pytest.mark.long("a million rows are sent")
def test_a_million_rows_in_bounded_memory(steward: psycopg.Connection[Any]) -> None:
    steward.execute("CREATE OR REPLACE TABLE wide (n BIGINT, a VARCHAR, b DOUBLE)")
    process = psutil.Process()
    before, piece = process.memory_info().rss, "".join(f"{i}\tvalue {i}\t{i}.5\n" for i in range(10_000))
    most = before
    with steward.cursor() as cursor, cursor.copy("COPY wide FROM STDIN") as copy:
        for _ in range(100):
            copy.write(piece)
            most = max(most, process.memory_info().rss)
    assert steward.execute("SELECT count(*), sum(n) FROM wide").fetchone() == (1_000_000, 100 * 49_995_000)
    assert most - before < 300 << 20
    steward.execute("DROP TABLE wide")


VALUES = st.text(st.sampled_from("ab\\\"',;\t\n\rN. é"), max_size=8)


@given(
    rows=st.lists(st.tuples(st.none() | VALUES, st.none() | VALUES), max_size=6),
    form=st.sampled_from(["text", "csv"]),
    escape=st.sampled_from(["", "\\"]),
    cuts=st.lists(st.integers(1, 40), max_size=8),
)
def test_what_copy_writes_is_read_as_it_was(
    rows: list[tuple[str | None, str | None]], form: str, escape: str, cuts: list[int]
) -> None:
    """For any values, and any pieces in which they come."""
    options = CopyOptions(form, "," if form == "csv" else "\t", "" if form == "csv" else "\\N", escape=escape)
    sent = b"".join(copy_writer([Column("a", TEXT), Column("b", TEXT)], options)(rows))
    read = reader(options, ["a", "b"], [])
    found: list[tuple[str | None, ...]] = []
    at = 0
    for cut in [*cuts, len(sent)]:
        found += zip(*read.feed(sent[at : at + cut]).columns, strict=True)
        at += cut
    found += zip(*read.end().columns, strict=True)
    assert found == rows
