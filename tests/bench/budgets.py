"""How many answers one budget is enough for, with and without a delta.

Run: python -m tests.bench.budgets [--planned | --pure]

Counts of one record for each unit, each with noise of the standard deviation that a column names: the most that fit.
For the first promise they are also bought one after the other, each charged in the ledger and drawn from the records,
until the budget is spent: `bought` is how many, `deviation` that of their noise. With --planned none is bought. --pure:
the most answers with pure noise that fit, by the epsilon of each, and in brackets as many as the simple bound of their
price would let in, which was charged before.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa

import duckanon
from duckanon.accounting import written
from duckanon.engines.noise import Laplace
from duckanon.errors import BudgetExhausted
from duckanon.randomised_response import price, simple_price
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import PaidQuestion
from duckanon.renyi import digits, renyi

PROMISES = (("3", "0"), ("3", "1e-6"), ("4", "0"), ("4", "1e-9"), ("1", "0"), ("1", "1e-6"), ("1", "1e-9"))
DEVIATIONS = (10, 100, 1000)
EPSILONS = ("0.02", "0.05", "0.1", "0.2", "0.3", "0.5")
BOUGHT = 100
# Answers differ in their filters: one for each value of a column.
VALUES = 10_000


@dataclass(frozen=True)
class Budget:
    """A promise, and what a count with a standard deviation costs in the unit of its ledger. delta: 0 without one."""

    epsilon: Fraction
    delta: Fraction

    @staticmethod
    def of(promise: tuple[str, str]) -> Budget:
        epsilon, delta = promise
        return Budget(Fraction(epsilon), Fraction(delta))

    @property
    def name(self) -> str:
        return f"epsilon {written(self.epsilon)}" + (f", delta {digits(self.delta)}" if self.delta else "")

    @property
    def capacity(self) -> Fraction:
        return renyi(self.epsilon, self.delta).capacity if self.delta else self.epsilon

    @property
    def order(self) -> str:
        return written(renyi(self.epsilon, self.delta).order) if self.delta else ""

    def price(self, deviation: int) -> Fraction:
        """Rounded up to twelve digits."""
        if self.delta:
            exact = renyi(self.epsilon, self.delta).order / (2 * deviation**2)
        else:
            exact = Fraction(sqrt(2) / deviation)
            while Laplace(1 / exact).deviation(1) > deviation:
                exact *= Fraction(1_000_001, 1_000_000)
        return Fraction(-int(-exact * 10**12 // 1), 10**12)

    def counts(self, deviation: int) -> int:
        return int(self.capacity / self.price(deviation))

    def buy(self, deviation: int) -> tuple[int, float]:
        """How many counts the budget pays for, and the standard deviation of their noise."""
        terms = f"epsilon := {written(self.epsilon)}, per_query := '{written(self.price(deviation))}'"
        terms += f", delta := '{digits(self.delta)}'" if self.delta else ""
        noise = []
        with TemporaryDirectory() as folder:
            path = Path(folder) / "budgets.duckdb"
            with duckanon.connect(path, role="steward") as con:
                con.execute(f"CREATE TABLE persons AS SELECT i AS value FROM range({VALUES}) r(i)").fetchall()
                con.execute(f"SELECT protect('persons', {terms})").fetchall()
            with duckanon.connect(path, role="analyst") as con:
                (asked,) = con._guard.decide(f"SELECT count(*) FROM persons WHERE value < {VALUES}").answers
                for value in range(1, VALUES):
                    filters = tuple(one.replace(str(VALUES), str(value)) for one in asked.filter)
                    noisy = bought(con, replace(asked, filter=filters))
                    if noisy is None:
                        break
                    noise.append(noisy - value)
        return len(noise), float(np.std(noise))


def bought(con: duckanon.Analyst, question: PaidQuestion) -> int | None:
    """The answer to a question for one count; None where nothing is left to pay for it."""
    drawn: list[pa.Table] = []

    def draw(own: duckdb.DuckDBPyConnection) -> pa.Table:
        drawn.append(mechanisms.draw(own, question))
        return drawn[0]

    try:
        con._guard._shared.governance.answers.ensure(question.purchase, draw)
    except BudgetExhausted:
        return None
    count: int = drawn[0].column("n0")[0].as_py()
    return count


def print_pure() -> None:
    """How many answers with pure noise fit into each promise with a delta."""
    print(f"| promise | {' | '.join(f'epsilon {each}' for each in EPSILONS)} |")
    print(f"|---|{'---|' * len(EPSILONS)}")
    for one in map(Budget.of, PROMISES):
        if one.delta:
            order = renyi(one.epsilon, one.delta).order
            prices = [(price(Fraction(each), order), simple_price(Fraction(each), order)) for each in EPSILONS]
            told = [f"{int(one.capacity / now)} ({int(one.capacity / before)})" for now, before in prices]
            print(f"| {one.name} | {' | '.join(told)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planned", action="store_true")
    parser.add_argument("--pure", action="store_true")
    given = parser.parse_args()
    if given.pure:
        print_pure()
        return
    print("| promise | order | budget | deviation 10 | deviation 100 | deviation 1,000 |")
    print("|---|---|---|---|---|---|")
    for one in map(Budget.of, PROMISES):
        counts = " | ".join(f"{one.counts(deviation):,}" for deviation in DEVIATIONS)
        print(f"| {one.name} | {one.order} | {written(one.capacity)} | {counts} |")
    if not given.planned:
        print("\n| promise | bought | deviation |\n|---|---|---|")
        for one in map(Budget.of, PROMISES[:2]):
            number, deviation = one.buy(BOUGHT)
            print(f"| {one.name} | {number:,} | {deviation:.0f} |")


if __name__ == "__main__":
    main()
