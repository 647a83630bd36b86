"""Bad input gets one clear sentence, without values of the data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from duckanon.engines.tables import clique
from duckanon.engines.tables.bounds import table_bounds
from duckanon.engines.tables.released import Released, Releases, counts, shares
from duckanon.errors import InvalidInput

AB = [[0, 0], [0, 1], [1, 0], [1, 1]]


def a(*values: Any, **how: Any) -> Released:
    return counts("a", [0], [[0], [1]], values, **how)


def b(*values: Any) -> Released:
    return counts("b", [1], [[0], [1]], values)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a(1, "x"), "A value of the table a is no number."),
        (lambda: a(1, 0.5), "The table a has floats: give whole numbers, Fractions, Decimals or text."),
        (lambda: a(1, "0.5"), "A value of the table a does not fit: counts are whole numbers."),
        (lambda: a(1, -1), "A value of the table a is below zero."),
        (lambda: a(1, 10**19), "The values of the table a add up to more than 10^18."),
        (lambda: a(5, 6, base=5), "A value of the table a is no multiple of its base."),
        (lambda: a(5, 6, base=0), "The base of the table a must be a whole number above zero."),
        (lambda: a(5, None, within=(3, 1)), "What suppressed cells of the table a lie between must be an interval of"),
        (lambda: a(5, 0, shown=True), "The table a lists a cell without records, and is said to list none."),
        (lambda: counts("a", [0], [[0], [0]], [1, 2]), "The table a lists a cell twice."),
        (lambda: counts("a", [0, 0], AB, [1, 2, 3, 4]), "The table a names a variable twice."),
        (lambda: counts("a", [0], [[-1], [0]], [1, 2]), "The table a has a level below zero: levels count from 0."),
        (lambda: shares("a", [1], [0], AB, ["0.5", "0.5", "0.33", "0.66"]), "do not add up to 1: if they were rounded"),
        (lambda: shares("a", [1], [0], AB, ["0.5", "0.5", "1.1", "0"]), "A share of the table a is below 0 or above 1"),
        (lambda: shares("a", [1], [0], AB, [0, 1, "0.333", "0.667"], digits=2), "shares have the digits that digits"),
        (lambda: shares("a", [1], [0], AB, [0, 1, 1, 0], digits=10), "The digits of the table a must be from 0 to 9."),
        (lambda: shares("a", [1], [0], AB, [0, 1, 1, 0], digits=2, ties="odd"), "ties is one of 'any', 'up', 'even'"),
        (lambda: shares("a", [1], [0], AB, [0, 1, 1, 0], shown=True), "lists a cell without records"),
        (lambda: Releases((2,), ()), "There is no table: give one released table at least."),
        (lambda: Releases((2,), (a(1, 2),), -1), "n is below zero: it is the number of records."),
        (lambda: Releases((1,), (a(1, 2),), names=("x",)), "The table a has a level of x outside the levels given."),
        (lambda: Releases((2,), (b(1, 2),)), "The table b has a variable that has no levels: give them."),
    ],
)
def test_what_is_no_table(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        make()
    assert message in str(error.value)


CONDITIONAL = shares("c", [1], [0], AB, [Fraction(1, 2), Fraction(1, 2), Fraction(1, 3), Fraction(2, 3)])


@pytest.mark.parametrize(
    ("releases", "target", "message"),
    [
        (
            Releases((2, 2), (a(3, 4),), 7),
            [1],
            "No table has variable 1, so nothing bounds it: leave it out of the tar",
        ),
        (Releases((2, 2), (a(3, 4),), 7), [2], "The target names a variable that has no levels: give them."),
        (Releases((2, 2), (a(3, 4),), 7), [], "The target is one or more different variables."),
        (Releases((2, 2), (CONDITIONAL,)), [0, 1], "No table tells how many records there are: give n."),
        (Releases((2, 2), (CONDITIONAL,), 1), [0, 1], "The table 'c' contradicts itself or the number of records"),
        (Releases((2, 2), (a(3, 4), b(4, 4))), [0, 1], "The tables 'a' and 'b' contradict each other: no records have"),
        (Releases((2, 2), (a(3, 4),), 8), [0], "The counts of the table a add up to another number of records than n"),
        (Releases((2, 2), (b(2, 5), a(3, 4), CONDITIONAL), 7), [0, 1], "The tables 'b' and 'c' contradict each other"),
    ],
)
def test_what_cannot_be_bounded(releases: Releases, target: list[int], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        table_bounds(releases, target)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("codes", "message"),
    [([[2]], "A target cell has a level outside the levels given."), ([[0], [0]], "A target cell is listed twice.")],
)
def test_target_cells_that_are_none(codes: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        table_bounds(Releases((2,), (a(3, 4),)), [0], codes)


def test_a_target_too_large_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clique, "MOST_CELLS", 3)
    with pytest.raises(InvalidInput, match="has more than 3 cells: choose a target of fewer variables"):
        table_bounds(Releases((2, 2), (a(3, 4), b(1, None)), 7), [0, 1])
