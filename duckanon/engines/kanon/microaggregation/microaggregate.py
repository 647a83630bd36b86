"""From quasi-identifiers to classes with a small sum of squares: the entry point of microaggregation."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

import numpy as np

from duckanon.engines.kanon.control import Control
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.microaggregation.certificate import Proven, prove
from duckanon.engines.kanon.microaggregation.consecutive import best_consecutive
from duckanon.engines.kanon.microaggregation.embedding import embedded, of_one_unit
from duckanon.engines.kanon.microaggregation.local_search import class_sums, improve
from duckanon.engines.kanon.orders import canonical, hilbert
from duckanon.engines.kanon.points import runs
from duckanon.engines.kanon.records import Codes, Floats, Records, check_k
from duckanon.engines.kanon.ties import Hashes, settle
from duckanon.errors import InvalidInput

METHODS = ("auto", "exact")
# Near points of each point.
_NEAR = 24
# Visits of each point, at least and at most, and of all points together.
_VISITS, _MOST_VISITS, _ALL_VISITS = 3.0, 200.0, 250_000
# What the program of `exact` takes: its searches look at all pairs of records.
MANY_RECORDS = 5_000
# The share of a time limit that is the search's, where a proof follows.
_SEARCH = 0.3


def check_method(method: str, n: int) -> None:
    """Raise InvalidInput unless the method minimises sums of squares of so many records."""
    if method not in METHODS:
        raise InvalidInput("objective := 'sse' has the methods 'auto' and 'exact': choose one of these.")
    if method == "exact" and n > MANY_RECORDS:
        raise InvalidInput(
            f"Method 'exact' takes at most {MANY_RECORDS:,} rows: use 'auto', or anonymise parts on their own."
        )


def nearest(points: Floats) -> Codes:
    """Points near each point, the nearest first, shape (n, w)."""
    from scipy.spatial import cKDTree

    width = min(_NEAR + 1, len(points))
    neighbours = np.asarray(cKDTree(points).query(points, width)[1], np.int32).reshape(len(points), width)
    return np.ascontiguousarray(neighbours[:, 1:] if width > 1 else neighbours)


def searched(points: Floats, order: Codes, k: int, control: Control) -> Labels:
    """The best consecutive classes of an order, improved. Classes of k .. 2k - 1, labels from 0."""
    n, until = len(points), None if control.seconds is None else monotonic() + control.seconds
    visits = max(_VISITS, min(_MOST_VISITS, _ALL_VISITS / n))

    def proceed(share: float) -> bool:
        control.progress(share)
        return until is None or monotonic() < until

    return improve(points, nearest(points), best_consecutive(points, order, k), k, visits, proceed)


def minimised(records: Records, k: int, method: str, control: Control) -> Proven:
    """Classes of records in canonical order; with method 'exact' a bound too, otherwise 0."""
    points = embedded(records)
    exact = method == "exact"
    seconds = None if control.seconds is None else control.seconds * (_SEARCH if exact else 1.0)
    part = _SEARCH if exact else 1.0
    own = replace(control, seconds=seconds, progress=lambda share: control.progress(part * share))
    labels = searched(points, hilbert(records), k, own)
    if not exact:
        return Proven(labels, float(class_sums(points, labels).sum()), 0.0)
    left = None if control.seconds is None else (1.0 - _SEARCH) * control.seconds
    later = replace(control, seconds=left, progress=lambda share: control.progress(part + (1.0 - part) * share))
    proof = prove(points, k, labels, later)
    control.progress(1.0)
    return proof


def microaggregate(
    records: Records, k: int, method: str = "auto", *, content: Hashes | None = None, control: Control | None = None
) -> Labels:
    """Partition n records into classes of k .. 2k - 1 whose sum of squares is small. Labels of shape (n,), int32.

    content: as for `anonymize`. The classes do not depend on the order of the records. Raises InvalidInput as
    `anonymize` does.
    """
    check_k(k, len(records))
    check_method(method, len(records))
    order = canonical(records)
    ordered = records.take(order)
    ordered_labels = minimised(ordered, k, method, control or Control()).labels
    if content is not None:
        order = settle(ordered, order, ordered_labels, content)
    labels = np.empty_like(ordered_labels)
    labels[order] = ordered_labels
    return labels


def priced(records: Records, k: int, control: Control) -> Floats:
    """Prices of n records in any order, shape (n,), that prove a bound on the sum of squares; equal for equal records.

    Those of no class of k or more add up to more than its part of the whole sum of squares, times n: their mean is the
    bound on that part. Raises InvalidInput for too many records.
    """
    check_k(k, len(records))
    check_method("exact", len(records))
    order = canonical(records)
    ordered = records.take(order)
    points = of_one_unit(embedded(ordered))
    seconds = None if control.seconds is None else control.seconds * _SEARCH
    labels = searched(points, hilbert(ordered), k, replace(control, seconds=seconds, progress=lambda _: None))
    left = None if control.seconds is None else (1.0 - _SEARCH) * control.seconds
    ordered_prices = prove(points, k, labels, replace(control, seconds=left), cuts=False).prices
    if ordered_prices is None:
        raise ValueError("the proof has no prices")
    # Equal records may change places, so the mean of their prices is as good. (A little less, as it is rounded.)
    starts = runs(ordered)
    sizes = np.diff(starts)
    means = np.add.reduceat(ordered_prices, starts[:-1]) / sizes
    prices = np.empty(len(records))
    prices[order] = np.repeat(means - 1e-12 * np.abs(means), sizes)
    return prices
