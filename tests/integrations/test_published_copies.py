"""Which files hold the rows of a publication, whatever the types that their kind can give."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from duckanon.integrations.data_files import DataFile
from duckanon.integrations.published_copies import published, readings, same_rows
from duckanon.integrations.report.audited_tables import AuditedTables

COPY = (
    "SELECT code, value::DECIMAL(38, 2) AS value, hidden, day, codes FROM (VALUES "
    "('01', 5.00, false, DATE '2020-01-02', ['a', 'b']), ('02', NULL, true, NULL, ['c']), "
    "('02', NULL, true, NULL, ['c']), (NULL, 12.10, false, DATE '2021-03-04', [])) v(code, value, hidden, day, codes)"
)
CHANGES = [
    "FROM duckanon.made LIMIT 3",
    "FROM duckanon.made UNION ALL FROM duckanon.made LIMIT 5",
    "SELECT DISTINCT * FROM duckanon.made",
    "SELECT * REPLACE (coalesce(value, 7) AS value) FROM duckanon.made",
    "SELECT * REPLACE (value + 0.01 AS value) FROM duckanon.made",
    "SELECT * REPLACE (NOT hidden AS hidden) FROM duckanon.made",
    "SELECT * EXCLUDE (day) FROM duckanon.made",
    "SELECT *, 1 AS more FROM duckanon.made",
]


@pytest.fixture
def database() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(f"CREATE SCHEMA duckanon; CREATE TABLE duckanon.made AS {COPY}")
    return con


def publication_in(con: Any, path: Path) -> object:
    table = DataFile.of(path).load(con, str(path))
    return published(con, readings(con, path, table), [{"name": "made"}])


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "parquet"])
def test_a_publication_is_found_in_every_kind_of_file(
    database: duckdb.DuckDBPyConnection, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"made.{kind}"
    form = "csv, DELIMITER '\t'" if kind == "tsv" else kind
    rows = "SELECT codes, day, hidden, value, code FROM duckanon.made ORDER BY ALL DESC"
    database.execute(f"COPY ({rows}) TO '{path}' (FORMAT {form})")
    assert publication_in(database, path) == {"name": "made"}


def test_numbers_are_compared_as_numbers(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    path = tmp_path / "made.csv"
    shown = "replace(replace(CAST(value AS VARCHAR), '5.00', '5'), '12.10', '12.1') AS value"
    database.execute(f"COPY (SELECT * REPLACE ({shown}) FROM duckanon.made) TO '{path}'")
    assert publication_in(database, path) == {"name": "made"}
    for number, other, same in (("5", "'5.00'", False), ("'5.00'", "5", True), ("50", "5", False), ("5.5", "5", False)):
        assert same_rows(database, f"(SELECT {number} AS n)", f"(SELECT {other} AS n)") == same
    for truth in ("false", "true"):
        assert same_rows(database, f"(SELECT {truth}::INT::DOUBLE AS n)", f"(SELECT {truth} AS n)")
    assert not same_rows(database, "(SELECT 2.0::DOUBLE AS n)", "(SELECT true AS n)")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_changed_file_is_no_publication(
    database: duckdb.DuckDBPyConnection, tmp_path: Path, change: str, kind: str
) -> None:
    path = tmp_path / f"made.{kind}"
    database.execute(f"COPY ({change}) TO '{path}'")
    assert publication_in(database, path) is None


@pytest.mark.parametrize(
    ("columns", "made"),
    [
        (["class_id", "age_lo", "age_hi", "other"], True),
        (["ZIP", "value", "suppressed"], True),
        (["zip_label"], True),
        (["town", "share"], False),
        (["renamed", "value"], True),
    ],
)
def test_a_file_is_of_a_protected_table_by_its_columns(columns: list[str], made: bool) -> None:
    tables = {"main.persons": ["age", "zip"], "main.places": ["town", "share", "other"]}
    assert AuditedTables.of(tables, ["main.Persons"]).has_made(columns) == made
    assert not AuditedTables.of(tables, []).has_made(columns)
