"""The last gate's refusals quote the analyst's own text, and nothing of views and macros."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import duckanon
from duckanon.errors import DuckanonError


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("calls") / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        for one in (
            "CREATE TABLE t AS SELECT i AS id, i % 3 AS k FROM range(30) r(i)",
            "CREATE TABLE shops AS SELECT 'a' AS shop",
            "CREATE TYPE mood AS ENUM ('ok')",
            "CREATE MACRO upper(x) AS lower(x)",
            "CREATE MACRO hidden(x) AS getvariable(x)",
            "CREATE VIEW moods AS SELECT shop, 'ok'::mood AS own, getvariable('SECRET') AS v FROM shops",
            "SELECT protect('t', epsilon := 9, per_query := 1, public := ['k'], domains := {'k': [0, 1, 2]})",
            "SELECT open_table('shops'), open_table('moods')",
        ):
            con.execute(one).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


@pytest.mark.parametrize(
    ("sql", "part", "why"),
    [
        ("SELECT shop, GetEnv( 'HOME' ) FROM shops", "GetEnv( 'HOME' )", "not one of those"),
        ("SELECT shop FROM shops WHERE getvariable('a') = 1", "getvariable('a')", "not one of those"),
        ("SELECT 'ok' :: mood, 1 FROM shops", "'ok' :: mood", "somebody made"),
        ("SELECT k, low( 3 ) FROM (SELECT k, count(*) AS n FROM t GROUP BY k)", "low( 3 )", "where these are computed"),
        (
            "SELECT k, n, high(n) FROM (SELECT k, count(*) AS n FROM t GROUP BY k)",
            "high(n)",
            "where these are computed",
        ),
    ],
)
def test_the_part_is_quoted(con: duckanon.Analyst, sql: str, part: str, why: str) -> None:
    with pytest.raises(DuckanonError) as refused:
        con.execute(sql)
    found = re.match(r"`([^`]*)` cannot be answered\. (.*)", str(refused.value))
    assert found is not None, str(refused.value)
    assert found[1] == part
    assert why in found[2]


@pytest.mark.parametrize("sql", ["SELECT * FROM moods", "SELECT hidden('x')", "SELECT shop FROM moods WHERE v = 'y'"])
def test_nothing_of_a_view_or_macro_is_named(con: duckanon.Analyst, sql: str) -> None:
    with pytest.raises(DuckanonError) as refused:
        con.execute(sql)
    assert not re.search("mood\\b|getenv|getvariable|SECRET", str(refused.value))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nothing FROM t AS q(a)",
        "(SELECT t, error(k) FROM t q(a))",
        "SELECT q FROM t AS q(a, b)",
        "WITH w AS (SELECT nothing FROM t AS q(a)) FROM w",
        "SELECT shop, (SELECT nothing FROM t AS q(a) LIMIT 1) FROM shops",
    ],
)
def test_records_under_new_names_are_refused_in_words(con: duckanon.Analyst, sql: str) -> None:
    with pytest.raises(DuckanonError):
        con.execute(sql)
