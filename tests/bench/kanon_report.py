"""k_report with sensitive columns, by records, beside DuckDB's own sort of the same columns in the same run.

Run: python -m tests.bench.kanon_report [LEAST ROWS]

CPU seconds, the least of three; n log n grows by 4.5 where records are four times as many.
"""

from __future__ import annotations

import sys
import time

import duckdb

import duckanon
from tests.bench.census import ATTRIBUTES, census

NAMES = [name for name, *_ in ATTRIBUTES]
SENSITIVE = ["occupation", "education"]


def least(con: duckdb.DuckDBPyConnection, query: str) -> float:
    """CPU seconds of a query, after one run that compiles what it needs."""
    con.execute(query).fetchall()
    seconds = []
    for _ in range(3):
        start = time.process_time()
        con.execute(query).fetchall()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main(rows: int) -> None:
    con = duckanon.register(duckdb.connect())
    con.execute("SET enable_progress_bar = false").fetchall()
    qi = [name for name in NAMES if name not in SENSITIVE]
    print("| records | `k_report` | growth | sort | growth |\n|---|---|---|---|---|")
    before: list[float] = []
    for many in (rows, 4 * rows, 16 * rows, 64 * rows):
        con.register("records", census(many))
        con.execute("CREATE OR REPLACE TABLE people AS FROM records").fetchall()
        report = least(con, f"FROM k_report('people', {qi}, sensitive := {SENSITIVE})")
        ordered = f"SELECT * FROM people ORDER BY {', '.join([*qi, *SENSITIVE])}"
        sort = least(con, f"SELECT sum(hash(COLUMNS(*))) FROM ({ordered} LIMIT {many})")
        grown = [f"{now / then:.1f}" for now, then in zip((report, sort), before, strict=True)] if before else ["", ""]
        print(f"| {many:,} | {report:.2f} | {grown[0]} | {sort:.2f} | {grown[1]} |", flush=True)
        before = [report, sort]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
