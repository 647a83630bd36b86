"""Privacy criteria of a class beyond its size: l-diversity and t-closeness, decided in whole numbers.

Sources: Machanavajjhala et al. 2007 (l-diversity, see `diversity`); Li, Li and Venkatasubramanian 2007 (t-closeness,
section 4: equal and ordered distance). A class is t-close if the sum over values of |c n - N s| is at most 2 t s n,
where c of its s records and N of the table's n have the value; for ordered columns c and N are cumulative, and the sum
is at most t (m - 1) s n for m distinct values. All are whole numbers, so no rounding decides.

Every criterion is monotone: a class joined from classes that meet it meets it too. (Both distances are convex.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from duckanon.engines.array_kernels import sort
from duckanon.engines.compiled import inner
from duckanon.engines.kanon.criteria.classes import Counts
from duckanon.engines.kanon.criteria.diversity import Diversity, Tally, check_diverse, diverse, diversity, new_tally
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Codes, Order
from duckanon.engines.kanon.risk import Sensitive
from duckanon.errors import InvalidInput


@dataclass(frozen=True)
class PrivacyCriteria:
    """k records in every class; l-diversity, if l is not None, and closeness t, of every sensitive column.

    suppress: the share of all records that may be dropped with their classes instead. diversity: one of
    `diversity.KINDS`; l is whole, but for entropy, and c is that of recursive diversity.
    """

    k: int
    l: int | Fraction | None = None  # noqa: E741 - the argument's name
    t: Fraction | None = None
    suppress: Fraction = Fraction(0)
    diversity: str = "distinct"
    c: Fraction | None = None

    @property
    def least(self) -> int:
        """The l of recursive diversity; 2, by which it is measured where it is not required."""
        return int(self.l) if self.l is not None and self.diversity == "recursive" else 2


class CriteriaArrays(NamedTuple):
    """The criteria, and how often each unit has each sensitive value, as arrays for the compiled loops.

    Pairs that occur, column by column and unit by unit: those of unit u in column s are starts[s, u] ..
    starts[s, u + 1] - 1, by ascending code.
    """

    k: int
    diversity: Diversity
    total: int  # records, n
    starts: Counts  # (columns, u + 1)
    codes: Codes
    counts: Counts
    ordered: Codes  # (columns,): 1 if the values lie on a line
    first: Counts  # (columns + 1,): where each column's values start in `overall` and `area`
    overall: Counts  # how often the table has each value; for an ordered column that one and all below
    area: Counts  # sums of `overall` before each value, with one more at the end of each column
    slope: Counts  # (columns,): the sum may be slope s + (rest s) // part; slope is -1 without t
    rest: Counts
    part: int


def criteria_arrays(unit: Labels, sensitive: Sequence[Sensitive], wanted: PrivacyCriteria) -> CriteriaArrays:
    """The criteria for units. unit: shape (n,), the unit of each record, from 0, without gaps.

    Raises InvalidInput if even the whole table fails, or a column has too many values for exact sums.
    """
    n, units = len(unit), int(unit.max()) + 1
    columns = [present(column) for column in sensitive]
    asked = diversity(wanted.diversity, wanted.l, wanted.c)
    starts = np.zeros((len(columns), units + 1), np.int64)
    codes, counts, overall, area, slope, rest = [], [], [], [], [], []
    base = 0
    for s, column in enumerate(columns):
        whole = np.bincount(column.codes, minlength=column.distinct)
        check_diverse(asked, whole)
        pair = unit.astype(np.int64) * column.distinct + column.codes
        occurring, count = np.unique(pair, return_counts=True)
        held, value = np.divmod(occurring, column.distinct)
        starts[s] = base + np.searchsorted(held, np.arange(units + 1))
        base += len(occurring)
        codes.append(value.astype(np.int32))
        counts.append(count)
        overall.append(np.cumsum(whole) if column.ordered else whole)
        area.append(np.append(0, np.cumsum(overall[-1])))
        far = column.distinct - 1 if column.ordered else 2
        if wanted.t is None:
            slope.append(-1)
            rest.append(0)
            continue
        if max(far, 2) * n * n >= 2**62 or wanted.t.denominator * n >= 2**62:
            raise InvalidInput(
                "A sensitive column has too many distinct values for t: round its values, or leave t out."
            )
        whole_part, remainder = divmod(wanted.t.numerator * far * n, wanted.t.denominator)
        slope.append(whole_part)
        rest.append(remainder)
    return CriteriaArrays(
        wanted.k,
        asked,
        n,
        starts,
        np.concatenate(codes) if codes else np.empty(0, np.int32),
        np.concatenate(counts).astype(np.int64) if counts else np.empty(0, np.int64),
        np.array([column.ordered for column in columns], np.int32),
        np.cumsum([0, *(column.distinct for column in columns)]).astype(np.int64),
        np.concatenate(overall).astype(np.int64) if overall else np.empty(0, np.int64),
        np.concatenate(area).astype(np.int64) if area else np.empty(0, np.int64),
        np.array(slope, np.int64),
        np.array(rest, np.int64),
        1 if wanted.t is None else wanted.t.denominator,
    )


def present(column: Sensitive, kept: Order | slice = slice(None)) -> Sensitive:
    """The column of some records, its values numbered anew: a rank counts only what is released."""
    occurring, codes = np.unique(column.codes[kept], return_inverse=True)
    return Sensitive(codes.ravel().astype(np.int32), len(occurring), column.ordered)


def tally_for(criteria: CriteriaArrays) -> Tally:
    """Room to count the values of any one column."""
    return new_tally(int(np.diff(criteria.first).max(initial=1)))


@inner
def meets(criteria: CriteriaArrays, members: Codes, count: int, size: int, tally: Tally) -> bool:
    """Whether the first `count` units of `members`, joined, make a class that meets the criteria.

    size: their records.
    """
    counts, touched, held = tally.counts, tally.touched, tally.held
    good = size >= criteria.k
    s = 0
    while good and s < criteria.ordered.shape[0]:
        found = 0
        for t in range(count):
            for e in range(criteria.starts[s, members[t]], criteria.starts[s, members[t] + 1]):
                code = criteria.codes[e]
                if counts[code] == 0:
                    touched[found] = code
                    found += 1
                counts[code] += criteria.counts[e]
        for t in range(found):
            held[t] = counts[touched[t]]
        good = diverse(criteria.diversity, tally, found, size)
        if good and criteria.slope[s] >= 0:
            limit = criteria.slope[s] * size + (criteria.rest[s] * size) // criteria.part
            if criteria.ordered[s] != 0:
                sort(touched, found)
                good = _ordered_sum(criteria, s, found, tally, size) <= limit
            else:
                apart = criteria.total * size
                for t in range(found):
                    expected = criteria.overall[criteria.first[s] + touched[t]] * size
                    apart += abs(held[t] * criteria.total - expected) - expected
                good = apart <= limit
        for t in range(found):
            counts[touched[t]] = 0
        s += 1
    return good


@inner
def _ordered_sum(criteria: CriteriaArrays, s: int, count: int, tally: Tally, size: int) -> int:
    """The sum over all values of |cumulative count times n - the table's times size|.

    tally.touched: the class's `count` values, ascending.

    A class's cumulative count is flat between the values it has, and the table's grows, so a stretch is summed at once:
    up to where they cross the class's is above, from there on below.
    """
    n, values = criteria.total, tally.touched
    base = criteria.first[s]
    m = criteria.first[s + 1] - base
    area = base + s  # `area` has one entry more in each column
    height = 0
    total = 0
    begin = 0
    for t in range(count + 1):
        stop = values[t] if t < count else m
        low = begin
        high = stop
        while low < high:
            middle = (low + high) // 2
            if criteria.overall[base + middle] * size < height:
                low = middle + 1
            else:
                high = middle
        total += height * (low - begin) - size * (criteria.area[area + low] - criteria.area[area + begin])
        total += size * (criteria.area[area + stop] - criteria.area[area + low]) - height * (stop - low)
        if t < count:
            height += tally.counts[values[t]] * n
            begin = stop
    return total
