"""Every listed function has a value for all extreme values of its arguments' types: DuckDB's own, of the type said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import pytest

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Stored
from duckanon.catalog.types import reach, step
from duckanon.rewrite.algebra import filters
from duckanon.rewrite.algebra.constants import in_sql
from duckanon.rewrite.algebra.filters import NotTotal
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.recognize import Schema, relation
from tests.rewrite.test_filters import ENUM, VALUES, WHOLE, quote

TODAY = date(2026, 2, 28)
EXTREMES = {
    **VALUES,
    "VARCHAR": [*VALUES["VARCHAR"], "x" * 70_000, "a\0b", "\0", "  a ", "\U0010ffff", "\u0301", "a\u0301" * 9, "\n\t",
                "ﬀ", "ſ", "\u200d", "👩‍👩‍👧‍👦", "ǆ"],
    "DATE": [*VALUES["DATE"], "5881580-07-10", "290309-12-22 (BC)", "290309-12-21 (BC)", "290309-01-01 (BC)",
             "290308-01-01 (BC)", "294247-01-10", "294247-01-11", "0001-01-01", "0001-12-31 (BC)", "1970-01-01",
             "290000-12-31", "290001-01-01", "290000-01-01 (BC)", "290001-12-31 (BC)"],
    "TIMESTAMP": [*VALUES["TIMESTAMP"], "290309-12-22 (BC) 00:00:00", "290309-12-31 (BC) 23:59:59.999999",
                  "294247-01-10 04:00:54.775806", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00"],
    "DECIMAL(38,38)": ["-0." + "9" * 38, "0." + "9" * 38, "0", "0.5"],
    "DECIMAL(38,0)": ["-" + "9" * 38, "9" * 38, "0"],
    "DECIMAL(1,1)": ["-0.9", "0.9", "0.5"],
    "DECIMAL(9,2)": ["-9999999.99", "9999999.99", "0.01"],
    "DECIMAL(18,3)": ["-999999999999999.999", "999999999999999.999", "0.5"],
    "DECIMAL(17,4)": ["-9999999999999.9999", "9999999999999.9999", "1.0001"],
}  # fmt: skip
KINDS = list(EXTREMES)
TABLES = {kind: f"t{at}" for at, kind in enumerate(KINDS)}
TEXTS, DATES = ["VARCHAR", ENUM], ["DATE", "TIMESTAMP"]
EXACT = [*WHOLE, *(kind for kind in KINDS if kind.startswith("DECIMAL"))]
# Of these the squares fit into 38 digits.
NARROW = ["DECIMAL(5,2)", "DECIMAL(9,2)", "DECIMAL(17,4)", "DECIMAL(18,3)", "DECIMAL(1,1)"]
PARTS = ["year", "quarter", "month", "day", "dayofweek", "isodow", "dayofyear", "decade", "century", "week", "isoyear",
         "yearweek"]  # fmt: skip
UNITS = ["day", "week", "month", "quarter", "year", "decade", "century"]
# Expressions in x, and the types of x for which each is on the list.
LISTED: list[tuple[str, list[str]]] = [
    *((f"{name}(x)", TEXTS) for name in ("lower", "upper", "lcase", "ucase", "reverse", "trim", "ltrim", "rtrim",
                                          "length", "len", "strlen", "char_length")),
    *((f"{name}(x, 'a')", TEXTS) for name in ("trim", "ltrim", "rtrim", "starts_with", "ends_with", "prefix", "suffix",
                                              "contains")),
    ("x ^@ 'a'", TEXTS), ("contains(x, '')", TEXTS), ("trim(x, '')", TEXTS),
    *((f"{name}(x, {many})", TEXTS) for name, many in product(("left", "right", "substring"),
                                                              (0, 1, 2, -1, -2, 1000000, -1000000))),
    *((f"substring(x, {at}, {many})", TEXTS) for at, many in product((0, 1, -1, 1000000, -1000000), (0, 1, 1000000))),
    ("substr(x, 2, 1)", TEXTS), ("substring(x FROM 1 FOR 2)", TEXTS),
    *((f"{part}(x)", DATES) for part in (*PARTS, "weekday", "weekofyear", "dayofmonth")),
    *((f"date_part('{part}', x)", DATES) for part in ("year", "dow", "doy", "isodow", "week", "month")),
    ("extract(YEAR FROM x)", DATES), ("hour(x)", ["TIMESTAMP"]), ("minute(x)", ["TIMESTAMP"]),
    *((f"date_trunc('{unit}', x)", DATES) for unit in UNITS),
    *((f"{name}(x)", DATES) for name in ("dayname", "monthname", "last_day")),
    *((f"time_bucket(INTERVAL '{by}', x)", DATES) for by in ("1 week", "10 days", "1 month", "5 months", "6 hours",
                                                            "250 years")),
    *((f"date_trunc('{unit}', x)", ["TIMESTAMP"]) for unit in ("hour", "minute", "second")),
    *((f"x // {by}", list(WHOLE)) for by in (1, 10, 1000, 3000000000)),
    *((f"x % {by}", list(WHOLE)) for by in (1, 2, 10, 3000000000)),
    *((form, [kind for kind in WHOLE if "HUGE" not in kind])
      for form in ("x // -1", "x // -7", "x % -1", "x % -2", "x + 1", "x - 1", "1 - x", "x * 2", "x * -3",
                   "x + 5000000000", "abs(x)", "x // 10 * 10", "10 * (x // 10) + 5", "x + x")),
    # DuckDB 1.4 negates unsigned numbers within their type.
    ("-x", ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"]),
    ("x * x", ["TINYINT", "INTEGER", "BIGINT", "UINTEGER"]),
    *((f"x / {by}", EXACT) for by in ("1", "10", "0.5", "-3", "1000000000000")),
    *((form, EXACT) for form in ("floor(x / 10)", "floor(x / 10) * 10", "ceil(x / 7)", "round(x / 10)", "floor(x)",
                                 "ceil(x)", "CAST(x AS DOUBLE)", "x / 10 + 1", "x / 10 / 10", "x / 3 - 2.5")),
    *((form, NARROW) for form in ("x + 1", "1 - x", "x * 2", "x * -2.5", "x - 0.125", "-x", "x + x", "x * (1 - x)",
                                  "3 * x - x", "x * 2 > 1", "x * 12345678901", "x + 12345678901", "round(x * 1.5)",
                                  "abs(-x) * 2", "coalesce(x * 2, 1)", "CASE WHEN x * x > 2 THEN x * x END")),
    *((form, ["INTEGER", "UBIGINT", "DECIMAL(5,2)", "DECIMAL(18,3)"])
      for form in ("x / x", "1 / x", "(1 - x) / x", "0 / x", "round(10 / x) > 2")),
    *((f"{name}(x)", ["FLOAT", "DOUBLE"]) for name in ("floor", "ceil", "ceiling", "round", "abs")),
    *((f"{name}(x)", [kind for kind in KINDS if kind.startswith("DECIMAL")]) for name in ("round", "abs")),
    ("CAST(x / 10 AS INTEGER)", ["INTEGER", "SMALLINT", "DECIMAL(5,2)"]), ("CAST(x AS HUGEINT)", ["BIGINT", "UBIGINT"]),
    ("CAST(x AS INTEGER)", ["SMALLINT", "UTINYINT", "DECIMAL(5,2)", "BOOLEAN"]),
    ("CAST(x AS VARCHAR)", [*WHOLE, "DATE", "BOOLEAN", "UUID", "VARCHAR"]), ("CAST(x AS DATE)", ["TIMESTAMP", "DATE"]),
    ("CAST(x AS DOUBLE)", ["FLOAT"]), ("coalesce(x, 0)", list(WHOLE)), ("coalesce(x, 100000)", list(WHOLE)),
    ("coalesce(x, 'none')", ["VARCHAR"]), ("coalesce(x, DATE '2000-01-01')", ["DATE"]),
    ("coalesce(x, '2000-01-01')", DATES), ("coalesce(x, false)", ["BOOLEAN"]), ("coalesce(x, x, 1)", ["INTEGER"]),
    ("CASE WHEN x < 30 THEN 'young' WHEN x < 60.5 THEN 'grown' ELSE 'old' END", [*WHOLE, "DOUBLE"]),
    ("CASE WHEN x < 30 THEN 1 WHEN x < 60 THEN 2 END", list(WHOLE)), ("CASE x WHEN 1 THEN 'a' END", list(WHOLE)),
    ("CASE WHEN x > 100 THEN 100 ELSE x END", list(WHOLE)), ("if(x > 7, 3000000000, 1)", list(WHOLE)),
    ("CASE WHEN lower(x) LIKE 'a%' THEN true ELSE false END", TEXTS),
    ("CASE WHEN x > DATE '2020-01-01' THEN DATE '2020-01-01' END", DATES),
    ("year(current_date) - year(x)", DATES), ("length(lower(x)) + 1", TEXTS), ("upper(left(trim(x), 2))", TEXTS),
    ("year(x) // 10 * 10", DATES), ("x > 3", list(WHOLE)), ("x IS NULL", KINDS),
]  # fmt: skip
CASES = [(form, kind) for form, kinds in LISTED for kind in kinds]


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for kind, values in EXTREMES.items():
            rows = ", ".join(f"(CAST({_escaped(value)} AS {kind}))" for value in values)
            made.execute(f"CREATE TABLE {TABLES[kind]} AS FROM (VALUES {rows}, (NULL::{kind})) AS v(x)").fetchall()
        yield made


def _escaped(text: str) -> str:
    """A text as SQL, with its NUL characters."""
    return "(" + " || chr(0) || ".join(quote(part) for part in text.split("\0")) + ")"


def written(form: str, kind: str) -> tuple[str, str] | None:
    """The expression as it is written for a column x of the type, and its type; None where it is refused."""
    schema = Schema(tables={TableName("d", "main", "t"): Stored(("d", "main", "t"), {"x": kind})})
    block = relation(f"SELECT {form} AS y FROM d.main.t", schema)
    assert isinstance(block, Block)
    try:
        return filters.scalar(block.outputs[0].expr, {"x": kind}, TODAY)
    except NotTotal:
        return None


def _rows(con: duckdb.DuckDBPyConnection, kind: str, sql: str) -> list[Any] | None:
    """The value for each extreme value, as text; None where DuckDB fails."""
    try:
        return [one for (one,) in con.execute(f"SELECT CAST({sql} AS VARCHAR) FROM {TABLES[kind]}").fetchall()]
    except duckdb.Error:
        return None


def _each(con: duckdb.DuckDBPyConnection, kind: str, sql: str) -> list[Any]:
    """The value for each extreme value alone, as text; FAILED where DuckDB fails."""
    found: list[Any] = []
    for at in range(len(EXTREMES[kind]) + 1):
        one = f"SELECT CAST({sql} AS VARCHAR) FROM (FROM {TABLES[kind]} LIMIT 1 OFFSET {at})"
        try:
            found += con.execute(one).fetchall()[0]
        except duckdb.Error:
            found.append(FAILED)
    return found


@pytest.mark.parametrize(("form", "kind"), CASES)
def test_a_listed_expression_has_a_value_for_every_value(con: duckdb.DuckDBPyConnection, form: str, kind: str) -> None:
    """It is DuckDB's own where that does not fail, and has the type that is said."""
    found = written(form, kind)
    assert found is not None
    sql, said = found
    mine = _rows(con, kind, sql)
    assert mine is not None, sql
    ((shown,), *_) = con.execute(f"SELECT typeof({sql}) FROM {TABLES[kind]} LIMIT 1").fetchall()
    assert shown == said
    plain = form.replace("current_date", f"DATE '{TODAY}'")
    wanted = _rows(con, kind, plain) or _each(con, kind, plain)
    far = _each(con, kind, FAR.format(kind)) if kind in DATES and any(one in form for one in GUARDED) else [None]
    for one, other, is_far in zip(mine, wanted, far * (len(mine) // len(far)), strict=True):
        assert other is FAILED or is_far == "true" or _plain(one) == _plain(other), sql


def _plain(text: str | None) -> str | None:
    """date_trunc gives a DATE in DuckDB 1, and a TIMESTAMP in 2. There is one zero, and one NaN."""
    return None if text is None else {"-0.0": "0.0", "-nan": "nan"}.get(text, text.removesuffix(" 00:00:00"))


# Dates beyond 290,000 years are taken for infinite by functions that could fail on them.
GUARDED = ("date_trunc", "week", "isoyear", "last_day", "time_bucket")
FAR = "isfinite(x) AND (x < {0} '290000-01-01 (BC)' OR x > {0} '290000-12-31')"
FAILED = object()


# Types of each size in which DuckDB keeps decimals, and at their ends.
_PAIRS = ["DECIMAL(4,2)", "DECIMAL(9,0)", "DECIMAL(18,2)", "DECIMAL(18,18)", "DECIMAL(19,1)", "DECIMAL(25,20)",
          "DECIMAL(38,2)", "INTEGER", "BIGINT"]  # fmt: skip


def _ends(kind: str) -> list[Fraction]:
    low, high = reach(kind)
    return [low, high, Fraction(0), step(kind), low / 2 // step(kind) * step(kind)]


@pytest.mark.parametrize("form", ["a + b", "a - b", "a * b"])
def test_decimals_are_computed_without_loss(con: duckdb.DuckDBPyConnection, form: str) -> None:
    """Of any two types: what is written has the exact value for all ends of both, and the type that is said."""
    answered = 0
    for one, other in product(_PAIRS, _PAIRS):
        types = {"a": one, "b": other}
        block = relation(
            f"SELECT {form} AS y FROM d.main.t",
            Schema(tables={TableName("d", "main", "t"): Stored(("d", "main", "t"), types)}),
        )
        assert isinstance(block, Block)
        try:
            sql, said = filters.scalar(block.outputs[0].expr, types, TODAY)
        except NotTotal:
            continue
        answered += 1
        pairs = list(product(_ends(one), _ends(other)))
        rows = ", ".join(f"({in_sql(a, one)}, {in_sql(b, other)})" for a, b in pairs)
        found = con.execute(f"SELECT CAST({sql} AS VARCHAR), typeof({sql}) FROM (VALUES {rows}) AS v(a, b)").fetchall()
        wanted = [a + b if "+" in form else a - b if "-" in form else a * b for a, b in pairs]
        assert [(Fraction(value), kind) for value, kind in found] == [(value, said) for value in wanted], sql
    assert answered > len(_PAIRS) ** 2 / 3


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_admitted_beyond_the_list_has_a_value_too(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    """Each expression over a column of each type: what is written does not fail, and has the type that is said."""
    for form in {form for form, kinds in LISTED if kind not in kinds}:
        found = written(form, kind)
        if found is not None:
            sql, said = found
            assert _rows(con, kind, sql) is not None, sql
            ((shown,), *_) = con.execute(f"SELECT typeof({sql}) FROM {TABLES[kind]} LIMIT 1").fetchall()
            assert shown == said


@pytest.mark.parametrize("form", ["x + 0.5", "0.5 - x", "x * 0.5", "x % 2.5", "-x + 1.25"])
def test_a_fraction_beside_a_whole_number_is_refused_or_stays_a_fraction(
    con: duckdb.DuckDBPyConnection, form: str
) -> None:
    found = written(form, "INTEGER")
    if found is not None:
        source = "(FROM range(-3, 4) r(x))"
        mine = con.execute(f"SELECT CAST({found[0]} AS DOUBLE) FROM (SELECT x::INTEGER AS x FROM {source})").fetchall()
        assert mine == con.execute(f"SELECT CAST({form} AS DOUBLE) FROM {source}").fetchall()
