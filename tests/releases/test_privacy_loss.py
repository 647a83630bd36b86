"""The privacy loss of noisy aggregates, computed from the probabilities of the noise over all neighbours of small
tables: at most what is charged, and more than that for noise that is narrower by a tenth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import ceil
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from duckanon.accounting import written
from duckanon.engines.marginals.planner import plan
from duckanon.engines.marginals.workload import Workload
from duckanon.engines.noise import Gaussian, Laplace, Noise
from duckanon.engines.noise_tails import least_width
from duckanon.engines.quantiles import Exponential, PermuteAndFlip
from duckanon.governance.noise_prices import Moved, bought, spent
from duckanon.releases.measures import Different, Measure, Number, Quantiles, Records, Sums, Units, shared
from duckanon.releases.paid_questions import AggregatesQuestion, KeysQuestion
from duckanon.renyi import Renyi, renyi
from tests.releases.test_aggregates import KEY, Case, question

KNOWN = renyi(Fraction(4), Fraction(1, 10**9))
NUMBER = Number("x", "-2", "1/2", 12)
MEASURES: list[Measure] = [
    Records(),
    Units(),
    Different("y"),
    Sums(NUMBER),
    Sums(NUMBER, squares=True),
    Sums(NUMBER, missing=True),
    Sums(NUMBER, squares=True, missing=True),
]
# What one record of a unit can be: in two cells, at both bounds, between them and without a value.
RECORDS = [(a, x, y) for a, x, y in [("p", -2.0, 1), ("p", 4.0, 2), ("p", 1.0, 3), ("p", None, 1), ("q", -2.0, 1),
                                     ("q", 4.0, 2), ("q", 1.5, 1)]]  # fmt: skip


def asked(
    measures: list[Measure],
    price: Fraction,
    contributions: int = 2,
    *,
    keyed: bool = True,
    renyi: Renyi | None = KNOWN,
) -> AggregatesQuestion:
    return replace(
        question(contributions=contributions, keys=(KEY,) if keyed else ()),
        epsilon=price,
        renyi=renyi,
        measures=shared(measures, contributions, is_alone=not keyed, renyi=renyi),
    )


def changes(of: AggregatesQuestion) -> set[tuple[tuple[int, ...], ...]]:
    """How one unit of up to so many records as count changes the totals of each measure, over all its records."""
    others: list[dict[str, Any]] = [{"unit": 2, "a": "p", "x": 0.0, "y": 3}]
    before = Case(of, others).totals()
    found = set()
    for many in range(1, of.contributions + 1):
        for own in combinations_with_replacement(RECORDS, many):
            mine = [{"unit": 1, "a": a, "x": x, "y": y} for a, x, y in own]
            after = Case(of, [*others, *mine]).totals()
            both = zip(after, before, strict=True)
            found.add(tuple(tuple(int(each) for each in (one - other).reshape(-1)) for one, other in both))
    return found


def divergence(noise: Noise, moved: int, order: float) -> float:
    """Rényi's, of noise from the same noise moved by a whole number."""
    reach = noise.reach(1) + 2 * abs(moved)
    with np.errstate(divide="ignore"):
        if isinstance(noise, Gaussian):
            v = np.arange(-reach - abs(moved), reach + abs(moved) + 1, dtype=np.float64)
            logs = -(v**2) / (2 * float(noise.variance))
        else:
            assert isinstance(noise, Laplace)
            v = np.arange(-reach - abs(moved), reach + abs(moved) + 1, dtype=np.float64)
            logs = -np.abs(v) / float(noise.scale)
    logs -= logsumexp(logs)
    there = np.roll(logs, moved)
    inside = slice(abs(moved), len(v) - abs(moved))
    return float(logsumexp(order * logs[inside] + (1 - order) * there[inside]) / (order - 1))


def largest_ratio(noise: Noise, moved: int) -> float:
    """The largest logarithm of how many times likelier a value of the noise is than of the same noise moved."""
    assert isinstance(noise, Laplace)
    v = np.arange(-3 * abs(moved), 3 * abs(moved) + 1, dtype=np.float64)
    logs = -np.abs(v) / float(noise.scale)
    return float(np.abs(logs - -np.abs(v - moved) / float(noise.scale)).max())


def narrower(noise: Noise, part: Fraction) -> Noise:
    """Noise with that part of the scale, or of the standard deviation."""
    if isinstance(noise, Laplace):
        return Laplace(noise.scale * part)
    assert isinstance(noise, Gaussian)
    return Gaussian(noise.variance * part**2)


def losses(of: AggregatesQuestion, part: Fraction = Fraction(1)) -> float:
    """The largest loss, with noise of that part of its standard deviation: an epsilon, or a divergence with a delta."""
    noises = []
    for measure, _ in of.measures:
        noise = of.noise(measure)
        assert isinstance(noise, Noise)
        noises.append(narrower(noise.times(measure.whole), part))

    @cache
    def one(noise: Noise, moved: int) -> float:
        return largest_ratio(noise, moved) if of.renyi is None else divergence(noise, moved, float(of.renyi.order))

    return max(
        sum(one(noise, abs(each)) for noise, own in zip(noises, change, strict=True) for each in own)
        for change in changes(of)
    )


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
@pytest.mark.parametrize("keyed", [True, False])
def test_a_question_loses_at_most_what_it_costs(measure: Measure, keyed: bool) -> None:
    price = Fraction(1, 20)
    of = asked([measure], price, keyed=keyed)
    assert isinstance(of.noise(measure), Gaussian)
    assert of.loss == price
    assert losses(of) <= float(price) * (1 + 1e-9)
    # A tenth less noise is a fifth more loss.
    assert losses(of, Fraction(9, 10)) > float(price) * 1.1


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
@pytest.mark.parametrize("keyed", [True, False])
def test_a_question_without_a_delta_loses_at_most_its_epsilon(measure: Measure, keyed: bool) -> None:
    epsilon = Fraction(1, 20)
    of = asked([measure], epsilon, keyed=keyed, renyi=None)
    assert isinstance(of.noise(measure), Laplace)
    assert of.loss == epsilon
    assert losses(of) == pytest.approx(float(epsilon), rel=1e-9)
    assert losses(of, Fraction(9, 10)) > float(epsilon) * 1.1


def test_several_measures_without_a_delta_lose_together_what_they_cost() -> None:
    of = asked([Records(), Sums(NUMBER), Units()], Fraction(1, 10), renyi=None)
    assert losses(of) <= 0.1 * (1 + 1e-9)
    assert losses(of, Fraction(9, 10)) > 0.1


def test_several_measures_lose_together_what_they_cost() -> None:
    price = Fraction(1, 10)
    of = asked([Records(), Sums(NUMBER), Units()], price)
    assert of.loss == price
    assert losses(of) <= float(price) * (1 + 1e-9)
    assert losses(of, Fraction(9, 10)) > float(price)


def test_a_part_of_a_price_is_in_proportion_to_the_sensitivity() -> None:
    """Two records of a unit: counts move by 2, units by the root of 2."""
    (_, first), (_, second) = asked([Records(), Units()], Fraction(1, 10)).measures
    assert float(first / second) == pytest.approx(2**0.5, rel=2e-3)
    # No other share of it has a smaller sum of variances.
    of = [one.noise(each) for one in (asked([Records(), Units()], Fraction(1, 10)),) for each in (Records(), Units())]
    least = sum(one.variance for one in of)  # type: ignore[union-attr]
    for share in (Fraction(1, 2), Fraction(2, 3), Fraction(9, 20)):
        other = replace(asked([Records(), Units()], Fraction(1, 10)),
                        measures=((Records(), share), (Units(), 1 - share)))  # fmt: skip
        assert sum(other.noise(each).variance for each in (Records(), Units())) > least  # type: ignore[union-attr]


@pytest.mark.parametrize("price", ["0.001", "0.05", "0.3", "1", "2"])
@pytest.mark.parametrize("moved", [Moved(1, 1), Moved(5, 25), Moved(5, 5)])
def test_the_noise_that_is_nearer_to_the_truth_is_bought(price: str, moved: Moved) -> None:
    """Both kinds cost no more than the price, and the other one has no smaller width."""
    noise = bought(Fraction(price), moved, KNOWN)
    gaussian = Gaussian(moved.squares / (2 * KNOWN.rho(Fraction(price))))
    laplace = Laplace(moved.distance / KNOWN.pure(Fraction(price)))
    assert noise in (gaussian, laplace)
    assert least_width(noise, 1) == min(least_width(gaussian, 1), least_width(laplace, 1))
    for one in (gaussian, laplace):
        assert 0 <= Fraction(price) - spent(one, moved, KNOWN).price <= Fraction(1, 10**9)
    assert bought(Fraction(price), moved, None) == Laplace(moved.distance / Fraction(price))


def test_both_kinds_are_bought() -> None:
    """At a large price noise is pure, at a small one Gaussian: where that changes follows from the widths."""
    assert isinstance(bought(Fraction(2), Moved(30, 900), KNOWN), Laplace)
    assert isinstance(bought(Fraction(1, 100), Moved(30, 900), KNOWN), Gaussian)


@pytest.mark.parametrize("change", [1, 2, 7])
def test_pure_noise_loses_at_most_what_it_costs(change: int) -> None:
    """Of the order, over prices on both sides of where the epsilon itself is the cost."""
    for epsilon in (Fraction(1, 20), Fraction(1, 6), Fraction(1, 2), Fraction(2)):
        noise = Laplace(change / epsilon)
        most = float(KNOWN.of_pure(epsilon))
        assert divergence(noise, change, float(KNOWN.order)) <= most * (1 + 1e-9)
    assert divergence(Laplace(change / Fraction(4)), change, float(KNOWN.order)) > float(KNOWN.of_pure(Fraction(2)))


# --- keys, and what is prepared ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("contributions", [1, 2, 5])
def test_keys_that_are_found_lose_at_most_what_they_cost(contributions: int) -> None:
    """A unit has as many values as count: some that others have too, whose numbers lose, and some alone.

    The loss of the former is their numbers' divergence, that of the latter the probability that one is told.
    """
    of = sought_keys(contributions)
    assert of.loss <= of.epsilon
    order, delta = float(KNOWN.order), float(KNOWN.of_keys)
    shared_values = [many * divergence(of.noise, 1, order) for many in range(contributions + 1)]
    assert max(shared_values) <= float(of.loss) * (1 + 1e-9)
    assert contributions * divergence(narrower(of.noise, Fraction(9, 10)), 1, order) > float(of.loss) * 1.1
    # Noise that is wider by a ninth than what the threshold is for tells a value of one unit too often.
    assert told_alone(of.noise, of.threshold, contributions) <= delta
    assert told_alone(narrower(of.noise, Fraction(10, 9)), of.threshold, contributions) > delta


@pytest.mark.parametrize("contributions", [1, 2])
def test_what_is_found_keeps_epsilon_and_delta(contributions: int) -> None:
    """Over all sets of values that can be told, of all pairs of small tables: with one unit more, both ways.

    The bound is that of the page: the conversion of the price at the order, and the part of delta of one question.
    """
    of = sought_keys(contributions)
    least, epsilon = of.threshold, 3 * float(of.loss)
    order = float(KNOWN.order)
    conversion = np.exp((order - 1) * (float(of.loss) - epsilon)) * (1 - 1 / order) ** order / (order - 1)
    worst = 0.0
    for before in product((0, 1, least // 2, least, 2 * least), repeat=2):
        for own in product((0, 1), repeat=2):
            if not 0 < sum(own) <= contributions:
                continue
            after = [one + mine for one, mine in zip(before, own, strict=True)]
            one, other = sets_told(of.noise, least, before), sets_told(of.noise, least, after)
            for mine, theirs in ((one, other), (other, one)):
                lost = float(np.maximum(mine - np.exp(epsilon) * theirs, 0).sum())
                assert lost <= conversion + float(KNOWN.of_keys) * (1 + 1e-9)
                worst = max(worst, lost)
    # What one unit has alone is told about as often as is allowed, and no less: Chernoff's bound is not far off.
    assert worst > float(KNOWN.of_keys) / 20


def sought_keys(contributions: int) -> KeysQuestion:
    alike = question(contributions=contributions, keys=())
    shared = ("location", "version", "edition", "privacy_unit", "protects", "filter")
    basis = {name: getattr(alike, name) for name in shared}
    return KeysQuestion(
        **basis, contributions=contributions, epsilon=Fraction(1, 20), renyi=KNOWN, column="a", type="VARCHAR"
    )


def passes(noise: Noise, least: int, units: int) -> float:
    """The probability that a value of so many units has a noisy number of `least` or more."""
    assert isinstance(noise, Gaussian)
    reach = ceil(12 * noise.deviation(1)) + abs(least) + units
    v = np.arange(-reach, reach + 1, dtype=np.float64)
    logs = -(v**2) / (2 * float(noise.variance))
    return float(np.exp(logsumexp(logs[v + units >= least]) - logsumexp(logs)))


def told_alone(noise: Noise, least: int, values: int) -> float:
    return float(-np.expm1(values * np.log1p(-passes(noise, least, 1))))


def sets_told(noise: Noise, least: int, units: Sequence[int]) -> np.ndarray:
    """The probability of each set of values that may be told; a value that no unit has is never there."""
    found = np.ones(1)
    for one in units:
        chance = passes(noise, least, one) if one else 0.0
        found = np.concatenate([found * (1 - chance), found * chance])
    return found


@pytest.mark.parametrize("of_unit", [1, 3])
def test_marginals_lose_at_most_what_is_charged(of_unit: int) -> None:
    """The divergence of all noisy numbers together, by enumeration, for units of equal and of different records."""
    made = plan(Workload((2, 3), ((0,), (0, 1)), (Fraction(1), Fraction(1))), Fraction(1, 40))
    noises = {table: Gaussian(made.noise(table, of_unit)) for table in made.measured}
    order = float(KNOWN.order)
    price = float(KNOWN.of_rho(made.rho))

    def lost(records: Sequence[tuple[int, ...]], part: Fraction) -> float:
        total = 0.0
        for table, noise in noises.items():
            moved = Counter(tuple(one[at] for at in table) for one in records)
            total += sum(divergence(narrower(noise, part), many, order) for many in moved.values())
        return total

    units = list(combinations_with_replacement(list(product(range(2), range(3))), of_unit))
    most = max(lost(one, Fraction(1)) for one in units)
    assert price * (1 - 1e-7) < most <= price * (1 + 1e-9)
    assert max(lost(one, Fraction(9, 10)) for one in units) > price * 1.1


# --- quantiles and words ----------------------------------------------------------------------------------------------


def test_quantiles_are_chosen_by_the_mechanism_that_is_better_at_the_price() -> None:
    measure = Quantiles(NUMBER, ("1/2", "9/10"))
    dear, cheap = asked([measure], Fraction(2)), asked([measure], Fraction(1, 50))
    assert isinstance(dear.noise(measure), PermuteAndFlip)
    chosen = cheap.noise(measure)
    assert isinstance(chosen, Exponential)
    # Two quantiles, each of rho (2 records' range)^2 / 8.
    assert float(KNOWN.of_rho(2 * (2 * chosen.price) ** 2 / 8)) == pytest.approx(0.02, rel=1e-6)
    assert cheap.loss <= Fraction(1, 50)
    assert dear.loss <= 2


def test_a_question_says_what_noise_it_pays_for() -> None:
    assert asked([Records()], Fraction(1, 50)).noise_words == f"gaussian, rho {Fraction(1, 50) / KNOWN.order}"
    dear = asked([Quantiles(NUMBER, ("1/2",))], Fraction(2))
    assert dear.noise_words == f"pure, epsilon {written(KNOWN.pure(Fraction(2)))}"
    assert KNOWN.pure(Fraction(2)) > 2
    assert question(contributions=1).noise_words == ""


def test_another_charge_than_that_of_the_noise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a question is built: noise for half the squares would cost twice the price."""
    of = asked([Records()], Fraction(1, 50))
    narrow = Gaussian(Fraction(of.noise(Records()).variance, 2))  # type: ignore[union-attr]
    monkeypatch.setattr(Records, "bought", lambda *_: narrow)
    with pytest.raises(AssertionError, match="not what its noise costs"):
        replace(of, edition=2)


def test_the_key_of_a_question_knows_the_order() -> None:
    of = asked([Records()], Fraction(1, 50))
    assert of.key != replace(of, renyi=renyi(Fraction(5), Fraction(1, 10**9))).key
    assert "renyi" not in question(contributions=1).resolved
