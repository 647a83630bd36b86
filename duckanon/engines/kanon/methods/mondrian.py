"""Mondrian (LeFevre, DeWitt and Ramakrishnan 2006): halve the records at the median of the widest attribute.

Strict: records with equal values stay together, and an attribute whose halves would be too small is passed over for
the next widest. Relaxed: what lies on the median is dealt out to both halves, so that every node of 2k records or more
is split. Categories are ordered by their codes, leaves of a hierarchy as they stand in it. Bounds are tight: what is
released are the records' own ends, not those of the cut.
"""

import numpy as np

from duckanon.engines.array_kernels import argsort, assign
from duckanon.engines.compiled import allocating
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.loss import tree_loss
from duckanon.engines.kanon.records import Codes, Floats, Records, Trees, trees_of


@allocating
def _split(codes: Codes, places: Floats, trees: Trees, tree: Codes, k: int, relaxed: bool) -> Labels:
    """codes: (m, n). places: (m, codes), where each code lies on its attribute, times the weight. tree: (m,), the
    number of each attribute's hierarchy, -1 for none.
    """
    m, n = codes.shape
    labels = np.empty(n, np.int32)
    members = np.empty(n, np.int32)
    for i in range(n):
        members[i] = i
    used = 0
    width = np.empty(m)
    # What is still to be split: start and stop. The nodes on it share no record, and each has k or more.
    stack = np.empty((n // k + 2, 2), np.int64)
    assign(stack[0], (0, n))
    waiting = 1
    while waiting > 0:
        waiting -= 1
        start, stop = stack[waiting]
        count = stop - start
        here = members[start:stop]
        cut = 0
        if count >= 2 * k:
            for j in range(m):
                least = codes[j, here[0]]
                most = least
                for i in here:
                    least = min(least, codes[j, i])
                    most = max(most, codes[j, i])
                if tree[j] < 0:
                    width[j] = places[j, most] - places[j, least]
                else:
                    width[j] = tree_loss(trees, tree[j], float(least), float(most))
            for j in argsort(-width):
                if width[j] <= 0.0:
                    break
                own = np.empty(count)
                for t in range(count):
                    own[t] = codes[j, here[t]]
                order = argsort(own)
                cut = count // 2
                if not relaxed:
                    # Up to the median, then what is above it.
                    median = own[order[(count - 1) // 2]]
                    cut = 0
                    for code in own:
                        if code <= median:
                            cut += 1
                if cut >= k and count - cut >= k:
                    moved = here.copy()
                    for t in range(count):
                        here[t] = moved[order[t]]
                    break
                cut = 0
        if cut == 0:
            for i in here:
                labels[i] = used
            used += 1
        else:
            assign(stack[waiting], (start + cut, stop))
            assign(stack[waiting + 1], (start, start + cut))
            waiting += 2
    return labels


def mondrian(records: Records, k: int, *, relaxed: bool = False) -> Labels:
    """Labels of n records in canonical order. Shape (n,). O(m n + n log n) a level, about log2(n / k) levels."""
    attributes = records.attributes
    codes = np.stack([a.codes for a in attributes])
    places = np.zeros((len(attributes), max(a.distinct for a in attributes) + 1))
    for j, a in enumerate(attributes):
        places[j, : a.distinct] = a.positions * a.scale
        # A node that mixes NULL with values loses all of the attribute.
        places[j, a.distinct] = (2.0 if a.distinct else 0.0) * a.scale
    deep = np.array([a.joins is not None for a in attributes])
    tree = np.where(deep, np.cumsum(deep) - 1, -1).astype(np.int32)
    return _split(codes, places, trees_of([a for a in attributes if a.joins is not None]), tree, k, relaxed)
