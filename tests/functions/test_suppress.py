"""suppress through SQL: against DuckDB's ROLLUP, against all tables that agree, and what it refuses."""

from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import duckanon
from tests.amounts import many

RECORDS = """
CREATE TABLE records AS SELECT
  CASE u % 3 WHEN 0 THEN NULL WHEN 1 THEN 'north' ELSE 'south' END AS region,
  nullif(u // 3 % 4, 3) AS county,
  (['x', 'y', 'z'])[1 + u // 12 % 3] AS kind,
  (u // 36 % 10000 / 100)::DECIMAL(9, 2) AS turnover,
  u // 3600 % 25 AS company
FROM (SELECT (md5_number_lower(i::VARCHAR) % 1000000007)::BIGINT AS u FROM range(90) r(i))
"""


@pytest.fixture
def records(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(RECORDS).fetchall()
    return con


CALLS = [
    ("county", "count(*)", ""),
    ("county", "sum(turnover)", ", value := 'turnover', digits := 2, rule := 'p%', unit := 'company'"),
    (
        "county",
        "sum(turnover)",
        ", value := 'turnover', digits := 2, rule := ['dominance', 'threshold'], contributors := 2",
    ),
    ("county", "count(*)", ", unit := 'company', n := 4"),
]


@pytest.mark.parametrize(("below", "measure", "options"), CALLS)
def test_published_cells_are_those_of_a_rollup(
    records: duckdb.DuckDBPyConnection, below: str, measure: str, options: str
) -> None:
    expected = records.execute(
        f"SELECT region, {below}, kind, 2 - grouping(region) - grouping({below}), 1 - grouping(kind), {measure} "
        f"FROM records GROUP BY ROLLUP (region, {below}), ROLLUP (kind)"
    ).fetchall()
    sums = {tuple(row[:5]): row[5] for row in expected}
    found = records.execute(
        f"FROM suppress('records', ['region', '{below}'], ['kind'], audit := true{options})"
    ).fetchall()
    assert len(found) == len({row[:3:2] + row[3:5] + row[1:2] for row in found})
    assert set(sums) <= {tuple(row[:5]) for row in found}
    seen = set()
    for *key, value, suppressed, status, true, lower, upper in found:
        assert true == sums.get(tuple(key), 0)
        assert value == (None if suppressed else true)
        assert suppressed == (status != "published")
        assert (lower is None) == (upper is None) == (not suppressed)
        assert not suppressed or lower <= true <= upper
        assert not suppressed or lower < upper
        seen.add(status)
    assert seen == {"published", "primary", "secondary"}


def test_the_answer_to_publish_has_no_more_than_it_should(records: duckdb.DuckDBPyConnection) -> None:
    plain = records.execute("FROM suppress('records', ['region'], ['kind', 'county'])")
    assert [one[0] for one in plain.description] == [
        *("region", "kind", "county", "row_level", "col_level", "value", "suppressed")
    ]
    published = plain.fetchall()
    audited = records.execute(
        "SELECT region, kind, county, row_level, col_level, value, suppressed "
        "FROM suppress('records', ['region'], ['kind', 'county'], audit := true)"
    )
    assert audited.fetchall() == published


@settings(max_examples=many(25), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=3), min_size=2, max_size=3), st.integers(2, 4))
def test_intervals_are_those_of_all_tables_that_agree(
    con: duckdb.DuckDBPyConnection, rows: list[list[int]], n: int
) -> None:
    width = min(map(len, rows))
    leaves = np.array([row[:width] for row in rows])
    if not leaves.sum():
        return
    cells = ", ".join(f"({a}, {b}, {count})" for (a, b), count in np.ndenumerate(leaves))
    con.execute(
        f"CREATE OR REPLACE TABLE t AS SELECT a, b FROM (VALUES {cells}) v(a, b, n), range(5) r(i) WHERE i < n"
    ).fetchall()
    found = con.execute(
        "SELECT a, b, suppressed, status, true_value, lower, upper "
        f"FROM suppress('t', ['a'], ['b'], n := {n}, audit := true)"
    ).fetchall()
    in_rows = sorted({a for a, *_ in found if a is not None})
    in_cols = sorted({b for _, b, *_ in found if b is not None})
    kept = leaves[np.ix_(in_rows, in_cols)]
    grid = np.array(list(product(range(9), repeat=kept.size))) if kept.size <= 4 else None
    for a, b, suppressed, status, true, lower, upper in found:
        at_row = slice(None) if a is None else in_rows.index(a)
        at_col = slice(None) if b is None else in_cols.index(b)
        assert true == kept[at_row, at_col].sum()
        assert (status == "primary") == (0 < true < n)
        assert not suppressed or true > 0
        if status == "primary":
            # Readers know that none of its parts is empty, if it is a total.
            assert lower <= np.count_nonzero(kept[at_row, at_col])
            assert upper >= n
    if grid is not None:
        _check_intervals(found, in_rows, in_cols, grid.reshape(-1, *kept.shape))


def _check_intervals(found: list[tuple], in_rows: list[int], in_cols: list[int], grid: np.ndarray) -> None:
    """The audit's ends against every table of counts up to 8; larger ends cannot be seen."""
    sums = []
    agree = np.ones(len(grid), dtype=bool)
    for a, b, suppressed, _, true, *_ in found:
        part = grid if a is None else grid[:, [in_rows.index(a)]]
        part = part if b is None else part[:, :, [in_cols.index(b)]]
        sums.append(part.sum(axis=(1, 2)))
        agree &= sums[-1] >= 1 if suppressed else sums[-1] == true
    for cell, (*_, suppressed, _, _, lower, upper) in zip(sums, found, strict=True):
        if suppressed:
            assert cell[agree].min() == lower
            assert cell[agree].max() == upper if upper <= 8 else cell[agree].max() >= 8


def test_every_call_gives_the_same(records: duckdb.DuckDBPyConnection) -> None:
    options = "value := 'turnover', digits := 2, rule := 'p%', audit := true"
    call = f"FROM suppress('{{}}', ['region', 'county'], ['kind'], {options})"
    first = records.execute(call.format("records")).fetchall()
    for seed, threads in ((1, 1), (2, 4)):
        records.execute(f"SET threads = {threads}").fetchall()
        records.execute(f"CREATE OR REPLACE TABLE other AS FROM records ORDER BY hash(rowid + {seed})").fetchall()
        assert records.execute(call.format("other")).fetchall() == first


def test_somebody_with_several_records_is_one_contributor(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS FROM (VALUES ('a', 'one', 5), ('a', 'one', 5), ('a', 'two', 3), "
        "('b', 'one', 50), ('b', 'two', 60), ('b', 'three', 70), "
        "('c', 'one', 80), ('c', 'two', 1), ('c', 'three', 70)) "
        "v(place, company, turnover)"
    ).fetchall()
    call = "SELECT place FROM suppress('t', ['place'], [], {}, audit := true) WHERE status = 'primary'"
    assert con.execute(call.format("value := 'turnover', digits := 2, unit := 'company'")).fetchall() == [("a",)]
    assert con.execute(call.format("value := 'turnover', digits := 2")).fetchall() == []
    assert con.execute(call.format("unit := 'company'")).fetchall() == [("a",)]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 7)), min_size=1, max_size=3),
    st.sampled_from(["p%", "dominance"]),
)
@settings(max_examples=many(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_of_several_records_are_as_sensitive_as_their_records_may_make_them(
    con: duckdb.DuckDBPyConnection, rows: list[tuple[int, int, int]], rule: str
) -> None:
    """Beside all ways to share the value of each row between its records."""
    con.execute("CREATE OR REPLACE TABLE t (place INTEGER, n INTEGER, v INTEGER)").fetchall()
    con.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    options = {"p%": "p := 30, q := 60", "dominance": "contributors := 2, percent := 80"}[rule]
    call = f"suppress('t', ['place'], [], value := 'v', count := 'n', rule := '{rule}', {options}, audit := true)"
    for place, status in con.execute(f"SELECT place, status FROM {call}").fetchall():
        inside = [
            [one for one in product(range(v + 1), repeat=n) if sum(one) == v]
            for at, n, v in rows
            if place in (None, at)
        ]
        exposed = False
        for shares in product(*inside):
            first, second, *rest = [*sorted((x for row in shares for x in row), reverse=True), 0]
            whole = first + second + sum(rest)
            exposed |= 30 * first > 60 * sum(rest) if rule == "p%" else 100 * (first + second) > 80 * whole
        assert (status == "primary") == exposed


def test_keys_of_any_type(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT (['low', 'high'])[1 + i % 2]::ENUM ('low', 'high') AS size, "
        "DATE '2026-01-01' + (i % 3)::INTEGER AS day, nullif(i % 4, 0) / 2 AS half FROM range(40) r(i)"
    ).fetchall()
    found = con.execute(
        "SELECT size, value FROM suppress('t', ['size'], ['day', 'half']) WHERE col_level = 0"
    ).fetchall()
    assert found == [(None, 40), ("low", 20), ("high", 20)]
    days = con.execute("SELECT day FROM suppress('t', ['day'], []) WHERE row_level = 1").fetchall()
    assert len(days) == 3


def test_cells_that_nothing_threatens_are_all_published(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b FROM range(600) r(i)").fetchall()
    assert con.execute("SELECT DISTINCT suppressed FROM suppress('t', ['a'], ['b'])").fetchall() == [(False,)]


def test_decimals_of_doubles(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 3 AS a, i / 100 AS x FROM range(30) r(i)").fetchall()
    with pytest.raises(
        duckdb.InvalidInputException, match=r'Column "x" holds numbers that are not whole: .* digits := 2'
    ):
        con.execute("FROM suppress('t', ['a'], [], value := 'x')").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="more than 1 decimals"):
        con.execute("FROM suppress('t', ['a'], [], value := 'x', digits := 1)").fetchall()
    found = con.execute("SELECT value FROM suppress('t', ['a'], [], value := 'x', digits := 2) LIMIT 1").fetchall()
    assert [str(value) for (value,) in found] == ["4.35"]


@pytest.mark.parametrize("power", [24, 28, 33])
def test_large_sums(con: duckdb.DuckDBPyConnection, power: int) -> None:
    con.execute(
        f"CREATE TABLE t AS SELECT i % 4 AS r, i // 4 % 4 AS c, {2**power}::BIGINT * (1 + i * 37 % 101) AS v "
        "FROM range(48) x(i)"
    ).fetchall()
    rows = con.execute(
        "SELECT r, c, suppressed, true_value, lower, upper "
        "FROM suppress('t', ['r'], ['c'], value := 'v', rule := 'p%', audit := true)"
    ).fetchall()
    gone = [row[3:] for row in rows if row[2] and row[4] is not None]
    assert gone
    assert all(lower < true and (upper is None or true < upper) for true, lower, upper in gone)


REFUSED = [
    (
        "['a'], ['b'], value := 'negative'",
        'Column "negative" holds a negative number: contributions must be at least 0.',
    ),
    ("['a'], ['b'], value := 'gaps'", 'Column "gaps" holds NULL, infinity or too large a number: replace it, or'),
    ("['a'], ['b'], value := 'endless'", 'Column "endless" holds NULL, infinity or too large a number: replace it'),
    (
        "['a'], ['b'], value := 'vast'",
        "The values add up to more than 2^45 of their last digits: sum them in thousands.",
    ),
    (
        "['a'], ['b'], unit := 'gaps'",
        'Column "gaps" holds NULL: say whose each record is, leave those rows out, or count records with unit := ',
    ),
    ("['a'], ['none']", 'There is no column "none" in t; its columns are a, b, negative, gaps, endless, vast.'),
    ("['a'], ['b'], rule := 'k'", "rule must be one of 'threshold', 'p%', 'dominance', or a list of them."),
    ("['a'], ['b'], value := 'a'", 'Column "a" is in both rows and value: name it in one of them.'),
    ("['a'], ['b'], rule := 'p%', p := 1, unit := 'b'", 'Column "b" is in both cols and unit: name it in one of them.'),
    ("['a'], [], rule := 'p%', p := 0, unit := 'b'", "p must be a number above 0 and at most 100: it is a percentage."),
    ("['a'], ['b'], digits := 2", "digits are those of a column of values: name it, as in value := 'turnover'."),
    ("[], ['b']", "rows is empty: name at least one column"),
    ("['a'], ['b'], audit := NULL", "audit must be true or false"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_what_it_refuses(con: duckdb.DuckDBPyConnection, call: str, says: str) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b, -i AS negative, nullif(i, 3) AS gaps, "
        "1 / nullif(i, 0)::DOUBLE * 'inf'::DOUBLE AS endless, 1::BIGINT << 50 AS vast FROM range(9) r(i) WHERE i > 0"
    ).fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        con.execute(f"FROM suppress('t', {call})").fetchall()
    assert str(raised.value).startswith(f"Invalid Input Error: {says}")


def test_an_empty_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t (a INTEGER, b INTEGER)").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="The table has no rows: there is nothing to publish"):
        con.execute("FROM suppress('t', ['a'], ['b'])").fetchall()


def test_an_analyst_calls_it_on_tables_that_nobody_protects(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE secret AS SELECT i AS id, i % 3 AS a, 0.5 AS record_key FROM range(90) r(i)"
        ).fetchall()
        con.execute("CREATE TABLE free AS SELECT a, record_key FROM secret").fetchall()
        con.execute("SELECT protect('secret', epsilon := 1), open_table('free')").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        for call in ("suppress('{}', ['a'], [])", "cell_key('{}', ['a'])"):
            assert con.execute(f"SELECT a FROM {call.format('free')}").fetchall()
            with pytest.raises(duckanon.errors.DuckanonError):
                con.execute(f"SELECT a FROM {call.format('secret')}").fetchall()


SUMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 12)), min_size=4, max_size=14)


def narrower(records: list[tuple[int, int, int]], floor: bool) -> list[tuple[int, float, float]]:
    """The sensitive sums whose interval is narrower than the page promises: value, and both ends.

    floor: whether an interval may end where it would go below what readers know.
    """
    with duckdb.connect() as con:
        duckanon.register(con)
        con.execute("CREATE TABLE t (r INTEGER, c INTEGER, v INTEGER)").fetchall()
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", records)
        rows = con.execute(
            "SELECT r, c, row_level, col_level, true_value, lower, upper FROM "
            "suppress('t', ['r'], ['c'], value := 'v', audit := true) WHERE status = 'primary'"
        ).fetchall()
    found = []
    for r, c, row_level, col_level, value, lower, upper in rows:
        parts = {(a, b) for a, b, _ in records if (a == r or not row_level) and (b == c or not col_level)}
        change = max(1, -(-value // 10))
        least = max(value - change, len(parts) if floor else 0)
        if lower > least or upper < value + change:
            found.append((value, lower, upper))
    return found


@settings(max_examples=many(60), deadline=None)
@given(SUMS)
def test_a_sensitive_sum_may_be_as_far_off_as_the_page_says(records: list[tuple[int, int, int]]) -> None:
    try:
        assert not narrower(records, floor=True)
    except duckdb.InvalidInputException:
        # No pattern protects all cells of so small a table.
        assume(False)


def test_a_sum_of_one_cannot_be_ten_percent_less() -> None:
    """What the page once promised: the value less the change, whatever readers know."""
    records = [(0, 0, 1), (0, 1, 9), (0, 1, 9), (0, 1, 9), (1, 0, 9), (1, 0, 9), (1, 0, 9), *[(1, 1, 9)] * 3]
    assert not narrower(records, floor=True)
    assert [(value, lower) for value, lower, _ in narrower(records, floor=False)] == [(1, 1.0)]


def test_progress_is_told() -> None:
    told: list[tuple[str, float]] = []
    with duckanon.connect(progress=lambda step, share: told.append((step, share))) as con:
        con.execute("FROM suppress('sql/examples/voters.csv', ['party'], ['tv_news'])").fetchall()
    assert {step for step, _ in told} == {"suppress"}
    assert told[-1][1] == 1.0


def test_few_records_of_units_stay_open_as_counts_do(con: duckdb.DuckDBPyConnection) -> None:
    """From 1 to n, also where the total of their column would be published by its contributors alone."""
    con.execute(
        "CREATE TABLE people AS SELECT i AS house, 'area ' || i % 4 AS area, CASE WHEN i < 6 THEN 'd' "
        "WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex FROM range(500) r(i)"
    ).fetchall()
    rows = con.execute(
        "SELECT true_value, lower, upper FROM suppress('people', ['area'], ['sex'], unit := 'house', n := 5, "
        "audit := true) WHERE status = 'primary'"
    ).fetchall()
    assert rows
    assert all(value < 5 and lower <= 1 and upper >= 5 for value, lower, upper in rows)
