"""What the guard adds to a statement: `python -m tests.bench.guard_overhead`.

Each statement differs from the one before (another constant, another limit), so nothing is decided from memory.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import duckdb

import duckanon

RUNS = 200
SIZES = "SELECT n, count(*) FROM (SELECT unit, count(*) AS n FROM persons GROUP BY 1) GROUP BY 1"
# What is timed, the statement, and the goal in milliseconds.
STATEMENTS = (
    ("`SELECT 1`, guarded and run", "SELECT {}", 1.0),
    ("a sum by group over an open table, guarded and run", "SELECT a, sum(b) FROM sales WHERE b <> {} GROUP BY a", 5.0),
)
DECIDED: tuple[tuple[str, str, float | None], ...] = (
    ("to decide about a stored count", "SELECT sick, count(*) AS n FROM persons GROUP BY sick LIMIT {}", 5.0),
    ("to decide about a stored release of group sizes", SIZES + " LIMIT {}", None),
    ("to refuse a read of records", "SELECT * FROM persons WHERE id = {}", None),
)


def answered(con: Any, sql: str, at: int) -> None:
    con.execute(sql.format(at)).fetchall()


def explained(con: Any, sql: str, at: int) -> None:
    con.explain(sql.format(at))


def main() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.duckdb"
        with duckanon.connect(path) as con:
            con.execute(
                "CREATE TABLE sales AS SELECT i % 7 AS a, i AS b, i AS c FROM range(1000) r(i); "
                "CREATE TABLE persons AS SELECT i AS id, i // 3 AS unit, i % 5 = 0 AS sick FROM range(1000) r(i)"
            ).fetchall()
            con.execute(
                "SELECT open_table('sales'), protect('persons', epsilon := 10, privacy_unit := 'id', "
                "rows_per_unit := 1, unit := 'unit', per_query := 1, max_size := 9, public := ['sick'], "
                "domains := {'sick': [true, false]})"
            ).fetchall()
        print("| what | ms | goal | without a guard |\n|---|---:|---:|---:|")
        with duckdb.connect(str(path)) as plain:
            run = {name: timed(partial(answered, plain, sql)) for name, sql, _ in STATEMENTS}
        with duckanon.connect(path, role="analyst") as con:
            con.execute(DECIDED[0][1].format(1)).fetchall()
            con.execute(DECIDED[1][1].format(1)).fetchall()
            goal: float | None
            for name, sql, goal in STATEMENTS:
                took = timed(partial(answered, con, sql))
                said(name, took, goal, f"{run[name]:.2f}")
            for name, sql, goal in DECIDED:
                said(name, timed(partial(explained, con, sql)), goal)
            said("`cursor()`", timed(lambda _: con.cursor()), 20.0)


def said(name: str, took: float, goal: float | None, without: str = "") -> None:
    """Prints a row of the table."""
    print(f"| {name} | {took:.2f} | {'' if goal is None else f'{goal:g}'} | {without} |", flush=True)


def timed(run: Callable[[int], object]) -> float:
    """Milliseconds, at the median."""
    took = []
    for at in range(1, RUNS + 1):
        start = perf_counter()
        run(at)
        took.append(1000 * (perf_counter() - start))
    return median(took)


if __name__ == "__main__":
    main()
