"""Estimates and variances are those of dense least squares, and follow the noise that was drawn."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.discrete_gaussian import discrete_gaussian
from duckanon.engines.marginals.estimate import estimate
from duckanon.engines.marginals.plan import Plan
from duckanon.engines.marginals.planner import plan as plan_of_workload
from duckanon.engines.marginals.residual_spaces import Table, closure
from duckanon.engines.marginals.workload import Workload
from duckanon.errors import InvalidInput
from tests.engines.marginals.all_tables import all_tables
from tests.engines.marginals.dense import LeastSquares
from tests.engines.marginals.strategies import measurements
from tests.engines.seeded import Seeded


def plan_of(sizes: tuple[int, ...], measured: dict[Table, Fraction], parts: tuple[int, ...] = ()) -> Plan:
    tables = tuple(measured)
    return Plan(Workload(sizes, tables, (Fraction(1),) * len(tables), parts=parts), measured)


def random_numbers(plan: Plan, seed: int) -> dict[Table, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {table: rng.integers(-50, 50, plan.workload.shape(table)) for table in plan.measured}


@given(measurements(), st.integers(0, 1000))
def test_estimates_are_weighted_least_squares(given: tuple[tuple[int, ...], dict[Table, Fraction]], seed: int) -> None:
    plan = plan_of(*given)
    noisy = random_numbers(plan, seed)
    ours, dense = estimate(plan, noisy), LeastSquares(*given)
    for table in closure(plan.measured):
        np.testing.assert_allclose(ours.marginal(table), dense.estimate(noisy, table), atol=1e-8)


@given(measurements(), st.integers(0, 1000))
def test_variances_are_those_of_least_squares(given: tuple[tuple[int, ...], dict[Table, Fraction]], seed: int) -> None:
    plan, dense, rng = plan_of(*given), LeastSquares(*given), np.random.default_rng(seed)
    for table in closure(plan.measured):
        covariance = dense.covariance_of(table)
        shape = plan.workload.shape(table)
        np.testing.assert_allclose(np.diag(covariance), float(plan.variance(table)), rtol=1e-8)
        factors = [[Fraction(int(each)) for each in rng.integers(-2, 3, size)] for size in shape]
        weights = product_of(shape, factors).ravel()
        exactly = plan.variances.of_product(table, factors)
        assert float(exactly) == pytest.approx(weights @ covariance @ weights, abs=1e-8)


def product_of(shape: tuple[int, ...], factors: list[list[Fraction]]) -> np.ndarray:
    weights = np.ones(shape)
    for axis, own in enumerate(factors):
        weights = weights * np.reshape(
            [float(each) for each in own], [-1 if axis == at else 1 for at in range(len(shape))]
        )
    return weights


# Four attributes: three keys, and a number of five steps with a cell for records without a value.
SIZES, PARTS = (4, 3, 2, 3), (1, 1, 1, 5)
TABLES: tuple[Table, ...] = ((0,), (0, 1), (1, 2), (0, 3), (1, 3), (3,))


def records(rng: np.random.Generator, count: int) -> list[list[np.ndarray]]:
    """The vectors of each record's attributes."""
    found = []
    for _ in range(count):
        keys = [np.eye(size, dtype=np.int64)[rng.integers(size)] for size in SIZES[:3]]
        steps = int(rng.integers(6))
        number = np.array([0, 0, 5] if rng.random() < 0.2 else [5 - steps, steps, 0], dtype=np.int64)
        found.append([*keys, number])
    return found


def marginal_of(rows: list[list[np.ndarray]], table: Table) -> np.ndarray:
    total = np.zeros([SIZES[at] for at in table], dtype=np.int64)
    for row in rows:
        cell = np.ones((), dtype=np.int64)
        for at in table:
            cell = np.multiply.outer(cell, row[at])
        total += cell
    return total


def numbers_plan(rho: Fraction = Fraction(1, 8)) -> Plan:
    return plan_of_workload(Workload(SIZES, TABLES, (Fraction(1),) * len(TABLES), parts=PARTS), rho)


def test_without_noise_the_tables_are_the_exact_ones() -> None:
    plan, rows = numbers_plan(), records(np.random.default_rng(1), 200)
    exact = {table: marginal_of(rows, table) for table in plan.measured}
    for noisy in (exact, {table: cells.astype(object) for table, cells in exact.items()}):
        found = estimate(plan, noisy)
        for table in closure(TABLES):
            expected = marginal_of(rows, table) / plan.workload.whole(table)
            np.testing.assert_allclose(found.marginal(table), expected, atol=1e-9)


def test_numbers_of_any_size_are_added_up_exactly_before_they_are_rounded() -> None:
    plan = plan_of((2, 2), {(0, 1): Fraction(1)}, parts=(1, 10**20))
    most = 10**20 * 10**9
    found = estimate(plan, {(0, 1): np.array([[most, -most + 10**20], [most, most]], dtype=object)})
    np.testing.assert_allclose(found.marginal((0,)), [1, 2 * 10**9], rtol=1e-12)


@given(st.integers(0, 10_000), st.integers(1, 3))
def test_a_unit_costs_at_most_what_the_plan_does(seed: int, of_unit: int) -> None:
    """One unit more or less: the sum of the squared L2 distances of all measured tables by twice their variance."""
    rng = np.random.default_rng(seed)
    plan, rows = numbers_plan(), records(rng, of_unit)
    losses = {
        table: Fraction(int((marginal_of(rows, table) ** 2).sum())) / (2 * plan.noise(table, of_unit))
        for table in plan.measured
    }
    assert all(losses[table] <= plan.charges[table] for table in plan.measured)
    assert sum(losses.values()) <= plan.rho


def test_a_unit_of_equal_records_with_the_least_number_costs_as_much_as_the_plan() -> None:
    """And a twin whose noise is a hundredth less costs more than is charged."""
    plan = numbers_plan()
    row = [np.eye(size, dtype=np.int64)[0] * parts for size, parts in zip(SIZES, PARTS, strict=True)]
    squares = {table: int((marginal_of([row] * 3, table) ** 2).sum()) for table in plan.measured}
    assert sum(squares[table] / (2 * plan.noise(table, 3)) for table in squares) == plan.rho
    assert sum(squares[table] / (2 * plan.noise(table, 3) * Fraction(99, 100)) for table in squares) > plan.rho


def drawn_errors(plan: Plan, runs: int, factor: Fraction = Fraction(1)) -> dict[Table, np.ndarray]:
    """The errors of all tables' cells over draws of the noise, whose variance is the plan's times `factor`."""
    source = Seeded(7)
    errors: dict[Table, list[np.ndarray]] = {table: [] for table in TABLES}
    noise = {
        table: discrete_gaussian(factor * plan.noise(table), (runs, *plan.workload.shape(table)), source)
        for table in plan.measured
    }
    for run in range(runs):
        found = estimate(plan, {table: drawn[run] for table, drawn in noise.items()})
        for table, of_table in errors.items():
            of_table.append(found.marginal(table))
    return {table: np.array(of_table) for table, of_table in errors.items()}


def far_from(plan: Plan, errors: dict[Table, np.ndarray]) -> tuple[float, float]:
    """How many standard errors the means are away from 0, and the mean squares from the variances: the farthest."""
    bias, spread = 0.0, 0.0
    for table, of_table in errors.items():
        runs, variance = len(of_table), float(plan.variance(table))
        bias = max(bias, float(np.abs(of_table.mean(axis=0)).max()) / (variance / runs) ** 0.5)
        mean = float((of_table**2).mean()) / variance
        # All cells of a run together are at least one; so this is the widest that the mean of squares varies.
        spread = max(spread, abs(mean - 1) / (2 / runs) ** 0.5)
    return bias, spread


def test_errors_have_no_bias_and_the_variance_that_is_told() -> None:
    plan = numbers_plan()
    bias, spread = far_from(plan, drawn_errors(plan, 1500))
    assert bias < 5
    assert spread < 4
    # Noise a quarter wider is told apart, and so is an estimate that is off by a quarter of a standard deviation.
    assert far_from(plan, drawn_errors(plan, 1500, Fraction(5, 4)))[1] > 4
    moved = {
        table: errors + 0.25 * float(plan.variance(table)) ** 0.5 for table, errors in drawn_errors(plan, 1500).items()
    }
    assert far_from(plan, moved)[0] > 5


def test_tables_that_do_not_add_up_are_never_told() -> None:
    plan = numbers_plan()
    found = estimate(plan, random_numbers(plan, 1))
    wrong = replace(found, spaces={**found.spaces, (0, 1): found.spaces[0, 1] + 0.01})
    with pytest.raises(AssertionError, match="do not add up"):
        wrong.marginal((0, 1))


def test_wrong_numbers_are_refused() -> None:
    plan = numbers_plan()
    noisy = random_numbers(plan, 1)
    table = next(iter(noisy))
    for wrong in ({}, {**noisy, (0, 1, 2): np.zeros((4, 3, 2))}, {**noisy, table: noisy[table][:-1]}):
        with pytest.raises(InvalidInput):
            estimate(plan, wrong)
    found = estimate(plan, noisy)
    for refused in (
        lambda: found.marginal((0, 2)),
        lambda: plan.variances.of_product((0,), [[Fraction(1)]]),
    ):
        with pytest.raises(InvalidInput):
            refused()


def test_rounding_is_as_small_as_said() -> None:
    """Large counts in all tables of nine attributes: what is estimated of exact numbers is off by rounding alone."""
    workload = all_tables((16, 9, 16, 7, 15, 5, 2, 10, 2), 2, outside=1)
    plan, rng = plan_of_workload(workload, Fraction(1, 100)), np.random.default_rng(3)
    rows = np.stack([rng.integers(0, size, 3000) for size in workload.sizes], axis=1)
    weights = rng.integers(0, 10**7, len(rows))

    def counted(table: Table) -> np.ndarray:
        cells = np.zeros(workload.shape(table), dtype=np.int64)
        np.add.at(cells, tuple(rows[:, at] for at in table), weights)
        return cells

    exact = {table: counted(table) for table in plan.measured}
    found, largest = estimate(plan, exact), max(int(each.max()) for each in exact.values())
    assert largest > 10**8
    for table in workload.tables:
        assert np.abs(found.marginal(table) - counted(table)).max() < 1e-12 * largest
