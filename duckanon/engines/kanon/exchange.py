"""Cyclic exchange: a record takes another's place in its class, that one a third's, until the last takes the first's.

Of every ring that lowers the loss, one can start anywhere such that the loss sums to less than nothing all the way
round (Lin and Kernighan 1973). So a search that goes on only while the sum is negative misses no ring, and meets few
dead ends; it is cut to the best few continuations at each step. The neighbourhood is that of Thompson and Psaraftis
1993, and of Ahuja, Orlin and Sharma 2003.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inner, inner_exact_sums
from duckanon.engines.kanon.neighbours import Graph
from duckanon.engines.kanon.records import Codes, Floats, Space

Bits = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

# Records of one point that are looked at, when near ones are asked for.
_COPIES = 2
# A change of the loss below this is rounding.
_NOTHING = 1e-10
# Positions and caps are rounded to multiples of this, so that sums of them are exact.
_GRID = 2.0**-44


class Block(NamedTuple):
    """Some classes and their records, both numbered from 0: what one thread works on."""

    points: Floats  # (n, p), as in Space
    symbols: Codes  # (n, q), as in Space
    label: Codes  # (n,): the class of each record
    inside: Codes  # (classes, most): the records of each class
    size: Codes  # (classes,)
    cost: Floats  # (classes,): loss, summed over the records


class Rest(NamedTuple):
    """What the class of each record would be without it."""

    low: Floats  # (n, p)
    high: Floats  # (n, p)
    distinct: Codes  # (n, q)
    has_null: Flags  # (n, q)
    held: Bits  # (n, q): which codes are there, modulo 64
    saved: Floats  # (n,): how much less a record of the class would lose


class Links(NamedTuple):
    """The near records of each record of a block, the nearest first."""

    start: Codes  # (n + 1,)
    near: Codes
    apart: npt.NDArray[np.float32]  # loss of a class of the two


@inner
def _strip(c: int, space: Space, block: Block, rest: Rest) -> None:
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
        width = min(top - bottom, caps[a])
        loss += width
        for t in range(s):
            i = inside[c, t]
            low[i, a] = second_bottom if t == lowest else bottom
            high[i, a] = second_top if t == highest else top
            saved[i] += width - min(high[i, a] - low[i, a], caps[a])
    for a in range(symbols.shape[1]):
        for t in range(-1, s):  # first without nobody
            values = 0
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
                    values += 1
                    bits |= np.uint64(1) << np.uint64(code & 63)
                    null |= code == nulls[a]
            part = whole[a] if null and values > 1 else (values - 1) * units[a]
            if t < 0:
                full = part
                loss += part
            else:
                i = inside[c, t]
                distinct[i, a] = values
                has_null[i, a] = null
                held[i, a] = bits
                saved[i] += full - part
    cost[c] = s * loss


@inner_exact_sums
def _numbers(x: int, j: int, points: Floats, low: Floats, high: Floats, caps: Floats) -> float:
    """What the ordered attributes of one record of j's class would lose if x took j's place."""
    loss = 0.0
    for a in range(points.shape[1]):
        v = points[x, a]
        bottom = low[j, a]
        top = high[j, a]
        cap = caps[a]
        width = (v if v > top else top) - (v if v < bottom else bottom)
        loss += width if width < cap else cap
    return loss


@inner
def _sets(
    x: int,
    j: int,
    symbols: Codes,
    nulls: Codes,
    units: Floats,
    whole: Floats,
    distinct: Codes,
    has_null: Flags,
    held: Bits,
    members: Codes,
) -> float:
    """What the categorical attributes of one record of j's class would lose if x took j's place."""
    loss = 0.0
    for a in range(symbols.shape[1]):
        code = symbols[x, a]
        known = (held[j, a] >> np.uint64(code & 63)) & np.uint64(1) != 0
        if known and nulls[a] > 63:
            known = False
            for i in members:
                if i != j and symbols[i, a] == code:
                    known = True
                    break
        values = distinct[j, a] + (0 if known else 1)
        null = has_null[j, a] or code == nulls[a]
        loss += whole[a] if null and values > 1 else (values - 1) * units[a]
    return loss


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
    return min(count + 1, width)


@inner
def _search(
    i: int, space: Space, block: Block, rest: Rest, links: Links, beam: Codes, seen: Codes, token: int, ring: Codes
) -> tuple[int, float, int]:
    """The best ring found that starts with record i leaving its class: its records into `ring`.

    ring[t] takes the place of ring[t + 1], the last one that of ring[0]. beam: how many continuations are tried at
    each step. seen: by class, which token it met last; tokens up to the one returned are used up.

    Returns the number of records in the ring, 0 if there is none, what it gains, and the last token used.
    """
    _, caps, _, nulls, units, whole = space
    points, symbols, label, inside, size, cost = block
    low, high, distinct, has_null, held, saved = rest
    start, near, apart = links
    q = symbols.shape[1]
    deepest = beam.shape[0]
    widest = beam.max()
    path = np.empty(deepest + 1, np.int32)
    spent = np.zeros(deepest + 1)
    next_record = np.empty((deepest, widest), np.int32)
    next_spent = np.empty((deepest, widest))
    kept = np.zeros(deepest, np.int32)
    tried = np.zeros(deepest, np.int32)
    home = label[i]
    least = -_NOTHING
    found = 0
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
                seen[label[path[t]]] = token
            for e in range(start[x], start[x + 1]):
                c = label[near[e]]
                # The class would hold both x and the near record, unless that is the one which leaves.
                if seen[c] == token or before + size[c] * apart[e] - cost[c] >= -_NOTHING:
                    continue
                seen[c] = token
                for t in range(size[c]):
                    j = inside[c, t]
                    if before - size[c] * saved[j] >= -_NOTHING:
                        continue
                    loss = _numbers(x, j, points, low, high, caps)
                    if q:
                        members = inside[c, : size[c]]
                        loss += _sets(x, j, symbols, nulls, units, whole, distinct, has_null, held, members)
                    after = before + size[c] * loss - cost[c]
                    if after >= -_NOTHING:
                        continue
                    if after - size[home] * saved[i] < least:
                        loss = _numbers(j, i, points, low, high, caps)
                        if q:
                            members = inside[home, : size[home]]
                            loss += _sets(j, i, symbols, nulls, units, whole, distinct, has_null, held, members)
                        closed = after + size[home] * loss - cost[home]
                        if closed < least:
                            least = closed
                            found = level + 2
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
    return found, -least, token


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


@inner
def _rings(space: Space, block: Block, rest: Rest, links: Links, beam: Codes) -> float:
    """Turn rings until no record starts one that is found; what that gained."""
    label, inside, size, cost = block.label, block.inside, block.size, block.cost
    n = label.shape[0]
    for c in range(size.shape[0]):
        _strip(c, space, block, rest)
    queue = np.arange(n).astype(np.int32)
    waiting = np.ones(n, np.bool_)
    head, count = 0, n
    ring = np.empty(beam.shape[0] + 1, np.int32)
    classes = np.empty(beam.shape[0] + 1, np.int32)
    seen = np.full(size.shape[0], -1, np.int32)
    token = 0
    gained = 0.0
    while count > 0:
        i = queue[head]
        head = (head + 1) % n
        count -= 1
        waiting[i] = False
        if cost[label[i]] <= _NOTHING:
            continue
        length, gain, token = _search(i, space, block, rest, links, beam, seen, token, ring)
        if length == 0:
            continue
        gained += gain
        _turn(ring, length, block, classes)
        for t in range(length):
            c = classes[t]
            _strip(c, space, block, rest)
            for u in range(size[c]):
                j = inside[c, u]
                if not waiting[j]:
                    waiting[j] = True
                    queue[(head + count) % n] = j
                    count += 1
    return gained


@inner
def _block(space: Space, slot: Codes, members: Codes, base: int, largest: int) -> Block:
    """The classes of some records, numbered from `base` in `slot`, with room for `largest` records each."""
    n = members.shape[0]
    points = np.empty((n, space.points.shape[1]))
    symbols = np.empty((n, space.symbols.shape[1]), np.int32)
    label = np.empty(n, np.int32)
    rooms = 0
    for r in range(n):
        label[r] = slot[members[r]] - base
        rooms = max(rooms, label[r] + 1)
        for a in range(points.shape[1]):
            points[r, a] = np.rint(space.points[members[r], a] / _GRID) * _GRID
        for a in range(symbols.shape[1]):
            symbols[r, a] = space.symbols[members[r], a]
    inside = np.empty((rooms, largest), np.int32)
    size = np.zeros(rooms, np.int32)
    for r in range(n):
        c = label[r]
        inside[c, size[c]] = r
        size[c] += 1
    return Block(points, symbols, label, inside, size, np.zeros(rooms))


@inner
def _links(graph: Graph, slot: Codes, here: Codes, members: Codes, base: int, rooms: int) -> Links:
    """Near records of each member among the members, whose slots are base .. base + rooms - 1."""
    point, first, near, apart = graph
    n = members.shape[0]
    start = np.zeros(n + 1, np.int32)
    found = np.empty(n * (near.shape[1] + 1) * _COPIES, np.int32)
    far = np.empty(found.shape[0], np.float32)
    count = 0
    for r in range(n):
        x = point[members[r]]
        for s in range(-1, near.shape[1]):
            y = x if s < 0 else near[x, s]
            if y < 0:
                break
            copies = 0
            for i in range(first[y], first[y + 1]):
                # Another thread may be changing the slots of its own block; they are out of this range all the while.
                if 0 <= slot[i] - base < rooms and here[i] != r:
                    found[count] = here[i]
                    far[count] = apart[x, s] if s >= 0 else 0.0
                    count += 1
                    copies += 1
                    if copies == _COPIES:
                        break
        start[r + 1] = count
    return Links(start, found[:count], far[:count])


@compiled
def exchange(
    space: Space, graph: Graph, slot: Codes, here: Codes, members: Codes, base: int, largest: int, beam: Codes
) -> float:
    """Turn rings among the classes of one block until none is found; what that gained, summed over records.

    slot: the class of each record of the table; those of the block's `members` are base, base + 1, .. and hold at
    most `largest` records. here: room by record. Of both, only the members' entries are changed. beam: how many
    continuations of a ring are tried from its first record, its second, and so on; its length is that of the longest
    ring less one.
    """
    points, caps, symbols, nulls, units, whole = space
    space = Space(points, np.rint(caps / _GRID) * _GRID, symbols, nulls, units, whole)
    for r in range(members.shape[0]):
        here[members[r]] = r
    block = _block(space, slot, members, base, largest)
    n, q = block.symbols.shape
    shape = block.points.shape
    rest = Rest(
        np.empty(shape),
        np.empty(shape),
        np.empty((n, q), np.int32),
        np.empty((n, q), np.bool_),
        np.empty((n, q), np.uint64),
        np.empty(n),
    )
    gained = _rings(space, block, rest, _links(graph, slot, here, members, base, block.size.shape[0]), beam)
    for r in range(n):
        slot[members[r]] = base + block.label[r]
    return gained
