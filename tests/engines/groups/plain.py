"""Groups the slow and obvious way. Twins to test against."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.release import Plan
from duckanon.engines.noise import Gaussian, Laplace, Noise

TREES = {
    "root": Hierarchy(),
    "two": Hierarchy((np.array([0, 0]),)),
    "three": Hierarchy((np.array([0, 0, 0]),)),
    "deep": Hierarchy((np.array([0, 0]), np.array([0, 0, 1]))),
    "thin": Hierarchy((np.array([0]), np.array([0]), np.array([0, 0]))),
    "eight": Hierarchy((np.array([0, 0, 0]), np.array([0, 0, 0, 1, 1, 2, 2, 2]))),
}


SIZES = np.arange(1, 100)


def neighbours(groups: np.ndarray, step: int, private: bool) -> Iterator[np.ndarray]:
    """Every leaf table that one person more or less can make of this one: one group moves by up to `step` sizes."""
    regions, sizes = groups.shape
    for region, here, there in product(range(regions), range(sizes + 1), range(sizes + 1)):
        # Size 0 is a group that is not there.
        if here == there or abs(here - there) > step or (not private and 0 in (here, there)):
            continue
        if here and not groups[region, here - 1]:
            continue
        other = groups.copy()
        if here:
            other[region, here - 1] -= 1
        if there:
            other[region, there - 1] += 1
        yield other


def of_units(groups: np.ndarray, step: int, contributions: int, unit: str) -> list[np.ndarray]:
    """Every leaf table that one privacy unit more or less can make of this one, totals private.

    Records: up to so many come, or go, one after the other, each in a group of any size (0: that was not there) and
    moving it by up to `step` sizes. A group: one of up to so many records, each `step` of size, comes or goes as it is.
    """
    if unit == "group":
        found = []
        for region, size, sign in product(
            range(len(groups)), range(min(contributions * step, groups.shape[1])), (-1, 1)
        ):
            other = groups.copy()
            other[region, size] += sign
            if other.min() >= 0:
                found.append(other)
        return found
    reached: list[Any] = []
    for comes in (True, False):
        now = {groups.tobytes(): groups}
        for _ in range(contributions):
            larger = [
                other
                for table in now.values()
                for other in neighbours(table, step, private=True)
                if ((other * SIZES[: other.shape[1]]).sum() > (table * SIZES[: table.shape[1]]).sum()) == comes
            ]
            now = {table.tobytes(): table for table in larger}
            reached += now.values()
    return reached


def scale_of(noise: Noise) -> Fraction:
    assert isinstance(noise, Laplace)
    return noise.scale


def privacy_loss(plan: Plan, before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> Fraction:
    """The largest log-ratio of an outcome between two tables, exactly, whatever the look has chosen.

    before, after: the groups of each level. A value with Laplace noise of scale b gets an outcome at most e^(d / b)
    times as likely if it moves by d, some outcome is that much more likely, and the values' noise is independent. The
    look is one of the outcomes; each choice of a way for each size may follow from it.
    """
    moved = [np.abs(plan.query.of(a) - plan.query.of(b)) for a, b in zip(before, after, strict=True)]
    scales = [[scale_of(one) for one in level] for level in plan.noise]
    if len(plan.split.ways) == 1:
        levels = zip(moved, scales, strict=True)
        return sum((Fraction(int(each.sum())) / scale for each, (scale,) in levels), Fraction(0))
    found = Fraction(int(moved[0].sum())) / scale_of(plan.noise_of_look)
    sizes = [each.sum(axis=0).tolist() for each in moved]
    for size in zip(*sizes, strict=True):
        # The levels' scales of one way, for all ways.
        found += max(
            sum((Fraction(each) / scale for each, scale in zip(size, way, strict=True)), Fraction(0))
            for way in zip(*scales, strict=True)
        )
    return found


def variance_of(noise: Noise) -> Fraction:
    assert isinstance(noise, Gaussian)
    return noise.variance


def concentrated_loss(plan: Plan, before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> Fraction:
    """The zero-concentrated rho between two tables, exactly, whatever the look has chosen.

    A value with noise of variance v that moves by d costs d^2 / 2v (Canonne, Kamath and Steinke 2020, proposition 5),
    and independent values add up. The look is one of them; each choice of a way for each size may follow from it.
    """
    squares = [(plan.query.of(a) - plan.query.of(b)) ** 2 for a, b in zip(before, after, strict=True)]
    ways, look = _prices(plan)
    if len(ways) == 1:
        return sum((int(each.sum()) * one for each, one in zip(squares, ways[0], strict=True)), Fraction(0))
    found = int(squares[0].sum()) * look
    for size in zip(*[each.sum(axis=0).tolist() for each in squares], strict=True):
        if any(size):
            found += max(sum(each * one for each, one in zip(size, way, strict=True)) for way in ways)
    return found


@cache
def _prices(plan: Plan) -> tuple[list[tuple[Fraction, ...]], Fraction]:
    """What a move by one costs: for each way of the split at each level, and in the look."""
    ways = [tuple(1 / (2 * variance_of(one)) for one in way) for way in zip(*plan.noise, strict=True)]
    return ways, 1 / (2 * variance_of(plan.noise_of_look)) if len(ways) > 1 else Fraction(0)


def tables(regions: int, sizes: int, most: int) -> Iterator[np.ndarray]:
    """Every leaf table with entries up to `most`."""
    for numbers in product(range(most + 1), repeat=regions * sizes):
        yield np.array(numbers, dtype=np.int64).reshape(regions, sizes)


def best(
    tree: Hierarchy, sizes: int, most: int, total: int | None, cost: Callable[[tuple[np.ndarray, ...]], float]
) -> float:
    """The least cost of all consistent trees of whole numbers up to `most` that add up to the total."""
    return min(
        cost(tree.levels(leaves))
        for leaves in tables(tree.sizes[-1], sizes, most)
        if total is None or leaves.sum() == total
    )


def squares(wanted: tuple[np.ndarray, ...]) -> Callable[[tuple[np.ndarray, ...]], float]:
    return lambda levels: float(sum(((a - b) ** 2).sum() for a, b in zip(levels, wanted, strict=True)))
