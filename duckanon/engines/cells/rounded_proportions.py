"""Exact bounds from proportions that were rounded to d digits, a problem that the paper leaves open (section 2).

A published q stands for every proportion from (q - 1/2) / D to (q + 1/2) / D, D = 10^d. For a row total t each cell
then has an interval of whole counts, and t is possible exactly if no interval is empty and t lies between the sums of
their lower and of their upper ends: whole numbers in a box reach every sum in between. For the same reason the counts
that one cell can have at t are again an interval. The totals of all rows must add up to n: sets of totals are bit
sets, sums of sets are taken for all rows but one by divide and conquer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from duckanon.engines.cells.knapsack import Ints
from duckanon.engines.compiled import allocating, compiled, inner
from duckanon.errors import Infeasible, InvalidInput

Bools = npt.NDArray[np.bool_]

# How ties (halves) were rounded: unknown, up, to the even digit, or down; or it is known that there were none.
TIES = ("any", "up", "even", "down", "none")
# Added to a tie rule: the cell is known to have a record, even if its share is published as 0.
_SHOWN = 8
# The widest set of totals: a Fourier transform of it takes about a second.
_WIDEST = 10**7
# The most bytes for the totals of all rows together.
_ROOM = 10**9
# A set of up to so many members is added by shifts, a larger one by a Fourier transform.
_FEW = 600


@inner
def _ends(q: int, t: int, scale: int, rule: int) -> tuple[int, int]:
    """Least and largest count that, divided by t, is published as q / scale."""
    low, high = (2 * q - 1) * t, (2 * q + 1) * t
    unit = 2 * scale
    ties = rule % _SHOWN
    odd = ties == 2 and q % 2 == 1
    strict_low = ties >= 3 or odd
    strict_high = ties == 1 or ties == 4 or odd
    least = 1 if rule >= _SHOWN else 0
    if q > 0:
        least = max(least, low // unit + 1 if strict_low else -((-low) // unit))
    most = (high - 1) // unit if strict_high else high // unit
    return least, min(most, t)


@inner
def _is_total(q: Ints, rules: Ints, t: int, scale: int) -> bool:
    """Whether a row with total t can have the published proportions q."""
    low = high = 0
    for j in range(len(q)):
        least, most = _ends(q[j], t, scale, rules[j])
        if least > most:
            return False
        low += least
        high += most
    return low <= t <= high


@compiled
def _first_total(q: Ints, rules: Ints, scale: int, most: int) -> int:
    """The smallest row total above zero that can have these proportions; 0 if none up to `most` can."""
    for t in range(1, most + 1):
        if _is_total(q, rules, t, scale):
            return t
    return 0


@allocating
def _totals(q: Ints, rules: Ints, scale: int, first: int, width: int) -> Bools:
    """Which of the totals first, ..., first + width are possible."""
    possible = np.zeros(width + 1, dtype=np.bool_)
    for x in range(width + 1):
        possible[x] = _is_total(q, rules, first + x, scale)
    return possible


@allocating
def _cell(q: Ints, rules: Ints, which: int, scale: int, first: int, totals: Bools) -> tuple[int, int, int]:
    """Smallest and largest count of cell `which` over all possible totals, and how many counts it can have."""
    steps = np.zeros(first + len(totals) + 1, dtype=np.int64)
    for x in range(len(totals)):
        if not totals[x]:
            continue
        t = first + x
        low = high = 0
        for j in range(len(q)):
            if j != which:
                least, most = _ends(q[j], t, scale, rules[j])
                low += least
                high += most
        least, most = _ends(q[which], t, scale, rules[which])
        steps[max(least, t - high)] += 1
        steps[min(most, t - low) + 1] -= 1
    smallest, largest, count, depth = -1, -1, 0, 0
    for candidate in range(len(steps)):
        depth += steps[candidate]
        if depth > 0:
            if smallest < 0:
                smallest = candidate
            largest = candidate
            count += 1
    return smallest, largest, count


# --- sums of sets -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Set:
    """A set of numbers: x up to gamma if bit x of `bits` is set, and every x above gamma. Other bits have no
    meaning.
    """

    bits: int
    gamma: int


def _cut(bits: int, gamma: int) -> _Set:
    """The set with gamma as small as it can be."""
    outside = ~bits & ((1 << (gamma + 1)) - 1)
    return _Set(bits, outside.bit_length() - 1)


def _to_bits(members: Bools) -> int:
    return int.from_bytes(np.packbits(members, bitorder="little").tobytes(), "little")


def _to_array(bits: int, width: int) -> Bools:
    """Bits 0..width."""
    raw = np.frombuffer((bits & ((1 << (width + 1)) - 1)).to_bytes(width // 8 + 1, "little"), dtype=np.uint8)
    return np.unpackbits(raw, bitorder="little")[: width + 1].astype(bool)


def _members(bits: int) -> list[int]:
    members: list[int] = np.flatnonzero(_to_array(bits, max(bits.bit_length() - 1, 0))).tolist()
    return members


def _sum(first: _Set, second: _Set) -> _Set:
    """All sums of a member of each. Both contain 0, so the sums contain both sets: only x up to both gammas matter."""
    gamma = min(first.gamma, second.gamma)
    if gamma < 0:
        return _Set(0, -1)
    mask = (1 << (gamma + 1)) - 1
    a, b = first.bits & mask, second.bits & mask
    if a.bit_count() > b.bit_count():
        a, b = b, a
    if a.bit_count() <= _FEW or gamma < 4096:
        bits = 0
        for x in _members(a):
            bits |= b << x
        return _cut(bits & mask, gamma)
    from numpy.fft import irfft, rfft

    size = 1 << (2 * gamma + 1).bit_length()
    product = irfft(rfft(_to_array(a, gamma), size) * rfft(_to_array(b, gamma), size), size)[: gamma + 1]
    return _cut(_to_bits(product > 0.5), gamma)


def _times(members: _Set, copies: int, slack: int) -> _Set:
    """All sums of `copies` members."""
    total, power = _Set(1, slack) if slack else _Set(0, -1), members
    while copies:
        if copies & 1:
            total = _sum(total, power)
        copies >>= 1
        if copies:
            power = _sum(power, power)
    return total


def _leave_out(sets: Sequence[_Set], copies: Sequence[int], slack: int, answer: Callable[[int, _Set], None]) -> None:
    """Call `answer` with each set's number and the sums of all sets, one copy of it left out."""

    def divide(members: list[int], rest: _Set) -> None:
        if len(members) == 1:
            (k,) = members
            answer(k, _sum(rest, _times(sets[k], copies[k] - 1, slack)))
            return
        half = len(members) // 2
        for part, others in ((members[half:], members[:half]), (members[:half], members[half:])):
            joined = rest
            for k in others:
                if joined.gamma < 0:
                    break
                joined = _sum(joined, _times(sets[k], copies[k], slack))
            divide(part, joined)

    divide(list(range(len(sets))), _cut(1, slack))


# --- from proportions to bounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellBounds:
    """Smallest and largest count of each cell and how many counts it can have: int64 of shape (cells,)."""

    lower: Ints
    upper: Ints
    feasible: Ints


def _none(name: str) -> Infeasible:
    return Infeasible(f"No table of this sample size has the proportions of {name}: check p, n and digits.")


@dataclass(frozen=True, eq=False)
class _Kind:
    """Rows with the same proportions, in whatever order: they can have the same totals and counts.

    published, rules: int64 of shape (cells,), of a row's cells in ascending order. first: the least total.
    """

    published: Ints
    rules: Ints
    first: int

    def cells(self, scale: int, totals: Bools) -> dict[tuple[int, int], tuple[int, int, int]]:
        """Smallest and largest count of each proportion with its rule, and how many counts it can have.

        totals: which of the totals from the first on a row has where the other rows leave it that. Raises Infeasible
        if there is none.
        """
        if not totals.any():
            raise Infeasible("No table has these proportions and this sample size: check p, n and digits.")
        ranges: dict[tuple[int, int], tuple[int, int, int]] = {}
        for which, cell in enumerate(zip(self.published.tolist(), self.rules.tolist(), strict=True)):
            if cell not in ranges:
                ranges[cell] = _cell(self.published, self.rules, which, scale, self.first, totals)
        return ranges


def _kinds(
    starts: npt.NDArray[np.intp], published: Ints, rules: Ints, scale: int, n: int, name: Callable[[int], str]
) -> tuple[list[_Kind], list[int]]:
    """The kinds of rows, and which of them each row is. starts: where each row begins.

    Raises Infeasible for a row that no total up to n fits.
    """
    numbers: dict[bytes, int] = {}
    kinds: list[_Kind] = []
    kind_of = []
    for row, (begin, end) in enumerate(pairwise([*starts.tolist(), len(published)])):
        order = np.lexsort((rules[begin:end], published[begin:end]))
        shares, ties = published[begin:end][order], rules[begin:end][order]
        number = numbers.setdefault(shares.tobytes() + ties.tobytes(), len(kinds))
        if number == len(kinds):
            kinds.append(_Kind(shares, ties, _first_total(shares, ties, scale, n)))
            if not kinds[-1].first:
                raise _none(name(row))
        kind_of.append(number)
    return kinds, kind_of


def rounded_bounds(
    rows: Ints,
    published: Ints,
    digits: int,
    n: int,
    ties: str | Sequence[str] = "any",
    name: Callable[[int], str] = "row {}".format,
    *,
    shown: bool = False,
) -> CellBounds:
    """Bound every cell of a table of rounded row proportions.

    rows: shape (cells,), row numbers from 0, ascending. published: shape (cells,), each proportion times 10^digits,
    0 to 10^digits. Every row has one record or more. n: the sample size.
    ties: 'any': it is not known how a half was rounded (both neighbours count); 'up', 'even' or 'down', for all cells
    or for each; 'none': no share was half-way. shown: whether each cell that is given holds a record, as in the groups
    of a query. name: how to call a row in an error.
    Raises Infeasible if no table has these proportions, InvalidInput for what is too large to be exact.
    """
    scale = 10**digits
    cell_ties = [ties] * len(rows) if isinstance(ties, str) else ties
    rules = np.array([TIES.index(rounding) + _SHOWN * shown for rounding in cell_ties], dtype=np.int64)
    if n * (2 * scale + 1) >= 2**62:
        raise InvalidInput("n times 10^digits is above 10^18: that many digits are more than rounding leaves open.")
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    kinds, kind_of = _kinds(starts, published, rules, scale, n, name)
    copies = np.bincount(kind_of).tolist()
    least = sum(kind.first * row_count for kind, row_count in zip(kinds, copies, strict=True))
    slack = n - least
    if slack < 0:
        raise Infeasible(
            f"No table has these proportions: their rows have {least} records or more together, and n is {n}."
        )
    if slack > _WIDEST or slack * len(kinds) > _ROOM:
        raise InvalidInput(
            "n is too far above the fewest records that the rounded proportions need: more than 10^7, or 10^9 divided "
            "by the number of different rows. Bound parts of the table, or give exact proportions."
        )
    totals = [_totals(kind.published, kind.rules, scale, kind.first, slack) for kind in kinds]
    answers: list[dict[tuple[int, int], tuple[int, int, int]]] = [{} for _ in kinds]

    def answer(k: int, others: _Set) -> None:
        rest = np.ones(slack + 1, dtype=bool)
        if others.gamma >= 0:
            rest[: others.gamma + 1] = _to_array(others.bits, others.gamma)
        answers[k] = kinds[k].cells(scale, totals[k] & rest[::-1])

    _leave_out([_cut(_to_bits(total), slack) for total in totals], copies, slack, answer)
    row_kind = np.repeat(np.array(kind_of), np.diff(starts, append=len(rows)))
    ranges = np.array(
        [answers[k][q, rule] for k, q, rule in zip(row_kind.tolist(), published.tolist(), rules.tolist(), strict=True)],
        dtype=np.int64,
    ).reshape(-1, 3)
    return CellBounds(*np.ascontiguousarray(ranges.T))
