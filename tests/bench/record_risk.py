"""record_risk and k_subsets: seconds by records, columns and the size of subsets.

Run: python -m tests.bench.record_risk [ROWS]

The table is that of kanon_size. Each call runs twice; the second counts.
"""

import sys
import time

import duckdb

import duckanon
from tests.bench.census import ATTRIBUTES, census

NAMES = [name for name, *_ in ATTRIBUTES]


def timed(con: duckdb.DuckDBPyConnection, query: str) -> float:
    con.execute(query).fetchall()
    start = time.perf_counter()
    con.execute(query).fetchall()
    return time.perf_counter() - start


def main(rows: int) -> None:
    con = duckanon.register(duckdb.connect())
    con.execute("SET enable_progress_bar = false").fetchall()
    frame = census(rows)
    con.execute("CREATE TABLE people AS FROM frame").fetchall()
    del frame
    print(f"{rows:,} records; seconds")
    print("| columns | size | record_risk | k_subsets |\n|---|---|---|---|")
    for columns in (4, len(NAMES)):
        for size in (2, 3, 4):
            call = f"'people', {NAMES[:columns]}, size := {size}"
            risk, subsets = (
                timed(con, f"SELECT max(suda) FROM record_risk({call})"),
                timed(con, f"FROM k_subsets({call})"),
            )
            print(f"| {columns} | {size} | {risk:.2f} | {subsets:.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
