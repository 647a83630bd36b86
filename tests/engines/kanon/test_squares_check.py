"""The check of prices for sums of squares: as all classes of small tables say, and broken twins."""

from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.kanon import squares_check
from duckanon.engines.kanon.certificate_check import GRAINS
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.microaggregation.embedding import embedded, of_one_unit, total_squares
from duckanon.engines.kanon.microaggregation.microaggregate import priced
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Floats, Records, attribute, records
from duckanon.engines.kanon.squares_check import MOST_K, MOST_RECORDS, check, check_size
from duckanon.errors import InvalidInput
from tests.amounts import many
from tests.engines.kanon.microaggregation.test_microaggregate import optimum, square_sum
from tests.engines.kanon.strategies import tables

SOURCE = Path(str(squares_check.__file__)).read_text()
_ROUNDING = 1e-9
Whole = npt.NDArray[np.int64]


def points_of(table: Records) -> Floats:
    along = canonical(table)
    return of_one_unit(embedded(table.take(along)))[np.argsort(along)]


def excess(table: Records, k: int, prices: Floats) -> float:
    """How much the prices of a class of k .. 2k - 1 records are above its sum of squares, at most."""
    points = points_of(table)
    return max(
        float(prices[list(one)].sum()) - square_sum(points, one)
        for size in range(k, min(2 * k, len(table) + 1))
        for one in combinations(range(len(table)), size)
    )


def alike(table: Records, each: Floats) -> Floats:
    """The same number for equal records: the least of theirs."""
    rows = list(zip(*(a.codes.tolist() for a in table.attributes), strict=True))
    return np.array([min(own for own, other in zip(each, rows, strict=True) if other == row) for row in rows])


def some_prices(table: Records, seed: int, height: float) -> Floats:
    """Prices up to `height`, a few below zero."""
    rng = np.random.default_rng(seed)
    return np.floor(alike(table, (rng.random(len(table)) - 0.1) * rng.random() * height) * GRAINS) / GRAINS


def grains(prices: Floats) -> Whole:
    return np.floor(prices * GRAINS).astype(np.int64)


@settings(max_examples=many(80))
@given(tables(min_size=4, max_size=8), st.integers(2, 3), st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 4.0]))
def test_it_judges_as_all_classes_do(table: Records, k: int, seed: int, height: float) -> None:
    prices = some_prices(table, seed, height)
    verdict, above = check(table, k, grains(prices)), excess(table, k, prices)
    if abs(above) > _ROUNDING:
        assert verdict.valid == (above < 0)
    assert (verdict.too_high == 0) == verdict.valid
    assert verdict.undecided == 0
    least, whole = optimum(points_of(table), k), total_squares(points_of(table))
    assert verdict.proven <= least / max(len(table), 1) + _ROUNDING
    assert whole == pytest.approx(len(table)) or whole == 0
    if verdict.valid:
        assert verdict.proven == verdict.claimed == pytest.approx(max(prices.mean(), 0.0), abs=1e-9)


@settings(max_examples=many(25))
@given(tables(min_size=4, max_size=8), st.integers(2, 3))
def test_what_is_proven_is_valid_and_near_the_optimum(table: Records, k: int) -> None:
    prices = priced(table, k, Control())
    verdict = check(table, k, grains(prices))
    assert verdict.valid
    least = optimum(points_of(table), k) / len(table)
    assert verdict.proven <= least + _ROUNDING
    assert verdict.proven >= 0.8 * least - _ROUNDING
    assert (prices == alike(table, prices)).all()


@settings(max_examples=many(20))
@given(tables(min_size=4, max_size=8), st.permutations(range(8)), st.integers(0, 10**6))
def test_the_order_of_records_does_not_matter(table: Records, turn: list[int], seed: int) -> None:
    turned = np.array([i for i in turn if i < len(table)], np.int32)
    prices = grains(some_prices(table, seed, 1.0))
    assert check(table.take(turned), 2, prices[turned]) == check(table, 2, prices)


def test_what_is_refused() -> None:
    check_size(MOST_RECORDS, MOST_K)
    for n, k in ((MOST_RECORDS + 1, 3), (MOST_RECORDS, MOST_K + 1)):
        with pytest.raises(InvalidInput, match="for k up to 100 and up to 5,000 records"):
            check_size(n, k)


def test_it_can_be_read_at_one_sitting() -> None:
    assert len(SOURCE.splitlines()) <= 250


# --- broken twins -----------------------------------------------------------------------------------------------------


def twin(before: str = "", after: str = "", steps: int = 10**6) -> ModuleType:
    """The check as plain Python, with a piece of its source changed, and searches of so many steps."""
    source = SOURCE
    if before:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    for decorator in ("inner", "compiled"):
        source = source.replace(f"@{decorator}\n", "")
    module = ModuleType("twin")
    exec(compile(source, "twin", "exec"), module.__dict__)
    vars(module)["_STEPS"] = steps
    return module


FAULTS = {
    "half of the distances of others": ("0.5 * state.nearest", "1.5 * state.nearest"),
    "records that are not among the best": (
        "above - last + min(_adds(state, s, at), last) > worth", "_adds(state, s, at) >= last"
    ),
    "those that come later": ("for later in range(at + 1,", "for later in range(at + 2,"),
    "what is left of a price": ("tried - above)", "tried - 0.5 * above)"),
    "distances from the node": ("state.away[s, later] + _apart", "state.away[s, later] + 2 * _apart"),
    "the least price of equal records": ("np.minimum.reduceat", "np.maximum.reduceat"),
}  # fmt: skip


def cases() -> list[tuple[Records, int, Floats]]:
    """Tables whose prices are a little too high or too low for one class."""
    found = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        table, k = _table(rng), 2 + seed % 3
        prices = np.abs(some_prices(table, seed, 1.0))
        near = excess(table, k, prices)
        scale = 1.0
        while near > 0:
            scale *= 0.9
            near = excess(table, k, prices * scale)
        found += [(table, k, prices * scale * more) for more in (1.0, 1 / 0.9, 10.0)]
    return found


def _table(rng: np.random.Generator) -> Records:
    """Eight records, none of them equal: every class has a sum of squares."""
    return records([attribute("a", rng.permutation(8)), attribute("b", rng.integers(0, 4, 8))])


def is_ever_wrong(module: ModuleType) -> bool:
    """Whether it calls prices valid that are not, or the other way round; or proves more than the optimum."""
    for table, k, prices in cases():
        uneven = grains(prices)
        verdict, above = module.check(table, k, uneven), excess(table, k, alike(table, prices))
        if abs(above) > _ROUNDING and verdict.valid != (above < 0):
            return True
        if verdict.proven > optimum(points_of(table), k) / len(table) + _ROUNDING:
            return True
    return False


def test_a_twin_without_a_fault_is_right() -> None:
    assert not is_ever_wrong(twin())


@pytest.mark.parametrize("name", FAULTS)
def test_a_twin_that_forgets_something_is_caught(name: str) -> None:
    module = twin(*FAULTS[name])
    if name == "the least price of equal records":
        table = _table(np.random.default_rng(5)).take(np.array([0, 0, 1, 1, 2, 3], np.int32))
        prices = np.array([0.0, 0.5, 0.0, 0.5, 0.0, 0.0])
        assert check(table, 2, grains(prices)).valid
        assert not module.check(table, 2, grains(prices)).valid
        return
    assert is_ever_wrong(module)


@pytest.mark.parametrize("steps", [1, 20])
def test_a_search_that_is_cut_short_proves_no_more(steps: int) -> None:
    module, undecided = twin(steps=steps), 0
    for table, k, prices in cases():
        verdict = module.check(table, k, grains(prices))
        assert verdict.proven <= optimum(points_of(table), k) / len(table) + _ROUNDING
        assert not verdict.valid or check(table, k, grains(prices)).valid
        undecided += verdict.undecided
    assert undecided > 0
