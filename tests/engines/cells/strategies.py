"""Random knapsacks and tables: few and many rows, equal sums, sums above the target, bounds, no solution at all."""

import numpy as np
from hypothesis import strategies as st

from duckanon.engines.cells.knapsack import FREE, Knapsack, knapsack


@st.composite
def knapsacks(draw: st.DrawFn, *, bounded: bool, most_rows: int = 7) -> Knapsack:
    widest = draw(st.sampled_from([2, 6, 15, 40]))
    factor = draw(st.sampled_from([1, 1, 1, 2, 6]))
    sums = draw(st.lists(st.integers(1, widest), min_size=1, max_size=most_rows))
    used = draw(st.lists(st.integers(0, 8), min_size=len(sums), max_size=len(sums)))
    target = sum(r * nu for r, nu in zip(sums, used, strict=True)) + draw(st.sampled_from([0, 0, 0, 0, 1, 5]))
    uppers = None
    if bounded:
        slack = draw(st.lists(st.none() | st.integers(0, 3), min_size=len(sums), max_size=len(sums)))
        uppers = np.array(
            [FREE if more is None else nu + more for nu, more in zip(used, slack, strict=True)], dtype=np.int64
        )
    found, _ = knapsack(np.array(sums, dtype=np.int64) * factor, target * factor, uppers)
    return found


@st.composite
def tables(draw: st.DrawFn, rows: int = 4, columns: int = 3, most: int = 6) -> list[list[int]]:
    """Counts, each row with a record at least."""
    j = draw(st.integers(1, columns))
    row = st.lists(st.integers(0, most), min_size=j, max_size=j).filter(any)
    return draw(st.lists(row, min_size=1, max_size=rows))
