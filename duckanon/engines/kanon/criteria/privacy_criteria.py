"""Privacy criteria of a class beyond its size: l-diversity and t-closeness, decided in whole numbers.

Sources: Machanavajjhala et al. 2007 (l-diversity, see `diversity`); Li, Li and Venkatasubramanian 2007 (t-closeness,
section 4: equal and ordered distance). A class is t-close if the sum over values of |c n - N s| is at most 2 t s n,
where c of its s records and N of the table's n have the value; for ordered columns c and N are cumulative, and the sum
is at most t (m - 1) s n for m distinct values. All are whole numbers, so no rounding decides.

Every criterion is monotone: a class joined from classes that meet it meets it too. (Both distances are convex.)

A table may have several records of one person, household or customer: of one subject. Then k counts subjects, and a
subject counts once for each of its sensitive values in a class, however many of its records have it. (Closeness is
not monotone then: a subject of both classes counts once in the joined one.) Records without a subject do not count.

A record without a value (code -1) counts for k alone: l and t are about the values that a class has. A class without
any fails every l, and is t-close.

Records may be a part of a table, if their columns say so (`Sensitive.table`): closeness is to the whole table then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from duckanon.engines.array_kernels import sort
from duckanon.engines.compiled import called, inner
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
    starts[s, u + 1] - 1, by ascending code. Where subjects count, such a pair is one of a subject and a value.
    """

    k: int
    diversity: Diversity
    totals: Counts  # (columns,): what the table counts of each column: records, or pairs of a subject and a value
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
    names: Counts  # of each pair of a subject and a value: its number among all columns'; empty where records count
    held: Counts  # (u + 1,): where the subjects of each unit start; (0,) where records count
    subjects: Counts  # of each unit, each once


def criteria_arrays(
    unit: Labels, sensitive: Sequence[Sensitive], criteria: PrivacyCriteria, subjects: Codes | None = None
) -> CriteriaArrays:
    """The criteria for units. unit: shape (n,), the unit of each record, from 0, without gaps.

    subjects: shape (n,), the subject of each record, -1 for none, if subjects are to count.

    Raises InvalidInput if even all these records together fail, or a column has too many values for exact sums.
    """
    units = int(unit.max()) + 1
    counted = np.arange(len(unit)) if subjects is None else np.flatnonzero(subjects >= 0)
    of = unit[counted].astype(np.int64)
    who = None if subjects is None else present(Sensitive(subjects[counted], 0, False)).codes
    counts = [_count(of, units, present(column, counted), who) for column in sensitive]
    for count in counts:
        check_diverse(diversity(criteria.diversity, criteria.l, criteria.c), count.whole)
    held, name = (np.zeros(0, np.int64),) * 2
    if who is not None:
        pairs = np.unique(of * len(counted) + who)
        held, name = np.searchsorted(pairs, np.arange(units + 1) * len(counted)), pairs % len(counted)
    return _arrays(counts, units, criteria, held, name)


def no_criteria(k: int) -> CriteriaArrays:
    """Criteria that ask for k records alone."""
    none = np.zeros(0, np.int64)
    return _arrays([], 0, PrivacyCriteria(k), none, none)


def counted_criteria(column: Counted, criteria: PrivacyCriteria) -> CriteriaArrays:
    """The criteria for a part of a table as one unit. k of `criteria` is for whatever the unit's size counts."""
    codes = np.flatnonzero(column.counts).astype(np.int32)
    starts, none = np.array([0, len(codes)]), np.zeros(0, np.int64)
    count = _Count(starts, codes, column.counts[codes], none, column.counts, column.table, column.ordered)
    return _arrays([count], 1, criteria, none, none)


def check_table(column: Counted, criteria: PrivacyCriteria, most: int) -> None:
    """Check what `criteria_arrays` would find of any part of a table, where one has `most` records at most.

    column: the whole table's. Raises InvalidInput if all its records together fail, or it has too many values.
    """
    check_diverse(diversity(criteria.diversity, criteria.l, criteria.c), column.counts)
    _closeness(column.table, min(most, int(column.counts.sum())), criteria.t, ordered=column.ordered)


def _arrays(
    counts: Sequence[_Count], units: int, criteria: PrivacyCriteria, held: Counts, subjects: Counts
) -> CriteriaArrays:
    """held, subjects: as in `CriteriaArrays`."""
    base = np.cumsum([0, *(len(count.codes) for count in counts)])
    starts = np.zeros((len(counts), units + 1), np.int64)
    for s, count in enumerate(counts):
        starts[s] = base[s] + count.starts
    overall = [np.cumsum(count.table) if count.ordered else count.table for count in counts]
    limits = [_closeness(count.table, int(count.whole.sum()), criteria.t, ordered=count.ordered) for count in counts]
    return CriteriaArrays(
        criteria.k,
        diversity(criteria.diversity, criteria.l, criteria.c),
        np.array([count.table.sum() for count in counts], np.int64),
        starts,
        _joined([count.codes for count in counts], np.int32),
        _joined([count.counts for count in counts]),
        np.array([count.ordered for count in counts], np.int32),
        np.cumsum([0, *(len(count.table) for count in counts)]).astype(np.int64),
        _joined(overall),
        _joined([np.append(0, np.cumsum(in_column)) for in_column in overall]),
        np.array([slope for slope, _ in limits], np.int64),
        np.array([rest for _, rest in limits], np.int64),
        1 if criteria.t is None else criteria.t.denominator,
        _numbered_apart([count.names for count in counts]),
        held,
        subjects,
    )


@dataclass(frozen=True, eq=False)
class Counted:
    """How often a part of a table, `counts`, and the whole `table` have each value of a column: shapes (values,)."""

    counts: Counts
    table: Counts
    ordered: bool


@dataclass(frozen=True, eq=False)
class _Count:
    """How often each unit has each value of one column: unit after unit, what they have by ascending code.

    starts: shape (units + 1,). counts: records, or where subjects count 1 for each pair, with its name. whole: how
    often all units together have each value. table: how often the table has each, of which they may be a part.
    """

    starts: Counts
    codes: Codes
    counts: Counts
    names: Counts
    whole: Counts
    table: Counts
    ordered: bool


def _count(of: Counts, units: int, column: Sensitive, who: Codes | None) -> _Count:
    """of, who: shape (n,), each record's unit, and its subject if subjects count."""
    known = column.codes >= 0
    of, codes = of[known], column.codes[known]
    name, width = codes.astype(np.int64), column.distinct
    if who is not None:
        pairs, name = np.unique(name * len(who) + who[known], return_inverse=True)
        codes, width = (pairs // len(who)).astype(np.int32), len(pairs)
    occurring, counts = np.unique(of * width + name.ravel(), return_counts=True)
    unit, held = np.divmod(occurring, width)
    starts = np.searchsorted(unit, np.arange(units + 1))
    whole = np.bincount(codes, minlength=column.distinct)
    table = whole if column.table is None else column.table
    if who is None:
        return _Count(starts, held.astype(np.int32), counts, held[:0], whole, table, column.ordered)
    return _Count(starts, codes[held], np.ones_like(counts), held, whole, table, column.ordered)


def _closeness(table: Counts, most: int, t: Fraction | None, *, ordered: bool) -> tuple[int, int]:
    """How large the sum of a class may be for each of its records: a whole part, -1 without t, and a remainder.

    most: of how many records a class has at most. Raises InvalidInput if the sums would not fit into 64 bits.
    """
    if t is None:
        return -1, 0
    n, far = int(table.sum()), max(len(table) - 1, 0) if ordered else 2
    if max(far, 2) * n * most >= 2**62 or t.denominator * most >= 2**62:
        raise InvalidInput("A sensitive column has too many distinct values for t: round its values, or leave t out.")
    return divmod(t.numerator * far * n, t.denominator)


def _numbered_apart(parts: Sequence[Counts]) -> Counts:
    """The numbers of all columns' pairs, each column's after those of the columns before it."""
    after = np.cumsum([0, *(int(part.max(initial=-1)) + 1 for part in parts)])
    return _joined([part + start for part, start in zip(parts, after[:-1], strict=True)])


def _joined(parts: Sequence[npt.NDArray[Any]], kind: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, kind)]).astype(kind)


def present(column: Sensitive, kept: Order | Counts | slice = slice(None)) -> Sensitive:
    """The column of some records, its values numbered anew: a rank counts only what is released.

    Of a part of a table they keep their numbers.
    """
    codes = column.codes[kept]
    if column.table is not None:
        return replace(column, codes=codes)
    known = codes >= 0
    occurring, numbers = np.unique(codes[known], return_inverse=True)
    anew = np.full(len(codes), -1, np.int32)
    anew[known] = numbers.ravel()
    return Sensitive(anew, len(occurring), column.ordered)


def tally_for(criteria: CriteriaArrays) -> Tally:
    """Room to count the values of all columns, and the subjects."""
    pairs, subjects = (int(numbers.max(initial=-1)) + 1 for numbers in (criteria.names, criteria.subjects))
    return new_tally(int(criteria.first[-1]), pairs, subjects, len(criteria.ordered))


@called
def meets(criteria: CriteriaArrays, members: Codes, count: int, size: int, tally: Tally) -> bool:
    """Whether the first `count` units of `members`, joined, make a class that meets the criteria.

    size: their records.
    """
    if size < criteria.k:
        return False
    begin(tally)
    for t in range(count):
        add(criteria, members[t], tally)
    good = counted_meet(criteria, size, tally)
    forget(criteria, tally)
    return good


@inner
def begin(tally: Tally) -> None:
    """Begin to count a class: it has nothing yet."""
    tally.number[0] += 1
    tally.number[1] = 0
    for s in range(tally.occurring.shape[0]):
        tally.occurring[s] = 0
        tally.counted[s] = 0


@inner
def add(criteria: CriteriaArrays, u: int, tally: Tally) -> None:
    """Count unit u in the class that is counted."""
    by_subject = criteria.held.shape[0] > 0
    if by_subject:
        # The marks of subjects stand behind those of pairs.
        behind = tally.met.shape[0] - tally.number[2]
        for e in range(criteria.held[u], criteria.held[u + 1]):
            mark = behind + criteria.subjects[e]
            if tally.met[mark] != tally.number[0]:
                tally.met[mark] = tally.number[0]
                tally.number[1] += 1
    for s in range(criteria.ordered.shape[0]):
        base = criteria.first[s]
        for e in range(criteria.starts[s, u], criteria.starts[s, u + 1]):
            if by_subject:
                if tally.met[criteria.names[e]] == tally.number[0]:
                    continue
                tally.met[criteria.names[e]] = tally.number[0]
            code = criteria.codes[e]
            if tally.counts[base + code] == 0:
                tally.touched[base + tally.occurring[s]] = code
                tally.occurring[s] += 1
            tally.counts[base + code] += criteria.counts[e]
            tally.counted[s] += criteria.counts[e]


@inner
def forget(criteria: CriteriaArrays, tally: Tally) -> None:
    """Make all counts zeros again."""
    for s in range(criteria.ordered.shape[0]):
        base = criteria.first[s]
        for t in range(tally.occurring[s]):
            tally.counts[base + tally.touched[base + t]] = 0


@inner
def counted_meet(criteria: CriteriaArrays, size: int, tally: Tally) -> bool:
    """Whether the class that is counted, of `size` records, meets the criteria."""
    if (tally.number[1] if criteria.held.shape[0] > 0 else size) < criteria.k:
        return False
    for s in range(criteria.ordered.shape[0]):
        base, occurring, counted = criteria.first[s], tally.occurring[s], tally.counted[s]
        if occurring < criteria.diversity.least:
            return False
        counts, touched = tally.counts[base:], tally.touched[base:]
        for t in range(occurring):
            tally.held[t] = counts[touched[t]]
        if not diverse(criteria.diversity, tally, occurring, counted):
            return False
        if criteria.slope[s] < 0:
            continue
        limit = criteria.slope[s] * counted + (criteria.rest[s] * counted) // criteria.part
        if criteria.ordered[s] != 0:
            sort(touched, occurring)
            apart = _ordered_sum(criteria, s, counts, touched, occurring, counted)
        else:
            apart = criteria.totals[s] * counted
            for t in range(occurring):
                expected = criteria.overall[base + touched[t]] * counted
                apart += abs(tally.held[t] * criteria.totals[s] - expected) - expected
        if apart > limit:
            return False
    return True


@inner
def _ordered_sum(criteria: CriteriaArrays, s: int, counts: Counts, codes: Counts, count: int, size: int) -> int:
    """The sum over all values of |cumulative count times the table's total - the table's times size|.

    codes: of the class's `count` values, ascending. counts: how often it has each.

    A class's cumulative count is flat between the values it has, and the table's grows, so a stretch is summed at once:
    up to where they cross the class's is above, from there on below.
    """
    n = criteria.totals[s]
    base = criteria.first[s]
    m = criteria.first[s + 1] - base
    area = base + s  # `area` has one entry more in each column
    height = 0
    total = 0
    begin = 0
    for t in range(count + 1):
        stop = codes[t] if t < count else m
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
            height += counts[codes[t]] * n
            begin = stop
    return total
