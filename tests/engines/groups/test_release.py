"""Arguments, budgets, and a mechanism that breaks its promises."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.groups import methods
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.measurements import Estimate
from duckanon.engines.groups.methods import METHODS
from duckanon.engines.groups.release import plan, release
from duckanon.engines.groups.request import RELATIONS, Request, relation
from duckanon.engines.noise import Laplace
from duckanon.errors import DuckanonError, InvalidInput
from tests.amounts import many
from tests.engines.groups.plain import TREES
from tests.engines.groups.test_hierarchy import trees
from tests.engines.seeded import Seeded

TREE = TREES["deep"]
GROUPS = np.arange(12, dtype=np.int64).reshape(3, 4)


def test_charges_add_up_exactly() -> None:
    third = release(TREE, GROUPS, Request(epsilon=Fraction(1, 10)), source=Seeded(1)).split
    assert third.ways == ((Fraction(1, 30),) * 3,)
    split = (Fraction(1, 7), Fraction(2, 7), Fraction(4, 7))
    found = release(TREE, GROUPS, Request(epsilon=Fraction(1, 10), split=split), source=Seeded(1)).split
    assert found.ways == (tuple(share / 10 for share in split),)
    assert third.look == found.look == 0


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("step", [1, 3])
def test_noise_has_the_scale_that_the_charge_needs(name: str, step: int) -> None:
    charges = (Fraction(1, 10), Fraction(2, 10), Fraction(7, 10))
    found = plan(TREE, GROUPS, Request(epsilon=Fraction(1), mechanism=name, split=charges, sensitivity=step))
    assert found.split.ways == (charges,)
    expected = {"histogram": (2, 2, 2), "chain": (step, 2 * step, 3 * step)}.get(found.query.name, (step,) * 3)
    assert found.noise == tuple((Laplace(s / charge),) for s, charge in zip(expected, charges, strict=True))


def test_a_release_depends_on_the_source_alone() -> None:
    first, again = (release(TREE, GROUPS, Request(epsilon=Fraction(1, 2)), source=Seeded(4)) for _ in range(2))
    assert all((a.groups == b.groups).all() for a, b in zip(first.levels, again.levels, strict=True))
    fresh = [release(TREE, GROUPS * 1000, Request(epsilon=Fraction(1, 100))).levels[2].groups for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


def test_regions_keep_their_numbers() -> None:
    """A tree whose regions are in no order: each row of the release is the row that was given."""
    tree = Hierarchy((np.array([0, 0, 0]), np.array([2, 0, 1, 0, 2])))
    groups = np.array([[900, 1], [5, 400], [70, 70], [1, 2], [3, 999]])
    for name in METHODS:
        found = release(tree, groups, Request(epsilon=Fraction(1000), mechanism=name), source=Seeded(1))
        for ours, truth in zip(found.levels, tree.levels(groups), strict=True):
            assert np.abs(ours.groups - truth).max() <= 2, name


BAD: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": Fraction(0)}, "epsilon must be positive"),
    ({"epsilon": Fraction(-1)}, "epsilon must be positive"),
    ({"mechanism": "laplace"}, "choose one of 'auto'"),
    ({"totals": "secret"}, "'public' or 'private'"),
    ({"mechanism": "chain", "totals": "private"}, "chain needs totals"),
    ({"sensitivity": 0}, "at least one size"),
    ({"contributions": 2}, "totals must be private"),
    ({"contributions": 0, "totals": "private"}, "1 or more"),
    ({"contributions": 10**16, "totals": "private"}, "at most"),
    ({"unit": "group"}, "existence is private"),
    ({"unit": "person", "totals": "private"}, "'record' or 'group'"),
    ({"intervals": "none"}, "'guaranteed' or 'model'"),
    ({"intervals": "model", "mechanism": "topdown"}, "has no model"),
    ({"split": (Fraction(1, 2), Fraction(1, 2))}, "3 levels"),
    ({"split": (Fraction(1), Fraction(0), Fraction(0))}, "positive"),
    ({"split": (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))}, "exactly one"),
    ({"groups": GROUPS[:2]}, "one row for each region"),
    ({"groups": GROUPS.astype(np.int32)}, "int64"),
    ({"groups": GROUPS[:, :0]}, "max_size"),
    ({"groups": -GROUPS}, "negative"),
    ({"groups": GROUPS * 10**15}, "too many"),
    ({"epsilon": Fraction(1, 10**20)}, "larger epsilon"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_arguments(arguments: dict[str, Any], words: str) -> None:
    class Untouched:
        def octets(self, count: int) -> bytes:
            raise AssertionError("noise was drawn")

    arguments = {"epsilon": Fraction(1), **arguments}
    with pytest.raises(InvalidInput, match=words):
        release(TREE, arguments.pop("groups", GROUPS), Request(**arguments), Untouched())


@pytest.mark.parametrize("wrong", [np.full((3, 4), -1), np.full((3, 4), 1), GROUPS.astype(float)])
def test_a_broken_mechanism_releases_nothing(wrong: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(METHODS["topdown"], run=lambda _: Estimate(wrong))
    monkeypatch.setitem(methods.METHODS, "topdown", broken)
    with pytest.raises(DuckanonError, match="nothing was released"):
        release(TREE, GROUPS, Request(epsilon=Fraction(1), mechanism="topdown"))


def test_relations_say_what_is_public() -> None:
    assert set(RELATIONS) == {"public", "private"}
    assert "public" in RELATIONS["public"]
    assert "vanish" in RELATIONS["private"]


def test_relations_name_the_unit() -> None:
    assert relation("private") == RELATIONS["private"]
    assert relation("private", contributions=20_000).startswith(
        "one unit added or removed, with at most 20,000 records"
    )
    assert relation("private", unit="group", contributions=9) == (
        "one group added or removed, with all of its records, at most 9"
    )


def test_auto_takes_the_noise_that_costs_least() -> None:
    """By public facts: a record moves t_s by one and n_s by two; a whole group of s records moves s of t and one n."""
    for arguments, expected in (
        ({}, "inner"),
        ({"sensitivity": 2}, "inner"),
        ({"sensitivity": 3}, "histogram"),
        ({"totals": "private", "contributions": 40}, "above"),
        ({"totals": "private", "contributions": 40, "unit": "group"}, "histogram"),
        ({"totals": "private", "contributions": 1, "unit": "group"}, "above"),
    ):
        assert plan(TREE, GROUPS, Request(epsilon=Fraction(1), **arguments)).query.name == expected


EXTREMES = st.sampled_from(["one", "all", "few", "wide", "top"])


def extreme(kind: str, regions: int, sizes: int, rng: np.random.Generator) -> np.ndarray:
    """Up to 10^15 groups, in one cell, evenly, a few at all, of all magnitudes, or nearly all of size 1."""
    share = 10**15 // (regions * sizes)
    groups = np.zeros((regions, sizes), dtype=np.int64)
    if kind == "one":
        groups[rng.integers(regions), rng.integers(sizes)] = 10**15
    elif kind == "all":
        groups += share
    elif kind == "few":
        groups += rng.integers(0, 2, groups.shape)
    elif kind == "wide":
        groups += np.minimum(np.exp(rng.uniform(0, 34, groups.shape)).astype(np.int64), share)
    else:
        groups[:, 0] = 10**15 // regions - 1
        groups[rng.integers(regions), -1] += 1
    return groups


@settings(max_examples=many(80))
@given(
    trees(),
    st.sampled_from([1, 2, 6, 40]),
    EXTREMES,
    st.integers(-13, 9),
    st.sampled_from([{}, {"sensitivity": 9}, {"contributions": 30}, {"contributions": 30, "unit": "group"}]),
    st.sampled_from(["guaranteed", "model"]),
    st.integers(0, 2**32 - 1),
)
def test_nothing_is_refused_because_of_the_records(
    tree: Hierarchy, sizes: int, kind: str, power: int, given: dict[str, Any], intervals: Any, seed: int
) -> None:
    """Whatever they are, up to 10^15 groups in all: an error would tell of them."""
    groups = extreme(kind, tree.sizes[-1], sizes, np.random.default_rng(seed))
    totals: Any = "private" if "contributions" in given else ["public", "private"][seed % 2]
    found = plan(tree, groups, Request(epsilon=Fraction(10) ** power, totals=totals, intervals=intervals, **given))
    for level in found.release(Seeded(seed)).levels:
        assert (level.low >= 0).all()
        assert (level.low <= level.groups).all()
        assert (level.groups <= level.high).all()


@pytest.mark.parametrize("name", [name for name in METHODS if name not in {"h_exact", "c_exact"}])
def test_extremes_of_epsilon(name: str) -> None:
    """So large that there is no noise, and so small that there is nothing else."""
    found = release(TREE, GROUPS, Request(epsilon=Fraction(10**9), mechanism=name), source=Seeded(1))
    assert all((ours.groups == truth).all() for ours, truth in zip(found.levels, TREE.levels(GROUPS), strict=True))
    tiny = release(TREE, GROUPS, Request(epsilon=Fraction(1, 100), mechanism=name), source=Seeded(1))
    assert tiny.levels[0].groups.sum() == GROUPS.sum()


@pytest.mark.parametrize(("name", "epsilon"), [("h_dp", 9), ("c_dp", 9), ("h_exact", 5), ("c_exact", 5)])
def test_too_much_noise_for_tables_and_programs(name: str, epsilon: int) -> None:
    with pytest.raises(InvalidInput, match="auto"):
        plan(TREE, GROUPS, Request(epsilon=Fraction(1, 10**epsilon), mechanism=name))
