"""Counts perturbed by cell key: after how many tables does a reader know a count, and which perturbation table holds m?

A reader who knows the perturbation table has m tables by other variables. In each of them the records in question are
spread over some cells, whose perturbed counts add up to the count plus independent changes. The likeliest count is the
best guess, if every count is as likely beforehand.

Run: python -m tests.bench.cell_key_averaging
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.suppression.cell_key import KEYS, maximum_entropy

CELLS = (1, 2, 5)
TABLES = ((2, 1.0), (5, 2.0), (5, 5.0), (10, 10.0), (20, 40.0))
MANY = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000)
TRIALS = 4000


def noise(most: int, variance: float, cells: int) -> np.ndarray:
    """The distribution of the sum of the changes of so many large cells, from -cells * most on."""
    one = maximum_entropy(most, variance).weights[-1] / KEYS
    found = one
    for _ in range(cells - 1):
        found = np.convolve(found, one)
    return found


def right(chances: np.ndarray, tables: int, random: np.random.Generator) -> float:
    """How often the likeliest count is the true one."""
    reach = len(chances) // 2
    # How often each sum of changes occurs in the tables.
    seen = random.multinomial(tables, chances, size=TRIALS)
    logs = _logs(np.pad(chances, 2 * reach))
    shifts = range(-min(reach, 12), min(reach, 12) + 1)
    parts = [logs[2 * reach + shift : 2 * reach + shift + len(chances)] for shift in shifts]
    scores = seen @ np.stack(parts, axis=1)
    return float((scores.argmax(axis=1) == shifts.index(0)).mean())


def _logs(chances: np.ndarray) -> np.ndarray:
    """Logarithms; what is impossible is so unlikely that no number of tables makes up for it."""
    found = np.full(len(chances), -1e9)
    found[chances > 0] = np.log(chances[chances > 0])
    return found


def first(chances: np.ndarray, share: float) -> int | None:
    """The least number of tables, among MANY, for which the guess is right that often."""
    return next((m for m in MANY if right(chances, m, np.random.default_rng(m)) >= share), None)


def main() -> None:
    print("| max_deviation | variance | cells | half right at m | 95 % right at m | 15.4 x variance x cells |")
    print("|---|---|---|---|---|---|")
    for most, variance in TABLES:
        for cells in CELLS:
            chances = noise(most, variance, cells)
            half, most_right = first(chances, 0.5), first(chances, 0.95)
            rule = 15.4 * variance * cells
            print(f"| {most} | {variance:g} | {cells} | {half} | {most_right} | {rule:.0f} |")
    print()
    print("| m | variance | max_deviation | right |")
    print("|---|---|---|---|")
    for tables in (2, 5, 10, 20, 50, 100):
        variance, most = needed(tables)
        share = right(noise(most, variance, 1), tables, np.random.default_rng(tables))
        print(f"| {tables} | {variance:g} | {most} | {100 * share:.0f} % |")


def needed(tables: int) -> tuple[float, int]:
    """A perturbation table with which the guess is right in at most half of the cases after m tables of one cell."""
    variance = float(np.ceil(0.6 * tables * 2) / 2)
    return variance, int(np.ceil(3 * variance**0.5))


if __name__ == "__main__":
    main()
