"""Every mechanism: exact ones against brute force, and what each promises on trees of all kinds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.groups import relaxed_least_squares, tree_least_squares
from duckanon.engines.groups.draws import variance
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.isotonic_regression import pool, whole_rows
from duckanon.engines.groups.measurements import Measurements
from duckanon.engines.groups.methods import METHODS
from duckanon.engines.groups.queries import ABOVE, CHAIN, FORWARD, HISTOGRAM, Query
from duckanon.engines.groups.release import release
from duckanon.engines.groups.request import Request, Totals
from duckanon.engines.groups.topdown import nearest
from duckanon.engines.noise import Laplace
from tests.amounts import many
from tests.engines.groups.plain import TREES, best, squares, tables
from tests.engines.groups.test_hierarchy import trees
from tests.engines.seeded import Seeded

TWINS = [("root", 3), ("two", 2), ("deep", 1), ("thin", 2), ("three", 1)]
MOST = 8


@st.composite
def measured(draw: st.DrawFn, query: Query, *, scales: bool = False) -> Measurements:
    """Small trees with any whole numbers for what was measured, and a total that some release has."""
    name, sizes = draw(st.sampled_from(TWINS))
    tree = TREES[name]
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    shape = query.of(np.zeros((1, sizes), dtype=np.int64)).shape[1:]
    values = tuple(rng.integers(-5, MOST, (sizes, r) if query is CHAIN else (r, *shape)) for r in tree.sizes)
    total = draw(st.none() | st.integers(0, MOST)) if query is not CHAIN else draw(st.integers(0, MOST))
    spread = tuple((Laplace(Fraction(int(rng.integers(1, 5)) if scales else 1)),) for _ in tree.sizes)
    totals = None
    if total is not None:
        totals = (np.array([total]), *(np.full(r, -1) for r in tree.sizes[1:]))
    return Measurements(tree, sizes, query, values, spread, np.zeros(sizes, dtype=np.int64), totals)


def cost(case: Measurements, leaves: np.ndarray) -> float:
    return squares(case.histograms())(case.hierarchy.levels(leaves))


@settings(max_examples=many(60))
@given(measured(HISTOGRAM), st.sampled_from([1, 2, 3, 256]))
def test_h_dp_is_optimal(case: Measurements, window: int) -> None:
    tree_least_squares._FIRST_WINDOW, kept = window, tree_least_squares._FIRST_WINDOW
    try:
        found = METHODS["h_dp"].run(case).leaves
    finally:
        tree_least_squares._FIRST_WINDOW = kept
    assert (found >= 0).all()
    assert case.total is None or found.sum() == case.total
    assert cost(case, found) == best(case.hierarchy, case.max_size, MOST, case.total, squares(case.histograms()))


@settings(max_examples=many(25))
@given(measured(HISTOGRAM))
def test_h_exact_is_optimal(case: Measurements) -> None:
    found = METHODS["h_exact"].run(case).leaves
    assert cost(case, found) == best(case.hierarchy, case.max_size, MOST, case.total, squares(case.histograms()))


@settings(max_examples=20)
@given(trees(levels=3, widest=4), st.integers(0, 2**32 - 1), st.booleans())
def test_h_dp_equals_h_exact_on_larger_trees(tree: Hierarchy, seed: int, public: bool) -> None:
    rng = np.random.default_rng(seed)
    tree = tree.ordered
    values = tuple(rng.integers(-40, 60, (r, 4)) for r in tree.sizes)
    totals = tuple(np.full(r, 50) for r in tree.sizes) if public else None
    noise = ((Laplace(Fraction(1)),),) * tree.depth
    case = Measurements(tree, 4, HISTOGRAM, values, noise, np.zeros(4, dtype=np.int64), totals)
    assert cost(case, METHODS["h_dp"].run(case).leaves) == cost(case, METHODS["h_exact"].run(case).leaves)


@settings(max_examples=many(25))
@given(measured(FORWARD) | measured(ABOVE))
def test_c_exact_is_optimal(case: Measurements) -> None:
    if (case.totals is None) != (case.query is ABOVE):
        return
    goal = squares(case.values)
    found = METHODS["c_exact"].run(case).leaves
    expected = best(
        case.hierarchy, case.max_size, MOST, case.total, lambda levels: goal(tuple(map(case.query.of, levels)))
    )
    assert goal(tuple(map(case.query.of, case.hierarchy.levels(found)))) == expected


@settings(max_examples=many(60))
@given(measured(CHAIN, scales=True))
def test_chain_is_optimal(case: Measurements) -> None:
    """Model 3 with each level weighed by the inverse of its noise's variance."""
    trust = [1 / variance(noise) for (noise,) in case.noise]

    def goal(levels: tuple[np.ndarray, ...]) -> float:
        chains = [CHAIN.of(level) for level in levels]
        return sum(t * ((a - b) ** 2).sum() for t, a, b in zip(trust, chains, case.values, strict=True))

    found = METHODS["chain"].run(case).leaves
    assert (found >= 0).all()
    assert goal(case.hierarchy.levels(found)) == pytest.approx(
        best(case.hierarchy, case.max_size, MOST, case.total, goal)
    )


@given(st.lists(st.integers(-9, 12), min_size=1, max_size=4), st.integers(0, 9), st.integers(0, 5))
def test_topdown_s_step_is_optimal(noisy: list[int], total: int, turn: int) -> None:
    wanted, found = np.array(noisy), np.empty(len(noisy), dtype=np.int64)
    nearest(wanted, total, turn, found)
    assert found.sum() == total
    assert (found >= 0).all()
    expected = min(((x[0] - wanted) ** 2).sum() for x in tables(1, len(noisy), total) if x.sum() == total)
    assert ((found - wanted) ** 2).sum() == expected


@given(st.lists(st.integers(-9, 12), min_size=1, max_size=3), st.integers(0, 9))
def test_isotonic_regression_is_optimal(noisy: list[int], most: int) -> None:
    wanted = np.array([noisy])
    found = whole_rows(wanted, 0, most)
    monotone = [row for row in tables(1, len(noisy), most) if (np.diff(row) >= 0).all()]
    assert (np.diff(found) >= 0).all()
    assert ((found - wanted) ** 2).sum() == min(((row - wanted) ** 2).sum() for row in monotone)


@given(st.lists(st.tuples(st.integers(-9, 12), st.integers(1, 5)), min_size=1, max_size=8))
def test_weighted_isotonic_regression(pairs: list[tuple[int, int]]) -> None:
    """By the formula: the largest of the means that end here, over the smallest of those that start here."""
    values, weights = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
    fitted = pool(values[None, :], weights[None, :])[0]

    def mean(a: int, b: int) -> float:
        return float(values[a : b + 1] @ weights[a : b + 1] / weights[a : b + 1].sum())

    for i in range(len(values)):
        assert fitted[i] == pytest.approx(
            max(min(mean(a, b) for b in range(i, len(values))) for a in range(i + 1)), abs=1e-9
        )


@settings(max_examples=many(30))
@given(measured(HISTOGRAM) | measured(FORWARD) | measured(ABOVE))
def test_relaxed_optima(case: Measurements) -> None:
    """The projections end where a general solver ends: feasible, and no farther from what was measured."""
    from scipy.optimize import minimize

    if case.query is not HISTOGRAM and (case.totals is None) != (case.query is ABOVE):
        return
    real = relaxed_least_squares.h_real(case) if case.query is HISTOGRAM else relaxed_least_squares.c_real(case)
    shape = real[-1].shape
    assert min(level.min() for level in real) > -0.05

    def sums(flat: np.ndarray) -> list[np.ndarray]:
        found = [flat.reshape(shape)]
        for level in reversed(range(case.hierarchy.depth - 1)):
            found.insert(0, case.hierarchy.up(level, found[0]))
        return found

    def goal(flat: np.ndarray) -> float:
        views = [case.query.of(level) for level in sums(flat)]
        return float(sum(((a - b) ** 2).sum() for a, b in zip(views, case.values, strict=True)))

    for level, expected in zip(real, sums(real[-1]), strict=True):
        assert level == pytest.approx(expected, abs=1e-6)
    limits = () if case.total is None else ({"type": "eq", "fun": lambda flat: flat.sum() - case.total},)
    answer = minimize(
        goal, np.full(real[-1].size, 1.0), bounds=[(0, None)] * real[-1].size, constraints=limits, method="SLSQP"
    )
    assert goal(real[-1].reshape(-1)) == pytest.approx(answer.fun, rel=0.02, abs=0.3)


PLANS = [(name, "public") for name in METHODS] + [(name, "private") for name, m in METHODS.items() if m.private]
SLOW = {"h_exact", "c_exact"}


@pytest.mark.parametrize(("name", "totals"), PLANS)
def test_promises(name: str, totals: Totals) -> None:
    """On trees of all kinds, few and many groups: `release` checks sums and signs itself, so here is what is left."""

    @settings(max_examples=many(10 if name in SLOW else 40))
    @given(trees(), st.integers(1, 2 if name in SLOW else 6), st.sampled_from([0, 1, 3, 400]), st.integers(0, 999))
    def check(tree: Hierarchy, sizes: int, most: int, seed: int) -> None:
        groups = np.random.default_rng(seed).integers(0, most + 1, (tree.sizes[-1], sizes))
        found = release(
            tree,
            groups,
            Request(epsilon=Fraction(2), mechanism=name, totals=totals),
            source=Seeded(seed),
        )
        assert tuple(len(level.groups) for level in found.levels) == tree.sizes
        for level, truth in zip(found.levels, tree.levels(groups), strict=True):
            assert level.groups.shape == level.low.shape == level.high.shape == truth.shape
            assert (level.low >= 0).all()
            assert (level.low <= level.groups).all()
            assert (level.groups <= level.high).all()
            if totals == "public" and name == "auto":
                assert (level.groups.sum(axis=1) == truth.sum(axis=1)).all()
        if totals == "public":
            assert found.levels[0].groups.sum() == groups.sum()
        assert tree.consistent(tuple(level.groups for level in found.levels))
        assert found.split.loss.total == 2
        assert all(found.split.look + sum(way) == 2 for way in found.split.ways)

    check()
