"""Intervals: how often they hold the truth, and how wide they are, on typical tables and on the worst.

Run: python -m tests.bench.groups_intervals [FILE] [--epsilon 0.1,1] [--runs 5] [--worst 400] [--unit 3]
    python -m tests.bench.groups_intervals --guaranteed 4000

Typical: the census's shape, made up from a seed; FILE (us_county_households_2010_h13.csv) adds the real counties. Of
the numbers above zero, how many are within their interval and how wide it is; in brackets the width for the zeros.
Worst: forty regions alike and one where all groups have size 6; regions that are nothing like their parent, with two
sizes each; and as many groups of every size everywhere. Of all numbers of the lower level, how many are within their
interval; `least`: of the number that is missed most often. With --guaranteed only these, by guaranteed intervals.
Last, where the unit is a group: L1 errors in thousands of `auto` and `topdown`, with the same noise on both.
"""

import argparse
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from duckanon.engines.groups.hierarchy import Hierarchy, Ints
from duckanon.engines.groups.release import release
from duckanon.engines.groups.request import Request
from tests.bench.groups_data import census, households
from tests.engines.seeded import Seeded

Table = tuple[str, Hierarchy, Ints]
# A group of at most so many records is the unit: noise on t_s would need as many times more.
LARGEST = 1000
METHODS: dict[str, dict[str, Any]] = {
    "`auto`, guaranteed": {},
    "`auto`, model": {"intervals": "model"},
    "`topdown`": {"mechanism": "topdown"},
    "`c_dp`": {"mechanism": "c_dp"},
    "`auto`, guaranteed, private totals": {"totals": "private"},
    "`auto`, guaranteed, a group as the unit": {"totals": "private", "unit": "group", "contributions": LARGEST},
    "`auto`, model, a group as the unit": {
        "totals": "private", "unit": "group", "contributions": LARGEST, "intervals": "model",
    },
}  # fmt: skip


def typical(file: Path | None) -> Iterator[Table]:
    yield "census", *census()
    if file:
        yield "real", *households(file)


def worst() -> Iterator[Table]:
    """Two levels, 41 regions, 12 sizes."""
    tree, rng = Hierarchy((np.zeros(41, dtype=np.int64),)), np.random.default_rng(0)
    shape = np.concatenate([[31, 34, 17, 12, 5, 2], 0.8 * 0.42 ** np.arange(6)])
    odd = rng.multinomial(100, shape / shape.sum(), size=41)
    odd[40] = 0
    odd[40, 5] = 100
    yield "one odd region", tree, odd
    pick = np.eye(12, dtype=np.int64)
    yield "nothing alike", tree, pick[rng.integers(0, 12, 41)] * 1000 + pick[rng.integers(0, 12, 41)] * 60
    yield "flat", tree, np.full((41, 12), 40)


def measured(table: Table, epsilon: str, runs: int, given: dict[str, Any]) -> tuple[list[Ints], list[Ints], list[Ints]]:
    """For each level the truth, how often each number was within its interval, and the sum of the widths."""
    _, tree, groups = table
    truth = tree.levels(groups)
    held, width = ([np.zeros(level.shape, dtype=np.int64) for level in truth] for _ in range(2))
    for seed in range(runs):
        levels = release(tree, groups, Request(epsilon=Fraction(epsilon), **given), source=Seeded(seed)).levels
        for level, ours in enumerate(levels):
            held[level] += (ours.low <= truth[level]) & (truth[level] <= ours.high)
            width[level] += ours.high - ours.low
    return list(truth), held, width


def wide(table: Table, epsilon: str, runs: int) -> None:
    for name, given in METHODS.items():
        cells = []
        for truth, held, width in zip(*measured(table, epsilon, runs, given), strict=True):
            some = truth > 0
            cells.append(
                f"{100 * held[some].mean() / runs:.1f} % in {width[some].mean() / runs:,.1f} "
                f"({width[~some].mean() / runs:,.2f})"
            )
        print(f"| {table[0]} | {epsilon} | {name} | {' | '.join(cells)} | {runs} |", flush=True)


def narrow(epsilons: list[str], runs: int, methods: dict[str, dict[str, Any]]) -> None:
    print("\n| table | ε | intervals of | coverage, % | least, % | the last region, size by size, % | width | runs |")
    print("|---|---|---|---|---|---|---|---|")
    for table, epsilon, (name, given) in product(worst(), epsilons, methods.items()):
        _, held, width = measured(table, epsilon, runs, given)
        last = held[1][-1]
        print(
            f"| {table[0]} | {epsilon} | {name} | {100 * held[1].mean() / runs:.1f} | {100 * held[1].min() / runs:.1f} "
            f"| {', '.join(f'{100 * x / runs:.0f}' for x in last)} | {width[1].mean() / runs:.1f} | {runs} |",
            flush=True,
        )


def whole_groups(table: Table, epsilon: str, runs: int) -> None:
    name, tree, groups = table
    truth = tree.levels(groups)
    for mechanism in ("auto", "topdown"):
        errors = []
        for seed in range(runs):
            given: dict[str, Any] = {"totals": "private", "unit": "group", "contributions": LARGEST}
            found = release(
                tree, groups, Request(epsilon=Fraction(epsilon), mechanism=mechanism, **given), Seeded(seed)
            )
            errors.append([np.abs(x.groups - t).sum() / 1000 for x, t in zip(found.levels, truth, strict=True)])
        cells = " | ".join(
            f"{a:,.2f} ± {b:,.2f}" for a, b in zip(np.mean(errors, axis=0), np.std(errors, axis=0), strict=True)
        )
        print(f"| {name} | {epsilon} | `{mechanism}` | {cells} | {runs} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--epsilon", default="0.1,1")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--worst", type=int, default=400)
    parser.add_argument("--unit", type=int, default=3)
    parser.add_argument("--guaranteed", type=int)
    options = parser.parse_args()
    epsilons = options.epsilon.split(",")
    if options.guaranteed:
        narrow(epsilons, options.guaranteed, {name: one for name, one in METHODS.items() if "guaranteed" in name})
        return
    tables = list(typical(options.file))
    print("| table | ε | intervals of | nation | states | counties | runs |\n|---|---|---|---|---|---|---|")
    for table in tables:
        for epsilon in epsilons:
            wide(table, epsilon, options.runs)
    narrow(epsilons, options.worst, METHODS)
    print("\n| table | ε | mechanism | nation | states | counties | runs |\n|---|---|---|---|---|---|---|")
    for table in tables:
        for epsilon in epsilons:
            whole_groups(table, epsilon, options.unit)


if __name__ == "__main__":
    main()
