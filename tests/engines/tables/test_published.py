"""Worked examples from the literature."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from duckanon.engines.tables.bounds import TargetBounds, table_bounds
from duckanon.engines.tables.cells import Ints, product
from duckanon.engines.tables.released import Released, Releases, counts, shares, support

# Edwards and Havranek 1985: risk factors of 1,841 Czech autoworkers; the last of the variables A to F changes fastest.
CZECH = np.array(
    """
    44 5 23 7 35 4 24 4 129 9 50 9 109 14 51 5 112 21 70 14 80 11 73 13 12 1 7 2 7 5 7 4
    40 7 32 3 12 3 25 0 145 17 80 16 67 17 63 14 67 9 66 14 33 8 57 11 23 4 13 3 9 2 16 4
    """.split(),
    dtype=np.int64,
).reshape((2,) * 6)
# Dobra and Fienberg 2000: upper bounds from [BF][ABCE][ADE], all lower bounds are 0. Rows F, E, D, C and columns
# B, A; C and A change fastest.
UPPER = """
 88  62 224 117 | 261 246  25  38 |  88  62 224 117 | 261 151  25  38
 58  60 170 148 | 115 173  20  36 |  58  60 170 148 | 115 173  20  36
 88  62 126 117 | 134 134  25  38 |  88  62 126 117 | 134 134  25  38
 58  60 126 126 | 115 134  20  36 |  58  60 126 126 | 115 134  20  36
"""


def margin_of(table: Ints, name: str, variables: Sequence[int]) -> Released:
    sums = table.sum(axis=tuple(v for v in range(table.ndim) if v not in variables))
    return counts(name, sorted(variables), product(sums.shape), sums.ravel())


def czech(*margins: str) -> Releases:
    return Releases((2,) * 6, tuple(margin_of(CZECH, one, ["ABCDEF".index(v) for v in one]) for one in margins))


def ends(found: TargetBounds) -> dict[tuple[int, ...], tuple[int, int]]:
    cells = map(tuple, found.codes.tolist())
    return dict(zip(cells, zip(found.lower.tolist(), found.upper.tolist(), strict=True), strict=True))


def test_the_published_bounds_of_the_czech_autoworkers() -> None:
    found = table_bounds(czech("BF", "ABCE", "ADE"), range(6))
    assert found.exact.all()
    rows = [list(map(int, part.split())) for part in UPPER.replace("\n", "|").split("|") if part.strip()]
    published = np.array(rows).reshape((2,) * 6)  # F, E, D, C, B, A
    upper = np.zeros((2,) * 6, dtype=np.int64)
    upper[tuple(found.codes.T)] = found.upper
    assert (upper == published.transpose(5, 4, 3, 2, 1, 0)).all()
    assert not found.lower.any()


@pytest.mark.parametrize("ways", [2, 3, 4, 5])
def test_all_margins_of_the_czech_autoworkers_are_sharp(ways: int) -> None:
    found = table_bounds(czech(*map("".join, combinations("ABCDEF", ways))), range(6))
    assert found.exact.all()
    true = CZECH[tuple(found.codes.T)]
    assert (found.lower <= true).all()
    assert (true <= found.upper).all()


def test_frechet_bounds_of_two_one_way_margins() -> None:
    table = np.array([[5, 0, 2], [1, 3, 0]])
    found = table_bounds(Releases((2, 3), (margin_of(table, "a", [0]), margin_of(table, "b", [1]))), [0, 1])
    row, column = table.sum(1)[found.codes[:, 0]], table.sum(0)[found.codes[:, 1]]
    assert (found.upper == np.minimum(row, column)).all()
    assert (found.lower == np.maximum(0, row + column - 11)).all()
    assert found.exact.all()


def test_structure_that_everybody_knows() -> None:
    table = np.array([[4, 0], [0, 6]])
    margins = (margin_of(table, "a", [0]), margin_of(table, "b", [1]))
    zeros = counts("never", [0, 1], [[0, 1]], [0], complete=False)
    assert ends(table_bounds(Releases((2, 2), (*margins, zeros)), [0, 1])) == {
        (0, 0): (4, 4),
        (1, 0): (0, 0),
        (1, 1): (6, 6),
    }
    known = support("hierarchy", [0, 1], [[0, 0], [1, 1]])
    found = table_bounds(Releases((2, 2), (*margins, known)), [0, 1])
    assert ends(found) == {(0, 0): (4, 4), (1, 1): (6, 6)}
    assert found.disclosed.all()


def test_counts_beyond_the_target_tell_the_margin_of_a_separator() -> None:
    cells = [[0, 0], [0, 1], [1, 0], [1, 1]]
    beyond = counts("b by c", [1, 2], cells, [1, 3, 4, 2])
    half = shares("a given b", [0], [1], cells, ["0.5", "0.5", "0.5", "0.5"])
    found = table_bounds(Releases((2, 2, 2), (beyond, half)), [0, 1])
    assert ends(found) == {(0, 0): (2, 2), (0, 1): (3, 3), (1, 0): (2, 2), (1, 1): (3, 3)}
