"""The methods of k-anonymity by name. Each takes records in canonical order and returns a label for each.

A method is deterministic: over the same canonical records it returns the same labels, on any number of threads, unless
it is given a time limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from time import monotonic

import numpy as np

from duckanon.engines import registry
from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.box import total_loss
from duckanon.engines.kanon.kernels.consecutive import Labels, best_consecutive, best_sizes, sampled_loss
from duckanon.engines.kanon.methods.bestcut import bestcut
from duckanon.engines.kanon.methods.exact import Solution, exact
from duckanon.engines.kanon.methods.greedy import greedy
from duckanon.engines.kanon.methods.greedy_binary import decomposed
from duckanon.engines.kanon.methods.initial import initial
from duckanon.engines.kanon.methods.milp import milp
from duckanon.engines.kanon.methods.mondrian import mondrian
from duckanon.engines.kanon.methods.refine import default_budget, effort, refine
from duckanon.engines.kanon.methods.split_carry import (
    ACCEPTED,
    SETS,
    bubble_carry,
    bubble_seconds,
    split_carry,
    split_seconds,
)
from duckanon.engines.kanon.orders import hilbert, lexicographic
from duckanon.engines.kanon.points import core
from duckanon.engines.kanon.records import Order, Records
from duckanon.engines.parallel import spread

# `auto` tries Greedy Search as a start while records^2 x attributes stays below this (a tenth of a second).
GREEDY_WORK = 500_000_000
# An order whose loss at a glance is above this many times the least is given up.
_CLOSE = 1.25


@dataclass(frozen=True, kw_only=True)
class Method(registry.Method[Callable[[Records, int, Control], Labels]]):
    """A method of k-anonymity. Its `limits` are for n records and m attributes; its options come in `Control.options`.

    timed: whether it goes on to improve its result, and so obeys `Control.seconds`. blocks: whether it takes a large
    table block by block. takes: about how many seconds without a time limit, by n, m, k and its options, if that may be
    many. conditions: whether it looks for classes that meet `Control.conditions`; few fail them then, and
    those have to be joined.
    """

    timed: bool = False
    blocks: bool = False
    takes: Callable[[int, int, int, Mapping[str, int]], float] | None = None
    conditions: bool = False


def sequences(records: Records) -> list[tuple[int, ...]]:
    """Attribute sequences worth a lexicographic sort beside the variance order, in which the records stand already.

    All for m <= 4, else m rotations; each without its end, where that is what the variance order has left.
    """
    first = records.by_variance
    all_of_them = permutations(first) if len(first) <= 4 else (first[i:] + first[:i] for i in range(len(first)))
    return [_unsorted(sequence, first) for sequence in all_of_them if sequence != first]


def _unsorted(sequence: tuple[int, ...], first: tuple[int, ...]) -> tuple[int, ...]:
    """The start of the sequence by which records that are sorted by `first` have yet to be sorted, stably."""
    end = len(sequence) - 1
    while first.index(sequence[end - 1]) < first.index(sequence[end]):
        end -= 1
    return sequence[:end]


Orders = Sequence[Callable[[], Order]]


def _best(records: Records, k: int, orders: Orders, control: Control) -> tuple[float, Labels]:
    """The best partition over several orders: each is judged by a sample, if the table is large, and the best one cut.

    The earlier order wins a tie. Orders that are much worse at a glance are not looked at again.
    """
    space, done = records.space, 0

    def glanced(make: Callable[[], Order]) -> tuple[float, Order]:
        nonlocal done
        order = make()
        loss = sampled_loss(space, order, k, glance=True)
        done += 1
        control.progress(done / (len(orders) + 1))
        return loss, order

    glances = spread(glanced, orders, control.threads)
    least = min(loss for loss, _ in glances)
    left = [order for loss, order in glances if loss <= _CLOSE * least]
    if len(left) > 1:
        losses = spread(lambda order: sampled_loss(space, order, k), left, control.threads)
        left = [order for loss, order in zip(losses, left, strict=True) if loss == min(losses)]
    return best_consecutive(space, left[0], k, control.threads)


def _order(records: Records, k: int, control: Control) -> tuple[float, Labels]:
    if control.conditions is not None:
        # Of all orders only that of best cuts has places for borders wherever the criteria leave some.
        return _bestcut(records, k, control)
    orders: list[Callable[[], Order]] = [
        lambda: hilbert(records, control.threads),
        lambda: np.arange(len(records), dtype=np.int32),
        *(partial(lexicographic, records, sequence) for sequence in sequences(records)),
        lambda: bestcut(records, k),
    ]
    return _best(records, k, orders, control)


def _bestcut(records: Records, k: int, control: Control) -> tuple[float, Labels]:
    cut = best_sizes if control.conditions is None else control.conditions.best_sizes
    return best_consecutive(records.space, bestcut(records, k, control.conditions), k, control.threads, cut)


def _start(records: Records, k: int, control: Control) -> Labels:
    """The best partition that takes a fraction of a second."""
    candidates = [_order(records, k, control)]
    if len(records) ** 2 * len(records.attributes) <= GREEDY_WORK:
        labels = greedy(records.space, k, control.progress)
        candidates.append((total_loss(records.space, labels), labels))
    return min(candidates, key=lambda candidate: candidate[0])[1]


def _refined(start: Callable[[Records, int, Control], Labels], records: Records, k: int, control: Control) -> Labels:
    """A start, improved by ruin and recreate. Points with many copies take no part with most of them."""
    until = None if control.seconds is None else monotonic() + control.seconds
    split = core(records, k)
    inner = records.take(split.core, control.threads)
    labels = start(inner, k, replace(control, progress=lambda share: control.progress(share / 10)))
    whole = max(control.table, len(inner))
    budget = replace(default_budget(whole, k), until=until)
    labels = refine(
        inner,
        labels,
        k,
        budget,
        control.threads,
        lambda share: control.progress(0.1 + 0.9 * share),
        near=effort(whole),
    )
    return split.join(labels)


def _certified(
    solve: Callable[[Records, int, Labels, Control], Solution], records: Records, k: int, control: Control
) -> Labels:
    began = monotonic()
    # The better the start, the less is left to prove.
    start = refine(records, _start(records, k, control), k, default_budget(len(records), k), control.threads)
    left = None if control.seconds is None else max(control.seconds - (monotonic() - began), 0.1)
    solution = solve(records, k, start, replace(control, seconds=left))
    control.certify(solution.bound / len(records) + records.floor)
    control.progress(1.0)
    return solution.labels


METHODS = registry.by_name(
    Method(
        name="auto",
        help="the best start that fits the size, improved by `refine`",
        source="the best of `order`, `bestcut` and, while n^2 m <= 5e8, `greedy`, improved by `refine`",
        limits="as the methods it runs",
        run=partial(_refined, _start),
        timed=True,
        blocks=True,
    ),
    Method(
        name="initial",
        help="sort by variance, cut into runs of k",
        source="Liang and Samavi 2020, section 2.3",
        limits="one sort",
        run=lambda records, k, _: initial(len(records), k),
    ),
    Method(
        name="order",
        help="the best cuts of several good orders of the records",
        source="dynamic programming over lexicographic orders, the Hilbert curve and the leaves of best cuts",
        limits="O(n k m) for each order",
        run=lambda records, k, control: _order(records, k, control)[1],
        blocks=True,
        conditions=True,
    ),
    Method(
        name="bestcut",
        help="split top-down at the best place, then cut that order best",
        source="top-down best cuts, then dynamic programming over their leaves",
        limits="O(n m^2 log(n / k))",
        run=lambda records, k, control: _bestcut(records, k, control)[1],
        blocks=True,
        conditions=True,
    ),
    Method(
        name="greedy",
        help="grow each class by the record that adds least",
        source="Liang and Samavi 2020, Algorithm 2",
        limits="O(n^2 m)",
        run=lambda records, k, control: greedy(records.space, k, control.progress),
    ),
    Method(
        name="greedy_binary",
        help="as `greedy`, with a binary attribute for each category",
        source="Liang and Samavi 2020, Algorithm 2 with its line 3: a binary attribute for each category",
        limits="O(n^2 m), where every category counts as an attribute",
        run=lambda records, k, control: greedy(decomposed(records).space, k, control.progress),
    ),
    Method(
        name="kmember",
        help="as `greedy`, each class starting far from the last one",
        source="Byun, Kamra, Bertino and Li 2007",
        limits="O(n^2 m)",
        run=lambda records, k, control: greedy(records.space, k, control.progress, farthest=True),
    ),
    Method(
        name="mondrian",
        help="halve at the median of the widest attribute, equal values together",
        source="LeFevre, DeWitt and Ramakrishnan 2006, strict, with tight bounds",
        limits="O(n (m + log n) log(n / k))",
        run=lambda records, k, _: mondrian(records, k),
    ),
    Method(
        name="mondrian_relaxed",
        help="halve at the median of the widest attribute, equal values on both sides if need be",
        source="LeFevre, DeWitt and Ramakrishnan 2006, relaxed, with tight bounds",
        limits="O(n (m + log n) log(n / k))",
        run=lambda records, k, _: mondrian(records, k, relaxed=True),
    ),
    Method(
        name="split_carry",
        help="solve pieces of the order exactly and carry what lies on the border",
        source=(
            "Liang and Samavi 2020, Algorithm 1, with S = 4 and l = k unless `options` says otherwise; "
            "sub-problems by `exact`"
        ),
        limits="linear in n; grows quickly with k and m; refused without `seconds` if it would take many minutes",
        takes=split_seconds,
        run=lambda records, k, control: split_carry(
            records, k, control, control.options.get("sets", SETS), control.options.get("boundary")
        ),
        timed=True,
        options={"sets": 1, "boundary": 0},
    ),
    Method(
        name="bubble_carry",
        help="solve overlapping pieces exactly, keep the best classes of each and carry the rest",
        source=(
            "Liang and Samavi 2020, section 6: pieces of P = 5k records of which the A = 2 best classes are kept, "
            "unless `options` says otherwise"
        ),
        limits="as `split_carry`, with twice as many sub-problems that are smaller",
        takes=bubble_seconds,
        run=lambda records, k, control: bubble_carry(
            records, k, control, control.options.get("size"), control.options.get("accepted", ACCEPTED)
        ),
        timed=True,
        options={"size": 1, "accepted": 1},
    ),
    Method(
        name="exact",
        help="column generation: the optimum, or a proven gap",
        source="set partition by column generation",
        limits="up to 2,000 records; grows quickly with k and distinct values; stops at a gap when its budget ends",
        run=partial(_certified, exact),
        timed=True,
    ),
    Method(
        name="milp",
        help="the paper's mixed-integer model",
        source="Liang and Samavi 2020, equations 21 to 35",
        limits="up to 200 records; exponential in n: a baseline",
        run=partial(_certified, milp),
        timed=True,
    ),
    Method(
        name="refine",
        help="dissolve neighbouring classes and rebuild them, let rings of records change places",
        source=(
            "ruin and recreate (Schrimpf et al. 2000) and cyclic exchange (Thompson and Psaraftis 1993) "
            "from the classes of `order`"
        ),
        limits="O(n k m) times a fixed number of rounds, or as long as `seconds` says",
        run=partial(_refined, lambda records, k, control: _order(records, k, control)[1]),
        timed=True,
        blocks=True,
    ),
)
