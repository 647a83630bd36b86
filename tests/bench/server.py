"""Statements a second through `duckanon serve`, beside PostgreSQL: `python -m tests.bench.server POSTGRES_BIN`.

POSTGRES_BIN: the folder of its programs, as in /usr/lib/postgresql/15/bin. As root, it runs as the account postgres.
Both servers are on this machine, without TLS, and the same program asks them with psycopg 3.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep

import psycopg

import duckanon
from duckanon.server.users import UserFile

SECONDS, ROUNDS = 2.0, 3
ROWS = 1_000_000
# Connections that are open beside those that ask.
OPEN = 200
SQL_ROWS = "SELECT r AS a, r * 1.5::float8 AS b, 'x' || r AS c, date '2020-01-01' AS d FROM {} t(r)"
COUNT = "SELECT sick, count(*) AS n FROM persons GROUP BY sick"


def asked(dsn: str, sql: str, seconds: float, prepare: bool) -> int:
    """How often one connection gets an answer."""
    with psycopg.connect(dsn, autocommit=True) as con:
        cursor, count = con.cursor(), 0
        cursor.execute(sql, prepare=prepare).fetchall()
        until = monotonic() + seconds
        while monotonic() < until:
            cursor.execute(sql, prepare=prepare).fetchall()
            count += 1
        return count


def rates(dsns: Sequence[str], sql: str, connections: int, *, prepare: bool = False) -> list[float]:
    """Answers a second of each server, in its best of three rounds, in which they take turns.

    The connections are in four processes at most.
    """
    processes, best = min(connections, 4), [0.0] * len(dsns)
    with ProcessPoolExecutor(processes) as pool:
        for _ in range(ROUNDS):
            for at, dsn in enumerate(dsns):
                each = [pool.submit(several, dsn, sql, connections // processes, prepare) for _ in range(processes)]
                best[at] = max(best[at], sum(one.result() for one in each) / SECONDS)
    return best


def several(dsn: str, sql: str, connections: int, prepare: bool) -> int:
    """The same with several connections in threads of one process."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(connections) as pool:
        return sum(pool.map(lambda _: asked(dsn, sql, SECONDS, prepare), range(connections)))


def fetched(dsn: str, sql: str, *, binary: bool) -> float:
    """Seconds until all rows are here."""
    with psycopg.connect(dsn, autocommit=True) as con:
        begin = perf_counter()
        found = con.pgconn.exec_params(sql.encode(), [], result_format=int(binary))
        assert found.ntuples == ROWS, found.error_message
        return perf_counter() - begin


def copied(dsn: str, sql: str) -> float:
    with psycopg.connect(dsn, autocommit=True) as con, con.cursor().copy(f"COPY ({sql}) TO STDOUT") as copy:
        begin, size = perf_counter(), 0
        for data in copy:
            size += len(data)
        assert size > ROWS
        return perf_counter() - begin


def first_byte(dsn: str, sql: str) -> float:
    """Seconds until the first row of a COPY is here."""
    with psycopg.connect(dsn, autocommit=True) as con, con.cursor() as cursor:
        begin = perf_counter()
        with cursor.copy(f"COPY ({sql}) TO STDOUT") as copy:
            next(iter(copy))
            took = perf_counter() - begin
            for _ in copy:
                pass
        return took


@contextmanager
def beside(dsn: str, connections: int) -> Iterator[None]:
    """A context in which connections are open and idle."""
    with ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(psycopg.connect(dsn, autocommit=True))
        yield


@contextmanager
def duckanon_server(folder: Path) -> Iterator[str]:
    path = folder / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i AS id, i % 5 = 0 AS sick FROM range(1000) r(i)").fetchall()
        con.execute(
            "SELECT protect('persons', epsilon := 10, privacy_unit := 'id', rows_per_unit := 1, per_query := 1, "
            "public := ['sick'], domains := {'sick': [true, false]})"
        ).fetchall()
    UserFile(path).add("ana", "analyst", "a long password")
    command = [sys.executable, "-m", "duckanon.integrations.cli", "serve", str(path), "--port", "0"]
    command += ["--connections-per-user", "300"]
    log = folder / "log"
    with subprocess.Popen([*command, "--log", str(log)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split(":")[1].split(",")[0]
        try:
            yield f"host=127.0.0.1 port={port} user=ana password='a long password' dbname=x"
        finally:
            process.terminate()


@contextmanager
def postgres(bin_folder: Path, folder: Path) -> Iterator[str]:
    data, prefix = folder / "pg", ["su", "postgres", "-c"] if os.geteuid() == 0 else ["sh", "-c"]
    folder.chmod(0o755)
    data.mkdir()
    if os.geteuid() == 0:
        subprocess.run(["chown", "postgres", data], check=True)

    def run(command: str) -> None:
        subprocess.run([*prefix, command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")

    run(f"{bin_folder}/initdb -D {data} -A trust -U postgres")
    run(f"{bin_folder}/pg_ctl -D {data} -o '-p 5499 -k {data}' -l {data}/log -w start")
    try:
        yield "host=127.0.0.1 port=5499 user=postgres dbname=postgres"
    finally:
        run(f"{bin_folder}/pg_ctl -D {data} -m fast stop")
        sleep(0.5)


def main() -> None:
    with (
        TemporaryDirectory() as name,
        duckanon_server(Path(name)) as ours,
        postgres(Path(sys.argv[1]), Path(name)) as theirs,
    ):
        print("| | duckanon | PostgreSQL | ratio |\n|---|---:|---:|---:|")
        for connections in (1, 16):
            for prepare in (False, True):
                found = rates([ours, theirs], "SELECT 1", connections, prepare=prepare)
                how = "prepared" if prepare else "not prepared"
                what = f"SELECT 1, {connections} connection{'s' if connections > 1 else ''}, {how}, a second"
                print(f"| {what} | {found[0]:,.0f} | {found[1]:,.0f} | {found[0] / found[1]:.2f} |", flush=True)
        for connections in (1, 16):
            (counts,) = rates([ours], COUNT, connections)
            print(f"| a stored count, {connections} at a time, a second | {counts:,.0f} | | |", flush=True)
        with beside(ours, OPEN):
            (counts,) = rates([ours], COUNT, 16)
        print(
            f"| a stored count, 16 at a time beside {OPEN} open connections, a second | {counts:,.0f} | | |", flush=True
        )
        rows = [
            (ours, SQL_ROWS.format(f"range({ROWS})")),
            (theirs, SQL_ROWS.format(f"generate_series(1, {ROWS})")),
        ]
        took = [min(first_byte(dsn, sql) for _ in range(2)) for dsn, sql in rows]
        print(f"| the first byte of a COPY of a million rows, s | {took[0]:.2f} | {took[1]:.2f} | |", flush=True)
        for what, taking in (
            ("in text", lambda dsn, sql: fetched(dsn, sql, binary=False)),
            ("in binary", lambda dsn, sql: fetched(dsn, sql, binary=True)),
            ("by COPY", copied),
        ):
            took = [min(taking(dsn, sql) for _ in range(2)) for dsn, sql in rows]
            ratio = took[0] / took[1]
            print(
                f"| a million rows of four columns {what}, s | {took[0]:.2f} | {took[1]:.2f} | {ratio:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
