"""Classes that fail a privacy criterion are dropped, as far as that is allowed, or joined with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.criteria.classes import ClassBoxes, centres, class_boxes, near_boxes, take
from duckanon.engines.kanon.criteria.diversity import are_diverse
from duckanon.engines.kanon.criteria.local_search import ROOM, move
from duckanon.engines.kanon.criteria.merging import failing, join, meet, penalties
from duckanon.engines.kanon.criteria.privacy_criteria import (
    Counted,
    CriteriaArrays,
    PrivacyCriteria,
    counted_criteria,
    criteria_arrays,
    present,
)
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.orders import by_label
from duckanon.engines.kanon.records import Codes, Floats, Records
from duckanon.engines.kanon.risk import Report, Sensitive, report
from duckanon.engines.kanon.utility import Utility, utility

_PASSES = 20


@dataclass(frozen=True, eq=False)
class Settled:
    """Classes after the criteria were enforced.

    labels: the new class of each, or of each record, from 0 without gaps, -1 where it was dropped. joined: how many
    classes failed and were joined with others. dropped: the records of those that were dropped.
    """

    labels: Labels
    joined: int
    dropped: int


def settle_boxes(
    units: ClassBoxes,
    amid: Records,
    unit: Labels,
    sensitive: Sequence[Sensitive],
    criteria: PrivacyCriteria,
    threads: int = 1,
    subjects: Codes | None = None,
) -> Settled:
    """Drop units that fail, as long as `criteria.suppress` lasts, the dearest to join first; join what still fails.

    amid: a record in the middle of each unit, by which near units are found. unit: shape (n,), the unit of each record.
    subjects: as for `criteria_arrays`. Closeness is to the records that are not dropped. Raises InvalidInput if the
    whole table fails a criterion.
    """
    allowed = int(criteria.suppress * len(unit))
    kept = np.arange(len(units.size))
    while True:
        number = np.full(len(units.size), -1, np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        kept_unit = number[unit]
        columns = [replace(column, codes=column.codes[kept_unit >= 0]) for column in sensitive]
        arrays = criteria_arrays(
            kept_unit[kept_unit >= 0], columns, criteria, None if subjects is None else subjects[kept_unit >= 0]
        )
        some = take(units, kept)
        fails = failing(arrays, some.size)
        if not fails.any():
            break
        near = near_boxes(amid.take(kept.astype(np.int32)), threads)
        light = fails & (some.size <= allowed)
        gone = _dearest(some, light, penalties(some, near, light) / some.size, arrays, allowed)
        if not gone.any():
            break
        allowed -= int(some.size[gone].sum())
        kept = kept[~gone]
    every = np.arange(len(kept))
    owner = every.astype(np.int32)
    if fails.any():
        owner, _ = join(take(some, every), near, arrays, fails)
        room = take(some, np.append(every, np.zeros(ROOM, np.intp)))
        move(some, room, near, arrays, owner, _PASSES)
    labels = np.full(len(units.size), -1, np.int32)
    labels[kept] = _numbered(owner)
    return Settled(labels, int(fails.sum()), len(unit) - int(some.size.sum()))


def _dearest(
    units: ClassBoxes, light: npt.NDArray[np.bool_], price: Floats, arrays: CriteriaArrays, allowed: int
) -> npt.NDArray[np.bool_]:
    """Which of the units `light` to drop: by falling price, while all others together meet the criteria."""
    gone = np.zeros(len(light), np.bool_)
    falling = np.array(sorted(np.flatnonzero(light), key=lambda u: -price[u]), np.int32)
    if len(arrays.held):
        gone[falling[: _prefix(units, falling, arrays, allowed)]] = True
        return gone
    left = np.zeros(int(arrays.first[-1]), np.int64)  # of each value, column after column
    for s in range(len(arrays.ordered)):
        part = slice(arrays.starts[s, 0], arrays.starts[s, -1])
        np.add.at(left, arrays.first[s] + arrays.codes[part], arrays.counts[part])
    records = int(units.size.sum())
    for u in falling:
        size = int(units.size[u])
        if size > allowed or records - size < arrays.k:
            continue
        if arrays.diversity.least:
            rarer = left.copy()
            for s in range(len(arrays.ordered)):
                part = slice(arrays.starts[s, u], arrays.starts[s, u + 1])
                rarer[arrays.first[s] + arrays.codes[part]] -= arrays.counts[part]
            columns = np.split(rarer, arrays.first[1:-1])
            if not all(are_diverse(arrays.diversity, held, int(held.sum())) for held in columns):
                continue
            left = rarer
        gone[u] = True
        records -= size
        allowed -= size
    return gone


def _prefix(units: ClassBoxes, falling: Codes, arrays: CriteriaArrays, allowed: int) -> int:
    """How many of the units `falling`, the first ones, can be dropped, where subjects count."""
    count = int(np.searchsorted(np.cumsum(units.size[falling]), allowed, side="right"))
    while count:
        rest = np.setdiff1d(np.arange(len(units.size), dtype=np.int32), falling[:count])
        # (Closeness holds for all records together.)
        if len(rest) and meet(arrays._replace(slope=np.full_like(arrays.slope, -1)), rest, int(units.size[rest].sum())):
            return count
        count //= 2
    return 0


def meets_together(column: Counted, criteria: PrivacyCriteria) -> bool:
    """Whether all records of a part of a table would make a class that meets l and t in this column."""
    return meet(counted_criteria(column, criteria), np.zeros(1, np.int32), criteria.k)


def _numbered(owner: Labels) -> Labels:
    """The same classes, numbered from 0 as the units meet them."""
    _, first, same = np.unique(owner, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[same.ravel()]


def settle_classes(
    records: Records,
    labels: Labels,
    sensitive: Sequence[Sensitive],
    criteria: PrivacyCriteria,
    threads: int = 1,
    subjects: Codes | None = None,
) -> Settled:
    """The same for a partition of records: labels of shape (n,), from 0 without gaps, -1 where a record is dropped."""
    units, unit = class_boxes(records, labels)
    settled = settle_boxes(units, centres(records, unit), unit, sensitive, criteria, threads, subjects)
    return replace(settled, labels=settled.labels[unit])


@dataclass(frozen=True)
class Released:
    """What a release under privacy criteria would be like.

    utility: records that are dropped count as suppressed, with a loss of 1. risk: None without sensitive columns.
    joined, dropped: as in `Settled`.
    """

    utility: Utility
    risk: Report | None = None
    joined: int = 0
    dropped: int = 0

    def columns(self) -> dict[str, int | float | None]:
        """The columns of k_compare other than the utility."""
        measured = ("l", "t", "entropy_l", "recursive_c")
        risks = {name: None if self.risk is None else getattr(self.risk, name) for name in measured}
        return {**risks, "joined": self.joined, "suppressed": self.dropped}


def measured(
    records: Records,
    settled: Settled,
    sensitive: Sequence[Sensitive],
    criteria: PrivacyCriteria,
    target: Codes | None = None,
    threads: int = 1,
    subjects: Codes | None = None,
) -> Released:
    """Measure classes of records; without sensitive columns their utility alone. subjects: as for `criteria_arrays`."""
    kept = np.flatnonzero(settled.labels >= 0).astype(np.int32)
    order = kept[by_label(settled.labels[kept])]
    risk = None
    if sensitive:
        sizes = np.bincount(settled.labels[order]).astype(np.int64)
        columns, whose = [present(column, order) for column in sensitive], None if subjects is None else subjects[order]
        risk = report(sizes, columns, least=criteria.least, subjects=whose)
    what = utility(records.take(order, threads), settled.labels[order], None if target is None else target[order])
    return Released(what.suppressing(settled.dropped), risk, settled.joined, settled.dropped)
