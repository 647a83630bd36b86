"""Bounds from rounded proportions against the list of all tables, on hundreds of small tables."""

from decimal import ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from duckanon.engines.cells import rounded_proportions as rounded_module
from duckanon.engines.cells.rounded_proportions import TIES, rounded_bounds
from duckanon.errors import Infeasible, InvalidInput
from tests.amounts import many
from tests.engines.cells import plain
from tests.engines.cells.strategies import tables

RULES = {"up": ROUND_HALF_UP, "even": ROUND_HALF_EVEN, "down": ROUND_HALF_DOWN}


def matches(count: int, total: int, q: int, digits: int, ties: str) -> bool:
    if ties == "any":
        return abs(Fraction(count, total) * 10**digits - q) <= Fraction(1, 2)
    exact = Fraction(count * 10**digits, total)
    # Halves are exact in binary and in decimal, so a Decimal of twice the number decides.
    whole, rest = divmod(exact.numerator, exact.denominator)
    tail = (
        Decimal(1) if 2 * rest > exact.denominator else Decimal("0.5") if 2 * rest == exact.denominator else Decimal(0)
    )
    if tail == Decimal("0.5") and ties == "none":
        return False
    if tail != Decimal("0.5"):
        return q == whole + int(tail)
    return q == int((whole + tail).quantize(Decimal(1), rounding=RULES[ties]))


def brute(
    shares: list[list[int]], digits: int, n: int, ties: str | list[str], *, shown: bool = False
) -> list[set[int]]:
    """Every count that each cell can have, by listing the rows, and their totals, and all tables."""
    rules = [ties] * max(map(len, shares)) if isinstance(ties, str) else ties
    options = []
    for share in shares:
        rows = []
        for total in range(1, n + 1):
            rows += [
                row
                for row in plain.compositions(total, len(share))
                if all(matches(x, total, q, digits, rule) for x, q, rule in zip(row, share, rules, strict=False))
                and (all(row) or not shown)
            ]
        options.append(rows)
    seen: list[set[int]] = [set() for share in shares for _ in share]
    totals = [sorted({sum(row) for row in rows}) for rows in options]
    for chosen in product(*totals):
        if sum(chosen) != n:
            continue
        cell = 0
        for total, rows in zip(chosen, options, strict=True):
            for row in rows:
                if sum(row) == total:
                    for j, x in enumerate(row):
                        seen[cell + j].add(x)
            cell += len(rows[0])
    return seen


def publish(table: list[list[int]], digits: int, ties: str) -> list[list[int]]:
    found = []
    for row in table:
        total = sum(row)
        options = [[q for q in range(10**digits + 1) if matches(x, total, q, digits, ties)] for x in row]
        if not all(options):
            reject()  # a half, where there is said to be none
        found.append([one[-1] for one in options])
    return found


@settings(max_examples=many(400))
@given(tables(rows=3, columns=3, most=4), st.integers(0, 2), st.sampled_from(TIES))
def test_agrees_with_all_tables(table: list[list[int]], digits: int, ties: str) -> None:
    n = sum(map(sum, table))
    shares = publish(table, digits, ties)
    expected = brute(shares, digits, n, ties)
    rows, published = plain.arrays(shares)
    found = rounded_bounds(rows, published, digits, n, ties)
    assert found.lower.tolist() == [min(one) for one in expected]
    assert found.upper.tolist() == [max(one) for one in expected]
    assert found.feasible.tolist() == [len(one) for one in expected]
    for x, low, high in zip(plain.arrays(table)[1], found.lower, found.upper, strict=True):
        assert low <= x <= high


@settings(max_examples=many(150))
@given(tables(rows=3, columns=3, most=4), st.integers(0, 2), st.sampled_from(TIES))
def test_cells_that_are_shown_hold_a_record(table: list[list[int]], digits: int, ties: str) -> None:
    table = [[x for x in row if x] for row in table if any(row)]
    n = sum(map(sum, table))
    shares = publish(table, digits, ties)
    expected = brute(shares, digits, n, ties, shown=True)
    rows, published = plain.arrays(shares)
    found = rounded_bounds(rows, published, digits, n, ties, shown=True)
    assert found.lower.tolist() == [min(one) for one in expected]
    assert found.upper.tolist() == [max(one) for one in expected]


@settings(max_examples=many(150))
@given(tables(rows=3, columns=2, most=5), st.integers(0, 2))
def test_a_share_and_what_is_left_of_its_row(table: list[list[int]], digits: int) -> None:
    """One share of each row, a half of which was rounded up; so the rest's was rounded down."""
    table = [row for row in table if any(row) and len(row) == 2] or [[1, 1]]
    n = sum(map(sum, table))
    shares = [[row[0], 10**digits - row[0]] for row in publish(table, digits, "up")]
    expected = brute(shares, digits, n, ["up", "down"])
    rows, published = plain.arrays(shares)
    found = rounded_bounds(rows, published, digits, n, ["up", "down"] * len(table))
    assert found.lower.tolist() == [min(one) for one in expected]
    assert found.upper.tolist() == [max(one) for one in expected]


@settings(max_examples=many(500))
@given(
    st.lists(st.lists(st.integers(0, 10), min_size=2, max_size=2), min_size=1, max_size=3),
    st.integers(1, 12),
    st.sampled_from(TIES),
)
def test_proportions_that_nobody_published(shares: list[list[int]], n: int, ties: str) -> None:
    rows, published = plain.arrays(shares)
    try:
        found = rounded_bounds(rows, published, 1, n, ties)
    except Infeasible:
        try:
            assert not any(brute(shares, 1, n, ties))
        except IndexError:  # a row without any total
            return
        return
    assert found.feasible.tolist() == [len(one) for one in brute(shares, 1, n, ties)]


def test_sums_of_sets_by_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        width = int(rng.integers(4096, 9000))
        one, other = (rng.random(width + 1) < 0.01 for _ in range(2))
        one[0] = other[0] = True
        sets = [rounded_module._cut(rounded_module._to_bits(x), width) for x in (one, other)]
        by_shifts = rounded_module._sum(*sets)
        with monkeypatch.context() as patch:
            patch.setattr(rounded_module, "_FEW", 0)
            assert rounded_module._sum(*sets) == by_shifts


def test_limits_are_told() -> None:
    rows, q = np.zeros(2, dtype=np.int64), np.array([500, 500])
    with pytest.raises(InvalidInput, match="too far above"):
        rounded_bounds(rows, q, 3, 10**9)
    with pytest.raises(InvalidInput, match="more than rounding leaves open"):
        rounded_bounds(rows, q, 12, 10**9)
    with pytest.raises(Infeasible, match="of row 0"):
        rounded_bounds(rows, np.array([500, 400]), 3, 100)
    with pytest.raises(Infeasible, match="have 4 records or more together, and n is 3"):
        rounded_bounds(np.array([0, 0, 1, 1]), np.array([500, 500, 500, 500]), 3, 3)
