"""The running example of Fioretto, Van Hentenryck and Zhu 2021: Tables 2 to 6, Figures 1 to 6."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np

from duckanon.engines.groups.chain import chain
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.isotonic_regression import pool
from duckanon.engines.groups.measurements import Measurements
from duckanon.engines.groups.queries import CHAIN, FORWARD
from duckanon.engines.groups.tree_least_squares import _tables, _units, nearest_tree
from duckanon.engines.noise import Laplace

PUBLISHED = Path(__file__).parents[3] / "fixtures" / "published"
US = Hierarchy((np.array([0, 0]),))
# The noisy numbers of groups of size 1 in Table 5 (Figure 3), and cumulative in Table 6 (Figure 6): US, GA, NY.
TABLE_5, TABLE_6 = (2, 3, 0), (2, 3, 3)


def read(table: int) -> list[dict[str, str]]:
    with (PUBLISHED / f"fioretto_table_{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(table: int, column: str) -> list[int]:
    return [int(line[column]) for line in read(table)]


def leaves() -> np.ndarray:
    return np.array([numbers(4, "GA"), numbers(4, "NY")])


def test_tables_2_to_4() -> None:
    """The users of Table 2, counted by unit and region, are Table 4; its parts add up as Figures 1 and 2 say."""
    groups = np.zeros((2, 5), dtype=np.int64)
    units = [(line["unit"], line["region"]) for line in read(2)]
    for unit in set(units):
        groups[["GA", "NY"].index(unit[1]), units.count(unit) - 1] += 1
    assert (groups == leaves()).all()
    root, states = US.levels(groups)
    assert root.tolist() == [numbers(4, "US")]
    assert (states == leaves()).all()
    assert root.sum() == 6


def test_figure_5() -> None:
    """Cumulative counts."""
    root, states = map(FORWARD.of, US.levels(leaves()))
    assert root.tolist() == [[3, 4, 6, 6, 6]]
    assert states.tolist() == [[2, 2, 3, 3, 3], [1, 2, 3, 3, 3]]


def test_table_5() -> None:
    """Cost tables as marginal costs: their counts by price are what `prices` keeps; Figure 4, Examples 4 and 5 too."""
    us = [int(line["US_own"]) + int(line["US_children"]) for line in read(5)]
    below, own = _tables(np.array(TABLE_5), np.array([1, 3]), 16)
    costs = {"GA": numbers(5, "GA"), "NY": numbers(5, "NY"), "US": us, "children": numbers(5, "US_children")}
    for price in range(-16, 17):
        found = {
            "GA": _units(3, price),
            "NY": _units(0, price),
            "US": own[0, price + 16],
            "children": below[0, price + 16],
        }
        # The printed tables end at v = 4.
        assert {name: min(units, 4) for name, units in found.items()} == {
            name: int((np.diff(cost) <= price).sum()) for name, cost in costs.items()
        }
    # Example 5 goes on: tau_US(4) = 5, tau_US(5) = 11.
    assert [int(np.searchsorted(own[0], v) - 16) for v in (4, 5)] == [5 - 1, 11 - 5]


def test_table_5_s_stars() -> None:
    """3 groups of size 1, all in GA; with one other size to take the rest of G = 6."""
    found = nearest_tree(US, (np.array([[2, 3]]), np.array([[3, 1], [0, 2]])), 6)
    assert found.tolist() == [[3, 1], [0, 2]]


def test_figure_6() -> None:
    """The chain runs over the regions of a level, size after size."""
    root, states = map(CHAIN.of, US.levels(leaves()))
    assert root.reshape(-1).tolist() == [3, 4, 6, 6, 6]
    assert states.reshape(-1).tolist() == [2, 3, 3, 4, 5, 6, 6, 6, 6, 6]


def test_table_6() -> None:
    """The chain's cost tables, and that isotonic regression with the tie finds the starred values 3, 3, 3."""
    domain = np.arange(5)
    georgia = (domain - TABLE_6[1]) ** 2
    new_york = (domain - TABLE_6[2]) ** 2 + np.minimum.accumulate(georgia)
    nation = (domain - TABLE_6[0]) ** 2 + new_york
    assert georgia.tolist() == numbers(6, "GA")
    assert new_york.tolist() == numbers(6, "NY")
    assert nation.tolist() == numbers(6, "US")
    fitted = pool(np.array([[3.0, 2.5]]), np.array([[1.0, 2.0]]))
    assert np.rint(fitted[0]).tolist() == [3, 3]
    # The same through the mechanism, equal noise on both levels and one size more to end the chain at G = 6.
    measured = Measurements(
        US,
        2,
        CHAIN,
        (np.array([[2], [6]]), np.array([[3, 3], [4, 6]])),
        ((Laplace(Fraction(1)),), (Laplace(Fraction(1)),)),
        np.zeros(2, dtype=np.int64),
        (np.array([6]), np.array([4, 2])),
    )
    assert chain(measured).leaves.tolist() == [[3, 1], [0, 2]]
