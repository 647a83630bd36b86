"""How much longer others wait while one analyst does the worst: `python -m tests.bench.worst`.

One analyst has ten connections with a statement each, as heavy as statements over open tables get. Another asks a
stored count again and again, with a moment between two: in turns with and without the first, in one run. The server and
the first analyst are processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, sleep
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore] # its types are a package of their own
import psycopg

from tests.bench.operations import served
from tests.bench.server import COUNT

CONNECTIONS, ASKED, ROUNDS = 10, 60, 2
WORST = {
    "a nested loop": "SELECT count(*) FROM range(3000000) a(x), range(3000000) b(y) WHERE x * x + y = 3 * y - x",
    "texts of a hundred million rows": "SELECT count(*) FROM range(100000000) a(i) WHERE md5(i::VARCHAR) LIKE 'abc%'",
    "a sort of ten million rows": "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY hash(i)) AS r "
    "FROM range(10000000) a(i))",
    "a long result": "SELECT r AS a, r * 1.5::float8 AS b, 'x' || r AS c FROM range(1000000) t(r)",
    "a long COPY": "COPY (SELECT r AS a, r * 1.5::float8 AS b, 'x' || r AS c FROM range(1000000) t(r)) TO STDOUT",
    "an engine": "FROM k_compare('wide', ['a', 'b', 'c', 'd'], k := 7)",
}


def waited(con: psycopg.Connection[Any]) -> float:
    """Milliseconds of a stored count, the median of some."""
    found = list[float]()
    for _ in range(ASKED):
        began = perf_counter()
        con.execute(COUNT).fetchall()
        found.append((perf_counter() - began) * 1e3)
        sleep(0.01)
    return median(found)


def again_and_again(con: psycopg.Connection[Any], sql: str) -> None:
    while True:
        with suppress(psycopg.Error):
            if sql.startswith("COPY"):
                with con.cursor().copy(sql) as copy:
                    for _ in copy:
                        pass
            else:
                con.pgconn.exec_(sql.encode())


def the_worst(dsn: str, sql: str) -> None:
    """Does something on all connections until the process ends."""
    with ExitStack() as stack:
        cons = [stack.enter_context(psycopg.connect(dsn, autocommit=True)) for _ in range(CONNECTIONS)]
        threads = [Thread(target=again_and_again, args=(con, sql), daemon=True) for con in cons]
        for one in threads:
            one.start()
        for one in threads:
            one.join()


@contextmanager
def beside(dsn: str, sql: str) -> Iterator[None]:
    """A context in which an analyst does the worst."""
    other = get_context("spawn").Process(target=the_worst, args=(dsn, sql))
    other.start()
    sleep(3)
    try:
        yield
        assert other.is_alive(), "Nothing was done meanwhile."
    finally:
        other.kill()
        other.join()
        sleep(1)


def measured(dsn: str, _: psutil.Process) -> None:
    stu, bob = (dsn.replace("user=ana", f"user={one}") for one in ("stu", "bob"))
    with psycopg.connect(stu, autocommit=True) as con:
        con.execute(
            "CREATE TABLE wide AS SELECT hash(i) % 5000 AS a, hash(i, 1) % 5000 AS b, hash(i, 2) % 5000 AS c, "
            "hash(i, 3) % 5000 AS d FROM range(60000) r(i)"
        )
        con.execute("SELECT open_table('wide')")
        con.execute("CREATE USER bob PASSWORD 'a long password'")
    with psycopg.connect(bob, autocommit=True) as con:
        con.execute(COUNT).fetchall()
        print("| another analyst's worst | alone, ms | beside it, ms | ratio |\n|---|---:|---:|---:|")
        for what, sql in WORST.items():
            alone, besides = list[float](), list[float]()
            for _ in range(ROUNDS):
                alone.append(waited(con))
                with beside(dsn, sql):
                    besides.append(waited(con))
            ratio = median(besides) / median(alone)
            print(f"| {what} | {median(alone):.1f} | {median(besides):.1f} | {ratio:.1f} |", flush=True)


def main() -> None:
    with TemporaryDirectory() as name:
        served(Path(name) / "served.duckdb", measured)


if __name__ == "__main__":
    main()
