"""Microaggregation of CASC's reference sets beside MDAV, the method of R's sdcMicro: sums of squares, bounds, CPU time.

Run: python -m tests.bench.kanon_squares [FOLDER WITH Tarragona.csv AND EIA.csv] [METHODS, as in auto,exact]
"""

import csv
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.microaggregation.microaggregate import minimised
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import attribute, records

SETS = ("Tarragona", "EIA")
Floats = npt.NDArray[np.float64]


def mdav(points: Floats, k: int) -> float:
    """The sum of squares of MDAV's classes (Domingo-Ferrer and Torra 2005), as sdcMicro makes them."""
    left, total = points, 0.0

    def farthest(of: Floats) -> Floats:
        return left[((left - of) ** 2).sum(axis=1).argmax()]

    def take(around: Floats) -> None:
        nonlocal left, total
        near = np.argsort(((left - around) ** 2).sum(axis=1), kind="stable")[:k]
        total += float(((left[near] - left[near].mean(axis=0)) ** 2).sum())
        left = np.delete(left, near, axis=0)

    while len(left) >= 3 * k:
        one = farthest(left.mean(axis=0))
        other = farthest(one)
        take(one)
        take(other)
    if len(left) >= 2 * k:
        take(farthest(left.mean(axis=0)))
    return total + float(((left - left.mean(axis=0)) ** 2).sum())


def main(folder: Path, methods: list[str]) -> int:
    print("| set | k | method | SSE / SST, % | less than MDAV, % | gap, % | CPU seconds |")
    print("|---|---|---|---|---|---|---|")
    for name in SETS:
        with (folder / f"{name}.csv").open(encoding="utf-8") as file:
            values = np.array(list(csv.reader(file))[1:], np.float64)
        points = (values - values.mean(axis=0)) / values.std(axis=0)
        table = records([attribute(f"c{j}", column) for j, column in enumerate(values.T)])
        table = table.take(canonical(table))
        for k in (3, 5, 10):
            least = mdav(points, k)
            print(f"| {name} | {k} | MDAV | {100 * least / points.size:.2f} | | | |")
            # Bounds for larger k take long, and are far off.
            for method in methods[: 2 if k == 3 else 1]:
                began = time.process_time()
                found = minimised(table, k, method, Control())
                took = time.process_time() - began
                gap = f"{100 * (1 - found.bound / found.sum):.1f}" if found.bound else ""
                share, saved = 100 * found.sum / points.size, 100 * (1 - found.sum / least)
                print(f"| {name} | {k} | `{method}` | {share:.3f} | {saved:.1f} | {gap} | {took:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(
        main(
            Path(sys.argv[1] if len(sys.argv) > 1 else "../../shared/data"),
            sys.argv[2].split(",") if len(sys.argv) > 2 else ["auto", "exact"],
        )
    )
