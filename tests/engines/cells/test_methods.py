"""Every method against plain enumeration, on 5,000 random knapsacks; every way inside `residues` is taken."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from duckanon.engines.cells import bit_sets as windows_module
from duckanon.engines.cells import reachable_sums as sums_module
from duckanon.engines.cells import residues as residues_module
from duckanon.engines.cells.knapsack import Feasible, Knapsack, knapsack
from duckanon.engines.cells.methods import METHODS
from duckanon.engines.cells.residues import residues
from duckanon.engines.cells.viability import simplify, viability
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.engines.cells import plain
from tests.engines.cells.strategies import knapsacks

EXACT = [method for method in METHODS.values() if method.every_value]


def agree(problem: Knapsack) -> None:
    expected = plain.values(problem)
    for method in EXACT:
        found = method.run(problem)
        assert isinstance(found, Feasible)
        assert [found.values(k) for k in range(len(problem))] == expected, method.name
        assert found.count.tolist() == [len(one) for one in expected], method.name
        assert found.lower.tolist() == [min(one, default=-1) for one in expected], method.name
        assert found.upper.tolist() == [max(one, default=-1) for one in expected], method.name


@settings(max_examples=many(1000))
@given(knapsacks(bounded=False))
def test_all_methods_agree(problem: Knapsack) -> None:
    agree(problem)


@settings(max_examples=many(1000))
@given(knapsacks(bounded=True))
def test_all_methods_agree_with_facts(problem: Knapsack) -> None:
    agree(problem)


def _compare(**how: Any) -> Callable[[], None]:
    """A test of `residues` against `viability`, where not every way is small enough for enumeration."""

    def compare(problem: Knapsack) -> None:
        found, expected = residues(problem), viability(problem)
        assert [found.values(k) for k in range(len(problem))] == [expected.values(k) for k in range(len(problem))]

    examples = how.pop("examples")
    return settings(max_examples=many(examples))(given(knapsacks(**how))(compare))


@pytest.mark.parametrize("worth", [1, 4, 64, 10**6])
def test_residues_cut_by_small_tables(worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_module, "_NARROW", 1)
    monkeypatch.setattr(windows_module, "_WORTH", worth)
    _compare(bounded=False, most_rows=12, examples=500)()


def test_residues_by_tables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues_module, "window", lambda problem: None)
    _compare(bounded=False, most_rows=12, examples=500)()


@pytest.mark.parametrize("bounded", [False, True])
def test_residues_without_room_for_tables(bounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residues_module, "window", lambda problem: None)
    monkeypatch.setattr(residues_module, "_ROOM", 40)
    monkeypatch.setattr(residues_module, "LONGEST", 20)
    _compare(bounded=bounded, examples=500)()


@settings(max_examples=many(40))
@given(knapsacks(bounded=True, most_rows=4) | knapsacks(bounded=False, most_rows=4))
def test_the_integer_program(problem: Knapsack) -> None:
    expected = plain.values(problem)
    found = METHODS["milp"].run(problem)
    assert found.lower.tolist() == [min(one, default=-1) for one in expected]
    assert found.upper.tolist() == [max(one, default=-1) for one in expected]


@settings(max_examples=many(500))
@given(knapsacks(bounded=False))
def test_simplifications_tell_the_truth(problem: Knapsack) -> None:
    expected, told = plain.values(problem), simplify(problem)
    if all(expected):
        for k, one in enumerate(expected):
            assert told.lower[k] in (-1, one[0])
            assert told.upper[k] in (-1, one[-1])


@pytest.mark.parametrize("n", [10**4, 10**6, 10**9, 10**12, 10**18])
def test_large_samples(n: int) -> None:
    """Three coins of Sylvester's kind, checked by the theory: all but finitely many sums can be made."""
    problem, _ = knapsack(np.array([101, 103, 107]), n)
    found = residues(problem)
    for k, r in enumerate([101, 103, 107]):
        others = [one for one in (101, 103, 107) if one != r]
        a, b = others
        # nu is feasible exactly if n - nu r = x a + y b: x is fixed mod b by an inverse.
        inverse = pow(a, -1, b)

        def can(c: int, a: int = a, b: int = b, inverse: int = inverse) -> bool:
            x = c * inverse % b
            return c >= x * a

        top = n // r
        edge = max(0, top - 2 * a * b // r - 2)
        tail = [nu for nu in range(edge, top + 1) if can(n - nu * r)]
        assert found.count[k] == edge + len(tail)
        assert found.upper[k] == tail[-1]
        assert found.lower[k] == next(nu for nu in range(200) if can(n - nu * r))


def test_few_rows_with_huge_sums() -> None:
    big = 10**11
    problem, _ = knapsack(np.array([big + 1, big + 7, big + 9]), 4 * (big + 1) + 3 * (big + 9))
    found = residues(problem)
    # 7 rows' worth of big; the units say 4 * 1 + 3 * 9 = 31 = a + 7 b + 9 c with a + b + c = 7.
    solutions = [(a, b, 7 - a - b) for a in range(8) for b in range(8 - a) if a + 7 * b + 9 * (7 - a - b) == 31]
    assert [found.values(k) for k in range(3)] == [sorted({one[k] for one in solutions}) for k in range(3)]


def test_limits_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="more than 10\\^18"):
        knapsack(np.array([3]), 10**18 + 1)
    with pytest.raises(Infeasible, match="reduced counts alone"):
        knapsack(np.array([3]), -1)
    with pytest.raises(InvalidInput, match="leave rows of zeros out"):
        knapsack(np.array([0]), 1)
    monkeypatch.setattr(sums_module, "_MOST", 2**12)
    many = np.arange(10**9, 10**9 + 40)
    with pytest.raises(InvalidInput, match="cannot be listed"):
        residues(knapsack(many, 10**12)[0])
    for name in ("classical", "milp"):
        with pytest.raises(InvalidInput, match="use residues"):
            METHODS[name].run(knapsack(np.array([3]), 2**40)[0])
