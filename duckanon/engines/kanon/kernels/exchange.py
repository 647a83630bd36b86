"""Cyclic exchange: a record takes another's place in its class, that one a third's, until the last takes the first's.

Of every ring that lowers the loss, one can start anywhere such that the loss sums to less than nothing all the way
round (Lin and Kernighan 1973). So a search that goes on only while the sum is negative misses no ring, and meets few
dead ends; it is cut to the best few continuations at each step. The neighbourhood is that of Thompson and Psaraftis
1993, and of Ahuja, Orlin and Sharma 2003.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.kernels.neighbours import Graph
from duckanon.engines.kanon.kernels.replacement import Block, Rest, categorical_loss, ordered_loss, strip, trees_loss
from duckanon.engines.kanon.records import Codes, Floats, Space

# Records of one point that are looked at, when near ones are asked for.
_COPIES = 2
# A change of the loss below this is rounding.
_NOTHING = 1e-10
# Positions, caps and what hierarchies lose are rounded to multiples of this, so that sums of them are exact.
_GRID = 2.0**-44


class Scratch(NamedTuple):
    """Room for the search: of a ring's records so far, and of the best continuations at each step."""

    path: Codes  # (deepest + 1,)
    spent: Floats  # (deepest + 1,)
    next_record: Codes  # (deepest, widest)
    next_spent: Floats  # (deepest, widest)
    kept: Codes  # (deepest,)
    tried: Codes  # (deepest,)
    ring: Codes  # (deepest + 1,)
    classes: Codes  # those that changed
    queue: Codes  # (n,): records that may start a ring
    waiting: Codes  # (n,): 1 for those in the queue
    met: Codes  # (classes,)


class Links(NamedTuple):
    """The near records of each record of a block, the nearest first."""

    start: Codes  # (n + 1,)
    near: Codes
    apart: npt.NDArray[np.float32]  # loss of a class of the two


@inner
def _keep(level: int, count: int, width: int, after: float, j: int, spent: Floats, records: Codes) -> int:
    """Let record j, with a sum of `after`, be among the `width` best continuations of a level; how many there are."""
    s = count
    if count == width:
        s -= 1
        if after >= spent[level, s]:
            return count
    while s > 0 and spent[level, s - 1] > after:
        spent[level, s] = spent[level, s - 1]
        records[level, s] = records[level, s - 1]
        s -= 1
    spent[level, s] = after
    records[level, s] = j
    return count + 1 if count < width else width


@inner
def _search(
    i: int, space: Space, block: Block, rest: Rest, links: Links, beam: Codes, scratch: Scratch, token: int
) -> tuple[int, float, int]:
    """The best ring found that starts with record i leaving its class: its records into `scratch.ring`.

    ring[t] takes the place of ring[t + 1], the last one that of ring[0]. beam: how many continuations are tried at
    each step. scratch.met: by class, which token it met last; tokens up to the one returned are used up.

    Returns the number of records in the ring, 0 if there is none, what it gains, and the last token used.
    """
    caps, nulls, units, whole, trees = space.caps, space.nulls, space.units, space.whole, space.trees
    points, symbols, label, inside, size, cost = block
    low, high, distinct, has_null, held, saved = rest
    start, near, apart = links
    path, spent, kept, tried, ring, met = (
        scratch.path,
        scratch.spent,
        scratch.kept,
        scratch.tried,
        scratch.ring,
        scratch.met,
    )
    next_record, next_spent = scratch.next_record, scratch.next_spent
    p, r, q = caps.shape[0], trees.tops.shape[0], symbols.shape[1]
    deepest = beam.shape[0]
    home = label[i]
    spent[0] = 0.0
    least = -_NOTHING
    length = 0
    path[0] = i
    level = 0
    expand = True
    while level >= 0:
        if expand:
            expand = False
            x = path[level]
            before = spent[level]
            count = 0
            token += 1
            for t in range(level + 1):
                met[label[path[t]]] = token
            for e in range(start[x], start[x + 1]):
                c = label[near[e]]
                # The class would hold both x and the near record, unless that is the one which leaves.
                if met[c] == token or before + size[c] * apart[e] - cost[c] >= -_NOTHING:
                    continue
                met[c] = token
                for t in range(size[c]):
                    j = inside[c, t]
                    if before - size[c] * saved[j] >= -_NOTHING:
                        continue
                    loss = ordered_loss(x, j, points, low, high, caps)
                    if r > 0:
                        loss += trees_loss(x, j, points, low, high, p, trees)
                    if q > 0:
                        loss += categorical_loss(
                            x, j, symbols, nulls, units, whole, distinct, has_null, held, inside, c, size[c]
                        )
                    after = before + size[c] * loss - cost[c]
                    if after >= -_NOTHING:
                        continue
                    if after - size[home] * saved[i] < least:
                        loss = ordered_loss(j, i, points, low, high, caps)
                        if r > 0:
                            loss += trees_loss(j, i, points, low, high, p, trees)
                        if q > 0:
                            loss += categorical_loss(
                                j, i, symbols, nulls, units, whole, distinct, has_null, held, inside, home, size[home]
                            )
                        closed = after + size[home] * loss - cost[home]
                        if closed < least:
                            least = closed
                            length = level + 2
                            for s in range(level + 1):
                                ring[s] = path[s]
                            ring[level + 1] = j
                    if level + 1 < deepest:
                        count = _keep(level, count, beam[level], after, j, next_spent, next_record)
            kept[level] = count
            tried[level] = 0
        if tried[level] < kept[level]:
            s = tried[level]
            tried[level] += 1
            path[level + 1] = next_record[level, s]
            spent[level + 1] = next_spent[level, s]
            level += 1
            expand = True
        else:
            level -= 1
    return length, -least, token


@inner
def _turn(ring: Codes, length: int, block: Block, classes: Codes) -> None:
    """Give each record of a ring the place of the next one; the classes changed, into `classes`."""
    label, inside, size = block.label, block.inside, block.size
    for t in range(length):
        classes[t] = label[ring[t]]
    for t in range(length):
        out = ring[(t + 1) % length]
        c = classes[(t + 1) % length]
        for u in range(size[c]):
            if inside[c, u] == out:
                inside[c, u] = ring[t]
                break
        label[ring[t]] = c


@compiled
def _rings(space: Space, block: Block, rest: Rest, links: Links, beam: Codes, scratch: Scratch) -> float:
    """Turn rings until no record starts one that is found; what that gained.

    All records are waiting in the queue, all classes are listed as changed, and none was met.
    """
    label, inside, size, cost = block.label, block.inside, block.size, block.cost
    ring, classes, queue, waiting = scratch.ring, scratch.classes, scratch.queue, scratch.waiting
    n = label.shape[0]
    head, count = 0, n
    token = 0
    gained = 0.0
    changed = size.shape[0]
    while changed > 0:
        for t in range(changed):
            c = classes[t]
            strip(c, space, block, rest)
            for u in range(size[c]):
                j = inside[c, u]
                if waiting[j] == 0:
                    waiting[j] = 1
                    queue[(head + count) % n] = j
                    count += 1
        changed = 0
        while count > 0 and changed == 0:
            i = queue[head]
            head = (head + 1) % n
            count -= 1
            waiting[i] = 0
            if cost[label[i]] > _NOTHING:
                changed, gain, token = _search(i, space, block, rest, links, beam, scratch, token)
        if changed > 0:
            gained += gain
            _turn(ring, changed, block, classes)
    return gained


def _block(space: Space, slot: Codes, members: Codes, base: int, largest: int) -> Block:
    """The classes of some records, numbered from `base` in `slot`, with room for `largest` records each."""
    label = slot[members] - np.int32(base)
    size = np.bincount(label).astype(np.int32)
    order = np.argsort(label, kind="stable").astype(np.int32)
    rank = np.arange(len(label)) - np.repeat(np.cumsum(size) - size, size)
    inside = np.zeros((len(size), largest), np.int32)
    inside[label[order], rank] = order
    points = np.rint(space.points[members] / _GRID) * _GRID
    return Block(points, space.symbols[members], label, inside, size, np.zeros(len(size)))


def _room(block: Block, beam: Codes) -> tuple[Rest, Scratch]:
    """What the search for rings writes to."""
    (n, p), q, rooms = block.points.shape, block.symbols.shape[1], len(block.size)
    deepest, widest = len(beam), int(beam.max())
    numbers = [np.empty(shape, np.int32) for shape in (deepest + 1, (deepest, widest), deepest, deepest)]
    path, next_record, kept, tried = numbers
    ring, classes = np.empty(deepest + 1, np.int32), np.arange(max(rooms, deepest + 1), dtype=np.int32)
    every = np.arange(n, dtype=np.int32)
    return (
        Rest(
            np.empty((n, p)),
            np.empty((n, p)),
            np.empty((n, q), np.int32),
            np.empty((n, q), np.bool_),
            np.empty((n, q), np.uint64),
            np.empty(n),
        ),
        Scratch(
            path,
            np.zeros(deepest + 1),
            next_record,
            np.empty((deepest, widest)),
            kept,
            tried,
            ring,
            classes,
            every,
            np.ones(n, np.int32),
            np.full(rooms, -1, np.int32),
        ),
    )


@compiled
def _link(graph: Graph, slot: Codes, here: Codes, members: Codes, base: int, rooms: int, links: Links) -> int:
    """Write into `links` the near records of each member among the members; how many there are.

    Their slots are base .. base + rooms - 1.
    """
    point, first, near, apart = graph
    start, neighbours, far = links
    count = 0
    start[0] = 0
    for r in range(members.shape[0]):
        x = point[members[r]]
        for s in range(-1, near.shape[1]):
            y = x if s < 0 else near[x, s]
            if y < 0:
                break
            copies = 0
            for i in range(first[y], first[y + 1]):
                # Another thread may be changing the slots of its own block; they are out of this range all the while.
                if 0 <= slot[i] - base < rooms and here[i] != r:
                    neighbours[count] = here[i]
                    far[count] = apart[x, s] if s >= 0 else 0.0
                    count += 1
                    copies += 1
                    if copies == _COPIES:
                        break
        start[r + 1] = count
    return count


def exchange(
    space: Space, graph: Graph, slot: Codes, here: Codes, members: Codes, base: int, largest: int, beam: Codes
) -> float:
    """Turn rings among the classes of one block until none is found; what that gained, summed over records.

    slot: the class of each record of the table; those of the block's `members` are base, base + 1, .. and hold at
    most `largest` records. here: room by record. Of both, only the members' entries are changed. beam: how many
    continuations of a ring are tried from its first record, its second, and so on; its length is that of the longest
    ring less one.
    """
    trees = space.trees._replace(tops=np.rint(space.trees.tops / _GRID) * _GRID)
    space = space._replace(caps=np.rint(space.caps / _GRID) * _GRID, trees=trees)
    n = len(members)
    here[members] = np.arange(n, dtype=np.int32)
    block = _block(space, slot, members, base, largest)
    rest, scratch = _room(block, beam)
    most = n * (graph.near.shape[1] + 1) * _COPIES
    links = Links(np.empty(n + 1, np.int32), np.empty(most, np.int32), np.empty(most, np.float32))
    _link(graph, slot, here, members, base, len(block.size), links)
    gained = _rings(space, block, rest, links, beam, scratch)
    slot[members] = base + block.label
    return gained
