"""The tables that programs are driven on: served by duckanon, and the same in PostgreSQL, which says what is right."""

from __future__ import annotations

from pathlib import Path

import duckanon

# Names and types that both have. `{day}` and the like are written as each of them needs it.
_SHARED = """
CREATE TABLE counties AS SELECT 'c' || i AS county, 'County ' || i AS label FROM {series}(1, {six}) t(i);
CREATE VIEW labels AS SELECT label FROM counties;
CREATE TABLE persons AS
  SELECT i::BIGINT AS id, 'name ' || i AS name, (i % 90)::INTEGER AS age, 'c' || (1 + i % 5) AS county,
    (1000 + i)::DECIMAL(10, 2) AS income, DATE '1950-01-01' + (i % 20000)::INTEGER AS born,
    TIMESTAMP '2024-01-01' + INTERVAL '1 hour' * (i * 7 % 15000)::INTEGER AS visit_ts
  FROM {series}(0, {thousand}) t(i);
CREATE TABLE visits AS
  SELECT i::BIGINT AS visit, (i % 50)::INTEGER AS shop,
    TIMESTAMP '2024-01-01' + INTERVAL '1 hour' * (i * 7)::INTEGER AS visit_ts,
    DATE '2024-01-01' + (i / 10)::INTEGER AS day, (i * 1.5)::DECIMAL(10, 1) AS amount
  FROM {series}(0, {thousand}) t(i);
CREATE TABLE kinds AS
  SELECT 1::SMALLINT AS small, 2::INTEGER AS whole, 3::BIGINT AS big, 4.50::DECIMAL(10, 2) AS exact,
    0.25::DOUBLE PRECISION AS rough, 'Ä€😀'::{text} AS said, true AS yes, DATE '2026-11-22' AS day,
    TIMESTAMP '2026-11-22 13:14:15.5' AS moment, {array}[1, 2, NULL]::INTEGER[] AS list,
    '00000000-0000-0000-0000-000000000001'::UUID AS key, 'ab'::{bytes} AS bytes, NULL::INTEGER AS nothing;
"""
_DUCKDB = _SHARED.replace("(i / 10)", "(i // 10)").format(
    series="range", six=6, thousand=1000, text="VARCHAR", array="", bytes="BLOB"
)
POSTGRESQL = _SHARED.format(series="generate_series", six=5, thousand=999, text="TEXT", array="ARRAY", bytes="BYTEA")
_CLOSED = "CREATE TABLE closed AS SELECT 1 AS hidden;"
_POLICY = """
SELECT open_table('counties');
SELECT open_table('labels');
SELECT open_table('kinds');
SELECT open_table('visits');
SELECT protect('persons', epsilon := 50, per_query := 0.5, public := ['county', 'born', 'visit_ts'],
  domains := {county: 'counties'}, bounds := {born: [DATE '1950-01-01', DATE '1960-12-31'],
    visit_ts: [DATE '2024-01-01', DATE '2025-12-31'], income: [0, 5000, 10]});
"""


def make(path: Path, *more: str) -> Path:
    """The database. more: statements of a steward before the tables are opened and protected."""
    with duckanon.connect(path, role="steward") as con:
        con.execute(_DUCKDB + _CLOSED)
        for one in more:
            con.execute(one)
        con.execute(_POLICY).fetchall()
    return path
