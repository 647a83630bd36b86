"""k_anonymize over a million rows beside the sort that DuckDB itself does, and the time until a first result.

Run: python -m tests.bench.kanon_size [ROWS]

Measured in one process, one after the other, five times: `CREATE TABLE AS SELECT * ... ORDER BY` of eight
quasi-identifiers, then `CREATE TABLE AS FROM k_anonymize` of the same, k = 5. The ratio of each pair counts.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import duckanon
from tests.bench.census import ATTRIBUTES, census

PAIRS = 5
NAMES = [name for name, *_ in ATTRIBUTES]


def timed(con: duckdb.DuckDBPyConnection, query: str) -> float:
    start = time.perf_counter()
    con.execute(query).fetchall()
    return time.perf_counter() - start


def measure(rows: int, method: str, file: str) -> None:
    """Print one line of the table. Runs in a process of its own, so that the peak memory is this method's."""
    with duckdb.connect(file) as con:
        duckanon.register(con)
        con.execute("SET enable_progress_bar = false").fetchall()
        frame = census(rows)
        con.execute("CREATE TABLE people AS FROM frame").fetchall()
        del frame
        sort = f"CREATE OR REPLACE TABLE sorted AS SELECT * FROM people ORDER BY {', '.join(NAMES)}"
        call = f"CREATE OR REPLACE TABLE released AS FROM k_anonymize('people', {NAMES}, k := 5, method := '{method}')"
        con.execute("CREATE TABLE few AS FROM people LIMIT 1000").fetchall()
        con.execute(call.replace("'people'", "'few'")).fetchall()
        pairs = [(timed(con, sort), timed(con, call)) for _ in range(PAIRS)]
        ((classes,),) = con.execute("SELECT max(class_id) FROM released").fetchall()
        ratios = sorted(ours / theirs for theirs, ours in pairs)
        sorting, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        where = "memory" if file == ":memory:" else "file"
        print(
            f"| `{method}` | {where} | {classes:,} | {sorting:.2f} | {ours:.2f} | {statistics.median(ratios):.1f} "
            f"| {ratios[0]:.1f} to {ratios[-1]:.1f} | {peak:.2f} |",
            flush=True,
        )


FIRST = """
import time
start = time.perf_counter(); import duckanon; print(time.perf_counter() - start)
import duckdb
start = time.perf_counter()
con = duckanon.register(duckdb.connect())
con.execute("CREATE TABLE t AS SELECT i AS age, i % 7 AS zip FROM range(1000) r(i)").fetchall()
con.execute("FROM k_anonymize('t', ['age', 'zip'])").fetchall(); print(time.perf_counter() - start)
con.close()
"""


def first_call() -> None:
    runs = []
    for _ in range(6):
        out = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True).stdout
        runs.append(tuple(map(float, out.split())))
    # The first run warms numba's cache and the system's.
    imports, calls = zip(*runs[1:], strict=True)
    print(f"\n`import duckanon`: {statistics.median(imports):.3f} s. From there to the first `k_anonymize` result in a")
    print(f"fresh process, loading DuckDB, numba and the compiled engines: {statistics.median(calls):.2f} s.")


def main() -> int:
    if len(sys.argv) == 4:
        measure(int(sys.argv[1]), sys.argv[2], sys.argv[3])
        return 0
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    print(f"{rows:,} records, {len(NAMES)} quasi-identifiers, k = 5, duckdb {duckdb.__version__}\n")
    print("| method | database in | classes | sort, s | k_anonymize, s | ratio | ratios seen | peak, GiB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for method in ("initial", "order"):
            for file in (":memory:", str(Path(folder) / f"{method}.duckdb")):
                subprocess.run([sys.executable, "-m", "tests.bench.kanon_size", str(rows), method, file], check=True)
    first_call()
    return 0


if __name__ == "__main__":
    sys.exit(main())
