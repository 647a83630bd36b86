"""table_designs through SQL: each design against disclosure_report, narrowing, merging, order, progress."""

import duckdb
import pytest

import duckanon


@pytest.fixture
def people(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE people AS SELECT hash(i) % 3 AS a, hash(i + 1000) % 4 AS b, "
        "CASE hash(i + 2000) % 3 WHEN 0 THEN NULL ELSE 'v' || hash(i + 3000) % 2 END AS c, "
        "(hash(i + 4000) % 2)::BOOLEAN AS d FROM range(300) r(i)"
    ).fetchall()
    return con


REPORT = (
    "n, row_count, col_count, zero_rows, unit_rows, disclosed_rows, zero_cells, disclosed_small_cells, reduced_total"
)


def test_every_design_is_what_disclosure_report_says(people: duckdb.DuckDBPyConnection) -> None:
    found = people.execute(
        f"SELECT rows, cols, omitted, {REPORT}, merged FROM table_designs('people', ['a', 'b', 'c', 'd'])"
    ).fetchall()
    # Each variable in one of three roles, but rows and columns never empty.
    assert len(found) == 3**4 - 2 * 2**4 + 1
    assert len({(tuple(one[0]), tuple(one[1])) for one in found}) == len(found)
    for rows, cols, omitted, *report, merged in found:
        assert sorted([*rows, *cols, *omitted]) == ["a", "b", "c", "d"]
        assert merged == []
        (expected,) = people.execute(f"SELECT {REPORT} FROM disclosure_report('people', {rows}, {cols})").fetchall()
        assert tuple(report) == expected


def test_counted_cells_give_the_same(people: duckdb.DuckDBPyConnection) -> None:
    people.execute("CREATE TABLE counted AS SELECT a, b, c, d, count(*) AS n FROM people GROUP BY ALL").fetchall()
    variables = "['a', 'b', 'c', 'd']"
    expected = people.execute(f"FROM table_designs('people', {variables})").fetchall()
    assert people.execute(f"FROM table_designs('counted', {variables}, count := 'n')").fetchall() == expected


def test_safest_and_most_useful_first(people: duckdb.DuckDBPyConnection) -> None:
    found = people.execute(
        "SELECT disclosed_small_cells, round(information, 12), disclosed_rows, zero_cells, round(dependence, 12) "
        "FROM table_designs('people', ['a', 'b', 'c', 'd'])"
    ).fetchall()
    keys = [(small, -info, rows, zeros, -bits) for small, info, rows, zeros, bits in found]
    assert keys == sorted(keys)
    assert all(0 <= one[1] <= 1 for one in found)


def test_narrowing(people: duckdb.DuckDBPyConnection) -> None:
    found = people.execute(
        "SELECT rows, cols FROM table_designs('people', ['a', 'b', 'c', 'd'], fixed_rows := ['A'], "
        "fixed_cols := ['d'], max_cols := 2)"
    ).fetchall()
    assert len(found) == 8
    assert all("a" in rows and "d" in cols and len(cols) <= 2 for rows, cols in found)


def test_merging_neighbours(people: duckdb.DuckDBPyConnection) -> None:
    """Each merged design is what disclosure_report says of a table that is merged by hand."""
    found = people.execute(
        f"SELECT rows, cols, {REPORT}, merged FROM table_designs('people', ['a', 'b', 'd'], merge := ['b', 'c'][:1])"
    ).fetchall()
    # b's 4 values in groups of neighbours: 7 ways with two groups or more, one of them unmerged.
    with_b = sum("b" in [*one[0], *one[1]] for one in found)
    assert with_b == 7 * (12 - 2)
    assert len(found) == with_b + 2
    for rows, cols, *report, merged in found:
        for one in merged:
            starts = one["first_values"]
            assert one["variable"] == "b"
            assert starts[0] == "0"
            group = f"len(list_filter({[int(x) for x in starts]}, lambda x: x <= b))"
            people.execute(f"CREATE OR REPLACE TEMP TABLE merged AS SELECT a, {group} AS b, d FROM people").fetchall()
            (expected,) = people.execute(f"SELECT {REPORT} FROM disclosure_report('merged', {rows}, {cols})").fetchall()
            assert tuple(report) == expected


def test_progress_is_told() -> None:
    told: list[tuple[str, float]] = []
    with duckdb.connect() as con:
        duckanon.register(con, progress=lambda step, share: told.append((step, share)))
        con.execute("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b, i % 5 AS c FROM range(90) r(i)").fetchall()
        con.execute("FROM table_designs('t', ['a', 'b', 'c'])").fetchall()
    assert {step for step, _ in told} == {"table_designs"}
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert told[-1][1] == 1.0


def test_too_many_designs_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    columns = ", ".join(f"i % 2 AS v{j}" for j in range(14))
    con.execute(f"CREATE TABLE wide AS SELECT {columns} FROM range(4) r(i)").fetchall()
    with pytest.raises(
        duckdb.InvalidInputException, match=r"^Invalid Input Error: There are 4750202 designs, more than"
    ):
        con.execute(f"FROM table_designs('wide', {[f'v{j}' for j in range(14)]})").fetchall()
