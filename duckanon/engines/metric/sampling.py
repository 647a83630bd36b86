"""Exact draws from discrete distributions given as floats: in integers, with as many random bits as a draw needs.

A float is a whole number of 2^-1074, so a row of probabilities is a row of whole numbers, and draws have exactly
their proportions, even if rounding keeps the row from adding up to one. A draw is a uniform real number; its first 64
bits nearly always determine the cell it falls into. Where they are too close to the edge of a cell, more bits are drawn
and the edges are computed exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Makes that many random octets, independent and uniform.
Octets = Callable[[int], bytes]

# How far from 1 a row of probabilities may add up.
_SLACK = 1e-9


def _edges(weights: Floats) -> list[Fraction]:
    """The upper ends of the cells, the last one 1."""
    total, ends = Fraction(0), []
    for weight in weights.tolist():
        total += Fraction(weight)
        ends.append(total)
    return [end / total for end in ends]


def _settle(first: int, weights: Floats, octets: Octets) -> int:
    """The cell of a uniform number whose first 64 bits are `first`. Draws more bits until the cell is certain."""
    ends = _edges(weights)
    numerator, bits = first, 64
    while True:
        low, high = Fraction(numerator, 1 << bits), Fraction(numerator + 1, 1 << bits)
        cell = sum(end <= low for end in ends)
        if high <= ends[cell]:
            return cell
        numerator = (numerator << 64) | int.from_bytes(octets(8), "big")
        bits += 64


class Rows:
    """Rows of probabilities to draw from.

    ptr: row r has the cells ptr[r] to ptr[r + 1] - 1, shape (rows + 1,). weights: their probabilities, shape (cells,).
    Raises InvalidInput for numbers that are no probabilities, or rows that do not add up to 1.
    """

    def __init__(self, ptr: Ints, weights: Floats) -> None:
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise InvalidInput("The mechanism holds NaN, infinity or a negative number: probabilities are 0 or more.")
        self._ptr, self._weights = ptr, weights
        starts, ends = ptr[:-1], ptr[1:]
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            if abs(math.fsum(weights[start:end]) - 1) > _SLACK:
                raise InvalidInput(
                    "The probabilities of a secret do not add up to 1: take the mechanism as metric_mechanism gives it."
                )

    def draw(self, row: int, count: int, octets: Octets) -> Ints:
        """`count` independent cells of one row, as numbers in the whole: shape (count,)."""
        start, end = int(self._ptr[row]), int(self._ptr[row + 1])
        weights = self._weights[start:end]
        drawn = np.frombuffer(octets(8 * count), dtype=">u8").astype(np.uint64)
        ends = np.cumsum(weights)
        ends /= ends[-1]
        # The most that rounding can move an edge, and the number that is compared with it.
        error = (len(weights) + 8) * 2.0**-52
        share = drawn.astype(np.float64) * 2.0**-64
        cells = np.searchsorted(ends, share, side="right")
        unsure = cells != np.searchsorted(ends, share + error, side="right")
        unsure |= cells != np.searchsorted(ends, share - error, side="right")
        for place in np.flatnonzero(unsure):
            cells[place] = _settle(int(drawn[place]), weights, octets)
        return np.asarray(cells + start, dtype=np.int64)


def draw(rows: Rows, chosen: Ints, octets: Octets) -> Ints:
    """A cell for each of the chosen rows, independent of each other: shape (chosen,)."""
    cells = np.empty(len(chosen), dtype=np.int64)
    order = np.argsort(chosen, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(chosen[order])) + 1)
    for group in groups:
        if len(group):
            cells[group] = rows.draw(int(chosen[group[0]]), len(group), octets)
    return cells
