"""The closed list of functions in filters: what is on it, what is tried here on every type's extreme values, and what
the page lists are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import duckdb
import pytest

from duckanon.catalog.snapshot import Catalog
from duckanon.errors import DuckanonError
from duckanon.releases.available import AvailableReleases
from duckanon.releases.measures import Number, Sums
from duckanon.rewrite.admit import admit
from duckanon.rewrite.algebra.scalars import ARITHMETIC, FUNCTIONS, OTHER_NAMES
from duckanon.rewrite.algebra.times import PARTS, UNITS
from duckanon.rewrite.decide import decide
from duckanon.specification import table_functions
from tests.amounts import sampled
from tests.rewrite.test_filters import CATALOG, COLUMNS, HELD, KINDS, TABLE, TODAY, VALUES, admitted, chosen, fill

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "analyst.md"
# Each function of the list as it is called, with {} for a column.
CALLS = {
    **{name: [f"{name}({{}})"] for name in ("lower", "upper", "reverse", "length", "strlen")},
    **{name: [f"{name}({{}})", f"{name}({{}}, 'a7')"] for name in ("trim", "ltrim", "rtrim")},
    **{name: [f"{name}({{}}, 'a')", f"{name}({{}}, '')"] for name in ("starts_with", "ends_with", "contains")},
    **{name: [f"{name}({{}}, {many})" for many in (0, 1, -1, 1_000_000)] for name in ("left", "right")},
    "glob": ["{} GLOB '*[a-c7]?'", "{} GLOB '[!'", "{} GLOB ''"],
    "like_escape": ["{} LIKE 'a!_%' ESCAPE '!'", "{} NOT LIKE '%!!' ESCAPE '!'", "{} LIKE '_' ESCAPE '%'"],
    "ilike_escape": ["{} ILIKE 'A!_%' ESCAPE '!'", "{} NOT ILIKE '%!!' ESCAPE '!'"],
    "regexp_matches": ["regexp_matches({}, '^[a-z]+\\d{{1,3}}|x$')", "regexp_matches({}, 'A', 'i')"],
    "regexp_full_match": ["regexp_full_match({}, '.*(a|b)*?')", "{} SIMILAR TO '[^a]*'", "{} NOT SIMILAR TO 'a?'"],
    "strpos": ["strpos({}, 'a')", "instr({}, '')", "position('7' IN {})"],
    "split_part": [f"split_part({{}}, '{by}', {part})" for by in ("a", "") for part in (1, 2, -1)],
    "substring": [f"substring({{}}, {part})" for part in ("1", "0, 2", "-2", "-1000000, 1000000", "3, 0")],
    "date_trunc": [
        f"date_trunc('{unit}', {{}})"
        for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century")
    ],
    **{name: [f"{name}({{}})"] for name in ("floor", "ceil", "round", "abs", "sign", "trunc", "date")},
    "epoch": ["epoch({})", "extract(epoch FROM {})", "date_part('epoch', {})"],
    "strftime": ["strftime({}, '%Y-%m-%d')", "strftime({}, '%Y%m%d %H:%M:%S.%f %g %p %I %j 100%%')"],
    "neg": ["- {}"],
    **{name: [f"{name}({{}})"] for name in ("dayname", "monthname", "last_day")},
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
# Also twice, and at the ends of time.
IN_ZONES = {
    "timezone": [f"{{}} AT TIME ZONE '{zone}'" for zone in ("Europe/Berlin", "Asia/Kolkata", "Pacific/Apia")]
    + [
        "{} AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE 'America/New_York'",
        "date_trunc('week', {}) AT TIME ZONE 'Asia/Tokyo'",
    ]
}
# Functions of two moments, with {0} and {1} for these.
OF_TWO = {
    "date_diff": [f"date_diff('{unit}', {{0}}, {{1}}) {end}" for unit in UNITS for end in ("> 1", "IS NULL", "< 0")],
    "date_sub": [f"date_sub('{unit}', {{0}}, {{1}}) {end}" for unit in UNITS for end in ("> 1", "< 0")],
    "age": [
        *(f"age({{0}}, {{1}}) {end}" for end in ("> INTERVAL 3 MONTH", "<= INTERVAL 40 YEAR", "= INTERVAL 30 DAY")),
        *(f"extract({part} FROM age({{0}}, {{1}})) >= 1" for part in PARTS), "epoch(age({0}, {1})) < 86400",
    ],
    "-": [
        "{0} - {1} > 3", "{0} - {1} BETWEEN 0 AND 30", "{0} - {1} > INTERVAL 3 DAY", "{0} - {1} < INTERVAL 1 MONTH",
        *(f"extract({part} FROM {{0}} - {{1}}) >= 1" for part in PARTS), "extract(epoch FROM {0} - {1}) > 3600",
    ],
    "+": [
        *(f"{{0}} {compared} {{1}} {sign} INTERVAL {by}" for compared in ("<", ">=", "=") for sign in ("+", "-")
          for by in ("3 DAY", "1 MONTH", "250 YEAR", "36 HOUR")),
        "{0} + 30 < {1}", "{0} - 30 = {1}", "{0} BETWEEN {1} AND {1} + INTERVAL 3 YEAR", "{0} < {1}", "{0} = {1}",
    ],
}  # fmt: skip
MOMENTS = {
    "DATE": [
        "-infinity", "infinity", "5877642-06-25 (BC)", "5881580-07-10", "290309-12-22 (BC)", "290000-12-31",
        "140000-12-31", "0044-03-15 (BC)", "2024-01-31", "2024-02-29", "2026-02-28", "2026-03-31", "9999-12-31",
    ],
    "TIMESTAMP": [
        "-infinity", "infinity", "294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00", "140000-12-31 00:00:00",
        "140000-01-01 (BC) 00:00:00", "0044-03-15 (BC) 01:00:00", "2024-02-29 23:59:59.999999", "2024-02-29 00:00:00",
        "2026-02-28 12:00:00", "2026-03-30 12:00:00",
    ],
}  # fmt: skip
CASTS = [f"CAST({{}} AS {kind})" for kind in KINDS]
# What the page calls otherwise than DuckDB does.
_ON_THE_PAGE = {
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "CASE",
    "if",
    "coalesce",
    "CAST(x AS DATE)",
    "CAST(x AS TIMESTAMP)",
    "^@",
    "LIKE",
    "ESCAPE",
    "GLOB",
    "SIMILAR TO",
}


def test_the_list_is_what_is_tried() -> None:
    assert set(CALLS) == set(FUNCTIONS)
    assert set(OPERATORS) == set(ARITHMETIC)


def test_the_list_is_what_the_page_lists() -> None:
    table = PAGE.read_text(encoding="utf-8").split("| functions of | allowed |", 1)[1].split("\n\n", 1)[0]
    told = set(re.findall(r"`([^`]+)`", table)) - {"extract", "date_part"} - _ON_THE_PAGE
    assert told == set(FUNCTIONS) - {"neg", "glob", "like_escape", "ilike_escape"} | {
        "date_diff",
        "date_sub",
        "age",
        "time_bucket",
    }


def value(name: str, at: int) -> str | None:
    """The second column of a type has the next value of the first."""
    values = [*VALUES[COLUMNS[name]], None]
    return values[(at + name.endswith("b")) % len(values)]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A table in which each type has each of its values, and NULL."""
    with duckdb.connect() as made:
        made.execute("SET TimeZone = 'UTC'")
        made.execute(f"CREATE TABLE t (id INTEGER, {', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
        most = max(map(len, VALUES.values()))
        fill(made, [{name: value(name, at) for name in COLUMNS} for at in range(most + 1)])
        yield made


@pytest.mark.parametrize("name", sampled([*CALLS, *OPERATORS, *IN_ZONES, "CAST"]))
def test_functions_of_the_list_never_fail(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """And are what DuckDB's own are, where these do not fail."""
    written = 0
    for call in {**CALLS, **OPERATORS, **IN_ZONES, "CAST": CASTS}[name]:
        for at in range(len(KINDS)):
            asked = f"({call.format(f'c{at}a')}) = ({call.format(f'c{at}b')})"
            found = admitted(asked)
            if found is not None:
                written += 1
                mine, plain = chosen(con, found), chosen(con, asked)
                assert mine is not None, asked
                assert plain in (None, mine), asked
    assert written > 0


@pytest.fixture(scope="module")
def pairs() -> Iterator[duckdb.DuckDBPyConnection]:
    """A table in which each moment stands beside each other one."""
    at = {kind: f"c{KINDS.index(kind)}" for kind in MOMENTS}
    with duckdb.connect() as made:
        for kind, values in MOMENTS.items():
            listed = ", ".join(f"(CAST('{one}' AS {kind}))" for one in values)
            made.execute(f"CREATE TABLE {kind}s AS SELECT x FROM (VALUES {listed}, (NULL)) v(x)").fetchall()
        made.execute(
            f"CREATE TABLE pairs AS SELECT row_number() OVER () AS id, a.x AS {at['DATE']}a, b.x AS {at['DATE']}b, "
            f"c.x AS {at['TIMESTAMP']}a, d.x AS {at['TIMESTAMP']}b FROM dates a, dates b, timestamps c, timestamps d "
            "WHERE hash(a.x, b.x, c.x, d.x) % 8 = 0 OR (c.x IS NULL AND d.x IS NULL) OR (a.x IS NULL AND b.x IS NULL)"
        ).fetchall()
        yield made


@pytest.mark.parametrize("name", OF_TWO)
def test_what_is_computed_of_two_moments_never_fails(pairs: duckdb.DuckDBPyConnection, name: str) -> None:
    """Each pair of extreme values, infinite ones too. Within 139,000 years it is DuckDB's own."""
    written = 0
    for first, second in product(MOMENTS, repeat=2):
        columns = f"c{KINDS.index(first)}a", f"c{KINDS.index(second)}b"
        near = " AND ".join(
            f"({one} IS NULL OR {one} BETWEEN '139000-01-01 (BC)' AND '139000-01-01')" for one in columns
        )
        pairs.execute(f"CREATE OR REPLACE TEMP TABLE near AS FROM pairs WHERE {near}").fetchall()
        for call in OF_TWO[name]:
            asked = call.format(*columns)
            found = admitted(asked)
            if found is not None:
                written += 1
                pairs.execute(f"SELECT count(*) FROM pairs WHERE {found}").fetchall()
                mine, plain = (f"SELECT id FROM near WHERE {one}" for one in (found, asked))
                differing = pairs.execute(f"({mine} EXCEPT {plain}) UNION ({plain} EXCEPT {mine})").fetchall()
                assert not differing, asked
    assert written > 0


@pytest.mark.parametrize("other", OTHER_NAMES)
def test_other_names_mean_the_same(other: str) -> None:
    """Each name under which a function of the list is known is either refused or written as that function."""
    name = OTHER_NAMES[other]
    for call in CALLS.get(name, [f"{name}('year', {{}})"]):
        for at in map(KINDS.index, ("VARCHAR", "DATE", "TIMESTAMP", "DOUBLE")):
            found = admitted(call.format(f"c{at}a").replace(f"{name}(", f"{other}(", 1) + " IS NULL")
            assert found in (None, admitted(call.format(f"c{at}a") + " IS NULL"))


# --- numbers that are added up ----------------------------------------------------------------------------------------

_OF_MOMENTS = [
    *(f"{name}('{unit}', {{0}}, {{1}})" for name in ("date_diff", "date_sub") for unit in UNITS),
    *(f"extract({part} FROM {of})" for part in PARTS for of in ("age({0}, {1})", "{0} - {1}", "age({0})")),
    "epoch({0} - {1})",
    "extract(hour FROM {0} - TIMESTAMP '2021-02-03 04:05:06')", "extract(day FROM INTERVAL '40 days')", "{0} - {1}",
]  # fmt: skip


def ends(kind: str) -> tuple[str, ...]:
    """The bounds of a column of a type, which are far from its extreme values."""
    return ("2020-01-01", "2022-12-31") if kind in MOMENTS else ("0", "7") if kind == "VARCHAR" else ("-5", "5")


POLICY = replace(HELD.policy, bounds={name: ends(kind) for name, kind in COLUMNS.items()})
BOUNDED = Catalog(search=CATALOG.search, protected={TABLE: replace(HELD, policy=POLICY)})
# Of types that are alike one.
SUMMED = ["TINYINT", "BIGINT", "HUGEINT", "DECIMAL(5,2)", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"]


def added(expression: str) -> Number | None:
    """What is taken of a record for the sum of an expression; None where it is refused."""
    asked = admit(f"SELECT sum({expression}) FROM t")
    try:
        decision = decide(asked, BOUNDED, table_functions(), AvailableReleases(), TODAY)
    except DuckanonError:
        return None
    (question,) = decision.answers
    found = [one.number for one, _ in question.measures if isinstance(one, Sums)]
    return found[0] if found else None


def check_ends(con: duckdb.DuckDBPyConnection, table: str, expressions: Sequence[str]) -> int:
    """How many of the expressions can be added up: of no record more than the noise is made for is taken."""
    written = 0
    for expression in expressions:
        number = added(expression)
        if number is not None:
            written += 1
            taken = f"SELECT {number.sql} AS v FROM {table}"
            ((low, high),) = con.execute(f"SELECT min(v), max(v) FROM ({taken})").fetchall()
            assert low is None or 0 <= low <= high <= number.steps, expression
    return written


@pytest.mark.parametrize("name", sampled([*OPERATORS, *CALLS, "CAST"], every=6))
def test_what_is_added_up_is_bounded(con: duckdb.DuckDBPyConnection, name: str) -> None:
    calls = {**CALLS, **OPERATORS, "CAST": CASTS}[name]
    places = [KINDS.index(one) for one in SUMMED]
    check_ends(con, "t", [call.format(f"c{at}a") for call in calls for at in places])


def test_what_is_added_up_of_two_moments_is_bounded(pairs: duckdb.DuckDBPyConnection) -> None:
    of = [(f"c{KINDS.index(a)}a", f"c{KINDS.index(b)}b") for a, b in product(MOMENTS, repeat=2)]
    assert check_ends(pairs, "pairs", [one.format(*two) for one in _OF_MOMENTS for two in of]) > 40
