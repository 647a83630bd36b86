"""low and high, as the guard writes them: how often they hold, over all values of the noise.

Each place of an answer gets one of all combinations of noise, so one query says exactly how probable each result is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest

from duckanon.engines.noise import Gaussian, Laplace
from duckanon.engines.noise_tails import Widths, least_width
from duckanon.functions import noise_widths
from duckanon.releases.measures import Sums
from tests.amounts import sampled
from tests.releases.chosen_noise import Chosen, Number, Table, tables

Ask = Callable[[Table, Number], Chosen]

# Scales of one, of a fifth and of five for columns of whole numbers; of one record in the units of the totals.
LARGE, SMALL = Table("1"), Table("5", "[0, 1]")
WIDE, APART, HALVES = Table("6", "[-1, 2]"), Table("8", "[2, 5]"), Table("4", "[0, 2, 1]", "DOUBLE")
COUNT, FILTERED = Number("count(*)"), Number("count(*)", "count(*) FILTER (WHERE ill)")
CASES = {
    "count": (LARGE, COUNT),
    "count of part": (LARGE, Number("count(*) FILTER (WHERE ill)", "count(*)")),
    "count of two cells": (LARGE, FILTERED),
    "count of two cells, little noise": (SMALL, FILTERED),
    "different": (LARGE, Number("count(DISTINCT w)")),
    "total of two": (LARGE, Number("count(*)", rolled=True)),
    "count beside a sum": (Table("3"), Number("count(*)", "sum(v)")),
    "count of values": (LARGE, Number("count(v)", "sum(v)")),
    "sum of 0 and 1": (LARGE, Number("sum(v)")),
    "sum of -1 to 2": (WIDE, Number("sum(v)")),
    "sum of 2 to 5": (APART, Number("sum(v)")),
    "sum, rounded": (HALVES, Number("sum(v)")),
    "sum beside a variance": (Table("3"), Number("sum(v)", "stddev(v)")),
    "total of sums": (Table("3"), Number("sum(v)", rolled=True)),
    "mean of 0 and 1": (LARGE, Number("avg(v)")),
    "mean of 0 and 1, little noise": (SMALL, Number("avg(v)")),
    "mean of -1 to 2": (WIDE, Number("avg(v)")),
    "mean of 2 to 5": (APART, Number("avg(v)")),
    "mean beside a variance": (Table("3"), Number("avg(v)", "stddev(v)")),
    "total of means": (Table("3"), Number("avg(v)", rolled=True)),
    "share": (LARGE, Number("avg(ill::INTEGER)")),
    "share, little noise": (SMALL, Number("avg(ill::INTEGER)")),
    "mean, some noise": (Table("3.2"), Number("avg(v)")),
    "share, some noise": (Table("3.7"), Number("avg(ill::INTEGER)")),
    "share, divided": (LARGE, Number("count(*) FILTER (WHERE ill) * 1.0 / count(*)")),
    "share, divided, some noise": (Table("3.7"), Number("sum(CASE WHEN ill THEN 1 ELSE 0 END) / count(*)")),
    "share in percent, divided": (SMALL, Number("round(100.0 * count(*) FILTER (WHERE ill) / count(*), 1)")),
    "the others in percent, divided": (LARGE, Number("100 - 100 * count(*) FILTER (WHERE ill) / nullif(count(*), 0)")),
    "share of a condition, divided": (
        Table("8"),
        Number("count(*) FILTER (WHERE ill AND w > 1) / count(*) FILTER (WHERE ill)"),
    ),
    "share beside a sum, divided": (Table("8"), Number("count(*) FILTER (WHERE ill) / count(*)", "sum(v)")),
    "share of values, divided": (Table("3"), Number("count(v) / count(*)", "sum(v)")),
    "share of rows, divided": (LARGE, Number("count(*) / sum(count(*)) OVER (PARTITION BY place)", apart=True)),
    "share of a part of rows, divided": (
        Table("8"),
        Number("count(*) FILTER (WHERE ill) * 100.0 / sum(count(*)) OVER (PARTITION BY place)", apart=True),
    ),
    "share of rows so far, divided": (
        LARGE,
        Number(
            "sum(count(*)) OVER (PARTITION BY place ORDER BY kind) / sum(count(*)) OVER (PARTITION BY place)",
            apart=True,
        ),
    ),
    "odds, divided": (Table("8"), Number("count(*) FILTER (WHERE ill) / count(*) FILTER (WHERE NOT ill)")),
    "odds in percent, divided": (
        Table("5"),
        Number("round(100.0 * count(*) FILTER (WHERE ill) / nullif(count(*) FILTER (WHERE NOT ill), 0), 1)"),
    ),
    "share of units, divided": (
        LARGE,
        Number("count(DISTINCT w) / sum(count(DISTINCT w)) OVER (PARTITION BY place)", apart=True),
    ),
    "share of a sum, divided": (Table("8", "[0, 2]"), Number("sum(v) FILTER (WHERE ill) / sum(v)")),
    "share of sums of rows, divided": (
        Table("8"),
        Number("sum(v) / sum(sum(v)) OVER (PARTITION BY place)", apart=True),
    ),
    "share of a sum, rounded, divided": (
        Table("8", "[0, 2, 1]", "DOUBLE"),
        Number("sum(v) FILTER (WHERE ill) / sum(v)"),
    ),
    "mean of all, rounded, divided": (Table("12", "[0, 2, 1]", "DOUBLE"), Number("sum(v) / count(*)")),
    "mean of values, divided": (WIDE, Number("2 * sum(v) / count(v)")),
    "mean of all, divided": (Table("3"), Number("sum(v) / count(*)")),
    "mean of all of -1 to 2, divided": (Table("12", "[-1, 2]"), Number("sum(v) / count(*)")),
    "mean of all of 2 to 5, divided": (Table("12", "[2, 5]"), Number("sum(v) / count(*)")),
    "total of shares, divided": (Table("8"), Number("count(*) FILTER (WHERE ill) / count(*)", rolled=True)),
}
# The same in populations with a delta, at prices for which noise is Gaussian and has few values.
PRICES = {"1": "0.6", "6": "2", "8": "1", "12": "2"}
GAUSSIAN = {
    f"{name}, Gaussian": (
        replace(table, epsilon="2" if table == APART else PRICES.get(table.epsilon, "1"), delta="1e-9"),
        number,
    )
    for name, (table, number) in CASES.items()
    if not name.startswith(("share of a sum", "share of sums", "share beside a sum"))
}
LAPLACE = list(CASES)
CASES |= GAUSSIAN
NAMES = [*sampled(LAPLACE), *sampled(GAUSSIAN, every=4)]
DIVIDED = [name for name in CASES if "divided" in name]
STEPS = {
    name: one
    for name, one in CASES.items()
    if one[1].sql.startswith(("count", "sum")) and "rounded" not in name and "divided" not in name
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    made = [table for table, _ in CASES.values()]
    with tables(tmp_path_factory.mktemp("intervals") / "x.duckdb", made) as found:
        yield found


class Outcomes:
    """All that a number can be, where the exact totals of each cell are given.

    exact: the first of the totals, in records; if it is negative, the last without its sign, the others 1 or 2.
    truth: the number without noise. rows: x, low and high. chance: of each row. lost: of what is left out.
    """

    def __init__(self, asked: Chosen, exact: int) -> None:
        many = asked.cells * asked.totals
        reach = (int(asked.places ** (1 / many) + 1e-9) - 1) // 2
        values = np.arange(-reach, reach + 1)
        noise = np.stack(np.meshgrid(*[values] * many, indexing="ij"), axis=-1).reshape(-1, many)
        far = asked.noise.reach(1)
        one = asked.noise.chances(far)[np.clip(noise, -far, far) + far] * (np.abs(noise) <= far)
        self.chance, self.noise = np.zeros(asked.places), np.zeros((asked.places, many), dtype=np.int64)
        self.chance[: len(noise)], self.noise[: len(noise)] = one.prod(axis=1), noise
        self.lost = 1 - self.chance.sum()
        # Another number in each total, so that means and shares are not at the middle; or nearly all in one of them.
        first = np.arange(many) < many - 1
        ((measure, _),) = asked.question.measures
        # Of squares, the middle total is even, so that the sum is a whole number of steps, as that of records is.
        one_each = 2 if isinstance(measure, Sums) and measure.squares else 1
        records = exact * (1 + np.arange(many)) if exact > 0 else np.where(first, one_each, -exact)
        self.exact = records * asked.whole
        totals = self.exact.reshape(asked.cells, asked.totals)
        totals = np.broadcast_to(totals, (asked.places, *totals.shape))
        self.truth = float(asked.rows(totals)[0, 0])
        self.rows = asked.rows(totals + self.noise.reshape(totals.shape))

    def held(self, more: float = 0.0) -> float:
        """How probable it is that the interval, wider by `more` at each end, holds the truth."""
        low, high = self.rows[:, 1] - more - 1e-9, self.rows[:, 2] + more + 1e-9
        return float(self.chance[(low <= self.truth) & (self.truth <= high)].sum() + self.lost)


@pytest.mark.parametrize("exact", [1, 200, -40])
@pytest.mark.parametrize("name", NAMES)
def test_they_hold_in_95_of_100_cases(ask: Ask, name: str, exact: int) -> None:
    """Also where there are hardly any records, and denominators near zero."""
    found = Outcomes(ask(*CASES[name]), exact)
    assert found.lost < 0.001
    assert found.held() >= 0.95


@pytest.mark.parametrize("name", STEPS)
def test_they_are_no_wider_than_they_must_be(ask: Ask, name: str) -> None:
    """With a step less at each end they hold less often than that."""
    found = Outcomes(ask(*STEPS[name]), 200)
    assert found.held(more=-1) - found.lost < 0.95


@pytest.mark.parametrize("name", GAUSSIAN)
def test_populations_with_a_delta_have_gaussian_noise_here(ask: Ask, name: str) -> None:
    assert isinstance(ask(*CASES[name]).noise, Gaussian)


@pytest.mark.parametrize("exact", [1, 200, -40])
@pytest.mark.parametrize("name", ["share of a sum, rounded, divided", "mean of all, rounded, divided"])
def test_quotients_hold_for_values_before_they_are_rounded(ask: Ask, name: str, exact: int) -> None:
    """Each value may be half a step away from the one that is counted: all to one side, or to the other."""
    asked = ask(*CASES[name])
    found = Outcomes(asked, exact)
    totals = found.exact.reshape(asked.cells, asked.totals) / asked.whole
    values, sums, most = totals[:, :2].sum(axis=1), 2 * totals[:, 1], 2
    for side in (-0.5, 0.5):
        moved = [np.clip(sums + sign * side * values, 0, most * values) for sign in (1, -1)]
        # The second cell is that of those who are ill, or the other way round: both are tried.
        shares = [moved[0][one] / (moved[0][one] + moved[1][1 - one]) for one in range(asked.cells) if asked.cells == 2]
        truths = shares or [moved[0].sum() / totals.sum()]
        held = []
        for one in truths:
            found.truth = float(one)
            held.append(found.held())
        assert max(held) >= 0.95, (side, truths, held)


Width = Callable[[str, str, int], float]
OURS = noise_widths._width_of


def _by_square_roots(half: Callable[[Fraction], float]) -> Width:
    def width(scale: str, weights: str, cells: int) -> float:
        return half(Fraction(scale)) * sqrt(cells * sum(float(one) ** 2 for one in noise_widths._fractions(weights)))

    return width


NARROW: dict[str, Width] = {
    "square roots": _by_square_roots(lambda scale: float(least_width(Laplace(scale), 1))),
    "continuous": _by_square_roots(lambda scale: -log(0.05) * float(scale)),
    "a scale of 19 in 20": lambda scale, weights, cells: OURS(str(Fraction(scale) * 19 / 20), weights, cells),
}


@pytest.mark.long("that narrower intervals are seen: a test of the test")
@pytest.mark.parametrize("twin", NARROW)
def test_narrower_ones_do_not_hold(ask: Ask, twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the twins misses too often for some number."""
    monkeypatch.setattr(noise_widths, "_width_of", NARROW[twin])
    assert min(Outcomes(ask(*STEPS[name]), 200).held() for name in STEPS if name in LAPLACE) < 0.95


def test_ones_that_are_wider_by_a_step_are_too_wide(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_widths, "_width_of", lambda *given: OURS(*given) + 1)
    assert all(
        found.held(more=-1) - found.lost >= 0.95
        for found in (Outcomes(ask(*STEPS[name]), 200) for name in STEPS if name in LAPLACE)
    )


@pytest.mark.parametrize(
    "half", [lambda scale: -log(0.05) * float(scale), lambda scale: least_width(Laplace(scale), 1)]
)
def test_quotients_by_square_roots_do_not_hold(
    ask: Ask, half: Callable[[Fraction], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twins are Fieller's intervals as for normal noise, with the width of one noise."""

    def widths(scale: str, values: str, counts: tuple[int, ...]) -> Widths:
        places = np.arange(65) / 64
        kinds = zip(noise_widths._fractions(values), counts, strict=True)
        squares = sum(count * (float(value) - places) ** 2 for value, count in kinds)
        found = half(Fraction(scale)) * np.sqrt(squares)
        return Widths(found[:-1], found[1:])

    monkeypatch.setattr(noise_widths, "_widths_of", widths)
    names = [name for name in CASES if name.endswith(", some noise")]
    assert min(Outcomes(ask(*CASES[name]), -40).held() for name in names) < 0.94


@pytest.mark.parametrize("name", NAMES)
def test_the_number_is_in_its_interval(ask: Ask, name: str) -> None:
    """Where nothing is cut off at zero."""
    found = Outcomes(ask(*CASES[name]), 200)
    x, low, high = found.rows[found.chance > 1e-12].T
    assert (low <= x + 1e-9).all()
    assert (x - 1e-9 <= high).all()


@pytest.mark.parametrize("name", [name for name in CASES if not re.search("total|rounded|divided", name)])
def test_the_widths_in_words_are_true(ask: Ask, name: str) -> None:
    """95 % of the numbers are within what the note and explain_privacy say."""
    asked = ask(*CASES[name])
    found = Outcomes(asked, 200)
    said = re.search(r"within ([\d.,]*\d)( / the number)?", asked.step.reason.partition("for one row:")[2] or
                     asked.step.reason)  # fmt: skip
    assert said is not None
    width, far = float(said[1].replace(",", "")), np.abs(found.rows[:, 0] - found.truth)
    if said[2]:
        # Values are told by n as it is with noise: all totals of a mean, and of a share both counts.
        far = far * (found.exact + found.noise).sum(axis=1) / asked.whole
    assert found.chance[far <= width + 1e-9].sum() + found.lost >= 0.95
    if name.startswith(("count", "different")):
        assert asked.step.within is not None
        assert asked.step.within >= width
        assert asked.step.width is not None
        assert asked.step.width == pytest.approx(asked.step.within, abs=1.5)


# Spellings of one number, with the same interval in each row; the first is not computed from two others.
SPELLINGS = [
    ["avg(CASE WHEN ill THEN 1 ELSE 0 END)", "count(*) FILTER (WHERE ill) / count(*)",
     "count_if(ill) * 1.0 / nullif(count(*), 0)",
     "1 - (1 - sum(CASE WHEN ill THEN 1 ELSE 0 END)::DOUBLE / count(*))",
     "CASE WHEN count(*) > 0 THEN count(CASE WHEN ill THEN 1 END) / count(*) ELSE NULL END"],
    ["avg(v)", "sum(v) / count(v)", "coalesce(3 * sum(v) / (3 * count(v)), 0)"],
    ["count(*)", "-(-count(*))", "(count(*) - 3) + 3", "round(count(*))"],
]  # fmt: skip


@pytest.mark.parametrize("spellings", SPELLINGS)
def test_they_do_not_depend_on_how_a_number_is_written(ask: Ask, spellings: list[str]) -> None:
    first, *others = (Outcomes(ask(LARGE, Number(one, "count(*)")), 200).rows for one in spellings)
    for one in others:
        np.testing.assert_allclose(one, first, atol=1e-9)


def test_two_sets_of_totals_differ_in_width_by_their_number(ask: Ask) -> None:
    """The number of cells is counted where the query runs: totals by ROLLUP and plain numbers are in one result."""
    asked = ask(LARGE, Number("count(*)", rolled=True))
    totals = np.full((asked.places, asked.cells, 1), 50)
    x, low, high = asked.rows(totals)[0]
    assert (x, x - low, high - x) == (100, 4, 4)


@pytest.mark.parametrize(
    "scale", [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40), Fraction(1000)]
)
def test_the_spread_is_the_least_that_holds(scale: Fraction) -> None:
    """The probabilities of discrete Laplace noise, (1 - a) / (1 + a) a^|v|, are added up one by one."""
    a = exp(-1 / scale)
    outside, m = 1 - (1 - a) / (1 + a), 0
    while outside > 0.05:
        m += 1
        outside -= 2 * (1 - a) / (1 + a) * a**m
    assert least_width(Laplace(scale), 1) == m
