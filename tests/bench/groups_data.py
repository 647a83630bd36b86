"""Group sizes with the census's shape: made up from a seed, or the real counties of 2010 if their file is at hand.

And two made-up tables of other depth and breadth, `companies` and `schools`, for which nothing was tuned.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duckanon.engines.groups.hierarchy import Hierarchy, Ints

STATES, COUNTIES, SIZES, GROUPS = 52, 3_144, 1_000, 11_763_044
OUTLIERS = 50
# Households of 1 to 6 persons in the nation, per cent (2010), and the ratio of each later size to the one before.
NATION = (31.2, 38.2, 18.8, 15.6, 7.5, 3.1)
RATIO = 0.42


def _outliers(groups: Ints, rng: np.random.Generator) -> None:
    """Group quarters: a few very large groups anywhere (Fioretto et al. 2021, section 11)."""
    np.add.at(groups, (rng.integers(0, len(groups), OUTLIERS), rng.integers(9, groups.shape[1], OUTLIERS)), 1)


def census(seed: int = 1) -> tuple[Hierarchy, Ints]:
    """Counties of log-normal population, each with its own shape around the nation's."""
    rng = np.random.default_rng(seed)
    weight = rng.lognormal(0, 1.4, COUNTIES)
    states = np.sort(np.concatenate([np.arange(STATES), rng.integers(0, STATES, COUNTIES - STATES)]))
    shape = np.concatenate([NATION, NATION[-1] * RATIO ** np.arange(1, SIZES - len(NATION) + 1)])
    groups = np.empty((COUNTIES, SIZES), dtype=np.int64)
    for county, total in enumerate((GROUPS * weight / weight.sum()).astype(np.int64)):
        own = shape * rng.lognormal(0, 0.08, SIZES)
        groups[county] = rng.multinomial(total, own / own.sum())
    _outliers(groups, rng)
    return Hierarchy((np.zeros(STATES, dtype=np.int64), states.astype(np.int64))), groups


def households(path: Path, seed: int = 1) -> tuple[Hierarchy, Ints]:
    """The counties of us_county_households_2010_h13.csv: sizes 2 to 6 as counted, "7 and more" spread as in the paper.

    The source has no households of one person, so size s here is s + 1 persons. A county's 7+ are spread over 7, 8, ...
    with the ratio n_7+ / (n_6 + n_7+) between neighbouring sizes.
    """
    rng = np.random.default_rng(seed)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    counted = np.array([[int(row[f"hh{size}"]) for size in ("2", "3", "4", "5", "6", "7p")] for row in rows])
    names = sorted({row["state"] for row in rows})
    states = np.array([names.index(row["state"]) for row in rows], dtype=np.int64)
    groups = np.zeros((len(rows), SIZES), dtype=np.int64)
    groups[:, :5] = counted[:, :5]
    for county, (six, more) in enumerate(counted[:, 4:]):
        ratio = more / max(six + more, 1)
        for extra in rng.geometric(1 - ratio, more) if more else ():
            groups[county, min(4 + extra, SIZES - 1)] += 1
    _outliers(groups, rng)
    return Hierarchy((np.zeros(len(names), dtype=np.int64), states)), groups


def companies(seed: int = 1) -> tuple[Hierarchy, Ints]:
    """Companies by employees, up to 500: a power law. 7 countries, 70 provinces, 840 towns."""
    sizes = np.arange(1, 501)
    return _nested((7, 70, 840), sizes**-2.2, 2_500_000, 0.15, seed)


def schools(seed: int = 1) -> tuple[Hierarchy, Ints]:
    """Classes by pupils, up to 40: most have about 22. 150 districts of one country."""
    sizes = np.arange(1, 41)
    return _nested((150,), np.exp(-((sizes - 22) ** 2) / 72), 400_000, 0.1, seed)


def _nested(
    regions: tuple[int, ...], shape: NDArray[Any], total: int, apart: float, seed: int
) -> tuple[Hierarchy, Ints]:
    """Leaves of log-normal population. Each region has its own shape around its parent's, `apart` from it.

    regions: of each level below the root.
    """
    rng = np.random.default_rng(seed)
    parents, shapes, above = [], shape[None, :], 1
    for many in regions:
        parent = np.sort(np.concatenate([np.arange(above), rng.integers(0, above, many - above)]))
        shapes = shapes[parent] * rng.lognormal(0, apart, (many, len(shape)))
        parents.append(parent.astype(np.int64))
        above = many
    weight = rng.lognormal(0, 1.2, above)
    numbers = (total * weight / weight.sum()).astype(np.int64)
    groups = np.array([rng.multinomial(n, own / own.sum()) for n, own in zip(numbers, shapes, strict=True)])
    return Hierarchy(tuple(parents)), groups.astype(np.int64)
