"""A ledger of the first format is carried over, with all that was spent."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.errors import InvalidInput
from duckanon.governance.journal import journal_path
from duckanon.governance.upgrade import upgrade

# As the first versions made it.
FORMAT_1 = """
CREATE TABLE persons AS SELECT i AS id FROM range(60) r(i);
CREATE SCHEMA duckanon;
CREATE TABLE duckanon.ledger (
  number BIGINT PRIMARY KEY, recorded_at TIMESTAMP NOT NULL, who VARCHAR NOT NULL, schema_name VARCHAR,
  table_name VARCHAR NOT NULL, action VARCHAR NOT NULL, epsilon VARCHAR, what VARCHAR NOT NULL, neighbours VARCHAR,
  release VARCHAR, policy VARCHAR
);
CREATE TABLE duckanon.releases (release VARCHAR PRIMARY KEY, number BIGINT NOT NULL, answer BLOB NOT NULL);
INSERT INTO duckanon.ledger VALUES
  (1, '2026-01-01', 'ann', 'main', 'persons', 'charge', '0.25', 'dp_group_sizes(...)', 'one record', 'a', NULL),
  (2, '2026-01-02', 'ann', 'main', 'persons', 'protect', NULL, 'protect: ...', NULL, NULL, '{"epsilon": "2"}'),
  (3, '2026-01-03', 'bob', 'main', 'Persons', 'charge', '0.5', 'dp_group_sizes(...)', 'one record', 'b', NULL),
  (4, '2026-01-04', 'bob', 'main', 'persons', 'release', NULL, 'k_anonymize(...)', NULL, '{}', NULL),
  (5, '2026-01-05', 'bob', NULL, 'file.csv', 'charge', '1/3', 'dp_group_sizes(...)', 'one record', 'c', NULL);
INSERT INTO duckanon.releases VALUES ('a', 1, '\\x00'::BLOB);
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as con:
        con.execute(FORMAT_1)
    return tmp_path / "x.duckdb"


def test_what_was_spent_stays_spent(path: Path) -> None:
    with (
        duckanon.connect(path, role="steward") as con,
        pytest.raises(duckdb.Error, match="duckanon upgrade FILE carries"),
    ):
        con.execute("FROM privacy_budget()").fetchall()
    found = upgrade(path)
    assert found is not None
    assert found.in_words() == (
        "3 charges carried over, 1/3 on file.csv, 0.5 on main.Persons, 0.25 on main.persons. The old ledger is kept in "
        "the schema duckanon_format_1. Protect its tables again: what was spent on them stays spent. It has 1 of "
        "releases without noise, which later audits do not count: look at them before you publish of the same table."
    )
    assert upgrade(path) is None
    with duckanon.connect(path, role="steward") as con:
        con.execute("SELECT protect('persons', epsilon := 2)").fetchall()
        budget = con.execute("SELECT spent_exact, remaining_exact, charges FROM privacy_budget()").fetchall()
        assert budget == [("0.75", "1.25", 2)]
        assert con.execute("SELECT count(*) FROM duckanon_format_1.ledger").fetchall() == [(5,)]
        assert con.execute("SELECT count(*) FROM duckanon_format_1.releases").fetchall() == [(1,)]
    # An analyst sees neither ledger's tables.
    with duckanon.connect(path, role="analyst") as analyst, pytest.raises(duckanon.errors.DuckanonError):
        analyst.execute("FROM duckanon_format_1.ledger").fetchall()
    assert journal_path(path).read_bytes().count(b'"line"') == 4


def test_others_are_left_as_they_are(path: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.duckdb"
    with duckdb.connect(str(plain)) as con:
        con.execute("CREATE TABLE t (i INTEGER)")
    assert upgrade(plain) is None
    with pytest.raises(InvalidInput, match="There is no database"):
        upgrade(tmp_path / "none")
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE duckanon.meta (name VARCHAR, value VARCHAR)")
        con.execute("INSERT INTO duckanon.meta VALUES ('format', '9')")
    with pytest.raises(InvalidInput, match="A newer version of duckanon wrote the ledger"):
        upgrade(path)
