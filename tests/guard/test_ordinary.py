"""150 ordinary queries: how many are answered, why the others are not, and that answers without noise are DuckDB's."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from math import isclose
from typing import Any

import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.governance import answers
from duckanon.releases import mechanisms
from tests.amounts import sampled
from tests.bench.ordinary import make
from tests.guard.truthful import truth
from tests.rewrite.fixtures import Entry, entries

QUERIES = {f"{name}: {one.title}": one for name in ("before", "after") for one in entries(f"ordinary/{name}")}
# Why each of the others is refused. Fewer is better.
REFUSED = {
    # Records themselves, or values of single records: no noise of any width would make them useful.
    "after: bi: Metabase preview of rows": "Records of persons are protected.",
    "after: bi: Superset preview of a table": "Records of adult are protected.",
    "after: hand: the ten best paid": "Records of persons are protected.",
    "after: bi: Metabase largest and smallest": "shows the value of a single record",
    "after: hand: most common occupation": "shows something of single records",
    # The pairs of 36,525 and 2,192 days are more keys than persons.
    "after: hand: age at arrival": "The answer would have more than 1,000,000 combinations of values",
}
# Medians halfway between two values: told to a step of the policy.
HALFWAY = {"before: dbt: medians", "after: hand: quartiles of income"}
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


@pytest.mark.parametrize("title", sampled(QUERIES, every=4))
def test_what_is_answered_is_what_was_asked(con: duckanon.Analyst, title: str) -> None:
    one = QUERIES[title]
    given: list[Any] = [one.sql] if not one.found else [one.sql, parameters(one)]
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
    rest = without(mine, wanted, 500 if title in HALFWAY else 1e-6)
    # What nobody is in shows as zero, or as a share of nobody.
    assert all(0 in row or None in row for row in rest), rest


def without(mine: list[Row], wanted: list[Row], within: float) -> list[Row]:
    """The rows that remain when each that is wanted was found once."""
    left: dict[Row, list[Row]] = defaultdict(list)
    for row in mine:
        left[named(row)].append(row)
    for row in wanted:
        fitting = [one for one in left[named(row)] if all(close(a, b, within) for a, b in zip(one, row, strict=True))]
        assert fitting, (row, left[named(row)][:5])
        left[named(row)].remove(fitting[0])
    return [row for rows in left.values() for row in rows]


def named(row: Row) -> Row:
    """What tells a row apart: all but numbers and lists of them."""
    return tuple(None if is_number(value) or isinstance(value, list) else day(value) for value in row)


def day(value: object) -> object:
    """A day, also of its midnight: date_trunc of a DATE is a DATE in DuckDB 1 and here, a TIMESTAMP in DuckDB 2."""
    if isinstance(value, datetime) and value == datetime(value.year, value.month, value.day):
        return value.date()
    return value


def is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float | Decimal)


def close(one: object, other: object, within: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(close(a, b, within) for a, b in zip(one, other, strict=True))
    if is_number(one) and is_number(other):
        return isclose(float(one), float(other), rel_tol=1e-9, abs_tol=within)  # type: ignore[arg-type]
    return day(one) == day(other)
