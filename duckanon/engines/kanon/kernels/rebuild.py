"""The loop of ruin and recreate: dissolve a few neighbouring classes, build new ones greedily, keep what loses less."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import compiled, inlined, inner
from duckanon.engines.kanon.kernels.box import class_losses
from duckanon.engines.kanon.kernels.loss import range_loss, tree_loss, values_loss
from duckanon.engines.kanon.kernels.neighbours import Graph
from duckanon.engines.kanon.kernels.random_bits import Bits, random_bits
from duckanon.engines.kanon.records import Codes, Floats, Space

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
def _classes_nearby(
    record: int, graph: Graph, slot: Codes, base: int, rooms: int, met: Codes, token: int, state: Bits, nearby: Codes
) -> int:
    """Classes of this block that hold the record's point or a near one, the nearest first, into `nearby`; how many."""
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
                t = random_bits(state) % copies
            c = slot[start + t] - base
            # Another thread may be changing the slots of its own block; they are out of this range before and after.
            if c >= 0 and c < rooms and met[c] != token:
                met[c] = token
                nearby[count] = c
                count += 1
    return count


class Classes(NamedTuple):
    """The classes of one block, with room for as many as its records could make."""

    inside: Codes  # (rooms, 2k - 1): the records of each
    size: Codes  # (rooms,): 0 for a class that is not there
    cost: Floats  # (rooms,): loss, summed over the records
    free: Codes  # (rooms,): numbers of those that are not there
    met: Codes  # (rooms,): in which visit each was met
    nearby: Codes  # those near the record that is visited
    chosen: Codes  # those that are dissolved


class Pool(NamedTuple):
    """Records of dissolved classes, those not yet placed in front. One row an attribute."""

    numbers: Floats  # (p + r, limit)
    codes: Codes  # (q, limit)
    names: Codes  # (limit,)
    after: Floats  # (limit,): the growing class's loss, up to a constant, if this record joined
    key: Floats  # (limit,): the record with the least one is the next seed


class Built(NamedTuple):
    """The classes that are built from the pool."""

    low: Floats  # (built, p + r)
    high: Floats  # (built, p + r)
    distinct: Codes  # (built, q)
    has_null: npt.NDArray[np.bool_]  # (built, q)
    placed: Codes  # (built, 2k - 1): records
    filled: Codes  # (built,): how many
    lost: Floats  # (built,): loss of one record
    offsets: Codes  # (q + 1,): where each attribute's codes start in `held`
    held: Codes  # (built, codes): in which visit the class took each code in


def _classes(space: Space, graph: Graph, slot: Codes, members: Codes, base: int, k: int, most: int) -> Classes:
    """The block's classes as they are. members: class by class. most: how many may be dissolved at a time."""
    rooms, label = len(members) // k, slot[members] - np.int32(base)
    size = np.bincount(label, minlength=rooms)
    starts = np.append(0, np.cumsum(size)).astype(np.int32)
    order = np.argsort(label, kind="stable")
    inside = np.zeros((rooms, 2 * k - 1), np.int32)
    inside[label[order], np.arange(len(order)) - np.repeat(starts[:-1], size)] = members[order]
    free, none = np.empty(rooms, np.int32), np.flatnonzero(size == 0)
    free[: len(none)] = none
    return Classes(
        inside,
        size.astype(np.int32),
        class_losses(space, members[order], starts),
        free,
        np.full(rooms, -1, np.int32),
        np.empty((graph.near.shape[1] + 1) * _COPIES, np.int32),
        np.empty(most, np.int32),
    )


def _pool(space: Space, limit: int) -> Pool:
    """Room for so many records."""
    p, q = space.points.shape[1], len(space.units)
    numbers, codes = np.empty((p, limit)), np.empty((q, limit), np.int32)
    return Pool(numbers, codes, np.empty(limit, np.int32), np.empty(limit), np.empty(limit))


def _built(space: Space, count: int, largest: int) -> Built:
    """Room for so many classes."""
    p, q = space.points.shape[1], len(space.units)
    offsets = np.append(0, np.cumsum(space.nulls + 1)).astype(np.int32)
    return Built(
        np.empty((count, p)),
        np.empty((count, p)),
        np.zeros((count, q), np.int32),
        np.zeros((count, q), np.bool_),
        np.empty((count, largest), np.int32),
        np.empty(count, np.int32),
        np.empty(count),
        offsets,
        np.zeros((count, int(offsets[q])), np.int32),
    )


def _seeded(seed: int) -> Bits:
    """The state of `_draw` to start with."""
    state = np.array([(seed * 0x9E3779B97F4A7C15 + 88172645463325252) % 2**64], np.uint64)
    for _ in range(10):
        for left, bits in ((True, 13), (False, 7), (True, 17)):
            state ^= state << np.uint64(bits) if left else state >> np.uint64(bits)
    return state


def rebuild(space: Space, graph: Graph, slot: Codes, members: Codes, base: int, k: int, ruin: Ruin) -> float:
    """Improve the classes of one block in place; what that gained, summed over records.

    members: the block's records, class by class. slot: the class of each record of the table; those of this block
    are base, base + 1, .. and each has k .. 2k - 1 records. Only the block's own entries are changed.
    """
    classes = _classes(space, graph, slot, members, base, k, ruin.most)
    unused = int(np.count_nonzero(classes.size == 0))
    pool, built = _pool(space, 2 * ruin.most * k), _built(space, 2 * ruin.most + 1, 2 * k - 1)
    return _rebuild(space, graph, slot, members, base, k, ruin, classes, unused, pool, built, _seeded(ruin.seed))


@inner
def _rank(space: Space, pool: Pool, left: int, state: Bits) -> None:
    """Draw the order of the seeds: any, or outliers first, as seen from one record or from three."""
    numbers, codes, key = pool.numbers, pool.codes, pool.key
    how = random_bits(state) % 3
    if how == 0:
        for t in range(left):
            key[t] = float(random_bits(state))
        return
    for t in range(left):
        key[t] = 0.0
    for _ in range(1 if how == 1 else 3):
        g = random_bits(state) % left
        for j in range(space.caps.shape[0]):
            v = numbers[j, g]
            cap = space.caps[j]
            for t in range(left):
                apart = abs(numbers[j, t] - v)
                key[t] -= apart if apart < cap else cap
        p = space.caps.shape[0]
        for j in range(p, numbers.shape[0]):
            v = numbers[j, g]
            for t in range(left):
                x = numbers[j, t]
                key[t] -= tree_loss(space.trees, j - p, x if x < v else v, v if x < v else x)
        for j in range(space.units.shape[0]):
            code = codes[j, g]
            unit = space.units[j]
            for t in range(left):
                key[t] -= unit if codes[j, t] != code else 0.0


@inlined
def _loss_with(space: Space, pool: Pool, built: Built, token: int, c: int, t: int) -> float:
    """Loss of a record of class c with record t of the pool, which may be in it already."""
    low, high, distinct, has_null = built.low, built.high, built.distinct, built.has_null
    loss = 0.0
    for j in range(space.caps.shape[0]):
        v = pool.numbers[j, t]
        bottom = low[c, j]
        top = high[c, j]
        loss += range_loss(v if v < bottom else bottom, v if v > top else top, space.caps[j])
    p = space.caps.shape[0]
    for j in range(p, pool.numbers.shape[0]):
        v = pool.numbers[j, t]
        bottom = low[c, j]
        top = high[c, j]
        loss += tree_loss(space.trees, j - p, v if v < bottom else bottom, v if v > top else top)
    for j in range(space.units.shape[0]):
        code = pool.codes[j, t]
        distinct_count = distinct[c, j]
        null = has_null[c, j] or code == space.nulls[j]
        if built.held[c, built.offsets[j] + code] != token:
            distinct_count += 1
        loss += values_loss(distinct_count, null, space.units[j], space.whole[j])
    return loss


@inner
def _take_in(space: Space, pool: Pool, built: Built, token: int, c: int, g: int, left: int) -> None:
    """Stretch class c over record g of the pool.

    What each record would add is kept up to date: only attributes that the newcomer stretches change.
    """
    numbers, codes, after = pool.numbers, pool.codes, pool.after
    low, high, distinct, has_null = built.low, built.high, built.distinct, built.has_null
    caps, nulls, units, whole = space.caps, space.nulls, space.units, space.whole
    offsets, held = built.offsets, built.held
    for j in range(caps.shape[0]):
        v = numbers[j, g]
        bottom = low[c, j]
        top = high[c, j]
        if v < bottom or v > top:
            lower = v if v < bottom else bottom
            upper = v if v > top else top
            low[c, j] = lower
            high[c, j] = upper
            cap = caps[j]
            for t in range(left):
                x = numbers[j, t]
                before = range_loss(x if x < bottom else bottom, x if x > top else top, cap)
                now = range_loss(x if x < lower else lower, x if x > upper else upper, cap)
                after[t] += now - before
    p = caps.shape[0]
    for j in range(p, numbers.shape[0]):
        v = numbers[j, g]
        bottom = low[c, j]
        top = high[c, j]
        if v < bottom or v > top:
            lower = v if v < bottom else bottom
            upper = v if v > top else top
            low[c, j] = lower
            high[c, j] = upper
            for t in range(left):
                x = numbers[j, t]
                before = tree_loss(space.trees, j - p, x if x < bottom else bottom, x if x > top else top)
                now = tree_loss(space.trees, j - p, x if x < lower else lower, x if x > upper else upper)
                after[t] += now - before
    for j in range(units.shape[0]):
        code = codes[j, g]
        if held[c, offsets[j] + code] == token:
            continue
        held[c, offsets[j] + code] = token
        distinct_before = distinct[c, j]
        distinct[c, j] += 1
        only_null = has_null[c, j]
        has_null[c, j] |= code == nulls[j]
        unit = units[j]
        if distinct_before == 0:
            other_value = whole[j] if has_null[c, j] else unit
            null_too = 0.0 if has_null[c, j] else whole[j] - unit
            for t in range(left):
                after[t] += other_value if codes[j, t] != code else 0.0
                after[t] += null_too if codes[j, t] == nulls[j] else 0.0
        elif only_null and distinct_before > 1:
            continue  # NULL among values: the attribute is lost already
        elif only_null or code == nulls[j]:
            for t in range(left):
                other = codes[j, t]
                if other == code or held[c, offsets[j] + other] != token:
                    if only_null:
                        after[t] -= whole[j]
                    elif other == nulls[j]:
                        after[t] -= whole[j] - (distinct_before - 1) * unit
                    else:
                        after[t] -= unit
        else:
            for t in range(left):
                after[t] -= unit if codes[j, t] == code or codes[j, t] == nulls[j] else 0.0


@inner
def _grow(space: Space, pool: Pool, built: Built, token: int, c: int, left: int, k: int) -> None:
    """Make class c of the next seed and of the k - 1 records that then add least, one after the other."""
    numbers, codes, names, after, key = pool
    for j in range(numbers.shape[0]):
        built.low[c, j] = np.inf
        built.high[c, j] = -np.inf
    for j in range(space.units.shape[0]):
        built.distinct[c, j] = 0
        built.has_null[c, j] = False
    for t in range(left):
        after[t] = 0.0
    for size in range(k):
        least = np.inf
        g = 0
        for t in range(left):
            cost = after[t] if size > 0 else key[t]
            if cost < least:
                least = cost
                g = t
        _take_in(space, pool, built, token, c, g, left)
        built.placed[c, size] = names[g]
        if size == k - 1:
            built.lost[c] = _loss_with(space, pool, built, token, c, g)
        left -= 1
        names[g] = names[left]
        key[g] = key[left]
        after[g] = after[left]
        for j in range(numbers.shape[0]):
            numbers[j, g] = numbers[j, left]
        for j in range(space.units.shape[0]):
            codes[j, g] = codes[j, left]
    built.filled[c] = k


@inner
def _place_rest(
    space: Space,
    pool: Pool,
    built: Built,
    token: int,
    new_count: int,
    left: int,
    largest: int,
    new: float,
    worst: float,
) -> float:
    """Put each record left over where it adds least; what all classes lose then.

    new: what they lose without. Gives up, with infinity, where that is no longer below `worst`.
    """
    filled, lost = built.filled, built.lost
    while left > 0:
        left -= 1
        least = np.inf
        best = -1
        with_it = np.inf
        for c in range(new_count):
            if filled[c] < largest:
                loss = _loss_with(space, pool, built, token, c, left)
                added = (filled[c] + 1) * loss - filled[c] * lost[c]
                if added < least:
                    least = added
                    best = c
                    with_it = loss
        new += least
        if best < 0 or new >= worst:
            return np.inf
        built.placed[best, filled[best]] = pool.names[left]
        filled[best] += 1
        lost[best] = with_it
        _take_in(space, pool, built, token, best, left, 0)
    return new


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
    unused: int,
    pool: Pool,
    built: Built,
    state: Bits,
) -> float:
    """The loop. unused: how many of `classes.free` are there."""
    fewest, most, visits, heat = ruin.fewest, ruin.most, ruin.visits, ruin.heat
    inside, size, cost, free, met, nearby, chosen = classes
    total = members.shape[0]
    gained = 0.0
    begin = random_bits(state) % total
    for visit in range(max(1, int(visits * total))):
        record = members[(begin + visit) % total]
        start = slot[record] - base
        if cost[start] <= 1e-12:
            continue
        token = visit + 1
        met[start] = token
        chosen[0] = start
        ruined = 1
        count = int(size[start])
        goal = fewest + random_bits(state) % (most - fewest + 1)
        old = cost[start]
        near = _classes_nearby(record, graph, slot, base, size.shape[0], met, token, state, nearby)
        for t in range(near):
            c = nearby[t]
            if ruined >= goal:
                break
            # Leave out one in four: otherwise the nearest classes would always give the same pool.
            if random_bits(state) & 3 == 0 or count + size[c] > 2 * most * k:
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
            worst -= heat * np.log((random_bits(state) + 1.0) / 2.0**63)

        left = 0
        for s in range(ruined):
            for t in range(size[chosen[s]]):
                i = inside[chosen[s], t]
                pool.names[left] = i
                for j in range(space.points.shape[1]):
                    pool.numbers[j, left] = space.points[i, j]
                for j in range(space.units.shape[0]):
                    pool.codes[j, left] = space.symbols[i, j]
                left += 1
        new_count = left // k
        if new_count > 1 and random_bits(state) % 10 == 0:
            new_count -= 1
        _rank(space, pool, left, state)
        new = 0.0
        grown = 0
        while grown < new_count and new < worst:
            _grow(space, pool, built, token, grown, left, k)
            left -= k
            new += k * built.lost[grown]
            grown += 1
        if new < worst:
            new = _place_rest(space, pool, built, token, new_count, left, 2 * k - 1, new, worst)
        if new >= worst:
            continue

        gained += old - new
        for s in range(ruined):
            free[unused] = chosen[s]
            unused += 1
        for c in range(new_count):
            unused -= 1
            r = free[unused]
            size[r] = built.filled[c]
            cost[r] = size[r] * built.lost[c]
            for t in range(size[r]):
                inside[r, t] = built.placed[c, t]
                slot[inside[r, t]] = base + r
        for t in range(ruined - new_count):
            size[free[unused - 1 - t]] = 0
    return gained
