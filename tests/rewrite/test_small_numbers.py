"""The sentence on numbers that are small beside their own intervals: it follows from the noisy numbers alone."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from duckanon.rewrite.decision import Decision, Step, Verdict

NUMBERS = st.one_of(st.none(), st.integers(-40, 40), st.floats(-40, 40))


def decision(*noisy: tuple[int, float]) -> Decision:
    return Decision([Step("count", "t", Verdict.REWRITTEN, "", noisy=noisy)], "SELECT 1")


@given(st.lists(st.tuples(st.text(), NUMBERS, NUMBERS), max_size=8), st.floats(0, 30), st.floats(0, 30))
def test_it_counts_them(rows: list[tuple[object, ...]], first: float, second: float) -> None:
    said = decision((1, first), (2, second)).small_numbers(rows)
    told: list[tuple[float, float]] = [
        (abs(one), width)  # type: ignore[arg-type]
        for _, x, y in rows
        for one, width in ((x, first), (y, second))
        if one is not None
    ]
    small = sum(one < width for one, width in told)
    found = re.match(r"(\d+) of (\d+) noisy numbers? (is|are) smaller than", said) if said is not None else None
    assert (said is None) == (small == 0)
    assert found is None or (int(found[1]), int(found[2])) == (small, len(told))


@given(st.lists(st.tuples(st.text(), st.integers(-9, 9)), min_size=1), st.lists(st.text(), min_size=1))
def test_nothing_else_is_looked_at(rows: list[tuple[str, int]], other: list[str]) -> None:
    changed = [(other[at % len(other)], number) for at, (_, number) in enumerate(rows)]
    assert decision((1, 6.0)).small_numbers(rows) == decision((1, 6.0)).small_numbers(changed)


def test_a_result_without_noise_has_none() -> None:
    assert decision().small_numbers([(0,), (1,)]) is None
