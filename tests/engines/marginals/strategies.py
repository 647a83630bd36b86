"""Small workloads, and measured marginals."""

from fractions import Fraction
from itertools import combinations

from hypothesis import strategies as st

from duckanon.engines.marginals.residual_spaces import Table
from duckanon.engines.marginals.workload import Workload

MOST_COMBINATIONS = 72
FRACTIONS = st.fractions(min_value=Fraction(1, 8), max_value=8, max_denominator=8)


def small(sizes: tuple[int, ...]) -> bool:
    product = 1
    for size in sizes:
        product *= size
    return product <= MOST_COMBINATIONS


SIZES = st.lists(st.integers(2, 5), min_size=1, max_size=4).map(tuple).filter(small)


def tables(attributes: int) -> st.SearchStrategy[tuple[Table, ...]]:
    every = [table for size in range(attributes + 1) for table in combinations(range(attributes), size)]
    return st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    sizes = draw(SIZES)
    asked = draw(tables(len(sizes)))
    weights = tuple(draw(FRACTIONS) for _ in asked)
    inside = tuple(draw(st.integers(1, size)) for size in sizes)
    return Workload(sizes, asked, weights, inside)


@st.composite
def measurements(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[Table, Fraction]]:
    """Sizes, and variances of the noise of some marginals."""
    sizes = draw(SIZES)
    return sizes, {table: draw(FRACTIONS) for table in draw(tables(len(sizes)))}
