"""group_sizes through SQL: the paper's example, a twin in plain Python, types, and tables of every kind."""

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from tests.functions import counting

# Table 2 of Fioretto, Van Hentenryck and Zhu 2021.
PAPER = [*((i, u, "GA") for i, u in enumerate("ABAAC", 1)), *((i, u, "NY") for i, u in enumerate("DEDDFF", 6))]


@pytest.fixture
def paper(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute('CREATE TABLE users("user" INTEGER, unit VARCHAR, region VARCHAR)').fetchall()
    con.executemany("INSERT INTO users VALUES (?, ?, ?)", PAPER)
    return con


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return con.execute(query).fetchall()


def test_the_paper_s_table_4(paper: duckdb.DuckDBPyConnection) -> None:
    assert rows(paper, "FROM group_sizes('users', 'unit', ['region'])") == [
        *((0, None, 1, 3), (0, None, 2, 1), (0, None, 3, 2)),
        *((1, "GA", 1, 2), (1, "GA", 3, 1)),
        *((1, "NY", 1, 1), (1, "NY", 2, 1), (1, "NY", 3, 1)),
    ]
    assert rows(paper, "FROM group_sizes('users', 'UNIT')") == [(0, 1, 3), (0, 2, 1), (0, 3, 2)]
    described = rows(paper, "DESCRIBE FROM group_sizes('users', 'unit', ['Region'])")
    assert [one[:2] for one in described] == [
        *(("level", "INTEGER"), ("Region", "VARCHAR"), ("size", "BIGINT"), ("groups", "BIGINT"))
    ]


def test_an_empty_table(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE nobody(unit INT, region INT)").fetchall()
    assert rows(con, "FROM group_sizes('nobody', 'unit', ['region'])") == []
    assert rows(con, "FROM group_sizes('nobody', 'unit')") == []


def test_types_and_odd_names(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        'CREATE TABLE "o\'dd" AS SELECT {\'x\': i // 2} AS "the unit", '
        'DATE \'2020-01-01\' + (i // 6)::INTEGER AS "a""b", '
        "[i // 2] AS l, i % 2 = 0 AS flag, 1::UHUGEINT AS u FROM range(18) r(i)"
    ).fetchall()
    found = rows(con, "FROM group_sizes('o''dd', 'The Unit', ['A\"b', 'l'], quantity := 'flag')")
    assert len(found) == 1 + 3 + 9
    assert [one[3:] for one in found if one[0] < 2] == [(1, 9), (1, 3), (1, 3), (1, 3)]
    described = rows(con, "DESCRIBE FROM group_sizes('o''dd', 'The Unit', ['A\"b', 'l'], quantity := 'u')")
    assert [one[:2] for one in described] == [
        *(("level", "INTEGER"), ('A"b', "DATE"), ("l", "BIGINT[]"), ("size", "BIGINT"), ("groups", "BIGINT"))
    ]


def test_names_that_are_ours(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE _dk_units AS SELECT i // 2 AS h1, i // 6 AS u, 1 AS leaf, 1 AS q FROM range(18) r(i)"
    ).fetchall()
    assert rows(con, "FROM group_sizes('_dk_units', 'h1', ['u'])")[:2] == [(0, None, 2, 9), (1, 0, 2, 3)]
    found = rows(con, "FROM group_sizes('_dk_units', 'h1', ['leaf', 'u'], quantity := 'q')")
    assert found[0] == (0, None, None, 2, 9)


def test_a_view_a_cte_a_file_and_a_frame(paper: duckdb.DuckDBPyConnection, tmp_path: Any) -> None:
    expected = rows(paper, "FROM group_sizes('users', 'unit', ['region'])")
    paper.execute("CREATE VIEW v AS FROM users").fetchall()
    paper.execute(f"COPY users TO '{tmp_path}/users.parquet'").fetchall()
    paper.execute("CREATE TEMP TABLE t AS FROM users").fetchall()
    frame = paper.execute("FROM users").df()
    assert len(frame) == 11
    assert paper.execute("FROM group_sizes('frame', 'unit', ['region'])").fetchall() == expected
    for table in ("v", "t", f"{tmp_path}/users.parquet", "memory.main.users"):
        assert rows(paper, f"FROM group_sizes('{table}', 'unit', ['region'])") == expected
    assert rows(paper, "WITH c AS (FROM users) FROM group_sizes('c', 'unit', ['region'])") == expected


def test_a_group_in_two_regions_is_told_by_columns_and_not_by_values(paper: duckdb.DuckDBPyConnection) -> None:
    paper.execute("INSERT INTO users VALUES (12, 'A', 'NY')").fetchall()
    assert rows(paper, "FROM group_sizes('users', 'unit')")
    with pytest.raises(duckdb.InvalidInputException) as raised:
        rows(paper, "FROM group_sizes('users', 'unit', ['region'])")
    said = str(raised.value)
    assert said.startswith('Invalid Input Error: Column "unit" has a value in more than one region of "region": ')
    # The sentence has two ways out, which work as they stand.
    ((each, first),) = re.findall(r"with (.*) as the unit.* with (QUALIFY .*)\.", said)
    paper.execute(f"CREATE VIEW each AS SELECT * REPLACE ({each} AS unit) FROM users")
    paper.execute(f"CREATE VIEW first AS FROM users {first}")
    counted = "SELECT sum(groups) FROM group_sizes('{}', 'unit', ['region']) WHERE level = 0"
    ((before,),) = rows(paper, counted.format("users").replace("['region']", "[]"))
    assert rows(paper, counted.format("each")) == [(before + 1,)]
    assert rows(paper, counted.format("first")) == [(before,)]


PEOPLE = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def module_con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield duckanon.register(con)


@settings(max_examples=25 if settings().max_examples <= 100 else 500)
@given(people=PEOPLE)
def test_twin(module_con: duckdb.DuckDBPyConnection, people: list[tuple[int, int]]) -> None:
    # A unit's county follows from the unit, and the county's state from the county.
    table = [(unit, f"s{unit % 4 // 2}", f"c{unit % 4}", amount) for unit, amount in people]
    values = ", ".join(map(str, table))
    module_con.execute(f"CREATE OR REPLACE TABLE p AS FROM (VALUES {values}) v(unit, state, county, amount)").fetchall()
    for depth, levels in ((0, []), (1, ["state"]), (2, ["state", "county"])):
        for quantity in (False, True):
            columns = [(*row[: depth + 1], row[3]) for row in table]
            summed = ", quantity := 'amount'" if quantity else ""
            found = rows(module_con, f"FROM group_sizes('p', 'unit', {levels or '[]'}{summed})")
            assert found == sorted(counting.group_sizes(columns, depth, quantity=quantity), key=counting.order)
