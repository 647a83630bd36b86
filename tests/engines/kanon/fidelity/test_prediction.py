"""Predictions from a table and from its release."""

import numpy as np
import pytest

from duckanon.engines.kanon.fidelity.cells import Categories, Cells, Numbers
from duckanon.engines.kanon.fidelity.measures import Compared
from duckanon.engines.kanon.fidelity.prediction import _Examples, predictions
from duckanon.errors import InvalidInput
from tests.extras import needs

needs("utility")


def numbers(values: np.ndarray) -> Numbers:
    found = values.astype(np.float64)
    return Numbers.of(found, found, whole=True)


def compared(before: list, after: list, weights: np.ndarray) -> Compared:
    tables = [Cells(one, weights.astype(np.float64)).canonical() for one in (before, after)]
    names = [f"c{i}" for i in range(len(before))]
    return Compared(tables[0], tables[1], names, [str] * len(names))


def test_the_folds_deal_out_every_record_once() -> None:
    whole = np.array([1.0, 2, 5, 7, 23])
    shares = np.array([1.0, 0.5, 1, 0.25, 1])
    examples = _Examples(np.arange(5.0)[:, None], np.arange(5), whole * shares, whole)
    judged = np.zeros(5)
    for learned, test in examples.folds(np.random.default_rng(1)):
        here = np.zeros(5)
        here[test.labels] = test.weights
        left = np.zeros(5)
        left[learned.labels] = learned.weights
        assert here + left == pytest.approx(whole * shares)
        assert (here / shares % 1 < 1e-9).all()
        judged += here
    assert judged == pytest.approx(whole * shares)


def test_rows_that_agree_may_be_one_row() -> None:
    """A row of weight three is judged as three records: how well is learned hardly depends on it."""
    rng = np.random.default_rng(2)
    values = rng.integers(0, 20, 400)
    codes = np.where(rng.random(400) < 0.9, values > 9, values <= 9).astype(np.int64)
    single = Categories.single(codes, ["no", "yes"])
    one = list(predictions(compared([numbers(values), single], [numbers(values), single], np.ones(400)), 1))
    pairs, count = np.unique(values * 2 + codes, return_counts=True)
    few = [numbers(pairs // 2), Categories.single(pairs % 2, ["no", "yes"])]
    other = list(predictions(compared(few, few, count), 1))
    for first, second in zip(one, other, strict=True):
        assert first.before == pytest.approx(second.before, abs=0.02)
        assert first.before == pytest.approx(first.after, abs=0.02)
    assert one[1].before == pytest.approx(0.9, abs=0.04)


def test_what_the_release_blurs_is_predicted_worse() -> None:
    values = np.arange(400) % 40
    target = numbers(values * 3 + 5)
    blurred = Numbers.of((values // 20 * 20).astype(float), (values // 20 * 20 + 19).astype(float), whole=True)
    gone = Numbers.of(np.zeros(400), np.full(400, 39.0), whole=True)
    (exact,) = predictions(compared([numbers(values), target], [numbers(values), target], np.ones(400)), 1)
    (half,) = predictions(compared([numbers(values), target], [blurred, target], np.ones(400)), 1)
    (nothing,) = predictions(compared([numbers(values), target], [gone, target], np.ones(400)), 1)
    assert exact.before == exact.after == pytest.approx(1, abs=1e-3)
    assert half.after is not None
    assert 0.5 < half.after < 1
    assert nothing.after == pytest.approx(0, abs=0.05)


def test_a_target_of_sets_and_missing_values() -> None:
    codes = np.arange(60) % 3
    table = [numbers(codes), Categories.single(np.where(codes == 2, -1, codes), ["a", "b"])]
    ends = np.append(0, np.cumsum(np.where(codes == 2, 0, 2)))
    sets = [numbers(codes), Categories.of(np.tile([0, 1], 40), ends, ["a", "b"])]
    common, logistic = predictions(compared(table, sets, np.ones(60)), 1)
    assert (common.measure, logistic.before) == ("accuracy", 1.0)
    assert logistic.after is not None
    assert logistic.after < 1


def test_a_target_with_one_value() -> None:
    one = [numbers(np.arange(9)), Categories.single(np.zeros(9, np.int64), ["a"])]
    with pytest.raises(InvalidInput, match=r"^The target needs two values or more"):
        list(predictions(compared(one, one, np.ones(9)), 1))
