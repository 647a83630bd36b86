"""The loop of ruin and recreate: dissolve a few neighbouring classes, build new ones greedily, keep what loses less."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inner
from duckanon.engines.kanon.kernels.box import class_losses
from duckanon.engines.kanon.kernels.neighbours import Graph
from duckanon.engines.kanon.records import Codes, Floats, Space

Bits = npt.NDArray[np.uint64]

# Records of one point that are looked up, when its classes are asked for.
_COPIES = 2


class Ruin(NamedTuple):
    """How much to dissolve at a time."""

    fewest: int  # classes, at least
    most: int  # classes, at most
    visits: float  # how often to start from each record of the block, on average
    seed: int
    heat: float  # how much worse a change may be, about; 0 takes none


@inner
def _draw(state: Bits) -> int:
    """The next 63 random bits (xorshift64)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(x >> np.uint64(1))  # type: ignore[return-value]


@inner
def _classes_nearby(
    record: int, graph: Graph, slot: Codes, base: int, rooms: int, seen: Codes, token: int, state: Bits, found: Codes
) -> int:
    """Classes of this block that hold the record's point or a near one, the nearest first, into `found`; how many."""
    point, first, near, _ = graph
    here = point[record]
    count = 0
    for s in range(-1, near.shape[1]):
        there = here if s < 0 else near[here, s]
        if there < 0:
            break
        start = first[there]
        copies = first[there + 1] - start
        for t in range(min(copies, _COPIES)):
            if copies > _COPIES:
                t = _draw(state) % copies
            c = slot[start + t] - base
            # Another thread may be changing the slots of its own block; they are out of this range before and after.
            if c >= 0 and c < rooms and seen[c] != token:
                seen[c] = token
                found[count] = c
                count += 1
    return count


class Classes(NamedTuple):
    """The classes of one block, with room for as many as its records could make."""

    inside: Codes  # (rooms, 2k - 1): the records of each
    size: Codes  # (rooms,): 0 for a class that is not there
    cost: Floats  # (rooms,): loss, summed over the records
    free: Codes  # (rooms,): numbers of those that are not there
    seen: Codes  # (rooms,): in which visit each was met


class Pool(NamedTuple):
    """Records of dissolved classes, those not yet placed in front. One row an attribute."""

    numbers: Floats  # (p, limit)
    codes: Codes  # (q, limit)
    names: Codes  # (limit,)
    after: Floats  # (limit,): the growing class's loss, up to a constant, if this record joined
    key: Floats  # (limit,): the record with the least one is the next seed


class Built(NamedTuple):
    """The classes that are built from the pool, and what is being dissolved."""

    low: Floats  # (built, p)
    high: Floats  # (built, p)
    distinct: Codes  # (built, q)
    has_null: npt.NDArray[np.bool_]  # (built, q)
    placed: Codes  # (built, 2k - 1): records
    filled: Codes  # (built,): how many
    lost: Floats  # (built,): loss of one record
    offsets: Codes  # (q + 1,): where each attribute's codes start in `held`
    held: Codes  # (built, codes): in which visit the class took each code in
    chosen: Codes  # classes that are dissolved
    found: Codes  # classes nearby


def _classes(space: Space, slot: Codes, members: Codes, base: int, k: int) -> Classes:
    """The block's classes as they are. members: class by class."""
    rooms, label = len(members) // k, slot[members] - np.int32(base)
    size = np.bincount(label, minlength=rooms)
    starts = np.append(0, np.cumsum(size)).astype(np.int32)
    order = np.argsort(label, kind="stable")
    inside = np.zeros((rooms, 2 * k - 1), np.int32)
    inside[label[order], np.arange(len(order)) - np.repeat(starts[:-1], size)] = members[order]
    cost = class_losses(space, members[order], starts)
    return Classes(inside, size.astype(np.int32), cost, np.empty(rooms, np.int32), np.full(rooms, -1, np.int32))


def _room(space: Space, graph: Graph, k: int, ruin: Ruin) -> tuple[Pool, Built]:
    """What `_rebuild` writes to."""
    p, q = space.points.shape[1], space.symbols.shape[1]
    limit, built = 2 * ruin.most * k, 2 * ruin.most + 1
    offsets = np.append(0, np.cumsum(space.nulls + 1)).astype(np.int32)
    pool = Pool(
        np.empty((p, limit)),
        np.empty((q, limit), np.int32),
        np.empty(limit, np.int32),
        np.empty(limit),
        np.empty(limit),
    )
    return pool, Built(
        np.empty((built, p)),
        np.empty((built, p)),
        np.zeros((built, q), np.int32),
        np.zeros((built, q), np.bool_),
        np.empty((built, 2 * k - 1), np.int32),
        np.empty(built, np.int32),
        np.empty(built),
        offsets,
        np.zeros((built, int(offsets[q])), np.int32),
        np.empty(built, np.int32),
        np.empty((graph.near.shape[1] + 1) * _COPIES, np.int32),
    )


def rebuild(space: Space, graph: Graph, slot: Codes, members: Codes, base: int, k: int, ruin: Ruin) -> float:
    """Improve the classes of one block in place; what that gained, summed over records.

    members: the block's records, class by class. slot: the class of each record of the table; those of this block
    are base, base + 1, .. and each has k .. 2k - 1 records. Only the block's own entries are changed.
    """
    classes = _classes(space, slot, members, base, k)
    pool, built = _room(space, graph, k, ruin)
    return _rebuild(space, graph, slot, members, base, k, ruin, classes, pool, built, np.empty(1, np.uint64))


@compiled
def _rebuild(
    space: Space,
    graph: Graph,
    slot: Codes,
    members: Codes,
    base: int,
    k: int,
    ruin: Ruin,
    classes: Classes,
    pool: Pool,
    built: Built,
    state: Bits,
) -> float:
    points, caps, symbols, nulls, units, whole = space
    fewest, most, visits, seed, heat = ruin
    p = points.shape[1]
    q = symbols.shape[1]
    largest = 2 * k - 1
    limit = 2 * most * k
    total = members.shape[0]
    rooms = total // k
    state[0] = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(88172645463325252)
    for _ in range(10):
        _draw(state)

    inside, size, cost, free, seen = classes
    numbers, codes, names, after, key = pool
    low, high, distinct, has_null, placed, filled, lost, offsets, held, chosen, found = built
    unused = 0
    for c in range(rooms):
        if size[c] == 0:
            free[unused] = c
            unused += 1
    gained = 0.0
    begin = _draw(state) % total

    for visit in range(max(1, int(visits * total))):
        record = members[(begin + visit) % total]
        start = slot[record] - base
        if cost[start] <= 1e-12:
            continue
        token = visit + 1
        seen[start] = token
        chosen[0] = start
        ruined = 1
        count = int(size[start])
        wanted = fewest + _draw(state) % (most - fewest + 1)
        old = cost[start]
        nearby = _classes_nearby(record, graph, slot, base, rooms, seen, token, state, found)
        for t in range(nearby):
            c = found[t]
            if ruined >= wanted:
                break
            # Leave out one in four: the nearest classes again and again would always give the same pool.
            if _draw(state) & 3 == 0 or count + size[c] > limit:
                continue
            chosen[ruined] = c
            ruined += 1
            count += size[c]
            old += cost[c]
        if ruined < 2:
            continue
        # What the new classes must stay below.
        worst = old - 1e-10
        if heat > 0.0:
            worst -= heat * np.log((_draw(state) + 1.0) / 2.0**63)

        left = 0
        for s in range(ruined):
            c = chosen[s]
            for t in range(size[c]):
                i = inside[c, t]
                names[left] = i
                for j in range(p):
                    numbers[j, left] = points[i, j]
                for j in range(q):
                    codes[j, left] = symbols[i, j]
                left += 1
        made = left // k
        if made > 1 and _draw(state) % 10 == 0:
            made -= 1

        # Seeds: any, or outliers first, as seen from one record or from three.
        how = _draw(state) % 3
        if how == 0:
            for t in range(left):
                key[t] = float(_draw(state))
        else:
            for t in range(left):
                key[t] = 0.0
            for _ in range(1 if how == 1 else 3):
                g = _draw(state) % left
                for j in range(p):
                    v = numbers[j, g]
                    cap = caps[j]
                    for t in range(left):
                        apart = abs(numbers[j, t] - v)
                        key[t] -= apart if apart < cap else cap
                for j in range(q):
                    code = codes[j, g]
                    unit = units[j]
                    for t in range(left):
                        key[t] -= unit if codes[j, t] != code else 0.0

        new = 0.0
        complete = True
        for c in range(made):
            g = 0
            least = np.inf
            for t in range(left):
                if key[t] < least:
                    least = key[t]
                    g = t
            # What each record would add is kept up to date: only attributes that the newcomer stretches change.
            for t in range(left):
                after[t] = 0.0
            for j in range(p):
                v = numbers[j, g]
                low[c, j] = v
                high[c, j] = v
                cap = caps[j]
                for t in range(left):
                    apart = abs(numbers[j, t] - v)
                    after[t] += apart if apart < cap else cap
            for j in range(q):
                code = codes[j, g]
                distinct[c, j] = 1
                has_null[c, j] = code == nulls[j]
                held[c, offsets[j] + code] = token
                unit = whole[j] if has_null[c, j] else units[j]
                for t in range(left):
                    after[t] += unit if codes[j, t] != code else 0.0
                if not has_null[c, j]:
                    for t in range(left):
                        after[t] += whole[j] - units[j] if codes[j, t] == nulls[j] else 0.0
            filled[c] = 0
            while True:
                placed[c, filled[c]] = names[g]
                filled[c] += 1
                left -= 1
                if g != left:
                    names[g] = names[left]
                    key[g] = key[left]
                    after[g] = after[left]
                    for j in range(p):
                        numbers[j, g] = numbers[j, left]
                    for j in range(q):
                        codes[j, g] = codes[j, left]
                if filled[c] == k:
                    break
                least = np.inf
                g = 0
                for t in range(left):
                    if after[t] < least:
                        least = after[t]
                        g = t
                for j in range(p):
                    v = numbers[j, g]
                    bottom = low[c, j]
                    top = high[c, j]
                    if v < bottom or v > top:
                        lower = min(bottom, v)
                        upper = max(top, v)
                        low[c, j] = lower
                        high[c, j] = upper
                        cap = caps[j]
                        for t in range(left):
                            x = numbers[j, t]
                            before = (x if x > top else top) - (x if x < bottom else bottom)
                            now = (x if x > upper else upper) - (x if x < lower else lower)
                            after[t] += (now if now < cap else cap) - (before if before < cap else cap)
                for j in range(q):
                    code = codes[j, g]
                    if held[c, offsets[j] + code] == token:
                        continue
                    values = distinct[c, j]
                    only_null = has_null[c, j]
                    held[c, offsets[j] + code] = token
                    distinct[c, j] += 1
                    if only_null and values > 1:
                        continue  # NULL among values: the attribute is lost already
                    unit = units[j]
                    if only_null or code == nulls[j]:
                        has_null[c, j] = True
                        for t in range(left):
                            other = codes[j, t]
                            if other == code or held[c, offsets[j] + other] != token:
                                if only_null:
                                    after[t] -= whole[j]
                                elif other == nulls[j]:
                                    after[t] -= whole[j] - (values - 1) * unit
                                else:
                                    after[t] -= unit
                    else:
                        for t in range(left):
                            after[t] -= unit if codes[j, t] == code or codes[j, t] == nulls[j] else 0.0
            loss = 0.0
            for j in range(p):
                loss += min(high[c, j] - low[c, j], caps[j])
            for j in range(q):
                loss += whole[j] if has_null[c, j] and distinct[c, j] > 1 else (distinct[c, j] - 1) * units[j]
            lost[c] = loss
            new += k * loss
            if new >= worst:
                complete = False
                break
        if not complete:
            continue

        # Left-overs go where they add least.
        while left > 0 and complete:
            left -= 1
            least = np.inf
            best = -1
            with_it = np.inf
            for c in range(made):
                if filled[c] == largest:
                    continue
                loss = 0.0
                for j in range(p):
                    v = numbers[j, left]
                    loss += min(max(high[c, j], v) - min(low[c, j], v), caps[j])
                for j in range(q):
                    code = codes[j, left]
                    values = distinct[c, j]
                    null = has_null[c, j] or code == nulls[j]
                    if held[c, offsets[j] + code] != token:
                        values += 1
                    loss += whole[j] if null and values > 1 else (values - 1) * units[j]
                added = (filled[c] + 1) * loss - filled[c] * lost[c]
                if added < least:
                    least = added
                    best = c
                    with_it = loss
            new += least
            if best < 0 or new >= worst:
                complete = False
                break
            placed[best, filled[best]] = names[left]
            filled[best] += 1
            lost[best] = with_it
            for j in range(p):
                v = numbers[j, left]
                low[best, j] = min(low[best, j], v)
                high[best, j] = max(high[best, j], v)
            for j in range(q):
                code = codes[j, left]
                if held[best, offsets[j] + code] != token:
                    held[best, offsets[j] + code] = token
                    distinct[best, j] += 1
                    if code == nulls[j]:
                        has_null[best, j] = True
        if not complete or new >= worst:
            continue

        gained += old - new
        for s in range(ruined):
            free[unused] = chosen[s]
            unused += 1
        for c in range(made):
            unused -= 1
            r = free[unused]
            size[r] = filled[c]
            cost[r] = size[r] * lost[c]
            for t in range(filled[c]):
                i = placed[c, t]
                inside[r, t] = i
                slot[i] = base + r
        for t in range(ruined - made):
            size[free[unused - 1 - t]] = 0
    return gained
