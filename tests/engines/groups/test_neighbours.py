"""On neighbouring data no event of a release is more than e^epsilon times as likely, for every mechanism.

Counted, on a pair that is far apart; and from the noise's scale, exactly, for all neighbours of small tables. Both have
teeth: they reject `chain` with the noise that the paper prints, and noise for one record where a unit has several.
"""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_
from hypothesis import settings
from hypothesis import strategies as st

from duckanon.engines.groups import methods
from duckanon.engines.groups import release as module
from duckanon.engines.groups.loss import Pure
from duckanon.engines.groups.measurements import Measurements
from duckanon.engines.groups.methods import METHODS
from duckanon.engines.groups.queries import CHAIN, HISTOGRAM, Query
from duckanon.engines.groups.release import Plan, plan, release
from duckanon.engines.groups.request import Request, Totals
from duckanon.engines.groups.split import Split
from duckanon.engines.noise import Noise
from duckanon.errors import DuckanonError
from tests.amounts import LONG, sampled
from tests.engines.groups.plain import TREES, of_units, privacy_loss, scale_of
from tests.engines.seeded import Seeded

_SEARCH = "a statistical search over releases; the other tests here compare all neighbours exactly"
EPSILON = Fraction(1)
# Most of it goes to the level of eight regions, where a chain that is wrongly calibrated leaks most.
SPLIT = (Fraction(1, 20), Fraction(1, 20), Fraction(9, 10))
PLANS = [(name, "public") for name in METHODS] + [(name, "private") for name, m in METHODS.items() if m.private]
# How often a slow one releases; the others do 300 times.
SLOW = {"h_exact": 10, "c_exact": 10, "h_relaxed": 40, "c_relaxed": 40}


def pair(totals: Totals) -> tuple[np.ndarray, np.ndarray]:
    """In the last of eight regions a person joins a group of one, or (private) founds one."""
    before = np.full((8, 2), [3, 1], dtype=np.int64)
    after = before.copy()
    after[7] += [-1, 1] if totals == "public" else [1, 0]
    return before, after


def seen(name: str, totals: Totals, groups: np.ndarray, runs: int, seed: int, **given: Any) -> np.ndarray:
    """What may tell the two apart, a column each: all numbers of the release, and its sums from either end."""
    source = Seeded(seed)
    request = Request(epsilon=EPSILON, mechanism=name, totals=totals, split=SPLIT, **given)
    rows = []
    for _ in range(runs):
        found = release(TREES["eight"], groups, request, source)
        leaves = found.levels[-1].groups
        running = np.cumsum(leaves.T.reshape(-1))
        rows.append(
            np.concatenate(
                [*(level.groups.reshape(-1) for level in found.levels), running, [running.sum(), running[7:].sum()]]
            )
        )
    return np.array(rows)


def loss(first: np.ndarray, second: np.ndarray) -> float:
    """The largest log-ratio over events {a column is at least, or at most, a threshold}, less 4 standard errors."""
    runs, worst = len(first), -np.inf
    for a, b in zip(first.T, second.T, strict=True):
        for threshold in np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0.02, 0.98, 25))):
            for hits in ((a >= threshold, b >= threshold), (a <= threshold, b <= threshold)):
                # Half a hit more keeps the ratio finite, and small counts harmless.
                more, less = sorted((float(hit.sum()) + 0.5 for hit in hits), reverse=True)
                error = np.sqrt(1 / more + 1 / less - 2 / (runs + 1))
                worst = max(worst, np.log(more / less) - 4 * error)
    return float(worst)


@pytest.mark.long(_SEARCH)
@pytest.mark.parametrize(("name", "totals"), PLANS)
def test_no_event_tells_neighbours_apart(name: str, totals: Totals) -> None:
    runs = SLOW.get(name, 300) * (40 if LONG else 1)
    before, after = pair(totals)
    assert loss(seen(name, totals, before, runs, 1), seen(name, totals, after, runs, 2)) <= EPSILON


UNITS: list[dict[str, Any]] = [
    {"unit": unit, "contributions": contributions} for unit in ("record", "group") for contributions in (1, 2, 3)
]


def worst(plan: Plan, step: int, contributions: int, unit: str) -> Fraction:
    """The largest log-ratio of an outcome between the plan's table and any of its neighbours, exactly."""
    tree, before = plan.hierarchy, plan.hierarchy.levels(plan.groups)
    others = of_units(plan.groups, step, contributions, unit)
    return max(privacy_loss(plan, before, tree.levels(other)) for other in others)


@pytest.mark.parametrize("name", [name for name, mechanism in METHODS.items() if mechanism.private])
@pytest.mark.parametrize("given", UNITS)
@pytest.mark.parametrize("tree", ["root", "two", "deep"])
def test_all_neighbours_of_a_small_table(tree: str, given: dict[str, Any], name: str) -> None:
    """Every table that one unit makes of this one is epsilon away at most, and one of them is just that."""
    for step in (1, 2):
        if step == 2 and given == UNITS[2]:
            continue
        groups = np.full((TREES[tree].sizes[-1], 4), 3)
        planned = plan(
            TREES[tree], groups, Request(epsilon=EPSILON, mechanism=name, totals="private", sensitivity=step, **given)
        )
        assert worst(planned, step, **given) == EPSILON


@pytest.mark.parametrize("given", UNITS[1:3] + UNITS[4:])
def test_noise_for_one_record_is_rejected(given: dict[str, Any]) -> None:
    """Were the noise that of one record, or of a group of one: the same test says so."""
    groups = np.full((3, 4), 3)
    thin = plan(TREES["deep"], groups, Request(epsilon=EPSILON, mechanism="c_dp", totals="private"))
    assert worst(thin, 1, **given) == given["contributions"] * EPSILON
    # A whole group is one entry of n_s: half of what a record's noise on n_s allows for.
    thin = plan(TREES["deep"], groups, Request(epsilon=EPSILON, mechanism="h_dp", totals="private"))
    expected = given["contributions"] if given["unit"] == "record" else Fraction(1, 2)
    assert worst(thin, 1, **given) == expected * EPSILON


# --- a split by size --------------------------------------------------------------------------------------------------

WIDE = 9


def by_size(tree: str, epsilon: Fraction = EPSILON, **given: Any) -> Plan:
    """Regions with as many sizes as a look needs; most have groups, and of the larger sizes none has."""
    groups = np.full((TREES[tree].sizes[-1], WIDE), 3)
    groups[:, 4:] = [1, 0, 0, 0, 0]
    return plan(TREES[tree], groups, Request(epsilon=epsilon, **given))


class Recorded:
    """Stands in for the noise: records each draw's scale and number. The look has an outcome, whatever the table."""

    def __init__(self, planned: Plan, outcome: np.ndarray) -> None:
        self.look = outcome - planned.query.of(planned.hierarchy.levels(planned.groups)[0])
        self.draws: list[tuple[Fraction, tuple[int, ...]]] = []

    def __call__(self, noise: Noise, exact: np.ndarray, _: object) -> np.ndarray:
        self.draws.append((scale_of(noise), exact.shape))
        return self.look if len(self.draws) == 1 else np.zeros_like(exact)


def measured(planned: Plan, outcome: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> tuple[Recorded, Measurements]:
    """What is measured if that is the look's outcome."""
    noise = Recorded(planned, outcome)
    monkeypatch.setattr(module, "_drawn", noise)
    tree = planned.hierarchy
    return noise, planned._measured(tree, tree.levels(planned.groups), Seeded(0))


def losses(planned: Plan, outcome: np.ndarray, monkeypatch: pytest.MonkeyPatch, **given: Any) -> list[Fraction]:
    """Log-ratios of the look's outcome and the worst values then, between the plan's table and each neighbour.

    Infinite where the scales of the noise depend on more than the look's outcome.
    """
    tree, before = planned.hierarchy, planned.hierarchy.levels(planned.groups)
    noise, seen = measured(planned, outcome, monkeypatch)
    assert noise.draws[0] == (scale_of(planned.noise_of_look), (1, len(seen.ways)))
    drawn = Counter({scale: 0 for scale, _ in noise.draws[1:]})
    for scale, shape in noise.draws[1:]:
        drawn[scale] += int(np.prod(shape))
    scales = [[scale_of(level[way]) for way in seen.ways] for level in seen.noise]
    # Every value gets the noise that it is said to have.
    assert drawn == Counter(
        scale for row, regions in zip(scales, tree.sizes, strict=True) for scale in row for _ in range(regions)
    )
    found = []
    for other in of_units(planned.groups, **given):
        if planned.request.totals == "public" and other.sum() != planned.groups.sum():
            continue
        again, theirs = measured(replace(planned, groups=other), outcome, monkeypatch)
        if again.draws != noise.draws or (theirs.ways != seen.ways).any():
            found.append(Fraction(10**9))
            continue
        moved = [
            np.abs(planned.query.of(a) - planned.query.of(b)) for a, b in zip(before, tree.levels(other), strict=True)
        ]
        total = Fraction(int(moved[0].sum())) / noise.draws[0][0]
        for level, row in zip(moved, scales, strict=True):
            total += sum(
                (Fraction(int(each)) / scale for each, scale in zip(level.sum(axis=0), row, strict=True)), start=0
            )
        found.append(total)
    return found


BY_SIZE: list[dict[str, Any]] = [
    {"totals": "public"},
    {"totals": "private"},
    {"totals": "private", "contributions": 2},
    {"totals": "private", "sensitivity": 2},
]
OUTCOMES = st.lists(st.integers(-40, 400), min_size=WIDE, max_size=WIDE).map(np.array)


@pytest.mark.parametrize("given", sampled(BY_SIZE))
@pytest.mark.parametrize("tree", ["two", "deep"])
def test_a_look_costs_what_it_says_and_the_rest_adds_up(tree: str, given: dict[str, Any]) -> None:
    """Whatever the look's outcome, no neighbour is further than epsilon away, and one is just that."""
    planned = by_size(tree, **given)
    columns = planned.query.of(planned.groups).shape[1]
    unit = {"step": given.get("sensitivity", 1), "contributions": given.get("contributions", 1), "unit": "record"}

    @settings(max_examples=12, deadline=None)
    @given_(OUTCOMES)
    def check(outcome: np.ndarray) -> None:
        with pytest.MonkeyPatch.context() as patch:
            found = losses(planned, outcome[:columns], patch, **unit)
        assert max(found) == EPSILON

    check()
    assert worst_of_all(planned, **unit) == EPSILON


def worst_of_all(planned: Plan, **unit: Any) -> Fraction:
    """Over all ways that a look may choose for each size, and all neighbours with public or private totals."""
    tree, before = planned.hierarchy, planned.hierarchy.levels(planned.groups)
    return max(
        privacy_loss(planned, before, tree.levels(other))
        for other in of_units(planned.groups, **unit)
        if planned.request.totals == "private" or other.sum() == planned.groups.sum()
    )


def test_a_split_chosen_from_the_exact_root_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scales then differ between neighbours, which tells them apart in the tails of the noise."""
    planned = by_size("deep", Fraction(1, 3))
    exact = planned.query.of(planned.hierarchy.levels(planned.groups)[0])[0]
    choose, unit = Split.choose, {"step": 1, "contributions": 1, "unit": "record"}
    assert max(losses(planned, exact, monkeypatch, **unit)) <= planned.split.loss.total
    tables: list[np.ndarray] = []
    real = module.look_at_root

    def look_at_root(root: np.ndarray, *more: Any) -> Any:
        tables.append(planned.query.of(root)[0])
        return real(root, *more)

    monkeypatch.setattr(module, "look_at_root", look_at_root)
    monkeypatch.setattr(Split, "choose", lambda split, _look, *more: choose(split, tables[-1], *more))
    assert max(losses(planned, exact, monkeypatch, **unit)) > planned.split.loss.total


def test_ways_that_cost_too_much_are_refused_and_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """One way adds up to a tenth more: nothing is measured; and were it, the count of neighbours would say so."""
    planned = by_size("deep")
    dear = tuple(part * Fraction(11, 10) for part in planned.split.ways[1])
    ways = (planned.split.ways[0], dear, *planned.split.ways[2:])
    for look in (planned.split.look, planned.split.look / 2):
        with pytest.raises(DuckanonError, match="nothing was released"):
            Split(Pure(EPSILON), ways, look)
    with pytest.raises(DuckanonError, match="nothing was released"):
        Split(Pure(EPSILON), planned.split.ways, planned.split.look * 2)
    monkeypatch.setattr(Split, "__post_init__", lambda _: None)
    leaking = replace(planned, split=Split(Pure(EPSILON), ways, planned.split.look))
    assert worst_of_all(leaking, step=1, contributions=1, unit="record") > EPSILON


def test_where_a_look_cannot_help_there_is_none() -> None:
    """By public facts alone: one level, noise on n_s, whole groups, few sizes, a split that is given."""
    assert by_size("deep").split.look == EPSILON / 50
    assert len(by_size("deep").split.ways) > 1
    few, root = plan(TREES["deep"], np.full((3, 4), 3), Request(epsilon=EPSILON)), by_size("root")
    named = by_size("deep", split=(Fraction(1, 3),) * 3)
    histogram = by_size("deep", sensitivity=3)
    group = by_size("deep", totals="private", unit="group", contributions=1)
    for planned in (few, root, named, histogram, group, by_size("deep", mechanism="c_dp")):
        assert planned.split.look == 0
        assert len(planned.split.ways) == 1
    assert histogram.query is HISTOGRAM
    assert group.query is not HISTOGRAM


def test_the_charge_must_be_what_was_asked() -> None:
    for epsilon in (Fraction(1, 10), Fraction(22, 7), Fraction(10**6), Fraction(1, 10**12)):
        split = by_size("deep", epsilon).split
        assert split.loss.total == epsilon
        assert {split.look + sum(way) for way in split.ways} == {epsilon}


def crowd(unit: str) -> tuple[np.ndarray, np.ndarray]:
    """A unit of three records joins three groups of one in the last region, or is a group of three there."""
    before = np.full((8, 4), [6, 1, 1, 0], dtype=np.int64)
    after = before.copy()
    after[7] += [-3, 3, 0, 0] if unit == "record" else [0, 0, 1, 0]
    return before, after


@pytest.mark.long(_SEARCH)
@pytest.mark.parametrize("given", [UNITS[2], UNITS[5]])
def test_no_event_tells_units_apart(given: dict[str, Any]) -> None:
    before, after = (
        seen("auto", "private", table, 300 * (40 if LONG else 1), 3 + i, **given)
        for i, table in enumerate(crowd(given["unit"]))
    )
    assert loss(before, after) <= EPSILON


@pytest.mark.long(_SEARCH)
@pytest.mark.parametrize("given", [UNITS[2], UNITS[5]])
def test_units_with_noise_for_a_third_are_caught(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Query, "distance", lambda query, *_: Fraction(2 if given["unit"] == "record" else 1, 3))
    before, after = (
        seen("auto", "private", table, 400, 3 + i, **given) for i, table in enumerate(crowd(given["unit"]))
    )
    assert loss(before, after) > EPSILON


@pytest.mark.long(_SEARCH)
def test_the_paper_s_chain_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 9.2: noise of scale L / epsilon, as if one person moved one entry of a level."""
    printed = replace(CHAIN, sensitivity=lambda _, step: step)
    monkeypatch.setitem(methods.METHODS, "chain", replace(METHODS["chain"], public=printed))
    before, after = pair("public")
    assert loss(seen("chain", "public", before, 1000, 1), seen("chain", "public", after, 1000, 2)) > EPSILON


@pytest.mark.long(_SEARCH)
def test_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any mechanism's, were its sensitivity a fifth of what it is: here the one that others are built on."""
    thin = replace(METHODS["auto"].public, sensitivity=lambda _, step: Fraction(step, 5))  # type: ignore[arg-type, return-value]
    monkeypatch.setitem(methods.METHODS, "auto", replace(METHODS["auto"], public=thin))
    before, after = pair("public")
    assert loss(seen("auto", "public", before, 400, 1), seen("auto", "public", after, 400, 2)) > EPSILON
