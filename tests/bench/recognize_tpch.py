"""The time to decide what a query asks: TPC-H's 22 queries and the fixtures of the recognisers.

Run: python -m tests.bench.recognize_tpch

Each query five times, the median counts; parsing included, since a guard has to parse. Reading the schema is not.
"""

import statistics
import time
from importlib.metadata import version

import sqlglot

from duckanon.rewrite.recognize import Schema, findings_in
from tests.rewrite.fixtures import Entry, entries, schema
from tests.rewrite.test_tpch import QUERIES, watched

REPEATS = 5


def milliseconds(entry: Entry, known: Schema) -> tuple[float, float]:
    """Median time of parsing alone, and of parsing and deciding."""
    parsing, deciding = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        sqlglot.parse_one(entry.sql, read="duckdb")
        middle = time.perf_counter()
        findings_in(entry.sql, known)
        parsing.append(middle - start)
        deciding.append(time.perf_counter() - middle)
    return 1000 * statistics.median(parsing), 1000 * statistics.median(deciding)


def line(name: str, queries: list[Entry], known: Schema) -> None:
    times = [milliseconds(one, known) for one in queries]
    parse, decide = zip(*times, strict=True)
    print(
        f"| {name} | {version('sqlglot')} | {len(queries)} | {statistics.median(parse):.1f} "
        f"| {statistics.median(decide):.1f} | {max(decide):.1f} |",
        flush=True,
    )


def main() -> None:
    print(
        "| queries | sqlglot | how many | parsing, median ms | deciding, median ms | longest ms |\n"
        "|---|---|---:|---:|---:|---:|"
    )
    line("TPC-H", QUERIES, watched())
    files = ("group_size", "conditional", "plain_count", "row_level")
    found = [one for name in files for suffix in ("", "_look_alikes") for one in entries(f"rewrite/{name}{suffix}")]
    line("the recognisers' fixtures", found, schema())


if __name__ == "__main__":
    main()
