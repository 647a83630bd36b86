"""The cells near a cell through which it can be protected."""

import numpy as np
import pytest

from duckanon.engines.suppression.attacker import Target
from duckanon.engines.suppression.neighbourhood import Neighbourhoods, Reach
from duckanon.engines.suppression.problem import Problem, problem
from duckanon.engines.suppression.rules import Cells, Threshold, levels
from duckanon.engines.suppression.system import Layout, System
from duckanon.engines.suppression.table import Dimension

# A total, two groups, and two parts of each.
PARENTS = np.array([-1, 0, 0, 1, 1, 2, 2])
OWN = (3, 3)


def crossed(beside: int) -> Problem:
    """Two such dimensions, in which the cells beside one hold that much: in its group nothing else may deviate more."""
    leaves = np.full((4, 4), 9)
    leaves[0, 0], leaves[0, 1], leaves[1, 0] = 2, beside, beside
    above = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4, dtype=int)])
    values = (above @ leaves @ above.T).ravel()
    dimensions = [Dimension.of(len(PARENTS), PARENTS)] * 2
    system = System.of(Layout.of(dimensions), values)
    known = np.zeros(len(values)), 2 * values
    return problem(system, levels(Cells.of(system), [Threshold(3)]), known)


def around(one: Problem, reach: Reach, demand: int) -> set[tuple[int, int]]:
    """The places of the cells near the cell of two leaves."""
    near = Neighbourhoods(one)
    cell = int(np.flatnonzero((one.table.places == OWN).all(axis=1))[0])
    cells = near.near(Target(cell, 1, demand), one.cost).around(reach)
    return {(int(a), int(b)) for a, b in one.table.places[cells]}


@pytest.mark.parametrize("beside", [0, 3])
def test_sums_are_near_where_the_cells_beside_one_cannot_take_up_the_demand(beside: int) -> None:
    """With nothing beside the cell, its group's sum has to deviate with it, and another group's takes that up."""
    found = around(crossed(beside), Reach(3, 0), demand=2)
    assert OWN in found
    assert ((1, 1) in found) == ((2, 2) in found) == (beside == 0)


def test_a_reach_with_a_level_has_sums_and_those_beside_them() -> None:
    one = crossed(3)
    near, far, all_ = (around(one, Reach(3, levels), demand=2) for levels in (0, 1, 2))
    assert near < far < all_
    assert (1, 1) in far - near
    assert (0, 0) in all_ - far
