"""Boxes around runs of neighbouring points, and around pairs of boxes, up to the root: what finds all near points."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inner, inner_allocating
from duckanon.engines.kanon.kernels.loss import pair_loss, tree_loss
from duckanon.engines.kanon.records import Codes, Floats, Space

# Points in a leaf.
LEAF = 8
# Levels of any tree that memory holds, and one more.
_DEEPEST = 64


class Tree(NamedTuple):
    """A binary tree over points in the order given: node v has the children 2v and 2v + 1, the root is 1.

    The last half of the nodes are leaves: leaf `leaves + t` holds points t LEAF .. (t + 1) LEAF - 1.
    """

    leaves: int
    low: Floats  # (2 leaves, p + r)
    high: Floats  # (2 leaves, p + r)
    holds: npt.NDArray[np.uint64]  # (2 leaves, q): bit c mod 64 is set if code c occurs


def new_tree(space: Space) -> Tree:
    """The tree over all points of the space. They should be in an order in which near ones are neighbours."""
    n, p = space.points.shape
    q = space.symbols.shape[1]
    leaves = 1
    while leaves * LEAF < n:
        leaves *= 2
    low = np.full((2 * leaves, p), np.inf)
    high = np.full((2 * leaves, p), -np.inf)
    holds = np.zeros((2 * leaves, q), np.uint64)
    starts = np.arange(0, n, LEAF)
    filled = slice(leaves, leaves + len(starts))
    low[filled] = np.minimum.reduceat(space.points, starts)
    high[filled] = np.maximum.reduceat(space.points, starts)
    bits = np.uint64(1) << (space.symbols & 63).astype(np.uint64)
    holds[filled] = np.bitwise_or.reduceat(bits, starts)
    first = leaves // 2
    while first > 0:
        level, left, right = slice(first, 2 * first), slice(2 * first, 4 * first, 2), slice(2 * first + 1, 4 * first, 2)
        low[level] = np.minimum(low[left], low[right])
        high[level] = np.maximum(high[left], high[right])
        holds[level] = holds[left] | holds[right]
        first //= 2
    return Tree(leaves, low, high, holds)


@inner
def to_node(space: Space, tree: Tree, i: int, v: int) -> float:
    """The loss of any box around point i and a point below node v is no less."""
    loss = 0.0
    for j in range(space.caps.shape[0]):
        x = space.points[i, j]
        gap = max(tree.low[v, j] - x, x - tree.high[v, j])
        if gap > 0.0:
            loss += min(gap, space.caps[j])
    p = space.caps.shape[0]
    for j in range(space.trees.tops.shape[0]):
        # A box around point i and one below the node holds every leaf between point i and the node's.
        x, low, high = space.points[i, p + j], tree.low[v, p + j], tree.high[v, p + j]
        if low <= high:  # a node may be empty
            loss += tree_loss(space.trees, j, x, low) + tree_loss(space.trees, j, high, x)
    for j in range(space.units.shape[0]):
        code = space.symbols[i, j]
        if not (tree.holds[v, j] >> np.uint64(code & 63)) & np.uint64(1):
            loss += space.whole[j] if code == space.nulls[j] else space.units[j]
    return loss


@inner_allocating
def nearest(
    space: Space, tree: Tree, i: int, within: float, leaves: int, neighbours: Codes, apart: Floats
) -> tuple[int, float]:
    """Points nearest to point i and nearer than `within`, the nearest first, into `neighbours` and `apart`.

    Looks into at most so many leaves. Returns how many were found, and a distance below which none was left out.
    """
    room = neighbours.shape[0]
    n = space.points.shape[0]
    count = 0
    complete = within
    # Nodes still to be looked into and what bounds them: one of each depth, and one more.
    stack, bounds = np.empty(_DEEPEST, np.int64), np.empty(_DEEPEST)
    stack[0] = 1
    bounds[0] = 0.0
    waiting = 1
    looked = 0
    while waiting > 0:
        waiting -= 1
        v, bound = stack[waiting], bounds[waiting]
        if bound >= complete or (count == room and bound >= apart[room - 1]):
            continue
        if looked >= leaves:
            complete = min(complete, bound)
            continue
        if v < tree.leaves:
            left = to_node(space, tree, i, 2 * v)
            right = to_node(space, tree, i, 2 * v + 1)
            nearer = 1 if left <= right else 0
            stack[waiting + nearer], bounds[waiting + nearer] = 2 * v, left
            stack[waiting + 1 - nearer], bounds[waiting + 1 - nearer] = 2 * v + 1, right
            waiting += 2
            continue
        looked += 1
        start = (v - tree.leaves) * LEAF
        for other in range(start, min(start + LEAF, n)):
            if other == i:
                continue
            loss = pair_loss(space, i, other)
            if loss >= complete:
                continue
            if count == room:
                if loss >= apart[room - 1]:
                    complete = min(complete, loss)
                    continue
                complete = min(complete, apart[room - 1])
                count -= 1
            t = count
            while t > 0 and apart[t - 1] > loss:
                apart[t] = apart[t - 1]
                neighbours[t] = neighbours[t - 1]
                t -= 1
            apart[t] = loss
            neighbours[t] = other
            count += 1
    while count > 0 and apart[count - 1] >= complete:
        count -= 1
    return count, complete
