"""Cell bounds by each method, side by side in one run: the survey tables, distinct sums, and growth with N.

Run: python -m tests.bench.cells_methods FOLDER

FOLDER holds czech_autoworkers.csv and nltcs.csv; without it, the tables made here are measured alone. All methods get
the same knapsack, equal rows collapsed. Each figure is the median of runs (of 1 for what takes seconds), after a first
call that compiles. Methods must agree, or the run stops.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import duckanon
from duckanon.engines.cells.knapsack import Knapsack, knapsack
from duckanon.engines.cells.methods import METHODS
from duckanon.engines.cells.reduction import Reduced, reduce
from duckanon.engines.cells.rounded_proportions import rounded_bounds

SLOW = 1.0


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Median seconds, and what came out."""
    times: list[float] = []
    out: object = None
    while len(times) < 15 and sum(times) < 3 and not (times and times[0] > SLOW):
        start = time.perf_counter()
        out = run()
        times.append(time.perf_counter() - start)
    return statistics.median(times), out


def nltcs(con: duckdb.DuckDBPyConnection, folder: Path) -> tuple[Reduced, Reduced, int]:
    """Table O, and table J: without the rows that have a zero cell."""
    names = [f"v{i}" for i in (*range(1, 14), 15, 16)]
    cells = con.execute(
        f"SELECT {' + '.join(f'{name} * {1 << i}' for i, name in enumerate(names))} AS r, sum(count)::BIGINT AS n "
        f"FROM read_csv('{folder / 'nltcs.csv'}') GROUP BY r, v14 ORDER BY r"
    ).fetchnumpy()
    row, count = cells["r"].astype(np.int64), cells["n"].astype(np.int64)
    whole = reduce(row, count)
    full = np.isin(row, np.flatnonzero(np.bincount(row) == 2))
    return whole, reduce(row[full], count[full]), 2 ** len(names)


def czech(con: duckdb.DuckDBPyConnection, folder: Path) -> Reduced:
    cells = con.execute(
        "SELECT A_smoking*16 + B_mental*8 + D_physical*4 + E_systolic_bp*2 + F_lipoprotein AS r, "
        f"sum(count)::BIGINT AS n FROM read_csv('{folder / 'czech_autoworkers.csv'}') "
        "GROUP BY r, G_anamnesis ORDER BY r"
    ).fetchnumpy()
    return reduce(cells["r"].astype(np.int64), cells["n"].astype(np.int64))


def compare(label: str, shape: str, problem: Knapsack, methods: list[str]) -> None:
    METHODS["residues"].run(problem)
    fastest, expected = timed(lambda: METHODS["residues"].run(problem))
    line = [f"{fastest * 1000:.3f}"]
    for name in methods[1:]:
        seconds, found = timed(partial(METHODS[name].run, problem))
        same = (found.lower == expected.lower).all() and (found.upper == expected.upper).all()
        if METHODS[name].every_value:
            same = same and (found.count == expected.count).all()
        assert same, (label, name)
        line.append(f"{seconds * 1000:,.3f} ({seconds / fastest:,.1f}x)")
    line += ["-"] * (4 - len(line))
    print(f"| {label} | {shape} | {len(problem)} | {problem.target:,} | {' | '.join(line)} |", flush=True)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    every = ["residues", "viability", "classical", "milp"]
    warm, _ = knapsack(np.array([7, 8, 5, 9]), 19)
    for method in METHODS.values():
        method.run(warm)
    print("Milliseconds; in brackets how many times the time of `residues`.\n")
    print("| table | rows, nonzero, columns, N | kinds | N - R | residues | viability | classical | HiGHS |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    if folder:
        with duckdb.connect() as con:
            table = czech(con, folder)
            whole, without, rows = nltcs(con, folder)
        for label, one, count in (("L", table, 32), ("O", whole, rows), ("J", without, len(without.rows))):
            shape = f"{count:,}, {len(one.rows):,}, 2, {one.total:,}"
            compare(label, shape, knapsack(one.sums, one.target)[0], every)
    for highest in (5_000, 10_000, 19_000):
        sums = np.random.default_rng(1).choice(np.arange(1001, highest), 500, replace=False)
        problem, _ = knapsack(sums, 10**7 - int(sums.sum()))
        compare(f"500 distinct sums, 1,001 to {highest:,}", "500, 500, -, 10,000,000", problem, every[:2])
    print("\nThe same 500 reduced sums, 2 to 35 (add up to less than 10^4), and 500 distinct ones from 1,001 on:\n")
    print("| sums | N | residues, ms |")
    print("|---|---|---|")
    rng = np.random.default_rng(2)
    small = rng.integers(2, 36, 500)
    large = rng.choice(np.arange(1001, 19_000), 500, replace=False)
    huge = np.sort(rng.choice(np.arange(10**5, 10**7), 500, replace=False))
    for label, sums, sizes in (
        ("2 to 35", small, (10**4, 10**6, 10**9, 10**12)),
        ("1,001 to 19,000", large, (10**7, 10**9, 10**12)),
        ("100,000 to 10^7", huge, (10**10, 10**12, 10**15)),
    ):
        for n in sizes:
            problem, _ = knapsack(sums, n - int(sums.sum()))
            METHODS["residues"].run(problem)
            seconds, _ = timed(partial(METHODS["residues"].run, problem))
            print(f"| {label} | 10^{len(str(n)) - 1} | {seconds * 1000:.3f} |", flush=True)
    print("\nRounded proportions, 1,000 rows, N = 50,000, 3 digits (rows from log-normal sizes, Dirichlet shares):\n")
    print("| columns | spread of row totals | seconds | cells disclosed |")
    print("|---|---|---|---|")
    rounded_bounds(np.zeros(2, dtype=np.int64), np.array([500, 500]), 3, 100)
    rng = np.random.default_rng(3)
    for columns in (2, 3, 6, 12):
        for spread in (0.3, 1.1):
            totals = np.maximum(1, rng.lognormal(3.3, spread, 1000)).astype(np.int64)
            totals = np.maximum(1, totals * 50_000 // totals.sum())
            totals[0] += 50_000 - totals.sum()
            counts = np.array([rng.multinomial(t, rng.dirichlet(np.ones(columns))) for t in totals])
            # Half up, in whole numbers.
            published = (2 * counts * 1000 + totals[:, None]) // (2 * totals[:, None])
            row = np.repeat(np.arange(1000, dtype=np.int64), columns)
            start = time.perf_counter()
            found = rounded_bounds(row, published.ravel(), 3, 50_000)
            seconds = time.perf_counter() - start
            assert (found.lower <= counts.ravel()).all()
            assert (found.upper >= counts.ravel()).all()
            print(f"| {columns} | {spread} | {seconds:.2f} | {(found.lower == found.upper).mean():.1%} |", flush=True)
    through_sql()
    return 0


def through_sql() -> None:
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("SET enable_progress_bar = false").fetchall()
        # The levels of the census variables of Table 12: 3, 4, 5, 2, 2, 2, 3, 2.
        levels = (3, 4, 5, 2, 2, 2, 3, 2)
        columns = ", ".join(f"floor({n} * random() * random())::INTEGER AS x{i}" for i, n in enumerate(levels, 1))
        con.execute("SELECT setseed(0.5)").fetchall()
        con.execute(f"CREATE TABLE people AS SELECT {columns} FROM range(50000)").fetchall()
        names = [f"x{i}" for i in range(1, 9)]
        report = f"FROM disclosure_report('people', {names[:7]}, {names[7:]})"
        con.execute(report).fetchall()
        seconds, _ = timed(lambda: con.execute(report).fetchall())
        print(f"\n`disclosure_report`, 50,000 rows of microdata, 7 row variables: {seconds:.3f} s.")
        call = f"FROM table_designs('people', {names})"
        start = time.perf_counter()
        found = con.execute(call).fetchall()
        print(f"`table_designs`, the same 8 variables, {len(found):,} designs: {time.perf_counter() - start:.2f} s.")


if __name__ == "__main__":
    sys.exit(main())
