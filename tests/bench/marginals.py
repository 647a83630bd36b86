"""Marginals planned together and measured with Gaussian noise: python -m tests.bench.marginals [adult] [many].

`adult`: nine attributes of Adult (age by 5 years, hours by 10, and seven more: 16, 9, 16, 7, 15, 5, 2, 10, 2 cells),
all tables of one to two and to three of them, at epsilon 1 and delta 1e-9, one record a unit. Numbers are the root of
the mean squared error of a cell: planned; in one draw of discrete Gaussian noise on the real tables; the least that any
Gaussian noise allows (ResidualPlanner, in closed form); and with each table measured alone at the best split of the
charge, with Gaussian noise, and with Laplace noise of epsilon 1. Cells outside the domains are measured in half of the
lines, and never averaged. `many`: 100 attributes of 10 values, all tables of one and two, made from a seed. Seconds:
planning; counting and drawing the noise; estimating all tables.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import cbrt, sqrt
from typing import Any

import duckdb
import numpy as np

from duckanon.engines.discrete_gaussian import discrete_gaussian
from duckanon.engines.marginals.estimate import estimate
from duckanon.engines.marginals.planner import plan, plan_within
from duckanon.engines.marginals.residual_spaces import Table
from duckanon.engines.marginals.workload import Workload
from duckanon.renyi import renyi
from tests.bench.kanon_adult import DATA
from tests.engines.marginals import residual_planner
from tests.engines.marginals.all_tables import all_tables
from tests.engines.seeded import Seeded

EPSILON, DELTA = Fraction(1), Fraction(1, 10**9)
NINE = {
    "(age - 15) // 5": 16,
    "workclass": 9,
    "education": 16,
    "marital_status": 7,
    "occupation": 15,
    "race": 5,
    "sex": 2,
    "hours_per_week // 10": 10,
    "income": 2,
}
ATTRIBUTES, VALUES, RECORDS = 100, 10, 50_000
# Of each cell, where a plan is asked for an accuracy.
DEVIATION = 50


def charge() -> Fraction:
    """What of a budget of (epsilon, delta) Gaussian noise can spend."""
    budget = renyi(EPSILON, DELTA)
    return budget.rho(budget.capacity)


def codes() -> np.ndarray:
    """The cells of Adult's records: one row for each record, one column for each attribute."""
    ranks = [f"dense_rank() OVER (ORDER BY {each}) - 1 AS c{at}" for at, each in enumerate(NINE)]
    with duckdb.connect() as con:
        found = con.execute(f"SELECT {', '.join(ranks)} FROM read_parquet(?)", [str(DATA)]).fetchnumpy()
    columns = np.stack([np.asarray(found[f"c{at}"], dtype=np.int64) for at in range(len(NINE))], axis=1)
    assert [int(each.max()) + 1 for each in columns.T] == list(NINE.values())
    return columns


def counted(records: np.ndarray, table: Table, shape: tuple[int, ...]) -> np.ndarray:
    cells = np.ravel_multi_index([records[:, at] for at in table], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def measured(workload: Workload, records: np.ndarray, rho: Fraction) -> tuple[Any, float, tuple[float, float, float]]:
    """The plan, the error of one draw, and the seconds of all three steps."""
    found, planning = timed(lambda: plan(workload, rho))
    source = Seeded(1)
    noisy, drawing = timed(
        lambda: {
            table: counted(records, table, workload.shape(table))
            + discrete_gaussian(found.noise(table), workload.shape(table), source)
            for table in found.measured
        }
    )
    tables, estimating = timed(
        lambda: (lambda best: {each: best.marginal(each) for each in workload.tables})(estimate(found, noisy))
    )
    squares, cells = 0.0, 0
    for table, values in tables.items():
        inside = tuple(slice(workload.inside[at]) for at in table)
        errors = (values - counted(records, table, workload.shape(table)))[inside]
        squares, cells = squares + float((errors**2).sum()), cells + errors.size
    return found, sqrt(squares / cells), (planning, drawing, estimating)


def alone(workload: Workload, rho: Fraction) -> tuple[float, float]:
    """The error of tables that are measured each alone, at the best split: Gaussian noise, and Laplace noise."""
    cells = [workload.counted(table) for table in workload.tables]
    gaussian = sum(map(sqrt, cells)) ** 2 / (2 * float(rho)) / sum(cells)
    laplace = 2 * sum(map(cbrt, cells)) ** 3 / float(EPSILON) ** 2 / sum(cells)
    return sqrt(gaussian), sqrt(laplace)


def adult() -> Iterator[str]:
    yield (
        "| tables | cells | outside | measured | planned | drawn | optimum | ratio | Gaussian, alone | Laplace, alone "
        "| s to plan | s to draw | s to estimate |"
    )
    yield "|---|---:|---|" + "---:|" * 10
    rho, records = charge(), codes()
    discrete_gaussian(Fraction(1), 10, Seeded(1))
    for ways in (2, 3):
        for outside in (0, 1):
            workload = all_tables(tuple(NINE.values()), ways, outside=outside)
            found, drawn, seconds = measured(workload, records, rho)
            best = sqrt(residual_planner.least_error(workload, found.rho))
            planned = sqrt(float(found.error))
            gaussian, laplace = alone(workload, rho)
            cells = sum(workload.counted(table) for table in workload.tables)
            yield (
                f"| up to {ways} ways | {cells:,} | {'yes' if outside else 'no'} | {len(found.measured)} | "
                f"{planned:.2f} | {drawn:.1f} | {best:.2f} | {planned / best:.4f} | {gaussian:.1f} | {laplace:.1f} | "
                + " | ".join(f"{each:.2f}" for each in seconds)
                + " |"
            )
    yield f"\nThe charge is rho {float(rho):.5f}. Errors are proportional to the inverse of its root."
    workload = all_tables(tuple(NINE.values()), 2, outside=1)
    found = plan_within(workload, [Fraction(DEVIATION**2)] * len(workload.tables))
    separate = Fraction(len(workload.tables), 2 * DEVIATION**2)
    yield (
        f"All tables up to 2 ways, each cell with a standard deviation of {DEVIATION}: rho {float(found.rho):.5f}, "
        f"where each table alone takes {float(separate):.5f}."
    )


def many() -> Iterator[str]:
    yield "| attributes | tables | cells | planned | drawn | optimum | ratio | s to plan | s to draw | s to estimate |"
    yield "|---:|" + "---:|" * 9
    rng = np.random.default_rng(1)
    records = rng.integers(0, VALUES, (RECORDS, ATTRIBUTES)) * rng.integers(0, 2, (RECORDS, 1))
    discrete_gaussian(Fraction(1), 10, Seeded(1))
    workload = all_tables((VALUES,) * ATTRIBUTES, 2, outside=1)
    found, drawn, seconds = measured(workload, records, charge())
    best, planned = sqrt(residual_planner.least_error(workload, found.rho)), sqrt(float(found.error))
    yield (
        f"| {ATTRIBUTES} of {VALUES} | {len(workload.tables):,} | {sum(map(workload.counted, workload.tables)):,} | "
        f"{planned:.1f} | {drawn:.1f} | {best:.1f} | {planned / best:.4f} | "
        + " | ".join(f"{each:.1f}" for each in seconds)
        + " |"
    )


def main() -> None:
    for part in sys.argv[1:] or ("adult", "many"):
        print("\n".join({"adult": adult, "many": many}[part]()) + "\n", flush=True)


if __name__ == "__main__":
    main()
