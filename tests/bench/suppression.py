"""Secondary suppression: cost, lower bound, time and under-protected primary cells of seeded magnitude tables.

Run: python -m tests.bench.suppression [CELLS ...], for tables of two dimensions or, for 6160, 22134, 94668, 255285 and
502200, of four, and for 24640, 88536, 284004 and 946680 of five; or python -m tests.bench.suppression elimination, for
50 tables beside a plain elimination in the same run

Rows are a total, sections and divisions; columns a total and its parts; p% with p = 10 or fewer than three
contributors, and intervals of 5 % at least; attackers know each cell to within 100 %. Cost is the sum of log(1 + value)
over secondary suppressions. The bound is that of the linear relaxation with capacity constraints (Fischetti and Salazar
2000). Under-protected cells are counted by an audit of the published table alone.
"""

import resource
import sys
import time

import numpy as np

from duckanon.engines.suppression.attacker import Attacker
from duckanon.engines.suppression.audit import Intervals
from duckanon.engines.suppression.problem import problem
from duckanon.engines.suppression.repair import repaired
from duckanon.engines.suppression.suppress import all_targets, audited, suppress, under_protected
from tests.bench.suppression_data import CROSSED, SIZES, crossed, generated
from tests.bench.suppression_elimination import eliminated

# Cells of the tables that are measured without being asked for.
USUAL = (407, 1491, 5053)
# Sections, divisions and columns of the 50 tables.
BESIDE = (4, 16, 8)


def line(cells: int) -> str:
    table, demanded = crossed(*CROSSED[cells]) if cells in CROSSED else generated(*SIZES[cells])
    start, busy = time.perf_counter(), time.process_time()
    one = problem(table, demanded, (np.zeros(table.units.shape), 2 * table.units))
    found = suppress(one)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    under = under_protected(one, Intervals(found.cells, found.lower, found.upper, found.exact, found.exact)).sum()
    gap = f"{found.bound:.2f} | {100 * found.gap:.2f}" if found.bound else "- | -"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"| {cells:,} | {found.primary.sum():,} | {found.secondary.sum():,} | {found.cost:.2f} | {gap} | "
        f"{'yes' if found.optimal else 'no'} | {under} | {100 * found.exact.mean():.0f} | "
        f"{seconds:.1f} | {busy:.1f} | {memory:.2f} |"
    )


def beside_elimination(tables: int) -> str:
    """Suppressed cells and costs of both, and what a search of the same attackers finds open after the elimination.

    Equal safety: what the elimination leaves open is repaired as the engine repairs its own patterns.
    """
    sums = np.zeros(7)
    for seed in range(tables):
        table, demanded = generated(*BESIDE, seed=seed)
        one = problem(table, demanded, (np.zeros(table.units.shape), 2 * table.units))
        found, plain = suppress(one), eliminated(one)
        mine = (found.primary | found.secondary).ravel()
        targets = [t for t in all_targets(one) if not Attacker(one, plain.astype(float)).attack(t).protects(t)]
        safe = repaired(one, targets, plain, one.cost)
        assert not under_protected(one, audited(one, mine)).any()
        sums += [
            mine.sum(),
            one.cost_of(mine),
            plain.sum(),
            one.cost_of(plain),
            len(targets),
            safe.sum(),
            one.cost_of(safe),
        ]
    return "| " + " | ".join(f"{one:.2f}" for one in sums / tables) + " |"


def main() -> int:
    if sys.argv[1:] == ["elimination"]:
        heads = "suppressed, cost, by elimination, its cost, left too narrow, repaired, repaired cost"
        print("|", heads.replace(", ", " | "), "|")
        print("|---" * len(heads.split(", ")) + "|")
        print(beside_elimination(50))
        return 0
    heads = (
        "cells, primary, secondary, cost, bound, gap in %, optimal, under, intervals proven in %, seconds, of CPU, GiB"
    )
    print("|", heads.replace(", ", " | "), "|")
    print("|---" * len(heads.split(", ")) + "|")
    for cells in map(int, sys.argv[1:] or USUAL):
        print(line(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
