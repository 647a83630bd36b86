"""What a class would lose with another record in the place of one of its own. For the search for rings."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inner, inner_exact_sums
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.records import Codes, Floats, Space, Trees

Bits = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


class Block(NamedTuple):
    """Some classes and their records, both numbered from 0: what one thread works on."""

    points: Floats  # (n, p + r), as in Space
    symbols: Codes  # (n, q), as in Space
    label: Codes  # (n,): the class of each record
    inside: Codes  # (classes, most): the records of each class
    size: Codes  # (classes,)
    cost: Floats  # (classes,): loss, summed over the records


class Rest(NamedTuple):
    """What the class of each record would be without it."""

    low: Floats  # (n, p + r)
    high: Floats  # (n, p + r)
    distinct: Codes  # (n, q)
    has_null: Flags  # (n, q)
    held: Bits  # (n, q): which codes are there, modulo 64
    saved: Floats  # (n,): how much less a record of the class would lose


@inner
def strip(c: int, space: Space, block: Block, rest: Rest) -> None:
    """Work out the cost of a class, and what it would be without each of its records."""
    caps, nulls, units, whole = space.caps, space.nulls, space.units, space.whole
    points, symbols, _, inside, size, cost = block
    low, high, distinct, has_null, held, saved = rest
    s = size[c]
    loss = 0.0
    for t in range(s):
        saved[inside[c, t]] = 0.0
    for a in range(points.shape[1]):
        bottom = second_bottom = np.inf
        top = second_top = -np.inf
        lowest = highest = 0
        for t in range(s):
            v = points[inside[c, t], a]
            if v < bottom:
                second_bottom, bottom, lowest = bottom, v, t
            elif v < second_bottom:
                second_bottom = v
            if v > top:
                second_top, top, highest = top, v, t
            elif v > second_top:
                second_top = v
        for t in range(s):
            i = inside[c, t]
            low[i, a] = second_bottom if t == lowest else bottom
            high[i, a] = second_top if t == highest else top
        if a < caps.shape[0]:
            cap = caps[a]
            width = range_loss(bottom, top, cap)
            for t in range(s):
                i = inside[c, t]
                saved[i] += width - range_loss(low[i, a], high[i, a], cap)
        else:
            j = a - caps.shape[0]
            width = tree_loss(space.trees, j, bottom, top)
            for t in range(s):
                i = inside[c, t]
                saved[i] += width - tree_loss(space.trees, j, low[i, a], high[i, a])
        loss += width
    for a in range(symbols.shape[1]):
        for t in range(-1, s):  # the first pass leaves out no record
            distinct_count = 0
            null = False
            bits = np.uint64(0)
            for u in range(s):
                if u == t:
                    continue
                code = symbols[inside[c, u], a]
                fresh = True
                for w in range(u):
                    if w != t and symbols[inside[c, w], a] == code:
                        fresh = False
                        break
                if fresh:
                    distinct_count += 1
                    bits |= np.uint64(1) << np.uint64(code & 63)
                    null |= code == nulls[a]
            part = values_loss(distinct_count, null, units[a], whole[a])
            if t < 0:
                full = part
                loss += part
            else:
                i = inside[c, t]
                distinct[i, a] = distinct_count
                has_null[i, a] = null
                held[i, a] = bits
                saved[i] += full - part
    cost[c] = s * loss


@inner_exact_sums
def ordered_loss(x: int, j: int, points: Floats, low: Floats, high: Floats, caps: Floats) -> float:
    """What the measured attributes of one record of j's class would lose if x took j's place."""
    loss = 0.0
    for a in range(caps.shape[0]):
        v = points[x, a]
        bottom = low[j, a]
        top = high[j, a]
        loss += range_loss(v if v < bottom else bottom, v if v > top else top, caps[a])
    return loss


@inner
def trees_loss(x: int, j: int, points: Floats, low: Floats, high: Floats, p: int, trees: Trees) -> float:
    """The same of the attributes with hierarchies, which stand behind the first p."""
    loss = 0.0
    for a in range(p, points.shape[1]):
        v = points[x, a]
        bottom = low[j, a]
        top = high[j, a]
        loss += tree_loss(trees, a - p, v if v < bottom else bottom, v if v > top else top)
    return loss


@inner
def categorical_loss(
    x: int,
    j: int,
    symbols: Codes,
    nulls: Codes,
    units: Floats,
    whole: Floats,
    distinct: Codes,
    has_null: Flags,
    held: Bits,
    inside: Codes,
    c: int,
    size: int,
) -> float:
    """What the categorical attributes of one record of j's class would lose if x took j's place.

    inside: the records of each class. c, size: j's class, and how many it has.
    """
    loss = 0.0
    for a in range(symbols.shape[1]):
        code = symbols[x, a]
        known = (held[j, a] >> np.uint64(code & 63)) & np.uint64(1) != 0
        if known and nulls[a] > 63:
            known = False
            for t in range(size):
                i = inside[c, t]
                if i != j and symbols[i, a] == code:
                    known = True
                    break
        distinct_count = distinct[j, a] + (0 if known else 1)
        null = has_null[j, a] or code == nulls[a]
        loss += values_loss(distinct_count, null, units[a], whole[a])
    return loss
