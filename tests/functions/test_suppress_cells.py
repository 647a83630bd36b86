"""k_anonymize(..., suppress_cells := true): each value as it is, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckanon

Row = tuple[int | None, str | None]


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    duckanon.register(found)
    return found


def partitions(items: Sequence[int], least: int) -> list[list[list[int]]]:
    """All ways to divide the items into sets of at least so many."""
    if not items:
        return [[]]
    found = []
    first, rest = items[0], items[1:]
    for chosen in range(1 << len(rest)):
        own = [first, *(one for place, one in enumerate(rest) if chosen >> place & 1)]
        if len(own) >= least:
            others = [one for one in rest if one not in own]
            found += [[own, *more] for more in partitions(others, least)]
    return found


def suppressed(rows: Sequence[Row]) -> int:
    """How many values of a class are lost."""
    return sum(len(rows) for values in zip(*rows, strict=True) if len(set(values)) > 1)


def made(con: duckdb.DuckDBPyConnection, rows: Sequence[Row], more: str) -> list[tuple[int, int | None, str | None]]:
    con.execute("CREATE OR REPLACE TABLE t (id INTEGER, a INTEGER, b VARCHAR)").fetchall()
    con.executemany("INSERT INTO t VALUES (?, ?, ?)", [[i, *row] for i, row in enumerate(rows)])
    return con.execute(f"SELECT id, a, b FROM k_anonymize('t', ['a', 'b'], suppress_cells := true, {more})").fetchall()


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 3), st.sampled_from("xyz")), min_size=4, max_size=7),
    st.integers(2, 3),
    st.sampled_from(["auto", "exact", "order", "mondrian"]),
)
def test_values_stay_or_go(con: duckdb.DuckDBPyConnection, rows: list[Row], k: int, method: str) -> None:
    """Beside all ways to divide the records into classes."""
    released = made(con, rows, f"k := {k}, method := '{method}'")
    assert sorted(one for one, *_ in released) == list(range(len(rows)))
    assert min(Counter(row[1:] for row in released).values()) >= k
    assert all(new in (None, old) for i, *values in released for new, old in zip(values, rows[i], strict=True))
    lost = sum(
        new is None and old is not None for i, *values in released for new, old in zip(values, rows[i], strict=True)
    )
    least = min(
        sum(suppressed([rows[i] for i in one]) for one in classes) for classes in partitions(range(len(rows)), k)
    )
    # (A NULL that was there before is not lost in SQL, but tells records apart until its class has no other value.)
    nulls = sum(a is None for a, _ in rows)
    assert lost >= least - nulls
    if method == "exact":
        assert lost <= least


def test_they_keep_name_and_type(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE people AS SELECT i AS id, DATE '2000-01-01' + i::INT % 3 AS born, [i % 2] AS tags, "
        "(i % 4)::DECIMAL(4, 1) AS pay FROM range(40) r(i)"
    ).fetchall()
    query = "FROM k_anonymize('people', ['born', 'pay'], k := 4, suppress_cells := true, drop := ['id'])"
    found = con.execute(f"SELECT column_name, column_type FROM (DESCRIBE {query})").fetchall()
    assert found == [("class_id", "BIGINT"), ("born", "DATE"), ("pay", "DECIMAL(4,1)"), ("tags", "BIGINT[]")]
    con.execute(f"CREATE OR REPLACE TABLE released AS {query}").fetchall()
    ((k,),) = con.execute("SELECT k FROM k_report('released', ['born', 'pay'])").fetchall()
    assert k >= 4


def test_units_conditions_and_outliers(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE stays AS SELECT i // 2 AS patient, CASE i WHEN 7 THEN 99 ELSE 30 + i % 3 END AS age, "
        "['flu', 'gout', 'ulcer'][1 + i % 3] AS illness, i % 5 AS ward FROM range(90) r(i)"
    ).fetchall()
    for more in ("unit := 'patient'", "sensitive := ['illness'], l := 2", "max_suppression := 0.02"):
        query = f"FROM k_anonymize('stays', ['age', 'ward'], k := 3, suppress_cells := true, {more})"
        con.execute(f"CREATE OR REPLACE TABLE released AS {query}").fetchall()
        measured = "FROM k_report('released', ['age', 'ward'], sensitive := ['illness']{})"
        unit = ", unit := 'patient'" if "unit" in more else ""
        ((k, l, n),) = con.execute(f"SELECT k, l, records {measured.format(unit)}").fetchall()  # noqa: E741 - the measure
        assert k >= 3
        assert l >= 2 or "l :=" not in more
        assert (n < 90) == ("max_suppression" in more)


def test_wildcards(con: duckdb.DuckDBPyConnection) -> None:
    """NULL may stand for any value: fewer are lost, and neither the order of rows nor a NULL from before matters."""
    con.execute(
        "CREATE OR REPLACE TABLE homes AS SELECT i AS id, "
        "CASE i WHEN 6 THEN 'clay' WHEN 9 THEN 'tin' ELSE ['brick', 'wood', NULL][1 + i % 3] END AS walls, "
        "CASE i WHEN 3 THEN 9 WHEN 4 THEN 8 ELSE i % 2 END AS water FROM range(30) r(i)"
    ).fetchall()
    original = con.execute("SELECT walls, water FROM homes ORDER BY id").fetchall()
    lost, released = [], []
    for word, table in (("true", "homes"), ("'wildcard'", "homes"), ("'wildcard'", "(FROM homes ORDER BY -id)")):
        con.execute(f"CREATE OR REPLACE VIEW ordered AS FROM {table}").fetchall()
        call = f"FROM k_anonymize('ordered', ['walls', 'water'], k := 3, suppress_cells := {word})"
        rows = con.execute(f"SELECT id, walls, water {call} ORDER BY id").fetchall()
        assert [row[0] for row in rows] == list(range(30))
        cells = [pair for row, own in zip(rows, original, strict=True) for pair in zip(row[1:], own, strict=True)]
        assert all(new in (None, old) for new, old in cells)
        lost.append(sum(new is None and old is not None for new, old in cells))
        released.append(rows)
    assert lost[1] == lost[2] < lost[0]
    assert released[1] == released[2]


def test_what_holds_by_matchings_alone_is_not_published() -> None:
    """publish counts a NULL as a value of its own, and one record shows what no other does."""
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("ATTACH ':memory:' AS x; USE x").fetchall()
        con.execute(
            "CREATE TABLE homes AS SELECT i AS id, 'brick' AS walls, "
            "CASE WHEN i < 3 THEN 'tap' ELSE 'well' END AS water FROM range(4) r(i)"
        ).fetchall()
        con.execute(
            "SELECT protect('homes', unit := 'id', epsilon := 1, quasi_identifiers := ['walls', 'water'], k := 3)"
        ).fetchall()
        con.execute(
            "CREATE TABLE released AS FROM k_anonymize('homes', ['walls', 'water'], k := 3, drop := ['id'], "
            "unit := '', suppress_cells := 'wildcard')"
        ).fetchall()
        assert con.execute("SELECT count(*) FROM released WHERE water IS NULL").fetchall() == [(3,)]
        with pytest.raises(duckdb.Error, match="released"):
            con.execute("SELECT publish('released')").fetchall()


def test_compare(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE OR REPLACE TABLE twos AS SELECT i // 2 AS a, 1 AS b FROM range(8) r(i)").fetchall()
    query = "SELECT k, information_loss FROM k_compare('twos', ['a', 'b'], k := [2, 4], methods := ['auto'], {})"
    assert con.execute(query.format("suppress_cells := true")).fetchall() == [(2, 0.0), (4, pytest.approx(0.5))]


@pytest.mark.parametrize("more", ["method := 'global'", "within := 'people'", "categorical := ['born']"])
def test_what_it_refuses(con: duckdb.DuckDBPyConnection, more: str) -> None:
    con.execute("CREATE OR REPLACE TABLE people AS SELECT 1 AS born FROM range(9)").fetchall()
    with pytest.raises(duckdb.Error, match=r"leave|name it in hierarchies"):
        con.execute(f"FROM k_anonymize('people', ['born'], suppress_cells := true, {more})").fetchall()
