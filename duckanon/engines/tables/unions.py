"""Which unions of cells of few units follow from a set of released tables, or are known to be few.

A union joins the cells of one row, which is a combination of levels of all target variables but one: those of several
levels of that one, but not of all. Readers know too much of it if they know that it holds records, and that it holds
fewer than the threshold, or how many. Other records that leave a union empty leave all unions within it empty, and
other records with as many as the threshold in it have as many in all unions around it. So few unions of a row need a
proof of their own, mostly the largest one only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from duckanon.cancellation import check, within
from duckanon.engines.tables.audit import kept_margins
from duckanon.engines.tables.bounds import TargetBounds, by_programs
from duckanon.engines.tables.cells import Bools, Ints, keys, places
from duckanon.engines.tables.disclosure import Known
from duckanon.engines.tables.model import Unions
from duckanon.engines.tables.moves import emptied, flips
from duckanon.engines.tables.part import Part, part_around
from duckanon.engines.tables.released import Releases
from duckanon.engines.tables.search import NoSolutionError
from duckanon.engines.tables.truth import Records
from duckanon.errors import InvalidInput

# Levels of a row of whose unions a list is kept, and unions of a row that programs bound.
_MOST_LEVELS, _MOST_ASKED = 10, 512
# Unions of a row that programs bound at once.
_AT_ONCE = 16


@dataclass(frozen=True)
class Row:
    """One combination of levels of the target variables but the joined one, and its cells of few units.

    cell: these levels. units: of each level of the joined variable with few units, who they are, as bits of a whole
    number. counts: of each of these levels, how many records. larger: levels of more units. size: how many levels the
    joined variable has.
    """

    cell: tuple[int, ...]
    units: Mapping[int, int]
    counts: Mapping[int, int]
    larger: tuple[int, ...]
    size: int

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels that a union of few units may join."""
        return tuple(sorted(set(range(self.size)).difference(self.larger)))

    def at_risk(self, below: int) -> bool:
        """Whether some union of several levels, and not of all, has few units."""
        joinable = self.size - len(self.larger)
        if joinable < 2 or self.size < 3:
            return False
        if joinable > len(self.units):
            return True
        who = sorted(self.units.values(), key=int.bit_count)
        return any((a | b).bit_count() < below for at, a in enumerate(who) for b in who[:at])


@dataclass
class _Family:
    """All unions of some levels of a row, by the bits of their numbers. open: those proven not to be disclosed.

    width: how far apart possible counts must be. bounded: how many by programs.
    """

    row: Row
    levels: tuple[int, ...]
    counts: Ints
    open: Bools
    width: int
    bounded: int = field(default=0)

    @staticmethod
    def of(row: Row, levels: tuple[int, ...], whole: bool, below: int, width: int) -> _Family:
        """whole: whether these are all levels that may hold a record."""
        who, counts = [0], np.zeros(1, dtype=np.int64)
        for level in levels:
            who += [members | row.units.get(level, 0) for members in who]
            counts = np.concatenate([counts, counts + row.counts.get(level, 0)])
        units = np.array([members.bit_count() for members in who])
        several = np.array([at.bit_count() > 1 for at in range(len(who))])
        several[-1] &= not whole
        return _Family(row, levels, counts, ~(several & (units > 0) & (units < below)), width)

    def next(self) -> list[int]:
        """The largest and the smallest unions that are not proven to be open."""
        left, every = ~self.open, np.arange(len(self.open))
        within, around = np.zeros_like(left), np.zeros_like(left)
        for at in range(len(self.levels)):
            within |= left[every | 1 << at] & (every >> at & 1 == 0)
            around |= left[every & ~(1 << at)] & (every >> at & 1 == 1)
        largest = np.flatnonzero(left & ~within)[:_AT_ONCE]
        smallest = np.flatnonzero(left & within & ~around)[:_AT_ONCE]
        return [*largest.tolist(), *smallest.tolist()]

    def members(self, union: int) -> tuple[int, ...]:
        return tuple(level for at, level in enumerate(self.levels) if union >> at & 1)

    def take(self, union: int, least: int, largest: int, below: int) -> bool:
        """Take in what counts of a union are possible; whether they leave it open."""
        every = np.arange(len(self.open))
        if least == 0:
            self.open |= (every & union == every) & (self.counts >= self.width)
        if largest >= below:
            self.open |= (every & union == union) & (self.counts < below) & (self.counts <= largest - self.width)
        if largest - least >= self.width and (least == 0 or largest >= below or self.counts[union] >= below):
            self.open[union] = True
        return bool(self.open[union])


def known_unions(
    releases: Releases,
    records: Records,
    target: Sequence[int],
    joined: int,
    rows: Sequence[Row],
    below: int,
    time_limit: float,
    width: int = 1,
) -> Known:
    """Of which rows a union of cells follows, or is known to hold 1 to below - 1 records, or to less than a width.

    releases: made from `records`. target: different variables; joined: the one whose levels are joined. rows: that have
    a union at risk, their cells in the order of `target`. time_limit: seconds. width: as in `known_counts`.
    """
    none = np.zeros(len(rows), dtype=bool)
    if any(table.known_counts and set(target) <= set(table.scope) for table in releases.tables):
        return Known(~none, none, none)
    unions = _Unions(releases, records, tuple(target), joined, below, width, monotonic() + within(time_limit))
    kinds = np.full(len(rows), "open", dtype=object)
    # Unions that can be empty hold as many records as the smallest of their cells at least: that may be too few.
    left = np.flatnonzero(~unions.emptied(rows) if width == 1 else np.ones(len(rows), dtype=bool))
    for at, kind in zip(left.tolist(), unions.settled([rows[at] for at in left.tolist()]), strict=True):
        kinds[at] = kind
    return Known(kinds == "determined", kinds == "narrow", kinds == "unproven")


@dataclass(frozen=True)
class _Unions:
    releases: Releases
    records: Records
    target: tuple[int, ...]
    joined: int
    below: int
    width: int
    until: float

    @property
    def _part(self) -> Part:
        return part_around(self.releases, frozenset(self.target))

    def _codes(self, row: Row, level: int) -> tuple[int, ...]:
        at = self.target.index(self.joined)
        return (*row.cell[:at], level, *row.cell[at:])

    # --- by moves -----------------------------------------------------------------------------------------------------

    def emptied(self, rows: Sequence[Row]) -> Bools:
        """Rows of which moves empty all cells of few units at once, and with them every union."""
        part = self._part
        whole = sorted(part.tree.cliques[0])
        cells, sizes = self.records.margin(whole)
        levels = [self.releases.levels[v] for v in self.target]
        few = [(at, self._codes(row, level)) for at, row in enumerate(rows) for level in row.units]
        codes = np.array([code for _, code in few], dtype=np.int64)
        inside = [whole.index(v) for v in self.target]
        positions = places(keys(cells[:, inside], levels), keys(codes, levels))
        start = np.flatnonzero(positions >= 0)
        of = np.array([at for at, _ in few], dtype=np.int64)[positions[start]]
        order = np.argsort(of, kind="stable")
        joins = np.ones((len(rows), self.releases.levels[self.joined]), dtype=np.int8)
        for at, row in enumerate(rows):
            joins[at, list(row.larger)] = 0
        by = [[whole.index(v) for v in flip] for flip in flips(frozenset(self.target), kept_margins(part))]
        every = [self.releases.levels[v] for v in whole]
        moved = emptied(cells, sizes, every, (of[order], start[order]), joins, whole.index(self.joined), by)
        return np.asarray(moved > 0)

    # --- by programs --------------------------------------------------------------------------------------------------

    def settled(self, rows: Sequence[Row]) -> list[str]:
        """Of each row, what is known of its unions: 'open', or of one of them 'determined', 'narrow' or 'unproven'."""
        kinds = dict.fromkeys(range(len(rows)), "open")
        bounds = self._bounds([(row, row.levels) for row in rows])
        left = [at for at in kinds if bounds is None or bounds.least[at] > 0 or self.width > 1]
        families: dict[int, _Family] = {}
        singles = self._bounds([(rows[at], (level,)) for at in left for level in rows[at].levels])
        begin = 0
        for at in left:
            span = slice(begin, begin + len(rows[at].levels))
            begin = span.stop
            family = None if singles is None else self._family(rows[at], singles.upper[span], singles.largest[span])
            if family is None:
                kinds[at] = "unproven"
            else:
                families[at] = family
        while families:
            check()
            settled = self._round(families)
            kinds |= settled
            families = {at: family for at, family in families.items() if at not in settled}
        return [kinds[at] for at in range(len(rows))]

    def _family(self, row: Row, upper: Ints, largest: Ints) -> _Family | None:
        """The unions of a row without those that hold a level of which many records are possible; None for too many."""
        possible = upper > 0
        few = self.width == 1 and (
            sum(row.counts.values()) < self.below
            or all(row.counts[level] == who.bit_count() for level, who in row.units.items())
        )
        some = possible & ~((largest >= self.below) & few)
        levels = tuple(np.array(row.levels)[some].tolist())
        if len(levels) > _MOST_LEVELS:
            return None
        return _Family.of(row, levels, not row.larger and bool((some == possible).all()), self.below, self.width)

    def _round(self, families: dict[int, _Family]) -> dict[int, str]:
        """Bound some unions of each family; the kinds of those that are settled."""
        pending = [(at, union) for at, family in families.items() for union in family.next()]
        bounds = self._bounds([(families[at].row, families[at].members(union)) for at, union in pending])
        if bounds is None:
            return dict.fromkeys(families, "unproven")
        kinds: dict[int, str] = {}
        for i, (at, union) in enumerate(pending):
            family = families[at]
            family.bounded += 1
            if at in kinds or family.take(union, int(bounds.least[i]), int(bounds.largest[i]), self.below):
                continue
            kinds[at] = self._kind(int(bounds.lower[i]), int(bounds.upper[i]))
        for at, family in families.items():
            if at not in kinds and family.open.all():
                kinds[at] = "open"
            elif at not in kinds and family.bounded >= _MOST_ASKED:
                kinds[at] = "unproven"
        return kinds

    def _kind(self, lower: int, upper: int) -> str:
        if lower == upper:
            return "determined"
        narrow = (lower >= 1 and upper < self.below) or upper - lower < self.width
        return "narrow" if narrow else "unproven"

    def _bounds(self, listed_unions: Sequence[tuple[Row, tuple[int, ...]]]) -> TargetBounds | None:
        """Bounds of unions of a row's levels; None where the cross-classification is too large."""
        if not listed_unions:
            none = np.zeros(0, dtype=np.int64)
            return TargetBounds(none, none, none, none, none)
        listed = [self._codes(row, level) for row, levels in listed_unions for level in levels]
        codes, cell = np.unique(np.array(listed, dtype=np.int64), axis=0, return_inverse=True)
        union = np.repeat(np.arange(len(listed_unions)), [len(levels) for _, levels in listed_unions])
        unions = Unions(union, cell.reshape(-1).astype(np.int64), len(listed_unions))
        seconds = max(self.until - monotonic(), 0.0)
        try:
            return by_programs(self.releases, self._part, self.target, codes, seconds, self.records, unions=unions)
        except (InvalidInput, NoSolutionError):
            return None
