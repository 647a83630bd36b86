"""Exact budgets: what counts as an epsilon, how charges add up, and when a budget is spent."""

from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.accounting import Budget, Charge, epsilon, parallel, rational, sequential, written
from duckanon.errors import InvalidInput

TENTH = Fraction(1, 10)


@pytest.mark.parametrize("given", ["0.1", " .1 ", "1/10", "1e-1", "+0.10", Decimal("0.1"), 0.1, TENTH])
def test_one_tenth(given: object) -> None:
    assert epsilon(given) == TENTH


def test_other_numbers() -> None:
    assert epsilon("1/3") == Fraction(1, 3)
    assert epsilon(2) == 2
    assert epsilon(1_000_000) == 10**6
    assert epsilon("0.000000000001") == Fraction(1, 10**12)


REFUSED = [
    *(0, -1, "0", "-0.1", "0/7", "nan", "NaN", "inf", "1e999", "-1e999", "1e99999999", "1e-9999999", "", "one", "1/0"),
    *(float("nan"), float("inf"), float("-inf"), Decimal("NaN"), Decimal("Infinity"), Decimal("1e999"), 1_000_001),
    *(None, True, False, [1], {"x": 1}, b"1", "0.1.2", "1 2", "0x1", "1_0", "٣"),
]


@pytest.mark.parametrize("given", REFUSED, ids=repr)
def test_what_is_no_epsilon(given: object) -> None:
    with pytest.raises(InvalidInput) as raised:
        epsilon(given)
    assert str(raised.value) == "epsilon must be a number above 0 and at most 1,000,000, as in epsilon := 0.1."


def test_too_many_digits() -> None:
    for number in ("0.0000000000001", "1/1000000000001", 1e-13):
        with pytest.raises(InvalidInput, match="has more than 12 digits after the point: round it"):
            epsilon(number)


@given(st.fractions())
def test_what_is_written_is_read_again(number: Fraction) -> None:
    assert Fraction(written(number)) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_decimals_are_exact(number: Decimal) -> None:
    assert rational(number) == Fraction(number)
    assert "/" not in written(Fraction(number))


def test_written() -> None:
    assert [written(Fraction(n)) for n in ("4", "1/10", "1/3", "-0.25", "0", "10", "100.5")] == [
        *("4", "0.1", "1/3", "-0.25", "0", "10", "100.5")
    ]


def test_levels_and_calls_add_up_exactly_and_regions_do_not() -> None:
    levels = [parallel([TENTH, TENTH, TENTH]), parallel([TENTH]), parallel([Fraction(1, 5), TENTH])]
    assert sequential(levels) == Fraction(2, 5)
    assert sequential([TENTH] * 10) == 1 != sum([0.1] * 10)
    assert sequential([]) == parallel([]) == 0


def test_a_budget_suffices_to_the_last_tenth() -> None:
    assert all(Budget(Fraction(1), n * TENTH).admits(TENTH) for n in range(10))
    assert not Budget(Fraction(1), sequential([TENTH] * 10)).admits(Fraction(1, 10**12))
    assert Budget(Fraction(1), Fraction(3)).remaining == 0


def test_nonsense_is_refused_and_nothing_can_be_changed() -> None:
    for total, spent in ((0, 0), (-1, 0), (1, -1)):
        with pytest.raises(InvalidInput):
            Budget(Fraction(total), Fraction(spent))
    with pytest.raises(InvalidInput):
        Charge(Fraction(0), "what", "who")
    with pytest.raises(FrozenInstanceError):
        Budget(Fraction(1)).spent = Fraction(0)  # type: ignore[misc]
