"""Queries of which no row is asked: they run without a table, and have the columns that the query names."""

from __future__ import annotations

import duckdb
import pytest

from tests.rewrite.guarded import decided


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT age, state FROM persons LIMIT 0", {"age": "INTEGER", "State": "VARCHAR"}),
        ("SELECT p.age AS years, sick FROM persons AS p WHERE 1 = 2", {"years": "INTEGER", "sick": "BOOLEAN"}),
        (
            "SELECT one.age, other.born FROM persons AS one JOIN persons AS other USING (pid) WHERE false",
            {"age": "INTEGER", "born": "DATE"},
        ),
        ("SELECT * FROM (SELECT max(p.income) AS most FROM persons p) AS q LIMIT 0", {"most": "BIGINT"}),
        # An ENUM would tell its values.
        ("SELECT edu FROM persons LIMIT 0", {"edu": "VARCHAR"}),
    ],
)
def test_names_and_types_without_a_row(sql: str, columns: dict[str, str]) -> None:
    found = decided(sql)
    assert found.answers == []
    relation = duckdb.sql(found.sql or "")
    assert relation is not None
    assert dict(zip(relation.columns, map(str, relation.types), strict=True)) == columns
    assert relation.fetchall() == []
