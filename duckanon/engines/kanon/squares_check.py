"""Whether prices prove a bound on sums of squares, from the table and the prices alone; nothing of the search for them.

Classes of k records are enough: of the classes of k in a larger one, the mean of their prices is k times its mean
price, and the mean of their sums of squares is less than k times what it has a record. Records are taken from the
cheapest to the dearest: the classes of a record and cheaper ones are searched for the one that exceeds its sum by most,
and the record's price falls by that.

The sum of squares of a class is that of the squared distances of its pairs, over its size. So of a class that holds
the s records of a node of the search, what the prices exceed the sum by is at most what these s exceed their part of it
by, and the k - s best of the other records, each by its price less its distances from the s records and half of the
k - s - 1 least that it has from any record, over k.

Sums of squares are floats, with a relative error below 1e-12, by which they are lowered.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.certificate_check import GRAINS, Verdict
from duckanon.engines.kanon.microaggregation.embedding import embedded, of_one_unit
from duckanon.engines.kanon.orders import canonical
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Codes, Floats, Records, check_k
from duckanon.errors import InvalidInput

# Searches look at all pairs of records, and a search has room for classes of this k.
MOST_RECORDS, MOST_K = 5_000, 100
# The relative error that is allowed for; records that a search looks at before it is cut short; a price that is tried
# then, as a part of the last one, and how many are; and records between reports of progress.
_ERROR, _STEPS, _LOWER, _TRIES, _AT_ONCE = 1e-12, 5_000_000, 0.6, 6, 16


class _State(NamedTuple):
    """The records in the order of their prices, and a path of the search: node s holds s records."""

    k: int
    points: Floats  # (n, d)
    prices: Floats  # (n,)
    nearest: Floats  # (n, k): the sum of the least squared distances from others, of 0 .. k - 1 of them
    price: Floats  # (k + 1,): the prices of the records of a node, added up
    pairs: Floats  # (k + 1,): the squared distances of their pairs, added up
    others: Codes  # (k + 1, n): the records that may be added to a node
    away: Floats  # (k + 1, n): the squared distances of each of these from those of the node
    ends: Codes  # (k + 1, 2): the next of them, and past the last
    best: Floats  # (k,): what the best of them add, falling


@inner
def _apart(points: Floats, i: int, j: int) -> float:
    """The squared distance of two records, a little less."""
    total = 0.0
    for c in range(points.shape[1]):
        total += (points[i, c] - points[j, c]) ** 2
    return total * (1.0 - _ERROR)


@inner
def _adds(state: _State, s: int, at: int) -> float:
    """What a record adds at most to a class, beside the s records of the node."""
    i = state.others[s, at]
    return float(state.prices[i] - (state.away[s, at] + 0.5 * state.nearest[i, state.k - s - 1]) / state.k)


@inner
def _most(state: _State, s: int) -> float:
    """What any class below the node exceeds its sum by at most; state.best: what the records beside its own add."""
    missing = state.k - s
    for place in range(missing):
        state.best[place] = -np.inf
    for at in range(state.ends[s, 0], state.ends[s, 1]):
        adds = _adds(state, s, at)
        place = missing
        while place > 0 and state.best[place - 1] < adds:
            if place < missing:
                state.best[place] = state.best[place - 1]
            place -= 1
        if place < missing:
            state.best[place] = adds
    whole = state.price[s] - state.pairs[s] / state.k
    for place in range(missing):
        whole += state.best[place]
    return float(whole)


@inner
def _narrow(state: _State, s: int, worth: float) -> bool:
    """Leave those records to the node that some class worth more may hold; whether there is such a class."""
    above = _most(state, s)
    if above <= worth:
        return False
    kept, last = 0, state.best[state.k - s - 1]
    for at in range(state.ends[s, 0], state.ends[s, 1]):
        # In place of the last of the best, it makes the best class with it.
        if above - last + min(_adds(state, s, at), last) > worth:
            state.others[s, kept], state.away[s, kept] = state.others[s, at], state.away[s, at]
            kept += 1
    state.ends[s, 0], state.ends[s, 1] = 0, kept
    return True


@inner
def _search(state: _State, a: int) -> tuple[float, bool]:
    """What a class of record a and cheaper ones exceeds its sum by at most, or 0; whether the search was cut short."""
    worth, s, steps = 0.0, 1, 0
    state.price[1], state.pairs[1] = state.prices[a], 0.0
    for i in range(a):
        state.others[1, i], state.away[1, i] = i, _apart(state.points, a, i)
    state.ends[1, 0], state.ends[1, 1] = 0, a
    if not _narrow(state, 1, worth):
        return worth, False
    while s > 0:
        at = state.ends[s, 0]
        if at >= state.ends[s, 1]:
            s -= 1
            continue
        if steps > _STEPS:
            for node in range(1, s + 1):
                worth = max(worth, _most(state, node))
            return worth, True
        state.ends[s, 0] += 1
        i = state.others[s, at]
        state.price[s + 1], state.pairs[s + 1] = state.price[s] + state.prices[i], state.pairs[s] + state.away[s, at]
        steps += 1
        if s + 1 == state.k:
            worth = max(worth, state.price[s + 1] - state.pairs[s + 1] / state.k)
            continue
        count = 0
        for later in range(at + 1, state.ends[s, 1]):
            j = state.others[s, later]
            state.others[s + 1, count] = j
            state.away[s + 1, count] = state.away[s, later] + _apart(state.points, i, j)
            count += 1
        steps += count
        state.ends[s + 1, 0], state.ends[s + 1, 1] = 0, count
        if _narrow(state, s + 1, worth):
            s += 1
    return worth, False


@compiled
def _lower(state: _State, first: int, past: int, cut: Codes) -> None:
    """Lower the prices of some records as far as needed. cut: set to 1 where a search was cut short."""
    for a in range(first, past):
        raw = state.prices[a]
        tried, valid = raw, -np.inf
        for _ in range(_TRIES):  # what is left of a lower price may be more, after a search was cut short
            if tried > max(valid, 0.0):
                state.prices[a] = tried
                above, is_short = _search(state, a)
                valid = max(valid, tried - above)
                cut[a] |= 1 if is_short else 0
                tried = tried * _LOWER if is_short else 0.0
        state.prices[a] = valid if raw > 0.0 else raw


def _nearest(points: Floats, most: int) -> Floats:
    """The sum of the least squared distances of each record from others: of 0 .. most - 1 of them."""
    sums = np.zeros((len(points), most))
    for i, own in enumerate(points):
        least = np.sort(((points - own) ** 2).sum(axis=1))[1:most] * (1.0 - 4 * _ERROR)
        sums[i, 1 : len(least) + 1] = np.cumsum(least)
        sums[i, len(least) + 1 :] = sums[i, len(least)]
    return sums


def check_size(n: int, k: int) -> None:
    """Raise InvalidInput for more records, or a larger k, than prices are checked for."""
    if k > MOST_K or n > MOST_RECORDS:
        raise InvalidInput(
            f"Prices for sums of squares are for k up to {MOST_K} and up to {MOST_RECORDS:,} records: choose a smaller "
            "k, or take a part of the table."
        )


def check(
    records: Records, k: int, prices: npt.NDArray[np.int64], progress: Callable[[float], None] = lambda _: None
) -> Verdict:
    """Judge prices of n records in any order, shape (n,), in grains. Of equal records the least price counts.

    Prices are parts of the whole sum of squares, times n.
    """
    check_k(k, len(records))
    check_size(len(records), k)
    along = canonical(records)
    starts = runs(records.take(along))
    of = np.empty(len(records), np.int64)
    of[along] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    least = np.minimum.reduceat(prices[along], starts[:-1])[of] / GRAINS
    order = np.lexsort([of, least])
    points = np.ascontiguousarray(of_one_unit(embedded(records.take(along)))[np.argsort(along)][order])
    n, raw = len(records), least[order]
    state = _State(
        k,
        points,
        raw.copy(),
        _nearest(points, k),
        np.zeros(k + 1),
        np.zeros(k + 1),
        np.zeros((k + 1, n), np.int32),
        np.zeros((k + 1, n)),
        np.zeros((k + 1, 2), np.int32),
        np.zeros(k),
    )
    cut = np.zeros(n, np.int32)
    for first in range(0, n, _AT_ONCE):
        _lower(state, first, min(first + _AT_ONCE, n), cut)
        progress(first / n)
    wrong = state.prices < raw
    too_high = np.unique(of[order][wrong])
    undecided = np.unique(of[order][wrong & (cut > 0)])
    proven, claimed = (
        max(float(record_prices.mean()) * (1.0 - _ERROR) - _ERROR, 0.0) for record_prices in (state.prices, raw)
    )
    return Verdict(not wrong.any(), proven, claimed, len(starts) - 1, len(too_high), len(undecided))
