"""What the audit lets out, against the list of all tables that fit it, for unions that join levels of one variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, islice, product
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from duckanon.catalog.policy import Policy
from duckanon.catalog.publication import Candidate, Earlier, Terms
from duckanon.engines.tables.truth import Records
from duckanon.errors import InvalidInput
from duckanon.functions.publication_audit import audit
from duckanon.functions.publication_tables import Joint
from tests.amounts import many

NAMES = ("race", "town", "ill")
LEVELS = (4, 2, 2)
CELLS = list(product(*map(range, LEVELS)))
Table = tuple[int, ...]
# Tables that are listed at most.
MOST = 5_000
Way = tuple[tuple[str, ...], tuple[str, ...]]
PAIRS: list[Way] = [(by, ()) for by in combinations(NAMES, 2)]
OTHERS: list[Way] = [
    *[((name,), ()) for name in NAMES],
    *[((one,), (other,)) for one in NAMES for other in NAMES if one != other],
]
# Little is published by others alone, so that too many tables fit.
WAYS = st.tuples(st.permutations(PAIRS), st.integers(2, 3), st.lists(st.sampled_from(OTHERS), max_size=2)).map(
    lambda drawn: [*drawn[0][: drawn[1]], *drawn[2]]
)
# One of those who are not white (0) in town 0 is ill: readers cannot tell of which race.
NOT_WHITE: dict[Table, int] = {
    (0, 0, 1): 3,
    (1, 0, 1): 1,
    (1, 0, 0): 1,
    (1, 1, 1): 1,
    (1, 1, 0): 1,
    (2, 0, 0): 2,
    (2, 1, 1): 2,
    (2, 1, 0): 1,
}


def policy(small: int, *, units: bool = False) -> Policy:
    return Policy(Fraction(1), public=NAMES, small=small, k=2, privacy_unit="u" if units else None)


def filled(counts: Table, each: int = 1) -> duckdb.DuckDBPyConnection:
    """Persons u by cell, with so many records each."""
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t ({', '.join(f'{name} INTEGER' for name in NAMES)}, u VARCHAR)").fetchall()
    for cell, count in zip(CELLS, counts, strict=True):
        con.execute(
            f"INSERT INTO t SELECT {', '.join(map(str, cell))}, '{cell} ' || p FROM range({count}) a(p), range({each})"
        ).fetchall()
    return con


def test_what_one_open_table_lists_together_is_known() -> None:
    """However its name is written. Of two variables that are looked up in one of its columns it says nothing."""
    table = ("main", "places")
    looked_up = {"a": (table, "x"), "b": (table, "y"), "c": (table, "x"), "d": (("main", "other"), "x")}
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS FROM range(2) r(a), range(2) s(b), range(2) t(c), range(2) u(d)").fetchall()
        columns = dict.fromkeys("abcd", "BIGINT")
        terms = Terms(tuple(columns), (), "v", None)
        asked = Candidate("made", "t", "made", "main.t", terms, columns, columns, policy(2), looked_up=looked_up)
        joint = Joint(con, asked, [terms])
        codes, counts, _ = joint._margin(range(4))
        assert joint._structure(Records((2, 2, 2, 2), codes, counts)) == [(0, 1), (1, 2)]


def accepted(con: duckdb.DuckDBPyConnection, ways: Sequence[Way], small: int, *, units: bool = False) -> list[Way]:
    """Those that are let out, one after the other."""
    out: list[Way] = []
    for variables, inside in ways:
        by = ", ".join((*inside, *variables))
        share = f" / sum(count(*)) OVER (PARTITION BY {', '.join(inside)})" if inside else ""
        con.execute(f"CREATE OR REPLACE TEMP TABLE made AS SELECT {by}, count(*){share} AS v FROM t GROUP BY {by}")
        columns = {name: kind for name, kind, *_ in con.execute("DESCRIBE made").fetchall()}
        source = {name: kind for name, kind, *_ in con.execute("DESCRIBE t").fetchall()}
        earlier = [
            Earlier(f"r{at}", "shares" if g else "counts", (*g, *v, "v"), v, g, None, None, f"{v}{g}", True, None)
            for at, (v, g) in enumerate(out)
        ]
        terms = Terms(variables, inside, "v", None)
        asked = Candidate(
            "made",
            "t",
            "made",
            "main.t",
            terms,
            columns,
            source,
            policy(small, units=units),
            False,
            earlier,
            content=f"{variables}{inside}",
        )
        try:
            audit(con, asked)
        except InvalidInput:
            continue
        out.append((variables, inside))
    return out


def sums(tables: Iterable[Any], by: Sequence[str]) -> dict[Table, Any]:
    """By some columns, from the counts of each cell: numbers, or arrays of those of many tables."""
    places = [NAMES.index(name) for name in by]
    found: dict[Table, Any] = {}
    for cell, count in zip(CELLS, tables, strict=True):
        key = tuple(cell[place] for place in places)
        found[key] = found.get(key, 0) + count
    return found


def same_shares(tables: np.ndarray, true: Table, way: Way) -> np.ndarray:
    """Which tables, of shape (tables, cells), have the true one's shares."""
    variables, inside = way
    cells, rows = (sums(tables.T, by) for by in ((*inside, *variables), inside))
    own, own_rows = (sums(true, by) for by in ((*inside, *variables), inside))
    same = np.ones(len(tables), dtype=bool)
    for cell, counts in cells.items():
        row = cell[: len(inside)]
        same &= ((counts > 0) == (own[cell] > 0)) & (counts * own_rows[row] == own[cell] * rows[row])
    return same


def consistent(true: Table, ways: Sequence[Way]) -> np.ndarray | None:
    """All tables of whole counts that fit everything published and the number of records; None for too many to list."""
    listed = np.array(list(islice(with_counts(true, ways), MOST + 1)))
    if len(listed) > MOST:
        return None
    for way in ways:
        if way[1]:
            listed = listed[same_shares(listed, true, way)]
    return listed


def with_counts(true: Table, ways: Sequence[Way]) -> Iterator[Table]:
    """All tables with the true one's number of records, and its counts by what is published as counts."""
    known = [by for by, inside in ways if not inside]
    margins = [(sums(true, by), [NAMES.index(name) for name in by]) for by in [*known, ()]]
    last = [{tuple(cell[v] for v in at): i for i, cell in enumerate(CELLS)} for _, at in margins]

    def place(i: int, table: Table) -> Iterator[Table]:
        if i == len(CELLS):
            yield table
            return
        keys = [tuple(CELLS[i][v] for v in at) for _, at in margins]
        most = min(left[key] for (left, _), key in zip(margins, keys, strict=True))
        least = max(left[key] if end[key] == i else 0 for (left, _), key, end in zip(margins, keys, last, strict=True))
        for count in range(least, most + 1):
            for (left, _), key in zip(margins, keys, strict=True):
                left[key] -= count
            yield from place(i + 1, (*table, count))
            for (left, _), key in zip(margins, keys, strict=True):
                left[key] += count

    yield from place(0, ())


Union = tuple[tuple[str, ...], str, tuple[int, ...]]


def told(true: Table, ways: Sequence[Way], small: int) -> list[Union] | None:
    """The unions of levels of one variable, single levels included, that are known to hold 1 to small - 1 records.

    None where too many tables fit to be listed.
    """
    possible = consistent(true, ways)
    if possible is None:
        return None
    assert len(possible)
    used = [name for name in NAMES if any(name in (*way[0], *way[1]) for way in ways)]
    found = []
    for by in [by for size in range(1, len(used) + 1) for by in combinations(used, size)]:
        for joined in by:
            others = [NAMES.index(name) for name in by if name != joined]
            at, size = NAMES.index(joined), LEVELS[NAMES.index(joined)]
            for union in [one for width in range(1, size) for one in combinations(range(size), width)]:
                for row in product(*(range(LEVELS[v]) for v in others)):
                    inside = [c[at] in union and tuple(c[v] for v in others) == row for c in CELLS]
                    counts = possible[:, inside].sum(axis=1)
                    if counts.min() > 0 and counts.max() < small:
                        found.append((by, joined, union))
    return found


def flat(cells: dict[Table, int]) -> Table:
    return tuple(cells.get(cell, 0) for cell in CELLS)


# The records of one race, by town and illness. Hardly a sum by one of both is 1, so that many tables may be published.
SLICES = [
    (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1), (1, 2, 2, 1), (0, 2, 2, 0), (2, 0, 0, 2), (1, 1, 2, 0),
    (0, 3, 0, 0), (2, 2, 0, 0), (0, 2, 0, 2), (2, 2, 2, 2), (0, 2, 1, 1),
]  # fmt: skip


def sliced(slices: Sequence[Table]) -> Table:
    """Cells are race by race."""
    return tuple(count for one in slices for count in one)


TABLES = st.lists(st.sampled_from(SLICES), min_size=LEVELS[0], max_size=LEVELS[0]).map(sliced).filter(any)


@settings(max_examples=many(120), deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(TABLES, WAYS, st.integers(2, 3))
def test_no_union_of_levels_of_one_variable_follows_from_what_is_let_out(
    counts: Table, ways: list[Way], small: int
) -> None:
    with filled(counts) as con:
        out = accepted(con, ways, small)
    found = told(counts, out, small) if out else None
    assume(found is not None)
    assert found == []


def test_that_one_of_those_who_are_not_white_is_ill_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = flat(NOT_WHITE)
    with filled(counts) as con:
        assert accepted(con, PAIRS, 2) == PAIRS[:2]
        # Single cells alone, as the audit once was, let it out.
        monkeypatch.setattr(Joint, "_unions", lambda *_: iter(()))
        assert accepted(con, PAIRS, 2) == PAIRS
    assert told(counts, PAIRS, 2) == [(NAMES, "race", (1, 2)), (NAMES, "race", (1, 2, 3))]


@pytest.mark.parametrize("each", [1, 2])
def test_the_units_of_a_union_are_persons(each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two records each, a person's two records follow from the tables, though they are as many as `small`."""
    with filled(flat(NOT_WHITE), each) as con:
        assert accepted(con, PAIRS, 2, units=True) == PAIRS[:2]
        # As records they are two, which are not few.
        assert accepted(con, PAIRS, 2) == (PAIRS[:2] if each == 1 else PAIRS)
        monkeypatch.setattr(Joint, "_unions", lambda *_: iter(()))
        assert accepted(con, PAIRS, 2, units=True) == PAIRS


@pytest.mark.long("that the enumeration finds a lost check: a test of the test")
def test_an_audit_of_single_cells_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the audit of unions refuses is told in truth, and is not everything."""
    random, slices = np.random.default_rng(5), list(dict.fromkeys(SLICES))
    caught = let_out = 0
    for _ in range(60):
        counts = sliced([slices[at] for at in random.choice(len(slices), LEVELS[0])])
        with filled(counts) as con:
            out = accepted(con, PAIRS, 2)
            with monkeypatch.context() as patch:
                patch.setattr(Joint, "_unions", lambda *_: iter(()))
                less = accepted(con, PAIRS, 2)
        let_out += len(out) == len(PAIRS)
        for at, way in enumerate(less):
            if way not in out:
                found = told(counts, less[: at + 1], 2)
                assert found is None or found
                caught += bool(found)
                break
    assert caught
    assert let_out
