"""Random records for the engines: few and many values, ties, constants, NULLs, weights, both kinds of attribute."""

import numpy as np
from hypothesis import strategies as st

from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Attribute, Records, attribute, records


@st.composite
def attributes(draw: st.DrawFn, n: int, index: int) -> Attribute:
    categorical = draw(st.booleans())
    width = draw(st.sampled_from([0, 1, 2, 5, 1000]))
    value: st.SearchStrategy[int | None] = st.integers(0, width)
    if draw(st.booleans()):
        value = st.none() | value
    values = draw(st.lists(value, min_size=n, max_size=n))
    weight = draw(st.sampled_from([0.0, 0.25, 1.0, 1.0, 3.0]))
    return attribute(f"a{index}", np.array(values, dtype=object), categorical=categorical, weight=weight)


@st.composite
def tables(draw: st.DrawFn, min_size: int = 2, max_size: int = 12, max_attributes: int = 4) -> Records:
    """Records in canonical order, as the methods get them."""
    n = draw(st.integers(min_size, max_size))
    m = draw(st.integers(1, max_attributes))
    drawn = [draw(attributes(n, j)) for j in range(m)]
    if all(a.weight == 0 for a in drawn):
        drawn[0] = attribute("a0", drawn[0].codes.tolist(), categorical=drawn[0].categorical)
    found = records(drawn)
    return found.take(canonical(found))
