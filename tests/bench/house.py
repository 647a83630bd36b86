"""What the structure of the code costs: `python -m tests.bench.house [--first] [--lanes]`.

Modules and calls between modules for one statement of an analyst and one call of k_anonymize, the lines of each room,
and the CPU time of opening a connection and of deciding about TPC-H's longest query. --first: also the first call of
each kind on a new machine. --lanes: also the seconds of `poe quick`, of the README's test command and of what CI adds.
"""

import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from types import FrameType
from typing import Any

import duckdb
import sqlglot

import duckanon
from tests.bench import cold
from tests.rewrite.test_tpch import QUERIES

PACKAGE = Path(duckanon.__file__).parent
COUNT = "SELECT county, count(*) FROM persons GROUP BY county"
RUNS = 15


@dataclass
class Trace:
    """What ran while it was watched: modules of duckanon, functions, and calls from one module to another."""

    modules: set[str] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    crossings: int = 0

    def watch(self, run: Callable[[], object]) -> None:
        sys.setprofile(self._called)
        try:
            run()
        finally:
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        own = _module(frame)
        if own is None:
            return
        self.modules.add(own)
        self.functions.add((own, frame.f_code.co_qualname))
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        if caller is not None and _module(caller) != own:
            self.crossings += 1

    def row(self, name: str) -> str:
        return f"| {name} | {len(self.modules)} | {len(self.functions)} | {self.crossings:,} |"


def _module(frame: FrameType) -> str | None:
    """The module of duckanon that a frame runs; None for other code and for a module's own body."""
    name = str(frame.f_globals.get("__name__", ""))
    inside = name.startswith("duckanon.") and frame.f_code.co_name != "<module>"
    return name if inside else None


def main(arguments: list[str]) -> None:
    with TemporaryDirectory() as folder:
        statements(Path(folder))
        longest_query(Path(folder))
    opening()
    rooms()
    if "--first" in arguments:
        cold.main([])
    if "--lanes" in arguments:
        print("\n| lane | s | CPU s | |\n|---|---:|---:|---|")
        lane("poe quick", [sys.executable, "-m", "poethepoet", "quick"])
        lane("the README's command", [sys.executable, "-m", "pytest", "-q"])
        lane("what CI adds", [sys.executable, "-m", "tests.lanes", "ci", "-q"])


def statements(folder: Path) -> None:
    path = folder / "x.duckdb"
    make_persons(path)
    with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
        call = "FROM k_anonymize('persons', ['age', 'county'], k := 5, categorical := ['county'])"
        con.execute(call).fetchall()
        print("| statement | modules | functions | calls between modules |\n|---|---:|---:|---:|")
        print(traced(con, call).row("a call of k_anonymize"))
    print(stored_count(path).row("a stored count by county"))


def make_persons(path: Path) -> None:
    with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
        con.execute(
            "CREATE TABLE persons AS SELECT i AS id, 'c' || i % 5 AS county, i % 90 AS age FROM range(1000) r(i)"
        )
        con.execute(
            "SELECT protect('persons', epsilon := 10, per_query := 1, public := ['county'], "
            "domains := {'county': ['c0', 'c1', 'c2', 'c3', 'c4']})"
        ).fetchall()


def stored_count(path: Path) -> Trace:
    """What runs for an analyst's count whose answer is stored."""
    with duckanon.connect(path, role="analyst", config={"threads": 1}) as con:
        # Once before, so that nothing is imported while it is watched.
        con.execute(COUNT + " HAVING true").fetchall()
        return traced(con, COUNT)


def longest_query(folder: Path) -> None:
    longest = max((one.sql for one in QUERIES), key=len).rstrip().rstrip(";")
    path = folder / "tpch.duckdb"
    with duckanon.connect(path, role="steward", config={"threads": 1}) as con:
        con.execute(Path("fixtures/tpch/schema.sql").read_text(encoding="utf-8"))
        for table, unit in (("customer", "c_custkey"), ("orders", "o_custkey")):
            con.execute(
                f"SELECT protect('{table}', population := 'customers', privacy_unit := '{unit}', epsilon := 10, "
                "per_query := 1, rows_per_unit := 5)"
            ).fetchall()
        con.execute("SELECT protect('lineitem', epsilon := 10)").fetchall()
        for table in ("nation", "region", "part", "partsupp", "supplier"):
            con.execute(f"SELECT open_table('{table}')").fetchall()
    with duckanon.connect(path, role="analyst", config={"threads": 1}) as con:
        # Another limit each time, so that nothing is decided from memory.
        limits = count(1)
        took = cpu(lambda: refused(con, f"SELECT * FROM ({longest}) LIMIT {next(limits)}"))
    parsing = cpu(lambda: sqlglot.parse_one(longest, read="duckdb"))
    print("\n| CPU time | ms | of which |\n|---|---:|---|")
    print(f"| to decide about TPC-H's longest query | {took:.0f} | {parsing:.0f} to parse it |")


def traced(con: Any, sql: str) -> Trace:
    found = Trace()
    found.watch(lambda: con.execute(sql).fetchall())
    return found


def refused(con: Any, sql: str) -> None:
    with suppress(duckdb.Error):
        con.explain(sql)


def rooms() -> None:
    counts: dict[str, int] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        counts[room] = counts.get(room, 0) + len(path.read_text(encoding="utf-8").splitlines())
    print("\n| room | lines |\n|---|---:|")
    for room, lines in sorted(counts.items(), key=lambda one: -one[1]):
        print(f"| {room} | {lines:,} |")
    print(f"| all | {sum(counts.values()):,} |")


def opening() -> None:
    ours = cpu(lambda: duckanon.connect().close())
    plain = cpu(lambda: duckdb.connect().close())
    print(f"| to open a connection | {ours:.0f} | {plain:.0f} DuckDB's own; ratio {ours / plain:.1f} |")


def cpu(run: Callable[[], object]) -> float:
    """Milliseconds of this process's CPU time, at the median of several runs after a first one."""
    run()
    took = []
    for _ in range(RUNS):
        start = process_time()
        run()
        took.append(1000 * (process_time() - start))
    return median(took)


def lane(name: str, command: list[str]) -> None:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last = done.stdout.strip().splitlines()[-1]
    print(f"| {name} | {perf_counter() - start:.0f} | {used:.0f} | {last.strip('= ')} |")


if __name__ == "__main__":
    main(sys.argv[1:])
