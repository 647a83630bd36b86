"""Ruin and recreate: dissolve neighbouring classes, rebuild them greedily, keep what loses less, again and again.

A few times in between, and at the end, rings of records change places (`exchange`), which rebuilding does not find.
Threads own disjoint blocks of neighbouring classes, cut anew each round along another order. Blocks, seeds and rounds
follow from the table alone, so that a budget in iterations gives the same classes on any number of threads.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np

from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.kernels.exchange import exchange
from duckanon.engines.kanon.kernels.neighbours import Graph, neighbours, shuffled_orders
from duckanon.engines.kanon.kernels.partition import split_large
from duckanon.engines.kanon.kernels.rebuild import Ruin, rebuild
from duckanon.engines.kanon.orders import by_label, hilbert
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Codes, Order, Records, Space
from duckanon.engines.parallel import spread

# Records a block has at least and at most when the table is cut for threads: the fewer the blocks, the fewer near
# records lie beyond a border.
_BLOCK = (8_192, 25_000)
_FEW_BLOCKS = 4
# Up to which k how many classes are dissolved at a time, at least and at most.
_RUINED = ((5, (4, 12)), (20, (2, 5)), (sys.maxsize, (2, 4)))
# With a budget of so many visits times k a change for the worse may pass at first: by about this share of a class's
# mean loss, shrinking to nothing when that share of the budget is spent.
_PATIENCE = 240
_HEAT = 0.1
_COOL = 0.9
# How often rings are turned, how wide each search for them is, and up to which k: with large classes each step costs
# as many trials as a class has records, and rebuilding finds as much.
_TURNS = 10
_WIDTHS = (
    (3, 3, 2),
    (3, 3, 2),
    (4, 4, 3, 2),
    (4, 4, 3, 2),
    (4, 4, 3, 2),
    (6, 4, 3, 2, 2),
    (6, 4, 3, 2, 2),
    (6, 5, 4, 3, 2),
)
_BEAMS = tuple(np.array([*widths, *(1,) * (9 - len(widths))], np.int32) for widths in _WIDTHS)
_NO_RINGS = np.empty(0, np.int32)
_RINGS_UP_TO = 10


class Effort(NamedTuple):
    """How well near points are looked for: orders, neighbours in each, and how many of them are kept."""

    orders: int
    window: int
    near: int


def effort(n: int) -> Effort:
    """The effort for a record of a table of n: it falls slowly between a hundred thousand records and a million."""
    share = min(max(math.log10(n / 100_000), 0.0), 1.0)
    return Effort(round(8 - 2 * share), round(12 - 4 * share), round(24 - 8 * share))


class _Blocks(NamedTuple):
    """A partition dealt out to blocks. A block has room for as many classes as its records could make."""

    members: Codes  # (n,): the records block by block and class by class
    slot: Codes  # (n,): the slot of each record
    starts: Codes  # (blocks + 1,): where each block's records start
    bases: Codes  # (blocks + 1,): where each block's slots start


def _cut(labels: Labels, points: Order, first: Codes, k: int, blocks: int) -> _Blocks:
    """Deal the classes out to blocks of about equal size, in the order in which the points meet them.

    points: an order of the distinct points; the records of point x are first[x] .. first[x + 1] - 1.
    """
    n, sizes = len(labels), np.bincount(labels)
    lengths = np.diff(first)[points]
    along = np.repeat(first[points] - np.cumsum(lengths) + lengths, lengths) + np.arange(n)
    # The classes as they are met along the order, and how many records are in those before each.
    met = np.argsort(_first(labels[along], len(sizes)))
    before = np.cumsum(sizes[met]) - sizes[met]
    # Where each block's classes start in `met`: each but the last ends with the class that completes its share.
    cuts = np.full(blocks + 1, len(met))
    cuts[0] = 0
    for block in range(1, blocks):
        cuts[block] = min(max(np.searchsorted(before * blocks, block * n), cuts[block - 1] + 1), len(met))
    starts = np.append(before, n)[cuts]
    bases = np.append(0, np.cumsum(np.diff(starts) // k))
    rank = np.empty(len(sizes), np.int32)
    rank[met] = np.arange(len(met))
    slots = np.arange(len(met)) + np.repeat(bases[:-1] - cuts[:-1], np.diff(cuts))
    ranks = rank[labels]
    return _Blocks(by_label(ranks), slots[ranks].astype(np.int32), starts.astype(np.int32), bases.astype(np.int32))


def _first(labels: Codes, count: int) -> Codes:
    """Where each of `count` labels stands first; the number of places for those that are not there."""
    n = len(labels)
    first = np.full(count, n, np.int32)
    first[labels[::-1]] = np.arange(n - 1, -1, -1, dtype=np.int32)  # of equal places the last one assigned stays
    return first


def _renumber(slot: Codes, rooms: int) -> Labels:
    """Labels without gaps, numbered as the records meet them."""
    n = len(slot)
    first = _first(slot, rooms)
    met = np.sort(first[first < n])
    numbers = np.empty(n, np.int32)
    numbers[met] = np.arange(len(met), dtype=np.int32)
    labels: Labels = numbers[first[slot]]
    return labels


# A table of few records is tried as often in all.
TRIES = 100_000


@dataclass(frozen=True)
class Budget:
    """How long to go on.

    visits: how often each record is the centre of a try, on average. until: a time on the `monotonic` clock at which
    to stop instead. Only with visits is the result the same every time.
    """

    visits: float
    until: float | None = None


def default_budget(n: int, k: int) -> Budget:
    """Some seconds for tens of thousands of records, half a minute for a million.

    A visit of a large class takes longer, but gains more: at k = 50 the loss falls by 4 % between 6 visits and 12, at
    k = 3 by less than 1 % between 32 and 128.
    """
    few = TRIES / max(n, 100)
    return Budget(max(2.0, few, min(32.0, 600.0 / k) * min(1.0, (50_000 / n) ** 0.8)))


def _blocks(n: int) -> int:
    """How many blocks a table is cut into, whatever the number of threads."""
    least, most = _BLOCK
    if n <= _FEW_BLOCKS * most:
        return max(1, min(n // least, _FEW_BLOCKS))
    # An even number, for two threads to share evenly.
    return 2 * -(-n // (2 * most))


def refine(
    records: Records,
    labels: Labels,
    k: int,
    budget: Budget,
    threads: int = 1,
    progress: Callable[[float], None] = lambda _: None,
    *,
    near: Effort | None = None,
) -> Labels:
    """Improve a partition; it never gets worse. Labels of shape (n,), from 0, of classes of k .. 2k - 1.

    records: in canonical order. labels: shape (n,), from 0, classes of at least k. near: the effort for near points,
    by default that for a table of n records.
    """
    n = len(records)
    labels = split_large(labels, k)
    if n < 2 * k:
        return labels
    # Along a Hilbert curve, what is visited together lies together in memory. Equal records stay together.
    along = hilbert(records, threads)
    improved = np.empty_like(labels)
    improved[along] = _improve(
        records.take(along, threads), labels[along], k, budget, near or effort(n), threads, progress
    )
    return improved


def _round(
    space: Space, graph: Graph, labels: Labels, order: Order, k: int, ruin: Ruin, beam: Codes, threads: int
) -> tuple[Labels, float]:
    """Improve every block once, cut along an order of the points. New labels, and what was gained.

    beam: how wide the search for rings is; an empty one searches for none.
    """
    blocks = _blocks(len(labels))
    # Where each record stands in its block: room that all blocks share, each its own part.
    here = np.empty(len(labels), np.int32)
    members, slot, starts, bases = _cut(labels, order, graph.first, k, blocks)

    def block(b: int) -> float:
        own_members = members[starts[b] : starts[b + 1]]
        if not len(own_members):
            return 0.0
        own = ruin._replace(seed=ruin.seed * blocks + b)
        gained = rebuild(space, graph, slot, own_members, int(bases[b]), k, own)
        if len(beam):
            gained += exchange(space, graph, slot, here, own_members, int(bases[b]), 2 * k - 1, beam)
        return gained

    gained = sum(spread(block, range(blocks), threads))
    return _renumber(slot, int(bases[-1])), gained


def _improve(
    records: Records,
    labels: Labels,
    k: int,
    budget: Budget,
    effort: Effort,
    threads: int,
    progress: Callable[[float], None],
) -> Labels:
    n = len(records)
    first = runs(records)
    points = records.take(first[:-1], threads)
    orders = shuffled_orders(points, effort.orders, threads)
    near, apart = neighbours(points, orders, effort.window, min(effort.near, max(len(points) - 1, 1)), threads)
    graph = Graph(np.repeat(np.arange(len(points), dtype=np.int32), np.diff(first)), first, near, apart)
    fewest, most = next(classes for least, classes in _RUINED if k <= least)
    space = records.space

    began = monotonic()
    step = min(1.0, budget.visits)
    loss = best_loss = total_loss(space, labels)
    best = labels
    done, rounds, turns = 0.0, 0, 0
    while True:
        # The share of the budget that is gone, and that will be after one more round.
        if budget.until is None:
            past, then = done / budget.visits, (done + step) / budget.visits
        else:
            spent, total = monotonic() - began, max(budget.until - began, 1e-9)
            past, then = spent / total, (spent + spent / max(rounds, 1)) / total
        # Stop where the next round would probably end too late.
        over = (past if budget.until is None else then) >= 1.0
        progress(1.0 if over else past)
        if over and (rounds or budget.until is not None):
            return best
        heat = _HEAT * max(0.0, 1.0 - past / _COOL) * k * loss / n if budget.visits * k >= _PATIENCE else 0.0
        ruin = Ruin(fewest, most, step, rounds, heat)
        turn = k <= _RINGS_UP_TO and int(_TURNS * then) > turns
        beam = _BEAMS[min(turns, len(_BEAMS) - 1)] if turn else _NO_RINGS
        labels, gained = _round(space, graph, labels, orders[rounds % len(orders)], k, ruin, beam, threads)
        turns = int(_TURNS * then) if turn else turns
        loss -= gained
        rounds += 1
        done += step
        if loss < best_loss:
            best, best_loss = labels, loss
