"""How many units a published k-anonymous table is proven to have in each class, against all that it may stand for."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Terms
from duckanon.errors import InvalidInput
from duckanon.functions.publication_records import check_records
from tests.amounts import many

Value = int | None
_POLICY = Policy(Fraction(1), quasi_identifiers=("q", "p"), privacy_unit="u", k=2)
# Values of two quasi-identifiers, a unit, and the class in which a record is released; None: in none.
_RECORD = st.tuples(
    st.none() | st.integers(0, 2), st.none() | st.integers(0, 1), st.integers(0, 2), st.sampled_from([0, 0, 1, 1, None])
)
Cell = tuple[Value, Value]


def interval(values: list[Value]) -> Cell:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known and len(known) == len(values) else (None, None)


def fits(value: Value, cell: Cell) -> bool:
    low, high = cell
    return low is None or high is None or (value is not None and low <= value <= high)


def fewest_units(records: list[tuple[Value, Value, int]], rows: list[tuple[Cell, Cell]]) -> int:
    """The fewest units in a class, over all ways in which each row can stand for a record of its own."""
    least = len(records)
    for behind in permutations(records, len(rows)):
        if all(fits(q, one) and fits(p, other) for (q, p, _), (one, other) in zip(behind, rows, strict=True)):
            units = defaultdict(set)
            for (_, _, unit), row in zip(behind, rows, strict=True):
                units[row].add(unit)
            least = min(least, *map(len, units.values()))
    return least


def candidate(
    con: duckdb.DuckDBPyConnection, records: list[tuple[Value, Value, int]], rows: list[tuple[Cell, Cell]]
) -> Candidate:
    con.execute("CREATE OR REPLACE TABLE t (q INTEGER, p INTEGER, u INTEGER)").fetchall()
    con.executemany("INSERT INTO t VALUES (?, ?, ?)", records)
    columns = ("q_lo", "q_hi", "p_lo", "p_hi")
    con.execute(f"CREATE OR REPLACE TABLE r ({', '.join(f'{name} INTEGER' for name in columns)})").fetchall()
    con.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", [(*one, *other) for one, other in rows])
    kinds = dict.fromkeys(columns, "INTEGER")
    return Candidate("r", "t", "r", "t", Terms(), kinds, dict.fromkeys("qpu", "INTEGER"), _POLICY)


@settings(max_examples=many(150), deadline=None)
@given(drawn=st.lists(_RECORD, min_size=3, max_size=6).filter(lambda drawn: any(one[3] is not None for one in drawn)))
def test_what_is_proven_holds_whatever_records_stand_behind_the_rows(
    drawn: list[tuple[Value, Value, int, Value]],
) -> None:
    records = [(q, p, unit) for q, p, unit, _ in drawn]
    rows = []
    for label in (0, 1):
        members = [one for one in drawn if one[3] == label]
        cells = interval([one[0] for one in members]), interval([one[1] for one in members])
        rows += [cells] * len(members)
    with duckdb.connect() as con:
        try:
            check_records(con, candidate(con, records, rows))
        except InvalidInput:
            return
    assert fewest_units(records, rows) >= 2


# A tree over the values of `q`, and what each label holds. Records without a value are under none.
_TREE = {"0": {0}, "1": {1}, "2": {2}, "some": {0, 1}, "*": {0, 1, 2}}


def lowest_label(values: list[Value]) -> str | None:
    """The lowest label above all of them, None where one is missing."""
    return None if None in values else next(label for label, held in _TREE.items() if held >= set(values))


@settings(max_examples=many(60), deadline=None)
@given(drawn=st.lists(_RECORD, min_size=3, max_size=6).filter(lambda drawn: any(one[3] is not None for one in drawn)))
def test_labels_are_proven_by_the_leaves_below_them(drawn: list[tuple[Value, Value, int, Value]]) -> None:
    records = [(q, p, unit) for q, p, unit, _ in drawn]
    rows = []
    for number in (0, 1):
        members = [one for one in drawn if one[3] == number]
        rows += [(lowest_label([q for q, *_ in members]), interval([p for _, p, *_ in members]))] * len(members)
    with duckdb.connect() as con:
        found = candidate(con, records, [((0, 0), (0, 0))])
        con.execute("CREATE TABLE levels AS FROM (VALUES ('0', 'some'), ('1', 'some'), ('2', 'two'))").fetchall()
        con.execute("CREATE OR REPLACE TABLE r (q_label VARCHAR, p_lo INTEGER, p_hi INTEGER)").fetchall()
        con.executemany("INSERT INTO r VALUES (?, ?, ?)", [(label, *cell) for label, cell in rows])
        columns = {"q_label": "VARCHAR", "p_lo": "INTEGER", "p_hi": "INTEGER"}
        try:
            check_records(con, replace(found, columns=columns, trees={"q": "levels"}))
        except InvalidInput:
            return

    def inside(value: Value, label: str | None) -> bool:
        return label is None or value in _TREE[label]

    least = len(records)
    for behind in permutations(records, len(rows)):
        pairs = list(zip(behind, rows, strict=True))
        if all(inside(q, label) and fits(p, cell) for (q, p, _), (label, cell) in pairs):
            units = defaultdict(set)
            for (_, _, unit), row in pairs:
                units[row].add(unit)
            least = min(least, *map(len, units.values()))
    assert least >= 2


def households(*, missing: float) -> duckdb.DuckDBPyConnection:
    """Some 2,000 persons of households of one to seven, with a policy whose unit is the household."""
    con, draw, rows, number = duckdb.connect(), random.Random(1), list[tuple[object, ...]](), 0
    duckanon.register(con)
    while len(rows) < 2000:
        number, area = number + 1, f"area {draw.randrange(12)}"
        for _ in range(draw.choice([1, 1, 2, 2, 3, 4, 5, 7])):
            age = None if draw.random() < missing else draw.randrange(90)
            rows.append((number, age, draw.randrange(2), area))
    con.execute("CREATE TABLE census (household INTEGER, age INTEGER, sex INTEGER, area VARCHAR)").fetchall()
    con.executemany("INSERT INTO census VALUES (?, ?, ?, ?)", rows)
    con.execute("CREATE VIEW known AS FROM census WHERE age IS NOT NULL").fetchall()
    con.execute(
        "SELECT protect('census', epsilon := 1, privacy_unit := 'household', rows_per_unit := 7, k := 5, "
        "quasi_identifiers := ['age', 'sex', 'area'])"
    ).fetchall()
    return con


def published(con: duckdb.DuckDBPyConnection, source: str, k: int, method: str) -> str:
    con.execute(
        f"CREATE OR REPLACE TABLE copy AS FROM k_anonymize('{source}', ['age', 'sex', 'area'], k := {k}, "
        f"categorical := ['area'], drop := ['household'], unit := 'household', method := '{method}')"
    ).fetchall()
    ((said,),) = con.execute("SELECT publish('copy', of := 'census')").fetchall()
    return str(said)


def test_classes_of_missing_values_alone_are_told_apart_from_all_others() -> None:
    # NULL may stand for any value, but there are no more rows with NULL than records without a value.
    con = households(missing=0.02)
    assert published(con, "census", 5, "mondrian").endswith("is published: analysts read it as copy.")
    found = "SELECT (SELECT count(*) FROM copy WHERE age_lo IS NULL), (SELECT count(*) FROM census WHERE age IS NULL)"
    rows, without = con.execute(found).fetchall()[0]
    assert rows == without > 0


def test_a_refusal_names_the_cause_and_each_way_out_works() -> None:
    con = households(missing=0.02)
    with pytest.raises(duckdb.InvalidInputException) as refused:
        published(con, "census", 5, "order")
    said = str(refused.value)
    assert "classes overlap, so fewer, of several records each, could have filled these" in said
    enough = re.search(r"Make it with method := 'mondrian', whose classes overlap least, or a larger k: (\d+) is", said)
    assert enough is not None
    assert 20 < int(enough[1]) < 30
    assert "A class that releases NULL of age may hold records with any value there" in said
    assert 'make it from a view of the records WHERE "age" IS NOT NULL.' in said
    with pytest.raises(duckdb.InvalidInputException, match="larger k"):
        published(con, "known", 5, "order")
    assert "is published" in published(con, "known", 20, "order")
    assert "is published" in published(households(missing=0.02), "census", int(enough[1]), "order")
    assert "is published" in published(households(missing=0.02), "census", 5, "mondrian")
