"""What a set of released tables discloses of the records behind it, for the owner, who knows the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from duckanon.engines.tables.bounds import TIME_LIMIT, bounds_around
from duckanon.engines.tables.cells import Bools, Ints, keys, places
from duckanon.engines.tables.consistency import check_consistency
from duckanon.engines.tables.junction import Variables
from duckanon.engines.tables.model import check_variables
from duckanon.engines.tables.moves import flips, swings
from duckanon.engines.tables.part import Part, part_around
from duckanon.engines.tables.released import Releases
from duckanon.engines.tables.truth import Records, agrees
from duckanon.errors import DuckanonError, InvalidInput


@dataclass(frozen=True, eq=False)
class Audit:
    """Small cells of a target, and what the released tables disclose about them.

    codes: int64 of shape (cells, target variables); counts: int64 of shape (cells,), 1 to small - 1 each.
    lower, upper: proven bounds. least, largest: counts that other records with the same tables have.
    width: how far apart the least and the largest possible count must be at least.
    """

    codes: Ints
    counts: Ints
    lower: Ints
    upper: Ints
    least: Ints
    largest: Ints
    width: int

    @property
    def disclosed(self) -> Bools:
        """Cells whose count follows from the tables."""
        return np.asarray(self.lower == self.upper)

    @property
    def narrow(self) -> Bools:
        """Cells whose count is bounded more closely than `width` allows; the disclosed ones are among them."""
        return np.asarray(self.upper - self.lower < self.width)

    @property
    def safe(self) -> Bools:
        """Cells that are proven not to be narrow. Cells that are neither narrow nor safe were not settled in time."""
        return np.asarray(self.largest - self.least >= self.width)


def audit(
    releases: Releases,
    records: Records,
    target: Sequence[int],
    *,
    small: int = 5,
    width: int = 1,
    time_limit: float = TIME_LIMIT,
) -> Audit:
    """Bound the small cells of a target, as closely as it takes to see whether they are safe.

    records: what the tables were made from. target: different variables. small: cells of 1 to small - 1 records are
    at risk. width: what is possible must span so much at least; 1 only rules out that a count follows.
    time_limit: seconds for what moves from the true records leave open.
    Raises InvalidInput as `table_bounds` does, and for a table that is not of these records.
    """
    if width < 1 or small < 2:
        raise InvalidInput("width must be 1 or more, and small 2 or more.")
    check_variables(releases, target)
    check_consistency(releases)
    for table in releases.tables:
        if not agrees(table, records):
            raise InvalidInput(f"The table '{table.name}' does not agree with the records: audit what was released.")
    part = part_around(releases, frozenset(target))
    codes, counts = records.margin(target)
    at_risk = counts < small
    codes, counts = codes[at_risk], counts[at_risk]
    least, largest = by_moves(releases, part, records, target, codes, counts, width)
    lower, upper = np.zeros(len(codes), dtype=np.int64), np.full(len(codes), records.total)
    left = np.flatnonzero(largest - least < width)
    if len(left):
        bounds = bounds_around(releases, part, target, codes[left], time_limit, records, width)
        lower[left], upper[left] = bounds.lower, bounds.upper
        least[left] = np.minimum(least[left], bounds.least)
        largest[left] = np.maximum(largest[left], bounds.largest)
    if ((counts < lower) | (counts > upper)).any():
        raise DuckanonError("The bounds of a set of tables exclude the records themselves: please report it.")
    return Audit(codes, counts, lower, upper, least, largest, width)


def by_moves(
    releases: Releases, part: Part, records: Records, target: Sequence[int], codes: Ints, counts: Ints, width: int
) -> tuple[Ints, Ints]:
    """The least and largest count of each cell that a move leads to."""
    whole = sorted(part.tree.cliques[0])
    cells, sizes = records.margin(whole)
    inside = [whole.index(v) for v in target]
    levels = [releases.levels[v] for v in target]
    of = places(keys(cells[:, inside], levels), keys(codes, levels))
    start = np.flatnonzero(of >= 0)
    by = [[whole.index(v) for v in flip] for flip in flips(frozenset(target), kept_margins(part))]
    down, up = swings(cells, sizes, [releases.levels[v] for v in whole], start, by, width)
    least, largest = counts.copy(), counts.copy()
    np.minimum.at(least, of[start], counts[of[start]] - down)
    np.maximum.at(largest, of[start], counts[of[start]] + up)
    return least, largest


def kept_margins(part: Part) -> list[Variables]:
    """The sets of variables whose margins a move must keep, so that the released tables stay the same."""
    return [
        *(frozenset(table.scope) for table in part.tables),
        *(part.tree.separator(link) for link in part.tree.links),
    ]
