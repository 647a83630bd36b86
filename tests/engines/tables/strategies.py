"""Random records of few variables, and publications of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from hypothesis import strategies as st

from tests.engines.tables.plain import Cell, Publication, Table, margin, rounded

SHAPES = ((2, 2), (3, 2), (2, 2, 2), (3, 2, 2), (2, 3), (2, 2, 3), (4, 2))


@dataclass(frozen=True)
class Case:
    levels: tuple[int, ...]
    truth: Table
    published: tuple[Publication, ...]
    target: tuple[int, ...]

    @property
    def n(self) -> int:
        return sum(self.truth.values())


@st.composite
def publications(draw: st.DrawFn, name: str, levels: tuple[int, ...], truth: Table) -> Publication:
    scope = draw(st.permutations(range(len(levels))))[: draw(st.integers(1, len(levels)))]
    kind = draw(st.sampled_from(["counts", "counts", "shares"]))
    given = tuple(scope[: draw(st.integers(0, len(scope) - 1))]) if kind == "shares" else ()
    variables = tuple(scope[len(given) :])
    to = draw(st.sampled_from([None, None, 3, 2])) if kind == "counts" else draw(st.sampled_from([None, None, 1, 2]))
    every = product(*(range(levels[v]) for v in (*given, *variables)))
    found, rows = margin(truth, (*given, *variables)), margin(truth, given)
    shown = draw(st.booleans())
    cells: dict[Cell, Any] = {}
    halves = False
    for cell in every:
        row = rows[cell[: len(given)]]
        if not row or (shown and not found[cell]):
            continue
        exact = Fraction(found[cell], row) if kind == "shares" else Fraction(found[cell])
        step = to if to is None or kind == "counts" else Fraction(1, 10**to)
        cells[cell] = rounded(exact, step)
        halves |= step is not None and 2 * abs(exact - cells[cell]) == step
    hidden = draw(st.sets(st.sampled_from(sorted(cells)), max_size=3)) if draw(st.booleans()) else set()
    for cell in hidden:
        cells[cell] = None
    complete = True
    if kind == "counts" and draw(st.sampled_from([False, False, True])):
        complete = False
        for cell in draw(st.sets(st.sampled_from(sorted(cells)), max_size=2)):
            if len(cells) > 1:
                del cells[cell]
    ties = draw(st.sampled_from(["any", "up", *([] if halves else ["none"])])) if kind == "shares" else "any"
    return Publication(name, kind, variables, given, to, ties, complete, shown, cells)


@st.composite
def cases(draw: st.DrawFn, most_records: int = 5) -> Case:
    levels = draw(st.sampled_from(SHAPES))
    cells = list(product(*map(range, levels)))
    picked = draw(st.lists(st.sampled_from(cells), min_size=1, max_size=most_records))
    truth = {cell: picked.count(cell) for cell in cells}
    published = tuple(draw(publications(f"t{k}", levels, truth)) for k in range(draw(st.integers(1, 4))))
    covered = sorted({v for one in published for v in one.scope})
    target = tuple(draw(st.permutations(covered))[: draw(st.integers(1, len(covered)))])
    return Case(levels, truth, published, target)
