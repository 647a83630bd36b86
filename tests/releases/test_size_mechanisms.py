"""Group sizes of filtered records, of parts of groups, of other quantities and of all units: equal to a twin in plain
Python, and moved by one privacy unit, in all tables at once, by no more than the noise is made for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from math import floor, isnan
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.engines.groups import release
from duckanon.engines.groups.draws import size
from duckanon.engines.groups.hierarchy import Hierarchy
from duckanon.governance.locations import Location
from duckanon.releases import mechanisms
from duckanon.releases.mechanisms import forms, group_sizes
from duckanon.releases.paid_questions import GroupSizesQuestion, Key
from duckanon.releases.sizes import RECORDS, Size, UnitsTable
from duckanon.renyi import renyi
from tests.amounts import many
from tests.engines.groups.plain import privacy_loss
from tests.releases.plain import Typed, in_order

Record = dict[str, Any]
KINDS = {
    "person": "INTEGER",
    "home": "INTEGER",
    "part": "VARCHAR",
    "state": "VARCHAR",
    "age": "INTEGER",
    "pay": "DOUBLE",
}
VALUES: dict[str, list[Any]] = {
    "person": [1, 1, 2, 3, None],
    "home": [10, 10, 20, 30, None],
    "part": ["x", "y", None],
    "state": ["A", "A", "B", "elsewhere", None],
    "age": [17, 18, 70, None],
    "pay": [None, -5.0, 0.0, 49.9, 50.0, 150.0, 1e300, float("nan")],
}
STATES = ["A", "B", None]
OLD, YOUNG = '("age" > 17)', '("age" < 70)'
TESTS: dict[str, Callable[[Record], bool]] = {
    OLD: lambda one: one["age"] is not None and one["age"] > 17,
    YOUNG: lambda one: one["age"] is not None and one["age"] < 70,
    '("part" IS NOT NULL)': lambda one: one["part"] is not None,
    '("pay" IS NOT NULL)': lambda one: one["pay"] is not None,
}
PAID = ('("pay" IS NOT NULL)',)
SIZES = [
    RECORDS,
    Size(where=(OLD,)),
    Size(where=(OLD, YOUNG)),
    Size(what="distinct", column="part"),
    Size(what="distinct", column="age", where=(YOUNG,)),
    Size(what="sum", column="pay", low=0, high=3, step=50, where=PAID),
    Size(what="sum", column="pay", low=1, high=2, step=50, where=(OLD, *PAID)),
]


def filled(con: duckdb.DuckDBPyConnection, table: str, kinds: dict[str, str], rows: list[list[Any]]) -> None:
    con.execute(f"CREATE OR REPLACE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
    if rows:
        marks = ", ".join(f"({', '.join('?' * len(kinds))})" for _ in rows)
        con.execute(f"INSERT INTO {table} VALUES {marks}", [value for row in rows for value in row]).fetchall()


@dataclass
class Case:
    """A question and records. known: of the units' table, with repetitions."""

    asked: GroupSizesQuestion
    records: list[Record]
    known: list[int | None]

    def exact(self, con: duckdb.DuckDBPyConnection) -> np.ndarray:
        """int64 of shape (leaves, sizes)."""
        con.execute("CREATE SCHEMA IF NOT EXISTS duckanon").fetchall()
        filled(con, "duckanon.domain_state", {"state": "VARCHAR"}, [[one] for one in STATES])
        filled(con, "main.t", KINDS, [[one[name] for name in KINDS] for one in self.records])
        filled(con, "main.homes", {"home": "INTEGER", "since": "INTEGER"}, [[one, one] for one in self.known])
        found = np.asarray(mechanisms.exact(con, self.asked))
        return found.reshape(len(forms.form(con, self.asked)), self.asked.sizes)

    def without(self, unit: Any) -> Case:
        """The same without one privacy unit, in all tables. unit: a value, or a record where each is one."""
        column = self.asked.privacy_unit
        kept = [one for one in self.records if (one is not unit if column is None else one[column] != unit)]
        return Case(self.asked, kept, [one for one in self.known if self.asked.units is None or one != unit])

    def units(self) -> Iterator[Any]:
        column = self.asked.privacy_unit
        if column is None:
            yield from self.records
            return
        found: set[Any] = {one[column] for one in self.records} | (
            set(self.known) if self.asked.units is not None else set()
        )
        yield from sorted(found - {None})


def worth(size: Size, one: Record) -> Any:
    """What a record adds: a number, or a value."""
    if not all(TESTS[test](one) for test in size.where):
        return None if size.what == "distinct" else 0
    if size.what == "distinct":
        return one[size.column or ""]
    if size.what == "records":
        return 1
    value = one["pay"]
    if isnan(value):
        return size.high
    steps = value / size.step
    rounded = floor(abs(steps) + 0.5) * (1 if steps >= 0 else -1)
    return min(max(rounded, size.low), size.high)


def kind_of(size: Size) -> str:
    return KINDS[size.column or ""] if size.what == "distinct" else "BIGINT" if size.what == "sum" else "INTEGER"


def twin(case: Case) -> np.ndarray:
    asked, size = case.asked, case.asked.size
    leaves: list[Any] = sorted(STATES, key=lambda one: (one is None, one or "")) if asked.hierarchy else ["all"]
    placed = []
    for one in case.records:
        place = one["state"] if asked.hierarchy else "all"
        if place not in leaves or not all(TESTS[test](one) for test in asked.filter):
            continue
        if one[asked.group] is None or (asked.privacy_unit is not None and one[asked.privacy_unit] is None):
            continue
        placed.append((one, leaves.index(place)))
    members: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for one, cell in kept(asked, placed):
        members[(one[asked.group], *(one[part] for part in asked.within), cell)].append(worth(size, one))
    found = np.zeros((len(leaves), asked.sizes), dtype=np.int64)

    def told(mine: list[Any]) -> int:
        total = len(set(mine) - {None}) if size.what == "distinct" else sum(mine)
        return min(total, asked.largest) - asked.least

    if asked.units is not None:
        since = [one for one in set(case.known) - {None} if not asked.units.filter or one > 10]  # type: ignore[operator]
        for unit in since:
            found[0, told(members.get((unit, 0), []))] += 1
        return found
    for (*_, cell), mine in members.items():
        found[cell, told(mine)] += 1
    return found


def kept(asked: GroupSizesQuestion, placed: list[tuple[Record, int]]) -> list[tuple[Record, int]]:
    """The records that count of those that could."""
    if asked.units is not None or asked.privacy_unit is None:
        return placed
    own: dict[Any, list[tuple[Record, int]]] = defaultdict(list)
    for one in placed:
        own[one[0][asked.privacy_unit]].append(one)

    def row(one: tuple[Record, int]) -> tuple[Typed, ...]:
        record, cell = one
        group = [as_bytes(record[name], KINDS[name]) for name in (asked.group, *asked.within)]
        return ((cell, "BIGINT"), *group, as_bytes(worth(asked.size, record), kind_of(asked.size)))

    found = []
    for unit, mine in own.items():
        order = in_order((unit, "INTEGER"), list(map(row, mine)))
        home = mine[order[0]][1]
        counted = [one for one in mine if one[1] == home] if asked.is_unit else [mine[at] for at in order]
        found += counted if asked.is_unit else counted[: asked.contributions]
    return found


def as_bytes(value: Any, kind: str) -> Typed:
    return (None if value is None else value.encode(), "BLOB") if kind == "VARCHAR" else (value, kind)


def question(unit: str | None, most: int, size: Size, **more: Any) -> GroupSizesQuestion:
    fields: dict[str, Any] = {
        "location": Location("memory", "main", "t"),
        "version": 1,
        "edition": 1,
        "privacy_unit": unit,
        "contributions": 1 if unit is None else most,
        "epsilon": Fraction(1, 3),
        "protects": "them",
        "group": "home",
        "hierarchy": (),
        "max_size": 4,
        "size": size,
        "is_unit": unit == "home" and not more.get("within"),
    }
    return GroupSizesQuestion(**{**fields, **more})


STATE = Key("state", "domain_state", "VARCHAR", ("state",))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
    pool = draw(st.lists(kinds, min_size=1, max_size=5))
    records = [dict(one) for one in draw(st.lists(st.sampled_from(pool), max_size=9))]
    known = draw(st.lists(st.sampled_from([10, 10, 20, 30, 40, None]), max_size=5))
    size, most = draw(st.sampled_from(SIZES)), draw(st.integers(1, 3))
    more: dict[str, Any] = {
        "filter": tuple(sorted(draw(st.sets(st.sampled_from([OLD, YOUNG]))))),
        "max_size": draw(st.integers(1, 6)),
    }
    if draw(st.integers(0, 3)) == 0:
        told = draw(st.sampled_from([(), ('("since" > 10)',)]))
        units = UnitsTable(location=Location("memory", "main", "homes"), version=1, column="home", filter=told)
        return Case(question("home", most, size, units=units, **more), records, known)
    more["within"] = draw(st.sampled_from([(), ("part",), ("age", "part")]))
    more["hierarchy"] = draw(st.sampled_from([(), (STATE,)]))
    return Case(question(draw(st.sampled_from([None, "person", "home"])), most, size, **more), records, known)


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@given(cases())
def test_equal_to_the_twin(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    assert case.exact(con).tolist() == twin(case).tolist()


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(con: duckdb.DuckDBPyConnection, case: Case, rng: Any) -> None:
    shuffled = Case(case.asked, rng.sample(case.records, len(case.records)), rng.sample(case.known, len(case.known)))
    assert case.exact(con).tolist() == shuffled.exact(con).tolist()


def loss(
    con: duckdb.DuckDBPyConnection, case: Case, other: Case, mechanism: str = "auto"
) -> tuple[Fraction, release.Plan]:
    """The largest log-ratio of an outcome between the two, and the plan."""
    asked, found = replace(case.asked, mechanism=mechanism), []
    leaves = forms.form(con, asked)
    ranks = group_sizes.ranks_of(leaves, len(asked.hierarchy))
    parents = tuple(group_sizes.parents_of(upper, lower) for upper, lower in pairwise(ranks))
    for one in (case, other):
        plan = release.plan(Hierarchy(parents), one.exact(con), asked.engine)
        found.append(plan.hierarchy.ordered.levels(plan.groups[plan.hierarchy.order[-1]]))
    assert mechanism != "auto" or max(size(one) for level in plan.noise for one in level) <= asked.scale
    return privacy_loss(plan, *found), plan


@settings(max_examples=many(40))
@given(cases())
def test_no_unit_moves_it_further_than_the_noise_is_made_for(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    for unit in list(case.units())[:3]:
        other = case.without(unit)
        for mechanism in ("auto", "h_relaxed", "c_relaxed"):
            assert loss(con, case, other, mechanism)[0] <= case.asked.epsilon
        if case.asked.is_unit or case.asked.units is not None:
            assert np.abs(case.exact(con) - other.exact(con)).sum() <= 1


def person(**more: Any) -> Record:
    return {"person": 1, "home": 10, "part": "x", "state": "A", "age": 18, "pay": 150.0, **more}


@pytest.mark.parametrize(
    ("asked", "before", "added", "distance"),
    [
        # A record brings its group with it, with size 1 of sizes from 0: two counts from above rise by one.
        (question("person", 1, Size(where=(OLD,))), [], [person()], 2),
        # A sum of three steps at once, with its group: of the histogram, two entries change.
        (question("person", 1, SIZES[5]), [person(person=2, pay=0.0)], [person()], 2),
        (question("person", 2, Size(what="distinct", column="part")), [person(person=2)],
         [person(part="y"), person(home=20)], 3),
        # Two parts of a group are two groups, of the unit that is the group too.
        (question("home", 2, RECORDS, within=("part",)), [], [person(), person(part="y")], 2),
        (question("home", 3, SIZES[5]), [], [person(), person()], 1),
    ],
)  # fmt: skip
def test_the_sensitivity_is_reached(
    con: duckdb.DuckDBPyConnection, asked: GroupSizesQuestion, before: list[Record], added: list[Record], distance: int
) -> None:
    case = Case(asked, [*before, *added], [])
    found, plan = loss(con, case, Case(asked, before, []))
    made = plan.query.distance(plan.request.privacy, 1, plan.groups.shape[1])
    assert found == asked.epsilon * Fraction(distance, made) <= asked.epsilon


def test_all_neighbours_of_small_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Every table of units and records of two units, against the same without one of them."""
    units = UnitsTable(location=Location("memory", "main", "homes"), version=1, column="home")
    asked = question("home", 2, RECORDS, units=units, max_size=3)
    for known, mine, others in product([[], [10], [10, 10], [10, 20]], range(4), range(3)):
        records = [person(home=10)] * mine + [person(home=20)] * others
        case = Case(asked, records, list(known))
        for unit in (10, 20):
            change = np.abs(case.exact(con) - case.without(unit).exact(con)).sum()
            assert change == (1 if unit in known else 0)
        assert case.exact(con).sum() == len(set(known))


def test_no_record_stops_an_answer(con: duckdb.DuckDBPyConnection) -> None:
    """Of every type of number, with values at its ends."""
    kinds = {
        "HUGEINT": ["-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"],
        "UHUGEINT": ["0", "340282366920938463463374607431768211455"],
        "BIGINT": ["-9223372036854775808", "9223372036854775807"],
        "DOUBLE": ["nan", "inf", "-inf", "1.7976931348623157e308", "5e-324"],
        "FLOAT": ["nan", "inf", "-inf", "3.4e38"],
        "DECIMAL(38,10)": ["9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999"],
    }
    for kind, values in kinds.items():
        con.execute(f"CREATE OR REPLACE TABLE main.t (person INTEGER, home INTEGER, pay {kind})").fetchall()
        for at, one in enumerate([*values, None]):
            con.execute(f"INSERT INTO t VALUES ({at}, {at}, CAST(? AS {kind}))", [one]).fetchall()
        for step in (1, 10**15):
            size = Size(what="sum", column="pay", low=0, high=5, step=step, where=PAID)
            assert np.asarray(mechanisms.exact(con, question("person", 1, size))).sum() == len(values) + 1


def test_with_a_delta_the_price_buys_the_narrower_noise() -> None:
    """For all kinds of units: what the noise costs is the price, and its largest deviation is known beforehand."""
    known, seen = renyi(Fraction(1), Fraction(1, 10**9)), set()
    for part, contributions, is_unit in product((1, 2, 50), (1, 7), (False, True)):
        price = known.capacity / part
        more: dict[str, Any] = {
            "renyi": known,
            "epsilon": price,
            "contributions": contributions,
            "is_unit": is_unit,
            "max_size": 12,
        }
        asked = replace(question("home", 1, RECORDS), **more)
        assert 0 <= price - asked.loss <= Fraction(1, 10**9)
        epsilon, rho = asked.bought
        assert (epsilon, rho) in ((known.pure(price), None), (None, known.rho(price)))
        plan = release.plan(Hierarchy(), np.zeros((1, 12), np.int64), asked.engine)
        assert max(size(one) for level in plan.noise for one in level) <= asked.scale
        assert asked.noise_words.startswith("pure" if rho is None else "gaussian")
        seen.add((part, rho is None))
    assert {(1, True), (50, False)} <= seen
