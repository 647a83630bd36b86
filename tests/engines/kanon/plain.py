"""The same quantities as the engines', computed the slow and obvious way. Twins to test against."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import SupportsInt

import numpy as np

from duckanon.engines.kanon.records import Attribute, Records


def class_loss(records: Records, members: Sequence[int]) -> float:
    """Loss of one record of a class, by the conventions of the design page, less what every record loses."""
    loss = 0.0
    for a in records.attributes:
        codes = [int(a.codes[i]) for i in members]
        values = [c for c in codes if c != a.distinct]
        if values and len(values) < len(codes):
            part = 1.0
        elif not values:
            part = 0.0
        elif a.levels is None:
            part = (len(set(values)) - 1) / max(a.distinct - 1, 1)
        elif a.joins is not None:
            part = max(a.joins[min(values) : max(values)], default=0.0)
        else:
            part = float(a.levels[max(values)] - a.levels[min(values)])
        loss += a.scale * part
    return loss


def classes_of(labels: Iterable[SupportsInt]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for i, label in enumerate(labels):
        found.setdefault(int(label), []).append(i)
    return list(found.values())


def total_loss(records: Records, classes: Sequence[Sequence[int]]) -> float:
    return sum(len(c) * class_loss(records, c) for c in classes)


def consecutive_partitions(n: int, k: int) -> Iterator[list[range]]:
    """Every way to cut 0..n-1 into runs of at least k."""
    if n == 0:
        yield []
    for size in range(k, n + 1):
        for rest in consecutive_partitions(n - size, k):
            yield [*rest, range(n - size, n)]


def set_partitions(items: Sequence[int], k: int) -> Iterator[list[list[int]]]:
    """Every partition of `items` into classes of k .. 2k - 1 (larger ones never lose less)."""
    if not items:
        yield []
        return
    first, rest = items[0], list(items[1:])
    for mask in range(1 << len(rest)):
        size = 1 + mask.bit_count()
        if k <= size <= 2 * k - 1:
            inside = [first, *(x for b, x in enumerate(rest) if mask >> b & 1)]
            for others in set_partitions([x for b, x in enumerate(rest) if not mask >> b & 1], k):
                yield [inside, *others]


def optimum(records: Records, k: int) -> float:
    return min(total_loss(records, p) for p in set_partitions(range(len(records)), k))


def greedy(records: Records, k: int, by_class: bool = False, farthest: bool = False) -> list[list[int]]:
    """Algorithm 2, over records in variance order; or, with `farthest`, K-Member."""
    free = list(range(len(records)))
    classes: list[list[int]] = []
    while len(free) >= k:
        seed = 0
        if farthest and classes:
            apart = [class_loss(records, [classes[-1][0], i]) for i in free]
            seed = next(t for t, x in enumerate(apart) if x >= max(apart) - 1e-12)
        members = [free.pop(seed)]
        while len(members) < k:
            losses = [class_loss(records, [*members, i]) for i in free]
            least = min(losses)
            pick = next(t for t, loss in enumerate(losses) if loss <= least + 1e-12)
            members.append(free.pop(pick))
        classes.append(members)
    for i in free:

        def cost(c: list[int], i: int = i) -> float:
            after = class_loss(records, [*c, i])
            return after if by_class else (len(c) + 1) * after - len(c) * class_loss(records, c)

        costs = [cost(c) for c in classes]
        classes[next(t for t, x in enumerate(costs) if x <= min(costs) + 1e-12)].append(i)
    return classes


def mondrian(records: Records, k: int, relaxed: bool) -> list[list[int]]:
    """Strict or relaxed Mondrian, over records in canonical order."""

    def width(a: Attribute, members: list[int]) -> float:
        if a.joins is not None:
            both = [*(a.joins * a.scale), a.scale]
            return max(both[min(a.codes[members]) : max(a.codes[members])], default=0.0)
        places = [*(a.positions * a.scale), 2.0 * a.scale if a.distinct else 0.0]
        return places[max(a.codes[members])] - places[min(a.codes[members])]

    def split(members: list[int]) -> list[list[int]]:
        if len(members) < 2 * k:
            return [members]
        for a in sorted(records.attributes, key=lambda a: -width(a, members)):
            if width(a, members) <= 0:
                break
            line = sorted(members, key=lambda i: a.codes[i])
            median = a.codes[line[(len(line) - 1) // 2]]
            cut = len(line) // 2 if relaxed else sum(a.codes[i] <= median for i in line)
            if cut >= k and len(line) - cut >= k:
                return split(line[:cut]) + split(line[cut:])
        return [members]

    return split(list(range(len(records))))


def box_bound(records: Records, k: int) -> float:
    """Mean over records of the least loss of a class of k that holds the record."""
    n = len(records)
    least = [
        min(class_loss(records, [i, *others]) for others in combinations([j for j in range(n) if j != i], k - 1))
        for i in range(n)
    ]
    return float(np.mean(least))
