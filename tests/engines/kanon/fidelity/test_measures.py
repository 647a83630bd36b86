"""Every measure of a release against its definition, on a table that spells out every value of every cell."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import inf, isnan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines.kanon.fidelity.cells import Categories, Cells, Numbers
from duckanon.engines.kanon.fidelity.measures import QUANTILES, Compared, Measure, measures
from duckanon.engines.kanon.fidelity.parts import OTHERS, Parts, Ranges, chances, parts_of
from duckanon.engines.kanon.fidelity.queries import errors, queries

NAMES = ["a", "b", "c", "d"]

# A table in plain Python: for each row, the values that each column may have (an empty list if it is missing), and how
# many records the row stands for.
Row = tuple[list[list[int]], int]
Spelled = list[tuple[tuple[Any, ...], Any]]


@st.composite
def cells(draw: st.DrawFn, number: bool, single: bool) -> list[int]:
    if draw(st.integers(0, 9)) == 0:
        return []
    low = draw(st.integers(0, 7))
    if single:
        return [low]
    if number:
        return list(range(low, low + 1 + draw(st.integers(0, 4))))
    return sorted(draw(st.sets(st.integers(0, 3), min_size=1)))


@st.composite
def tables(draw: st.DrawFn, kinds: list[bool], single: bool) -> list[Row]:
    n = draw(st.integers(1, 7))
    rows = []
    for _ in range(n):
        row = [draw(cells(kind, single)) for kind in kinds]
        rows.append(
            (
                [one if kind else [v % 4 for v in one] for one, kind in zip(row, kinds, strict=True)],
                draw(st.integers(1, 3)),
            )
        )
    return rows


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[bool], list[Row], list[Row]]:
    """Which columns hold numbers, a table, and a release of one."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=4))
    return kinds, draw(tables(kinds, True)), draw(tables(kinds, draw(st.booleans())))


def table(kinds: list[bool], rows: list[Row]) -> Cells:
    """The same as the engine takes it."""
    columns: list[Numbers | Categories] = []
    for j, number in enumerate(kinds):
        held = [row[j] for row, _ in rows]
        if number:
            low = np.array([min(one, default=np.nan) for one in held], np.float64)
            high = np.array([max(one, default=np.nan) for one in held], np.float64)
            columns.append(Numbers.of(low, high, whole=True))
        else:
            members = np.array([v for one in held for v in one], np.int64)
            ends = np.append(0, np.cumsum([len(one) for one in held]))
            columns.append(Categories.of(members, ends, ["p", "q", "r", "s"]))
    return Cells(columns, np.array([weight for _, weight in rows], np.float64)).canonical()


def spelled(rows: list[Row]) -> Spelled:
    """Every combination of values that a row may stand for, with its share of the row's records."""
    found = []
    for cells, weight in rows:
        choices: list[list[Any]] = [list(one) or [None] for one in cells]
        whole = 1
        for one in choices:
            whole *= len(one)
        found += [(values, Fraction(weight, whole)) for values in product(*choices)]
    return found


def of_column(rows: Spelled, j: int) -> list[tuple[Any, Any]]:
    return sorted((values[j], weight) for values, weight in rows if values[j] is not None)


def quantile(rows: Spelled, j: int, share: float) -> int:
    values = of_column(rows, j)
    total, reached = sum(weight for _, weight in values), Fraction(0)
    for value, weight in values:
        reached += weight
        if reached >= Fraction(share).limit_denominator(100) * total:
            return value
    raise AssertionError


def correlation(rows: Spelled, i: int, j: int) -> float | None:
    both = [(v[i], v[j], w) for v, w in rows if v[i] is not None and v[j] is not None]
    total = sum(w for *_, w in both)
    if not total:
        return None
    mean = [sum(one[k] * one[2] for one in both) / total for k in (0, 1)]
    spread = [sum((one[k] - mean[k]) ** 2 * one[2] for one in both) / total for k in (0, 1)]
    if not all(spread):
        return None
    together = sum((x - mean[0]) * (y - mean[1]) * w for x, y, w in both) / total
    return float(together) / sqrt(spread[0] * spread[1])


def cramers_v(counts: Counter) -> float | None:
    total = sum(counts.values())
    if not total:
        return None
    sides: list[Counter] = [Counter(), Counter()]
    for pair, count in counts.items():
        for side, key in zip(sides, pair, strict=True):
            side[key] += count
    least = min(map(len, sides)) - 1
    if least < 1:
        return None
    chi = sum((counts[p, q] - sides[0][p] * sides[1][q] / total) ** 2 / (sides[0][p] * sides[1][q] / total)
              for p in sides[0] for q in sides[1])  # fmt: skip
    return sqrt(chi / (total * least))


def part(parts: Parts, value: int) -> int:
    """The part in which a value is."""
    if isinstance(parts, Ranges):
        return sum(value > top for top in parts.tops)
    return int(parts.group[value])


Named = dict[tuple[str, tuple[str, ...]], list[Measure]]


@given(pairs())
def test_all_measures(given_pair: tuple[list[bool], list[Row], list[Row]]) -> None:
    kinds, before, after = given_pair
    both = table(kinds, before), table(kinds, after)
    names = NAMES[: len(kinds)]
    by_name: Named = {}
    for one in measures(Compared(*both, names, [str] * len(kinds)), 40):
        by_name.setdefault((one.measure, one.columns), []).append(one)
    whole = spelled(before), spelled(after)
    (counted,) = by_name["records", ()]
    assert (counted.before, counted.after) == tuple(float(sum(weight for _, weight in one)) for one in whole)
    divided = [parts_of(both[0], j, str) for j in range(len(kinds))]
    for j, (name, number) in enumerate(zip(names, kinds, strict=True)):
        check_shares(by_name, name, [shares(rows, j, divided[j]) for rows in whole])
        for which, rows in zip(("before", "after"), whole, strict=True) if number else ():
            check_moments(by_name, name, which, rows, j)
    for i, j in combinations(range(len(kinds)), 2):
        measure = "correlation" if kinds[i] and kinds[j] else "cramers_v"
        (one,) = by_name[measure, (names[i], names[j])]
        for mine, rows in zip((one.before, one.after), whole, strict=True):
            counted_pair = measure == "cramers_v"
            true = cramers_v(together(rows, (i, j), divided)) if counted_pair else correlation(rows, i, j)
            assert mine == (None if true is None else pytest.approx(true, abs=1e-9))


def shares(rows: Spelled, j: int, parts: Parts) -> list[Fraction]:
    """The share of the records in each part, and last of those that are missing."""
    total = sum(weight for _, weight in rows)
    found = [Fraction(0)] * (len(parts.labels) + 1)
    for values, weight in rows:
        value = values[j]
        found[-1 if value is None else part(parts, value)] += weight / total
    return found


def check_shares(by_name: Named, name: str, wanted: list[list[Fraction]]) -> None:
    mine = [(one.before, one.after) for one in by_name["share", (name,)]]
    assert mine == [pytest.approx(tuple(map(float, two))) for two in zip(*(one[:-1] for one in wanted), strict=True)]
    (moved,) = by_name["total_variation", (name,)]
    assert moved.difference == pytest.approx(float(sum(abs(p - q) for p, q in zip(*wanted, strict=True)) / 2))
    missing = [float(one[-1]) for one in wanted]
    if any(missing):
        (found,) = by_name["missing", (name,)]
        assert [found.before, found.after] == pytest.approx(missing)


def check_moments(by_name: Named, name: str, which: str, rows: Spelled, j: int) -> None:
    values = of_column(rows, j)
    total = sum(weight for _, weight in values)
    found = {one: getattr(by_name[one, (name,)][0], which) for one in ("mean", "standard_deviation")}
    if not total:
        assert set(found.values()) == {None}
        return
    mean = sum(value * weight for value, weight in values) / total
    variance = sum((value - mean) ** 2 * weight for value, weight in values) / total
    assert found == pytest.approx({"mean": float(mean), "standard_deviation": sqrt(variance)})
    quantiles = [getattr(one, which) for one in by_name["quantile", (name,)]]
    assert quantiles == [quantile(rows, j, share) for share in QUANTILES]


def together(rows: Spelled, pair: tuple[int, int], divided: list[Parts]) -> Counter:
    """How many records each pair of parts has."""
    counts: Counter = Counter()
    for values, weight in rows:
        held = [values[one] for one in pair]
        if None not in held:
            key = tuple(part(divided[one], value) for one, value in zip(pair, held, strict=True))
            counts[key] += weight
    return counts


@given(pairs())
def test_counts_of_queries(given_pair: tuple[list[bool], list[Row], list[Row]]) -> None:
    kinds, before, after = given_pair
    both = table(kinds, before), table(kinds, after)
    asked = queries(both[0], 30)
    assert [one.conditions.keys() for one in queries(both[0], 30)] == [one.conditions.keys() for one in asked]
    true = []
    for query in asked:
        for rows, cells in zip((spelled(before), spelled(after)), both, strict=True):
            count = Fraction(0)
            for values, weight in rows:
                met = True
                for j, condition in query.conditions.items():
                    value = values[j]
                    if value is None:
                        met = False
                    else:
                        met &= bool(condition[0] <= value <= condition[1] if kinds[j] else condition[value])
                count += weight if met else 0
            true.append(float(count))
            assert query.count(cells) == pytest.approx(float(count))
    wrong = errors(*both, asked)
    least = max(1.0, 0.01 * both[0].records)
    assert wrong == pytest.approx([abs(q - p) / max(p, least) for p, q in zip(true[::2], true[1::2], strict=True)])
    assert not errors(both[0], both[0], asked).any()


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0, 3), st.integers(1, 4)), min_size=1, max_size=6),
    st.floats(0.01, 1),
)
def test_quantiles_of_intervals_of_real_numbers(given_cells: list[tuple[float, float, int]], share: float) -> None:
    """The share that lies below or at a quantile is enough, and is not a little below it."""
    low = np.array([start for start, _, _ in given_cells])
    column = Numbers.of(low, low + np.array([width for _, width, _ in given_cells]), whole=False)
    weights = np.bincount(column.index, [weight for *_, weight in given_cells], len(column.low)).astype(np.float64)
    found = column.quantile(weights, share)
    # (A cell may be as narrow as the last digit of a float.)
    assert weights @ column.chance(-inf, found + 1e-9) >= share * weights.sum() * (1 - 1e-6)
    assert weights @ column.chance(-inf, found - 1e-3) <= share * weights.sum() * (1 + 1e-9)


def test_a_value_is_its_own_quantile() -> None:
    values = np.array([0.1, 0.2, 0.3, 0.4, 17.0])
    column = Numbers.of(values, values, whole=False)
    weights = np.ones(5)
    assert [column.quantile(weights, share) for share in (0.01, 0.2, 0.21, 0.6, 0.8, 0.81, 1.0)] == [
        0.1, 0.1, 0.2, 0.3, 0.4, 17.0, 17.0,
    ]  # fmt: skip


def test_ranges_of_few_and_many_numbers() -> None:
    few = np.repeat([3.0, 5.0, 9.0], [5, 2, 3])
    table = Cells([Numbers.of(few, few, whole=True)], np.ones(10))
    parts = parts_of(table, 0, lambda one: f"{one:g}")
    assert list(parts.labels) == ["3", "4 to 5", "6 to 9"]
    real = np.linspace(0, 1, 101)
    parts = parts_of(Cells([Numbers.of(real, real, whole=False)], np.ones(101)), 0, lambda one: f"{one:.2f}")
    assert list(parts.labels)[:2] == ["0.00 to 0.10", "above 0.10 to 0.20"]
    assert len(parts.labels) == 10
    # What lies outside, as a band may, counts to the last range.
    beyond = Numbers.of(np.array([0.95]), np.array([1.5]), whole=False)
    assert chances(parts, beyond)[0, -1] == pytest.approx(1.0)


def test_rare_categories_are_put_together() -> None:
    codes = np.repeat(np.arange(30), np.arange(30, 0, -1))
    table = Cells([Categories.single(codes, [f"n{i}" for i in range(30)])], np.ones(len(codes)))
    parts = parts_of(table, 0, str)
    assert list(parts.labels) == [*(f"n{i}" for i in range(19)), OTHERS]
    assert chances(parts, table.columns[0])[25].tolist() == [0.0] * 19 + [1.0]


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    low = rng.integers(0, 50, 300).astype(np.float64)
    high = low + rng.integers(0, 9, 300).astype(np.float64)
    codes, weights = rng.integers(-1, 6, 300), rng.integers(1, 9, 300).astype(float)
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(300)
        after = Cells(
            [Numbers.of(low[order], high[order], whole=False), Categories.single(codes[order], list("uvwxyz"))],
            weights[order],
        ).canonical()
        before = Cells(
            [Numbers.of(low[order], low[order], whole=False), Categories.single(codes[order], list("uvwxyz"))],
            weights[order],
        ).canonical()
        found.append(list(measures(Compared(before, after, NAMES[:2], [str, str]), 50)))
    assert found[0] == found[1] == found[2]
    assert not any(isnan(one.difference) for one in found[0] if one.difference is not None)
