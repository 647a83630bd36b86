"""The cell-bound functions through SQL: the paper's tables, types, NULL, facts, streams, and every mistake."""

import re
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings

from tests.amounts import many
from tests.engines.cells import plain
from tests.engines.cells.strategies import tables

QUERIES = Path(__file__).parents[2] / "sql" / "queries"
PREFIX = "Invalid Input Error: "
ARTIFICIAL = "('A','a',3),('A','b',4),('B','a',5),('B','b',3),('C','a',6),('C','b',9),('D','a',10),('D','b',8)"


@pytest.fixture
def table(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(f"CREATE TABLE t AS FROM (VALUES {ARTIFICIAL}) v(r, c, n)").fetchall()
    return con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple]:
    return con.execute(query).fetchall()


BOUNDS = [(3, 9, 2), (4, 12, 2), (5, 5, 1), (3, 3, 1), (4, 6, 2), (6, 9, 2), (5, 10, 2), (4, 8, 2)]


def test_cell_bounds(table: duckdb.DuckDBPyConnection) -> None:
    found = rows(table, "FROM cell_bounds('t', ['r'], ['c'], count := 'n')")
    assert [one[3:6] for one in found] == BOUNDS
    assert [one[6] for one in found] == [low == high for low, high, _ in BOUNDS]
    described = rows(table, "DESCRIBE FROM cell_bounds('t', ['r'], ['c'], count := 'n')")
    assert [one[0] for one in described] == ["r", "c", "n", "lower", "upper", "feasible", "disclosed"]
    assert [one[1] for one in described] == ["VARCHAR", "VARCHAR", *["BIGINT"] * 4, "BOOLEAN"]


def test_microdata_and_counts_agree(table: duckdb.DuckDBPyConnection) -> None:
    table.execute("CREATE TABLE people AS SELECT r, c FROM t, LATERAL unnest(range(n))").fetchall()
    for function in ("cell_bounds", "cell_values", "disclosure_report"):
        counted = rows(table, f"FROM {function}('t', ['r'], ['c'], count := 'n') ORDER BY ALL")
        assert rows(table, f"FROM {function}('people', ['r'], ['c']) ORDER BY ALL") == counted
    twice = rows(table, "FROM (FROM t UNION ALL FROM t)")
    assert len(twice) == 16
    table.execute("CREATE TABLE halves AS (SELECT r, c, 1 AS n FROM t UNION ALL SELECT r, c, n - 1 FROM t)").fetchall()
    assert rows(table, "FROM cell_bounds('halves', ['r'], ['c'], count := 'n')") == rows(
        table, "FROM cell_bounds('t', ['r'], ['c'], count := 'n')"
    )


def test_cell_values(table: duckdb.DuckDBPyConnection) -> None:
    found = rows(table, "FROM cell_values('t', ['r'], ['c'], count := 'n') WHERE r = 'A' ORDER BY ALL")
    assert found == [("A", "a", 3), ("A", "a", 9), ("A", "b", 4), ("A", "b", 12)]


def test_values_are_streamed(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET memory_limit = '500MB'; SET temp_directory = ''").fetchall()
    con.execute(
        "CREATE TABLE huge AS FROM (VALUES (1, 'a', 400000000000), (1, 'b', 600000000000), (2, 'a', 7)) v(r, c, n)"
    )
    start = time.perf_counter()
    found = rows(con, "FROM cell_values('huge', ['r'], ['c'], count := 'n') LIMIT 3")
    assert len(found) == 3
    # Listing all 10^11 values would take far longer, on any machine.
    assert time.perf_counter() - start < 60
    ((count, least, most),) = rows(
        con,
        "SELECT feasible, lower, upper FROM cell_bounds('huge', ['r'], ['c'], count := 'n') WHERE r = 2 AND c = 'a'",
    )
    assert (least, most) == (2, 10**12 + 7 - 5)
    assert count == (most - least) // 5 + 1


def test_types_null_and_zero(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE odd AS SELECT "
        "CASE i % 3 WHEN 0 THEN NULL ELSE DATE '2020-01-01' + (i % 3)::INTEGER END AS \"day of\", "
        '[i % 2] AS l, {\'x\': i % 2} AS s, i % 4 AS "a""b" FROM range(60) r(i)'
    ).fetchall()
    found = rows(con, "FROM cell_bounds('odd', ['day of', 'L'], ['s', 'a\"b'])")
    assert len(found) == 6 * 8
    assert found[-1][0] is None
    assert all(one[5] <= one[4] <= one[6] for one in found)
    assert all(one[5:] == (0, 0, 1, True) for one in found if one[4] == 0)
    described = rows(con, "DESCRIBE FROM cell_bounds('odd', ['day of', 'L'], ['s', 'a\"b'])")
    assert [one[0] for one in described[:4]] == ["day of", "L", "s", 'a"b']
    assert described[0][1] == "DATE"
    ((n, row_count, col_count, zero_rows, zero_cells),) = rows(
        con,
        "SELECT n, row_count, col_count, zero_rows, zero_cells "
        "FROM disclosure_report('odd', ['day of', 'l'], ['s', 'a\"b'])",
    )
    assert (n, row_count, col_count, zero_rows) == (60, 6, 8, 0)
    assert zero_cells == sum(one[4] == 0 for one in found)


def test_tables_may_have_the_names_our_queries_use(table: duckdb.DuckDBPyConnection) -> None:
    """DuckDB 1.4 takes a name for our common table expression, not for the user's table."""
    queries = "".join(file.read_text(encoding="utf-8") for file in QUERIES.glob("*.sql"))
    ours = set(re.findall(r"^(?:WITH |, )?(\w+) AS (?:MATERIALIZED )?\(", queries, re.MULTILINE))
    assert "_dk_cells" in ours
    assert all(name.startswith("_dk_") for name in ours)
    table.execute("CREATE TABLE p AS SELECT r, c, n / sum(n) OVER (PARTITION BY r) AS p FROM t").fetchall()
    table.execute("CREATE TABLE f AS SELECT r, c, 0 AS lower, 40 AS upper FROM t").fetchall()
    for name in ("cells", "counted", "facts", "found", "known", "every", "answer"):
        for copy, call in (
            ("t", f"cell_bounds('{name}', ['r'], ['c'], count := 'n')"),
            ("f", f"cell_bounds('t', ['r'], ['c'], count := 'n', known := '{name}')"),
            ("t", f"cell_values('{name}', ['r'], ['c'], count := 'n')"),
            ("t", f"disclosure_report('{name}', ['r'], ['c'], count := 'n')"),
            ("t", f"table_designs('{name}', ['r', 'c'], count := 'n', merge := ['r'])"),
            ("p", f"conditional_bounds('{name}', ['r'], ['c'], 'p', 48)"),
        ):
            table.execute(f"CREATE OR REPLACE TABLE {name} AS FROM {copy}").fetchall()
            assert rows(table, f"FROM {call}")


def test_more_places_than_a_number_can_count(con: duckdb.DuckDBPyConnection) -> None:
    names = [f"v{i}" for i in range(16)]
    con.execute("CREATE TABLE t AS FROM range(8)").fetchall()
    columns = ", ".join(f"i AS {name}" for name in names)
    con.execute(f"CREATE TABLE wide AS SELECT {columns} FROM range(300) r(i)").fetchall()
    said = sentence(con, f"FROM disclosure_report('wide', {names[1:]}, {names[:1]})")
    assert said == "There are more than 10^38 combinations of values: name fewer columns, or coarsen them."
    said = sentence(con, f"FROM table_designs('wide', {names}, fixed_rows := {names[1:]})")
    assert said == "There are more than 10^38 combinations of values: name fewer variables, or coarsen them."
    con.execute(f"CREATE OR REPLACE TABLE wide AS SELECT {columns} FROM range(200) r(i)").fetchall()
    found = rows(con, f"SELECT row_count, zero_rows FROM disclosure_report('wide', {names[1:]}, {names[:1]})")
    assert found == [(200**15, 200**15 - 200)]


def test_rows_of_zeros_have_no_bounds(table: duckdb.DuckDBPyConnection) -> None:
    table.execute("INSERT INTO t VALUES ('E', 'a', 0), ('E', 'b', 0)").fetchall()
    assert len(rows(table, "FROM cell_bounds('t', ['r'], ['c'], count := 'n')")) == 8
    ((row_count, zero_rows),) = rows(
        table, "SELECT row_count, zero_rows FROM disclosure_report('t', ['r'], ['c'], count := 'n')"
    )
    assert (row_count, zero_rows) == (5, 1)


def test_disclosure_report(table: duckdb.DuckDBPyConnection) -> None:
    names = [one[0] for one in rows(table, "DESCRIBE FROM disclosure_report('t', ['r'], ['c'], count := 'n')")]
    assert names == [
        "n",
        "row_count",
        "col_count",
        "zero_rows",
        "unit_rows",
        "disclosed_rows",
        "zero_cells",
        "disclosed_small_cells",
        "reduced_total",
    ]
    report = "FROM disclosure_report('t', ['r'], ['c'], count := 'n'"
    assert rows(table, f"{report})") == [(48, 4, 2, 0, 0, 1, 0, 1, 29)]
    assert rows(table, f"{report}, small := 6)") == [(48, 4, 2, 0, 0, 1, 0, 2, 29)]


def test_known(table: duckdb.DuckDBPyConnection) -> None:
    call = "FROM cell_bounds('t', ['r'], ['c'], count := 'n', known := 'facts')"
    table.execute("CREATE TABLE facts AS SELECT 'A' AS r, NULL::VARCHAR AS c, 8 AS lower, NULL::INTEGER AS upper")
    second = [9, 12, 5, 3, 4, 6, 5, 4]
    assert [one[3:5] for one in rows(table, call)] == [(n, n) for n in second]
    table.execute("CREATE OR REPLACE TABLE facts AS SELECT 'D' AS r, 'b' AS c, NULL AS lower, 4 AS upper")
    assert [one[3:5] for one in rows(table, call)] == [(n, n) for n in second]
    assert len(rows(table, call.replace("cell_bounds", "cell_values"))) == 8
    table.execute("CREATE OR REPLACE TABLE facts AS SELECT r, c, 0 AS lower, 40 AS upper FROM t")
    assert [one[3:6] for one in rows(table, call)] == BOUNDS


def test_agrees_with_all_tables(con: duckdb.DuckDBPyConnection) -> None:
    @settings(max_examples=many(100))
    @given(tables(rows=3, columns=3, most=4))
    def agrees(table: list[list[int]]) -> None:
        cells = ", ".join(f"({i}, {j}, {n})" for i, row in enumerate(table) for j, n in enumerate(row))
        con.execute(f"CREATE OR REPLACE TABLE t AS FROM (VALUES {cells}) v(r, c, n)").fetchall()
        con.execute("CREATE OR REPLACE TABLE p AS SELECT r, c, n / sum(n) OVER (PARTITION BY r) AS p FROM t").fetchall()
        found = plain.tables_like(table)
        values = [sorted({one[i][j] for one in found}) for i, row in enumerate(table) for j in range(len(row))]
        bounds = [(one[0], one[-1], len(one), len(one) == 1) for one in values]
        assert [one[3:] for one in rows(con, "FROM cell_bounds('t', ['r'], ['c'], count := 'n')")] == bounds
        listed = [value for one in values for value in one]
        every = rows(con, "FROM cell_values('t', ['r'], ['c'], count := 'n') ORDER BY ALL")
        assert [one[2] for one in every] == listed
        n = sum(map(sum, table))
        assert [one[2:] for one in rows(con, f"FROM conditional_bounds('p', ['r'], ['c'], 'p', {n})")] == bounds

    agrees()


@pytest.mark.parametrize("kind", ["DOUBLE", "VARCHAR"])
def test_conditional_bounds(table: duckdb.DuckDBPyConnection, kind: str) -> None:
    table.execute("CREATE TABLE p AS SELECT r, c, n / sum(n) OVER (PARTITION BY r) AS p FROM t").fetchall()
    if kind == "VARCHAR":
        table.execute("CREATE OR REPLACE TABLE p AS SELECT r, c, n || '/' || sum(n) OVER (PARTITION BY r) AS p FROM t")
    found = rows(table, "FROM conditional_bounds('p', ['r'], ['c'], 'p', 48)")
    assert [one[2:5] for one in found] == BOUNDS
    far = rows(table, f"FROM conditional_bounds('p', ['r'], ['c'], 'p', {90_000_000})")
    assert all(one[4] > 10**6 for one in far)


def test_rounded_proportions(table: duckdb.DuckDBPyConnection) -> None:
    table.execute(
        "CREATE TABLE p AS SELECT r, c, round(n / sum(n) OVER (PARTITION BY r), 2) AS p, p::DECIMAL(5, 2) AS q FROM t"
    ).fetchall()
    found = rows(table, "FROM conditional_bounds('p', ['r'], ['c'], 'p', 48, digits := 2)")
    assert rows(table, "FROM conditional_bounds('p', ['r'], ['c'], 'q', 48, digits := 2)") == found
    assert all(one[2] <= low and high <= one[3] for one, (low, high, _) in zip(found, BOUNDS, strict=True))


def test_proportions_at_any_size(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE p AS FROM (VALUES (1, 1, '1/3'), (1, 2, '2/3'), (2, 1, '0.5'), (2, 2, '0.5')) v(r, c, p)")
    n = 10**18
    found = rows(con, f"FROM conditional_bounds('p', ['r'], ['c'], 'p', {n})")
    # 3 a + 2 b = n with a, b >= 1: a has the parity of n.
    assert [Fraction(one[3], one[2]) for one in found[:2]] == [Fraction((n - 4) // 3, 2)] * 2


def sentence(con: duckdb.DuckDBPyConnection, query: str) -> str:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        con.execute(query).fetchall()
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(8,)]
    text = str(raised.value)
    assert text.startswith(PREFIX)
    return text.removeprefix(PREFIX)


BAD_COUNTS = {
    "CASE WHEN r = 'A' THEN -n ELSE n END": 'Column "n" holds a negative count: counts are zero or more.',
    "n + 0.5": 'Column "n" holds a number that is not whole: counts are whole numbers.',
    "n::DOUBLE / 2": 'Column "n" holds a number that is not whole: counts are whole numbers.',
    "'nan'::DOUBLE": 'Column "n" holds a number that is not whole: counts are whole numbers.',
    "nullif(n, 3)": 'Column "n" holds NULL: replace it by 0, or leave those rows out.',
    "n * 10^18::HUGEINT": 'Column "n" holds a count above 10^18, which is more than cell bounds are made for.',
    "9 * 10^17::HUGEINT": "The counts add up to more than 10^18, which is more than cell bounds are made for.",
    "n::VARCHAR": 'Column "n" is not a number and cannot be count: cast it to BIGINT.',
    "0": "All counts are zero: a table without records has no proportions.",
}


@pytest.mark.parametrize("count", BAD_COUNTS)
@pytest.mark.parametrize("function", ["cell_bounds", "cell_values", "disclosure_report"])
def test_bad_counts(table: duckdb.DuckDBPyConnection, function: str, count: str) -> None:
    table.execute(f"CREATE TABLE bad AS SELECT r, c, {count} AS n FROM t").fetchall()
    assert sentence(table, f"FROM {function}('bad', ['r'], ['c'], count := 'n')") == BAD_COUNTS[count]
    if "BIGINT" not in BAD_COUNTS[count]:
        assert sentence(table, "FROM table_designs('bad', ['r', 'c'], count := 'n')") == BAD_COUNTS[count]


BAD_CALLS = {
    "cell_bounds('t', ['r'], ['R'])": 'Column "R" is in both rows and cols: name it in one of them.',
    "cell_bounds('t', [], ['c'])": "rows is empty: name at least one column, as in rows := ['age', 'zip'].",
    "cell_bounds('t', ['r'], 'c')": "cols must be a list of column names, as in cols := ['age', 'zip'].",
    "cell_bounds('t', ['r'], ['x'])": 'There is no column "x" in t; its columns are r, c, n.',
    "cell_bounds('t', ['r'], ['c'], count := 'x')": 'There is no column "x" in t; its columns are r, c, n.',
    "cell_bounds('t', ['r'], ['c'], count := 'c')": (
        'Column "c" is both count and in rows or cols: counts are no categories.'
    ),
    "cell_bounds('t', ['r'], ['c'], count := 3)": "count must be the name of a column of counts, as in count := 'n'.",
    "cell_bounds('t', ['r'], ['n'])": 'The result would have two columns "n": rename the column of the table.',
    "cell_bounds('nobody', ['r'], ['c'])": "The table has no rows: there is nothing to bound.",
    "disclosure_report('nobody', ['r'], ['c'])": "The table has no rows: there is nothing to bound.",
    "disclosure_report('t', ['r'], ['c'], small := 0)": (
        "small must be 1 or more: counts from 1 to small - 1 are small."
    ),
    "table_designs('nobody', ['r', 'c'])": "The table has no rows: there is nothing to bound.",
    "table_designs('t', ['r'])": "variables must name two columns or more: one for the rows and one for the columns.",
    "table_designs('t', ['r', 'c'], fixed_rows := ['n'])": (
        'Column "n" is in fixed_rows but not in variables: add it, or take it out.'
    ),
    "table_designs('t', ['r', 'c'], fixed_rows := ['r'], fixed_cols := ['r'])": (
        'Column "r" is in both fixed_rows and fixed_cols: name it in one of them.'
    ),
    "table_designs('t', ['r', 'c'], fixed_rows := ['r', 'c'])": (
        "No design is left: name two variables or more, and leave one of them free to be a row and one a column."
    ),
    "table_designs('t', ['r', 'c'], max_cols := 0)": (
        "max_cols must be 1 or more: the most column variables of a design."
    ),
}


@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_calls(table: duckdb.DuckDBPyConnection, call: str) -> None:
    table.execute("CREATE TABLE nobody AS FROM t WHERE false").fetchall()
    assert sentence(table, f"FROM {call}") == BAD_CALLS[call]


BAD_FACTS = {
    "'A' AS r, 'a' AS c, 4 AS lower, 8 AS upper": (
        'No table has these proportions and what known says of row 1 in the order of "r": '
        "correct or remove those facts."
    ),
    "'D' AS r, NULL::VARCHAR AS c, 10 AS lower, 17 AS upper": (
        'No table has these proportions and what known says of row 4 in the order of "r": '
        "correct or remove those facts."
    ),
    "'Z' AS r, 'a' AS c, 4 AS lower, 8 AS upper": (
        "Line 1 of known is about a row that the table does not have, or that holds only zeros: "
        "remove it, or correct its row columns."
    ),
    "'A' AS r, 'z' AS c, 0 AS lower, 8 AS upper": (
        "Line 1 of known is about a column that the table does not have: remove it, or correct its column columns."
    ),
    "7 AS r, 'a' AS c, 0 AS lower, 8 AS upper": (
        'Column "r" of facts has another type than in the table of counts: cast it to VARCHAR.'
    ),
    "'A' AS r, 'a' AS c, 'inf'::DOUBLE AS lower, 8 AS upper": (
        'Column "lower" of known holds a number that is not whole: counts are whole.'
    ),
    "'A' AS r, 'a' AS c, 3.5 AS lower, 8 AS upper": (
        'Column "lower" of known holds a number that is not whole: counts are whole.'
    ),
    "'A' AS r, 'a' AS c, 4 AS low, 8 AS upper": (
        'There is no column "lower" in facts; its columns are r, c, low, upper.'
    ),
    "'A' AS r, 'a' AS c, 'few' AS lower, 8 AS upper": 'Column "lower" of facts is not a number: cast it to BIGINT.',
}


@pytest.mark.parametrize("fact", BAD_FACTS)
def test_bad_facts(table: duckdb.DuckDBPyConnection, fact: str) -> None:
    table.execute(f"CREATE TABLE facts AS SELECT {fact}").fetchall()
    said = sentence(table, "FROM cell_bounds('t', ['r'], ['c'], count := 'n', known := 'facts')")
    assert said == BAD_FACTS[fact]


BAD_PROPORTIONS = {
    ("p + CASE WHEN c = 'a' THEN 0.01 ELSE 0 END", "48"): (
        "A proportion is no fraction with a denominator up to n: if proportions were rounded, say to how many digits, "
        "as in digits := 3."
    ),
    ("CASE WHEN c = 'a' THEN 0.51::DECIMAL(3, 2) ELSE 0.50 END", "480"): (
        'The proportions of row 1 in the order of "r" do not add up to 1: if they were rounded, say to how many '
        "digits, as in digits := 3."
    ),
    ("p * 100", "48"): ('A proportion of row 1 in the order of "r" is not between 0 and 1: divide percentages by 100.'),
    ("-p", "48"): 'A proportion of row 1 in the order of "r" is not between 0 and 1: divide percentages by 100.',
    ("NULL::DOUBLE", "48"): "A proportion is NULL: leave out rows without proportions.",
    ("p", "28"): "No table has these proportions: their reduced counts add up to 29 records, and n is 28.",
    ("p", "30"): "No table has these proportions and this sample size: check n and the proportions.",
    ("p", "0"): "n must be 1 or more: it is the number of records behind the proportions.",
    ("p", "NULL"): "n must be a whole number, as in n := 5.",
    ("p", "100000000"): (
        "p is DOUBLE, which tells fractions apart only while n is below 94906266: "
        "give proportions as text, as in '3/7', or as DECIMAL."
    ),
    ("p::FLOAT", "48"): (
        'Column "p" is FLOAT, which is too short to tell fractions apart: compute the proportions as DOUBLE.'
    ),
    ("[p]", "48"): (
        "Column \"p\" is neither a number nor text and cannot be p: give DOUBLE, DECIMAL, or text as in '3/7'."
    ),
    ("'much'", "48"): "A proportion cannot be read as a number: write 0.25 or 1/4.",
    ("'1e999999999'", "48"): "A proportion cannot be read as a number: write 0.25 or 1/4.",
    ("'nan'::DOUBLE", "48"): "A proportion cannot be read as a number: write 0.25 or 1/4.",
    ("'1/0'", "48"): "A proportion cannot be read as a number: write 0.25 or 1/4.",
    ("round(p, 3)", "48, digits := 2"): (
        "A proportion has more than 2 digits: correct digits, or round the proportions."
    ),
    ("p", "48, digits := -1"): "digits must be from 0 to 18: how many decimals the proportions were rounded to.",
    (
        "p",
        "48, digits := 2, ties := 'down'",
    ): "ties must be 'any', 'up' or 'even': how a share that lies half-way was rounded.",
    ("CASE WHEN c = 'a' THEN 0.9 ELSE 0.5 END", "48, digits := 1"): (
        'No table of this sample size has the proportions of row 1 in the order of "r": check p, n and digits.'
    ),
}


@pytest.mark.parametrize(("share", "n"), BAD_PROPORTIONS)
def test_bad_proportions(table: duckdb.DuckDBPyConnection, share: str, n: str) -> None:
    table.execute(
        f"CREATE TABLE p AS SELECT r, c, {share} AS p FROM (SELECT *, n / sum(n) OVER (PARTITION BY r) AS p FROM t)"
    ).fetchall()
    assert sentence(table, f"FROM conditional_bounds('p', ['r'], ['c'], 'p', {n})") == BAD_PROPORTIONS[share, n]


def test_duplicated_cells(table: duckdb.DuckDBPyConnection) -> None:
    table.execute("CREATE TABLE p AS SELECT 'A' AS r, 'a' AS c, 0.5 AS p FROM range(2)").fetchall()
    said = sentence(table, "FROM conditional_bounds('p', ['r'], ['c'], 'p', 48)")
    assert said == "A cell is there more than once: give one proportion for each combination of rows and cols."
