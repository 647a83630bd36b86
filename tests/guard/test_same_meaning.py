"""What the guard writes means what was written: rows, names and refusals are DuckDB's own, for functions and syntax."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot.dialects.duckdb import DuckDB

import duckanon
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.allowed import FUNCTIONS, WINDOWS
from duckanon.rewrite.same_meaning import difference
from tests.amounts import sampled
from tests.guard.residents import analyst, decide
from tests.rewrite.fixtures import FIXTURES

TABLE = (
    "CREATE TABLE t AS SELECT i AS a, nullif('x' || i % 3, 'x2') AS s, DATE '2020-02-28' + i::INT AS d, "
    "[i, 2, 3] AS l, '{\"a\": 1}' AS j FROM range(6) r(i); SELECT open_table('t')"
)
SYNTAX = [
    one for one in (FIXTURES / "rewrite" / "syntax.sql").read_text(encoding="utf-8").splitlines() if one[:2] != "--"
]
# What the guard refuses, though DuckDB answers: fewer is better.
REFUSED = (
    "@ -5", "5!", "a IN [1, NULL]", "*COLUMNS", "FOR x IN (*)", "s.upper()", "$$abc$$",
    "BY +1", ", +1", "SELECT +a",
)  # fmt: skip
# Columns without a name whose name is not DuckDB's: spellings that mean the same, and full names of tables.
OTHER_NAMES = (
    "position('x' IN s)",
    "(SELECT max(a) FROM t)",
    "NULLS LAST)",
    "2 ** 3",
    "NOT a IS NULL",
    "1_000",
    "ARRAY[1, 2]",
)
# An argument of each type that DuckDB's functions have.
SAMPLES = {
    "VARCHAR": "'aXb'", "INTEGER": "3", "BIGINT": "3", "DOUBLE": "0.5", "FLOAT": "0.5::FLOAT", "BOOLEAN": "true",
    "DATE": "DATE '2020-02-29'", "TIMESTAMP": "TIMESTAMP '2020-02-29 10:20:30'", "INTERVAL": "INTERVAL '3 days'",
    "TIME": "TIME '10:20:30'", "BLOB": "'ab'::BLOB", "BIT": "'1010'::BIT", "HUGEINT": "3::HUGEINT",
    "JSON": "'[1]'::JSON",
    "UTINYINT": "3::UTINYINT", "SMALLINT": "3::SMALLINT", "UBIGINT": "3::UBIGINT", "DECIMAL": "1.25",
    "UUID": "'00000000-0000-7000-8000-000000000001'::UUID", "ANY": "'aXb'", "T": "3", "LAMBDA": "x -> x",
    "T[]": "[3, 1, 2]", "ANY[]": "[3, 1, 2]", "VARCHAR[]": "['a', 'b']", "BIGINT[]": "[1, 2]",
    "BOOLEAN[]": "[true, false]",
    "MAP(K, V)": "MAP {'a': 1}", "STRUCT": "{'a': 1}", "K": "'a'", "V": "1", "DOUBLE[]": "[0.5]",
}  # fmt: skip
# Results that are another at each call, or of each process.
_CHANGING = frozenset(
    """random uuid uuidv4 uuidv7 gen_random_uuid now current_timestamp get_current_timestamp transaction_timestamp
    current_time get_current_time current_localtime current_localtimestamp reservoir_quantile""".split()
)
# The first arguments of these are units of time or names of what to do.
_FIRST = {
    **dict.fromkeys(
        "date_trunc datetrunc date_part datepart date_diff datediff date_sub datesub".split(),
        ("'mon'", "'week'", "'y'"),
    ),
}

Outcome = tuple[list[str], list[Any]] | None
# DuckDB 1 writes some forms into its trees in two ways, so more are refused there.
IS_OLD = duckdb.__version__.startswith("1.")


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("same") / "x.duckdb"
    decide(path, TABLE)
    with analyst(path) as con:
        yield con


def own(con: duckanon.Analyst, sql: str) -> Outcome:
    """DuckDB's own names and rows; None if it refuses."""
    raw = con._con.cursor()
    try:
        rows = raw.execute(sql).fetchall()
    except duckdb.Error:
        return None
    return [one[0] for one in raw.description], sorted(map(repr, rows)) if "ORDER BY" not in sql else rows


def guarded(con: duckanon.Analyst, sql: str) -> Outcome:
    """The same through the guard."""
    try:
        rows = con.execute(sql).fetchall()
    except (UnsupportedQuery, duckdb.Error):
        return None
    return [one[0] for one in con.description], sorted(map(repr, rows)) if "ORDER BY" not in sql else rows


def plain(con: duckanon.Analyst, sql: str) -> Outcome:
    """The twin: what ran when sqlglot's own reading was written, and nothing compared it with the text."""
    try:
        return own(con, sqlglot.parse_one(sql, read="duckdb").sql("duckdb", normalize_functions=False))
    except sqlglot.errors.SqlglotError:
        return None


def calls(con: duckanon.Analyst) -> Iterator[tuple[str, str]]:
    """The names that sqlglot knows or DuckDB has and analysts may call, each with calls of it."""
    raw = con._con.cursor()
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name, types, more in raw.execute(
        "SELECT DISTINCT function_name, coalesce(parameter_types, []), varargs FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'aggregate', 'macro')"
    ).fetchall():
        if name in FUNCTIONS - WINDOWS and name.isidentifier():
            given = tuple(SAMPLES.get(str(one).split("(")[0], SAMPLES.get(str(one), "'aXb'")) for one in types)
            found[name] |= {given} | ({(*given, SAMPLES.get(more, "'c'"))} if more else set())
    known = {one.lower() for one in (*DuckDB.Parser.FUNCTIONS, *DuckDB.Parser.FUNCTION_PARSERS)}
    for name in sorted(found.keys() | (known & (FUNCTIONS - WINDOWS))):
        more = {(), ("'aXb'",), ("3",), ("'aXb'", "'X'"), ("3", "2"), ("[3, 1]", "1"), ("'aXb'", "'X'", "'i'")}
        more |= {
            ("'aXb'", "2", "1"),
            ("'aXb'", "'x'", "'y'", "'gi'"),
            ("d", "s", "3"),
            ("a", "'1'"),
            ("s", "'X1'", "0.1"),
            ("s", "'X1'"),
        }
        for given in sorted(found[name])[:6] + sorted(more):
            yield name, f"SELECT {name}({', '.join(given)}) FROM t"
            for unit in _FIRST.get(name, ()):
                yield name, f"SELECT {name}({', '.join([unit, *given[1:]])}) FROM t"


@pytest.fixture(scope="module", params=sampled(range(3), every=3))
def outcomes(con: duckanon.Analyst, request: pytest.FixtureRequest) -> list[tuple[str, str, Outcome, Outcome]]:
    """Of each third call the function's name, its text, DuckDB's own answer and the guard's."""
    third = list(calls(con))[request.param :: 3]
    return [(name, sql, own(con, sql), guarded(con, sql)) for name, sql in third]


def same_rows(name: str, wanted: Outcome, told: Outcome) -> bool:
    """Whether an answer is DuckDB's. A refusal is no wrong answer."""
    return told is None or (wanted is not None and (told[1] == wanted[1] or name in _CHANGING))


def test_each_function_means_the_same(outcomes: list[tuple[str, str, Outcome, Outcome]]) -> None:
    wrong = [sql for name, sql, wanted, told in outcomes if not same_rows(name, wanted, told)]
    assert wrong == []
    # DuckDB 1.4 names a list that is written in brackets main.list_value(3), and the two are parsed alike.
    named = [(sql, _short(wanted[0]), _short(told[0])) for _, sql, wanted, told in outcomes if wanted and told]
    assert [sql for sql, names, ours in named if names != ours] == []


def _short(names: list[str]) -> list[str]:
    return [one.replace("main.list_value(", "list_value(") for one in names] if IS_OLD else names


def test_few_calls_are_refused(outcomes: list[tuple[str, str, Outcome, Outcome]]) -> None:
    refused = {sql for _, sql, wanted, told in outcomes if wanted is not None and told is None}
    assert len(refused) < (30 if IS_OLD else 15), sorted(refused)


@pytest.mark.long("that the comparison finds another meaning: a test of the test")
def test_the_twin_without_a_comparison_answers_something_else(con: duckanon.Analyst) -> None:
    answers = ((name, own(con, sql), plain(con, sql)) for name, sql in calls(con))
    wrong = {name for name, wanted, told in answers if wanted is not None and not same_rows(name, wanted, told)}
    assert "jaro_winkler_similarity" in wrong


@pytest.mark.parametrize("sql", SYNTAX)
def test_syntax_means_the_same(con: duckanon.Analyst, sql: str) -> None:
    told, wanted = guarded(con, sql), own(con, sql)
    if wanted is None or any(one in sql for one in REFUSED):
        assert told is None
    elif told is None:
        assert IS_OLD
    else:
        assert told[1] == wanted[1]
        assert told[0] == wanted[0] or any(one in sql for one in OTHER_NAMES)


@pytest.mark.parametrize(
    "sql",
    ["SELECT 1 BETWEEN SYMMETRIC 3 AND 0", "SELECT a FROM t FOR UPDATE", "SELECT 'a' 'b'"],
)
def test_the_twin_answers_what_duckdb_refuses(con: duckanon.Analyst, sql: str) -> None:
    assert own(con, sql) is None
    assert plain(con, sql) is not None
    with pytest.raises((UnsupportedQuery, duckdb.Error)):
        con.execute(sql)


def test_the_part_that_is_read_otherwise_is_quoted(con: duckanon.Analyst) -> None:
    with pytest.raises(UnsupportedQuery, match=r"does not read this part as DuckDB does.*\[1, NULL\]"):
        con.execute("SELECT s, a IN [1, NULL] FROM t")


def test_positions_and_spellings_are_no_difference(con: duckanon.Analyst) -> None:
    trees = con._con.cursor()

    def tree(sql: str) -> Any:
        return json.loads(trees.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0][0])

    for one, other, same in [
        ("SELECT   a+1", "SELECT (a + 1)", True),
        ("SELECT a FROM t ORDER BY a NULLS LAST", "SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t ORDER BY a NULLS FIRST", "SELECT a FROM t ORDER BY a", False),
        ("SELECT a::INT", "SELECT a::BIGINT", False),
        ("SELECT 'a_b'", "SELECT 'ab'", False),
        ("SELECT a - (b - c)", "SELECT a - b - c", False),
    ]:
        assert (difference(one, tree(one), tree(other)) is None) is same, one
