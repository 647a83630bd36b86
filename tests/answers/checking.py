"""Whether a statement's answer without noise is DuckDB's own, as far as rounding to steps allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import duckdb
import pytest

import duckanon
from duckanon.releases import mechanisms
from tests.guard.truthful import truth
from tests.suites import compare
from tests.suites.asking import schema

# An analyst's connection without noise, and DuckDB's own to the same records.
Both: TypeAlias = tuple[duckanon.Analyst, duckdb.DuckDBPyConnection]


def statements(path: str) -> list[str]:
    """The statements of a file."""
    return [one.strip() for one in Path(path).read_text(encoding="utf-8").split(";\n") if one.strip()]


def made(path: Path, *scripts: str) -> Path:
    """A database that a steward made by scripts of statements."""
    with duckanon.connect(path, role="steward", config={"threads": 1}) as steward:
        steward.execute("SELECT setseed(0.25)").fetchall()
        for one in (one for script in scripts for one in script.split(";\n") if one.strip()):
            steward.execute(one).fetchall()
    return path


@contextmanager
def without_noise(path: Path) -> Iterator[duckanon.Analyst]:
    """An analyst's connection whose answers have no noise."""
    with pytest.MonkeyPatch.context() as patch, duckanon.connect(path, role="analyst") as found:
        patch.setattr(mechanisms, "draw", truth)
        yield found


@contextmanager
def beside_duckdb(path: Path, records: str, calls: str) -> Iterator[Both]:
    """Two connections. records, calls: SQL that makes the records, and a steward's calls."""
    with duckdb.connect() as plain, without_noise(made(path, records, calls)) as con:
        plain.execute(records)
        yield con, plain


def check(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str, records: int) -> None:
    """records: how many of them a number is of, at most."""
    # Any of tied rows may be shown by LIMIT, and rows of zeros take places.
    asked = compare.unlimited(sql)
    con.execute(sql).fetchall()
    mine, theirs = con.execute(asked).fetchall(), plain.execute(asked).fetchall()
    assert con.decision is not None
    step = compare.step([one.reason for one in con.decision.steps])
    kinds = compare.columns(asked, schema(plain))
    assert compare.difference(mine, theirs, kinds, compare.Rounding(step, records)) is None
