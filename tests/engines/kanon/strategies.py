"""Random records for the engines: few and many values, ties, constants, NULLs, weights, every kind of attribute."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Attribute, Floats, Records, attribute, records


@st.composite
def joins(draw: st.DrawFn, leaves: int) -> Floats:
    """What neighbouring leaves of a random tree lose together: (leaves below their ancestor - 1) / (all - 1)."""
    found, level = np.zeros(leaves - 1), [[leaf] for leaf in range(leaves)]
    while len(level) > 1:
        above: list[list[int]] = [level[0]]
        apart = draw(st.lists(st.booleans(), min_size=len(level) - 1, max_size=len(level) - 1))
        for group, cut in zip(level[1:], apart if not all(apart) else [False] * len(apart), strict=True):
            if cut:
                above.append(group)
            else:
                above[-1] = above[-1] + group
        for group in above:
            inner = found[group[0] : group[-1]]
            inner[inner == 0] = (len(group) - 1) / (leaves - 1)
        level = above
    return found


@st.composite
def attributes(draw: st.DrawFn, n: int, index: int, plain: bool = False) -> Attribute:
    kind = draw(st.sampled_from(["set", "interval"] if plain else ["set", "interval", "bands", "tree"]))
    categorical = kind == "set"
    width = draw(st.sampled_from([0, 1, 2, 5, 1000]))
    value: st.SearchStrategy[int | None] = st.integers(0, width)
    if draw(st.booleans()):
        value = st.none() | value
    values = draw(st.lists(value, min_size=n, max_size=n))
    weight = draw(st.sampled_from([0.0, 0.25, 1.0, 1.0, 3.0]))
    if kind == "tree":
        leaves = min(width, 40) + 1
        codes = [leaves if v is None else v % leaves for v in values]
        tree = draw(joins(leaves))
        levels = np.append(0.0, np.cumsum(tree)) / max(tree.sum(), 1e-9)
        return Attribute(f"a{index}", np.array(codes, np.int32), levels, leaves, leaves - 1.0, weight, joins=tree)
    found = attribute(f"a{index}", np.array(values, dtype=object), categorical=categorical, weight=weight)
    return replace(found, floor=1 / (found.span + 1)) if kind == "bands" and found.distinct else found


@st.composite
def tables(
    draw: st.DrawFn, min_size: int = 2, max_size: int = 12, max_attributes: int = 4, *, plain: bool = False
) -> Records:
    """Records in canonical order, as the methods get them. plain: without bands and hierarchies."""
    n = draw(st.integers(min_size, max_size))
    m = draw(st.integers(1, max_attributes))
    drawn = [draw(attributes(n, j, plain)) for j in range(m)]
    if all(a.weight == 0 for a in drawn):
        drawn[0] = replace(drawn[0], weight=1.0)
    found = records(drawn)
    return found.take(canonical(found))
