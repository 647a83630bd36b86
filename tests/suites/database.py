"""The suites' databases: the guarded one, and beside it DuckDB's own, which has the records that have an owner."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp

import duckanon
from tests.suites.policies import Suite, protect


def queries(data: Path, suite: Suite, numbers: Collection[int] | None = None) -> dict[int, str]:
    """The queries that read a protected table, by their numbers. numbers: all where they are left out."""

    def wanted(number: int, sql: str) -> bool:
        return (not numbers or number in numbers) and reads_protected(sql, suite)

    texts = {int(path.stem): path.read_text(encoding="utf-8") for path in sorted((data / suite.name).glob("*.sql"))}
    return {number: sql.strip().rstrip(";") for number, sql in texts.items() if wanted(number, sql)}


def reads_protected(sql: str, suite: Suite) -> bool:
    tables = {table.name.lower() for table in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Table)}
    return not tables.isdisjoint(suite.protected)


def make(path: Path, data: Path, suite: Suite, scale: str) -> tuple[Suite, list[str]]:
    """Load a suite's tables with their keys, and protect them: what tests.suites.policies.protect returns."""
    keys = {**suite.open, **{name: table.key for name, table in suite.protected.items()}}
    with duckanon.connect(path, role="steward") as con:
        for name, key in keys.items():
            con.execute(f'CREATE TABLE "{name}" AS {_source(data, suite, scale, name)}').fetchall()
            con.execute(f'ALTER TABLE "{name}" ADD PRIMARY KEY ({", ".join(key)})').fetchall()
        return protect(con, suite)


def exact(data: Path, suite: Suite, scale: str) -> duckdb.DuckDBPyConnection:
    """DuckDB's own tables. A protected one has the records that have an owner, as the suite is protected."""
    con = duckdb.connect(config={"threads": 2})
    con.execute("CREATE SCHEMA source")
    for name in suite.open:
        con.execute(f'CREATE TABLE "{name}" AS {_source(data, suite, scale, name)}')
    for name in suite.protected:
        con.execute(f'CREATE VIEW source."{name}" AS {_source(data, suite, scale, name)}')
    con.execute("SET search_path = 'source'")
    for name in suite.protected:
        con.execute(f'CREATE TABLE main."{name}" AS SELECT * EXCLUDE (owner) FROM ({suite.owned(name)})')
    con.execute("SET search_path = 'main'")
    con.execute("DROP SCHEMA source CASCADE")
    return con


def _source(data: Path, suite: Suite, scale: str, table: str) -> str:
    return f"FROM '{data / f'{suite.name}-{scale}' / table}.parquet'"
