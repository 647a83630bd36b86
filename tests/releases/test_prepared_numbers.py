"""Numbers that are computed from a prepared one: their intervals are those of a twin with the whole covariance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor, sqrt
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.analyst import Analyst
from duckanon.engines.marginals.estimate import estimate
from duckanon.engines.marginals.intervals import factor
from duckanon.releases import mechanisms
from duckanon.releases.preparations import PreparationQuestion
from tests.amounts import many

STATES, LOW, HIGH = ("GA", "NY"), -2, 6
RECORDS = "SELECT i, ['GA', 'NY', 'TX'][1 + i % 3], CASE WHEN i % 4 > 0 THEN i % 9 - 2 END FROM range(900) r(i)"
POLICY = f"""
SELECT protect('t', privacy_unit := 'u', rows_per_unit := 1, epsilon := 4, delta := 1e-9, per_query := 0.1,
  public := ['state'], bounds := {{'x': [{LOW}, {HIGH}]}}, domains := {{'state': ['GA', 'NY']}})
"""


@dataclass(frozen=True)
class Twin:
    """The covariance of the estimated table by state and x: of its cells' parts, row by row. estimated: these."""

    estimated: np.ndarray
    covariance: np.ndarray
    factor: float

    def weights(self, states: tuple[str, ...], each: Any) -> np.ndarray:
        """each: of what is below, above, and missing. The last state is all others."""
        own = [float(one in states) for one in (*STATES, "others")]
        return np.outer(own, each).reshape(-1)

    def ends(self, weights: np.ndarray) -> tuple[float, float]:
        told, far = weights @ self.estimated, self.factor * sqrt(weights @ self.covariance @ weights)
        return told - far, told + far

    def quotient_ends(self, above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
        """The least and the largest quotient from 0 to 1 that the noise allows, in steps."""
        tried = np.linspace(0, 1, 20_001)
        rows = above[None, :] - tried[:, None] * below[None, :]
        far = self.factor * np.sqrt(np.einsum("ij,jk,ik->i", rows, self.covariance, rows))
        allowed = tried[np.abs(rows @ self.estimated) <= far]
        return float(allowed.min()), float(allowed.max())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Analyst, Twin]]:
    path, asked = tmp_path_factory.mktemp("numbers") / "x.duckdb", []
    drawn = mechanisms.draw

    def noted(own: Any, question: PreparationQuestion) -> Any:
        asked.append((question, drawn(own, question)))
        return asked[-1][1]

    with pytest.MonkeyPatch.context() as patch, duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t (u INTEGER, state VARCHAR, x INTEGER)").fetchall()
        con.execute(f"INSERT INTO t {RECORDS}").fetchall()
        con.execute(POLICY).fetchall()
        patch.setattr(mechanisms, "draw", noted)
        con.execute(
            "FROM prepare('t', by := [['state', 'x'], ['state'], ['x']], epsilon := 0.5, buy := true)"
        ).fetchall()
    ((question, measured),) = asked
    with duckanon.connect(path, role="analyst") as analyst:
        yield analyst, twin(question, measured)


def twin(question: PreparationQuestion, measured: Any) -> Twin:
    design = question.design
    whole = max(design.tables, key=len)
    rows = measured.to_pydict()
    noisy = {
        table: np.array([n for at, n in zip(rows["marginal"], rows["n"], strict=True) if at == place]).reshape(
            design.workload.shape(table)
        )
        for place, table in enumerate(design.measured)
    }

    def told(of: dict[Any, np.ndarray]) -> np.ndarray:
        return np.asarray(estimate(design.plan, of).marginal(whole)).reshape(-1)

    covariance: Any = 0
    for table, variance in question.variances.items():
        for cell in range(noisy[table].size):
            moved = {one: np.zeros_like(each) for one, each in noisy.items()}
            moved[table].reshape(-1)[cell] = 1
            column = told(moved)
            covariance = covariance + float(variance) * np.outer(column, column)
    return Twin(told(noisy), covariance, factor(float(min(question.variances.values()))))


# What is computed from x, as SQL, and what it is for the least value, the largest, and NULL.
Computed: TypeAlias = tuple[str, tuple[Fraction, Fraction, Fraction | None]]


@st.composite
def numbers(draw: st.DrawFn) -> Computed:
    times = Fraction(draw(st.integers(-6, 6).filter(bool)), draw(st.sampled_from([1, 2, 4])))
    plus, missing = draw(st.integers(-9, 9)), draw(st.none() | st.integers(-9, 9))
    text = (
        "x"
        if missing is None
        else draw(st.sampled_from([f"coalesce(x, {missing})", f"CASE WHEN x IS NULL THEN {missing} ELSE x END"]))
    )
    written = draw(st.sampled_from(["{t} * ({x}) + {p}", "{p} - (-({t})) * ({x})", "-(-({x}) * {t} - ({p}))"]))
    least, largest = times * LOW + plus, times * HIGH + plus
    each = (least, largest, None if missing is None else times * missing + plus)
    return written.format(t=f"CAST({float(times)} AS DOUBLE)", p=plus, x=text), each


SOME = st.sampled_from([("GA",), ("NY",), STATES])


def rows(analyst: Analyst, shown: str, states: tuple[str, ...]) -> tuple[float, ...]:
    """The numbers of some states, which are free."""
    names = ", ".join(f"'{one}'" for one in states)
    sql = f"SELECT {shown} FROM t WHERE state IN ({names})"
    assert all(one.drawn is not None for one in analyst.explain(sql).steps)
    (row,) = analyst.execute(sql).fetchall()
    return tuple(map(float, row))


@settings(max_examples=many(60))
@given(number=numbers(), states=SOME)
def test_sums_and_means(world: tuple[Analyst, Twin], number: Computed, states: tuple[str, ...]) -> None:
    analyst, twin = world
    text, (least, largest, missing) = number
    ends = rows(
        analyst, ", ".join(f"{end}({call}({text}))" for call in ("sum", "avg") for end in ("low", "high")), states
    )
    each = np.array([least, largest, missing or 0], dtype=float)
    assert ends[:2] == pytest.approx(twin.ends(twin.weights(states, each)), rel=1e-7)
    counted = np.array([1.0, 1.0, float(missing is not None)])
    start, end = min(each[counted > 0]), max(each[counted > 0])
    above, below = (twin.weights(states, one) for one in ((each - start) / (end - start) * counted, counted))
    expected = [start + (end - start) * one for one in twin.quotient_ends(above, below)]
    assert ends[2:] == pytest.approx(expected, abs=(end - start) / 10_000)


@pytest.mark.parametrize("states", [("GA",), STATES])
@pytest.mark.parametrize(
    ("counted", "part"),
    [
        ("count(*)", (1, 1, 1)),
        ("count(x)", (1, 1, 0)),
        ("count(*) FILTER (WHERE x IS NOT NULL)", (1, 1, 0)),
        ("count(*) FILTER (WHERE x IS NULL)", (0, 0, 1)),
        ("sum(CASE WHEN x IS NULL THEN 1 ELSE 0 END)", (0, 0, 1)),
        ("sum(x / 1)", (LOW, HIGH, 0)),
    ],
)
def test_counts_and_shares(
    world: tuple[Analyst, Twin], counted: str, part: tuple[float, ...], states: tuple[str, ...]
) -> None:
    analyst, twin = world
    told = rows(
        analyst,
        f"{counted}, high({counted}) - {counted}, low({counted} / count(*)), high({counted} / count(*))",
        states,
    )
    weights = twin.weights(states, part)
    low, high = twin.ends(weights)
    if "x / 1" in counted:
        assert told[:2] == pytest.approx([(low + high) / 2, (high - low) / 2])
    else:
        assert told[:2] == (round((low + high) / 2), floor((high - low) / 2 + 0.5))
    start, reach = (LOW, HIGH - LOW) if "x / 1" in counted else (0, 1)
    whole = twin.weights(states, (1, 1, 1))
    expected = [start + reach * one for one in twin.quotient_ends((weights - start * whole) / reach, whole)]
    assert told[2:] == pytest.approx(expected, abs=reach / 10_000)


@pytest.mark.parametrize("states", [("NY",), STATES])
@pytest.mark.parametrize(
    ("is_so", "part"), [("IS NULL", (0, 0, 1)), ("IS NOT NULL", (1, 1, 0))], ids=["missing", "there"]
)
def test_where(world: tuple[Analyst, Twin], is_so: str, part: tuple[float, ...], states: tuple[str, ...]) -> None:
    """The same as a condition of WHERE, and as what a mean is of."""
    analyst, twin = world
    share = f"avg((x {is_so})::INT)"
    told = rows(analyst, f"count(*) FILTER (WHERE x {is_so}), low({share}), high({share})", states)
    weights, whole = twin.weights(states, part), twin.weights(states, (1, 1, 1))
    assert told[1:] == pytest.approx(twin.quotient_ends(weights, whole), abs=1e-4)
    names = ", ".join(f"'{one}'" for one in states)
    sql = f"SELECT count(*), high(count(*)) - count(*) FROM t WHERE x {is_so} AND state IN ({names})"
    low, high = twin.ends(weights)
    assert analyst.execute(sql).fetchall() == [(told[0], floor((high - low) / 2 + 0.5))]
    assert all(one.drawn is not None for one in analyst.explain(sql).steps)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t WHERE x IS NULL OR state = 'GA'",
        "SELECT count(*) FROM t WHERE x > 1",
        "SELECT sum(coalesce(x, 1)) FROM t WHERE x IS NOT NULL",
        "SELECT sum(x) FROM t WHERE x IS NULL",
        "SELECT sum(coalesce(x, x * x)) FROM t",
        "SELECT sum(CASE WHEN x IS NULL THEN 1 WHEN state = 'GA' THEN 2 ELSE x END) FROM t",
        "SELECT x IS NULL AS k, count(*) FROM t GROUP BY k",
    ],
)
def test_what_does_not_follow(world: tuple[Analyst, Twin], sql: str) -> None:
    assert not any(one.drawn is not None for one in world[0].explain(sql).steps)
