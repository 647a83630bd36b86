"""suppress with several crossed dimensions, linked tables, codes, counts, weights and decisions beforehand."""

import duckdb
import pytest

Con = duckdb.DuckDBPyConnection

RECORDS = """
CREATE TABLE records AS SELECT
  (['north', 'south'])[1 + u % 2] AS region, u % 2 * 10 + u // 2 % 3 AS county,
  (['x', 'y', 'z'])[1 + u // 6 % 3] AS kind, u // 18 % 2 AS sex, u // 36 % 3 AS age,
  (['A1', 'A2', 'B', 'C1', 'C2'])[1 + u // 108 % 5] AS industry, u // 540 % 40 AS turnover, u // 7 % 9 AS company
FROM (SELECT (md5_number_lower(i::VARCHAR) % 1000000007)::BIGINT AS u FROM range(160) r(i))
"""
CODES = """
CREATE TABLE codes AS
FROM (VALUES ('A', NULL), ('A1', 'A'), ('A2', 'A'), ('B', NULL), ('C1', 'C'), ('C2', 'C')) v(code, parent)
"""


@pytest.fixture
def records(con: Con) -> Con:
    con.execute(RECORDS).fetchall()
    con.execute(CODES).fetchall()
    return con


def rows(con: Con, query: str) -> list[tuple]:
    return con.execute(query).fetchall()


def test_cells_of_three_dimensions_are_those_of_rollups(records: Con) -> None:
    expected = rows(
        records,
        "SELECT region, county, kind, sex, 2 - grouping(region) - grouping(county), 1 - grouping(kind), "
        "[1 - grouping(sex)], count(*) FROM records GROUP BY ROLLUP (region, county), ROLLUP (kind), ROLLUP (sex)",
    )
    found = rows(
        records,
        "SELECT region, county, kind, sex, row_level, col_level, by_level, true_value "
        "FROM suppress('records', ['region', 'county'], ['kind'], by := [['sex']], audit := true)",
    )
    assert len(found) == 9 * 4 * 3
    assert {str(row) for row in expected} == {str(row) for row in found if row[-1]}


LINKED = (
    "['region', 'county'], ['kind'], by := [['sex'], ['age']], tables := [['county', 'kind'], ['region', 'age', 'sex']]"
)


def test_linked_tables_have_their_cells_once_each(records: Con) -> None:
    found = rows(
        records,
        f"SELECT row_level, col_level, by_level, region, county, kind, sex, age, value, suppressed "
        f"FROM suppress('records', {LINKED})",
    )
    assert len({str(row[:8]) for row in found}) == len(found)
    levels = {(row[0], row[1], *row[2]) for row in found}
    first = {(r, c, 0, 0) for r in range(3) for c in range(2)}
    second = {(r, 0, s, a) for r in range(2) for s in range(2) for a in range(2)}
    assert levels == first | second
    assert len(found) == 9 * 4 + 3 * 3 * 4 - 3


def test_what_one_table_shows_protects_no_other(records: Con) -> None:
    """The same cells in each table: one is not suppressed in one and published in the other."""
    records.execute(
        "CREATE TABLE t AS FROM (VALUES (1, 1, 1, 1), (1, 2, 1, 9), (2, 1, 2, 9), (2, 2, 2, 9), (3, 1, 1, 9), "
        "(3, 2, 2, 9)) v(a, b, c, n)"
    ).fetchall()
    call = "SELECT a, b, c, suppressed FROM suppress('t', ['a'], ['b'], by := [['c']], count := 'n', {})"
    found = rows(records, call.format("tables := [['a', 'b'], ['a', 'c']]"))
    assert [row for row in found if row[3]]
    alone = rows(records, call.format("tables := [['a', 'c']]"))
    assert not [row for row in alone if row[3]]


def test_codes(records: Con) -> None:
    found = rows(
        records,
        "SELECT industry, row_level, true_value FROM suppress('records', ['industry'], [], "
        "hierarchies := {'industry': 'codes'}, audit := true)",
    )
    assert [row[:2] for row in found] == [
        *((None, 0), ("A", 1), ("A1", 2), ("A2", 2), ("B", 1), ("C", 1), ("C1", 2), ("C2", 2))
    ]
    counts = {row[0]: row[2] for row in found}
    assert counts[None] == 160
    assert counts["A"] == counts["A1"] + counts["A2"]
    one = "CREATE TABLE one AS FROM codes UNION ALL VALUES ('A', 'T'), ('B', 'T'), ('C', 'T')"
    records.execute(one.replace("FROM codes", "FROM codes WHERE parent IS NOT NULL")).fetchall()
    top = rows(
        records,
        "SELECT industry, row_level FROM suppress('records', ['industry'], ['sex'], "
        "hierarchies := {'industry': 'one'}) WHERE col_level = 0",
    )
    assert top[:3] == [("T", 0), ("A", 1), ("A1", 2)]


WRONG_CODES = [
    ("('A1', 'A'), ('A1', 'B')", "The hierarchy of \"industry\" is no tree: 'A1' is in two parents. Give it one."),
    (
        "('A1', 'A2'), ('A2', 'A')",
        "The hierarchy of \"industry\" does not add up: 'A2' has parts, and records of its own.",
    ),
    ("('A1', 'A'), ('A', 'A1')", 'The hierarchy of "industry" '),
    ("('A1', 'A')", 'Column "industry" holds a value that its hierarchy lacks: give the hierarchy each code.'),
    ("(NULL, 'A')", 'The hierarchy of "industry" has a line without a code: leave it out.'),
    (
        "('D1', 'D'), ('D', 'E'), ('E', 'D1'), ('A1', 'D'), ('A2', 'D'), ('B', 'D'), ('C1', 'D'), ('C2', 'D')",
        'The hierarchy of "industry" forms a circle',
    ),
]


@pytest.mark.parametrize(("codes", "says"), WRONG_CODES)
def test_what_is_no_hierarchy_of_codes(records: Con, codes: str, says: str) -> None:
    records.execute(f"CREATE TABLE wrong AS FROM (VALUES {codes}) v(code, parent)").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(records, "FROM suppress('records', ['industry'], [], hierarchies := {'industry': 'wrong'})")
    assert str(raised.value).startswith(f"Invalid Input Error: {says}")


@pytest.mark.parametrize(("kept", "lacks"), [("code", "parent"), ("parent", "code")])
def test_a_table_of_codes_has_both_columns(records: Con, kept: str, lacks: str) -> None:
    records.execute(f"CREATE TABLE half AS SELECT {kept} FROM codes").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(records, "FROM suppress('records', ['industry'], [], hierarchies := {'industry': 'half'})")
    assert str(raised.value) == (
        f'Invalid Input Error: There is no column "{lacks}" in half; its columns are {kept}. '
        'The hierarchy of "industry" is a table with the columns code and parent.'
    )


def test_two_hierarchies_over_one_dimension(records: Con) -> None:
    records.execute("CREATE TABLE areas AS SELECT *, county % 3 = 1 AS coast FROM records").fetchall()
    found = rows(
        records,
        "SELECT region, county, coast, row_level, by_level, true_value, suppressed FROM "
        "suppress('areas', ['region', 'county'], ['kind'], by := [['coast', 'county']], audit := true) "
        "WHERE col_level = 0",
    )
    levels = [(row[3], row[4]) for row in found]
    assert levels.count((0, [0])) == 1
    assert levels.count((1, [None])) == 2
    assert levels.count((2, [2])) == 6
    assert levels.count((None, [1])) == 2
    assert len(found) == 11
    coasts = dict(rows(records, "SELECT coast, count(*) FROM areas GROUP BY coast"))
    assert {row[2]: row[5] for row in found if row[3] is None} == coasts
    records.execute("CREATE TABLE wrong AS SELECT *, sex AS coast FROM records").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match='A value of "county" is in two parts of one level'):
        rows(records, "FROM suppress('wrong', ['region', 'county'], ['kind'], by := [['coast', 'county']])")


def test_rows_that_stand_for_several_records(records: Con) -> None:
    records.execute(
        "CREATE TABLE few AS SELECT region, kind, age, count(*) AS n, sum(turnover) AS v FROM records GROUP BY ALL"
    ).fetchall()
    call = "FROM suppress('{}', ['region'], ['kind', 'age'], {} audit := true)"
    assert rows(records, call.format("few", "count := 'n',")) == rows(records, call.format("records", ""))
    sums = ["value := 'v', count := 'n', n := 4,", "value := 'turnover', n := 4,"]
    few, all_ = (rows(records, call.format(table, one)) for table, one in zip(("few", "records"), sums, strict=True))
    # A record that adds nothing is no contributor; in a sum of several nobody sees it.
    assert [row[:5] + row[7:8] for row in few] != []
    assert [row[:3] for row in few] == [row[:3] for row in all_]
    assert [row[8] for row in few] == [row[8] for row in all_]


def test_weights(records: Con) -> None:
    records.execute("CREATE TABLE weighted AS SELECT region, kind, 1.5 + age AS w, turnover FROM records").fetchall()
    expected = rows(
        records,
        "SELECT region, round(sum(w), 1)::DOUBLE, round(sum(round(w * turnover, 1)), 1)::DOUBLE FROM weighted "
        "GROUP BY ROLLUP (region) ORDER BY region NULLS FIRST",
    )
    call = "SELECT region, true_value::DOUBLE FROM suppress('weighted', ['region'], [], {} digits := 1, audit := true)"
    counts = rows(records, call.format("weight := 'w',"))
    sums = rows(records, call.format("value := 'turnover', weight := 'w',"))
    assert counts == [row[:2] for row in expected]
    assert sums == [row[::2] for row in expected]


def test_an_earlier_answer_stays_as_it_is(records: Con) -> None:
    first = "suppress('records', ['region', 'county'], ['kind'])"
    records.execute(f"CREATE TABLE earlier AS FROM {first}").fetchall()
    records.execute(
        "CREATE TABLE linked AS FROM suppress('records', ['region', 'county'], ['kind'], by := [['sex']], "
        "tables := [['county', 'kind'], ['region', 'sex']], apriori := 'earlier')"
    ).fetchall()
    again = rows(
        records,
        "SELECT region, county, kind, row_level, col_level, value, suppressed FROM linked WHERE by_level = [0]",
    )
    assert again == rows(records, "FROM earlier")


def test_decisions_and_costs(records: Con) -> None:
    call = (
        "SELECT region, kind, status FROM suppress('records', ['region'], ['kind'], n := 22{}, audit := true) "
        "WHERE status <> 'published'"
    )
    records.execute("CREATE TABLE t (region VARCHAR, kind VARCHAR, suppressed BOOLEAN, cost DOUBLE)").fetchall()
    plain = rows(records, call.format(""))
    assert plain == rows(records, call.format(", apriori := 't'"))
    primary = [row for row in plain if row[2] == "primary"]
    other = next(
        row
        for row in rows(records, "SELECT DISTINCT region, kind FROM records ORDER BY ALL")
        if (*row, "primary") not in plain
    )
    records.execute("INSERT INTO t VALUES (?, ?, true, NULL)", other).fetchall()
    forced = rows(records, call.format(", apriori := 't'"))
    assert (*other, "primary") in forced
    assert set(primary) <= set(forced)
    records.execute("INSERT INTO t VALUES (?, ?, false, NULL)", other).fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="apriori says both of a cell"):
        rows(records, call.format(", apriori := 't'"))
    records.execute("UPDATE t SET suppressed = NULL, cost = -1").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="Costs in apriori are numbers"):
        rows(records, call.format(", apriori := 't'"))
    records.execute("UPDATE t SET cost = 1, kind = 'w'").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="a line about a cell that no table has"):
        rows(records, call.format(", apriori := 't'"))


PLACES = """
CREATE TABLE places AS SELECT (['A', 'B'])[1 + i % 2] AS state, (['A', 'B'])[1 + i % 2] || (i // 2 % 3) AS county,
  3 AS turnover
FROM range(120) r(i)
"""


def decided(con: Con, lines: str, more: str = "") -> list[tuple]:
    con.execute(f"CREATE OR REPLACE TABLE decided AS FROM (VALUES {lines}) v(state, county, suppressed)").fetchall()
    return rows(
        con,
        "SELECT coalesce(county, state, 'all'), status, true_value, lower, upper FROM "
        f"suppress('places', ['state', 'county'], [], apriori := 'decided', audit := true{more}) WHERE suppressed",
    )


@pytest.mark.parametrize(("more", "change"), [("", 6), (", value := 'turnover'", 18)])
def test_a_cell_that_is_suppressed_on_request_is_protected(con: Con, more: str, change: int) -> None:
    """It was suppressed alone, with its parts and the total published."""
    con.execute(PLACES).fetchall()
    found = {name: row for name, *row in decided(con, "('A', NULL, true)", more)}
    status, value, lower, upper = found["A"]
    assert status == "primary"
    assert lower <= value - change
    assert upper >= value + change
    assert {row[0] for name, row in found.items() if name != "A"} == {"secondary"}


def test_how_far_a_cell_on_request_is_open(con: Con) -> None:
    con.execute(PLACES).fetchall()
    [wide] = [
        row
        for row in decided(con, "('A', NULL, true)", ", value := 'turnover', widths := {'threshold': 40}")
        if row[0] == "A"
    ]
    assert (wide[3] <= 180 - 72, wide[4] >= 180 + 72) == (True, True)
    # Six units upwards are 10 %; A1 can give up one.
    con.execute("UPDATE places SET turnover = CASE county WHEN 'A1' THEN rowid < 10 ELSE 3 END").fetchall()
    kept = "('A', 'A0', true), ('A', 'A1', true), ('A', 'A2', false), ('A', NULL, false)"
    found = {row[0]: row[1:] for row in decided(con, kept, ", value := 'turnover', n := 2")}
    assert found["A0"] == ("primary", 60, 1.0, 61.0)
    assert found["A1"] == ("primary", 2, 1.0, 61.0)


WRONG_DECISIONS = [
    (
        "('A', NULL, true), ('B', NULL, false), (NULL, NULL, false)",
        "1 cell that apriori suppresses can be computed from cells that are published in any case, zeros among them",
    ),
    (
        "(NULL, NULL, true), ('A', NULL, false), ('B', NULL, false), ('B', 'B0', true), ('B', 'B1', false), "
        "('B', 'B2', false)",
        "2 cells that apriori suppresses can be computed",
    ),
    ("('A', 'A3', true)", "apriori suppresses 1 cell of zero: zeros are published, so say NULL for suppressed there."),
    ("('A', 'A4', false)", "apriori publishes 1 sensitive cell: say NULL for suppressed there."),
    *(
        (f"('A', NULL, {said})", 'Column "suppressed" of apriori is not BOOLEAN: say true, false or NULL there, as in ')
        for said in ("'vielleicht'", "'u'", "'suppress'", "'true'", "1")
    ),
]


@pytest.mark.parametrize(("lines", "says"), WRONG_DECISIONS)
def test_decisions_that_are_refused(con: Con, lines: str, says: str) -> None:
    con.execute(PLACES).fetchall()
    con.execute("INSERT INTO places VALUES ('A', 'A3', 0), ('A', 'A4', 5)").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        decided(con, lines, ", value := 'turnover', n := 2")
    assert str(raised.value).startswith(f"Invalid Input Error: {says}")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("0 AS cell", "apriori decides nothing: give it a column suppressed of BOOLEAN, or a column cost of numbers."),
        ("'much' AS cost", 'Column "cost" is not a number and cannot be a cost of apriori: cast it to DOUBLE.'),
    ],
)
def test_what_decides_nothing(con: Con, columns: str, says: str) -> None:
    con.execute(PLACES).fetchall()
    con.execute(f"CREATE TABLE decided AS SELECT 'A' AS state, {columns}").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(con, "FROM suppress('places', ['state'], [], apriori := 'decided')")
    assert str(raised.value) == f"Invalid Input Error: {says}"


def test_how_many_cells_cannot_be_protected(con: Con) -> None:
    con.execute("CREATE TABLE t AS FROM (VALUES ('x'), ('y'), ('y'), ('y')) v(a)").fetchall()
    con.execute("CREATE TABLE decided AS FROM (VALUES ('y', false), (NULL, false)) v(a, suppressed)").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="1 sensitive cell cannot be protected even if every cell"):
        rows(con, "FROM suppress('t', ['a'], [], n := 2, apriori := 'decided')")


def test_widths_and_the_pq_rule(records: Con) -> None:
    call = (
        "SELECT kind, status, true_value, lower, upper FROM suppress('records', ['region', 'county'], ['kind'], "
        "value := 'turnover', unit := 'company', rule := 'p%', {} audit := true) WHERE status = 'primary'"
    )
    ten, wide = rows(records, call.format("p := 15,")), rows(records, call.format("p := 15, widths := {'p%': 30},"))
    assert [row[:3] for row in ten] == [row[:3] for row in wide]
    assert all(row[4] >= row[2] * 1.3 for row in wide)
    assert rows(records, call.format("p := 15, q := 100,")) == ten
    # What is known to within half makes more cells sensitive, as p twice as large does.
    assert rows(records, call.format("p := 15, q := 50,")) == rows(records, call.format("p := 30,"))


REFUSED = [
    ("['region'], ['kind'], by := []", "by must be lists of columns, as in tables := "),
    ("['region'], ['kind'], by := [['kind']]", 'Column "kind" is in both cols and by: name it in one of them.'),
    (
        "['region'], ['kind'], by := [['region', 'sex']]",
        'Column "region" is in both rows and by: name it in one of them.',
    ),
    (
        "['region'], ['kind'], tables := [['age']]",
        'tables names "age", which is in no dimension: name it in rows, cols or',
    ),
    (
        "['region'], ['kind'], hierarchies := {'age': 'codes'}",
        'hierarchies names "age", which is no dimension of its own',
    ),
    ("['region'], ['kind'], hierarchies := {'kind': 3}", 'The hierarchy of "kind" must be a table, as in hierarchies'),
    ("['region'], ['kind'], count := 'turnover', unit := 'company'", "Rows that stand for several records do not tell"),
    ("['region'], ['kind'], count := 'kind'", 'Column "kind" is in both cols and count: name it in one of them.'),
    ("['region'], [], count := 'kind'", 'Column "kind" is not a number and cannot be count: cast it to BIGINT.'),
    ("['region'], [], count := 'negative'", 'Column "negative" holds a negative number: contributions must be at'),
    ("['region'], [], weight := 'negative'", 'Column "negative" holds a negative number: contributions must be at'),
    ("['region'], [], count := 'half'", 'Column "half" holds numbers that are not whole'),
    ("['region'], [], value := 'turnover', count := 'none'", 'Column "none" holds 0 where "turnover" does not'),
    (
        "['region'], [], widths := {'p%': 10}",
        "widths names 'p%', which is not in rule: choose that rule, or leave it out.",
    ),
    ("['region'], [], widths := {'threshold': 0}", "widths gives percentages of a cell: above 0, and 100 at most."),
    ("['region'], [], widths := 3", "widths must give numbers by name, as in widths := {'p%': 20}."),
    ("['region'], [], q := 30", "q is for rule := 'p%': choose that rule, or leave q out."),
    ("['region'], [], value := 'turnover', rule := 'p%', q := 5", "Nobody is closer to a contribution beforehand"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_what_it_refuses(records: Con, call: str, says: str) -> None:
    records.execute("CREATE TABLE t AS SELECT *, -1 AS negative, 0 AS none, 0.5 AS half FROM records").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(records, f"FROM suppress('t', {call})")
    assert str(raised.value).startswith(f"Invalid Input Error: {says}")


def test_what_one_contributor_gave_to_several_cells(con: Con) -> None:
    """Alone in two cells of a column, a holding is protected in each, and in what the two add up to.

    Its number is 0, whose hash is 0 too.
    """
    con.execute(
        "CREATE TABLE t AS SELECT a, b, v, 100 + row_number() OVER () AS company FROM (VALUES ('x', 1, 50), "
        "('y', 1, 60), ('z', 2, 90), ('z', 1, 80), ('x', 2, 70), ('y', 2, 70)) c(a, b, v), range(4) "
        "UNION ALL VALUES ('p', 1, 40, 0), ('q', 1, 30, 0), ('p', 2, 90, 8), ('q', 2, 95, 9), ('p', 2, 94, 10), "
        "('q', 2, 93, 11)"
    ).fetchall()
    call = (
        "SELECT a, b, suppressed FROM suppress('t', ['a'], ['b'], value := 'v', unit := '{}', n := 2) WHERE suppressed"
    )
    con.execute("ALTER TABLE t ADD COLUMN record INTEGER").fetchall()
    con.execute("UPDATE t SET record = rowid").fetchall()
    apart, together = (set(rows(con, call.format(unit))) for unit in ("record", "company"))
    # The two cells hide each other, and everybody knows their sum: 70.
    assert {row for row in apart if row[1] == 1} == {("p", 1, True), ("q", 1, True)}
    assert len({row for row in together if row[1] == 1}) > 2
