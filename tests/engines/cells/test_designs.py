"""The number of designs, told before the search begins, is the number that the search lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.cells.designs import CrossTable, Search, count_designs, designs
from duckanon.errors import InvalidInput


@st.composite
def searches(draw: st.DrawFn) -> tuple[CrossTable, Search]:
    levels = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    shuffled = draw(st.permutations(range(len(levels))))
    rows, cols = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    merge = draw(st.sets(st.sampled_from(shuffled), max_size=2))
    most = draw(st.none() | st.integers(max(1, cols), 4))
    search = Search(frozenset(shuffled[:rows]), frozenset(shuffled[rows : rows + cols]), most, frozenset(merge))
    codes = np.array([[i % level for i in range(4)] for level in levels])
    return CrossTable(codes, levels, np.array([1, 2, 3, 4])), search


@given(searches())
def test_count(drawn: tuple[CrossTable, Search]) -> None:
    table, search = drawn
    try:
        found = designs(table, search, 5, lambda share: None)
    except InvalidInput:
        found = []
    assert len(found) == count_designs(table, search)
    assert len({(one.rows, one.cols, tuple(sorted(one.merged.items()))) for one in found}) == len(found)
