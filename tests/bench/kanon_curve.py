"""Loss against time, and time against the number of records, for `auto`; and what `exact` proves.

Run: python -m tests.bench.kanon_curve [adult | visits | census | growth | million | exact] ...
"""

import sys
import time
from unittest.mock import patch

import duckdb
import numpy as np

from duckanon.engines.kanon import methods
from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.methods.refine import Budget
from duckanon.engines.kanon.records import Attribute, Records, records
from duckanon.engines.kanon.utility import utility
from duckanon.functions.encoding import encode
from tests.bench.census import census
from tests.bench.kanon_peers import DATA, QI

THREADS = 2


def adult() -> Records:
    """All 48,842 records, categories numbered in sorted order."""
    with duckdb.connect() as con:
        table = con.sql(f"SELECT {', '.join(QI)} FROM read_parquet(?)", params=[str(DATA)]).to_arrow_table()
    found = []
    for name in QI:
        a = encode(name, table[name].combine_chunks(), categorical=name not in ("age", "education_num"))
        levels = a.levels if a.levels is not None else np.arange(a.distinct) / (a.distinct - 1)
        found.append(Attribute(name, a.codes, levels, a.distinct, a.span, 1.0))
    return records(found)


def synthetic(n: int, m: int = 8) -> Records:
    table = census(n, m)
    return records([encode(x, table[x].combine_chunks(), categorical=False) for x in table.column_names])


def run(table: Records, k: int, method: str, seconds: float | None = None) -> tuple[float, float, float]:
    """Loss, seconds on the clock, seconds of CPU."""
    cpu, clock = time.process_time(), time.perf_counter()
    labels = anonymize(table, k, method, control=Control(THREADS, seconds=seconds))
    return utility(table, labels).information_loss, time.perf_counter() - clock, time.process_time() - cpu


def compare(table: Records, ks: tuple[int, ...], methods: tuple[str, ...]) -> None:
    print("| k | method | information loss | below Greedy | seconds | CPU seconds |")
    print("|---|---|---|---|---|---|")
    for k in ks:
        greedy = 0.0
        for method in methods:
            loss, clock, cpu = run(table, k, method)
            greedy = loss if method == "greedy" else greedy
            below = f"{1 - loss / greedy:.1%}" if greedy else ""
            print(f"| {k} | `{method}` | {loss:.5f} | {below} | {clock:.2f} | {cpu:.2f} |", flush=True)


# How often `auto` may visit each record, by k: its default first.
VISITS = {3: (32, 64, 128, 200), 10: (32, 60, 100, 150), 50: (12, 20, 30, 45)}


def longer(table: Records) -> None:
    """What `auto` finds with larger budgets, on one thread."""
    print("| k | visits | information loss | below Greedy | CPU seconds |\n|---|---|---|---|---|")
    for k, many in VISITS.items():
        greedy = utility(table, anonymize(table, k, "greedy")).information_loss
        for visits in many:
            with patch.object(methods, "default_budget", lambda *_, visits=visits: Budget(visits)):
                began = time.process_time()
                labels = anonymize(table, k, "auto")
            loss = utility(table, labels).information_loss
            took = time.process_time() - began
            print(f"| {k} | {visits} | {loss:.5f} | {1 - loss / greedy:.1%} | {took:.1f} |", flush=True)


# Records, attributes, k, and a time limit.
_PROVEN = ((100, 8, 3, None), (100, 4, 3, None), (1000, 8, 3, 60.0), (1000, 8, 5, 60.0), (500, 4, 10, 60.0))


def proofs() -> None:
    """What `exact` proves."""
    print("| records | m | k | loss | proven bound | gap | seconds | CPU seconds |\n|---|---|---|---|---|---|---|---|")
    for n, m, k, limit in _PROVEN:
        proven: list[float] = []
        table, clock, cpu = synthetic(n, m), time.perf_counter(), time.process_time()
        labels = anonymize(table, k, "exact", control=Control(THREADS, seconds=limit, certify=proven.append))
        loss = utility(table, labels).information_loss
        took, spent = time.perf_counter() - clock, time.process_time() - cpu
        gap = max(0.0, 1 - proven[-1] / loss)
        print(
            f"| {n} | {m} | {k} | {loss:.6f} | {proven[-1]:.6f} | {gap:.2%} | {took:.1f} | {spent:.1f} |",
            flush=True,
        )


def main(parts: list[str]) -> int:
    small = synthetic(3000)
    for method in ("greedy", "kmember", "mondrian", "auto"):  # load the compiled kernels
        run(small, 3, method, 1.0 if method == "auto" else None)
    if {"adult", "visits"} & set(parts) and not DATA.exists():
        print(f"adult and visits skipped: {DATA} is not here")
        parts = [part for part in parts if part not in ("adult", "visits")]
    if "adult" in parts:
        compare(adult(), (3, 10, 50), ("greedy", "kmember", "mondrian", "initial", "order", "auto"))
    if "visits" in parts:
        longer(adult())
    if "census" in parts:
        for m in (8, 4):
            print(f"\n100,000 synthetic records, m = {m}\n")
            compare(synthetic(100_000, m), (3,), ("greedy", "initial", "order", "auto"))
    if "growth" in parts:
        print("| records | information loss | seconds | CPU seconds |\n|---|---|---|---|")
        for n in (10_000, 30_000, 100_000, 300_000, 1_000_000):
            loss, clock, cpu = run(synthetic(n), 5, "auto")
            print(f"| {n:,} | {loss:.5f} | {clock:.1f} | {cpu:.1f} |", flush=True)
    if "million" in parts:
        table = synthetic(1_000_000)
        print("| method | limit, s | information loss | seconds | CPU seconds |\n|---|---|---|---|---|")
        limits = (8.0, 15.0, 30.0, 60.0, 120.0)
        for method, limit in (("initial", None), ("order", None), *(("auto", s) for s in limits)):
            loss, clock, cpu = run(table, 5, method, limit)
            print(f"| `{method}` | {limit or ''} | {loss:.5f} | {clock:.1f} | {cpu:.1f} |", flush=True)
    if "exact" in parts:
        proofs()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["adult", "census", "growth", "million", "exact"]))
