"""The specification of the SQL functions is true of them, and is what their pages say."""

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import duckdb
import pytest

from duckanon.integrations.error_sentences import sentence
from duckanon.specification import Column, Function, functions
from tests.documents import examples
from tests.reference import FUNCTION_PAGES

FUNCTIONS = functions().values()
EXAMPLES = Path(__file__).parents[1] / "sql" / "examples"
each = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)


def test_the_catalog_has_the_same_functions_and_arguments(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute(
        "SELECT function_name, parameters, function_type = 'table_macro' FROM duckdb_functions() "
        "WHERE function_type IN ('macro', 'table_macro') AND NOT internal AND NOT starts_with(function_name, '_dk_')"
    ).fetchall()
    specified = {one.name: ([argument.name for argument in one.arguments], one.is_table) for one in FUNCTIONS}
    assert {name: (parameters, is_table) for name, parameters, is_table in found} == specified


@each
def test_its_example_returns_these_columns(
    con: duckdb.DuckDBPyConnection, function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLES)
    shown = next(one.sql for one in examples(FUNCTION_PAGES / f"{function.name}.md") if f"{function.name}(" in one.sql)
    call = called(shown, function.name)
    for statement in con.extract_statements(shown):
        if function.name in statement.query:
            break
        con.execute(statement.query).fetchall()
    if not function.is_table:
        assert con.execute(f"DESCRIBE SELECT {call} AS said").fetchall()[0][1] == "VARCHAR"
        return
    described = con.execute(f"DESCRIBE FROM {call}").fetchall()
    found = "".join(f"{name} {kind}\n" for name, kind, *_ in described)
    assert re.fullmatch(pattern(function.columns), found), found


def called(sql: str, name: str) -> str:
    """The first call of the function in `sql`, up to the bracket that closes it."""
    begun = sql.index(f"{name}(")
    depth, quoted = 0, False
    for place in range(begun, len(sql)):
        quoted ^= sql[place] == "'"
        depth += 0 if quoted else (sql[place] == "(") - (sql[place] == ")")
        if sql[place] == ")" and not quoted and depth == 0:
            return sql[begun : place + 1]
    raise AssertionError(f"the call of {name} is never closed")


def pattern(columns: Iterable[Column]) -> str:
    """What the columns look like, a line each; neighbours that may be several come in any number and turn."""
    parts = []
    for several, same in groupby(columns, key=lambda column: column.several):
        lines = [_line(column) for column in same]
        parts.append(f"(?:{'|'.join(lines)})+" if several else "".join(lines))
    return "".join(parts)


def _line(column: Column) -> str:
    line = f"{_name(column)} {_type(column)}\n"
    return f"(?:{line})?" if column.optional else line


def _name(column: Column) -> str:
    """The name; what is told in words, such as `the columns of rows`, is any name."""
    return ".+" if " " in column.name else re.escape(column.name).replace("<q>", ".+")


def _type(column: Column) -> str:
    """The type of DuckDB's; what is told in words is any type."""
    told = column.type
    if told.startswith("list of"):
        return r".+\[\]"
    return re.escape(told) if told[0].isupper() else ".+"


def test_they_refuse_what_their_pages_say(con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    for function in FUNCTIONS:
        for refusal in function.refusals:
            with pytest.raises(duckdb.InvalidInputException) as raised:
                con.execute(f"{'FROM' if function.is_table else 'SELECT'} {refusal.call}").fetchall()
            assert str(raised.value) == f"Invalid Input Error: {refusal.says}"


def test_a_call_that_duckdb_does_not_take_is_one_sentence(con: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's own error has all arguments of the macro, with defaults as it prints them."""
    for one in functions().values():
        for given in ("nothing := 1", *([""] if one.needed else [])):
            with pytest.raises(duckdb.BinderException) as caught:
                con.execute(f"FROM {one.name}({given})" if one.is_table else f"SELECT {one.name}({given})")
            said = sentence(caught.value)
            assert said == one.usage
            assert ":=" not in said
            assert all(name in said for name in one.needed)


def test_an_analyst_may_call_these_and_no_others() -> None:
    """Which functions, and which of their arguments name tables: what the guard checks, so it is written out twice."""
    assert {one.name: one.tables for one in FUNCTIONS if one.analysts} == {
        "cell_bounds": {"tbl", "known"},
        "cell_key": {"tbl", "ptable"},
        "cell_key_table": set(),
        "cell_values": {"tbl", "known"},
        "conditional_bounds": {"tbl"},
        "disclosure_report": {"tbl"},
        "dp_group_sizes": {"tbl", "regions"},
        "editions": set(),
        "explain_privacy": set(),
        "group_sizes": {"tbl"},
        "k_anonymize": {"tbl", "within"},
        "k_compare": {"tbl"},
        "k_report": {"tbl", "population"},
        "methods": set(),
        "metric_mechanism": {"tbl", "loss", "distances", "destinations"},
        "metric_perturb": {"tbl", "mechanism"},
        "metric_report": {"mechanism", "tbl", "loss", "distances", "destinations"},
        "policies": set(),
        "prepared": set(),
        "privacy_budget": set(),
        "privacy_ledger": set(),
        "publications": set(),
        "suppress": {"tbl", "apriori"},
        "table_designs": {"tbl"},
    }


@each
def test_it_is_told_in_words(function: Function) -> None:
    assert function.summary.endswith((".", "?"))
    assert all(one.meaning for one in function.arguments)
    assert all(one.meaning for one in function.columns)
    assert function.refusals or not any(one.required for one in function.arguments[1:]), "show what is refused"
