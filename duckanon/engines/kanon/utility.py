"""What a partition loses: information loss, GCP, discernibility. Plain numpy, apart from the search's own kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Attribute, Codes, Floats, Records, highest


@dataclass(frozen=True)
class Utility:
    """Utility of a partition.

    classes: number of equivalence classes; two classes with the same released values are one.
    min_class: size of the smallest one.
    information_loss: weighted mean over records and attributes, 0 = untouched, 1 = suppressed (equations 2 and 34).
    gcp: unweighted mean over records and attributes of the NCP of Definition 8, where a categorical value counts
        (distinct - 1) / domain size.
    discernibility: sum over classes of the squared size (Bayardo and Agrawal 2005).
    avg_class: mean size of a class, every class counting once.
    classification: share of records whose target value is not the commonest of their class (Iyengar 2002), None without
        a target. Records that are not released count as such, and with n each to discernibility.
    """

    classes: int
    min_class: int
    information_loss: float
    gcp: float
    discernibility: int
    avg_class: float
    classification: float | None

    def suppressing(self, dropped: int) -> Utility:
        """The same with so many records more that are not released: each loses everything."""
        kept = round(self.avg_class * self.classes)
        n = kept + dropped
        return replace(
            self,
            information_loss=(self.information_loss * kept + dropped) / n,
            gcp=(self.gcp * kept + dropped) / n,
            discernibility=self.discernibility + dropped * n,
            classification=None if self.classification is None else (self.classification * kept + dropped) / n,
        )


@dataclass(frozen=True, eq=False)
class _Cells:
    """One attribute's released cell for each class: loss on [0, 1] and numbers that are equal for equal cells only."""

    loss: Floats
    ncp: Floats
    identity: npt.NDArray[np.int64]  # (classes, 1 or 2)


def _cells(
    a: Attribute, classes: npt.NDArray[np.intp], starts: npt.NDArray[np.intp], order: npt.NDArray[np.intp]
) -> _Cells:
    count = len(starts)
    codes = a.codes[order].astype(np.int64)
    low = np.minimum.reduceat(codes, starts)
    high = np.maximum.reduceat(codes, starts)
    mixed = (high == a.distinct) & (low < a.distinct)
    if a.categorical:
        pairs = np.unique(np.stack([classes, codes]), axis=1)
        distinct = np.bincount(pairs[0], minlength=count)
        loss = (distinct - 1) / max(a.distinct - 1, 1)
        ncp = (distinct - 1) / max(a.distinct, 1)
        # Sets are equal if their runs of codes are: number the distinct runs.
        edges = np.flatnonzero(np.diff(pairs[0])) + 1
        sets = [run.tobytes() for run in np.split(pairs[1], edges)]
        numbers = {key: i for i, key in enumerate(dict.fromkeys(sets))}
        identity = np.array([numbers[key] for key in sets], dtype=np.int64)[:, None]
    else:
        last = np.minimum(high, max(a.distinct - 1, 0))
        loss = a.width(np.minimum(low, last), last)
        ncp = loss
        identity = np.stack([low, high] if a.joins is None else _below(a.joins, last, loss), axis=1)
    loss = np.where(mixed, 1.0, loss)
    ncp = np.where(mixed, 1.0, ncp)
    # All NULL and mixed with NULL are both released as NULL.
    hidden = mixed | (low == a.distinct)
    return _Cells(loss, ncp, np.where(hidden[:, None], -1, identity))


def _below(joins: Floats, leaf: npt.NDArray[np.int64], loss: Floats) -> list[npt.NDArray[np.int64]]:
    """The first and the last leaf below the ancestor of each leaf that loses so much, shape (classes,) each."""
    tops, _ = highest(joins)
    first, last = leaf.copy(), leaf.copy()
    for s in range(len(tops) - 1, -1, -1):
        step = 1 << s
        before, after = np.maximum(first - step, 0), np.minimum(last, len(joins))
        first = np.where((first >= step) & (tops[s, before] <= loss), before, first)
        last = np.where((last + step <= len(joins)) & (tops[s, after] <= loss), last + step, last)
    return [first, last]


def _minority(classes: npt.NDArray[np.intp], target: Codes) -> float:
    """Share of records whose target is not the commonest one of their class."""
    pairs, count = np.unique(np.stack([classes, target.astype(np.intp)]), axis=1, return_counts=True)
    commonest = np.zeros(int(classes.max()) + 1, dtype=np.int64)
    np.maximum.at(commonest, pairs[0], count)
    return 1.0 - float(commonest.sum()) / len(target)


def utility(records: Records, labels: Labels, target: Codes | None = None) -> Utility:
    """Measure the partition given by `labels`, shape (n,). target: what a classifier would learn, codes, shape (n,)."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    fresh = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.flatnonzero(fresh)
    classes = np.cumsum(fresh) - 1
    sizes = np.diff(np.append(starts, len(order)))
    cells = [_cells(a, classes, starts, order) for a in records.attributes]
    return _measured(records, cells, sizes, classes, None if target is None else target[order])


def freeform_utility(records: Records, members: Codes, target: Codes | None = None) -> Utility:
    """Measure cells that each stand for one record. members: the records that a record's cell covers, shape (n, k)."""
    n, k = members.shape
    every = np.arange(n)
    cells = [_cells(a, np.repeat(every, k), every * k, members.ravel().astype(np.intp)) for a in records.attributes]
    return _measured(records, cells, np.ones(n, np.intp), every, target)


def _measured(
    records: Records,
    cells: Sequence[_Cells],
    sizes: npt.NDArray[np.intp],
    classes: npt.NDArray[np.intp],
    target: Codes | None,
) -> Utility:
    """sizes: records that each cell stands for. classes: the cell of each record, and target in the same order."""
    _, same = np.unique(np.concatenate([c.identity for c in cells], axis=1), axis=0, return_inverse=True)
    released = np.bincount(same.ravel(), weights=sizes).astype(np.int64)
    total = sum(a.weight * float(sizes @ c.loss) for a, c in zip(records.attributes, cells, strict=True))
    return Utility(
        classes=len(released),
        min_class=int(released.min()),
        information_loss=total / len(records),
        gcp=sum(float(sizes @ c.ncp) for c in cells) / (len(records) * len(cells)),
        discernibility=sum(int(s) ** 2 for s in released.tolist()),
        avg_class=len(records) / len(released),
        classification=None if target is None else _minority(same.ravel()[classes], target),
    )
