"""Exact values before noise: equal to a twin in plain Python, and moved by one privacy unit by no more than is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckanon.governance.locations import Location
from duckanon.releases import mechanisms
from duckanon.releases.measures import Records, Units
from duckanon.releases.mechanisms import contribution, forms
from duckanon.releases.paid_questions import AggregatesQuestion, GroupSizesQuestion, Key, PaidQuestion
from tests.releases import plain
from tests.releases.plain import Record

ENUM = "ENUM('f', 'm', 'x')"
# What a column is called in the twin, and its type. In the database each has a name that queries use themselves.
KINDS = {"unit": "INTEGER", "group": "INTEGER", "state": "VARCHAR", "county": "VARCHAR", "sex": ENUM, "age": "INTEGER"}
EVIL = ["u", "g", "c0", "c1", "d0", "k0", "k1", "e0", "cell", "whole", "n", "size", "duckanon.row", "U g", "_dk_form"]
VALUES: dict[str, list[Any]] = {
    "unit": [1, 1, 1, 2, 2, 3, None],
    "group": [10, 10, 10, 20, 20, 30, None],
    "state": ["A", "A", "A", "A", "B", "C", None],
    "county": ["p", "p", "p", "p", "q", "r", None],
    "sex": ["f", "f", "f", "m", "x", None],
    "age": [17, 18, 18, 70, None],
}
# Domains: the columns of the copy, and its rows. The values of a county's domain lie in some states only.
DOMAINS: dict[str, list[Record]] = {
    "state": [{"state": one} for one in ("A", "B", None)],
    "county": [
        {"state": state, "county": county} for state, county in (("A", "p"), ("A", "q"), ("B", "p"), (None, None))
    ],
    "sex": [{"sex": one} for one in ("f", "m")],
}
OVER, YOUNG = "({age} > CAST('17' AS INTEGER))", "({age} < CAST('70' AS INTEGER))"
TESTS: dict[str, Callable[[Record], bool | None]] = {
    OVER: lambda one: None if one["age"] is None else one["age"] > 17,
    YOUNG: lambda one: None if one["age"] is None else one["age"] < 70,
}


@dataclass
class Case:
    """A question, the twin's idea of it, and records. names: of the columns in the database."""

    names: dict[str, str]
    records: list[Record]
    asked: PaidQuestion
    twin: plain.Counted

    def filled(self, con: duckdb.DuckDBPyConnection, records: list[Record]) -> None:
        columns = ", ".join(f'"{self.names[name]}" {kind}' for name, kind in KINDS.items())
        con.execute(f"CREATE OR REPLACE TABLE main.t ({columns})").fetchall()
        for one in records:
            con.execute(
                f"INSERT INTO t VALUES ({', '.join('?' * len(KINDS))})", [one[name] for name in KINDS]
            ).fetchall()
        con.execute("CREATE SCHEMA IF NOT EXISTS duckanon").fetchall()
        for name, rows in DOMAINS.items():
            kinds = ", ".join(f'"{self.names[one]}" VARCHAR' for one in rows[0])
            con.execute(f"CREATE OR REPLACE TABLE duckanon.domain_{name} ({kinds})").fetchall()
            for row in rows:
                con.execute(
                    f"INSERT INTO duckanon.domain_{name} VALUES ({', '.join('?' * len(row))})", list(row.values())
                ).fetchall()

    def exact(self, con: duckdb.DuckDBPyConnection, records: list[Record]) -> np.ndarray:
        self.filled(con, records)
        (found,) = mechanisms.exact(con, self.asked)
        return found.reshape(-1)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    evil = draw(st.permutations(EVIL))
    names = dict(zip(KINDS, evil, strict=False)) if draw(st.booleans()) else {name: name for name in KINDS}
    # Few different ones, so that units and groups have several in one cell.
    kinds = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
    pool = draw(st.lists(kinds, min_size=1, max_size=4))
    records = [dict(one) for one in draw(st.lists(st.sampled_from(pool), max_size=9))]

    def key(name: str) -> Key:
        columns = tuple(names[one].lower() for one in DOMAINS[name][0])
        return Key(names[name], f"domain_{name}", KINDS[name], columns)

    who = draw(st.sampled_from(["record", "unit", "unit", "group"]))
    unit = None if who == "record" else who
    most = 1 if unit is None else draw(st.integers(1, 3))
    filters = draw(st.sets(st.sampled_from([OVER, YOUNG])))
    common: dict[str, Any] = {
        "location": Location("memory", "main", "t"),
        "version": 1,
        "edition": 1,
        "privacy_unit": None if unit is None else names[unit],
        "contributions": most,
        "epsilon": Fraction(1, 3),
        "protects": "them",
        "filter": tuple(sorted(_written(one, names) for one in filters)),
    }

    def kept(one: Record) -> bool:
        return all(TESTS[condition](one) is True for condition in filters)

    if draw(st.booleans()):
        depth, size = draw(st.integers(0, 2)), draw(st.integers(1, 4))
        keys = ["state", "county"][:depth]
        asked: PaidQuestion = GroupSizesQuestion(
            **common, group=names["group"], hierarchy=tuple(map(key, keys)), max_size=size, is_unit=unit == "group"
        )
        twin = plain.Counted(keys, [DOMAINS[one] for one in keys], kept, (), unit, "group", most, max_size=size)
        return Case(names, records, asked, twin)
    keys = draw(st.lists(st.sampled_from(list(DOMAINS)), unique=True))
    events = sorted(draw(st.sets(st.sampled_from([OVER, YOUNG]))))
    distinct = unit is not None and draw(st.booleans())
    asked = AggregatesQuestion(
        **common,
        keys=tuple(map(key, keys)),
        events=tuple((_written(one, names),) for one in events),
        measures=((Units() if distinct else Records(), Fraction(1)),),
    )
    twin = plain.Counted(
        keys, [DOMAINS[one] for one in keys], kept, [TESTS[one] for one in events], unit, None, most, distinct
    )
    return Case(names, records, asked, twin)


def _written(condition: str, names: dict[str, str]) -> str:
    return condition.format(age='"' + names["age"] + '"')


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@given(cases())
def test_equal_to_the_twin(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    found = case.exact(con, case.records)
    cells = case.twin.cells()
    if isinstance(case.asked, GroupSizesQuestion):
        wanted = case.twin.sizes(case.records)
        assert np.array_equal(found.reshape(wanted.shape), wanted)
    else:
        assert found.tolist() == case.twin.counts(case.records)
    assert forms.cells(con, case.asked) == len(cells)
    form = forms.form(con, case.asked)
    if case.twin.keys or case.twin.events:
        assert list(zip(*(one.to_pylist() for one in form.columns), strict=True)) == cells
    else:
        assert len(form) == 1


@given(cases(), st.integers(0, 8))
def test_one_unit_more_or_less_moves_it_by_the_sensitivity(con: duckdb.DuckDBPyConnection, case: Case, at: int) -> None:
    if not case.records:
        return
    gone = case.records[at % len(case.records)]
    unit = case.twin.unit
    if unit is None:
        rest = [one for one in case.records if one is not gone]
    else:
        rest = [one for one in case.records if one[unit] != gone[unit] or gone[unit] is None]
    moved = np.abs(case.exact(con, case.records) - case.exact(con, rest)).sum()
    asked = case.asked
    if isinstance(asked, AggregatesQuestion):
        assert moved <= max(asked.moved(one).distance for one, _ in asked.measures)
    if isinstance(asked, GroupSizesQuestion):
        # A unit's record moves a group from one size to the next; a group that is the unit comes or goes.
        assert moved <= (1 if asked.is_unit else 2 * asked.contributions)


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(con: duckdb.DuckDBPyConnection, case: Case, rng: Any) -> None:
    shuffled = list(case.records)
    rng.shuffle(shuffled)
    assert case.exact(con, case.records).tolist() == case.exact(con, shuffled).tolist()


def test_the_sensitivity_is_reached(con: duckdb.DuckDBPyConnection) -> None:
    """With less noise the guarantee would not hold: units that move the counts by as much as is said."""
    names = {name: name for name in KINDS}
    full = {"group": 10, "state": "A", "county": "p", "sex": "f", "age": 18}
    records = [{"unit": 1, **full}, {"unit": 1, **full, "state": "B"}, {"unit": 1, **full, "sex": "m"}]
    common = {
        "location": Location("memory", "main", "t"), "version": 1, "edition": 1, "privacy_unit": "unit",
        "contributions": 2,
        "epsilon": Fraction(1), "protects": "them",
    }  # fmt: skip
    counts = AggregatesQuestion(**common, keys=(Key("state", "domain_state", "VARCHAR", ("state",)),))  # type: ignore[arg-type]
    twin = plain.Counted(["state"], [DOMAINS["state"]], lambda _: True)
    case = Case(names, records, counts, twin)
    assert case.exact(con, records).sum() == 2 == counts.moved(Records()).distance
    distinct = replace(counts, keys=(), measures=((Units(), Fraction(1)),))
    assert Case(names, records, distinct, twin).exact(con, records).tolist() == [1]
    assert distinct.moved(Units()).distance == 1
    sizes = GroupSizesQuestion(**common, group="group", hierarchy=(), max_size=4)  # type: ignore[arg-type]
    others = [{"unit": 2, **full}, {"unit": 3, **full, "group": 20}]
    mine = [{"unit": 1, **full}, {"unit": 1, **full, "group": 20}]
    both = Case(names, [], sizes, twin)
    assert np.abs(both.exact(con, others) - both.exact(con, [*others, *mine])).sum() == 4


def test_what_is_not_known_of_a_record(con: duckdb.DuckDBPyConnection) -> None:
    """It is in no event, and a group that is the unit has no more records than count."""
    names = {name: name for name in KINDS}
    full = {"unit": 1, "group": 10, "state": "A", "county": "p", "sex": "f", "age": 18}
    asked = AggregatesQuestion(**{**_any(), "contributions": 4}, events=((_written(OVER, names),),))
    records = [{**full, "age": one} for one in (None, None, 18, 17)]
    assert Case(names, records, asked, None).exact(con, records).tolist() == [1, 3]  # type: ignore[arg-type]
    home = {**_any(), "privacy_unit": "group", "contributions": 2}
    sizes = GroupSizesQuestion(**home, group="group", hierarchy=(), max_size=4, is_unit=True)
    assert Case(names, [full] * 3, sizes, None).exact(con, [full] * 3).tolist() == [0, 1, 0, 0]  # type: ignore[arg-type]


def test_no_record_stops_an_answer(con: duckdb.DuckDBPyConnection) -> None:
    """Every value of every type is counted or not; nothing fails."""
    case = Case({name: name for name in KINDS}, [], AggregatesQuestion(**_any(), keys=_keys("sex")), None)  # type: ignore[arg-type]
    case.filled(con, [])
    con.execute(
        "CREATE OR REPLACE TABLE main.t AS SELECT i AS unit, i AS \"group\", chr(i::INTEGER) AS state, 'p' AS county, "
        f"CAST(NULL AS {ENUM}) AS sex, 2147483647 AS age FROM range(1, 55000) r(i)"
    ).fetchall()
    assert mechanisms.exact(con, case.asked)[0][:, 0].tolist() == [0, 0]
    assert mechanisms.exact(con, AggregatesQuestion(**_any(), keys=_keys("state")))[0][:, 0].tolist() == [1, 1, 0]


def _any() -> dict[str, Any]:
    return {
        "location": Location("memory", "main", "t"), "version": 1, "edition": 1, "privacy_unit": "unit",
        "contributions": 1,
        "epsilon": Fraction(1), "protects": "them",
    }  # fmt: skip


def _keys(*names: str) -> tuple[Key, ...]:
    return tuple(Key(name, f"domain_{name}", KINDS[name], tuple(DOMAINS[name][0])) for name in names)


def test_what_is_written_between_two_queries_of_a_draw_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a unit would have more records in the second than the first found it to have."""
    with duckdb.connect(tmp_path / "t.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS unit FROM range(2)").fetchall()
        question = AggregatesQuestion(
            location=Location("t", "main", "t"), version=1, edition=1, privacy_unit="unit", contributions=2,
            epsilon=Fraction(10**6), protects="units",
        )  # fmt: skip
        real = contribution.contributing

        def checked(own: duckdb.DuckDBPyConnection, asked: AggregatesQuestion) -> tuple[AggregatesQuestion, bool]:
            found = real(own, asked)
            with con.cursor() as other:
                other.execute("INSERT INTO t SELECT 1 FROM range(50)").fetchall()
            return found

        monkeypatch.setattr(contribution, "contributing", checked)
        assert mechanisms.draw(con.cursor(), question)["n0"].to_pylist() == [2]
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(52,)]
        monkeypatch.setattr(contribution, "contributing", real)
        assert mechanisms.draw(con.cursor(), question)["n0"].to_pylist() == [2]
