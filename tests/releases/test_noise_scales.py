"""The scale of each kind of noise as it is drawn, against numbers worked out by hand.

No noise is drawn and no example searched for, so any other scale fails at once. Epsilon is 1/3 throughout.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from duckanon.engines import discrete_gaussian, randomness
from duckanon.engines.groups import release
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.request import Request
from duckanon.engines.quantiles import Exponential, PermuteAndFlip
from duckanon.engines.randomness import Entropy
from duckanon.governance.locations import Location
from duckanon.releases.measures import Different, Measure, Number, Quantiles, Records, Sums, Units
from duckanon.releases.paid_questions import AggregatesQuestion, Key

EPSILON = Fraction(1, 3)
NUMBER = Number("x", "0", "1", 12)
KEY = Key("a", "domain_a", "VARCHAR", ("a",))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Fraction]:
    """The scales, or variances, of all noise that is drawn; of a quantile, what it costs for one record."""
    scales: list[Fraction] = []

    def noise(scale: Fraction, shape: Any, _: Any) -> np.ndarray:
        scales.append(scale)
        return np.zeros(shape, dtype=np.int64)

    def chosen(self: PermuteAndFlip | Exponential, *_: Any) -> int:
        scales.append(self.price)
        return 0

    monkeypatch.setattr(randomness, "double_geometric", noise)
    monkeypatch.setattr(discrete_gaussian, "discrete_gaussian", noise)
    monkeypatch.setattr(PermuteAndFlip, "choose", chosen)
    monkeypatch.setattr(Exponential, "choose", chosen)
    return scales


# By hand: with one record a unit, then with five by keys. The second is five times as much, since a unit may move five
# cells by one. Sums count in parts of a record: 12 for the steps of x, and 12 times 12 for its squares.
SCALES: list[tuple[Measure, list[int], list[int]]] = [
    (Records(), [3], [15]),
    (Units(), [3], [15]),
    (Different("y"), [3], [15]),
    (Sums(NUMBER), [36], [180]),
    (Sums(NUMBER, missing=True), [36], [180]),
    (Sums(NUMBER, squares=True), [432], [2160]),
]


def question(contributions: int, keys: tuple[Key, ...], *asked: tuple[Measure, Fraction]) -> AggregatesQuestion:
    return AggregatesQuestion(
        location=Location("memory", "main", "t"),
        version=1,
        edition=1,
        privacy_unit="unit",
        epsilon=EPSILON,
        protects="them",
        contributions=contributions,
        keys=keys,
        measures=asked,
    )


def draw(asked: AggregatesQuestion) -> None:
    for measure, _ in asked.measures:
        totals = np.zeros((9, measure.degree + 1 if isinstance(measure, Sums) else 1), dtype=np.int64)
        measure.noised(totals, asked.noise(measure), Entropy())


@pytest.mark.parametrize(("measure", "of_one", "of_five"), SCALES, ids=repr)
def test_of_a_measure(measure: Measure, of_one: list[int], of_five: list[int], drawn: list[Fraction]) -> None:
    draw(question(1, (), (measure, Fraction(1))))
    assert drawn == of_one
    drawn.clear()
    draw(question(5, (KEY,), (measure, Fraction(1))))
    assert drawn == of_five


def test_of_a_unit_counted_once_in_a_single_cell(drawn: list[Fraction]) -> None:
    draw(question(5, (), (Units(), Fraction(1))))
    assert drawn == [3]


def test_of_quantiles(drawn: list[Fraction]) -> None:
    """Two of each of nine cells, and five records a unit: a record may cost a tenth of epsilon for each quantile."""
    draw(question(5, (KEY,), (Quantiles(NUMBER, ("1/2", "9/10")), Fraction(1))))
    assert drawn == [EPSILON / 10] * 18


def test_of_measures_that_share_epsilon(drawn: list[Fraction]) -> None:
    draw(question(2, (KEY,), (Records(), Fraction(1, 4)), (Sums(NUMBER), Fraction(3, 4))))
    assert drawn == [2 / (EPSILON / 4), 12 * 2 / (EPSILON * 3 / 4)]


# One record moves a group from one size to the next: one cumulative count by one, or two counts of sizes. A group that
# is the unit moves every cumulative count up to its own size, or one count.
SIZES: list[tuple[str, dict[str, Any], list[int]]] = [
    ("topdown", {}, [18, 18, 18]),
    ("h_dp", {}, [18, 18, 18]),
    ("c_dp", {}, [9, 9, 9]),
    ("c_dp", {"totals": "private"}, [9, 9, 9]),
    ("c_dp", {"totals": "private", "contributions": 4}, [36, 36, 36]),
    ("chain", {}, [9, 18, 27]),
    ("auto", {"split": (Fraction(1, 3),) * 3}, [9, 9, 9]),
    ("topdown", {"totals": "private", "unit": "group"}, [9, 9, 9]),
]


@pytest.mark.parametrize(("mechanism", "how", "expected"), SIZES, ids=repr)
def test_of_group_sizes(mechanism: str, how: dict[str, Any], expected: list[int], drawn: list[Fraction]) -> None:
    tree = Hierarchy((np.array([0, 0]), np.array([0, 1, 1])))
    groups = np.arange(36, dtype=np.int64).reshape(3, 12)
    release.release(tree, groups, Request(epsilon=EPSILON, mechanism=mechanism, **how))
    assert drawn == expected


def test_of_the_look_at_the_root_and_the_levels_after_it(drawn: list[Fraction]) -> None:
    """The look takes a fiftieth. Each size's levels then share the rest, in one of the ways of the split."""
    tree = Hierarchy((np.array([0, 0]), np.array([0, 1, 1])))
    groups = np.arange(36, dtype=np.int64).reshape(3, 12)
    ways = release.release(tree, groups, Request(epsilon=EPSILON)).split.ways
    assert drawn[0] == 150
    assert all(sum(way) == EPSILON * Fraction(49, 50) for way in ways)
    ways_drawn = (len(drawn) - 1) // 3
    for level in range(3):
        own = drawn[1 + level * ways_drawn :][:ways_drawn]
        assert own
        assert set(own) <= {1 / way[level] for way in ways}
