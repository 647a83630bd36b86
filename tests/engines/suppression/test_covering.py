"""Patterns of large systems, on small ones whose tables can all be listed, and an audit that is handed lies."""

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression import audit, covering
from duckanon.engines.suppression import suppress as search
from duckanon.engines.suppression.attacker import Target
from duckanon.engines.suppression.audit import Published, Witness, witnessed
from duckanon.engines.suppression.covering import Covering
from duckanon.engines.suppression.problem import UP, Problem, problem
from duckanon.engines.suppression.requested import attainable, with_requested
from duckanon.engines.suppression.rules import Ints, Levels
from duckanon.engines.suppression.suppress import all_targets, suppress
from duckanon.engines.suppression.table import Table
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.bench.suppression_data import crossed
from tests.engines.suppression import plain
from tests.engines.suppression.strategies import NESTED, problems


@settings(max_examples=many(80), suppress_health_check=list(HealthCheck), deadline=None)
@given(problems(axes=NESTED, most=2))
def test_patterns_of_deviations_protect(drawn: Problem) -> None:
    most, search._MOST_TARGETS = search._MOST_TARGETS, -1
    try:
        found = suppress(drawn)
    except Infeasible:
        assume(False)
    finally:
        search._MOST_TARGETS = most
    assume(not found.undecided.any())
    pattern = (found.primary | found.secondary).ravel()
    tables = plain.all_tables(drawn)
    assert plain.protects(drawn, tables, pattern)
    lower, upper = plain.intervals(drawn, tables, pattern)
    # What is told was attained.
    assert (lower[found.cells] <= found.lower).all()
    assert (found.upper <= upper[found.cells]).all()


@settings(max_examples=many(80), suppress_health_check=list(HealthCheck), deadline=None)
@given(problems(axes=NESTED, most=4), st.data())
def test_what_is_told_not_to_move_no_program_moves(drawn: Problem, data: st.DataObject) -> None:
    may = np.flatnonzero(drawn.always | drawn.free)
    targets = all_targets(drawn)
    assume(targets)
    target = data.draw(st.sampled_from(targets))
    chosen = np.array([cell == target.cell or data.draw(st.booleans()) for cell in may.tolist()])
    one = Covering(drawn, targets)
    found = one._cheapest(target, may[chosen])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covering, "_can_move", lambda *_: True)
        asked = Covering(drawn, targets)._cheapest(target, may[chosen])
    assert (found is None) == (asked is None)
    if found is not None and asked is not None:
        assert (found.cells.tolist(), found.units.tolist()) == (asked.cells.tolist(), asked.units.tolist())


def test_small_neighbourhoods_need_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of five beside a single one of two: it moves by two at most."""
    table = Table.of([[7, 5, 2], [7, 5, 2]], [-1, 0], [-1, 0, 0])
    least = np.array([0, 3, 0] * 2)
    one = problem(table, Levels(least > 0, least, least))
    monkeypatch.setattr(covering, "_solved", lambda *_: pytest.fail("a program was solved"))
    assert Covering(one, all_targets(one))._cheapest(Target(4, UP, 3), np.array([4, 5])) is None


def test_in_three_dimensions_many_ends_are_not_all_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was suppressed before comes back as sensitive: then each cell has a table for what is demanded of it."""
    table, demanded = crossed(((2, 2), (2, 2), (2, 1)), 60)
    one = problem(table, demanded)
    earlier = suppress(one)
    pattern = (earlier.primary | earlier.secondary).ravel()
    asked = pattern & ~one.primary
    again = problem(table, with_requested(demanded, table.flat, asked, 10.0), keep=~pattern & (table.flat > 0))
    again = attainable(again, asked)
    assert suppress(again).exact.any()
    monkeypatch.setattr(search, "_MOST_ENDS", 0)
    found = suppress(again)
    assert not found.exact.any()
    assert not found.undecided.any()
    assert (found.primary.ravel() == pattern).all()


@pytest.mark.parametrize("most", [300, -1])
def test_progress_grows_to_the_end(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    table, demanded = crossed(((2, 3), (2, 3), (2, 1)), 300)
    told: list[float] = []
    monkeypatch.setattr(search, "_MOST_TARGETS", most)
    suppress(problem(table, demanded), progress=told.append)
    assert told == sorted(told)
    assert (len(told) > 3, told[-1]) == (True, 1.0)


def published() -> tuple[Published, np.ndarray]:
    table = Table.of([[8, 3, 5], [4, 1, 3], [4, 2, 2]], [-1, 0, 0], [-1, 0, 0])
    suppressed = np.zeros((3, 3), dtype=bool)
    suppressed[1:, 1:] = True
    least, most = np.ones(9, dtype=np.int64), np.full(9, np.inf)
    return Published.of(table, suppressed.ravel(), least, most), table.flat


CELL = np.array([4])
CYCLE = np.array([4, 5, 7, 8])


def ends(*witnesses: Witness) -> tuple[float, float]:
    """Of a cell of value 1, for which nothing is demanded: only what the witnesses show."""
    shown, base = published()
    found = witnessed(shown, base, witnesses, CELL, base[CELL], base[CELL])
    return float(found.lower[0]), float(found.upper[0])


def test_an_audit_counts_what_it_has_checked() -> None:
    one = np.array([1, -1, -1, 1])
    assert ends(Witness(CYCLE, one)) == (1, 2)
    # Below what everybody knows; no sums; a published cell; not a deviation at all.
    for lie in (Witness(CYCLE, -one), Witness(CELL, np.array([1])), Witness(np.array([3, 4]), np.array([1, 1]))):
        assert ends(lie) == (1, 1)
    assert ends(Witness(CYCLE, 2 * one)) == (1, 1)
    assert ends(Witness(CYCLE, -one), Witness(CYCLE, one), Witness(CELL, np.array([5]))) == (1, 2)


def test_an_audit_seeks_what_no_witness_shows() -> None:
    shown, base = published()
    found = witnessed(shown, base, (), CELL, np.array([1]), np.array([2]))
    assert (found.lower[0], found.upper[0]) == (1, 2)
    further = witnessed(shown, base, (), CELL, np.array([0]), np.array([3]))
    assert (further.lower[0], further.upper[0]) == (1, 1)
    with pytest.raises(InvalidInput, match="No table agrees"):
        witnessed(shown, base + CELL.size, (), CELL, base[CELL], base[CELL])


@pytest.mark.parametrize(("most", "upper"), [(4, 2), (3, 1)])
def test_large_blocks_are_searched_for_few_ends(monkeypatch: pytest.MonkeyPatch, most: int, upper: int) -> None:
    """A block of four cells, and one end."""
    monkeypatch.setattr(audit, "_SOUGHT", 3)
    monkeypatch.setattr(audit, "_MOST_SOUGHT", most)
    shown, base = published()
    assert witnessed(shown, base, (), CELL, base[CELL], np.array([2])).upper[0] == upper


def _always(cells: Ints, _: int) -> Ints:
    return cells


def test_large_blocks_are_searched_near_a_cell_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program over the whole block is allowed. Cells that are published or far away are of no use."""
    monkeypatch.setattr(audit, "_SOUGHT", 3)
    monkeypatch.setattr(audit, "_MOST_SOUGHT", 0)
    shown, base = published()
    for near, upper in ((CYCLE, 2), (CYCLE[:3], 1), (np.arange(9), 2), (np.arange(3), 1)):
        found = witnessed(shown, base, (), CELL, base[CELL], np.array([2]), partial(_always, near))
        assert found.upper[0] == upper


@pytest.mark.parametrize(("dimensions", "beside"), [(4, 3), (5, 2)])
def test_the_first_neighbourhoods_hold_enough_cells_to_choose_from(dimensions: int, beside: int) -> None:
    """Two nodes beside a cell's own in each of four dimensions hold only dear deviations; in five they suffice."""
    table, demanded = crossed(((3, 2), (3, 2), (4, 1), (4, 1), (4, 1))[:dimensions], 3000)
    one = problem(table, demanded)
    targets = all_targets(one)
    tried = Covering(one, targets)
    leaves = np.array([axis.hierarchies[0].leaves for axis in table.dimensions], dtype=object)
    for target in targets[:20]:
        if all(leaves[d][node] for d, node in enumerate(table.places[target.cell].tolist())):
            first = next(tried._neighbourhoods(target, covering._NEAR))
            beside_it = [len(np.unique(table.places[first][:, d])) - 1 for d in (dimensions - 1, dimensions - 2)]
            assert max(beside_it) == beside
