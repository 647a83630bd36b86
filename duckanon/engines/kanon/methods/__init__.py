"""The methods of k-anonymity by name. Each takes records in canonical order and returns a label for each.

A method is deterministic: over the same canonical records it returns the same labels, on any number of threads, unless
it is given a time limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from time import monotonic

import numpy as np

from duckanon.engines.kanon.control import Work
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.consecutive import Labels, best_consecutive, sampled_loss
from duckanon.engines.kanon.methods.bestcut import bestcut
from duckanon.engines.kanon.methods.exact import Solution, exact
from duckanon.engines.kanon.methods.greedy import greedy
from duckanon.engines.kanon.methods.greedy_binary import decomposed
from duckanon.engines.kanon.methods.initial import initial
from duckanon.engines.kanon.methods.milp import milp
from duckanon.engines.kanon.methods.mondrian import mondrian
from duckanon.engines.kanon.methods.refine import default_budget, refine
from duckanon.engines.kanon.methods.split_carry import ACCEPTED, SETS, bubble_carry, split_carry
from duckanon.engines.kanon.orders import hilbert, lexicographic
from duckanon.engines.kanon.points import core
from duckanon.engines.kanon.records import Order, Records
from duckanon.engines.parallel import spread

# Up to this many records `order` tries every order it knows; above, only those that cost a few sorts.
MANY_RECORDS = 100_000
# `auto` tries Greedy Search as a start while records^2 x attributes stays below this (a tenth of a second).
GREEDY_WORK = 500_000_000


@dataclass(frozen=True)
class Method:
    """A method of the registry: its name, what runs, its source, and what it costs for n records, m attributes.

    timed: whether it goes on to improve its result, and so obeys `Work.seconds`. options: what `Work.options` may set,
    and the least value of each.
    """

    name: str
    run: Callable[[Records, int, Work], Labels]
    source: str
    cost: str
    timed: bool = False
    options: Mapping[str, int] = field(default_factory=dict)


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


def _start(records: Records, k: int, work: Work) -> Labels:
    """The best partition to be had in a moment."""
    found = [_order(records, k, work)]
    if len(records) > MANY_RECORDS:
        found.append(_bestcut(records, k, work))
    elif len(records) ** 2 * len(records.attributes) <= GREEDY_WORK:
        labels = greedy(records.space, k, work.progress)
        found.append((total_loss(records.space, labels), labels))
    return min(found, key=lambda one: one[0])[1]


def _refined(start: Callable[[Records, int, Work], Labels], records: Records, k: int, work: Work) -> Labels:
    """A start, improved by ruin and recreate. Points with many copies take no part with most of them."""
    until = None if work.seconds is None else monotonic() + work.seconds
    split = core(records, k)
    inner = records.take(split.core, work.threads)
    labels = start(inner, k, replace(work, progress=lambda share: work.progress(share / 10)))
    budget = replace(default_budget(len(inner), k), until=until)
    labels = refine(inner, labels, k, budget, work.threads, lambda share: work.progress(0.1 + 0.9 * share))
    return split.join(labels)


def _certified(solve: Callable[[Records, int, Labels, Work], Solution], records: Records, k: int, work: Work) -> Labels:
    began = monotonic()
    # The better the start, the less is left to prove.
    start = refine(records, _start(records, k, work), k, default_budget(len(records), k), work.threads)
    left = None if work.seconds is None else max(work.seconds - (monotonic() - began), 0.1)
    solution = solve(records, k, start, replace(work, seconds=left))
    work.certify(solution.bound / len(records))
    work.progress(1.0)
    return solution.labels


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "auto",
            partial(_refined, _start),
            "the best of `order`, `bestcut` and, while n^2 m <= 5e8, `greedy`, improved by `refine`",
            "as the methods it runs",
            timed=True,
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
        Method(
            "greedy_binary",
            lambda records, k, work: greedy(decomposed(records).space, k, work.progress),
            "Liang and Samavi 2020, Algorithm 2 with its line 3: a binary attribute for each category",
            "O(n^2 m), where every category counts as an attribute",
        ),
        Method(
            "kmember",
            lambda records, k, work: greedy(records.space, k, work.progress, farthest=True),
            "Byun, Kamra, Bertino and Li 2007",
            "O(n^2 m)",
        ),
        Method(
            "mondrian",
            lambda records, k, _: mondrian(records, k),
            "LeFevre, DeWitt and Ramakrishnan 2006, strict, with tight bounds",
            "O(n (m + log n) log(n / k))",
        ),
        Method(
            "mondrian_relaxed",
            lambda records, k, _: mondrian(records, k, relaxed=True),
            "LeFevre, DeWitt and Ramakrishnan 2006, relaxed, with tight bounds",
            "O(n (m + log n) log(n / k))",
        ),
        Method(
            "split_carry",
            lambda records, k, work: split_carry(
                records, k, work, work.options.get("sets", SETS), work.options.get("boundary")
            ),
            "Liang and Samavi 2020, Algorithm 1, with S = 4 and l = k unless `options` says otherwise; "
            "sub-problems by `exact`",
            "linear in n; grows quickly with k",
            timed=True,
            options={"sets": 1, "boundary": 0},
        ),
        Method(
            "bubble_carry",
            lambda records, k, work: bubble_carry(
                records, k, work, work.options.get("size"), work.options.get("accepted", ACCEPTED)
            ),
            "Liang and Samavi 2020, section 6: pieces of P = 5k records of which the A = 2 best classes are kept, "
            "unless `options` says otherwise",
            "linear in n, twice as many sub-problems as `split_carry`",
            timed=True,
            options={"size": 1, "accepted": 1},
        ),
        Method(
            "exact",
            partial(_certified, exact),
            "set partition by column generation; up to 2,000 records",
            "grows quickly with k and with attributes' distinct values; stops at a gap when its budget ends",
            timed=True,
        ),
        Method(
            "milp",
            partial(_certified, milp),
            "Liang and Samavi 2020, equations 21 to 35; up to 200 records",
            "exponential in n: a baseline",
            timed=True,
        ),
        Method(
            "refine",
            partial(_refined, lambda records, k, work: _order(records, k, work)[1]),
            "ruin and recreate (Schrimpf et al. 2000) and cyclic exchange (Thompson and Psaraftis 1993) "
            "from the classes of `order`",
            "O(n k m) times a fixed number of rounds, or as long as `seconds` says",
            timed=True,
        ),
    )
}
