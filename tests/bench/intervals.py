"""How often low and high hold the true number, and how wide they are: python -m tests.bench.intervals [--all].

Over epsilon per row, steps between the bounds, and cells that are added up. Up to twenty cells are answers with chosen
totals and noise from a seeded source, read by the query that the guard writes; ten thousand cells go to the functions
that it calls, with sums of as many noises. `least width`: that within which 95 % of four hundred thousand noises are,
for means and shares of above - q below at the true q. Without --all a line has all epsilons and steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from duckanon.engines.noise_tails import Kind, quotient_widths, width
from duckanon.engines.randomness import double_geometric
from duckanon.functions import noise_widths
from tests.engines.seeded import Seeded
from tests.releases.chosen_noise import Chosen, Number, Table, tables

EPSILONS, STEPS, SOME, MANY = ("0.05", "0.5", "1", "3.7", "10"), (1, 9, 1000), 20, 10_000
PLAIN, QUOTIENTS = ("count", "share", "share, divided"), ("mean", "share", "share, divided")
# Records in each total: twice and once as many, so that means and shares are two thirds.
RECORDS = (30, 60)
NOISES = 400_000


@dataclass(frozen=True)
class Line:
    """held: the share of draws whose interval holds the truth. ratio: the width by the least one."""

    number: str
    cells: int
    epsilon: str
    steps: int
    held: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"| {self.number} | {self.cells:,} | {self.epsilon} | {self.steps:,} | {self.held:.2%} | {self.ratio:.3f} |"
        )


def sums(scale: Fraction, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of so many noises: differences of two sums of geometric numbers."""
    a = exp(-1 / scale)
    one, other = (rng.negative_binomial(count, 1 - a, size) for _ in range(2))
    return one - other


def least(noise: np.ndarray) -> float:
    """The least width within which 95 % are."""
    return float(np.sort(np.abs(noise))[ceil(0.95 * len(noise)) - 1])


def ratio_of(number: str, scale: Fraction, cells: int, steps: int, rng: np.random.Generator) -> float:
    """Our width by the least one."""
    down, up = (sums(scale, cells, NOISES, rng) for _ in range(2))
    if number in ("count", "sum"):
        ours, seen = float(width(scale, [Kind(Fraction(1), cells)])), least(up)
    elif number == "sum from 18":
        weights = Fraction(18, steps), Fraction(18 + steps, steps)
        ours = float(width(scale, [Kind(one, cells) for one in weights]))
        seen = least(float(weights[0]) * down + float(weights[1]) * up)
    else:
        found = quotient_widths(scale, tuple(Kind(Fraction(one), cells) for one in (0, 1)))
        at, q = 2 * len(found.start) // 3, 2 / 3
        way = q * len(found.start) - at
        ours = float(found.start[at] * (1 - way) + found.end[at] * way)
        seen = least(np.round((1 - q) * up - q * down, 9))
    return 1.0 if ours == seen else ours / seen if seen else float("inf")


def held_in_sql(asked: Chosen, draws: int) -> float:
    """Over answers read by the guard's query."""
    shape = (asked.places, asked.cells, asked.totals)
    records = np.resize(RECORDS, asked.cells * asked.totals).reshape(shape[1:]) * asked.whole
    exactly = np.broadcast_to(records, shape)
    truth, source, held, done = asked.rows(exactly)[0, 0], Seeded(5), 0, 0
    while done < draws:
        _, low, high = asked.rows(exactly + double_geometric(asked.scale, shape, source)).T
        held += int(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).sum())
        done += asked.places
    return held / done


def held_by_functions(
    number: str, scale: Fraction, cells: int, steps: int, draws: int, rng: np.random.Generator
) -> float:
    """Over sums of noises, given to the functions that the guard's query calls."""
    down, up = (sums(scale, cells, draws, rng) for _ in range(2))

    def constant(text: str) -> pa.Array:
        return pa.array([text] * draws)

    counts = pa.array([cells] * draws)
    if number in QUOTIENTS:
        whole = steps if number == "mean" else 1
        below = [one * cells + noise / whole for one, noise in zip(RECORDS, (down, up), strict=True)]
        told = [constant(f"1/{whole}"), constant("0 1"), pa.array(below[1]), pa.array(below[0] + below[1])]
        low, high = (
            np.asarray(noise_widths._quotient_end(constant(side), constant(str(scale)), *told, counts, counts))
            for side in ("low", "high")
        )
        return float(((low <= 2 / 3 + 1e-12) & (high >= 2 / 3 - 1e-12)).mean())
    weights = {
        "sum": f"0 {Fraction(steps, steps)}",
        "sum from 18": f"{Fraction(18, steps)} {Fraction(18 + steps, steps)}",
    }
    text = weights.get(number, "1")
    own = [float(Fraction(one)) for one in text.split()]
    noise = own[0] * down + own[1] * up if len(own) == 2 else up
    widths = np.asarray(noise_widths._width(constant(str(scale)), constant(text), counts))
    return float((np.abs(noise) <= widths + 1e-9).mean())


NUMBERS = {
    "count": "count(*)",
    "sum": "sum(v)",
    "sum from 18": "sum(v)",
    "mean": "avg(v)",
    "share": "avg(ill::INTEGER)",
    "share, divided": "count(*) FILTER (WHERE ill) / count(*)",
}


def lines(path: Path, draws: int) -> Iterator[Line]:
    """All lines. A count and a share have no steps."""
    for cells in (1, SOME, MANY):
        asked = {
            (number, epsilon, steps): (
                Table(
                    epsilon,
                    f"[18, {18 + steps}]" if number == "sum from 18" else f"[0, {steps}]",
                    kinds=max(2, min(cells, SOME)),
                    places=draws if cells == 1 else 1000,
                ),
                Number(sql, rolled=cells > 1),
            )
            for number, sql in NUMBERS.items()
            for epsilon in EPSILONS
            for steps in (STEPS if number not in PLAIN else STEPS[:1])
        }
        with tables(path / f"{cells}.duckdb", [table for table, _ in asked.values()]) as ask:
            for (number, epsilon, steps), (table, told) in asked.items():
                rng, scale = np.random.default_rng(5), 1 / Fraction(epsilon)
                scale *= steps if number not in PLAIN else 1
                if cells < MANY:
                    held = held_in_sql(ask(table, told), draws)
                else:
                    held = held_by_functions(number, scale, cells, steps, draws, rng)
                yield Line(number, cells, epsilon, steps, held, ratio_of(number, scale, cells, steps, rng))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--draws", type=int, default=20_000)
    given = parser.parse_args()
    worst: dict[tuple[str, int], list[Line]] = {}
    if given.all:
        print("| number | cells | epsilon | steps | held | width / least width |\n|---|---:|---:|---:|---:|---:|")
    with TemporaryDirectory() as folder:
        for line in lines(Path(folder), given.draws):
            worst.setdefault((line.number, line.cells), []).append(line)
            if given.all:
                print(line, flush=True)
    print("\n| number | cells | held, least | held, most | width / least width, least | most |")
    print("|---|---:|---:|---:|---:|---:|")
    for (number, cells), own in worst.items():
        held, ratios = [one.held for one in own], [one.ratio for one in own]
        print(f"| {number} | {cells:,} | {min(held):.2%} | {max(held):.2%} | {min(ratios):.3f} | {max(ratios):.3f} |")


if __name__ == "__main__":
    main()
