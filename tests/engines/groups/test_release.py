"""Arguments, budgets, and a mechanism that breaks its promises."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from duckanon.engines.groups import methods
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.measurements import Estimate
from duckanon.engines.groups.methods import MECHANISMS
from duckanon.engines.groups.release import RELATIONS, plan, release
from duckanon.errors import DuckanonError, InvalidInput
from tests.engines.groups.plain import TREES
from tests.engines.seeded import Seeded

TREE = TREES["deep"]
GROUPS = np.arange(12, dtype=np.int64).reshape(3, 4)


def test_charges_add_up_exactly() -> None:
    third = release(TREE, GROUPS, epsilon=Fraction(1, 10), source=Seeded(1)).charges
    assert third == (Fraction(1, 30),) * 3
    split = (Fraction(1, 7), Fraction(2, 7), Fraction(4, 7))
    assert release(TREE, GROUPS, epsilon=Fraction(1, 10), split=split, source=Seeded(1)).charges == tuple(
        share / 10 for share in split
    )


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("step", [1, 3])
def test_noise_has_the_scale_that_the_charge_needs(name: str, step: int) -> None:
    query = MECHANISMS[name].public
    charges = (Fraction(1, 10), Fraction(2, 10), Fraction(7, 10))
    found = plan(TREE, GROUPS, epsilon=Fraction(1), mechanism=name, split=charges, sensitivity=step)
    assert found.charges == charges
    expected = {"histogram": (2, 2, 2), "chain": (step, 2 * step, 3 * step)}.get(query.name, (step,) * 3)
    assert found.scales == tuple(s / charge for s, charge in zip(expected, charges, strict=True))


def test_a_release_depends_on_the_source_alone() -> None:
    first, again = (release(TREE, GROUPS, epsilon=Fraction(1, 2), source=Seeded(4)) for _ in range(2))
    assert all((a.groups == b.groups).all() for a, b in zip(first.levels, again.levels, strict=True))
    fresh = [release(TREE, GROUPS * 1000, epsilon=Fraction(1, 100)).levels[2].groups for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


def test_regions_keep_their_numbers() -> None:
    """A tree whose regions are in no order: each row of the release is the row that was given."""
    tree = Hierarchy((np.array([0, 0, 0]), np.array([2, 0, 1, 0, 2])))
    groups = np.array([[900, 1], [5, 400], [70, 70], [1, 2], [3, 999]])
    for name in MECHANISMS:
        found = release(tree, groups, epsilon=Fraction(1000), mechanism=name, source=Seeded(1))
        for ours, truth in zip(found.levels, tree.levels(groups), strict=True):
            assert np.abs(ours.groups - truth).max() <= 2, name


BAD: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": Fraction(0)}, "epsilon must be positive"),
    ({"epsilon": Fraction(-1)}, "epsilon must be positive"),
    ({"mechanism": "laplace"}, "choose one of 'auto'"),
    ({"totals": "secret"}, "'public' or 'private'"),
    ({"mechanism": "chain", "totals": "private"}, "chain needs totals"),
    ({"sensitivity": 0}, "at least one size"),
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

    arguments = {"groups": GROUPS, "epsilon": Fraction(1), "source": Untouched(), **arguments}
    with pytest.raises(InvalidInput, match=words):
        release(TREE, arguments.pop("groups"), **arguments)


@pytest.mark.parametrize("wrong", [np.full((3, 4), -1), np.full((3, 4), 1), GROUPS.astype(float)])
def test_a_broken_mechanism_releases_nothing(wrong: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(MECHANISMS["topdown"], run=lambda _: Estimate(wrong))
    monkeypatch.setitem(methods.MECHANISMS, "topdown", broken)
    with pytest.raises(DuckanonError, match="nothing was released"):
        release(TREE, GROUPS, epsilon=Fraction(1), mechanism="topdown")


def test_relations_say_what_is_public() -> None:
    assert set(RELATIONS) == {"public", "private"}
    assert "public" in RELATIONS["public"]
    assert "vanish" in RELATIONS["private"]


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name not in {"h_exact", "c_exact"}])
def test_extremes_of_epsilon(name: str) -> None:
    """So large that there is no noise, and so small that there is nothing else."""
    found = release(TREE, GROUPS, epsilon=Fraction(10**9), mechanism=name, source=Seeded(1))
    assert all((ours.groups == truth).all() for ours, truth in zip(found.levels, TREE.levels(GROUPS), strict=True))
    tiny = release(TREE, GROUPS, epsilon=Fraction(1, 100), mechanism=name, source=Seeded(1))
    assert tiny.levels[0].groups.sum() == GROUPS.sum()


@pytest.mark.parametrize(("name", "epsilon"), [("h_dp", 9), ("c_dp", 9), ("h_exact", 5), ("c_exact", 5)])
def test_too_much_noise_for_tables_and_programs(name: str, epsilon: int) -> None:
    with pytest.raises(InvalidInput, match="auto"):
        plan(TREE, GROUPS, epsilon=Fraction(1, 10**epsilon), mechanism=name)
