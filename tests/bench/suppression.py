"""Secondary suppression: cost, lower bound, time and under-protected primary cells of seeded magnitude tables.

Run: python -m tests.bench.suppression [CELLS ...]

Rows are a total, sections and divisions; columns a total and its parts; p% with p = 10 or fewer than three
contributors, and intervals of 5 % at least; attackers know each cell to within 100 %. Cost is the sum of log(1 + value)
over secondary suppressions. The bound is that of the linear relaxation with capacity constraints (Fischetti and Salazar
2000). Under-protected cells are counted by an audit of the published table alone.
"""

import sys
import time

import numpy as np

from duckanon.engines.suppression.problem import problem
from duckanon.engines.suppression.suppress import audited, suppress, under_protected
from tests.bench.suppression_data import SIZES, generated


def line(cells: int) -> str:
    table, demanded = generated(*SIZES[cells])
    start, busy = time.perf_counter(), time.process_time()
    one = problem(table, demanded, (np.zeros(table.units.shape), 2 * table.units))
    found = suppress(one)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    under = under_protected(one, audited(one, (found.primary | found.secondary).ravel())).sum()
    return (
        f"| {cells:,} | {found.primary.sum():,} | {found.secondary.sum()} | {found.cost:.2f} | {found.bound:.2f} | "
        f"{100 * found.gap:.2f} | {'yes' if found.optimal else 'no'} | {under} | {100 * found.exact.mean():.0f} | "
        f"{seconds:.1f} | {busy:.1f} |"
    )


def main() -> int:
    heads = "cells, primary, secondary, cost, bound, gap in %, optimal, under, intervals proven in %, seconds, of CPU"
    print("|", heads.replace(", ", " | "), "|")
    print("|---" * len(heads.split(", ")) + "|")
    for cells in map(int, sys.argv[1:] or map(str, SIZES)):
        print(line(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
