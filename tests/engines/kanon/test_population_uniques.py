"""Expected population uniques: against sampling from populations whose truth is known."""

from itertools import pairwise
from math import log

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.population_uniques import Pitman, fit, population_uniques

Ints = npt.NDArray[np.int64]


def classes_of(labels: npt.NDArray) -> tuple[Ints, Ints]:
    """Sizes of the classes, and how many there are of each."""
    _, count = np.unique(labels, return_counts=True)
    return np.unique(count, return_counts=True)


def truth(labels: npt.NDArray, sampled: npt.NDArray[np.bool_]) -> int:
    """How many sampled records are alone in the population."""
    _, where, count = np.unique(labels, return_inverse=True, return_counts=True)
    return int((count[where] == 1)[sampled].sum())


def crowd(n: int, discount: float, strength: float, seed: int) -> Ints:
    """Labels of n records drawn one after the other by Pitman's model, in random order."""
    rng = np.random.default_rng(seed)
    labels, sizes = [0], [1]
    for i in range(1, n):
        if rng.random() * (i + strength) < strength + len(sizes) * discount:
            labels.append(len(sizes))
            sizes.append(1)
            continue
        # A record's class is chosen by its size, and refused so that the discount is taken off.
        while True:
            found = labels[rng.integers(i)]
            if rng.random() * sizes[found] < sizes[found] - discount:
                break
        labels.append(found)
        sizes[found] += 1
    return rng.permutation(np.array(labels))


@pytest.mark.parametrize(("discount", "strength"), [(0.0, 800.0), (0.3, 200.0), (0.7, 50.0)])
@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_populations_of_the_model(discount: float, strength: float, fraction: float) -> None:
    people = crowd(20_000, discount, strength, 5)
    sampled = np.random.default_rng(6).random(len(people)) < fraction
    sizes, times = classes_of(people[sampled])
    found = population_uniques(sizes, times, len(people))
    wanted = truth(people, sampled)
    # Beside the model's own variance there is that of the fit.
    assert found == pytest.approx(wanted, abs=3.5 * wanted**0.5 + 0.08 * wanted)
    model = fit(sizes, times)
    assert model.discount == pytest.approx(discount, abs=0.12)


# How far the expectation may be from the truth for populations that the model does not describe: columns that are
# independent of each other, each with its own distribution.
COLUMNS = {
    "even": (lambda rng, width, n: rng.integers(0, width, n)),
    "geometric": (lambda rng, width, n: np.minimum(rng.geometric(min(0.6, 3 / width), n) - 1, width - 1)),
    "zipf": (lambda rng, width, n: np.minimum(rng.zipf(1.8, n) - 1, width - 1)),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(("fraction", "factor"), [(0.02, 2.0), (0.1, 1.6), (0.3, 1.3)])
def test_other_populations(kind: str, fraction: float, factor: float) -> None:
    rng, n = np.random.default_rng(7), 60_000
    rows = np.stack([COLUMNS[kind](rng, width, n) for width in (100, 2, 40, 12, 6)], axis=1)
    people = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    sampled = rng.random(n) < fraction
    sizes, times = classes_of(people[sampled])
    wanted = truth(people, sampled)
    found = population_uniques(sizes, times, n)
    assert wanted / factor <= found <= wanted * factor
    # To multiply the singletons by the fraction, as the negative binomial model does, is too low throughout.
    assert int(times[sizes == 1].sum()) * fraction < wanted / 1.5


@given(
    st.integers(1, 40), st.integers(0, 60), st.floats(0, 0.99), st.floats(0.1, 50),
)  # fmt: skip
def test_the_chance_to_stay_alone(n: int, more: int, discount: float, strength: float) -> None:
    """Each further person joins the class with its chance by the model."""
    chance = 1.0
    for already in range(n, n + more):
        chance *= 1 - (1 - discount) / (already + strength)
    assert Pitman(discount, strength).stays_alone(n, n + more) == pytest.approx(chance, rel=1e-9)


def likelihood(sizes: list[int], discount: float, strength: float) -> float:
    """Log of the probability that records come one after the other in these classes."""
    found, n = 0.0, 0
    for classes, size in enumerate(sizes):
        for held in range(size):
            if n:
                weight = held - discount if held else strength + classes * discount
                found += log(weight / (n + strength))
            n += 1
    return found


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12).filter(lambda sizes: max(sizes) > 1))
def test_the_fit_is_the_most_likely_model(sizes: list[int]) -> None:
    counted = np.unique(np.array(sizes), return_counts=True)
    best = fit(*counted)
    found = likelihood(sizes, best.discount, best.strength)
    for discount in np.linspace(1e-6, 0.999, 13):
        for strength in np.exp(np.linspace(log(1e-3), log(1e3 * sum(sizes)), 25)) - discount:
            assert likelihood(sizes, float(discount), float(strength)) <= found + 1e-3


def test_where_nothing_can_be_expected() -> None:
    assert population_uniques(np.array([2, 3]), np.array([5, 1]), 1000) == 0
    # All records are alone: so may be everybody.
    assert population_uniques(np.array([1]), np.array([30]), 1000) == 30
    # The table is the population.
    assert population_uniques(np.array([1, 2]), np.array([7, 4]), 15) == 7


def test_it_falls_with_the_population() -> None:
    sizes, times = np.array([1, 2, 3, 7]), np.array([40, 12, 5, 2])
    found = [population_uniques(sizes, times, people) for people in (93, 100, 200, 1000, 10**6, 10**9)]
    assert found[0] == 40
    assert all(more >= less > 0 for more, less in pairwise(found))
