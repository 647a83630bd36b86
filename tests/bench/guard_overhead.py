"""What the guard adds to a statement: `python -m tests.bench.guard_overhead`."""

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import duckdb

import duckanon

RUNS = 200
OPEN = {"SELECT 1": "SELECT 1", "a table of 3 columns": "SELECT a, sum(b) FROM sales GROUP BY a"}
PROTECTED = {
    "a group-size query": "SELECT n, count(*) FROM (SELECT unit, count(*) AS n FROM persons GROUP BY 1) GROUP BY 1",
    "a refused read": "SELECT * FROM persons WHERE id = 3",
}


def main() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.duckdb"
        with duckanon.connect(path) as con:
            con.execute(
                "CREATE TABLE sales AS SELECT i % 7 AS a, i AS b, i AS c FROM range(1000) r(i); "
                "CREATE TABLE persons AS SELECT i AS id, i // 3 AS unit FROM range(1000) r(i)"
            ).fetchall()
            con.execute(
                "SELECT protect('persons', unit := 'unit', epsilon := 1, per_query := 1, max_size := 9)"
            ).fetchall()
        with duckdb.connect(str(path)) as con:
            plain = {name: timed(lambda sql=sql: con.execute(sql).fetchall()) for name, sql in OPEN.items()}
        with duckanon.connect(path, role="analyst") as con:
            for name, sql in OPEN.items():
                took = timed(lambda sql=sql: con.execute(sql).fetchall())
                print(f"{name}: {took:.2f} ms guarded, {plain[name]:.2f} ms plain")
            for name, sql in PROTECTED.items():
                print(f"{name}: {timed(lambda sql=sql: con.explain(sql)):.2f} ms to decide")


def timed(run: object) -> float:
    """Milliseconds, at the median."""
    assert callable(run)
    took = []
    for _ in range(RUNS):
        start = perf_counter()
        run()
        took.append(1000 * (perf_counter() - start))
    return median(took)


if __name__ == "__main__":
    main()
