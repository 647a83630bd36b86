"""Numbers of every type, with bounds and without a declared step: what is computed of them is what DuckDB computes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from math import isclose

import duckdb
import pytest

from duckanon.errors import DuckanonError
from tests.amounts import sampled
from tests.answers.checking import Both, beside_duckdb

RECORDS = 300
# By the column's name: its type, its values by the record's number, and its bounds.
_COLUMNS = {
    "tiny": ("TINYINT", "i % 11 - 5", -5, 5),
    "small": ("USMALLINT", "i % 300", 0, 299),
    "big": ("BIGINT", "(i * 7) % 1000 - 500", -500, 500),
    "huge": ("HUGEINT", "(i * 13) % 5000", 0, 5000),
    "unsigned": ("UBIGINT", "i % 77", 0, 77),
    "single": ("FLOAT", "(i % 9) / 8", 0, 1),
    "wave": ("DOUBLE", "sin(i)", -1, 1),
    "cents": ("DECIMAL(6, 2)", "(i % 500) / 100.0", 0, 5),
    "fine": ("DECIMAL(18, 6)", "(i % 5000) / 1000000.0", 0, 0.005),
    "pieces": ("DECIMAL(38, 0)", "i % 12", 0, 12),
}
_VALUES = ", ".join(
    f"CASE WHEN i % 13 <> {at} THEN CAST({value} AS {kind}) END AS {name}"
    for at, (name, (kind, value, *_)) in enumerate(_COLUMNS.items())
)
_BOUNDS = ", ".join(f"'{name}': [{low}, {high}]" for name, (_, _, low, high) in _COLUMNS.items())
_RECORDS = f"""
  CREATE TABLE a AS SELECT i AS record, i AS id, {_VALUES} FROM range({RECORDS}) r(i);
  CREATE TABLE m AS SELECT i AS record, i // 3 AS id, {_VALUES} FROM range({RECORDS}) r(i);
  CREATE TABLE o AS SELECT i AS k, i / 4 AS v, i * 2 AS n, (i / 10)::DECIMAL(5, 2) AS c FROM range(12) r(i)
"""
_CALLS = f"""
  SELECT open_table('o');
  SELECT protect('a', population := 'p', epsilon := 9999, privacy_unit := 'id', rows_per_unit := 1, per_query := 1,
    bounds := {{{_BOUNDS}}});
  SELECT protect('m', population := 'p', epsilon := 9999, privacy_unit := 'id', rows_per_unit := 3, per_query := 1,
    bounds := {{{_BOUNDS}}})
"""
_OF_ONE = """
  SELECT sum({x}) FROM a
  SELECT avg({x}), count({x}) FROM m
  SELECT sum(v), avg(v) FROM (SELECT {x} AS v FROM a UNION ALL SELECT {x} FROM m)
  SELECT sum(v) FROM (SELECT id, max({x}) AS v FROM m GROUP BY id)
  SELECT avg(v) FROM (SELECT id, min({x}) FILTER ({x} > 0) AS v FROM m GROUP BY id)
  SELECT sum(v) FROM (SELECT id, sum({x}) AS v FROM m GROUP BY id)
  SELECT avg(v) FROM (SELECT id, avg({x}) AS v FROM m GROUP BY id)
  SELECT sum(v) FROM (SELECT id, max({x}) - min({x}) AS v FROM m GROUP BY id)
  SELECT sum(v) FROM (SELECT id, arg_max({x}, record) AS v FROM m GROUP BY id)
  SELECT sum(v) FROM (SELECT first_value({x}) OVER (PARTITION BY id ORDER BY record) AS v FROM m)
  SELECT sum(v) FROM (SELECT {x} - lag({x}) OVER (PARTITION BY id ORDER BY record) AS v FROM m)
  SELECT sum(v) FROM (SELECT max({x}) OVER (PARTITION BY id) AS v FROM m)
  SELECT sum(a.{x} + m.{x}), sum(a.{x} * m.{x}) FROM a JOIN m USING (id)
  SELECT sum(greatest(a.{x}, m.{x})), sum(least(a.{x}, m.{x})) FROM a JOIN m USING (id)
  SELECT sum(coalesce(m.{x}, a.{x})) FROM a LEFT JOIN m ON a.id = m.id AND m.record % 2 = 0
  SELECT sum((SELECT max({x}) FROM m WHERE m.id = a.id)) FROM a
  SELECT sum(l.v) FROM a, LATERAL (SELECT {x} AS v FROM m WHERE m.id = a.id ORDER BY record LIMIT 1) l
  SELECT sum({x} * o.v), sum({x} * o.n), sum({x} * o.c) FROM a JOIN o ON a.record % 12 = o.k
  SELECT sum(abs({x})), sum(round({x}, 1)), sum(floor({x})), sum(ceil({x})), sum(-{x}) FROM a
  SELECT sum({x} / 3), sum({x} // 3) FROM a
  SELECT sum({x} // 2.0), sum({x} // 1e1), sum({x} // 2::DECIMAL(4, 0)) FROM a
  SELECT sum(floor({x}) // 2) FROM a
  SELECT sum(round({x}) // 2) FROM a
  SELECT sum({x} % 3) FROM a
  SELECT count(*) FROM a WHERE {x} // 3 > 0.5
  SELECT count(*) FROM a WHERE {x} // 2.0 > 1
  SELECT sum({x} + 7.0 // 2) FROM a
  SELECT sum(v) FROM (SELECT id, max({x}) // 3 AS v FROM m GROUP BY id)
  SELECT sum({x}::DOUBLE), sum({x}::DECIMAL(18, 3)) FROM a
  SELECT sum(({x} + 0.25)::BIGINT), avg(({x} - 0.25)::HUGEINT) FROM a
  SELECT sum(v) FROM (SELECT id, {x} + 0.5 AS v FROM m)
  SELECT sum(v) FROM (SELECT DISTINCT id, {x} AS v FROM m)
  SELECT sum(nullif({x}, 2)) FROM a
  SELECT sum({x}) FILTER (WHERE {x} > 0), avg({x}) FILTER (WHERE {x} <= 1) FROM a
"""
_OF_TWO = """
  SELECT sum(v) FROM (SELECT {x} AS v FROM a UNION ALL SELECT {y} FROM m)
  SELECT sum({x} + {y}), sum({x} * {y}) FROM a
  SELECT sum(coalesce({x}, {y})), sum(greatest({x}, {y})) FROM a
  SELECT sum(v) FROM (SELECT id, max({x}) + min({y}) AS v FROM m GROUP BY id)
"""


def _statements() -> Iterator[str]:
    for column in _COLUMNS:
        yield from (line.strip().format(x=column) for line in _OF_ONE.strip().splitlines())
    for x, y in combinations(_COLUMNS, 2):
        yield from (line.strip().format(x=x, y=y) for line in _OF_TWO.strip().splitlines())


STATEMENTS = list(_statements())
# To which steps numbers are rounded, by words of the statement: averages within a unit, floats that are multiplied,
# what a UNION has (10^8 steps are told apart), and other floats (to a millionth of the way between their bounds).
_ROUNDED = [
    (re.compile(r"avg\(\w+\) AS v"), 1e-2),
    (re.compile(r"(single|wave|o\.v).*\*|\*.*(single|wave|o\.v)"), 1e-2),
    (re.compile(r"UNION"), 6e-5),
    (re.compile(r"single|wave|o\.v"), 1e-5),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with beside_duckdb(tmp_path_factory.mktemp("numbers") / "x.duckdb", _RECORDS, _CALLS) as found:
        yield found


def is_answered_alike(both: Both, sql: str) -> bool:
    """Whether it is; what DuckDB fails of, or what is refused, is neither right nor wrong, so it is alike."""
    con, plain = both
    try:
        (exact,) = plain.execute(sql).fetchall()
    except duckdb.Error:
        return True
    try:
        (numbers,) = con.execute(sql).fetchall()
    except DuckanonError:
        return True
    step = next((size for words, size in _ROUNDED if words.search(sql)), 0.0)
    return all(
        (number is None) == (own is None)
        and (own is None or isclose(float(number), float(own), rel_tol=1e-9, abs_tol=RECORDS * step + 1e-6))
        for number, own in zip(numbers, exact, strict=True)
    )


@pytest.mark.parametrize("sql", sampled(STATEMENTS, every=4))
def test_it_is_what_duckdb_computes(both: Both, sql: str) -> None:
    assert is_answered_alike(both, sql)


@pytest.mark.parametrize(
    "call", ["coalesce(cents, pieces)", "least(7.5, pieces)", "CASE WHEN big > 0 THEN cents ELSE pieces END"]
)
def test_decimals_that_duckdb_would_round_are_refused(both: Both, call: str) -> None:
    """Beside a DECIMAL(38, 0) it leaves no digit after the point."""
    with pytest.raises(
        DuckanonError, match="more than 38 digits, so DuckDB would round them: cast the widest to a DECIM"
    ):
        both[0].execute(f"SELECT sum({call}) FROM a")
    both[0].execute(f"SELECT sum({call.replace('pieces', 'pieces::DECIMAL(20, 0)')}) FROM a")


def test_most_are_answered(both: Both) -> None:
    asked = STATEMENTS[::9]
    refused = [sql for sql in asked if both[0].explain(sql).query is None]
    assert len(refused) < len(asked) / 4, refused
