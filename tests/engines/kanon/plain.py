"""The same quantities as the engines', computed the slow and obvious way. Twins to test against."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from duckanon.engines.kanon.records import Records


def class_loss(records: Records, members: Sequence[int]) -> float:
    """Loss of one record of a class, by the conventions of the design page."""
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
        else:
            part = float(a.levels[max(values)] - a.levels[min(values)])
        loss += a.weight * part
    return loss


def classes_of(labels: Sequence[int]) -> list[list[int]]:
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


def greedy(records: Records, k: int, by_class: bool = False) -> list[list[int]]:
    """Algorithm 2, over records in variance order."""
    free = list(range(len(records)))
    classes: list[list[int]] = []
    while len(free) >= k:
        members = [free.pop(0)]
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


def box_bound(records: Records, k: int) -> float:
    """Mean over records of the least loss of a class of k that holds the record."""
    n = len(records)
    least = [
        min(class_loss(records, [i, *others]) for others in combinations([j for j in range(n) if j != i], k - 1))
        for i in range(n)
    ]
    return float(np.mean(least))
