"""Whether prices prove a bound, from the table and the prices alone; no code is shared with the search for prices.

Classes of k records are enough: a larger one has the mean price, and at least the mean loss, of the k among them. By
branch and bound (docs/algorithms/kanon-methods.md): a node of the search is how far its classes reach at least from
their dearest point in each direction (up, down, away in a hierarchy, to a category), and the candidates for them. On
each attribute a class loses how far it reaches in all directions, at most the attribute's cap.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.array_kernels import sort
from duckanon.engines.compiled import compiled, inlined, inner
from duckanon.engines.kanon.orders import canonical, hilbert
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Records, check_k
from duckanon.errors import InvalidInput

Whole = npt.NDArray[np.int64]
# Losses are whole numbers of 2^-40, rounded down. A key is a loss times 2^22, plus the number of a point.
GRAINS, MOST_K, _BITS, _POINT = 1 << 40, 1_000, 22, (1 << 22) - 1
# Keys that a search looks at before it is cut short, nodes on its path, and points between reports of progress.
_STEPS, _DEPTH, _AT_ONCE = 10_000_000, 250, 64


class _State(NamedTuple):
    """Distinct points in rows from 0, a tree (node v, over 2v and 2v + 1, is row v XOR the leaves), and a search."""

    k: int
    prices: Whole  # (points,)
    low: Whole  # (rows, attributes): the least place: grains where it is measured, a leaf of a hierarchy, a code
    high: Whole  # (rows, attributes): the greatest place
    measured: int  # attributes, which come first
    ordered: int  # these and the hierarchies
    cap: Whole  # (attributes,): the most that one loses; a grain more where it is measured
    unit: Whole  # (categorical ones,): what each further code loses
    null: Whole  # (categorical ones,): the code that stands for NULL
    ways: Whole  # (attributes + 1,): the first direction of each
    tops: Whole  # (hierarchies, steps, leaves): what they lose, by `powers` as in `records.Trees`
    powers: Whole
    copies: Whole  # (rows,): how many records are at each point, 0 for points dearer than the one at hand
    keys: Whole  # the candidates of all nodes on the path
    nodes: Whole  # (depth, 8): first key, past the last, a loss of no use; split: attribute, way, off, from, 1 if done
    reach: Whole  # (ways,): how far each class of the node at hand reaches
    total: Whole  # (attributes,): that, added up
    dearest: Whole  # (k,): candidates
    held: Whole  # (k,): those of the class that attains a bound


@inlined
def _off(state: _State, j: int, a: int, y: int) -> tuple[int, int]:
    """In which direction a place lies from point a on an attribute, and how far."""
    x, way, c = state.low[a, j], state.ways[j], j - state.ordered
    if j < state.measured:
        return way + (1 if y > x else 0), abs(x - y)
    if c >= 0:
        far = state.cap[j] if x == state.null[c] or y == state.null[c] else state.unit[c]
        return way + y, far if x != y else 0
    step = state.powers[abs(x - y)]
    tops = state.tops[j - state.measured, step]
    return way, max(tops[min(x, y)], tops[max(x, y) - (1 << step)]) if x != y else 0


@inner
def _loss(state: _State, a: int, row: int, most: int) -> int:
    """What the node at hand loses with a point, or at least with any below a node of the tree; or `most` or more."""
    loss = 0
    for j in range(state.cap.shape[0]):
        way, off = _off(state, j, a, min(max(state.low[a, j], state.low[row, j]), state.high[row, j]))
        far = min(state.total[j] + max(off - state.reach[way], 0), state.cap[j])
        loss += far - (1 if far > 0 and j < state.measured else 0)  # two places, each rounded down by up to a grain
        if loss >= most:
            break
    return loss


@inner
def _gather(state: _State, a: int, most: int) -> int:
    """Make keys of the points with which point a loses less than `most`; how many there are."""
    leaves, count, v = state.low.shape[0] // 2, 0, 1
    while v > 0:
        is_near = _loss(state, a, v ^ leaves, most) < most
        if is_near and v < leaves:
            v *= 2
            continue
        if is_near and state.copies[v ^ leaves] > 0:
            state.keys[count] = v ^ leaves
            count += 1
        while v & 1:  # to the next node that is not below this one
            v >>= 1
        v += 1 if v > 0 else 0
    return count


@inner
def _bound(state: _State, level: int, source: int, a: int, best: int) -> int:
    """What no class of keys from `source` on is worth more than, or `best`; the one that attains it is in held."""
    keys, dearest, prices, most, node = state.keys, state.dearest, state.prices, state.k - 1, state.nodes[level]
    last, bound, together, count = node[0], best, prices[a], 0
    for s in range(source, node[1]):
        t = keys[s] & _POINT
        way, off = _off(state, node[3], a, state.low[t, node[3]])
        loss = _loss(state, a, t, node[2])
        if loss < node[2] and (node[7] == 0 or way != node[4] or off < node[5]):
            keys[last] = loss << _BITS | t
            last += 1
    node[1] = last
    sort(keys[node[0] : last], last - node[0])
    for s in range(node[0], last):
        t, loss = keys[s] & _POINT, keys[s] >> _BITS
        for _ in range(min(state.copies[t], most)):
            place = count
            while place > 0 and prices[dearest[place - 1]] < prices[t]:
                dearest[place] = dearest[place - 1]
                place -= 1
            dearest[place] = t
            together += prices[t] - (prices[dearest[most]] if count == most else 0)
            count = min(count + 1, most)
        worth = together - state.k * loss
        if count == most and worth > bound and (s + 1 == last or keys[s + 1] >> _BITS > loss):
            bound = worth
            for g in range(most):
                state.held[g] = dearest[g]
    return bound


@inner
def _split(state: _State, level: int, a: int) -> int:
    """How much the class that attains a bound adds in one direction, at most: the split of its node."""
    most, node = 0, state.nodes[level]
    for g in range(state.k - 1):
        for j in range(state.cap.shape[0]):
            way, off = _off(state, j, a, state.low[state.held[g], j])
            adds = min(state.total[j] + off - state.reach[way], state.cap[j]) - min(state.total[j], state.cap[j])
            if adds > most:
                most, node[3], node[4], node[5], node[6] = adds, j, way, off, state.reach[way]
    return most


@inner
def _search(state: _State, a: int, most: int) -> tuple[int, int]:
    """What no class of point a and cheaper ones is worth more than, or 0; and 1 if the search was cut short, else 0."""
    nodes, best, above, level, source, spent, is_short = state.nodes, 0, 0, 0, 0, 0, 0
    nodes[0, 0], nodes[0, 1], nodes[0, 2], nodes[0, 7] = 0, _gather(state, a, most), most, 0
    while level >= 0:
        node, adds = nodes[level], 0
        if is_short == 0:
            spent += node[1] - source + 1
            bound = _bound(state, level, source, a, best)
            above = bound if level == 0 else above
            adds = _split(state, level, a) if bound > best else 0
            best = bound if adds == 0 else best  # then the class is in the node's box, or none is worth more
            if adds > 0 and (spent > _STEPS or level + 2 == _DEPTH or 2 * node[1] - node[0] > state.keys.shape[0]):
                is_short = 1
        if adds > 0 and is_short == 0:
            source, level = node[0], level + 1
            nodes[level, 0], nodes[level, 1], nodes[level, 2], nodes[level, 7] = node[1], node[1], node[2], 0
            state.total[node[3]] += node[5] - node[6]
            state.reach[node[4]] = node[5]
            continue
        level -= 1
        if level >= 0:
            node = nodes[level]
            source, node[7] = node[0], 1
            state.total[node[3]] -= node[5] - node[6]
            state.reach[node[4]] = node[6]
    return max(best, above * is_short), is_short


@compiled
def _take(state: _State, some: Whole, copies: Whole, cut: Whole) -> None:
    """Lower the prices of the next points as far as needed. cut: set to 1 where a search was cut short."""
    for s in range(some.shape[0]):
        a = some[s]
        raw = state.prices[a]
        tried, valid = raw, raw if raw <= 0 else -(1 << 62)
        state.copies[a] = copies[a] - 1
        while tried > max(valid, 0):  # what is left of a lower price may be more, after a search was cut short
            state.prices[a] = tried
            above, is_short = _search(state, a, raw)
            cut[a] |= is_short
            valid, tried = max(valid, tried - above), tried * 3 // 5 * is_short
        state.copies[a], state.prices[a] = copies[a], valid


class Verdict(NamedTuple):
    """What a check found. Of the prices as claimed, and of what is proven: those too high count with what is left."""

    valid: bool
    proven: float
    claimed: float
    points: int
    too_high: int
    undecided: int  # of those too high: lowered after a search that was cut short


def check(records: Records, k: int, prices: Whole, progress: Callable[[float], None] = lambda _: None) -> Verdict:
    """Judge prices of n records in any order, shape (n,), in grains. Of equal records the least price counts."""
    check_k(k, len(records))
    if k > MOST_K:
        raise InvalidInput(f"Prices are checked for k up to {MOST_K:,}: choose a smaller k.")
    telling = tuple(a for a in records.attributes if a.scale > 0) or (max(records.attributes, key=lambda a: a.weight),)
    along = canonical(relevant := Records(telling))
    starts = runs(relevant.take(along))
    n, heads = len(starts) - 1, along[starts[:-1]]
    if n > 1 << _BITS:
        raise InvalidInput(f"Prices are checked for up to {1 << _BITS:,} distinct combinations: check a part of them.")
    near = hilbert(relevant.take(heads))
    of = np.empty(len(records), np.int32)
    of[along] = np.repeat(np.argsort(near), np.diff(starts))
    # No price of use is farther from 0, and sums of 2k of them are whole numbers of 64 bits.
    raw = np.full(n, 2 * k * GRAINS)
    np.minimum.at(raw, of, np.maximum(prices, -2 * k * GRAINS))
    copies, cut, order = np.diff(starts)[near].astype(np.int64), np.zeros(n, np.int64), np.argsort(raw, kind="stable")
    state = _state(relevant.take(heads[near]), k, raw.copy())
    for first in range(0, n, _AT_ONCE):
        _take(state, order[first : first + _AT_ONCE], copies, cut)
        progress(first / n)
    wrong, (proven, claimed) = state.prices < raw, (_proven(u[of], records.floor) for u in (state.prices, raw))
    return Verdict(not wrong.any(), proven, claimed, n, int(wrong.sum()), int(cut[wrong].sum()))


def _state(points: Records, k: int, prices: Whole) -> _State:
    """Distinct points, and room for searches."""
    space, n, nulls = points.space, len(points), points.space.nulls.astype(np.int64)
    p, ordered, leaves = len(space.caps), space.points.shape[1], 1 << (n - 1).bit_length()
    wholes = (space.points[:, :p], space.caps, space.units, space.whole, space.trees.tops)
    places, caps, units, whole, tops = (np.floor(measure * GRAINS).astype(np.int64) for measure in wholes)
    places = np.concatenate([places, space.points[:, p:].astype(np.int64), space.symbols], axis=1)
    low = places[np.minimum(np.arange(2 * leaves), n - 1)]
    high, rows = low.copy(), np.arange(2 * leaves) ^ leaves
    for above in [1 << level for level in range(leaves.bit_length() - 1)][::-1]:
        here, below = rows[above : 2 * above], rows[2 * above : 4 * above].reshape(-1, 2)
        low[here], high[here] = low[below].min(axis=1), high[below].max(axis=1)
    caps = np.concatenate([caps + 1, np.full(ordered - p, GRAINS), whole])
    units = np.minimum(units, whole // np.maximum(nulls - 1, 1))  # all codes lose no more than the cap
    ways = np.cumsum([0] + [2] * p + [1] * (ordered - p) + [*(nulls + 1)])
    sizes = (2 * leaves, 6 * n + (1 << 16), (_DEPTH, 8), ways[-1], len(caps), k, k)
    room = (np.zeros(size, np.int64) for size in sizes)
    tables = (nulls, ways, tops, space.trees.powers.astype(np.int64))
    return _State(k, prices, low, high, p, ordered, caps, units, *tables, *room)


def _proven(prices: Whole, floor: float) -> float:
    """The information loss that prices of all records prove, rounded down. floor: as in `Records`."""
    mean = int(prices.astype(object).sum()) / (GRAINS * len(prices))
    return max(float(np.nextafter(np.nextafter(mean, -1.0) + floor, -1.0)), 0.0)
