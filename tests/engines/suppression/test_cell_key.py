"""Perturbation tables and cell keys: what a ptable must be, what it does, and that tables agree with each other."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression.cell_key import KEYS, PTable, cell_keys, maximum_entropy
from duckanon.errors import InvalidInput
from tests.amounts import many


@settings(max_examples=many(150))
@given(st.integers(1, 8), st.floats(0.05, 1.0), st.data())
def test_maximum_entropy(most: int, share: float, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(0, most))
    variance = share * most
    table = maximum_entropy(most, variance, threshold)
    changes = np.arange(-most, most + 1)
    assert (table.weights >= 0).all()
    assert (table.weights.sum(axis=1) == KEYS).all()
    assert not (table.weights @ changes).any()
    results = np.arange(len(table.weights))[:, None] + changes
    forbidden = (results < 0) | ((results > 0) & (results <= threshold))
    assert not table.weights[1:][forbidden[1:]].any()
    assert table.weights[0, most] == KEYS
    assert table.variances[-1] == pytest.approx(variance, abs=1e-6)


def test_entropy_is_the_largest() -> None:
    """No neighbour with the same mean and variance has a larger entropy."""
    p = maximum_entropy(3, 2.0).weights[-1] / KEYS
    changes = np.arange(-3, 4)
    keeping = np.linalg.svd(np.array([changes**0, changes, changes**2]))[2][3:]
    entropy = -(p * np.log(p)).sum()
    for direction in keeping:
        for sign in (1e-3, -1e-3):
            other = p + sign * direction
            assert -(other * np.log(other)).sum() < entropy


def test_small_counts_take_the_nearest_variance() -> None:
    """A count of 1 that may only become 0 or 3 has a variance of 2, whatever is asked for."""
    table = maximum_entropy(2, 0.5, threshold=2)
    assert table.variances[1] == pytest.approx(2.0)
    assert (table.weights[1] == np.array([0, KEYS * 2 // 3, 0, 0, KEYS // 3])).all()


@pytest.mark.parametrize(("most", "variance"), [(16, 20.0), (24, 60.0), (40, 300.0)])
def test_large_changes_of_small_counts(most: int, variance: float) -> None:
    """A count of 1 takes -1 and +16 then: seventeenths of the keys are no whole numbers."""
    table = maximum_entropy(most, variance)
    assert not (table.weights @ np.arange(-most, most + 1)).any()
    assert table.variances[1] == pytest.approx(most, rel=1e-6)


def test_every_key_is_used_as_often_as_its_probability_says() -> None:
    table = maximum_entropy(2, 1.0)
    keys = np.concatenate([np.cumsum(row)[:-1] - 1 for row in table.weights])
    keys = np.unique(np.concatenate([keys, keys + 1, [0, KEYS - 1]]))
    keys = keys[(keys >= 0) & (keys < KEYS)]
    for count in range(6):
        published = table.changed(np.full(len(keys), count), keys)
        row = table.weights[min(count, len(table.weights) - 1)]
        for key, change in zip(keys.tolist(), (published - count).tolist(), strict=True):
            before = row[: change + 2].sum()
            assert before <= key < before + row[change + 2]


@settings(max_examples=many(50))
@given(st.integers(0, 2**32 - 1))
def test_the_same_cell_in_two_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = 60
    keys = rng.integers(0, KEYS, records)
    place, sex = rng.integers(0, 3, records), rng.integers(0, 2, records)
    one = cell_keys(keys, place * 2 + sex, 6)
    order = rng.permutation(records)
    other = cell_keys(keys[order], (sex * 3 + place)[order], 6)
    assert (one.reshape(3, 2) == other.reshape(2, 3).T).all()
    assert (cell_keys(keys, place, 3) == one.reshape(3, 2).sum(axis=1) % KEYS).all()


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([[0, 1, 0]], "row for each count"),
        ([[0, 1], [0, 1]], "row for each count"),
        ([[0, 1, 0], [0.5, 0.2, 0.5]], "add up to 1"),
        ([[0, 1, 0], [-0.1, 1.2, -0.1]], "add up to 1"),
        ([[0.5, 0, 0.5], [0, 1, 0]], "negative results"),
        ([[0, 0, 1], [0, 1, 0]], "empty cells"),
        ([[0, 1, 0], [0.2, 0.4, 0.4]], "unbiased"),
        ([[0, 0, 1, 0, 0], [0, 0, 1, 0, 0]], "larger counts"),
    ],
)
def test_no_ptable(probabilities: list[list[float]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        PTable.of(probabilities)


@pytest.mark.parametrize("arguments", [(0, 1.0), (2, 0.0), (2, 5.0), (2, 1.0, 3), (2, 1.0, -1)])
def test_no_such_maximum_entropy(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput):
        maximum_entropy(*arguments)


def test_keys_out_of_range() -> None:
    with pytest.raises(InvalidInput, match="Record keys"):
        cell_keys(np.array([KEYS]), np.array([0]), 1)
    with pytest.raises(InvalidInput, match="Each record"):
        cell_keys(np.array([0.5]), np.array([0]), 1)
    with pytest.raises(InvalidInput, match="cell key"):
        maximum_entropy(2, 1.0).perturbed(np.array([1]), np.array([-1]))
