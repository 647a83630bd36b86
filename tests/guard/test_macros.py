"""Macros with the names of built-in functions, operators and values: nobody reaches what stands behind them."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import duckdb
import pytest

import duckanon
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from tests.amounts import sampled

VALUE = "(SELECT max(secret) FROM closed)"
# The name of a macro, and statements in which DuckDB calls it.
CALLED = {
    "sha1": ["SELECT sha1('a')", "VALUES (sha1('a'))", "SELECT 1 WHERE sha1('a') > 'a'", "FROM (SELECT sha1('a'))"],
    "+": ["SELECT 1 + 1", "SELECT size + 1 FROM cities"],
    "list_extract": ["SELECT [1, 2][1]"],
    "||": ["SELECT 'a' || 'b'"],
    "current_date": ["SELECT current_date", "SELECT CURRENT_DATE FROM cities", "SELECT current_date()"],
    "get_current_timestamp": ["SELECT current_timestamp"],
    "get_current_time": ["SELECT current_time"],
    "current_localtime": ["SELECT localtime"],
    "current_localtimestamp": ["SELECT localtimestamp"],
    "current_user": ["SELECT current_user", "SELECT user"],
    "current_database": ["SELECT current_catalog", "SELECT current_database()"],
    "current_schema": ["SELECT current_schema", "SELECT (SELECT current_schema)"],
    "session_user": ["SELECT session_user"],
    "user": ["SELECT user"],
    "upper": ["SELECT 'a'.upper()", "SELECT upper(state) FROM cities", "CREATE TEMP TABLE t AS SELECT upper('a')"],
}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("closed") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE closed AS SELECT 'canary' AS secret; CREATE TABLE cities AS SELECT 'S1' AS state, 1 AS size; "
            "SELECT open_table('cities'), protect('closed', epsilon := 1)"
        ).fetchall()
    return path


@pytest.mark.parametrize("name", sampled(CALLED))
def test_a_macro_with_the_name_of_something_built_in_opens_nothing(name: str, closed: Path, tmp_path: Path) -> None:
    """With or without a table in the statement, called as a function, an operator or a value."""
    path = copyfile(closed, tmp_path / "x.duckdb")
    with duckdb.connect(str(path)) as plain:
        plain.execute(f'CREATE MACRO "{name}"() AS {VALUE}, (a) AS {VALUE}, (a, b) AS {VALUE}').fetchall()
    with duckanon.connect(path, role="analyst") as con:
        for sql in CALLED[name]:
            try:
                told = str(con.execute(sql).fetchall())
            except (PolicyRefusal, UnsupportedQuery, duckdb.Error) as error:
                told = str(error)
            assert "canary" not in told, sql
        assert con.execute("SELECT 1 AS one, 'a', NULL").fetchall() == [(1, "a", None)]
