"""Half (b): each kind of paid answer alone, with its exact values.

Between two databases of equal public facts an answer has the same form, and its numbers, before post-processing, differ
exactly as the exact values do under the same noise. Between neighbours, which differ in one privacy unit, the exact
values move by no more than the noise was made for. And what each unit contributes is what the documents say: of its
records that pass the filter and match the domains, the first ones, picked from its own records alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

from duckanon.analyst import Analyst
from duckanon.catalog.names import quoted
from duckanon.engines.groups import release
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.engines.groups.loss import Concentrated
from duckanon.engines.groups.measurements import Measurements
from duckanon.engines.groups.split import Split
from duckanon.engines.noise import Gaussian, Laplace, Noise
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.releases import mechanisms
from duckanon.releases.layout import Event, Steps
from duckanon.releases.measures import Measure, Quantiles, Records, Sums, Units
from duckanon.releases.mechanisms import aggregates, draw, forms, group_sizes
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, PaidQuestion
from duckanon.units.relation import Records as UnitRecords
from tests.engines.groups.plain import concentrated_loss, privacy_loss
from tests.engines.seeded import Seeded

# One of each kind, and each part of the order of contribution in one of them.
QUESTIONS = (
    "SELECT count(*) FROM persons",
    "SELECT count(*) FROM persons WHERE age BETWEEN 10 AND 70 AND NOT sick",
    "SELECT state, count(*) FROM persons GROUP BY state",
    "SELECT state, county, count(*) FROM persons WHERE income > 10 GROUP BY ALL",
    "SELECT sex, m, count(*) FROM persons GROUP BY ALL",
    "SELECT sick, vote, education, count(*) FROM persons WHERE name IS NOT NULL GROUP BY ALL",
    "SELECT count(*) FROM persons WHERE sex = 'x' OR f > 1.5 OR born > current_date",
    "SELECT state, avg((age > 17)::INT) FROM persons GROUP BY state",
    "SELECT state, count(*) FILTER (age > 17) / count(*) FROM persons GROUP BY state",
    "SELECT state, sick, count(*) FROM visits GROUP BY ALL",
    "SELECT state, sick, count(*), sum(quantity) FROM bills GROUP BY ALL",
    "SELECT count(*) FROM bills WHERE age > 17",
    "SELECT size, count(*) FROM (SELECT stay, count(*) AS size FROM bills GROUP BY 1) GROUP BY 1",
    "SELECT size, count(*) FROM (SELECT household_id, count(*) AS size FROM persons GROUP BY 1) GROUP BY 1",
    "SELECT size, count(*) FROM (SELECT household_id, count(*) AS size FROM visits GROUP BY 1) GROUP BY 1",
    "FROM dp_group_sizes('persons', 'household_id', hierarchy := ['state'], epsilon := 2, max_size := 3)",
    "FROM dp_group_sizes('persons', 'household_id', epsilon := 3, max_size := 4, mechanism := 'h_relaxed')",
    "FROM dp_group_sizes('persons', 'household_id', epsilon := 3, max_size := 4, mechanism := 'c_dp')",
)
_GROUPS = "SELECT size, count(*) FROM (SELECT {}) GROUP BY size"
_SIZES = tuple(
    _GROUPS.format(one)
    for one in (
        "household_id, count(*) AS size FROM persons WHERE age > 17 AND sick GROUP BY 1",
        "household_id, count(vote) AS size FROM persons GROUP BY 1",
        "household_id, count(DISTINCT education) AS size FROM persons WHERE state = 'S0' OR age < 50 GROUP BY 1",
        "household_id, sum(quantity) AS size FROM persons GROUP BY 1",
        "household_id, sum(CASE WHEN sick THEN age ELSE 0 END) AS size FROM persons GROUP BY 1",
        "household_id, sex, count(*) AS size FROM persons GROUP BY ALL",
        "household_id // 5 AS block, count(*) AS size FROM persons GROUP BY block",
        "household_id, count(*) AS size FROM persons WHERE household_id IN (SELECT household_id FROM units) GROUP BY 1",
        "v.household_id, count(p.age) AS size FROM visits v LEFT JOIN persons p ON v.household_id = p.household_id "
        "AND p.age > 17 WHERE v.sick GROUP BY 1",
    )
)
_DISTINCT = "SELECT count(DISTINCT {}) FROM persons WHERE age > 17"


def asked(con: Analyst, sql: str) -> PaidQuestion:
    """The question that a statement pays for. Nothing is charged."""
    (found,) = con._guard.decide(sql).answers
    assert isinstance(found, PaidQuestion)
    return found


def questions(con: Analyst, unit: str | None) -> Iterator[PaidQuestion]:
    """unit: the column of the privacy unit."""
    for sql in (*QUESTIONS, *_SIZES, *([_DISTINCT.format(unit)] if unit else [])):
        try:
            yield from con._guard.decide(sql).answers
        except (PolicyRefusal, UnsupportedQuery):
            # Of some policies, or hidden by a temporary view.
            continue


# --- before post-processing -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """An answer in its making. values: what has noise on it, before post-processing; exact: the same without noise."""

    form: pa.Table
    shape: tuple[Any, ...]
    exact: list[np.ndarray[Any, Any]]
    values: list[np.ndarray[Any, Any]]


def difference(
    first: duckdb.DuckDBPyConnection, second: duckdb.DuckDBPyConnection, one: PaidQuestion, seed: int
) -> str | None:
    """What is wrong with the answers to a question from two databases of equal public facts; None if nothing is."""
    found: list[Drawn | str] = []
    for con in (first, second):
        try:
            found.append(drawn(con, one, seed))
        except duckdb.Error:
            found.append("failed")
    if isinstance(found[0], Drawn) and isinstance(found[1], Drawn):
        return coupled(found[0], found[1])
    return "an answer could not be drawn"


def drawn(con: duckdb.DuckDBPyConnection, one: PaidQuestion, seed: int) -> Drawn:
    """Draw an answer with noise from a seed. con: DuckDB's own connection."""
    form = forms.form(con, one)
    if isinstance(one, AggregatesQuestion):
        with _noised() as noisy:
            answer = draw(con, one, Seeded(seed))
        keys = answer.select([name for name in answer.column_names if name[0] in "ke"])
        exact = mechanisms.exact(con, one)
        # And the answer has a row for each cell.
        return Drawn(
            form,
            (answer.schema, keys.to_pylist()),
            [*(exact[at] for at in noisy), np.zeros(len(form))],
            [*noisy.values(), np.zeros(len(answer))],
        )
    assert isinstance(one, GroupSizesQuestion)
    with _measured() as seen:
        answer = draw(con, one, Seeded(seed))
    fixed = answer.drop_columns(["groups", "low", "high"])
    ((measured, truth),) = seen
    exact, values = [measured.query.of(one) for one in truth], list(measured.values)
    if measured.look is not None:
        exact, values = [*exact, exact[0][0]], [*values, measured.look.values]
    assert np.array_equal(np.sort(truth[-1].reshape(-1)), np.sort(mechanisms.exact(con, one)[0].reshape(-1)))
    return Drawn(form, (answer.schema, fixed.to_pylist()), exact, values)


@contextmanager
def _noised() -> Iterator[dict[int, np.ndarray[Any, Any]]]:
    """The totals with noise, by the place of their measure; quantiles have no noise that is added."""
    seen: dict[int, np.ndarray[Any, Any]] = {}
    real = aggregates.noised

    def noised(question: AggregatesQuestion, measure: Measure, totals: Any, source: Any) -> Any:
        found = real(question, measure, totals, source)
        if not isinstance(measure, Quantiles):
            seen[[each for each, _ in question.measures].index(measure)] = found
        return found

    with mock.patch.object(aggregates, "noised", noised):
        yield seen


@contextmanager
def _measured() -> Iterator[list[tuple[Measurements, Any]]]:
    """What is measured meanwhile: the noisy values, and the true numbers of groups at each level.

    A look at the root chooses ways by its noisy values alone. Here every look chooses the same: the values of two
    databases have the same noise only where their scales are the same.
    """
    seen: list[tuple[Measurements, Any]] = []
    looks: list[Any] = []
    real = release.measure

    def choose(split: Split, look: Any, leaves: int, rate: float) -> Any:
        looks.append(look)
        return np.arange(len(look)) % len(split.ways)

    def measure(hierarchy: Any, truth: Any, *more: Any) -> Measurements:
        found = real(hierarchy, truth, *more)
        assert looks == [] if found.look is None else looks.pop() is found.look.values
        assert np.array_equal(found.ways, np.arange(len(found.ways)) % len(found.noise[0]))
        seen.append((found, truth))
        return found

    with mock.patch.object(release, "measure", measure), mock.patch.object(Split, "choose", choose):
        yield seen


def coupled(first: Drawn, second: Drawn) -> str | None:
    """What is wrong with two drawings of a question with the same noise; None if nothing is."""
    if not first.form.equals(second.form) or first.shape != second.shape:
        return "the forms differ"
    for noisy, other, exact, others in zip(first.values, second.values, first.exact, second.exact, strict=True):
        if not np.array_equal(noisy - other, exact - others):
            return "the numbers do not differ as the exact ones do"
    return None


# --- neighbours -------------------------------------------------------------------------------------------------------


def levels(con: duckdb.DuckDBPyConnection, one: GroupSizesQuestion) -> tuple[release.Plan, list[np.ndarray[Any, Any]]]:
    """The groups of each level, and the plan with the noise that what is measured of them gets."""
    leaves = forms.form(con, one)
    ranks = group_sizes.ranks_of(leaves, len(one.hierarchy))
    parents = tuple(group_sizes.parents_of(upper, lower) for upper, lower in pairwise(ranks))
    plan = release.plan(Hierarchy(parents), mechanisms.exact(con, one)[0].reshape(len(leaves), -1), one.engine)
    tree = plan.hierarchy.ordered
    return plan, list(tree.levels(plan.groups[plan.hierarchy.order[-1]]))


def _loss(plan: release.Plan, before: Any, after: Any) -> Fraction:
    loss = concentrated_loss if isinstance(plan.split.loss, Concentrated) else privacy_loss
    return loss(plan, before, after)


def moved(con: duckdb.DuckDBPyConnection, one: PaidQuestion, change: str) -> list[tuple[Fraction, Fraction]]:
    """For each measure, by how much a change of records moves the exact values, and what the noise is made for.

    For Laplace noise in all (L1), for Gaussian noise the squares of the changes added up.

    Of group sizes, the privacy loss of all levels together, and epsilon or rho. change: SQL that adds or removes one
    privacy unit; it is rolled back.
    """
    if isinstance(one, GroupSizesQuestion):
        plan, before = levels(con, one)
        made = [plan.split.loss.total]
    else:
        assert isinstance(one, AggregatesQuestion)
        before = mechanisms.exact(con, one)
        made = [_made_for(one, each, share) for each, share in one.measures]
    con.begin()
    try:
        con.execute(change).fetchall()
        after = levels(con, one)[1] if isinstance(one, GroupSizesQuestion) else mechanisms.exact(con, one)
    finally:
        con.rollback()
    if isinstance(one, GroupSizesQuestion):
        distances = [_loss(plan, before, after)]
    else:
        squared = [one.renyi is not None and isinstance(one.noise(each), Gaussian) for each, _ in one.measures]
        powers = [2 if each else 1 for each in squared]
        distances = [
            Fraction(int((np.abs(a - b) ** power).sum())) for a, b, power in zip(before, after, powers, strict=True)
        ]
    return list(zip(distances, made, strict=True))


def _made_for(one: AggregatesQuestion, each: Measure, share: Fraction) -> Fraction:
    """How much a unit may move a measure, by the noise that it gets and the price of it."""
    noise, price = one.noise(each), one.epsilon * share
    if not isinstance(noise, Noise):
        return Fraction(one.moved(each).distance)
    drawn = noise.times(each.whole)
    if isinstance(drawn, Gaussian):
        assert one.renyi is not None
        return drawn.variance * 2 * one.renyi.rho(price)
    assert isinstance(drawn, Laplace)
    return drawn.scale * (price if one.renyi is None else one.renyi.pure(price))


def units(con: duckdb.DuckDBPyConnection, one: PaidQuestion) -> list[str]:
    """Conditions that hold for the records of one privacy unit each, and together for all that count."""
    table, column = one.records, one.privacy_unit
    if column is None:
        found = con.execute(f"SELECT rowid FROM {table}").fetchall()
        return [f"rowid = {row}" for (row,) in found]
    name = quoted([column])
    known = f"SELECT {name} AS unit FROM {table}"
    if isinstance(one, GroupSizesQuestion) and one.units is not None:
        known += f" UNION SELECT {quoted([one.units.column])} FROM {quoted(one.units.location.path)}"
    found = con.execute(f"SELECT DISTINCT unit FROM ({known}) WHERE unit IS NOT NULL ORDER BY 1").fetchall()
    return [f"{name} = {value!r}" for (value,) in found]


def without(one: PaidQuestion, unit: str) -> str:
    """SQL that removes a privacy unit from all tables that a question is about. unit: as in `units`."""
    if _is_within_units(one):
        column, value = _owner(one, unit)
        return f"DELETE FROM bills WHERE stay IN (SELECT stay FROM stays WHERE {column} = {value}); " + "; ".join(
            f"DELETE FROM {table} WHERE {column} = {value}" for table in _OWNED
        )
    if one.owned:
        column, value = _owner(one, unit)
        gone = f"FROM stays WHERE {column} = {value}"
        return f"DELETE FROM bills WHERE stay IN (SELECT stay {gone}); DELETE {gone}"
    change = f"DELETE FROM {quoted(one.location.path)} WHERE {unit}"
    if isinstance(one, GroupSizesQuestion) and one.units is not None:
        value = unit.partition(" = ")[2]
        change += f"; DELETE FROM {quoted(one.units.location.path)} WHERE {quoted([one.units.column])} = {value}"
    return change


# The tables that have the unit's column.
_OWNED = ("persons", "visits", "stays")


def _is_within_units(one: PaidQuestion) -> bool:
    return isinstance(one, AggregatesQuestion) and one.relation is not None


def _owner(one: PaidQuestion, unit: str) -> tuple[str, str]:
    """The column that holds the unit, and its value. unit: as in `units`. Of bills it is told in words, as of stays."""
    if _is_within_units(one):
        assert isinstance(one, AggregatesQuestion)
        assert one.relation is not None
        leaves = [each for each in one.relation.leaves() if isinstance(each, UnitRecords)]
        (column,) = {each.unit for each in leaves if each.unit is not None}
        return column, unit.partition(" = ")[2]
    return one.protects.partition("main.stays.")[2].partition(" ")[0], unit.partition(" = ")[2]


def too_far(con: duckdb.DuckDBPyConnection, one: PaidQuestion, most: int | None = None) -> str | None:
    """A privacy unit that moves the exact values further than the noise was made for; None if there is none.

    most: how many units are tried; None: all.
    """
    for unit in units(con, one)[:most]:
        for measure, (distance, made) in enumerate(moved(con, one, without(one, unit))):
            if distance > made:
                return f"without {unit}, measure {measure} moves by {distance}; the noise is made for {made}"
    return None


# --- contribution -----------------------------------------------------------------------------------------------------


def _place(event: Event) -> str:
    """The place of a record among an event's outcomes, as SQL."""
    if isinstance(event, Steps):
        return f"coalesce(({event.sql}) - ({event.low}), {event.last})"
    return f"(CASE {' '.join(f'WHEN {test} THEN {at}' for at, test in enumerate(event))} ELSE {len(event)} END)"


def contribution(con: duckdb.DuckDBPyConnection, one: AggregatesQuestion, most: int | None = None) -> str | None:
    """Where the exact totals are not the sum of what each unit contributes, or a unit contributes another number.

    A unit contributes as many records as pass the filter and have keys in the domains, at most `contributions`.
    most: how many units are looked at; None: all, and then their sum too.
    """
    table = one.records
    whole = mechanisms.exact(con, one)
    total = [np.zeros_like(each) for each in whole]
    bases = [f"b{at}" for at in range(len(one.keys))]
    outcomes = [f"e{at}" for at in range(len(one.events))]
    told = ", ".join([*(f"CAST({each} AS VARCHAR)" for each in bases), *outcomes]) or "0"
    cells = set(con.execute(f"SELECT {told} FROM ({forms.cells_of(one)})").fetchall())
    for unit in units(con, one)[:most]:
        own = _alone(con, one, unit)
        total = [each + mine for each, mine in zip(total, own, strict=True)]
        tests = [unit, *(f"({test})" for test in one.filter)]
        shown = [f"CAST({quoted([key.column])} AS VARCHAR)" for key in one.keys] + [
            _place(event) for event in one.events
        ]
        rows = con.execute(f"SELECT {', '.join(shown) or '0'} FROM {table} WHERE {' AND '.join(tests)}").fetchall()
        known = [row for row in rows if not shown or row in cells]
        expected = min(len(known), one.contributions)
        for (measure, _), mine in zip(one.measures, own, strict=True):
            condition = measure.where if isinstance(measure, Records | Units) else None
            counted = known
            if condition is not None:
                text = f"SELECT {', '.join(shown) or '0'} FROM {table} WHERE {' AND '.join([*tests, f'({condition})'])}"
                counted = [row for row in con.execute(text).fetchall() if not shown or row in cells]
            # Which of too many records count is decided before a condition of a measure's own.
            is_sure = condition is None or len(known) <= one.contributions
            if not _is_contributed(
                measure,
                int(mine.sum()),
                min(len(counted), expected),
                len(set(counted)) if shown else min(len(counted), 1),
                is_sure=is_sure,
            ):
                return f"{unit} has {len(known)} records that match, and counts {int(mine.sum())} times"
    if most is None and not all(np.array_equal(each, mine) for each, mine in zip(total, whole, strict=True)):
        return "the totals are not the sum of what each unit contributes"
    return None


def _is_contributed(measure: Measure, added: int, records: int, cells: int, *, is_sure: bool) -> bool:
    """Whether a unit may have added that much: of so many records that count, in so many different cells.

    is_sure: whether all of these count; else fewer may.
    """
    if isinstance(measure, Records):
        return added == records if is_sure else added <= records
    if isinstance(measure, Units):
        return added <= min(records, cells) and (not is_sure or (added > 0) == (records > 0))
    if isinstance(measure, Sums):
        return (
            added == records * measure.whole
            if measure.missing
            else added in range(0, (records + 1) * measure.whole, measure.whole)
        )
    return added <= records


def _alone(con: duckdb.DuckDBPyConnection, one: AggregatesQuestion, unit: str) -> list[np.ndarray[Any, Any]]:
    """The exact totals of a table in which there are no other units."""
    tables = [quoted(one.location.path)]
    if one.owned or _is_within_units(one):
        column, value = _owner(one, unit)
        tables, unit = ["stays"] if one.owned else list(_OWNED), f"{column} = {value}"
    con.begin()
    try:
        for table in tables:
            con.execute(f"DELETE FROM {table} WHERE NOT coalesce({unit}, false)").fetchall()
        return mechanisms.exact(con, one)
    finally:
        con.rollback()
