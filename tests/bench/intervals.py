"""How often low and high hold the true number, and how wide they are: python -m tests.bench.intervals [--delta].

Over epsilon per row, steps between the bounds, and cells that are added up. Up to twenty cells are answers with chosen
totals and noise from a seeded source, read by the query that the guard writes; ten thousand cells go to the functions
that it calls, with sums of as many noises. `least width`: that within which 95 % of four hundred thousand noises are,
for means and shares of above - q below at the true q. Without --all a line has all epsilons and steps. With --delta
the population has one: epsilon is then the price of a question, and the noise is Gaussian at small ones.

With --prepared: of what follows from prepared tables, for the least variance of the noise that was measured: how many
deviations wide an interval is, beside 1.96 of normal noise; and by enumeration of weighted sums of one to three noises
the least share of draws that it holds, and that 1.96 deviations hold.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from math import ceil, exp, inf, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from duckanon.engines.marginals.intervals import factor
from duckanon.engines.noise import Gaussian, Laplace, Noise
from duckanon.engines.noise_tails import Kind, quotient_widths, width
from duckanon.functions import noise_widths
from duckanon.governance.noise_prices import Moved, bought
from duckanon.renyi import renyi
from tests.engines.marginals.enumerated import outside
from tests.engines.seeded import Seeded
from tests.releases.chosen_noise import Chosen, Number, Table, tables

EPSILONS, STEPS, SOME, MANY = ("0.05", "0.5", "1", "3.7", "10"), (1, 9, 1000), 20, 10_000
PLAIN, QUOTIENTS = ("count", "share", "share, divided", "units", "odds"), ("mean", "share", "share, divided")
# Of one cell, or the cells of one quotient, alone; of the last two the least width is not known.
ALONE, HELD_ALONE = ("units", "odds", "share of a sum"), ("odds", "share of a sum")
# So many records of a unit count where units are counted: as many cells it changes, each by one.
OF_UNIT = 3
# Records in each total: twice and once as many, so that means and shares are two thirds.
RECORDS = (30, 60)
NOISES, DELTA = 400_000, "1e-9"


@dataclass(frozen=True)
class Line:
    """held: the share of draws whose interval holds the truth. ratio: the width by the least one, if that is known."""

    number: str
    cells: int
    epsilon: str
    steps: int
    held: float
    ratio: float | None

    def __str__(self) -> str:
        return (
            f"| {self.number} | {self.cells:,} | {self.epsilon} | {self.steps:,} | {self.held:.2%} | "
            f"{rounded(self.ratio)} |"
        )


def rounded(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def noise_for(price: Fraction, parts: int, *, delta: bool, cells: int = 1) -> Noise:
    """The noise of totals for a price, as the policy of `tables` has it. cells: so many a unit changes, each by one."""
    known = renyi(Fraction(400), Fraction(DELTA)) if delta else None
    return bought(price, Moved(cells, cells), known, parts=parts).times(parts)


def sums(noise: Noise, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of so many noises: differences of two sums of geometric numbers, or from their distribution."""
    if isinstance(noise, Laplace):
        a = exp(-1 / noise.scale)
        one, other = (rng.negative_binomial(count, 1 - a, size) for _ in range(2))
        return one - other
    assert isinstance(noise, Gaussian)
    reach, below = distribution(noise.variance, count)
    # Places of numbers in order are found quickly in a long list; the order is drawn afterwards.
    return rng.permutation(np.searchsorted(below, np.sort(rng.random(size)), side="right")) - reach


@lru_cache(12)
def distribution(variance: Fraction, count: int) -> tuple[int, np.ndarray]:
    """Of sums of so many discrete Gaussian noises: P(sum <= v) for v from -reach on.

    The list grows as the standard deviation of the sum: ten million numbers for 10,000 noises on columns of 1,000
    steps. Its transform is quick where its length is a power of two.
    """
    reach = ceil(8 * sqrt(count * variance)) + 2
    size = 1 << (2 * reach).bit_length()
    v = np.arange(size)
    chance = np.exp(-(np.minimum(v, size - v).astype(np.float64) ** 2) / (2 * float(variance)))
    summed = np.fft.irfft(np.fft.rfft(chance / chance.sum()) ** count, size)
    below = np.cumsum(np.maximum(np.roll(summed, reach)[: 2 * reach + 1], 0.0))
    return reach, below / below[-1]


def least(noise: np.ndarray) -> float:
    """The least width within which 95 % are."""
    return float(np.sort(np.abs(noise))[ceil(0.95 * len(noise)) - 1])


def ratio_of(number: str, each: Noise, cells: int, steps: int, rng: np.random.Generator) -> float | None:
    """Our width by the least one."""
    if number in HELD_ALONE:
        return None
    down, up = (sums(each, cells, NOISES, rng) for _ in range(2))
    if number in ("count", "units", "sum"):
        ours, seen = float(width(each, [Kind(Fraction(1), cells)])), least(up)
    elif number == "sum from 18":
        weights = Fraction(18, steps), Fraction(18 + steps, steps)
        ours = float(width(each, [Kind(one, cells) for one in weights]))
        seen = least(float(weights[0]) * down + float(weights[1]) * up)
    else:
        found = quotient_widths(each, tuple(Kind(Fraction(one), cells) for one in (0, 1)))
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
        _, low, high = asked.rows(exactly + asked.noise.draw(shape, source, is_wide=False)).T
        held += int(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).sum())
        done += asked.places
    return held / done


def held_by_functions(number: str, each: Noise, cells: int, steps: int, draws: int, rng: np.random.Generator) -> float:
    """Over sums of noises, given to the functions that the guard's query calls."""
    down, up = (sums(each, cells, draws, rng) for _ in range(2))

    def constant(text: str) -> pa.Array:
        return pa.array([text] * draws)

    counts = pa.array([cells] * draws)
    if number in QUOTIENTS:
        whole = steps if number == "mean" else 1
        below = [one * cells + noise / whole for one, noise in zip(RECORDS, (down, up), strict=True)]
        told = [constant(f"1/{whole}"), constant("0 1"), pa.array(below[1]), pa.array(below[0] + below[1])]
        told.append(pa.array(np.zeros(draws)))
        low, high = (
            np.asarray(noise_widths._quotient_end(constant(side), constant(each.text), *told, counts, counts))
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
    widths = np.asarray(noise_widths._width(constant(each.text), constant(text), counts))
    return float((np.abs(noise) <= widths + 1e-9).mean())


NUMBERS = {
    "count": "count(*)",
    "sum": "sum(v)",
    "sum from 18": "sum(v)",
    "mean": "avg(v)",
    "share": "avg(ill::INTEGER)",
    "share, divided": "count(*) FILTER (WHERE ill) / count(*)",
    "units": "count(DISTINCT u)",
    "odds": "count(*) FILTER (WHERE ill) / count(*) FILTER (WHERE NOT ill)",
    "share of a sum": "sum(v) FILTER (WHERE ill) / sum(v)",
}


def lines(path: Path, draws: int, *, delta: bool) -> Iterator[Line]:
    """All lines. A count and a share have no steps."""
    for cells in (1, SOME, MANY):
        asked = {
            (number, epsilon, steps): (
                Table(
                    epsilon,
                    f"[18, {18 + steps}]" if number == "sum from 18" else f"[0, {steps}]",
                    kinds=max(2, min(cells, SOME)),
                    places=draws if cells == 1 else 1000,
                    delta=DELTA if delta else "",
                    of_unit=OF_UNIT if number == "units" else 0,
                ),
                Number(sql, rolled=cells > 1),
            )
            for number, sql in NUMBERS.items()
            if cells == 1 or number not in ALONE
            for epsilon in EPSILONS
            for steps in (STEPS if number not in PLAIN else STEPS[:1])
        }
        with tables(path / f"{cells}.duckdb", [table for table, _ in asked.values()]) as ask:
            for (number, epsilon, steps), (table, told) in asked.items():
                rng = np.random.default_rng(5)
                parts, of_unit = steps if number not in PLAIN else 1, OF_UNIT if number == "units" else 1
                each = noise_for(Fraction(epsilon), parts, delta=delta, cells=of_unit)
                if cells < MANY:
                    decided = ask(table, told)
                    assert decided.noise == each
                    held = held_in_sql(decided, draws)
                else:
                    held = held_by_functions(number, each, cells, steps, draws, rng)
                yield Line(number, cells, epsilon, steps, held, ratio_of(number, each, cells, steps, rng))


def prepared_lines() -> Iterator[str]:
    """For weighted sums of noises of one variance, with weights 1, 3/4, 1/2 and 1/4."""
    yield "| least variance | deviations | held, least | held by 1.96, least |"
    yield "|---:|---:|---:|---:|"
    for variance in (0.25, 1.0, 4.0, 25.0, 100.0):
        own, normal, held = factor(variance), factor(inf), [1.0, 1.0]
        for count in (1, 2, 3):
            for weights in combinations_with_replacement((1.0, 0.75, 0.5, 0.25), count):
                deviation = sqrt(variance * sum(one**2 for one in weights))
                for at, deviations in enumerate((own, normal)):
                    chance = 1 - outside([variance] * count, weights, deviations * deviation)
                    held[at] = min(held[at], chance)
        yield f"| {variance:g} | {own:.3f} | {held[0]:.2%} | {held[1]:.2%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--delta", action="store_true")
    parser.add_argument("--prepared", action="store_true")
    parser.add_argument("--draws", type=int, default=20_000)
    given = parser.parse_args()
    if given.prepared:
        for told in prepared_lines():
            print(told, flush=True)
        return
    worst: dict[tuple[str, int], list[Line]] = {}
    if given.all:
        print("| number | cells | epsilon | steps | held | width / least width |\n|---|---:|---:|---:|---:|---:|")
    with TemporaryDirectory() as folder:
        for line in lines(Path(folder), given.draws, delta=given.delta):
            worst.setdefault((line.number, line.cells), []).append(line)
            if given.all:
                print(line, flush=True)
    print("\n| number | cells | held, least | held, most | width / least width, least | most |")
    print("|---|---:|---:|---:|---:|---:|")
    for (number, cells), own in worst.items():
        held, ratios = [one.held for one in own], [one.ratio for one in own if one.ratio is not None]
        ends = " | ".join(rounded(end(ratios, default=None)) for end in (min, max))
        print(f"| {number} | {cells:,} | {min(held):.2%} | {max(held):.2%} | {ends} |")


if __name__ == "__main__":
    main()
