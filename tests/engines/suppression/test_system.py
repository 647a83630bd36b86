"""Systems of crossed dimensions and linked tables, against tables that are listed or added up one cell at a time."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from duckanon.engines.suppression.audit import Published, intervals
from duckanon.engines.suppression.problem import Problem, problem
from duckanon.engines.suppression.rules import Cells, Threshold, levels
from duckanon.engines.suppression.suppress import suppress
from duckanon.engines.suppression.system import Layout, System, same_owner, with_parts, with_sums
from duckanon.engines.suppression.table import Dimension, Table
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.engines.suppression.strategies import tables

slow = settings(max_examples=many(60), suppress_health_check=list(HealthCheck), deadline=None)

# Nodes with one or two hierarchies: a total; nested totals; two ways to add up the same leaves.
FLAT = ([-1, 0, 0],)
NESTED = ([-1, 0, 0, 2, 2],)
TWICE = ([-1, 0, 0, 1, 1, 2, -1, -1], [-1, -1, -1, 6, 7, 7, 0, 0])
DIMENSIONS = (FLAT, ([-1, 0, 0, 0],), NESTED, TWICE)


def value(records: list[tuple[int, ...]], dimensions: list[Dimension], place: tuple[int, ...]) -> int:
    """How many records, each a leaf of every dimension, lie below the nodes of that place."""
    return sum(
        all(below(d, leaf, node) for d, leaf, node in zip(dimensions, one, place, strict=True)) for one in records
    )


def below(dimension: Dimension, leaf: int, node: int) -> bool:
    return leaf == node or any(
        one.parents[leaf] >= 0 and below(dimension, int(one.parents[leaf]), node) for one in dimension.hierarchies
    )


@st.composite
def drawn(draw: st.DrawFn) -> tuple[list[Dimension], list[list[list[int]]], list[tuple[int, ...]]]:
    """Dimensions, tables over some or all of them, and records."""
    chosen = draw(st.lists(st.sampled_from(DIMENSIONS), min_size=2, max_size=3))
    dimensions = [Dimension.of(len(parents[0]), *parents) for parents in chosen]
    grids = []
    for _ in range(draw(st.integers(1, 3))):
        used = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
        grids.append([list(range(one.nodes)) if use else [0] for one, use in zip(dimensions, used, strict=True)])
    leaves = [st.sampled_from(np.flatnonzero(one.leaves).tolist()) for one in dimensions]
    return dimensions, grids, draw(st.lists(st.tuples(*leaves), min_size=1, max_size=12))


def test_the_same_as_a_table_of_two_dimensions() -> None:
    rows, columns = [-1, 0, 0, 2, 2], [-1, 0, 0, 0]
    layout = Layout.of([Dimension.of(5, rows), Dimension.of(4, columns)])
    assert layout.places.tolist() == [list(one) for one in product(range(5), range(4))]
    table = Table.of(np.zeros((5, 4)), rows, columns)
    lines = [
        sorted(map(tuple, matrix.toarray().astype(int).tolist())) for matrix in (table.equations, layout.equations)
    ]
    assert lines[0] == lines[1]


@slow
@given(drawn())
def test_equations_hold_and_leave_only_the_finest_cells_open(
    one: tuple[list[Dimension], list[list[list[int]]], list[tuple[int, ...]]],
) -> None:
    dimensions, grids, records = one
    layout = Layout.of(dimensions, grids)
    places = [tuple(place) for place in layout.places.tolist()]
    assert places == sorted({place for grid in grids for place in product(*grid)})
    units = np.array([value(records, dimensions, place) for place in places])
    system = System.of(layout, units)
    assert system.adds_up(units)
    for grid in grids:
        # All that can be derived from cells of a table follows from the equations: one more would change no rank.
        cells = [places.index(place) for place in product(*grid)]
        full = every_equation(dimensions, grid, places)
        matrix = layout.equations.toarray()
        assert rank(np.vstack([matrix, full])) == rank(matrix)
        assert set(np.flatnonzero(full.any(axis=0))) <= set(cells)
    wrong = units.copy()
    touched = np.flatnonzero(np.diff(layout.equations.tocsc().indptr))
    if len(touched):
        wrong[touched[0]] += 1
        with pytest.raises(InvalidInput, match="do not add up"):
            System.of(layout, wrong)


def rank(matrix: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(matrix)) if len(matrix) else 0


def every_equation(dimensions: list[Dimension], grid: list[list[int]], places: list[tuple[int, ...]]) -> np.ndarray:
    """Each total of each hierarchy, with all combinations of the other nodes of a table."""
    found = []
    for d, dimension in enumerate(dimensions):
        for axis in dimension.hierarchies:
            for total in {int(one) for one in axis.parents if one >= 0}:
                parts = np.flatnonzero(axis.parents == total).tolist()
                if total not in grid[d] or not set(parts) <= set(grid[d]):
                    continue
                for place in product(*grid[:d], [total], *grid[d + 1 :]):
                    line = np.zeros(len(places))
                    line[places.index(place)] = 1
                    for part in parts:
                        line[places.index((*place[:d], part, *place[d + 1 :]))] = -1
                    found.append(line)
    return np.array(found).reshape(-1, len(places))


def all_solutions(one: Problem) -> np.ndarray:
    """Shape (solutions, cells): every whole table within what attackers know, column after column."""
    equations, found = one.table.equations.toarray(), np.zeros((1, 0), dtype=np.int64)
    for cell in range(one.table.cells):
        values = np.arange(one.least[cell], one.most[cell] + 1).astype(np.int64)
        found = np.hstack([np.repeat(found, len(values), axis=0), np.tile(values, len(found))[:, None]])
        done = ~equations[:, cell + 1 :].any(axis=1) & equations[:, : cell + 1].any(axis=1)
        found = found[~(found @ equations[done, : cell + 1].T).any(axis=1)]
        assume(len(found) < 200_000)
    return found


@slow
@given(drawn(), st.integers(2, 3), st.data())
def test_audits_and_patterns_of_linked_tables(
    one: tuple[list[Dimension], list[list[list[int]]], list[tuple[int, ...]]], n: int, data: st.DataObject
) -> None:
    dimensions, grids, records = one
    layout = Layout.of(dimensions, grids)
    assume(len(layout.places) <= 40)
    units = np.array([value(records, dimensions, place) for place in layout.places.tolist()])
    system = System.of(layout, units)
    demanded = levels(Cells.of(system), [Threshold(n)])
    asked = problem(system, demanded, (None, np.where(units > 0, units + n, 0)))
    tables = all_solutions(asked)
    everything = asked.primary | asked.free
    more = np.array(data.draw(st.lists(st.booleans(), min_size=system.cells, max_size=system.cells)))
    for pattern in (everything, asked.primary | (more & asked.free)):
        agree = tables[(tables[:, ~pattern] == units[~pattern]).all(axis=1)]
        found = intervals(Published.of(system, pattern, asked.least, asked.most), np.flatnonzero(pattern).tolist())
        assert (found.lower == agree.min(axis=0)[pattern]).all()
        assert (found.upper == agree.max(axis=0)[pattern]).all()
    try:
        made = suppress(asked)
    except Infeasible:
        agree = tables[(tables[:, ~everything] == units[~everything]).all(axis=1)]
        narrow = (agree.min(axis=0) > units - asked.lower) | (agree.max(axis=0) < units + asked.upper)
        assert narrow[asked.primary].any()
        return
    pattern = made.primary | made.secondary
    agree = tables[(tables[:, ~pattern] == units[~pattern]).all(axis=1)]
    assert (agree.min(axis=0) <= units - asked.lower)[asked.primary].all()
    assert (agree.max(axis=0) >= units + asked.upper)[asked.primary].all()


@settings(max_examples=many(30), suppress_health_check=list(HealthCheck), deadline=None)
@given(tables(most=4), st.data())
def test_a_sum_is_protected_as_a_cell_is(table: Table, data: st.DataObject) -> None:
    """Two cells of one contributor: what they add up to stays open where it is asked for."""
    positive = np.flatnonzero(table.flat > 0).tolist()
    assume(len(positive) >= 2)
    pair = np.array(data.draw(st.lists(st.sampled_from(positive), min_size=2, max_size=2, unique=True)))
    system = with_sums(table, [pair])
    assert system.flat[-1] == table.flat[pair].sum()
    hidden = np.arange(system.cells) == table.cells
    demanded = levels(
        Cells(system.flat, np.where(hidden, 1, 9), np.zeros((0, system.cells), dtype=np.int64), False, False),
        [Threshold(2)],
    )
    assert demanded.primary.tolist() == hidden.tolist()
    asked = problem(system, demanded, hidden=hidden)
    try:
        found = suppress(asked)
    except Infeasible:
        return
    assert not found.secondary[-1]
    assert found.lower[0] <= found.demand_lower[0]
    assert system.flat[-1] < found.demand_upper[0] <= found.upper[0]


# Three linked tables of two categories each: by a and b, b and c, a and c; and all eight combinations of a, b and c.
SIDES = [Dimension.of(3, [-1, 0, 0])] * 3
LINKED = [[[0] if d == left_out else [0, 1, 2] for d in range(3)] for left_out in (2, 0, 1)]
EIGHT = np.array(list(product((1, 2), repeat=3)))
# All ways to put 1 to 6 records there.
COUNTS = np.array(
    [np.bincount(one, minlength=8) for n in range(1, 7) for one in combinations_with_replacement(range(8), n)]
)


def margins_of(layout: Layout, eight: np.ndarray) -> np.ndarray:
    """The cells of the linked tables, from the eight combinations, shape (tables, 8) or (8,)."""
    inside = [((place == EIGHT) | (place == 0)).all(axis=1) for place in layout.places]
    return eight @ np.array(inside).T.astype(int)


def with_eight(eight: np.ndarray) -> tuple[System, System]:
    """The linked tables, and these with the combinations that hold something."""
    layout = Layout.of(SIDES, LINKED)
    system = System.of(layout, margins_of(layout, eight))
    number = {tuple(place): at for at, place in enumerate(layout.places.tolist())}
    there = EIGHT[eight > 0].tolist()
    sums = [[number[tuple(0 if d == out else one[d] for d in range(3))] for one in there] for out in (2, 0, 1)]
    return system, with_parts(system, eight[eight > 0], np.array(sums))


@slow
@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.lists(st.booleans(), min_size=18, max_size=18))
def test_parts_of_linked_tables_say_what_follows_from_all_together(held: list[int], chosen: list[bool]) -> None:
    """Against a list of everything that adds up to the total, which is shown."""
    eight = np.bincount(held, minlength=8)
    system, whole = with_eight(eight)
    hidden = np.array([False, *chosen]) & (system.flat > 0)
    assume(hidden.any())
    least = np.minimum(whole.flat, 1) * (np.arange(whole.cells) < system.cells)
    closed = np.arange(whole.cells) >= system.cells
    gone = np.concatenate([hidden, closed[system.cells :]])
    published = Published.of(whole, gone, least, np.full(whole.cells, np.inf))
    found = intervals(published, np.flatnonzero(hidden).tolist())
    layout = Layout.of(SIDES, LINKED)
    possible = margins_of(layout, COUNTS[(COUNTS[:, eight == 0] == 0).all(axis=1)])
    possible = possible[(possible[:, ~hidden] == system.flat[~hidden]).all(axis=1)]
    possible = possible[(possible[:, hidden] > 0).all(axis=1)]
    assert found.lower.tolist() == possible[:, hidden].min(axis=0).tolist()
    assert found.upper.tolist() == possible[:, hidden].max(axis=0).tolist()


def test_what_tables_of_two_leave_open_a_table_of_three_may_not() -> None:
    """By the equations of the linked tables alone, all cells of a and b are open; with their parts they follow."""
    eight = np.array([0, 1, 1, 0, 1, 0, 0, 1])
    system, whole = with_eight(eight)
    hidden = np.asarray((system.places[:, :2] > 0).all(axis=1))
    alone = intervals(
        Published.of(system, hidden, np.zeros(system.cells, int), np.full(system.cells, np.inf)),
        np.flatnonzero(hidden).tolist(),
    )
    assert (alone.lower < alone.upper).all()
    gone = np.concatenate([hidden, np.ones(4, dtype=bool)])
    known = Published.of(whole, gone, np.zeros(whole.cells, int), np.full(whole.cells, np.inf))
    together = intervals(known, np.flatnonzero(hidden).tolist())
    assert (together.lower == together.upper).all()


def test_parts_that_are_none() -> None:
    system, _ = with_eight(np.ones(8, dtype=int))
    with pytest.raises(InvalidInput, match="do not add up"):
        with_parts(system, np.array([1]), np.array([[3]]))
    with pytest.raises(InvalidInput, match="in one cell of each table"):
        with_parts(system, np.array([1]), np.array([[-1]]))


def test_what_is_no_system() -> None:
    with pytest.raises(InvalidInput, match="form a circle"):
        Dimension.of(3, [-1, 0, -1], [1, -1, 0])
    flat = Dimension.of(3, *FLAT)
    with pytest.raises(InvalidInput, match="name one at least"):
        Layout.of([flat], [])
    several: list[list[list[int]]] = [[[0, 1, 2], [0]], [[3]], [[]]]
    for wrong in several:
        with pytest.raises(InvalidInput, match="A table "):
            Layout.of([flat], [wrong])
    with pytest.raises(InvalidInput, match="one value for each cell"):
        System.of(Layout.of([flat]), [1, 2])
    with pytest.raises(InvalidInput, match="more than 2\\^62 combinations"):
        Layout.of([Dimension.of(2**16)] * 4, [[[0]] * 4])


def test_a_level_of_a_dimension() -> None:
    """A table by sections only: they are the parts of the total, and divisions appear nowhere."""
    nested = Dimension.of(5, *NESTED)
    layout = Layout.of([nested], [[[0, 1, 2]]])
    assert layout.equations.toarray().tolist() == [[1.0, -1.0, -1.0]]
    # Divisions alone add up to nothing that is there.
    assert Layout.of([nested], [[[0, 1, 3, 4]]]).equations.shape == (0, 4)


def test_cells_of_one_owner_in_one_equation() -> None:
    table = Table.of([[5, 5, 0], [2, 2, 0], [3, 3, 0]], [-1, 0, 0], [-1, 0, 0])
    groups = [one.tolist() for one in same_owner(table, np.array([0, 0, 0, 7, 7, 0, 7, 8, 0]))]
    # The rows' totals in the first column are both of owner 7; their parts in the second are of two.
    assert groups == [[3, 6]]
    assert not same_owner(table, np.zeros(9, dtype=np.int64))
