"""Ordinary questions over the wire: the answers, names of columns and refusals that Python gets, as their types say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

import psycopg
import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.server.catalog_names import as_postgresql
from tests.bench.ordinary import make
from tests.guard.test_ordinary import METADATA, QUERIES
from tests.server.served import serving

# Parameters are written otherwise for psycopg, and lists of the catalog are PostgreSQL's.
ASKED = {title: one.sql for title, one in QUERIES.items() if not one.found and not METADATA.search(one.sql)}


@dataclass(frozen=True)
class Answered:
    """What came out: names of columns and rows; or the error."""

    names: list[str]
    rows: list[tuple[Any, ...]]
    error: str = ""


def in_python(path: Path) -> dict[str, Answered]:
    found = {}
    with duckanon.connect(path, role="analyst") as con:
        for title, sql in ASKED.items():
            try:
                rows = con.execute(sql).fetchall()
                found[title] = Answered(as_postgresql(sql, [str(one[0]) for one in con.description]), rows)
            except DuckanonError as error:
                found[title] = Answered([], [], str(error))
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Answered], psycopg.Connection[Any]]]:
    """Python's answers, and a client for which they are given again: an answer is drawn once."""
    path = tmp_path_factory.mktemp("ordinary") / "memory.duckdb"
    make(path)
    own = in_python(path)
    with serving(path, memory="2GB") as served, served.login("ana") as con:
        yield own, con


def test_there_are_enough_of_them() -> None:
    assert len(ASKED) == 139


@pytest.mark.ci("the questions of tests/guard/test_ordinary.py once more, in Python and over the wire")
def test_the_wire_answers_as_python_does(both: tuple[dict[str, Answered], psycopg.Connection[Any]]) -> None:
    own, con = both
    problems = [f"{title}: {said}" for title, sql in ASKED.items() if (said := differs(con, sql, own[title]))]
    assert not problems, "\n".join(problems)


def differs(con: psycopg.Connection[Any], sql: str, own: Answered) -> str:
    """What is not as in Python; empty for nothing."""
    try:
        # (psycopg's types want constants.)
        found = con.execute(sql.encode())
        names, rows = [one.name for one in found.description or ()], found.fetchall()
    except psycopg.Error as error:
        said = error.diag.message_primary or ""
        return "" if said == own.error else f"{said!r} instead of {own.error or own.rows[:2]!r}"
    if own.error:
        return f"{rows[:2]!r} instead of {own.error!r}"
    if names != own.names:
        return f"columns {names} instead of {own.names}"
    mine, theirs = [[*map(plain, row)] for row in rows], [[*map(plain, row)] for row in own.rows]
    if not re.search(r"\bORDER BY\b", sql, re.IGNORECASE):
        mine, theirs = sorted(mine, key=str), sorted(theirs, key=str)
    if len(mine) != len(theirs):
        return f"{len(mine)} rows instead of {len(theirs)}"
    return next((f"{a} instead of {b}" for a, b in zip(mine, theirs, strict=True) if not same(a, b)), "")


def plain(value: Any) -> Any:
    """Numbers as floats, midnights as days, and lists and structs of these: what clients take for equal."""
    if isinstance(value, bool | None):
        return value
    if isinstance(value, int | float | Decimal):
        return float(value)
    if isinstance(value, datetime) and value == datetime(value.year, value.month, value.day):
        return value.date()
    if isinstance(value, date | timedelta):
        return value
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return str(value)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=1e-12, abs_tol=1e-12) or (one != one and other != other)
    return bool(one == other)
