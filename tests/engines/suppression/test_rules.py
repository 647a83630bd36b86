"""Sensitive cells and protection levels, by the rules' definitions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression.rules import Cells, Dominance, PPercent, Rule, Threshold, levels
from duckanon.engines.suppression.table import Table
from duckanon.errors import InvalidInput
from tests.amounts import many

contributions = st.lists(st.integers(1, 1000), max_size=6)


def cell(parts: list[int]) -> Cells:
    largest = np.zeros((3, 1, 1), dtype=np.int64)
    largest[: len(parts), 0, 0] = sorted(parts, reverse=True)[:3]
    return Cells.of(Table.of([[sum(parts)]]), [[len(parts)]], largest)


def level(rule: Rule, parts: list[int]) -> tuple[int, int]:
    lower, upper = rule.levels(cell(parts))
    return int(lower[0]), int(upper[0])


@settings(max_examples=many(300))
@given(contributions, st.integers(1, 100))
def test_p_percent(parts: list[int], p: int) -> None:
    """Upper is the least whole number with which the runner-up misses the largest by p percent."""
    lower, upper = level(PPercent(p), parts)
    first, second = [*sorted(parts, reverse=True), 0, 0][:2]

    def safe(total: int) -> bool:
        return total - second >= first * (1 + Fraction(p, 100))

    total = sum(parts)
    assert lower == upper
    assert (upper == 0) == (safe(total) or not parts)
    assert not upper or (safe(total + upper) and not safe(total + upper - 1))


@settings(max_examples=many(300))
@given(contributions, st.integers(1, 3), st.integers(1, 100))
def test_dominance(parts: list[int], n: int, k: int) -> None:
    lower, upper = level(Dominance(n, k), parts)
    total, top = sum(parts), sum(sorted(parts, reverse=True)[:n])
    assert lower == upper
    assert (upper == 0) == (100 * top <= k * total)
    assert not upper or (100 * top <= k * (total + upper) and 100 * top > k * (total + upper - 1))


def test_threshold_on_counts() -> None:
    found = levels(Cells.of(Table.of([[0, 1, 2, 3, 4]])), [Threshold(3)])
    assert found.primary.tolist() == [False, True, True, False, False]
    assert (np.array([0, 1, 2, 3, 4]) - found.lower)[found.primary].tolist() == [1, 1]
    assert (np.array([0, 1, 2, 3, 4]) + found.upper)[found.primary].tolist() == [3, 3]


def test_threshold_on_magnitudes() -> None:
    assert level(Threshold(3, safety=10), [500, 41]) == (55, 55)
    assert level(Threshold(3, safety=10), [5, 4, 4]) == (0, 0)


def test_threshold_on_records_of_contributors() -> None:
    """Fewer than five records are as many as one contributor or four may have; more tell nothing of contributors."""
    records, contributors = [[0, 1, 2, 4, 4, 5, 30, 30]], [[0, 1, 2, 1, 4, 4, 2, 5]]
    found = levels(Cells.of(Table.of(records), contributors, records=True), [Threshold(5)])
    sensitive = [1, 2, 4, 4, 5, 30]
    assert np.array(records)[0][found.primary].tolist() == sensitive
    assert (np.array(sensitive) - found.lower[found.primary]).tolist() == [1, 1, 1, 1, 4, 27]
    assert (np.array(sensitive) + found.upper[found.primary]).tolist() == [5, 5, 5, 5, 6, 33]
    wide = levels(Cells.of(Table.of([[29]]), [[3]], records=True), [Threshold(30)])
    assert (wide.lower.tolist(), wide.upper.tolist()) == ([28], [3])


def test_rules_together() -> None:
    """The highest level counts, the safety range too, and a cell has no more room below than its value."""
    found = levels(cell([100, 3]), [PPercent(10), Dominance(1, 50), Threshold(3)], safety=1)
    assert (found.lower.tolist(), found.upper.tolist()) == ([97], [97])
    assert levels(cell([100]), [Dominance(1, 10)]).lower.tolist() == [100]
    assert levels(cell([100, 3]), [PPercent(10)], safety=50).upper.tolist() == [52]


def test_cells_in_steps() -> None:
    """Levels are in units of the table's step."""
    table = Table.of([[1.25]], step=0.25)
    lower, upper = PPercent(10).levels(Cells.of(table, [[1]], [[[1.25]], [[0.0]]]))
    assert (lower.tolist(), upper.tolist()) == ([1], [1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Threshold(1), "at least 2"),
        (lambda: Threshold(3, safety=0), "percentage"),
        (lambda: PPercent(0), "percentage"),
        (lambda: Dominance(1, 101), "percentage"),
        (lambda: Dominance(0, 50), "one contributor"),
        (lambda: levels(cell([1]), []), "needs a rule"),
        (lambda: levels(cell([1]), [Threshold(2)], safety=101), "from 0 to 100"),
        (lambda: levels(Cells.of(Table.of([[1]])), [PPercent(10)]), "2 largest"),
        (lambda: Cells.of(Table.of([[1]]), [[1, 1]]), "shape of the table"),
        (lambda: Cells.of(Table.of([[1]]), [[0]]), "without contributors"),
        (lambda: Cells.of(Table.of([[3]]), [[2]], [[[1]], [[2]]]), "falling order"),
        (lambda: Cells.of(Table.of([[3]]), [[2]], [[[2]], [[2]]]), "exceed"),
    ],
)
def test_bad_input(make: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()  # type: ignore[operator]
