"""Speed: the noise beside OpenDP's, `auto` on all cells of the census's shape, dynamic programs beside HiGHS.

Run: python -m tests.bench.groups_speed

OpenDP (pip install opendp) is only needed for its own line. Figures are seconds of processor time, which other programs
beside it disturb little, each the median of runs after a first call that compiles.
"""

import resource
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np

from duckanon.engines.discrete_gaussian import discrete_gaussian
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.release import release
from duckanon.engines.groups.request import Request
from duckanon.engines.randomness import Entropy, double_geometric
from tests.bench.groups_data import census
from tests.engines.seeded import Seeded

DRAWS = 1_000_000


def timed(run: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def noise() -> None:
    double_geometric(Fraction(30), 10, Entropy())
    ours = timed(lambda: double_geometric(Fraction(30), DRAWS, Entropy()), 3)
    print(f"{DRAWS:,} draws of scale 30: {ours:.3f} s, {ours / DRAWS * 1e9:.0f} ns each.", flush=True)
    # The last two are those of sums of 10^8 and of 10^13 steps.
    steps = (Fraction(1234 * 10**16, 1001), Fraction(1234 * 10**26, 1001))
    for variance in (Fraction(1), Fraction(1800), Fraction(1184 * 10**6, 123457), *steps):
        discrete_gaussian(variance, 10, Entropy())
        taken = timed(partial(discrete_gaussian, variance, DRAWS, Entropy()), 3)
        print(f"Gaussian, variance {float(variance):g}: {taken:.3f} s, {taken / DRAWS * 1e9:.0f} ns each.", flush=True)
    try:
        import opendp.prelude as dp
    except ImportError:
        print("OpenDP is not installed.")
        return
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs_measurement = dp.m.make_laplace(*space, scale=30.0)
    zeros = [0] * DRAWS
    theirs = timed(lambda: theirs_measurement(zeros), 1)
    print(f"OpenDP {dp.__version__ if hasattr(dp, '__version__') else ''}: {theirs:.2f} s, {theirs / ours:.0f} times.")


def auto() -> None:
    tree, groups = census()
    print("| totals | ε 0.1 | ε 1 |\n|---|---|---|")
    for totals in ("public", "private"):
        taken = []
        for epsilon in (Fraction(1, 10), Fraction(1)):
            run = partial(release, tree, groups, Request(epsilon=epsilon, totals=totals))
            run()
            taken.append(f"{timed(run, 5):.2f} s")
        print(f"| {totals} | {' | '.join(taken)} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\nMost memory of the process so far, data and compiler included: {peak:.2f} GiB.", flush=True)


def programs() -> None:
    """The same noisy values to both, on trees that HiGHS still finishes."""
    print("\n| regions | sizes | program | ms | HiGHS | ms | times |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for states, counties, sizes in ((2, 3, 4), (3, 4, 8), (4, 8, 12)):
        rng = np.random.default_rng(states)
        tree = Hierarchy((np.zeros(states, dtype=np.int64), np.repeat(np.arange(states), counties)))
        groups = rng.poisson(200 * 0.5 ** np.arange(sizes), (states * counties, sizes)).astype(np.int64)
        for fast, slow in (("h_dp", "h_exact"), ("c_dp", "c_exact")):
            ours, theirs = (
                timed(partial(release, tree, groups, Request(epsilon=Fraction(1), mechanism=name), Seeded(1)), runs)
                for name, runs in ((fast, 20), (slow, 2))
            )
            shape = ", ".join(map(str, tree.sizes))
            print(
                f"| {shape} | {sizes} | `{fast}` | {ours * 1000:,.2f} | `{slow}` | {theirs * 1000:,.0f} "
                f"| {theirs / ours:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    auto()
    noise()
    programs()
