"""Which cells shares disclose, against the list of all tables that have them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from duckanon.errors import InvalidInput
from duckanon.functions import shares
from duckanon.functions.shares import Published, disclosed, nearest
from tests.amounts import many

Table = dict[tuple[int, int], int]
TABLES = st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(1, 6), min_size=1, max_size=6)


def filled(table: Table, by: str = "s, e") -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"CREATE TABLE t AS SELECT NULL::INT AS {by.replace(', ', ', NULL::INT AS ')} WHERE false").fetchall()
    for key, count in table.items():
        con.execute(f"INSERT INTO t SELECT {', '.join(map(str, key))} FROM range({count})").fetchall()
    return con


def totals(rows: int, n: int) -> Iterator[tuple[int, ...]]:
    for chosen in product(range(1, n + 1), repeat=rows - 1):
        if sum(chosen) < n:
            yield (*chosen, n - sum(chosen))


def half_up(count: int, total: int, digits: int) -> int:
    return int(Fraction(2 * count * 10**digits + total, 2 * total) // 1)


def all_counts(table: Table, digits: int | None) -> dict[tuple[int, int], set[int]]:
    """Every count that each cell has in some table with the same shares, sample size and cells."""
    rows = sorted({row for row, _ in table})
    whole = {row: sum(n for (one, _), n in table.items() if one == row) for row in rows}
    seen: dict[tuple[int, int], set[int]] = {cell: set() for cell in table}
    for chosen in totals(len(rows), sum(table.values())):
        found: dict[tuple[int, int], set[int]] = {}
        for row, total in zip(rows, chosen, strict=True):
            cells = [cell for cell in table if cell[0] == row]
            options = []
            for counts in product(range(1, total + 1), repeat=len(cells)):
                same = all(
                    Fraction(count, total) == Fraction(table[cell], whole[row])
                    if digits is None
                    else half_up(count, total, digits) == half_up(table[cell], whole[row], digits)
                    for cell, count in zip(cells, counts, strict=True)
                )
                if same and sum(counts) == total:
                    options.append(counts)
            found |= {cell: {one[at] for one in options} for at, cell in enumerate(cells)}
        if all(found.values()):
            for cell, counts in found.items():
                seen[cell] |= counts
    return seen


def expected(table: Table, small: int, digits: int | None) -> int:
    alone = {row for row, _ in table if sum(1 for one, _ in table if one == row) == 1}
    told = 0
    for cell, counts in all_counts(table, digits).items():
        known = len(counts) == 1 or max(counts) < small
        told += table[cell] < small and (known or cell[0] in alone)
    return told


@settings(max_examples=many(60), deadline=None)
@given(TABLES, st.integers(1, 6), st.sampled_from([None, 0, 1, 2]))
def test_agrees_with_all_tables(table: Table, small: int, digits: int | None) -> None:
    while sum(table.values()) > 14:
        table.popitem()
    with filled(table) as con:
        found = disclosed(con, Published("t", ["s"], ["e"], digits=digits, small=small))
    assert found == expected(table, small, digits)


@settings(max_examples=many(30), deadline=None)
@given(TABLES, st.integers(1, 6), st.sampled_from([None, 1]))
def test_one_share_of_each_row(table: Table, small: int, digits: int | None) -> None:
    """A share of records with e = 1: a row that has none of them, or only them, is shown as well."""
    with filled(table) as con:
        found = disclosed(con, Published("t", ["s"], [], [("", '("e" = 1)')], digits=digits, small=small))
        exact = disclosed(con, Published("t", ["s"], [], [("", '("e" = 1)')], small=small))
        two = filled({(s, int(e == 1)): 0 for s, e in table}, "s, e")
        for (s, e), n in table.items():
            two.execute(f"INSERT INTO t SELECT {s}, {int(e == 1)} FROM range({n})").fetchall()
        assert exact == disclosed(two, Published("t", ["s"], ["e"], small=small))
    assert found <= exact


@settings(max_examples=many(40), deadline=None)
@given(
    st.dictionaries(st.tuples(*[st.integers(0, 1)] * 3), st.integers(1, 5), min_size=2, max_size=6), st.integers(2, 6)
)
def test_two_tables_of_the_same_rows(table: dict[tuple[int, int, int], int], small: int) -> None:
    """If the second is let out after the first, no small cell of either follows from both."""
    one, other = (
        {
            key: sum(n for cell, n in table.items() if (cell[0], cell[at]) == key)
            for key in {(c[0], c[at]) for c in table}
        }
        for at in (1, 2)
    )
    with filled(table, "s, e, f") as con:
        if disclosed(con, Published("t", ["s"], ["f"], small=small), ['"e"']):
            return
    rows, n = sorted({row for row, *_ in table}), sum(table.values())
    whole = {row: sum(n for (first, *_), n in table.items() if first == row) for row in rows}
    seen: dict[tuple[int, tuple[int, int]], set[int]] = {}
    for chosen in totals(len(rows), n):
        scale = {row: Fraction(total, whole[row]) for row, total in zip(rows, chosen, strict=True)}
        cells = {
            (at, cell): count * scale[cell[0]] for at, each in enumerate((one, other)) for cell, count in each.items()
        }
        if all(count.denominator == 1 for count in cells.values()):
            for cell, count in cells.items():
                seen.setdefault(cell, set()).add(int(count))
    for (at, cell), counts in seen.items():
        if (one, other)[at][cell] < small:
            assert len(counts) > 1
            assert max(counts) >= small


def test_units_count_and_not_records() -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT s, e, u FROM range(40), "
            "(VALUES (0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 1, 4)) v(s, e, u)"
        ).fetchall()
        assert disclosed(con, Published("t", [], ["e"])) == 0
        assert disclosed(con, Published("t", [], ["e"], unit="u")) == 2
        assert disclosed(con, Published("t", ["s"], ["e"], linkable=['"s"', '"e"'], unit="u", k=2, small=1)) == 4
        assert disclosed(con, Published("t", ["s"], ["e"], linkable=['"s"'], unit="u", k=2, small=1)) == 0
        con.execute("UPDATE t SET u = NULL").fetchall()
        assert disclosed(con, Published("t", [], ["e"], unit="u")) == 2


def test_the_nearest_safe_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    with filled({(0, 0): 3, (0, 1): 4, (1, 0): 70, (1, 1): 71}) as con:
        duckanon.register(con)
        asked = Published("t", ["s"], ["e"], small=4)
        assert disclosed(con, asked)
        for rows, cols, digits in nearest(con, asked, []):
            assert not disclosed(con, Published("t", rows, cols, digits=digits, small=4))
        assert nearest(con, asked, []) != []
        monkeypatch.setattr(shares, "_MOST", 2)
        with pytest.raises(InvalidInput, match="more than 2 cells"):
            disclosed(con, asked)


def test_no_records_no_cells() -> None:
    with filled({}) as con:
        assert disclosed(con, Published("t", ["s"], ["e"])) == 0
