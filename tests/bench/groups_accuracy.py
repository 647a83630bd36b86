"""L1 errors of all mechanisms, side by side, in the layout of Table 7 of Fioretto, Van Hentenryck and Zhu 2021.

Run: python -m tests.bench.groups_accuracy [FILE] [--table census] [--epsilon 0.1,0.5,1] [--runs 30] [--slow 1]
    [--only auto,c_dp] [--split 3,3,4] [--bound 1] [--dearer 1.5]

Data as `groups_data` makes it: census, companies or schools; FILE is us_county_households_2010_h13.csv, for the real
counties instead. A second table has the earth mover's distances, level by level: how many groups have to move by how
many sizes, that is the L1 errors of t_s, in thousands. `#CV`: parents and sizes whose children do not add up. `cover`:
per cent of the numbers > 0 within their 95 % interval, a level each; `auto`'s by its model (the guaranteed ones:
`groups_intervals`). The integer programs cannot be run at this size, and the relaxations get fewer runs. Two lines are
no release: the relaxations as the paper rounds them, and the chain with the paper's noise, which is not private.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from duckanon.engines.groups import methods
from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.methods import METHODS
from duckanon.engines.groups.queries import ABOVE, CHAIN
from duckanon.engines.groups.relaxed_least_squares import c_real, h_real
from duckanon.engines.groups.release import measure, plan, release
from duckanon.engines.groups.request import Intervals, Request
from tests.bench.groups_data import census, companies, households, schools
from tests.engines.seeded import Seeded

Levels = tuple[Ints, ...]
Run = Callable[[Fraction, int], tuple[Levels, Levels | None, Levels | None]]
FAST = ("auto", "topdown", "h_dp", "c_dp", "chain")
SLOW = ("h_relaxed", "c_relaxed")
MADE = {"census": census, "companies": companies, "schools": schools}
PRINTED = "chain, noise as printed: NOT PRIVATE"


def released(tree: Hierarchy, groups: Ints, name: str, bound: int, split: tuple[Fraction, ...] | None = None) -> Run:
    own: Intervals = "model" if name == "auto" else "guaranteed"

    def run(epsilon: Fraction, seed: int) -> tuple[Levels, Levels, Levels]:
        request = Request(epsilon=epsilon, mechanism=name, split=split, sensitivity=bound, intervals=own)
        found = release(tree, groups, request, Seeded(seed)).levels
        return tuple(x.groups for x in found), tuple(x.low for x in found), tuple(x.high for x in found)

    return run


def rounded(tree: Hierarchy, groups: Ints, name: str) -> Run:
    """The relaxation's real numbers, each rounded by itself."""
    real = {"h_relaxed": h_real, "c_relaxed": c_real}[name]

    def run(epsilon: Fraction, seed: int) -> tuple[Levels, None, None]:
        planned = plan(tree, groups, Request(epsilon=epsilon, mechanism=name))
        ways = np.zeros(groups.shape[1], dtype=np.int64)
        measured = measure(
            tree, tree.levels(groups), METHODS[name].public, planned.noise, ways, None, True, Seeded(seed)
        )
        return tuple(np.rint(np.maximum(level, 0)).astype(np.int64) for level in real(measured)), None, None

    return run


def levels_of(tree: Hierarchy) -> str:
    return " | ".join(f"level {level + 1}" for level in range(tree.depth))


def violations(tree: Hierarchy, levels: Levels) -> int:
    return sum(int((tree.up(level, lower) != upper).sum()) for level, (upper, lower) in enumerate(pairwise(levels)))


def line(tree: Hierarchy, truth: Levels, label: str, run: Run, epsilon: str, runs: int) -> list[list[float]]:
    """Prints a line of the first table, and returns means level by level: L1 errors, and earth mover's distances."""
    errors, moves, covers, broken = [], [], [], []
    for seed in range(runs):
        levels, low, high = run(Fraction(epsilon), seed)
        both = list(zip(levels, truth, strict=True))
        errors.append([np.abs(ours - level).sum() / 1000 for ours, level in both])
        moves.append([np.abs(ABOVE.of(ours) - ABOVE.of(level)).sum() / 1000 for ours, level in both])
        broken.append(violations(tree, levels))
        if low is not None and high is not None:
            covers.append(
                [
                    100 * ((a <= level) & (level <= b))[level > 0].mean()
                    for a, b, level in zip(low, high, truth, strict=True)
                ]
            )
    mean, spread = np.mean(errors, axis=0), np.std(errors, axis=0)
    shown = " | ".join(f"{m:,.2f} ± {s:,.2f}" for m, s in zip(mean, spread, strict=True))
    cover = ", ".join(f"{c:.0f}" for c in np.mean(covers, axis=0)) if covers else "-"
    print(
        f"| {epsilon} | {label} | {shown} | {np.mean(broken):,.0f} | {cover} | {runs} |",
        flush=True,
    )
    return [mean.tolist(), np.mean(moves, axis=0).tolist()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--table", choices=MADE, default="census")
    parser.add_argument("--epsilon", default="0.1,0.5,1")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--slow", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--bound", type=int, default=1, help="by how many sizes a person can move a group")
    parser.add_argument("--dearer", type=float, help="auto: noise on t_s so many times wider gives way to noise on n_s")
    parser.add_argument("--split", help="shares of epsilon for auto, the nation's first; the others keep equal ones")
    options = parser.parse_args()
    if options.dearer is not None:
        methods.DEARER = options.dearer
    tree, groups = households(options.file) if options.file else MADE[options.table]()
    assert all((order == np.arange(len(order))).all() for order in tree.order)
    truth = tree.levels(groups)
    print(f"Levels of {', '.join(map(str, tree.sizes))} regions, {groups.shape[1]} sizes, {groups.sum():,} groups.\n")
    print(f"| ε | mechanism | {levels_of(tree)} | #CV | cover | runs |")
    print(f"|---|---|{'---|' * tree.depth}---|---|---|", flush=True)
    moved = []
    wanted = options.only.split(",") if options.only else [*FAST, PRINTED, *SLOW]
    chain = METHODS["chain"]
    shares = [Fraction(share) for share in options.split.split(",")] if options.split else []
    split = tuple(share / sum(shares) for share in shares) or None
    for epsilon in options.epsilon.split(","):
        means = {}
        for name in wanted:
            if name == PRINTED:
                printed = replace(CHAIN, sensitivity=lambda _, step: step)
                methods.METHODS["chain"] = replace(chain, public=printed)
                line(tree, truth, name, released(tree, groups, "chain", options.bound), epsilon, options.runs)
                methods.METHODS["chain"] = chain
            elif name in SLOW:
                if options.slow:
                    line(tree, truth, f"`{name}`", released(tree, groups, name, options.bound), epsilon, options.slow)
                    line(tree, truth, f"{name}, rounded one by one", rounded(tree, groups, name), epsilon, options.slow)
            else:
                run = released(tree, groups, name, options.bound, split if name == "auto" else None)
                means[name], moves = line(tree, truth, f"`{name}`", run, epsilon, options.runs)
                moved.append(f"| {epsilon} | `{name}` | {' | '.join(f'{each:,.2f}' for each in moves)} |")
        for other in ("c_dp", "topdown"):
            if "auto" in means and other in means:
                ratios = " | ".join(f"{a / b:.2f}" for a, b in zip(means["auto"], means[other], strict=True))
                print(f"| {epsilon} | `auto` / `{other}` | {ratios} | | | |", flush=True)
    print(f"\nEarth mover's distances.\n\n| ε | mechanism | {levels_of(tree)} |\n|---|---|{'---|' * tree.depth}")
    print("\n".join(moved))


if __name__ == "__main__":
    main()
