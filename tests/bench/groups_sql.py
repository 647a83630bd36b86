"""dp_group_sizes from SQL over five million persons, beside group_sizes and the plain SQL that counts the same.

Run: python -m tests.bench.groups_sql [ROWS]

Persons live in units of geometric sizes, in 52 states and 3,144 counties. Each timed call of dp_group_sizes is a new
one (another epsilon), so it charges, draws and stores; the last column is the same call once more, which is given the
stored release.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

import duckanon

RUNS = 5
PLAIN = """
  SELECT state, county, size, count(*) AS groups
  FROM (
    SELECT unit, any_value(state) AS state, any_value(county) AS county, count(*) AS size FROM persons GROUP BY unit
  )
  GROUP BY ALL
"""
EXACT = "FROM group_sizes('persons', 'unit', ['state', 'county'])"


def private(epsilon: str, max_size: int) -> str:
    return (
        f"FROM dp_group_sizes('persons', 'unit', ['state', 'county'], epsilon := '{epsilon}', max_size := {max_size})"
    )


def persons(rows: int) -> dict[str, np.ndarray]:
    """One row a person, in random order: unit, state, county."""
    random = np.random.default_rng(5)
    sizes = np.minimum(random.geometric(0.4, rows), 1000)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), rows)]
    unit = np.repeat(np.arange(len(sizes)), sizes)
    unit = random.permutation(np.append(unit, np.full(rows - len(unit), len(sizes))))
    county = random.permutation(len(sizes) + 1)[unit] % 3144
    return {"unit": unit, "county": county}


def timed(con: duckdb.DuckDBPyConnection, query: str) -> float:
    start = time.perf_counter()
    con.execute(f"CREATE OR REPLACE TABLE result AS {query}").fetchall()
    return time.perf_counter() - start


def measure(rows: int, file: str, max_size: int) -> None:
    with duckdb.connect(file) as con:
        duckanon.register(con)
        con.execute("SET enable_progress_bar = false").fetchall()
        frame = persons(rows)
        con.execute(
            "CREATE TABLE persons AS "
            "SELECT unit, 'state ' || (county % 52) AS state, 'county ' || county AS county FROM frame"
        ).fetchall()
        del frame
        timed(con, private("9", max_size))
        runs = []
        for run in range(RUNS):
            new = private(f"0.{run + 1}", max_size)
            runs.append([timed(con, query) for query in (PLAIN, EXACT, new, new)])
        plain, exact, first, again = (statistics.median(times) for times in zip(*runs, strict=True))
        ratios = sorted(run[2] / run[1] for run in runs)
        where = "memory" if file == ":memory:" else "file"
        print(
            f"| {where} | {max_size:,} | {plain:.2f} | {exact:.2f} | {first:.2f} | {statistics.median(ratios):.2f} "
            f"| {ratios[0]:.2f} to {ratios[-1]:.2f} | {first / plain:.2f} | {again:.2f} |",
            flush=True,
        )


def main() -> int:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 5_000_000
    print(f"{rows:,} persons, 52 states, 3,144 counties, duckdb {duckdb.__version__}\n")
    print(
        "| database in | max_size | plain SQL, s | group_sizes, s | dp_group_sizes, s | ratio to group_sizes "
        "| ratios seen | ratio to plain SQL | stored, s |"
    )
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for max_size in (20, 100):
            for file in (":memory:", str(Path(folder) / f"{max_size}.duckdb")):
                measure(rows, file, max_size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
