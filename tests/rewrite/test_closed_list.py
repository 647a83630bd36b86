"""The closed list of functions in filters: what is on it, what is tried here on every type's extreme values, and what
the page lists are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from duckanon.rewrite.algebra.scalars import ARITHMETIC, FUNCTIONS, OTHER_NAMES
from tests.rewrite.test_filters import COLUMNS, KINDS, VALUES, admitted, chosen, fill

PAGE = Path(__file__).parents[2] / "docs" / "analyst.md"
# Each function of the list as it is called, with {} for a column.
CALLS = {
    **{name: [f"{name}({{}})"] for name in ("lower", "upper", "reverse", "length", "strlen")},
    **{name: [f"{name}({{}})", f"{name}({{}}, 'a7')"] for name in ("trim", "ltrim", "rtrim")},
    **{name: [f"{name}({{}}, 'a')", f"{name}({{}}, '')"] for name in ("starts_with", "ends_with", "contains")},
    **{name: [f"{name}({{}}, {many})" for many in (0, 1, -1, 1_000_000)] for name in ("left", "right")},
    "substring": [f"substring({{}}, {part})" for part in ("1", "0, 2", "-2", "-1000000, 1000000", "3, 0")],
    "date_trunc": [
        f"date_trunc('{unit}', {{}})"
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century")
    ],
    **{name: [f"{name}({{}})"] for name in ("floor", "ceil", "round", "abs")},
    "neg": ["- {}"],
    **{
        name: [f"{name}({{}})", f"date_part('{name}', {{}})", f"extract({name} FROM {{}})"]
        for name in ("year", "quarter", "month", "day", "dayofweek", "isodow", "dayofyear", "decade", "century", "week")
    },
    **{name: [f"date_part('{name}', {{}})"] for name in ("isoyear", "yearweek", "hour", "minute")},
}
_NUMBERS = ("1", "-1", "0.5", "9223372036854775807")
OPERATORS = {
    sign: [f"{{}} {sign} {number}" for number in _NUMBERS] + [f"{number} {sign} {{}}" for number in _NUMBERS]
    for sign in ("+", "-", "*", "/", "//", "%")
}
CASTS = [f"CAST({{}} AS {kind})" for kind in KINDS]
# What the page calls otherwise than DuckDB does.
_ON_THE_PAGE = {"+", "-", "*", "/", "//", "%", "CASE", "if", "coalesce", "CAST(x AS DATE)", "^@"}


def test_the_list_is_what_is_tried() -> None:
    assert set(CALLS) == set(FUNCTIONS)
    assert set(OPERATORS) == set(ARITHMETIC)


def test_the_list_is_what_the_page_lists() -> None:
    table = PAGE.read_text(encoding="utf-8").split("| functions of | allowed |", 1)[1].split("\n\n", 1)[0]
    told = set(re.findall(r"`([^`]+)`", table)) - {"extract", "date_part"} - _ON_THE_PAGE
    assert told == set(FUNCTIONS) - {"neg"}


def value(name: str, at: int) -> str | None:
    """The second column of a type has the next value of the first."""
    values = [*VALUES[COLUMNS[name]], None]
    return values[(at + name.endswith("b")) % len(values)]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A table in which each type has each of its values, and NULL."""
    with duckdb.connect() as made:
        made.execute(f"CREATE TABLE t (id INTEGER, {', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
        most = max(map(len, VALUES.values()))
        fill(made, [{name: value(name, at) for name in COLUMNS} for at in range(most + 1)])
        yield made


@pytest.mark.parametrize("name", [*CALLS, *OPERATORS, "CAST"])
def test_functions_of_the_list_never_fail(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """And are what DuckDB's own are, where these do not fail."""
    written = 0
    for call in {**CALLS, **OPERATORS, "CAST": CASTS}[name]:
        for at in range(len(KINDS)):
            asked = f"({call.format(f'c{at}a')}) = ({call.format(f'c{at}b')})"
            found = admitted(asked)
            if found is not None:
                written += 1
                mine, plain = chosen(con, found), chosen(con, asked)
                assert mine is not None, asked
                assert plain in (None, mine), asked
    assert written > 0


@pytest.mark.parametrize("other", OTHER_NAMES)
def test_other_names_mean_the_same(other: str) -> None:
    """Each name under which a function of the list is known is either refused or written as that function."""
    name = OTHER_NAMES[other]
    for call in CALLS.get(name, [f"{name}('year', {{}})"]):
        for at in map(KINDS.index, ("VARCHAR", "DATE", "TIMESTAMP", "DOUBLE")):
            found = admitted(call.format(f"c{at}a").replace(f"{name}(", f"{other}(", 1) + " IS NULL")
            assert found in (None, admitted(call.format(f"c{at}a") + " IS NULL"))
