"""Group sizes by plain Python over fetched rows: the twin of group_sizes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

Row = tuple[Any, ...]


def group_sizes(rows: Sequence[Row], depth: int, *, quantity: bool = False) -> list[Row]:
    """What group_sizes gives for rows of unit, `depth` columns of regions, and the quantity if there is one."""
    sizes: Counter[Row] = Counter()
    for row in rows:
        sizes[row[: depth + 1]] += row[depth + 1] if quantity else 1
    counted: Counter[Row] = Counter()
    for (_, *regions), size in sizes.items():
        for level in range(depth + 1):
            counted[(level, *regions[:level], *[None] * (depth - level), size)] += 1
    return sorted((*key, groups) for key, groups in counted.items())


def order(row: Row) -> tuple[Any, ...]:
    """Sorting that puts None last."""
    return tuple((value is None, value) for value in row)
