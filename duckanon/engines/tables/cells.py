"""Cells as rows of levels: numbering, matching and joining them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from duckanon.errors import InvalidInput

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def keys(codes: Ints, levels: Sequence[int]) -> Ints:
    """One number for each cell, the same for equal cells. codes: shape (cells, variables).

    Raises InvalidInput above 2^62 combinations of levels.
    """
    if prod(levels) >= 2**62:
        raise InvalidInput("The variables have more than 2^62 combinations of levels: bound fewer of them at once.")
    numbers = np.zeros(len(codes), dtype=np.int64)
    for column, size in zip(codes.T, levels, strict=True):
        numbers = numbers * size + column
    return numbers


def group(codes: Ints) -> tuple[Ints, int]:
    """The number of each cell's group of equal cells, and how many groups there are."""
    if not codes.shape[1]:
        return np.zeros(len(codes), dtype=np.int64), min(len(codes), 1)
    distinct, numbers = np.unique(codes, axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), len(distinct)


def places(sought: Ints, listed: Ints) -> Ints:
    """Where each wanted key stands among the listed ones, which are different; -1 where it does not."""
    if not len(listed):
        return np.full(len(sought), -1, dtype=np.int64)
    order = np.argsort(listed, kind="stable")
    at = np.minimum(np.searchsorted(listed[order], sought), len(listed) - 1)
    positions = order[at].astype(np.int64)
    positions[listed[positions] != sought] = -1
    return positions


def pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """All pairs of positions with equal keys."""
    order = np.argsort(right, kind="stable")
    begin = np.searchsorted(right[order], left, "left")
    matches = np.searchsorted(right[order], left, "right") - begin
    first = np.repeat(np.arange(len(left)), matches)
    within = np.arange(len(first)) - np.repeat(np.cumsum(matches) - matches, matches)
    return first.astype(np.int64), order[np.repeat(begin, matches) + within].astype(np.int64)


def pair_count(left: Ints, right: Ints) -> int:
    """How many pairs `pairs` would give."""
    ordered = np.sort(right)
    return int((np.searchsorted(ordered, left, "right") - np.searchsorted(ordered, left, "left")).sum())


def product(sizes: Sequence[int]) -> Ints:
    """All combinations of levels, the last variable fastest: shape (combinations, variables)."""
    if not sizes:
        return np.zeros((1, 0), dtype=np.int64)
    return np.stack(np.unravel_index(np.arange(prod(sizes)), tuple(sizes)), axis=1).astype(np.int64)
