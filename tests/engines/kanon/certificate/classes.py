"""All classes of a small table with what they lose, the slow and obvious way; and what prices they allow."""

from itertools import combinations

from duckanon.engines.kanon.certificate.points import GRAINS, Whole
from duckanon.engines.kanon.records import Records
from tests.engines.kanon import plain

# plain.class_loss adds up floats.
ROUNDING = 1e-14


def classes(records: Records, k: int) -> list[tuple[tuple[int, ...], float]]:
    """Every class of k .. 2k - 1 records, and what its records lose together."""
    n = len(records)
    return [
        (members, size * plain.class_loss(records, members))
        for size in range(k, min(2 * k, n + 1))
        for members in combinations(range(n), size)
    ]


def worst(found: list[tuple[tuple[int, ...], float]], prices: Whole) -> float:
    """How much the prices of a class add up to above what it loses, at most. prices: of all records, in grains."""
    return max(sum(int(prices[i]) for i in members) / GRAINS - cost for members, cost in found)
