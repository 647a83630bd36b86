"""Asks a suite's queries of the guard as an analyst, and compares what is answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time
from unittest.mock import patch

import duckdb
import sqlglot
from sqlglot import exp

import duckanon
from duckanon.errors import DuckanonError
from duckanon.releases import mechanisms
from duckanon.rewrite.decision import Decision
from tests.guard.truthful import truth
from tests.suites import compare, database
from tests.suites.policies import Suite

DECISIONS = 3


@dataclass(frozen=True)
class Outcome:
    """What became of a query. why: the refusal, or how the answer differs. rows: of DuckDB's answer without LIMIT."""

    suite: str
    query: int
    answered: bool
    equal: bool
    why: str
    rows: int
    ms: float

    @property
    def line(self) -> str:
        verdict = ("equal" if self.equal else "NOT EQUAL") if self.answered else "refused"
        return f"{self.query:3} {verdict:9} {self.ms:6.0f} ms  {self.why}"


def ask(path: Path, data: Path, suite: Suite, scale: str, queries: Mapping[int, str]) -> Iterator[Outcome]:
    """path: the guarded database. suite: as it is protected there."""
    with (
        patch.object(mechanisms, "draw", truth),
        duckanon.connect(path, role="analyst") as con,
        database.exact(data, suite, scale) as exact,
    ):
        for number, sql in queries.items():
            decision, ms = decide(con, sql)
            if decision.query is None:
                yield Outcome(suite.name, number, False, False, decision.steps[0].reason, 0, ms)
                continue
            why, rows = differs(con, exact, suite, sql)
            yield Outcome(suite.name, number, True, not why, why or f"{rows} rows", rows, ms)


def decide(con: duckanon.Analyst, sql: str) -> tuple[Decision, float]:
    """The decision, and its CPU milliseconds. The text differs each time, since decided texts are remembered."""
    decision, took = con.explain(sql), []
    for at in range(1, DECISIONS + 1):
        start = process_time()
        con.explain(sql + " " * at)
        took.append(1000 * (process_time() - start))
    return decision, median(took)


def differs(con: duckanon.Analyst, exact: duckdb.DuckDBPyConnection, suite: Suite, sql: str) -> tuple[str, int]:
    """How the answer differs from DuckDB's own, or an empty text; and how many rows DuckDB's own has."""
    asked = compare.unlimited(sql)
    theirs = exact.execute(asked).fetchall()
    try:
        con.execute(sql).fetchall()
        mine = con.execute(asked).fetchall()
    except (DuckanonError, duckdb.Error) as error:
        return f"failed: {str(error).partition(chr(10))[0]}", len(theirs)
    assert con.decision is not None
    step = compare.step([one.reason for one in con.decision.steps])
    kinds = compare.columns(asked, schema(exact))
    found = compare.difference(mine, theirs, kinds, compare.Rounding(step, records(exact, suite, sql)))
    return f"{found.wrong}: {found.row}"[:200] if found else "", len(theirs)


def schema(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    listed = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
    for table, column, kind in con.execute(listed).fetchall():
        found.setdefault(table, {})[column] = kind
    return found


def records(con: duckdb.DuckDBPyConnection, suite: Suite, sql: str) -> int:
    """How many records the largest protected table of a query has."""
    read = {table.name.lower() for table in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Table)}
    sizes = [con.execute(f'SELECT count(*) FROM "{name}"').fetchone() for name in read & set(suite.protected)]
    return max(size for (size,) in filter(None, sizes))
