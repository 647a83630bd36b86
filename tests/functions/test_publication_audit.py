"""What the audit lets out, against the list of all tables that fit everything that was published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Earlier, Terms
from duckanon.errors import InvalidInput
from duckanon.functions import publication_audit
from duckanon.functions.publication_audit import audit
from tests.amounts import many

NAMES = ("s", "e", "f")
CELLS = list(product((0, 1), repeat=3))
SMALL = 3
PUBLIC = Policy(Fraction(1), public=NAMES, small=SMALL, k=2)
# How a table is published: variables, given, decimals.
Way = tuple[tuple[str, ...], tuple[str, ...], int | None]
WAYS: list[Way] = [
    (variables, given, digits)
    for size in (1, 2, 3)
    for chosen in combinations(NAMES, size)
    for inside in range(size)
    for given in combinations(chosen, inside)
    for variables in [tuple(one for one in chosen if one not in given)]
    for digits in ([None, 1] if given else [None])
]


def filled(counts: Sequence[int]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("CREATE TABLE t (s INTEGER, e INTEGER, f INTEGER, u INTEGER)").fetchall()
    for cell, count in zip(CELLS, counts, strict=True):
        con.execute(f"INSERT INTO t SELECT {', '.join(map(str, cell))}, i FROM range({count}) r(i)").fetchall()
    return con


def candidate(
    con: duckdb.DuckDBPyConnection,
    way: Way,
    earlier: Sequence[Earlier] = (),
    policy: Policy = PUBLIC,
    *,
    totals: bool = False,
) -> Candidate:
    """The release that a steward would make, in a temporary table."""
    variables, given, digits = way
    number = "count(*)"
    if given:
        number = f"count(*) / sum(count(*)) OVER (PARTITION BY {', '.join(given)})"
    if digits is not None:
        number = f"round({number}, {digits})"
    by = ", ".join((*given, *variables))
    con.execute(f"CREATE OR REPLACE TEMP TABLE made AS SELECT {by}, {number} AS v FROM t GROUP BY {by}").fetchall()
    columns = {name: kind for name, kind, *_ in con.execute("DESCRIBE made").fetchall()}
    source = {name: kind for name, kind, *_ in con.execute("DESCRIBE t").fetchall()}
    terms = Terms(variables, given, "v", digits)
    return Candidate("made", "t", "made", "main.t", terms, columns, source, policy, totals, earlier, content=f"{way}")


def published(way: Way, at: int) -> Earlier:
    variables, given, digits = way
    kind = "shares" if given else "counts"
    return Earlier(f"r{at}", kind, (*given, *variables, "v"), variables, given, digits, None, f"{way}", True, None)


def accepted(con: duckdb.DuckDBPyConnection, ways: Sequence[Way], policy: Policy = PUBLIC) -> list[Way]:
    """Those that are let out, one after the other."""
    out: list[Way] = []
    for way in ways:
        try:
            audit(con, candidate(con, way, [published(one, at) for at, one in enumerate(out)], policy))
        except InvalidInput:
            continue
        out.append(way)
    return out


def compositions(total: int, parts: int) -> np.ndarray:
    """All ways to write a number as so many numbers from 0 up."""
    if parts == 1:
        return np.array([[total]])
    found = []
    for first in range(total + 1):
        rest = compositions(total - first, parts - 1)
        found.append(np.hstack([np.full((len(rest), 1), first), rest]))
    return np.vstack(found)


def summed(tables: np.ndarray, by: Sequence[str]) -> dict[tuple[int, ...], np.ndarray]:
    """The counts of every table in `tables`, shape (tables, 8), by some columns."""
    places = [NAMES.index(name) for name in by]
    found: dict[tuple[int, ...], np.ndarray] = {}
    for at, cell in enumerate(CELLS):
        key = tuple(cell[place] for place in places)
        found[key] = found.get(key, 0) + tables[:, at]
    return found


def fits(tables: np.ndarray, true: np.ndarray, way: Way) -> np.ndarray:
    """Which tables give the same release as the true one."""
    variables, given, digits = way
    all_, own = summed(tables, (*given, *variables)), summed(true, (*given, *variables))
    same = np.ones(len(tables), dtype=bool)
    if not given:
        for key, count in all_.items():
            same &= count == own[key]
        return same
    rows, own_rows = summed(tables, given), summed(true, given)
    for key, count in all_.items():
        row, n, m = rows[key[: len(given)]], int(own[key][0]), int(own_rows[key[: len(given)]][0])
        # A cell is shown where it holds a record.
        same &= (count > 0) == (n > 0)
        if digits is None:
            same &= count * m == n * row
        elif m:
            scale = 10**digits
            with np.errstate(divide="ignore"):
                same &= (2 * count * scale + row) // np.maximum(2 * row, 1) == (2 * n * scale + m) // (2 * m)
    return same


def told(counts: Sequence[int], ways: Sequence[Way]) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The small cells, by any of the columns published, whose count follows, or that they are small."""
    true = np.array([counts])
    tables = compositions(sum(counts), len(CELLS))
    for way in ways:
        tables = tables[fits(tables, true, way)]
    assert len(tables)
    used = [name for name in NAMES if any(name in (*way[0], *way[1]) for way in ways)]
    for size in range(1, len(used) + 1):
        for by in combinations(used, size):
            own = summed(true, by)
            for key, count in summed(tables, by).items():
                if 0 < own[key][0] < SMALL and count.min() > 0 and count.max() < SMALL:
                    yield by, key


TABLES = st.lists(st.sampled_from([0, 0, 1, 2, 3, 4]), min_size=8, max_size=8).filter(lambda one: 0 < sum(one) <= 10)


@settings(max_examples=many(150), deadline=None)
@given(TABLES, st.lists(st.sampled_from(WAYS), min_size=1, max_size=4))
def test_no_small_cell_follows_from_all_that_is_let_out(counts: list[int], ways: list[Way]) -> None:
    with filled(counts) as con:
        out = accepted(con, ways)
    if out:
        assert not list(told(counts, out))


def test_something_is_let_out_together() -> None:
    """The test above would hold for an audit that refuses everything."""
    with filled([3, 3, 4, 0, 0, 0, 0, 3]) as con:
        ways: list[Way] = [(("e",), ("s",), None), (("f",), ("s",), None), (("e", "f"), (), None)]
        assert accepted(con, ways) == ways
    shares: Way = (("e",), ("s",), None)
    with filled([1, 0, 1, 0, 4, 0, 4, 0]) as con:
        assert accepted(con, [(("s", "e"), (), None)]) == []
        ways = [shares, (("e",), (), None), (("e",), ("s",), 1)]
        assert accepted(con, ways) == ways
        assert accepted(con, [*ways, (("s",), (), None)]) == ways
        with pytest.raises(InvalidInput, match="2 of the 4 cells hold 1 to 2 records"):
            audit(con, candidate(con, shares, totals=True))


def expected(counts: Sequence[int], way: Way) -> int:
    """How many small cells of one table of shares follow, or are known to be small, or are all of their row."""
    variables, given, _ = way
    true = np.array([counts])
    tables = compositions(sum(counts), len(CELLS))
    tables = tables[fits(tables, true, way)]
    own, rows = summed(true, (*given, *variables)), summed(true, given)
    found = 0
    for key, all_ in summed(tables, (*given, *variables)).items():
        n = int(own[key][0])
        known = all_.min() == all_.max() or (all_.min() > 0 and all_.max() < SMALL)
        found += 0 < n < SMALL and bool(known or n == rows[key[: len(given)]][0])
    return found


@settings(max_examples=many(150), deadline=None)
@given(TABLES, st.sampled_from([way for way in WAYS if way[1]]))
def test_shares_are_refused_for_the_cells_that_follow_and_no_others(counts: list[int], way: Way) -> None:
    few = expected(counts, way)
    with filled(counts) as con:
        if not few:
            audit(con, candidate(con, way))
            return
        with pytest.raises(InvalidInput, match=rf"not published: of {few} of its \d+ cells"):
            audit(con, candidate(con, way))


@pytest.mark.long("that the enumeration finds a lost check: a test of the test")
@pytest.mark.parametrize("lost", ["_check_together", "_shares_problems", "counts_problems"])
def test_an_audit_that_forgets_a_check_is_caught(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication_audit, lost, lambda *_, **__: [])
    random = np.random.default_rng(7)
    for _ in range(300):
        counts = random.choice([0, 0, 1, 2, 3, 4], 8).tolist()
        ways = [WAYS[at] for at in random.choice(len(WAYS), 3)]
        if not 0 < sum(counts) <= 10:
            continue
        with filled(counts) as con:
            out = accepted(con, ways)
        if out and any(True for _ in told(counts, out)):
            return
    raise AssertionError("The enumeration found nothing: it cannot fail.")


# --- k-anonymous tables -----------------------------------------------------------------------------------------------

# Records as (person, age, town), with NULLs in each; and which class each is released in, or none.
RECORDS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2]),
        st.sampled_from([None, 1, 2, 3]),
        st.sampled_from([None, "a", "b"]),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=7,
)
Cell = tuple[int | None, int | None, tuple[str, ...] | None]


def cell(members: list[tuple[int | None, int | None, str | None, int]]) -> Cell:
    ages, towns = [one[1] for one in members], [one[2] for one in members]
    known = [age for age in ages if age is not None]
    low, high = (min(known), max(known)) if len(known) == len(ages) else (None, None)
    names = tuple(sorted({town for town in towns if town is not None}))
    return low, high, None if None in towns else names


def inside(record: tuple[int | None, int | None, str | None, int], released: Cell) -> bool:
    _, age, town, _ = record
    low, high, names = released
    if low is not None and high is not None and (age is None or not low <= age <= high):
        return False
    return names is None or town in names


@settings(max_examples=many(100), deadline=None)
@given(RECORDS, st.integers(2, 3), st.booleans())
def test_a_class_holds_as_many_units_as_in_the_worst_case(
    records: list[tuple[int | None, int | None, str | None, int]], k: int, persons: bool
) -> None:
    """Of all sets of records that could be a class, the one with the fewest persons counts."""
    classes: dict[int, Cell] = {}
    for label in {one[3] for one in records}:
        classes[label] = cell([one for one in records if one[3] == label])
    rows = [classes[one[3]] for one in records]
    fewest = min(
        min(
            len({one[0] for one in chosen}) if persons else len(chosen)
            for chosen in combinations([one for one in records if inside(one, released)], rows.count(released))
        )
        for released in rows
    )
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (person INTEGER, age INTEGER, town VARCHAR)").fetchall()
        con.execute("CREATE TABLE r (age_lo INTEGER, age_hi INTEGER, town_set VARCHAR[])").fetchall()
        for person, age, town, _ in records:
            con.execute("INSERT INTO t VALUES (?, ?, ?)", [person, age, town]).fetchall()
        for low, high, names in rows:
            con.execute(
                "INSERT INTO r VALUES (?, ?, ?)", [low, high, None if names is None else list(names)]
            ).fetchall()
        policy = Policy(Fraction(1), quasi_identifiers=("age", "town"), k=k, privacy_unit="person" if persons else None)
        types = {name: kind for name, kind, *_ in con.execute("DESCRIBE r").fetchall()}
        source = {name: kind for name, kind, *_ in con.execute("DESCRIBE t").fetchall()}
        asked = Candidate("r", "t", "r", "main.t", Terms(), types, source, policy)
        if fewest < k:
            with pytest.raises(InvalidInput, match="not proven to hold"):
                audit(con, asked)
        else:
            audit(con, asked)


def contains(outer: Cell, inner: Cell) -> bool:
    low, high, _ = outer
    if low is None or high is None:
        return outer[2] is None or (inner[2] is not None and set(inner[2]) <= set(outer[2]))
    if inner[0] is None or inner[1] is None or not low <= inner[0] <= inner[1] <= high:
        return False
    return outer[2] is None or (inner[2] is not None and set(inner[2]) <= set(outer[2]))


@settings(max_examples=many(150), deadline=None)
@given(
    RECORDS,
    st.lists(st.integers(0, 2), min_size=3, max_size=3),
    st.lists(st.integers(0, 1), min_size=7, max_size=7),
    st.booleans(),
)
def test_a_second_copy_follows_from_the_first_by_one_map(
    records: list[tuple[int | None, int | None, str | None, int]], joined: list[int], other: list[int], coarser: bool
) -> None:
    """The person stands for a sensitive value here."""
    labels = [joined[one[3]] for one in records] if coarser else other[: len(records)]
    first = {label: cell([one for one in records if one[3] == label]) for label in {one[3] for one in records}}
    second = {
        label: cell([one for one, own in zip(records, labels, strict=True) if own == label]) for label in set(labels)
    }
    old = [(first[one[3]], one[0]) for one in records]
    new = [(second[label], one[0]) for one, label in zip(records, labels, strict=True)]
    outer = {inner: [one for one in set(second.values()) if contains(one, inner)] for inner in first.values()}
    proven = all(len(found) == 1 for found in outer.values()) and Counter(new) == Counter(
        (outer[inner][0], value) for inner, value in old
    )
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (age INTEGER, town VARCHAR, value INTEGER)").fetchall()
        for value, age, town, _ in records:
            con.execute("INSERT INTO t VALUES (?, ?, ?)", [age, town, value]).fetchall()
        for name, rows in (("r1", old), ("r2", new)):
            con.execute(f"CREATE TABLE {name} (age_lo INTEGER, age_hi INTEGER, town_set VARCHAR[], value INTEGER)")
            for (low, high, names), value in rows:
                con.execute(
                    f"INSERT INTO {name} VALUES (?, ?, ?, ?)",
                    [low, high, None if names is None else list(names), value],
                ).fetchall()
        policy = Policy(Fraction(1), quasi_identifiers=("age", "town"), sensitive=("value",), k=1)
        types = {name: kind for name, kind, *_ in con.execute("DESCRIBE r2").fetchall()}
        source = {name: kind for name, kind, *_ in con.execute("DESCRIBE t").fetchall()}
        earlier = Earlier("r1", "records", tuple(types), (), (), None, None, "old", True, "r1")
        asked = Candidate("r2", "t", "r2", "main.t", Terms(), types, source, policy, earlier=[earlier], content="new")
        if proven:
            audit(con, asked)
        else:
            with pytest.raises(InvalidInput, match="published already"):
                audit(con, asked)
