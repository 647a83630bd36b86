"""Plans are as good as they say, cost what they say, and are near what any Gaussian noise could do."""

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.marginals import workload as module
from duckanon.engines.marginals.plan import Plan
from duckanon.engines.marginals.planner import plan, plan_within
from duckanon.engines.marginals.residual_spaces import Table
from duckanon.engines.marginals.variances import Variances
from duckanon.engines.marginals.workload import Workload
from duckanon.errors import InvalidInput
from tests.engines.marginals import residual_planner
from tests.engines.marginals.all_tables import all_tables
from tests.engines.marginals.strategies import FRACTIONS, workloads

RHO = Fraction(1178, 100_000)
NINE = (16, 9, 16, 7, 15, 5, 2, 10, 2)
# How far a plan may be from the least error or charge: the search's end and the rounding of scales.
NEAR = 2e-4


def splits(count: int, parts: int) -> list[tuple[int, ...]]:
    """All ways to split so many parts over `count` places."""
    return [each for each in product(range(parts + 1), repeat=count) if sum(each) == parts]


def measured_at(workload: Workload, shares: np.ndarray, rho: Fraction) -> Plan | None:
    """The plan that gives each residual space's marginal a share of rho; None if some table does not follow."""
    charges = {
        space: rho * Fraction(float(share)) for space, share in zip(workload.spaces, shares, strict=True) if share > 0
    }
    found = Plan(workload, {space: 1 / (2 * charge) for space, charge in charges.items()})
    return found if all(found.variances.answers(table) for table in workload.tables) else None


def shares_of(found: Plan) -> np.ndarray:
    """Of each residual space's marginal in the charge."""
    return np.array([float(found.charges.get(space, 0) / found.rho) for space in found.workload.spaces])


def test_charges_are_short_decimals() -> None:
    """A ledger that had charged one plan said what is left in fractions of 838,860,800."""
    for found in (plan(all_tables(NINE, 2), RHO), plan_within(all_tables(NINE[:3], 2), [Fraction(97)] * 6)):
        assert (found.rho * 10**10).denominator == 1


@given(workloads(), st.fractions(Fraction(1, 1000), 10, max_denominator=1000))
def test_charges_are_exact_and_errors_are_as_near_to_the_least_as_said(workload: Workload, rho: Fraction) -> None:
    found = plan(workload, rho)
    assert found.rho == sum(1 / (2 * variance) for variance in found.measured.values())
    assert rho * (1 - Fraction(NEAR)) <= found.rho <= rho
    assert found.gap <= NEAR
    # No Gaussian noise at all does better, and this is what the noise of the plan is compared with.
    assert float(found.error) >= residual_planner.least_error(workload, found.rho) * (1 - 1e-9)


@given(workloads())
def test_no_plan_on_a_grid_is_better(workload: Workload) -> None:
    found, grid = plan(workload, RHO), len(workload.spaces)
    if grid > 8:
        return
    for shares in splits(grid, 5 if grid > 4 else 12):
        other = measured_at(workload, np.array(shares) / sum(shares), RHO)
        assert other is None or float(other.error) * (1 + found.gap + 1e-9) >= float(found.error)


@given(workloads(), st.integers(0, 1000))
def test_no_plan_nearby_is_better(workload: Workload, seed: int) -> None:
    """Shares that are moved a little, from the plan's own: where a wrong gradient would show."""
    found, rng = plan(workload, RHO), np.random.default_rng(seed)
    own = shares_of(found)
    for step in (0.3, 0.03, 0.003):
        moved = own * np.exp(step * rng.normal(size=len(own))) + step / 100 * rng.random(len(own))
        other = measured_at(workload, moved / moved.sum(), RHO)
        assert other is not None
        assert float(other.error) * (1 + found.gap + 1e-9) >= float(found.error)


@given(workloads(), st.data())
def test_within_keeps_what_is_allowed_at_the_least_charge(workload: Workload, data: st.DataObject) -> None:
    allowed = [data.draw(FRACTIONS) for _ in workload.tables]
    found = plan_within(workload, allowed)
    errors = [found.variance(table) / most for table, most in zip(workload.tables, allowed, strict=True)]
    assert 1 - NEAR <= max(errors) <= 1
    assert found.gap <= NEAR
    rng = np.random.default_rng(0)
    own = shares_of(found)
    for shares in (own + step * rng.random(len(own)) for step in (1.0, 0.1, 0.01, 0.001)):
        other = measured_at(workload, shares / shares.sum(), found.rho)
        assert other is not None
        worst = max(other.variance(table) / most for table, most in zip(workload.tables, allowed, strict=True))
        # Errors are proportional to the inverse of the charge.
        assert float(worst) * (1 + found.gap + 1e-9) >= 1 - NEAR


@pytest.mark.parametrize(("ways", "ratio", "error"), [(2, 1.04, 30.87), (3, 1.05, 42.57)])
def test_nine_attributes_are_near_the_optimum_of_all_gaussian_noise(ways: int, ratio: float, error: float) -> None:
    """The goals of the figures, with the cells outside and without; the optimum is ResidualPlanner's."""
    for outside in (0, 1):
        workload = all_tables(NINE, ways, outside=outside)
        found = plan(workload, RHO)
        assert sqrt(float(found.error) / residual_planner.least_error(workload, RHO)) < ratio
        assert found.gap < NEAR
        if not outside:
            assert sqrt(float(found.error)) < error
            assert set(found.measured) == {table for table in workload.tables if len(table) == ways}


def test_a_single_table_gets_the_whole_charge() -> None:
    found = plan(Workload((5,), ((0,),), (Fraction(3),)), Fraction(1, 2))
    assert set(found.measured) == {(0,)}
    assert found.variance((0,)) == pytest.approx(1, rel=NEAR)
    exactly = plan_within(Workload((5,), ((0,),), (Fraction(3),)), [Fraction(1)])
    assert exactly.rho == pytest.approx(0.5, rel=NEAR)
    assert exactly.variance((0,)) <= 1


def test_a_table_that_weighs_more_is_more_precise() -> None:
    tables: tuple[Table, ...] = ((0,), (1,))
    even, uneven = (
        plan(Workload((4, 4), tables, weights), RHO) for weights in ((Fraction(1),) * 2, (Fraction(9), Fraction(1)))
    )
    assert uneven.variance((0,)) < even.variance((0,)) < uneven.variance((1,))


def test_cells_outside_do_not_count() -> None:
    """A table of which one cell counts gets less than one of the same size whose cells all count."""
    found = plan(Workload((9, 9), ((0,), (1,)), (Fraction(1),) * 2, inside=(9, 1)), RHO)
    assert found.variance((0,)) < found.variance((1,))


def test_the_example_of_the_paper() -> None:
    """Two attributes of 2 and 3 values, both tables of one, at a charge of 1: the noise and the answers of its example.

    The example draws three noises of the variances 1.52, 1.96, and 0.8 times ((2, 1), (1, 2)), for the sum of all, the
    difference of the two values, and the differences of the first of three values and the others.
    """
    workload = Workload((2, 3), ((0,), (1,)), (Fraction(1),) * 2)
    noise = residual_planner.variances(workload, Fraction(1))
    # The difference of two values has twice the variance of the space's noise.
    assert [round(noise[()], 2), round(2 * noise[0,], 2), round(noise[1,], 2)] == [1.52, 1.96, 0.8]
    spaces = Variances((2, 3), {space: 1 / Fraction(variance) for space, variance in noise.items()})
    one, two = np.kron(np.eye(2), np.ones((1, 3))), np.kron(np.ones((1, 2)), np.eye(3))
    total, first = np.ones((1, 6)), np.array([[1.0, 1, 1, -1, -1, -1]])
    second = np.array([[1.0, -1, 0, 1, -1, 0], [1, 0, -1, 1, 0, -1]])
    least = 0.0
    for table, asked, own, residual in (
        ((0,), one, np.array([[2.0]]), first),
        ((1,), two, np.array([[2.0, 1], [1, 2]]), second),
    ):
        from_total, from_own = asked @ np.linalg.pinv(total), asked @ np.linalg.pinv(residual)
        covariance = noise[()] * from_total @ from_total.T + noise[table] * from_own @ own @ from_own.T
        np.testing.assert_allclose(np.diag(covariance), float(spaces.of_cell(table)))
        least += float(np.trace(covariance))
    assert least / 5 == pytest.approx(residual_planner.least_error(workload, Fraction(1)))
    found = plan(workload, Fraction(1))
    assert 1 <= float(found.error) / (least / 5) < 1.05
    assert found.measured.keys() == {(0,), (1,)}


def test_what_cannot_be_planned_is_refused() -> None:
    one = (Fraction(1),)
    for wrong in (
        lambda: Workload((2,), (), ()),
        lambda: Workload((2,), ((0,), (0,)), one * 2),
        lambda: Workload((2,), ((0,),), ()),
        lambda: Workload((2,), ((0,),), (Fraction(0),)),
        lambda: Workload((2, 2), ((1, 0),), one),
        lambda: Workload((2,), ((1,),), one),
        lambda: Workload((1,), ((0,),), one),
        lambda: Workload((2,), ((0,),), one, inside=(3,)),
        lambda: Workload((2,), ((0,),), one, parts=(0,)),
        lambda: Workload((2,), ((0,),), one, parts=(1, 1)),
        lambda: Workload((2,) * 30, (tuple(range(30)),), one),
        lambda: plan(Workload((2,), ((0,),), one), Fraction(0)),
        lambda: plan_within(Workload((2,), ((0,),), one), []),
        lambda: plan_within(Workload((2,), ((0,),), one), [Fraction(0)]),
        lambda: plan(Workload((2, 2), ((0,),), one), RHO).variance((1,)),
    ):
        with pytest.raises(InvalidInput):
            wrong()
    assert module.MOST_PAIRS >= 4 * 4950
