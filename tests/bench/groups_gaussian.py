"""Group sizes from a budget with a delta: Gaussian noise beside pure noise, for a whole budget and for a small part.

Run: python -m tests.bench.groups_gaussian [FILE] [--runs 3] [--part 20]

The budget is that of (1, 1e-9). `whole`: all of it for one release, `part`: the PARTth part of it, which is what one of
so many releases gets; of pure epsilon alone it is 1, and 1/PART. Data as `groups_data` makes it: the census's shape
from a seed; FILE (us_county_households_2010_h13.csv) adds the real counties. L1 errors in thousands, level by level,
and in brackets the mean width of the 95 % intervals. `topdown` with Gaussian noise stands for the published TopDown,
which measures n_s of every region with discrete Gaussian noise; it gets the same rho, and equal shares of it. `taken`:
whether a population with that delta takes the noise of the line.
"""

import argparse
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.release import release
from duckanon.engines.groups.request import Request
from duckanon.renyi import Renyi, renyi
from tests.bench.groups_data import census, households
from tests.engines.seeded import Seeded

EPSILON, DELTA = Fraction(1), Fraction(1, 10**9)


def lines(known: Renyi, part: int, depth: int, sizes: int) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """What is spent, the noise, whether a population with the delta takes it, and the engine's arguments."""
    for name, share in (("whole", Fraction(1)), (f"1/{part}", Fraction(1, part))):
        price = known.capacity * share
        epsilon, rho = known.pure(price), known.rho(price)
        for mechanism in ("auto", "topdown"):
            if mechanism == "topdown" and share < 1:
                continue
            given: dict[str, Any] = {"mechanism": mechanism, "totals": "public", "split": None}
            is_gaussian = Request(epsilon=epsilon, **given).is_gaussian_nearer(rho, depth, sizes)
            yield name, f"gaussian, rho {float(rho):.5f}", "yes" if is_gaussian else "no", {**given, "rho": rho}
            if mechanism == "auto":
                noise = f"pure, epsilon {float(epsilon):.4f}"
                yield name, noise, "no" if is_gaussian else "yes", {**given, "epsilon": epsilon}
            alone = EPSILON * share
            yield name, f"pure epsilon alone, {float(alone):g}", "-", {**given, "epsilon": alone}


def measured(tree: Hierarchy, groups: Ints, runs: int, given: dict[str, Any]) -> list[str]:
    truth = tree.levels(groups)
    errors, widths = np.zeros(tree.depth), np.zeros(tree.depth)
    for seed in range(runs):
        levels = release(tree, groups, Request(**given), source=Seeded(seed)).levels
        for level, ours in enumerate(levels):
            errors[level] += np.abs(ours.groups - truth[level]).sum() / 1000 / runs
            widths[level] += (ours.high - ours.low).mean() / runs
    return [f"{error:,.2f} ({width:,.2f})" for error, width in zip(errors, widths, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--part", type=int, default=20)
    options = parser.parse_args()
    known = renyi(EPSILON, DELTA)
    print(
        f"Order {float(known.order):g}, capacity {float(known.capacity):.6f}, "
        f"rho {float(known.rho(known.capacity)):.6f}.\n"
    )
    print("| table | spent | mechanism | noise | taken | nation | states | counties | runs |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name, (tree, groups) in {
        "census": census(),
        **({"real": households(options.file)} if options.file else {}),
    }.items():
        for spent, noise, taken, given in lines(known, options.part, tree.depth, groups.shape[1]):
            cells = " | ".join(measured(tree, groups, options.runs, given))
            print(
                f"| {name} | {spent} | `{given['mechanism']}` | {noise} | {taken} | {cells} | {options.runs} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
