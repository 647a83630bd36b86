"""Freeform generalisation (Doka, Xue, Tsoumakos and Karras 2015): baselines that are not k-anonymous by Definition 2.

Each record's cell covers k records, and each record lies in k cells: a graph of k disjoint matchings, of which the
first matches every record with itself. But the cells of two records need not be equal, so there are no classes, and
fewer than k records may share what is released. Liang and Samavi 2020, section 4.3, compare with all three.

Each round matches all records once more, by what a match adds to the loss of the record's cell. `doka_greedy` lets
records choose in variance order, `doka_sortgreedy` takes pairs by rising loss, `doka_hungarian` finds the cheapest
matching. Where a greedy round leaves a record without a partner, earlier choices are taken back along a path.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from duckanon.engines.array_kernels import assign
from duckanon.engines.compiled import allocating, compiled, inner_allocating
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.criteria.classes import ClassBoxes, joined_loss, record_boxes, take
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.records import Codes, Floats, Records
from duckanon.engines.kanon.utility import Utility, freeform_utility
from duckanon.errors import InvalidInput


@allocating
def _weights(grown: ClassBoxes, own: ClassBoxes, members: Codes, rounds: int, both: ClassBoxes) -> Floats:
    """What covering record j too adds to the cell of record i, shape (n, n); infinity where it is covered already.

    both: room for two boxes.
    """
    n = grown.size.shape[0]
    added = np.empty((n, n))
    for i in range(n):
        before = joined_loss(grown, i, i)
        for j in range(n):
            assign(both.low[0], grown.low[i])
            assign(both.high[0], grown.high[i])
            assign(both.holds[0], grown.holds[i])
            assign(both.low[1], own.low[j])
            assign(both.high[1], own.high[j])
            assign(both.holds[1], own.holds[j])
            both.size[0] = 1
            added[i, j] = joined_loss(both, 0, 1) - before
        for r in range(rounds):
            added[i, members[i, r]] = np.inf
    return added


@inner_allocating
def _complete(added: Floats, match: Codes, back: Codes) -> None:
    """Match every record that has no partner yet, along a shortest path of choices taken back.

    match: the partner of each record or -1; back: whose partner each record is or -1. (Every record may still take
    n - r others and be taken by as many, so there is a matching, and a path to it.)
    """
    n = match.shape[0]
    came = np.empty(n, np.int32)
    queue = np.empty(n, np.int32)
    for start in range(n):
        if match[start] >= 0:
            continue
        came[:] = -1
        queue[0] = start
        head, stored, end = 0, 1, -1
        while end < 0:
            i = queue[head]
            head += 1
            for j in range(n):
                if came[j] >= 0 or added[i, j] == np.inf:
                    continue
                came[j] = i
                if back[j] < 0:
                    end = j
                    break
                queue[stored] = back[j]
                stored += 1
        while end >= 0:
            i = came[end]
            before = match[i]
            match[i] = end
            back[end] = i
            end = before


@allocating
def _in_order(added: Floats) -> Codes:
    """Each record takes its cheapest free partner, the first one in a tie."""
    n = added.shape[0]
    match = np.full(n, -1, np.int32)
    back = np.full(n, -1, np.int32)
    for i in range(n):
        least = np.inf
        for j in range(n):
            if back[j] < 0 and added[i, j] < least:
                least = added[i, j]
                match[i] = j
        if match[i] >= 0:
            back[match[i]] = i
    _complete(added, match, back)
    return match


@allocating
def _matched(added: Floats, pairs: Codes) -> Codes:
    """Take pairs (i, j), numbered i n + j, in their order, while both are free."""
    n = added.shape[0]
    match = np.full(n, -1, np.int32)
    back = np.full(n, -1, np.int32)
    for pair in pairs:
        i = pair // n
        j = pair % n
        if match[i] < 0 and back[j] < 0 and added[i, j] < np.inf:
            match[i] = j
            back[j] = i
    _complete(added, match, back)
    return match


def _by_loss(added: Floats) -> Codes:
    return _matched(added, np.argsort(added, axis=None, kind="stable").astype(np.int32))


def _cheapest(added: Floats) -> Codes:
    from scipy.optimize import linear_sum_assignment

    # No matching needs a covered pair, so what stands for infinity must only be more than any matching costs.
    finite = np.where(np.isfinite(added), added, 2.0 * len(added))
    return np.asarray(linear_sum_assignment(finite)[1], dtype=np.int32)


@dataclass(frozen=True)
class Freeform:
    """A method: how a round is matched, and for how many records at most."""

    match: Callable[[Floats], Codes]
    most: int


FREEFORM: Mapping[str, Freeform] = {
    "doka_greedy": Freeform(_in_order, 5000),
    "doka_sortgreedy": Freeform(_by_loss, 5000),
    "doka_hungarian": Freeform(_cheapest, 2000),
}


def covered(records: Records, k: int, name: str, control: Control | None = None) -> Codes:
    """Which k records each record's cell covers, itself first. Shape (n, k).

    Raises InvalidInput if there are more records than the method takes.
    """
    method, n = FREEFORM[name], len(records)
    if n > method.most:
        raise InvalidInput(f"Method '{name}' takes up to {method.most:,} rows: try it on a sample.")
    order = canonical(records)
    own = record_boxes(records.take(order))
    grown = take(own, np.arange(n))
    both = take(own, np.zeros(2, np.intp))
    members = np.empty((n, k), np.int32)
    members[:, 0] = np.arange(n)
    for step in range(1, k):
        members[:, step] = method.match(_weights(grown, own, members, step, both))
        _grow(grown, own, members[:, step])
        if control is not None:
            control.progress(step / (k - 1))
    cells = np.empty_like(members)
    cells[order] = order[members]
    return cells


@compiled
def _grow(grown: ClassBoxes, own: ClassBoxes, match: Codes) -> None:
    n, p = grown.low.shape
    for i in range(n):
        for j in range(p):
            grown.low[i, j] = min(grown.low[i, j], own.low[match[i], j])
            grown.high[i, j] = max(grown.high[i, j], own.high[match[i], j])
        for w in range(grown.holds.shape[1]):
            grown.holds[i, w] |= own.holds[match[i], w]


def measure(
    records: Records, k: int, name: str, target: Codes | None = None, control: Control | None = None
) -> Utility:
    """Utility of what a freeform method releases; `min_class` shows that it is not k-anonymous."""
    return freeform_utility(records, covered(records, k, name, control), target)
