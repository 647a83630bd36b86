"""Sums, quantiles and expressions as keys: equal to a twin in plain Python, and moved by one unit as is said."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isnan, nan
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.engines import randomness
from duckanon.engines.noise import Laplace
from duckanon.governance.locations import Location
from duckanon.releases import mechanisms
from duckanon.releases.measures import Different, Measure, Number, Quantiles, Records, Sums, Units, shared
from duckanon.releases.mechanisms import aggregates, forms
from duckanon.releases.paid_questions import AggregatesQuestion, DomainFilter, Key
from tests.amounts import sampled
from tests.releases.plain import Typed, in_order

NUMBER = Number("x", "-2", "1/2", 12)
KEY = Key("a", "domain_a", "VARCHAR", ("a",))
DOMAIN = ["p", "P", "q", None]
EVENTS = ('("y" = 1)', '("y" = 2)')
WHERE = '("x" < 1)'
MEASURES: list[Measure] = [
    Records(),
    Units(),
    Different("y"),
    Sums(NUMBER),
    Sums(NUMBER, squares=True),
    Sums(NUMBER, missing=True),
    Sums(NUMBER, squares=True, missing=True),
    Quantiles(NUMBER, ("1/2", "9/10")),
    Records(WHERE),
    Units(where=WHERE),
    Different("y", WHERE),
]
Record = dict[str, Any]


@dataclass
class Case:
    question: AggregatesQuestion
    records: list[Record]

    @property
    def grouped(self) -> bool:
        return bool(self.question.grouped)

    def cells(self) -> list[tuple[Any, int]]:
        values = sorted({self.shown(one) for one in DOMAIN}, key=lambda one: (one is None, one or ""))
        keys = values if self.question.keys else [None]
        return [(key, at) for key in keys for at in range(self.question.outcomes)]

    def shown(self, value: str | None) -> str | None:
        return value.upper() if self.grouped and value is not None else value

    def placed(self) -> list[tuple[Record, int]]:
        """The records that count, with their cells."""
        cells = {cell: at for at, cell in enumerate(self.cells())}
        found = []
        for one in self.records:
            event = ({1: 0, 2: 1}.get(one["y"], 2)) if self.question.events else 0
            if one["unit"] is None or (self.question.keys and one["a"] not in DOMAIN):
                continue
            found.append((one, cells[self.shown(one["a"]) if self.question.keys else None, event]))
        own: dict[Any, list[tuple[Record, int]]] = defaultdict(list)
        for one, cell in found:
            own[one["unit"]].append((one, cell))

        def row(placed: tuple[Record, int]) -> tuple[Typed, ...]:
            numbers: list[Typed] = []
            for measure, _ in self.question.measures:
                if isinstance(measure, Different):
                    numbers.append((placed[0]["y"] if is_met(measure, placed[0]) else None, "INTEGER"))
                elif isinstance(measure, Records | Units) and measure.where:
                    numbers.append((is_less(placed[0]), "BOOLEAN"))
                elif isinstance(measure, Sums | Quantiles):
                    numbers.append((steps(placed[0]["x"]), "BIGINT"))
            return ((placed[1], "BIGINT"), *numbers)

        found = []
        for unit, mine in own.items():
            first = in_order((unit, "INTEGER"), list(map(row, mine)))[: self.question.contributions]
            found += [mine[at] for at in first]
        return found

    def totals(self) -> list[np.ndarray]:
        placed, size = self.placed(), len(self.cells())
        return [totals(measure, placed, size) for measure, _ in self.question.measures]


def steps(x: float | None) -> int | None:
    if x is None:
        return None
    clamped = 4.0 if isnan(x) else min(max(x, -2.0), 4.0)
    # DuckDB rounds halves away from zero.
    return int((clamped + 2) / 0.5 + 0.5)


def is_less(record: Record) -> bool | None:
    """Whether WHERE is met, for DuckDB, where NaN is the largest number."""
    return None if record["x"] is None else record["x"] < 1


def is_met(measure: Measure, record: Record) -> bool:
    """Whether a record counts by a measure's own condition."""
    return not isinstance(measure, Records | Units | Different) or measure.where is None or is_less(record) is True


def totals(measure: Measure, placed: list[tuple[Record, int]], size: int) -> np.ndarray:
    placed = [(one, at) for one, at in placed if is_met(measure, one)]
    if isinstance(measure, Records):
        return np.array([[sum(at == cell for _, at in placed)] for cell in range(size)])
    if isinstance(measure, Units):
        return np.array([[len({one["unit"] for one, at in placed if at == cell})] for cell in range(size)])
    if isinstance(measure, Different):
        values = [{one["y"] for one, at in placed if at == cell} - {None} for cell in range(size)]
        return np.array([[len(one)] for one in values])
    if isinstance(measure, Quantiles):
        counts = np.zeros((size, measure.number.steps + 1), dtype=np.int64)
        for one, cell in placed:
            step = steps(one["x"])
            if step is not None:
                counts[cell, step] += 1
        return counts
    assert isinstance(measure, Sums)
    found = np.zeros((size, measure.degree + 1 + measure.missing), dtype=np.int64)
    for one, cell in placed:
        up = steps(one["x"])
        if up is None:
            if measure.missing:
                found[cell, -1] += measure.whole
            continue
        down = 12 - up
        parts = [down * down, 2 * up * down, up * up] if measure.squares else [down, up]
        found[cell, : len(parts)] += parts
    return found


def question(**given_: Any) -> AggregatesQuestion:
    return AggregatesQuestion(
        location=Location("memory", "main", "t"),
        version=1,
        edition=1,
        privacy_unit="unit",
        epsilon=Fraction(1, 3),
        protects="them",
        **given_,
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    chosen = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True))
    keyed = draw(st.booleans())
    contributions, events = draw(st.integers(1, 3)), (EVENTS,) if draw(st.booleans()) else ()
    asked = question(
        contributions=contributions,
        keys=(KEY,) if keyed else (),
        grouped=('system.main.upper("k0")',) if keyed and draw(st.booleans()) else (),
        events=events,
        measures=shared(chosen, contributions, is_alone=not keyed and not events, renyi=None),
    )
    record = st.fixed_dictionaries(
        {
            "unit": st.sampled_from([1, 1, 2, 3, None]),
            "a": st.sampled_from(["p", "P", "q", "z", None]),
            "x": st.sampled_from([None, -inf, -2.0, -1.75, 0.0, 0.3, 3.9, 4.0, 1e300, inf, nan]),
            "y": st.sampled_from([1, 2, 3, None]),
        }
    )
    return Case(asked, draw(st.lists(record, max_size=8)))


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("CREATE SCHEMA duckanon; CREATE TABLE duckanon.domain_a (a VARCHAR)").fetchall()
    made.executemany("INSERT INTO duckanon.domain_a VALUES (?)", [[one] for one in DOMAIN])
    return made


def exact(con: duckdb.DuckDBPyConnection, case: Case) -> list[np.ndarray]:
    con.execute("CREATE OR REPLACE TABLE t (unit INTEGER, a VARCHAR, x DOUBLE, y INTEGER)").fetchall()
    rows = [[one[name] for name in ("unit", "a", "x", "y")] for one in case.records]
    if rows:
        con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    return mechanisms.exact(con, case.question)


@given(cases())
def test_equal_to_the_twin(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    for found, wanted in zip(exact(con, case), case.totals(), strict=True):
        assert found.tolist() == wanted.tolist()
    assert forms.cells(con, case.question) == len(case.cells())


@given(cases(), st.sampled_from([1, 2, 3]))
def test_one_unit_moves_each_measure_by_its_sensitivity(con: duckdb.DuckDBPyConnection, case: Case, unit: int) -> None:
    rest = Case(case.question, [one for one in case.records if one["unit"] != unit])
    for (measure, _), mine, other in zip(case.question.measures, exact(con, case), exact(con, rest), strict=True):
        whole = measure.whole if isinstance(measure, Sums) else 1
        assert np.abs(mine - other).sum() <= case.question.moved(measure).distance * whole
        squares = sum(int(one) ** 2 for one in (mine - other).reshape(-1))
        assert squares <= case.question.moved(measure).squares * whole**2


@pytest.mark.parametrize("contributions", sampled([1, 2, 4, 9]))
@pytest.mark.parametrize("grouped", [(), ('system.main.upper("k0")',)])
@pytest.mark.parametrize(
    "filters", [(), (DomainFilter("(\"k0\" <> 'q')", (0,)),), (DomainFilter("(\"k0\" = 'p')", (0,)),)]
)
@pytest.mark.parametrize("events", [(), (EVENTS,)])
def test_the_units_that_one_unit_moves(
    con: duckdb.DuckDBPyConnection,
    contributions: int,
    grouped: tuple[str, ...],
    filters: tuple[DomainFilter, ...],
    events: tuple[tuple[str, ...], ...],
) -> None:
    """Over tables with and without a unit of up to nine records, wherever they lie: no more than it says, and as much.

    So a smaller scale is too small, and a larger one is noise for nothing.
    """
    bare = question(contributions=contributions, keys=(KEY,), domain_filters=filters, grouped=grouped, events=events)
    cells = forms.cells(con, bare)
    asked = replace(bare, measures=((Units(cells if cells < contributions else None), Fraction(1)),))
    places = [(a, y) for a in DOMAIN for y in ((1, 2, 3) if events else (3,))]
    others = [{"unit": 2, "a": a, "x": None, "y": y} for a, y in places]
    (before,) = exact(con, Case(asked, others))
    moved = []
    for many in range(1, 10):
        for first in {0, len(places) // 2} if many in (1, contributions) else {0}:
            own = [places[(first + at) % len(places)] for at in range(many)]
            (after,) = exact(con, Case(asked, [*others, *({"unit": 1, "a": a, "x": None, "y": y} for a, y in own)]))
            moved.append(int(np.abs(after - before).sum()))
            assert np.abs(after - before).max() <= 1
    assert max(moved) == asked.moved(asked.measures[0][0]).distance == min(contributions, cells)


@given(cases())
def test_shares_of_epsilon_add_up_to_it(case: Case) -> None:
    shares = [share for _, share in case.question.measures]
    assert sum(shares) == 1
    assert min(shares) > 0


def test_the_noise_is_for_the_sensitivity(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records of each unit, three measures: each gets the noise of its share, in its own parts."""
    scales: list[Fraction] = []

    def none(scale: Fraction, shape: Any, _: Any) -> np.ndarray:
        scales.append(scale)
        return np.zeros(shape, dtype=np.int64)

    monkeypatch.setattr(randomness, "double_geometric", none)
    measured: list[Measure] = [Records(), Sums(NUMBER, squares=True)]
    asked = question(contributions=2, measures=shared(measured, 2, is_alone=False, renyi=None))
    case = Case(asked, [{"unit": 1, "a": "p", "x": 1.0, "y": 1}])
    exact(con, case)
    mechanisms.draw(con, asked)
    assert scales == [2 / (Fraction(1, 3) / 2), 144 * 2 / (Fraction(1, 3) / 2)]
    alone = replace(asked, measures=((Units(), Fraction(1)),))
    assert alone.noise(Units()) == Laplace(Fraction(3))
    with pytest.raises(AssertionError, match="not what its noise costs"):
        replace(asked, measures=((Units(), Fraction(1, 2)), (Records(), Fraction(1))))


@given(st.lists(st.sampled_from([None, -2.0, -1.5, 0.0, 1.0, 3.5, 4.0]), min_size=1, max_size=9))
def test_columns_follow_from_the_totals(con: duckdb.DuckDBPyConnection, xs: list[float | None]) -> None:
    """n and s are the number and the sum of the values, c and q the sums of what they are beyond the middle and of its
    squares, and z is the number of NULLs.
    """
    measure = Sums(NUMBER, squares=True, missing=True)
    asked = question(contributions=1, measures=((measure, Fraction(1)),))
    records = [{"unit": at, "a": None, "x": x, "y": None} for at, x in enumerate(xs)]
    (found,) = exact(con, Case(asked, records))
    row = aggregates.answer(asked, forms.form(con, asked), [found]).to_pylist()[0]
    known = [x for x in xs if x is not None]
    assert row["n0"] == pytest.approx(len(known))
    assert row["z0"] == pytest.approx(len(xs) - len(known))
    assert row["s0"] == pytest.approx(sum(known))
    middle = float(Fraction(NUMBER.low) + NUMBER.high) / 2
    assert row["c0"] == pytest.approx(sum(x - middle for x in known), abs=1e-12)
    assert row["q0"] == pytest.approx(sum((x - middle) ** 2 for x in known))
