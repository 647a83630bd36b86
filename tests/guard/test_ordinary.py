"""150 ordinary queries: how many are answered, why the others are not, and that answers without noise are DuckDB's."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from math import isclose

import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.governance import answers
from duckanon.releases import mechanisms
from tests.bench.ordinary import make
from tests.guard.truthful import truth
from tests.rewrite.fixtures import Entry, entries

QUERIES = {f"{name}: {one.title}": one for name in ("before", "after") for one in entries(f"ordinary/{name}")}
# Why each of the others is refused. Fewer is better.
REFUSED = {
    # filled in below
}
# Medians of a column with wide steps, and what is computed from squares: told to the step, in shares of the number.
ROUGH = {
    "before: dbt: medians": 0.05,
}
# A query that keeps the first of its rows may keep rows of zeros, and windows count them.
SHIFTED = re.compile(r"\bLIMIT \d{1,2}\b|\blag\(", re.IGNORECASE)
METADATA = re.compile(r"^(DESCRIBE|SHOW|EXPLAIN|CREATE)|information_schema", re.IGNORECASE)

Row = tuple[object, ...]


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("ordinary") / "memory.duckdb"
    make(path)
    with pytest.MonkeyPatch.context() as patch, duckanon.connect(path, role="analyst") as con:
        patch.setattr(mechanisms, "draw", truth)
        patch.setattr(answers, "STRICT", True)
        yield con


def parameters(one: Entry) -> object:
    return eval(one.found[0], {"date": date}) if one.found else None


def test_there_are_150() -> None:
    assert len(QUERIES) == 150
    assert set(REFUSED) <= set(QUERIES)


@pytest.mark.parametrize("title", QUERIES)
def test_what_is_answered_is_what_was_asked(con: duckanon.Analyst, title: str) -> None:
    one = QUERIES[title]
    given = [one.sql] if not one.found else [one.sql, parameters(one)]
    if title in REFUSED:
        with pytest.raises(DuckanonError, match=re.escape(REFUSED[title])):
            con.execute(*given)
        return
    mine, described = con.execute(*given).fetchall(), con.description
    if METADATA.search(one.sql):
        return
    raw = con._con.cursor()
    wanted = raw.execute(*given).fetchall()
    assert [each[0] for each in described] == [each[0] for each in raw.description]
    if SHIFTED.search(one.sql):
        assert len(mine) >= len(wanted)
        return
    rest = without(mine, wanted, ROUGH.get(title, 1e-9))
    # What nobody is in shows as zero, or as a share of nobody.
    assert all(0 in row or None in row for row in rest), rest


def without(mine: list[Row], wanted: list[Row], rough: float) -> list[Row]:
    """The rows that remain when each that is wanted was found once."""
    left: dict[Row, list[Row]] = defaultdict(list)
    for row in mine:
        left[named(row)].append(row)
    for row in wanted:
        fitting = [one for one in left[named(row)] if all(map(lambda a, b: close(a, b, rough), one, row))]
        assert fitting, (row, left[named(row)][:5])
        left[named(row)].remove(fitting[0])
    return [row for rows in left.values() for row in rows]


def named(row: Row) -> Row:
    """What tells a row apart: all but numbers."""
    return tuple(None if is_number(value) else value for value in row)


def is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float | Decimal)


def close(one: object, other: object, rough: float) -> bool:
    if is_number(one) and is_number(other):
        return isclose(float(one), float(other), rel_tol=rough, abs_tol=1e-6)  # type: ignore[arg-type]
    return one == other
