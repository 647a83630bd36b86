"""What running a database costs: `python -m tests.bench.operations`.

A charge with its stored release, with and without the journal, in turns; how much the file grows by each stored answer,
by the size of its blocks; and the processor's time of the server for a stored count and for SELECT 1.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import duckdb
import psutil  # type: ignore[import-untyped, unused-ignore] # its types are a package of their own
import psycopg

import duckanon
from duckanon.governance.ledger import Ledger
from duckanon.server.users import UserFile
from tests.bench.server import COUNT
from tests.governance.without_sql import CHARGE, answer, governance, protect, seen

ROUNDS, CHARGES, ANSWERS, STARTS = 3, 100, 25, 4
POLICY = (
    "SELECT protect('persons', epsilon := 10000, privacy_unit := 'id', rows_per_unit := 1, per_query := 1, "
    "public := ['sick', 'age'], domains := {'sick': [true, false], 'age': {'from': 0, 'to': 99}})"
)


def charging(folder: Path, *, journal: bool) -> tuple[float, float]:
    """Milliseconds of a charge and its store: by the clock, and of the processor."""
    file = Ledger._file
    if not journal:
        Ledger._file = lambda self, cursor, database: (*file(self, cursor, database)[:2], None)  # type: ignore[method-assign]
    try:
        with duckdb.connect(str(folder / f"charges{len(list(folder.iterdir()))}.duckdb")) as con:
            made = governance(con)
            ((name,),) = con.execute("SELECT current_database()").fetchall()
            sees = seen("persons", database=name)
            protect(made, sees=sees, epsilon=Fraction(1000))

            def charge(number: int) -> None:
                made.stored_or_drawn("persons", sees, {"number": number}, CHARGE, lambda: answer(number))

            for number in range(20):
                charge(number)
            clock, processor = perf_counter(), process_time()
            for number in range(20, 20 + CHARGES):
                charge(number)
            return (perf_counter() - clock) / CHARGES * 1e3, (process_time() - processor) / CHARGES * 1e3
    finally:
        Ledger._file = file  # type: ignore[method-assign]


def made(path: Path, block: int) -> None:
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{path}' AS made (BLOCK_SIZE {block})")
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i AS id, i % 5 = 0 AS sick, i % 100 AS age FROM range(1000) r(i)")
        con.execute(POLICY).fetchall()


def growth(path: Path, block: int) -> float:
    """KiB of the file for each answer, which has two rows, over several starts."""
    made(path, block)
    before, number = path.stat().st_size, 0
    for _ in range(STARTS):
        with duckanon.connect(path, role="analyst") as con:
            for _ in range(ANSWERS):
                number += 1
                con.execute(f"SELECT sick, count(*) FROM persons WHERE age <> {number} GROUP BY sick").fetchall()
    return (path.stat().st_size - before) / number / 1024


def served(path: Path, ask: Callable[[str, psutil.Process], None]) -> None:
    made(path, 262144)
    for name, role in (("ana", "analyst"), ("stu", "steward")):
        UserFile(path).add(name, role, "a long password")
    command = [sys.executable, "-m", "duckanon.integrations.cli", "serve", str(path), "--port", "0"]
    with subprocess.Popen([*command, "--log", f"{path}.log"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split(":")[1].split(",")[0]
        try:
            dsn = f"host=127.0.0.1 port={port} user=ana password='a long password' dbname={path.stem}"
            ask(dsn, psutil.Process(process.pid))
        finally:
            process.terminate()


def processor(dsn: str, process: psutil.Process) -> None:
    """Prints the server's time for a statement: the least of several rounds."""

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system) * 1e3

    with psycopg.connect(dsn, autocommit=True) as con, con.cursor() as cursor:
        for what, sql, times in (("a stored count", COUNT, 500), ("SELECT 1", "SELECT 1", 2000)):
            least = float("inf")
            for _ in range(2 * ROUNDS):
                before = used()
                for _ in range(times):
                    cursor.execute(sql, prepare=False).fetchall()
                least = min(least, (used() - before) / times)
            print(f"| {what}, 1 at a time, CPU ms of the server | {least:.2f} |", flush=True)


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        print("| | |\n|---|---:|")
        found = [(charging(folder, journal=True), charging(folder, journal=False)) for _ in range(ROUNDS)]
        for at, how in enumerate(("with the journal", "without")):
            clock, cpu = (min(one[at][which] for one in found) for which in (0, 1))
            print(f"| a charge and its stored release {how}, ms | {clock:.1f} |\n| of the processor | {cpu:.1f} |")
        for block in (262144, 16384):
            grown = growth(folder / f"grown{block}.duckdb", block)
            print(f"| KiB of the file for an answer, blocks of {block >> 10} KiB | {grown:.0f} |", flush=True)
        served(folder / "served.duckdb", processor)


if __name__ == "__main__":
    main()
