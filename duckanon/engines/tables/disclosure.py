"""Which cells of few records, known to the owner, follow from a set of released tables, or are known to be few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duckanon.engines.tables.audit import by_moves, kept_margins
from duckanon.engines.tables.bounds import TargetBounds, bounds_around
from duckanon.engines.tables.cells import Bools, Ints
from duckanon.engines.tables.moves import flips, swings
from duckanon.engines.tables.part import Part, part_around
from duckanon.engines.tables.released import Releases
from duckanon.engines.tables.truth import Records
from duckanon.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Known:
    """What readers know of some cells or groups: bool of shape (cells,) each.

    determined: the count follows. narrow: it does not, but is known to be below the threshold and not zero; of groups,
    that only one value is left. unproven: neither is proven, nor that other records are possible.
    """

    determined: Bools
    narrow: Bools
    unproven: Bools


def known_counts(
    releases: Releases,
    records: Records,
    target: Sequence[int],
    codes: Ints,
    counts: Ints,
    below: int,
    time_limit: float,
    width: int = 1,
) -> Known:
    """Whether cells of a target follow, or are known to hold 1 to below - 1 records, or to less than a width.

    releases: made from `records`. target: different variables. codes: shape (cells, target variables), cells that hold
    records; counts: shape (cells,), how many. A cell of `below` or more is only asked whether its count follows.
    time_limit: seconds for what moves from the true records leave open. width: how far apart possible counts must be.
    """
    if any(table.known_counts and set(target) <= set(table.scope) for table in releases.tables):
        none = np.zeros(len(codes), dtype=bool)
        return Known(~none, none, none)
    part = part_around(releases, frozenset(target))
    least, largest = by_moves(releases, part, records, target, codes, counts, max(below - 1, width))
    lower, upper = np.zeros(len(codes), dtype=np.int64), np.full(len(codes), records.total)
    left = np.flatnonzero(~_is_open(counts, least, largest, below, width))
    bounds = _bounds(releases, part, target, codes[left], records, time_limit) if len(left) else None
    if bounds is not None:
        lower[left], upper[left] = bounds.lower, bounds.upper
        least[left], largest[left] = np.minimum(least[left], bounds.least), np.maximum(largest[left], bounds.largest)
    free = _is_open(counts, least, largest, below, width)
    determined = ~free & (lower == upper)
    narrow = ~free & ~determined & (((lower >= 1) & (upper < below)) | (upper - lower < width))
    return Known(determined, narrow, ~(free | determined | narrow))


def _is_open(counts: Ints, least: Ints, largest: Ints, below: int, width: int) -> Bools:
    """Whether witnesses, with `least` and `largest` in the cells, leave open how many records there are."""
    small = (least == 0) | (largest >= below)
    return np.asarray(np.where(counts < below, small, True) & (largest - least >= width))


def known_values(releases: Releases, records: Records, target: Sequence[int], codes: Ints, time_limit: float) -> Known:
    """Whether groups of records that share the target's last variable are known to have no other value of it.

    target: all variables of the records, in any order. codes: shape (groups, target variables), the one cell of each
    group that holds records. time_limit: as in `known_counts`.
    """
    size = releases.levels[target[-1]]
    of = np.repeat(np.arange(len(codes)), size)
    others = np.repeat(codes, size, axis=0)
    others[:, -1] = np.tile(np.arange(size), len(codes))
    other = others[:, -1] != codes[of, -1]
    of, others = of[other], others[other]
    part = part_around(releases, frozenset(target))
    free, shut = np.zeros(len(codes), dtype=bool), np.ones(len(codes), dtype=bool)
    free[of[_added_by_moves(releases, part, records, target, others)]] = True
    left = np.flatnonzero(~free[of])
    if len(left):
        bounds = _bounds(releases, part, target, others[left], records, time_limit)
        if bounds is not None:
            free[of[left[(bounds.least <= bounds.largest) & (bounds.largest > 0)]]] = True
        may = left if bounds is None else left[bounds.upper > 0]
        shut[of[may]] = False
    none = np.zeros(len(codes), dtype=bool)
    return Known(none, ~free & shut, ~free & ~shut)


def _added_by_moves(releases: Releases, part: Part, records: Records, target: Sequence[int], codes: Ints) -> Bools:
    """To which cells without records moves from the true records add some."""
    by = [[list(target).index(v) for v in flip] for flip in flips(frozenset(target), kept_margins(part))]
    cells = np.vstack([records.codes[:, list(target)], codes])
    sizes = np.concatenate([records.counts, np.zeros(len(codes), dtype=np.int64)])
    start = np.arange(len(records.codes), len(cells))
    _, up = swings(cells, sizes, [releases.levels[v] for v in target], start, by, 1)
    return np.asarray(up > 0)


def _bounds(
    releases: Releases, part: Part, target: Sequence[int], codes: Ints, records: Records, time_limit: float
) -> TargetBounds | None:
    """Bounds of some cells; None where the cross-classification is too large."""
    try:
        return bounds_around(releases, part, target, codes, time_limit, records)
    except InvalidInput:
        return None
