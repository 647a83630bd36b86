"""How near the lower bound by prices comes to `auto` on Adult, by CPU seconds on one thread, beside the box bound.

Run: python -m tests.bench.kanon_certificate [numbers|mixed|census ...] [--k 3 5 10] [--limit 120]
"""

import argparse
import sys
from time import process_time
from typing import Any

import duckdb
import numpy as np

from duckanon.engines.kanon.anonymize import anonymize
from duckanon.engines.kanon.bounds import box_losses
from duckanon.engines.kanon.certificate.certificate import _BOX_ERROR, _grains, _Rounds, bound_of
from duckanon.engines.kanon.certificate.growing import near_points
from duckanon.engines.kanon.certificate.points import distinct
from duckanon.engines.kanon.certificate.pricing import OutOfTime
from duckanon.engines.kanon.certificate_check import check
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.partition import split_large
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Attribute, Records, records
from duckanon.functions.encoding import encode
from tests.bench.kanon_adult import DATA, QI, TEXT
from tests.bench.kanon_curve import synthetic

COMPLETE = "WHERE part = 'train' AND workclass <> '?' AND occupation <> '?' AND native_country <> '?'"


def adult(kind: str) -> Records:
    """All 48,842 records, texts as numbers of their values in order; or the 30,162 complete training records, mixed."""
    with duckdb.connect() as con:
        where = COMPLETE if kind == "mixed" else ""
        query = f"SELECT {', '.join(QI)} FROM read_parquet('{DATA}') {where}"
        columns: Any = con.sql(query).to_arrow_table()
    found = []
    for name in QI:
        a = encode(name, columns[name].combine_chunks(), categorical=name in TEXT)
        if kind == "numbers" and a.levels is None:
            a = Attribute(name, a.codes, np.arange(a.distinct) / (a.distinct - 1), a.distinct, a.span, 1.0)
        found.append(a)
    table = records(found)
    return table.take(canonical(table))


def census() -> Records:
    """100,000 synthetic records."""
    table = synthetic(100_000)
    return table.take(canonical(table))


def measure(kind: str, k: int, limit: float, marks: list[float]) -> None:
    table = census() if kind == "census" else adult(kind)
    labels = anonymize(table, k)
    loss = total_loss(table.space, labels) / len(table)
    some = table.take(np.arange(60 * k, dtype=np.int32))
    _run(some, k, np.arange(60 * k, dtype=np.int32) // k, 60.0)  # to load the compiled kernels
    began = process_time()
    box = box_losses(table, k).mean()
    boxed = process_time() - began
    found, bounds = _run(table, k, labels, limit)
    print(f"| {kind}, {len(table):,} | {k} | {loss:.5f} | {1 - box / loss:.3f} in {boxed:.1f} s |", end="")
    for mark in marks:
        reached = max((bound for spent, bound in bounds if spent <= mark), default=box)
        print(f" {1 - reached / loss:.3f} |" if mark <= limit else " |", end="")
    began = process_time()
    verdict = check(table, k, found)
    how = "valid" if verdict.valid else f"{verdict.proven:.6f} of {verdict.claimed:.6f}, {verdict.undecided} undecided"
    print(f" {bounds[-1][0]:.0f} s | {how} in {process_time() - began:.0f} s |", flush=True)


def _run(table: Records, k: int, labels: np.ndarray, limit: float) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """The prices that the rounds end with, and the CPU seconds, the box bound's included, and the bound after each."""
    began = process_time()
    box, found = box_losses(table, k), distinct(table)
    first = np.zeros(len(found), np.int64)
    first[found.of] = _grains(box - _BOX_ERROR)
    rounds, bounds = _Rounds(found, k, first, split_large(labels, k), near_points(found, 1)), []

    def is_over(_: int = 0) -> bool:
        return process_time() - began > limit

    rounds._fit(is_over)
    while not is_over() and rounds.step >= 0.01:
        try:
            rounds._round(is_over)
        except OutOfTime:
            break
        bounds.append((process_time() - began, bound_of(rounds.best[found.of] - found.slack, table.floor)))
    return rounds.best[found.of] - found.slack, bounds


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("tables", nargs="*", default=["numbers", "mixed"])
    asked.add_argument("--k", type=int, nargs="+", default=[3, 5, 10])
    asked.add_argument("--limit", type=float, default=120.0)
    given = asked.parse_args()
    if not DATA.exists():
        print(f"skipped: {DATA} is not here")
        return 0
    marks = [10.0, 30.0, 60.0, 120.0]
    print("| table | k | auto loses | box gap |", *(f"gap at {mark:.0f} s |" for mark in marks), "ended | check |")
    print("|---" * (6 + len(marks)) + "|")
    for kind in given.tables:
        for k in given.k:
            measure(kind, k, given.limit, marks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
