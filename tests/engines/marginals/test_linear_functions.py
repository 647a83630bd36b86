"""Variances of sums of cells, which need only the cells that are added up, equal the dense ones; and intervals hold."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import floor, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.discrete_gaussian import discrete_gaussian
from duckanon.engines.marginals.estimate import estimate
from duckanon.engines.marginals.intervals import Widths, factor, quotient_ends
from duckanon.engines.marginals.linear_functions import Along, Noise, Weights
from duckanon.engines.marginals.plan import Plan
from duckanon.engines.marginals.variances import combined
from duckanon.engines.marginals.workload import Workload
from tests.engines.marginals.dense import LeastSquares
from tests.engines.seeded import Seeded

SIZES = (3, 4, 2)
MEASURED: dict[tuple[int, ...], Fraction] = {(0, 1): Fraction(9, 2), (1, 2): Fraction(5), (0,): Fraction(7, 3)}
TABLES: list[tuple[int, ...]] = [(), (0,), (1,), (0, 1), (1, 2)]
# Of draws.
DRAWS = 20_000
LEAST = 0.945


@st.composite
def functions(draw: Any, size: int) -> Weights:
    """Some cells of a table, each once, with weights."""
    cells = draw(st.lists(st.integers(0, size - 1), unique=True, max_size=size))
    weights = [draw(st.integers(-3, 3)) for _ in cells]
    return Weights(np.array(cells, dtype=np.int64), np.array(weights, dtype=np.float64))


@given(st.sampled_from(TABLES), st.data())
def test_as_the_dense_ones(table: tuple[int, ...], data: Any) -> None:
    known = combined(SIZES, MEASURED)
    noise = Noise.of(known, table, 2)
    size = int(np.prod([SIZES[at] for at in table]))
    one, other = (data.draw(functions(size)) for _ in range(2))
    dense = [np.zeros(size) for _ in range(2)]
    for of, found in zip((one, other), dense, strict=True):
        found[of.cells] = of.weights
    expected = 4 * dense[0] @ LeastSquares(SIZES, MEASURED).covariance_of(table) @ dense[1]
    assert noise.covariance(one, other) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_variance_of_a_cell_is_the_exact_one() -> None:
    known = combined(SIZES, MEASURED)
    for table in TABLES:
        alone = Weights(np.array([0]), np.ones(1))
        assert Noise.of(known, table, 3).variance(alone) == pytest.approx(9 * float(known.of_cell(table)), rel=1e-12)


# --- intervals over draws ---------------------------------------------------------------------------------------------

PLANS: dict[str, dict[tuple[int, ...], Fraction]] = {
    "one table": {(0, 1): Fraction(4, 5)},
    "little noise": {(0, 1): Fraction(1, 2), (1, 2): Fraction(3, 4)},
    "several tables": MEASURED,
    "much noise": {(0, 1): Fraction(900), (1, 2): Fraction(400)},
}
TRUTH = np.random.default_rng(5).integers(20, 300, SIZES)


@cache
def drawn(plan: str) -> tuple[Widths, np.ndarray]:
    """The widths of the table (0, 1), and what is estimated of it in each draw."""
    measured = PLANS[plan]
    tables = tuple(measured)
    planned = Plan(Workload(SIZES, tables, (Fraction(1),) * len(tables)), measured)
    source = Seeded(11)
    noise = {
        table: discrete_gaussian(variance, (DRAWS, *planned.workload.shape(table)), source)
        for table, variance in measured.items()
    }
    found = np.tile(TRUTH.sum(axis=2).reshape(-1).astype(np.float64), (DRAWS, 1))
    # It is linear: what each measurement adds to it is estimated from that one alone.
    for table in measured:
        size = int(np.prod(planned.workload.shape(table)))
        nothing = {one: np.zeros(planned.workload.shape(one), dtype=np.int64) for one in measured}
        for at in range(size):
            alone = np.eye(1, size, at, dtype=np.int64).reshape(planned.workload.shape(table))
            added = estimate(planned, {**nothing, table: alone}).marginal((0, 1)).reshape(-1)
            found += noise[table].reshape(DRAWS, size)[:, at : at + 1] * added
    least = factor(float(min(measured.values())))
    return Widths(Noise.of(planned.variances, (0, 1), 1), least, len(measured) == 1), found


SUMS = {
    "one cell": [5],
    "a row": [4, 5, 6, 7],
    "a column": [1, 5, 9],
    "a corner": [0, 1, 4],
    "all": list(range(12)),
}


@pytest.mark.parametrize("cells", SUMS)
@pytest.mark.parametrize("plan", PLANS)
def test_whole_numbers_are_so_near(plan: str, cells: str) -> None:
    widths, found = drawn(plan)
    of = Weights(np.array(SUMS[cells]), np.ones(len(SUMS[cells])))
    truth = TRUTH.sum(axis=2).reshape(-1)[of.cells].sum()
    off = np.abs(np.round(found[:, of.cells].sum(axis=1)) - truth)
    told = floor(widths.width(of) + 0.5)
    assert (off <= told).mean() >= LEAST
    # Hardly wider than the narrowest that is valid: what is proven for all weights needs more where noise is little.
    narrowest = int(np.quantile(off, 0.95, method="inverted_cdf"))
    assert told <= narrowest * widths.factor / factor(inf) * 1.02 + 2


@pytest.mark.parametrize("plan", PLANS)
def test_a_narrower_width_is_not_valid(plan: str) -> None:
    """The tests above can fail: four fifths of the width miss the truth too often."""
    widths, found = drawn(plan)
    of = Weights(np.arange(12), np.ones(12))
    off = np.abs(found.sum(axis=1) - TRUTH.sum())
    assert (off <= 0.8 * factor(inf) * np.sqrt(widths.noise.variance(of))).mean() < LEAST


@pytest.mark.parametrize(
    ("part", "whole"), [([5], [4, 5, 6, 7]), ([0, 1], list(range(12))), ([1, 5, 9], list(range(12)))]
)
@pytest.mark.parametrize("plan", PLANS)
def test_quotients_are_between_their_ends(plan: str, part: list[int], whole: list[int]) -> None:
    widths, found = drawn(plan)
    above, below = (Weights(np.array(one), np.ones(len(one))) for one in (part, whole))
    variances = [np.full(DRAWS, one) for one in widths.quotient(above, below)]
    numbers, divisors = found[:, part].sum(axis=1), found[:, whole].sum(axis=1)
    low, high = quotient_ends(numbers, divisors, variances, np.zeros(DRAWS), widths.factor)
    cells = TRUTH.sum(axis=2).reshape(-1)
    truth = cells[part].sum() / cells[whole].sum()
    assert ((low <= truth) & (truth <= high)).mean() >= LEAST
    # By the width that is told for a row: for 95 % the quotient times the divisor is so near.
    assert (np.abs(numbers - truth * divisors) <= widths.most(above, below)).mean() >= LEAST
    # Narrower intervals would miss it.
    narrow = quotient_ends(numbers, divisors, [one * 0.64 for one in variances], np.zeros(DRAWS), factor(inf))
    assert ((narrow[0] <= truth) & (truth <= narrow[1])).mean() < LEAST


def test_ends_of_a_divisor_that_may_be_zero() -> None:
    one = [np.array([4.0]), np.array([4.0]), np.array([1.0])]
    low, high = quotient_ends(np.array([1.0]), np.array([2.0]), one, np.zeros(1), factor(inf))
    assert (low[0], high[0]) == (0.0, 1.0)


# --- a key's values as numbers ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 23), min_size=1, unique=True), st.sampled_from([0, 1, 2]), st.data())
def test_values_along_a_key_are_weights_of_its_cells(cells: list[int], axis: int, data: Any) -> None:
    ways = data.draw(
        st.lists(st.sampled_from([0.0, 0.25, 1.0, float("nan")]), min_size=SIZES[axis], max_size=SIZES[axis])
    )
    each = [2.0, 5.0, 7.0]
    found = Along(axis, np.array(ways)).weights(SIZES, np.array(cells), each)
    for cell, weight in zip(cells, found.weights, strict=True):
        way = ways[(cell // 8, cell // 2 % 4, cell % 2)[axis]]
        assert weight == (7.0 if way != way else 2.0 + 3.0 * way)
