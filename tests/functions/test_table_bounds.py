"""table_bounds in SQL: against the list of all tables, against its one-table siblings, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations_with_replacement, product

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import duckanon
from tests.amounts import many
from tests.engines.tables.plain import Publication, bounds
from tests.engines.tables.strategies import Case, cases
from tests.engines.tables.test_published import CZECH, UPPER

NAMES = "abcd"


def create(con: duckdb.DuckDBPyConnection, one: Publication) -> str:
    """The table as SQL holds it, and the struct that names it."""
    columns = [f"{NAMES[v]} INTEGER" for v in one.scope]
    con.execute(f"CREATE OR REPLACE TABLE {one.name} ({', '.join([*columns, 'value VARCHAR'])})").fetchall()
    for cell, value in one.cells.items():
        con.execute(
            f"INSERT INTO {one.name} VALUES ({', '.join('?' * (len(cell) + 1))})",
            [*cell, None if value is None else str(value)],
        ).fetchall()
    fields = {"tbl": repr(one.name), "vars": str(listed(one.variables)), "value": "'value'"}
    if one.given:
        fields["given"] = str(listed(one.given))
    if one.to is not None:
        fields["digits" if one.kind == "shares" and one.given else "base"] = str(one.to)
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}"


def listed(variables: Iterable[int]) -> list[str]:
    return [NAMES[v] for v in variables]


def as_sql_says(case: Case) -> Case:
    """SQL knows no table that lists some cells only, and none that is known to list no zero."""
    return replace(
        case, published=tuple(replace(one, complete=True, shown=False, ties="any") for one in case.published)
    )


def can_be_said(case: Case) -> bool:
    return all(one.complete and (one.kind == "counts" or one.given) for one in case.published) and all(
        any(v in one.scope for one in case.published) for v in case.target
    )


@settings(max_examples=many(60), deadline=None)
@given(cases().filter(can_be_said).map(as_sql_says), st.booleans())
def test_bounds_are_those_of_all_tables(case: Case, reverse: bool) -> None:
    expected = bounds(case.levels, case.published, [case.n], case.target)
    with duckdb.connect() as con:
        duckanon.register(con)
        tables = [create(con, one) for one in case.published]
        if reverse:
            tables = tables[::-1]
        target = listed(case.target)
        found = con.execute(
            f"FROM table_bounds([{', '.join(tables)}], n := {case.n}, target := {target}, small := 3)"
        ).fetchall()
    told = {row[: len(target)]: row[len(target) :] for row in found}
    assert list(told) == sorted(told)
    for cell, (low, high) in expected.items():
        assert told.pop(cell, (0, 0, True, False)) == (low, high, True, low >= 1 and high < 3)
    assert not told


@pytest.fixture
def wards(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE people AS SELECT ['A', 'B', NULL][1 + i % 3] AS ward, i % 7 < 3 AS ill, i % 2 AS sex "
        "FROM range(41) r(i)"
    ).fetchall()
    return con


@pytest.mark.parametrize(("number", "more"), [("count(*) / sum(count(*)) OVER (PARTITION BY ward)", ""),
    ("round(count(*) / sum(count(*)) OVER (PARTITION BY ward), 2)", "digits := 2")])  # fmt: skip
def test_one_table_of_shares_is_conditional_bounds(wards: duckdb.DuckDBPyConnection, number: str, more: str) -> None:
    wards.execute(f"CREATE TABLE s AS SELECT ward, ill, {number} AS p FROM people GROUP BY ward, ill").fetchall()
    siblings = wards.execute(
        f"SELECT ward, ill, lower, upper FROM conditional_bounds('s', ['ward'], ['ill'], 'p', 41, {more})"
        if more
        else "SELECT ward, ill, lower, upper FROM cell_bounds('people', ['ward'], ['ill'])"
    ).fetchall()
    field = f", {more.replace(':=', ':')}" if more else ""
    found = wards.execute(
        "SELECT ward, ill, lower, upper FROM table_bounds("
        f"[{{tbl: 's', vars: ['ill'], given: ['ward'], value: 'p'{field}}}], n := 41, target := ['ward', 'ill'])"
    ).fetchall()
    assert found == siblings
    assert len(found) == 6


def test_tables_of_every_kind(wards: duckdb.DuckDBPyConnection) -> None:
    """A CTE, a view, a frame; values of their own types; names in any case."""
    wards.execute(
        'CREATE VIEW v AS SELECT ill AS "ILL", sex, count(*)::DOUBLE AS n FROM people GROUP BY ALL'
    ).fetchall()
    frame = wards.execute("SELECT ward, ill, count(*)::VARCHAR AS n FROM people GROUP BY ALL").df()  # noqa: F841
    found = wards.sql(
        "WITH c AS (SELECT ward, sex FROM people) SELECT * FROM table_bounds([{tbl: 'v', vars: ['ill', 'sex'], value: "
        "'n'}, {tbl: 'frame', vars: ['ward', 'Ill'], value: 'n'}, {tbl: 'c', vars: ['ward', 'sex']}])"
    )
    assert found.columns == ["ill", "sex", "ward", "lower", "upper", "exact", "disclosed"]
    assert [str(kind) for kind in found.types[:3]] == ["BOOLEAN", "BIGINT", "VARCHAR"]
    rows = found.fetchall()
    counted = wards.execute("SELECT ill, sex, ward, count(*) FROM people GROUP BY ALL").fetchall()
    true = {tuple(row[:3]): row[3] for row in counted}
    assert len(rows) == 12
    for *cell, lower, upper, exact, _ in rows:
        assert lower <= true.get(tuple(cell), 0) <= upper
        assert exact


@pytest.mark.parametrize(
    ("tables", "more", "sentence"),
    [
        ("[{tbl: 'ws', vars: ['ward', 'sex'], value: 'n'}, {tbl: 'wx', vars: ['ward', 'ill'], value: 'n'}]", "",
         "The tables 'ws' and 'wx' contradict each other: no records have them all."),
        ("[{tbl: 'ws', vars: ['ward', 'sex'], value: 'n'}]", ", n := 40",
         "The counts of the table ws add up to another number of records than n: correct one of them."),
        ("[{tbl: 'p', vars: ['ill'], given: ['ward'], value: 'p'}]", "",
         "The shares of 'p' are DOUBLE, and no table tells how many records there are: give n."),
        ("[{tbl: 'd', vars: ['ill'], given: ['ward'], value: 'p', digits: 2}]", "",
         "No table tells how many records there are: give n."),
        ("[{tbl: 'ws', vars: ['ward'], value: 'n'}]", "",
         "The table 'ws' has a cell more than once: give one number for each combination."),
        ("[{tbl: 'ws', vars: ['ward', 'sex'], value: 'ward'}]", "",
         'Column "ward" cannot be both value and one that identifies a cell'),
        ("[{tbl: 'ws', vars: ['ward', 'sex'], value: 'm'}]", "", 'There is no column "m" in ws'),
        ("[{tbl: 'text', vars: ['ward'], value: 'n'}]", "", "A number of the table 'text' cannot be read"),
        ("[{tbl: 'people', vars: ['ward']}, {tbl: 'other', vars: ['ward']}]", "",
         'Column "ward" of other has another type than in a table before it: cast it to VARCHAR.'),
        ("[{tbl: 'people', vars: ['ward'], digits: 2}]", "", "digits are for shares"),
        ("[{tbl: 'people', vars: ['ill'], given: ['ward'], value: 'p', base: 5}]", "", "base is for counts"),
        ("[{tbl: 'people', vars: ['ward'], given: ['ward'], value: 'p'}]", "", "A column is both in vars and in given"),
        ("[{vars: ['ward']}]", "", "A table has no tbl"),
        ("['people']", "", "tables must be made of structs"),
        ("[{tbl: 'people', vars: ['ward']}]", ", n := 0", "n must be 1 or more"),
        ("[{tbl: 'empty', vars: ['ward'], value: 'n'}]", "", "The table 'empty' has no rows"),
        ("[{tbl: 'wide', vars: ['a']}, {tbl: 'wide', vars: ['b']}]", "",
         "The cross-classification that ties these tables and the target together has more than 3,000,000 cells"),
    ],
)  # fmt: skip
def test_bad_input(wards: duckdb.DuckDBPyConnection, tables: str, more: str, sentence: str) -> None:
    wards.execute("CREATE TABLE ws AS SELECT ward, sex, count(*) AS n FROM people GROUP BY ALL").fetchall()
    wards.execute("CREATE TABLE wx AS SELECT ward, ill, count(*) + (ward = 'A')::INT - (ward = 'B')::INT AS n "
                  "FROM people WHERE ward IS NOT NULL GROUP BY ward, ill").fetchall()  # fmt: skip
    wards.execute(
        "CREATE TABLE p AS SELECT ward, ill, count(*) / sum(count(*)) OVER (PARTITION BY ward) AS p FROM people "
        "GROUP BY ward, ill"
    ).fetchall()
    wards.execute("CREATE TABLE d AS SELECT ward, ill, round(p, 2)::DECIMAL(3, 2) AS p FROM p").fetchall()
    wards.execute("CREATE TABLE text AS SELECT 'A' AS ward, 'much' AS n").fetchall()
    wards.execute("CREATE TABLE other AS SELECT 1 AS ward; CREATE TABLE empty AS FROM ws LIMIT 0").fetchall()
    wards.execute("CREATE TABLE wide AS SELECT i AS a, i AS b FROM range(2000) r(i)").fetchall()
    with pytest.raises(duckdb.InvalidInputException) as raised:
        wards.execute(f"FROM table_bounds({tables}{more})").fetchall()
    assert str(raised.value).removeprefix("Invalid Input Error: ").startswith(sentence)


def test_the_czech_autoworkers(con: duckdb.DuckDBPyConnection) -> None:
    """Dobra and Fienberg 2000: upper bounds from [BF][ABCE][ADE], and no lower ones."""
    con.execute("CREATE TABLE workers (A INTEGER, B INTEGER, C INTEGER, D INTEGER, E INTEGER, F INTEGER, n BIGINT)")
    cells = [[*map(int, cell), int(n)] for cell, n in np.ndenumerate(CZECH)]
    con.executemany("INSERT INTO workers VALUES (?, ?, ?, ?, ?, ?, ?)", cells).fetchall()
    tables = []
    for by in ("BF", "ABCE", "ADE"):
        con.execute(f"CREATE TABLE {by} AS SELECT {', '.join(by)}, sum(n) AS n FROM workers GROUP BY ALL").fetchall()
        tables.append(f"{{tbl: '{by}', vars: {list(by)}, value: 'n'}}")
    found = con.execute(
        f"SELECT lower, upper, exact FROM table_bounds([{', '.join(tables)}], target := ['F', 'E', 'D', 'C', 'B', 'A'])"
    ).fetchall()
    rows = [part.split() for part in UPPER.replace("\n", "|").split("|") if part.strip()]
    published = np.array(rows, dtype=np.int64).reshape((2,) * 6).transpose(0, 1, 2, 3, 4, 5)
    assert found == [(0, upper, True) for upper in published.ravel().tolist()]


@pytest.mark.parametrize("target", [["c"], ["b"], ["a", "c"], ["b", "c"]])
@pytest.mark.parametrize("rows", ["('x', 0, 1.0), ('x', 1, 0.7), ('y', 1, 0.3)", "('x', 1, 0.5), ('y', 1, 0.5)"])
def test_shares_that_contradict_counts_are_noticed_for_any_target(
    con: duckdb.DuckDBPyConnection, rows: str, target: list[str]
) -> None:
    con.execute("CREATE TABLE counted AS FROM (VALUES (0, 0, 1), (0, 1, 1), (1, 1, 1)) t(a, c, n)").fetchall()
    con.execute(f"CREATE TABLE shared AS SELECT b, c, s::DOUBLE AS s FROM (VALUES {rows}) t(b, c, s)").fetchall()
    tables = [
        "{tbl: 'counted', vars: ['a', 'c'], value: 'n'}",
        "{tbl: 'shared', vars: ['b'], given: ['c'], value: 's', digits: 1}",
    ]
    for listed in (tables, tables[::-1]):
        with pytest.raises(duckdb.InvalidInputException, match="contradict each other"):
            con.execute(f"FROM table_bounds([{', '.join(listed)}], target := {target})").fetchall()


def test_suppressed_tables_of_further_dimensions_and_linked_ones(con: duckdb.DuckDBPyConnection) -> None:
    """As published by publish's audit: the least and the largest of all records that have what is shown."""
    con.execute(
        "CREATE TABLE people AS SELECT i % 2 AS a, i // 2 % 2 AS b, i // 4 % 2 AS c FROM range(9) r(i) WHERE i <> 3"
    ).fetchall()
    con.execute(
        "CREATE TABLE hidden AS FROM suppress('people', ['a'], ['b'], by := [['c']], n := 2, "
        "tables := [['a', 'b'], ['b', 'c']])"
    ).fetchall()
    one = "{tbl: 'hidden', vars: ['a', 'b', 'c'], value: 'value', suppressed: 'suppressed'}"
    found = con.execute(f"SELECT lower, upper FROM table_bounds([{one}]) ORDER BY a, b, c").fetchall()
    shown = con.execute("SELECT a, b, c, value FROM hidden").fetchall()
    cells = list(product((0, 1), repeat=3))
    worlds = np.array([np.bincount(at, minlength=8) for at in combinations_with_replacement(range(8), 8)])
    for *place, number in shown:
        inside = [all(level in (None, own) for level, own in zip(place, cell, strict=True)) for cell in cells]
        held = worlds[:, inside].sum(axis=1)
        worlds = worlds[held > 0 if number is None else held == number]
    assert found == list(zip(worlds.min(axis=0).tolist(), worlds.max(axis=0).tolist(), strict=True))
    assert any(low < high for low, high in found)


@pytest.mark.parametrize("lists", ["['a'], ['b']", "['b'], ['a']", "['b'], [], by := [['a']]"])
def test_suppressed_tables_by_codes(con: duckdb.DuckDBPyConnection, lists: str) -> None:
    """The least and the largest of all records that have what is shown; z lies higher than the codes of x."""
    con.execute("CREATE TABLE codes AS FROM (VALUES ('p', 'x'), ('q', 'x'), ('x', 'w'), ('z', NULL)) v(code, parent)")
    con.execute(
        "CREATE TABLE people AS SELECT ['p', 'q', 'z'][1 + i % 3] AS a, i // 3 % 2 AS b FROM range(9) r(i) WHERE i <> 1"
    ).fetchall()
    call = f"suppress('people', {lists}, hierarchies := {{'a': 'codes'}}, n := 2)"
    con.execute(f"CREATE TABLE hidden AS FROM {call}").fetchall()
    named = ["a", "b"] if lists.index("'a'") < lists.index("'b'") else ["b", "a"]
    one = f"{{tbl: 'hidden', vars: {named}, value: 'value', suppressed: 'suppressed', hierarchies: {{'a': 'codes'}}}}"
    answer = con.execute(f"SELECT a, b, lower, upper FROM table_bounds([{one}], target := ['a', 'b'])").fetchall()
    cells = list(product("pqz", (0, 1)))
    below = {None: "pqz", "w": "pq", "x": "pq", "p": "p", "q": "q", "z": "z"}
    worlds = np.array([np.bincount(at, minlength=6) for at in combinations_with_replacement(range(6), 8)])
    for a, b, number in con.execute("SELECT a, b, value FROM hidden").fetchall():
        held = worlds[:, [own[0] in below[a] and b in (None, own[1]) for own in cells]].sum(axis=1)
        worlds = worlds[held > 0 if number is None else held == number]
    expected = zip(worlds.min(axis=0).tolist(), worlds.max(axis=0).tolist(), strict=True)
    assert {(a, b): (low, high) for a, b, low, high in answer} == {
        cell: ends for cell, ends in zip(cells, expected, strict=True) if ends[1]
    }
    assert any(low < high for *_, low, high in answer)


def test_codes_that_a_suppressed_table_lacks_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE codes AS FROM (VALUES ('p', 'x'), ('q', 'x')) v(code, parent)").fetchall()
    con.execute("CREATE TABLE people AS SELECT ['p', 'q'][1 + i % 2] AS a FROM range(9) r(i)").fetchall()
    con.execute("CREATE TABLE hidden AS FROM suppress('people', ['a'], [], hierarchies := {'a': 'codes'})").fetchall()
    con.execute("DELETE FROM codes WHERE code = 'q'").fetchall()
    for more, says in [
        ("hierarchies: {'a': 'codes'}", "holds a value that its hierarchy lacks"),
        ("hierarchies: {'b': 'codes'}", 'hierarchies names "b", which is not in vars'),
        ("hierarchies: {'a': 3}", "hierarchies of a table must give tables by column"),
    ]:
        one = f"{{tbl: 'hidden', vars: ['a'], value: 'value', suppressed: 'suppressed', {more}}}"
        with pytest.raises(duckdb.InvalidInputException, match=says):
            con.execute(f"FROM table_bounds([{one}])").fetchall()


@pytest.mark.parametrize(
    ("rows", "cols", "by", "more"),
    [
        ("sc", "x", ["mc"], ""),
        ("mc", "", ["sc", "x"], ""),
        ("x", "mc", ["sc"], ""),
        ("sc", "x", ["mc"], ", tables := [['c'], ['m', 'x']]"),
    ],
)
def test_suppressed_tables_of_two_hierarchies_over_one_dimension(
    con: duckdb.DuckDBPyConnection, rows: str, cols: str, by: list[str], more: str
) -> None:
    """The least and the largest of all records that have what is shown; each c is in an s and an m, one c is NULL."""
    con.execute(
        "CREATE TABLE people AS SELECT nullif(c, 3) AS c, c % 2 AS s, c // 2 AS m, x FROM "
        "(SELECT i % 4 AS c, i // 4 % 2 AS x FROM range(13) r(i) WHERE i NOT IN (1, 7))"
    ).fetchall()
    call = f"suppress('people', {list(rows)}, {list(cols)}, by := {list(map(list, by))}, n := 2{more})"
    con.execute(f"CREATE TABLE hidden AS FROM {call}").fetchall()
    named = list(dict.fromkeys(rows + cols + "".join(by)))
    one = f"{{tbl: 'hidden', vars: {named}, value: 'value', suppressed: 'suppressed'}}"
    answer = con.execute(f"SELECT c, s, m, x, lower, upper FROM table_bounds([{one}], n := 11)").fetchall()
    cells = [{"c": None if c == 3 else c, "s": c % 2, "m": c // 2, "x": x} for c in range(4) for x in (0, 1)]
    worlds = np.array([np.bincount(at, minlength=8) for at in combinations_with_replacement(range(8), 11)])
    hidden = con.execute("SELECT * FROM hidden")
    names = [column[0] for column in hidden.description or ()]
    for shown in (dict(zip(names, values, strict=True)) for values in hidden.fetchall()):
        levels = [shown["row_level"], shown["col_level"], *shown["by_level"]]
        used = {name for one, level in zip([rows, cols, *by], levels, strict=True) for name in one[: level or 0]}
        held = worlds[:, [all(shown[name] == cell[name] for name in used) for cell in cells]].sum(axis=1)
        worlds = worlds[held > 0 if shown["suppressed"] else held == shown["value"]]
    expected = zip(worlds.min(axis=0).tolist(), worlds.max(axis=0).tolist(), strict=True)
    assert {tuple(place): (low, high) for *place, low, high in answer} == {
        tuple(cell.values()): ends for cell, ends in zip(cells, expected, strict=True) if ends[1]
    }
    assert any(low < high for *_, low, high in answer)


def test_a_suppressed_table_leaves_what_its_audit_says(con: duckdb.DuckDBPyConnection) -> None:
    """With its totals, and with another table besides; cells are told by levels, not by NULL."""
    con.execute(
        "CREATE TABLE people AS SELECT nullif(i % 5, 4) AS town, (i // 5) % 3 AS sex FROM range(80) r(i) "
        "WHERE NOT (i % 5 = 1 AND (i // 5) % 3 = 1 AND i > 20)"
    ).fetchall()
    con.execute("CREATE TABLE audited AS FROM suppress('people', ['town'], ['sex'], audit := true)").fetchall()
    con.execute("CREATE TABLE hidden AS SELECT * EXCLUDE (status, true_value, lower, upper) FROM audited").fetchall()
    one = "{tbl: 'hidden', vars: ['town', 'sex'], value: 'value', suppressed: 'suppressed'}"
    found = con.execute(f"SELECT town, sex, lower, upper FROM table_bounds([{one}]) WHERE lower < upper").fetchall()
    audited = (
        "SELECT town, sex, lower::BIGINT, upper::BIGINT FROM audited WHERE suppressed AND row_level + col_level = 2"
    )
    assert sorted(found, key=str) == sorted(con.execute(audited).fetchall(), key=str)
    assert len(found) == 4
    con.execute("CREATE TABLE n AS SELECT town, sex, count(*) AS n FROM people WHERE town = 1 GROUP BY ALL").fetchall()
    con.execute("CREATE TABLE p AS SELECT town, sex, n + 1 AS n FROM n").fetchall()
    more = "{tbl: 'p', vars: ['town', 'sex'], value: 'n', max_deviation: 1}"
    con.execute(
        "INSERT INTO p SELECT town, sex, count(*) FROM people WHERE town IS DISTINCT FROM 1 GROUP BY ALL"
    ).fetchall()
    both = con.execute(
        f"SELECT town, sex, lower, upper FROM table_bounds([{one}, {more}]) WHERE lower < upper"
    ).fetchall()
    true = {(t, s): n for t, s, n in con.execute("SELECT town, sex, count(*) FROM people GROUP BY ALL").fetchall()}
    assert all(low <= true[town, sex] <= high for town, sex, low, high in both)
    assert len(both) <= len(found)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("suppressed: 'hidden', base: 5", "suppressed and max_deviation are for counts that are not rounded"),
        ("max_deviation: 0", "max_deviation is 1 or more"),
        (
            "max_deviation: 2, suppressed: 'hidden'",
            "max_deviation is 1 or more, and for counts that cell_key perturbed",
        ),
    ],
)
def test_masked_tables_that_are_refused(con: duckdb.DuckDBPyConnection, more: str, says: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match=says):
        con.execute(f"FROM table_bounds([{{tbl: 'x', vars: ['a'], value: 'n', {more}}}])").fetchall()
