"""What a record of a class loses on one attribute, for compiled loops: the formula that `records.Space` describes."""

from duckanon.engines.compiled import inlined
from duckanon.engines.kanon.records import Space


@inlined
def range_loss(low: float, high: float, cap: float) -> float:
    """Of an ordered attribute, where the class reaches from `low` to `high`."""
    width = high - low
    return width if width < cap else cap


@inlined
def values_loss(distinct: int, has_null: bool, unit: float, whole: float) -> float:
    """Of a categorical attribute, where the class has so many distinct codes, NULL perhaps one of them."""
    return whole if has_null and distinct > 1 else (distinct - 1) * unit


@inlined
def pair_loss(space: Space, i: int, other: int) -> float:
    """Of all attributes, in the class of two records."""
    points, caps, symbols, nulls, units, whole = space
    loss = 0.0
    for j in range(caps.shape[0]):
        apart = abs(points[i, j] - points[other, j])
        loss += apart if apart < caps[j] else caps[j]
    for j in range(units.shape[0]):
        mine = symbols[i, j]
        its = symbols[other, j]
        if mine != its:
            loss += values_loss(2, mine == nulls[j] or its == nulls[j], units[j], whole[j])
    return loss
