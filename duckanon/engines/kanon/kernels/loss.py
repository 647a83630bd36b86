"""What a record of a class loses on one attribute, for compiled loops: the formula that `records.Space` describes."""

from duckanon.engines.compiled import inlined, inner
from duckanon.engines.kanon.records import Space, Trees


@inlined
def range_loss(low: float, high: float, cap: float) -> float:
    """Of a measured attribute, where the class reaches from `low` to `high`."""
    width = high - low
    return width if width < cap else cap


@inner
def tree_loss(trees: Trees, j: int, low: float, high: float) -> float:
    """Of the attribute with the j-th hierarchy, where the class has leaves from `low` to `high`: that of their lowest
    common ancestor.
    """
    if not low < high:
        return 0.0
    first, last = int(low), int(high)
    step = trees.powers[last - first]
    left_top = trees.tops[j, step, first]
    right_top = trees.tops[j, step, last - (1 << step)]
    return float(left_top if left_top > right_top else right_top)


@inlined
def values_loss(distinct: int, has_null: bool, unit: float, whole: float) -> float:
    """Of a categorical attribute, where the class has so many distinct codes, NULL perhaps one of them."""
    return whole if has_null and distinct > 1 else (distinct - 1) * unit


@inlined
def pair_loss(space: Space, i: int, other: int) -> float:
    """Of all attributes, in the class of two records."""
    points, caps, symbols, nulls, units, whole, trees = space
    loss = 0.0
    p = caps.shape[0]
    for j in range(p):
        apart = abs(points[i, j] - points[other, j])
        loss += apart if apart < caps[j] else caps[j]
    for j in range(trees.tops.shape[0]):
        leaf = points[i, p + j]
        other_leaf = points[other, p + j]
        loss += tree_loss(
            trees, j, leaf if leaf < other_leaf else other_leaf, other_leaf if leaf < other_leaf else leaf
        )
    for j in range(units.shape[0]):
        code = symbols[i, j]
        other_code = symbols[other, j]
        if code != other_code:
            loss += values_loss(2, code == nulls[j] or other_code == nulls[j], units[j], whole[j])
    return loss
