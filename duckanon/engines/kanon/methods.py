"""The methods of k-anonymity by name. Each takes records in canonical order and returns a label for each.

A method is deterministic: over the same canonical records it returns the same labels, on any number of threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np

from duckanon.engines.kanon.bestcut import bestcut
from duckanon.engines.kanon.consecutive import Labels, best_consecutive, sampled_loss
from duckanon.engines.kanon.greedy import greedy
from duckanon.engines.kanon.initial import initial
from duckanon.engines.kanon.loss import utility
from duckanon.engines.kanon.orders import hilbert, lexicographic
from duckanon.engines.kanon.records import Order, Records
from duckanon.engines.parallel import spread

# Up to this many records `order` tries every order it knows; above, only those that cost a few sorts.
MANY_RECORDS = 100_000
# `auto` runs Greedy Search while records^2 x attributes stays below this (some seconds of one core).
GREEDY_WORK = 20_000_000_000


@dataclass(frozen=True)
class Work:
    """How a method may work: threads it may use, and whom it tells the share of work done (0 to 1)."""

    threads: int = 1
    progress: Callable[[float], None] = lambda _: None


@dataclass(frozen=True)
class Method:
    """A method of the registry: its name, what runs, its source, and what it costs for n records, m attributes."""

    name: str
    run: Callable[[Records, int, Work], Labels]
    source: str
    cost: str


def sequences(records: Records) -> list[tuple[int, ...]]:
    """Attribute sequences worth a lexicographic sort, the variance order first: all for m <= 4, else m rotations."""
    first = records.by_variance
    if len(first) <= 4:
        return list(permutations(first))
    return [first[i:] + first[:i] for i in range(len(first))]


Orders = Sequence[Callable[[], Order]]


def _best(records: Records, k: int, orders: Orders, work: Work) -> tuple[float, Labels]:
    """The best partition over several orders: each is judged by a sample, if the table is large, and the best one cut.

    The earlier order wins a tie.
    """
    space, done = records.space, 0

    def judge(make: Callable[[], Order]) -> tuple[float, Order]:
        nonlocal done
        order = make()
        loss = sampled_loss(space, order, k) if len(orders) > 1 else 0.0
        done += 1
        work.progress(done / (len(orders) + 1))
        return loss, order

    judged = spread(judge, orders, work.threads)
    return best_consecutive(space, min(judged, key=lambda one: one[0])[1], k, work.threads)


def _order(records: Records, k: int, work: Work) -> tuple[float, Labels]:
    orders: list[Callable[[], Order]] = [
        lambda: hilbert(records, work.threads),
        lambda: np.arange(len(records), dtype=np.int32),
    ]
    if len(records) <= MANY_RECORDS:
        orders += [partial(lexicographic, records, sequence) for sequence in sequences(records)[1:]]
        orders += [lambda: bestcut(records, k)]
    return _best(records, k, orders, work)


def _bestcut(records: Records, k: int, work: Work) -> tuple[float, Labels]:
    return _best(records, k, [lambda: bestcut(records, k)], work)


def _auto(records: Records, k: int, work: Work) -> Labels:
    n, m = len(records), len(records.attributes)
    found = [_order(records, k, work)]
    if n > MANY_RECORDS:
        found.append(_bestcut(records, k, work))
    if n * n * m <= GREEDY_WORK:
        labels = greedy(records.space, k, work.progress)
        found.append((utility(records, labels).information_loss * n, labels))
    return min(found, key=lambda one: one[0])[1]


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "auto",
            _auto,
            "the best of `order`, `bestcut` and, while n^2 m <= 2e10, `greedy`",
            "as the methods it runs",
        ),
        Method(
            "initial",
            lambda records, k, _: initial(len(records), k),
            "Liang and Samavi 2020, section 2.3",
            "one sort",
        ),
        Method(
            "order",
            lambda records, k, work: _order(records, k, work)[1],
            "dynamic programming over lexicographic orders, the Hilbert curve and the leaves of best cuts",
            "O(n k m) for each order; above 100,000 records two orders",
        ),
        Method(
            "bestcut",
            lambda records, k, work: _bestcut(records, k, work)[1],
            "top-down best cuts, then dynamic programming over their leaves",
            "O(n m^2 log(n / k))",
        ),
        Method(
            "greedy",
            lambda records, k, work: greedy(records.space, k, work.progress),
            "Liang and Samavi 2020, Algorithm 2",
            "O(n^2 m)",
        ),
    )
}
