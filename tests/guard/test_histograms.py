"""Keys whose values follow from the bounds of columns that have no domain: DuckDB's own counts, without the noise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.errors import PolicyRefusal
from duckanon.releases import mechanisms
from tests.amounts import sampled
from tests.guard.truthful import truth

_MADE = """
  CREATE TABLE t AS SELECT i AS unit, CASE WHEN i % 13 > 0 THEN i * 7 % 91 END AS age,
    (i * 37 % 5001 / 100)::DECIMAL(6, 2) AS pay, CASE WHEN i % 5 > 0 THEN i % 3 = 0 END AS paid,
    (i * 37 % 2000 - 1000) / 8 AS score, TIMESTAMP '2020-01-01' + INTERVAL (i * 11) HOUR AS came,
    DATE '2020-01-01' + (i % 700)::INTEGER AS day, DATE '2020-01-01' + (i % 90)::INTEGER AS listed,
    DATE '2020-01-01' + i::INTEGER AS far, CASE WHEN i % 7 > 0 THEN repeat('ä', (i % 90)::INTEGER) END AS word,
    (i % 8 / 8)::DECIMAL(18, 18) AS part, i * 5.5e8 AS wide, i * 5.5e10 AS widest,
    ['a', 'b'][1 + i % 2] AS kind, i % 40 AS free, i % 3 AS secret
  FROM range(2000) r(i);
  SELECT protect('t', privacy_unit := 'unit', rows_per_unit := 1, epsilon := 1000, per_query := 1,
    public := ['kind', 'listed'], drop := ['secret'], domains := {'kind': ['a', 'b'],
      'listed': {'from': DATE '2020-01-01', 'to': DATE '2020-03-31'}}, bounds := {
      'age': [0, 90], 'wide': [0, 2000000000000], 'widest': [0, 1000000000000000, 0.001], 'pay': [0, 50, 0.01],
      'score': [-125, 125, 0.125], 'part': [0, 0.875, 0.125], 'came': [TIMESTAMP '2020-01-01', TIMESTAMP '2022-12-31'],
      'day': [DATE '2020-01-01', DATE '2021-11-30'],
      'far': [DATE '1900-01-01', DATE '2099-12-31'], 'word': [0, 200], 'secret': [0, 2]});
  CREATE TABLE lines AS SELECT i // 3 AS cust, CASE WHEN i % 11 > 0 THEN i % 5 = 0 END AS returned FROM range(900) r(i);
  SELECT protect('lines', privacy_unit := 'cust', rows_per_unit := 3, epsilon := 1000, per_query := 1)
"""
KEYS = [
    "floor(age / 10) * 10", "age // 10", "(age // 10) * 10", "age - hash(age) * 0 // 2", "round(pay, -1)", "floor(pay)",
    "floor(score / 25)", "ceil(score / 50) * 50", "year(came)", "month(came)", "hour(came)", "dayofweek(day)",
    "extract(quarter FROM day)", "date_trunc('month', day)", "date_trunc('quarter', came)", "date_trunc('year', day)",
    "least(age, 20) // 5", "abs(score) // 1", "CASE WHEN kind = 'a' THEN age // 30 ELSE -1 END", "weekday(came)",
    "date_diff('year', day, DATE '2025-01-01')", "coalesce(age // 20, -1)", "pay * 2",
    "dayofyear(day)", "date_trunc('hour', came)", "date_trunc('day', came)", "score * 2", "pay / 4",
    "CASE WHEN age IS NOT NULL THEN pay * 3 END", "length(word)", "strlen(word) * 10", "dayname(day)",
    "monthname(came)", "date_trunc('week', came)", "date_trunc('week', day)", "date_trunc('month', far)",
    "date_trunc('month', day)::DATE", "CAST(date_trunc('quarter', came) AS DATE)",
    "date_trunc('week', came)::TIMESTAMP",
    "date_trunc('week', came + INTERVAL '1 day') + INTERVAL '-1 day'", "date_trunc('year', day) - INTERVAL '1 hour'",
    "CAST(CAST(date_trunc('week', CAST(day + INTERVAL '1 day' AS DATE)) AS DATE) + INTERVAL '-1 day' AS DATE)",
    "date_trunc('hour', came - INTERVAL '90 minutes')", "hour(came + INTERVAL '5 hours')",
    "INTERVAL '36 hours' + date_trunc('day', day)", "date_trunc('month', came - INTERVAL '-2 days 12 hours')",
    "date_trunc('month', came)::DATE - 1", "date_trunc('week', came)::DATE - 1 + 7", "last_day(day) + 1",
    "date_trunc('month', came) + INTERVAL '1 month' - INTERVAL '1 day'",
    "INTERVAL 1 QUARTER + date_trunc('month', day)",
    "CAST(date_trunc('quarter', came) + INTERVAL '3 months -1 day' AS DATE)",
    "date_trunc('year', day) - INTERVAL '1 year 1 day'", "(date_trunc('month', day) + INTERVAL 1 MONTH)::DATE - 1",
    "part + 0.5", "(part + 1) * 1000", "age", "pay", "day", "paid",
]  # fmt: skip
REFUSED = {"age - hash(age) * 0 // 2", "abs(score) // 1"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("histograms") / "x.duckdb"
    with duckanon.connect(found, role="steward") as con:
        for one in _MADE.split(";"):
            con.execute(one).fetchall()
    return found


@pytest.fixture
def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[duckanon.Analyst, duckdb.DuckDBPyConnection]]:
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(path, role="analyst") as con, con._con.cursor() as plain:
        yield con, plain


@pytest.mark.parametrize("key", sampled(KEYS, every=3))
def test_counts_are_duckdbs_own(both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], key: str) -> None:
    con, plain = both
    sql = f"SELECT {key} AS k, count(*) AS n, sum(pay) AS s FROM t GROUP BY k ORDER BY k"
    if key in REFUSED:
        with pytest.raises(PolicyRefusal, match="Counts are told by columns"):
            con.execute(sql).fetchall()
        return
    mine = [row for row in con.execute(sql).fetchall() if row[1]]
    theirs = plain.execute(sql).fetchall()
    assert [(_day(k), n, s) for k, n, s in mine] == [(_day(k), n, s) for k, n, s in theirs]


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("date_trunc('month', day)::DATE", 24),
        ("date_trunc('week', came + INTERVAL '1 day') - INTERVAL '1 day'", 158),
        ("CAST(date_trunc('year', day) + INTERVAL '12 hours' AS DATE)", 3),
        ("date_trunc('month', came)::DATE - 1", 37),
        ("date_trunc('month', came) + INTERVAL 1 MONTH - INTERVAL 1 DAY", 37),
        ("last_day(day) + 1", 24),
    ],
)
def test_a_period_is_one_value_however_it_is_cast_or_moved(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], key: str, number: int
) -> None:
    """There is no row for each day. One row is for NULL."""
    assert len(both[0].execute(f"SELECT {key} AS k, count(*) FROM t GROUP BY k").fetchall()) == number


@pytest.mark.parametrize(
    "key",
    [
        "day + INTERVAL '1 month'",
        "date_trunc('week', day) + INTERVAL '1 month'",
        "date_trunc('month', day) + INTERVAL '30 days' + INTERVAL '1 month'",
        "last_day(day) + INTERVAL '1 month'",
    ],
)
def test_months_are_added_to_first_days_of_months_alone(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], key: str
) -> None:
    """A month after the 30th and the 31st of January is one day."""
    with pytest.raises(PolicyRefusal, match="Counts are told by columns"):
        both[0].execute(f"SELECT {key} AS k, count(*) FROM t GROUP BY k")


def _day(value: Any) -> Any:
    """A midnight as its day: date_trunc of a DATE is a TIMESTAMP in some versions of DuckDB."""
    return value.date() if hasattr(value, "date") and value.time() == time() else value


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('month', came) AS k, count(*) FROM t GROUP BY k",
        "SELECT date_trunc('week', day) AS k, count(*) FROM t GROUP BY k",
        "SELECT date_trunc('day', came) AS k, count(*) FROM t GROUP BY 1 ORDER BY 1 DESC LIMIT 2",
        "SELECT date_trunc('year', day)::DATE AS k, count(*) FROM t GROUP BY k",
        "SELECT date_trunc('hour', came) AS k, count(*) FROM t GROUP BY k",
        "SELECT date_trunc('quarter', listed) AS k, count(*) FROM t GROUP BY k",
        "SELECT k, count(*) FROM (SELECT unit, date_trunc('month', min(came)) AS k FROM t GROUP BY unit) GROUP BY k",
        "SELECT k - lag(k) OVER (ORDER BY k) AS k FROM (SELECT date_trunc('year', day) k, count(*) FROM t GROUP BY 1)",
    ],
)
def test_a_start_has_the_type_that_is_described(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], sql: str
) -> None:
    """Clients that prepare a statement read its rows by the types that were described."""
    con, plain = both
    (described,) = [kind for name, kind, *_ in con.execute(f"DESCRIBE {sql}").fetchall() if name == "k"]
    (own,) = [kind for name, kind, *_ in plain.execute(f"DESCRIBE {sql}").fetchall() if name == "k"]
    answers = (con.execute(sql), con.execute(f"SELECT * FROM ({sql}) LIMIT 0"))
    assert {described, *(str(one.description[0][1]) for one in answers)} == {own}


@pytest.mark.parametrize("aggregate", ["bool_or(returned)", "bool_and(returned)", "max(returned)", "min(returned)"])
def test_truth_values_of_a_unit_stay_truth_values(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], aggregate: str
) -> None:
    con, plain = both
    sql = f"SELECT f, count(*) AS n FROM (SELECT cust, {aggregate} AS f FROM lines GROUP BY cust) GROUP BY f ORDER BY f"
    (key, kind), *_ = [(one[0], one[1]) for one in con.execute(f"DESCRIBE {sql}").fetchall()]
    mine = con.execute(sql)
    assert (key, kind, str(mine.description[0][1])) == ("f", "BOOLEAN", "BOOLEAN")
    assert [row for row in mine.fetchall() if row[1]] == plain.execute(sql).fetchall()
    only = sql.replace("ORDER BY", "HAVING f ORDER BY")
    assert [row for row in con.execute(only).fetchall() if row[1]] == plain.execute(only).fetchall()


@pytest.mark.parametrize(
    ("key", "where", "first", "last"),
    [
        ("age", "age > 80 AND age <> 83", 81, 90),
        ("age", "age BETWEEN 20.5 AND 23", 21, 23),
        ("age // 10", "30 <= age AND age < 50", 3, 4),
        ("pay", "pay >= 49.495 AND kind = 'a'", Decimal("49.50"), Decimal(50)),
        ("-pay", "pay < 0.105", Decimal("-0.10"), 0),
        ("age * 2", "age = 7", 14, 14),
        ("day", "day >= '2021-11-20'", date(2021, 11, 20), date(2021, 11, 30)),
    ],
)
def test_rows_are_those_that_where_leaves(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], key: str, where: str, first: Any, last: Any
) -> None:
    con, plain = both
    sql = f"SELECT {key} AS k, count(*) AS n FROM t WHERE {where} GROUP BY k ORDER BY k"
    found = con.execute(sql).fetchall()
    assert [row for row in found if row[1]] == plain.execute(sql).fetchall()
    assert (found[0][0], found[-1][0]) == (first, last)


def test_they_go_with_other_keys_conditions_and_totals(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection],
) -> None:
    con, plain = both
    for sql in (
        "SELECT count(*) AS n, kind, age // 10 AS k FROM t WHERE age IS NOT NULL GROUP BY ALL ORDER BY ALL",
        "SELECT count(*) FILTER (WHERE pay > 20) AS n, age // 30 AS k, avg(pay) FROM t WHERE age < 90 GROUP BY k",
        "SELECT count(*) AS n, age // 30 AS k, month(day) // 7 AS half FROM t GROUP BY ROLLUP (k, half) ORDER BY ALL",
        "SELECT count(*) AS n, hour(came) AS h, dayname(came) AS d FROM t GROUP BY h, d ORDER BY ALL",
    ):
        mine, theirs = (sorted(map(_plain, one.execute(sql).fetchall())) for one in (con, plain))
        assert [row for row in mine if row[0]] == theirs


def _plain(row: tuple[Any, ...]) -> list[Any]:
    """Numbers rounded, so that equal ones are equal, and NULL as the least of all."""
    return [row[0], *(str(round(one, 6)) if isinstance(one, int | float) else str(one) for one in row[1:])]


def test_what_lies_outside_counts_in_the_first_or_the_last_row(
    both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], tmp_path: Path
) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as steward:
        steward.execute("CREATE TABLE v AS SELECT unnest([-9, 0, 15, 19, 20, 2000000000]) AS x")
        steward.execute("SELECT protect('v', epsilon := 9, per_query := 1, bounds := {'x': [0, 29]})").fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        sql = "SELECT x // 10 AS k, count(*) FROM v WHERE x IS NOT NULL GROUP BY k ORDER BY k"
        assert con.execute(sql).fetchall() == [(0, 2), (1, 2), (2, 2)]
        assert con.decision is not None
        assert "count in the first or the last row" in con.decision.steps[0].reason


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("date_trunc('second', came)", "at most 1,000,000 values, and .* has 94,"),
        ("free // 10", "Counts are told by columns that the policy calls public \\(kind, listed\\)"),
        ("secret // 2", "lets nothing out that depends on secret"),
        ("date_trunc('second', came)", "at most 1,000,000 values"),
        ("free", "calls public \\(kind, listed\\)"),
        ("secret", "lets nothing out that depends on secret"),
        # It is counted in steps of an eighth.
        ("score", "calls public \\(kind, listed\\)"),
        ("part", "calls public \\(kind, listed\\)"),
    ],
)
def test_what_is_refused(both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], key: str, said: str) -> None:
    with pytest.raises(PolicyRefusal, match=said):
        both[0].execute(f"SELECT {key} AS k, count(*) FROM t GROUP BY k").fetchall()


@pytest.mark.parametrize("key", ["score", "wide", "widest", "hash(score)", "hash(wide)", "hash(day)"])
def test_a_way_by_bounds_that_is_told_works(both: tuple[duckanon.Analyst, duckdb.DuckDBPyConnection], key: str) -> None:
    con, plain = both
    with pytest.raises(PolicyRefusal) as refused:
        con.execute(f"SELECT {key} AS k, count(*) FROM t GROUP BY k")
    way = re.search(r"by the bounds of \w+ they are told by (\w+\(.*?\)),", str(refused.value))
    assert way is not None
    sql = f"SELECT {way[1]} AS k, count(*) AS n FROM t GROUP BY k ORDER BY k"
    assert [row for row in con.execute(sql).fetchall() if row[1]] == plain.execute(sql).fetchall()


_ENDLESS = """
  CREATE TABLE visits (unit INTEGER, came DATE NOT NULL, at_time TIMESTAMP NOT NULL, left_on DATE, free DATE NOT NULL);
  INSERT INTO visits SELECT i, DATE '2020-03-01' + i::INTEGER, TIMESTAMP '2020-03-01 10:00:00' + to_hours(i),
    DATE '2020-03-01' + i::INTEGER, DATE '2020-03-01' + i::INTEGER FROM range(20) r(i);
  INSERT INTO visits VALUES (20, 'infinity', '-infinity', NULL, 'infinity'), (21, '-infinity', 'infinity', 'infinity',
    '2020-03-01');
  SELECT protect('visits', privacy_unit := 'unit', rows_per_unit := 1, epsilon := 1000, per_query := 1,
    bounds := {'came': ['2020-02-01', '2020-05-31'], 'at_time': ['2020-02-01 07:30:00', '2020-05-31 09:00:00'],
      'left_on': ['2020-02-01', '2020-05-31']})
"""


@pytest.mark.skipif(
    duckdb.__version__.startswith("1."),
    reason="a part of infinity is a NULL there that IS NULL and coalesce do not see",
)
@pytest.mark.parametrize(
    ("key", "rows", "of_endless"),
    [
        ("month(came)", 12, {2: 1, 5: 1}),
        ("dayname(came)", 7, {}),
        ("strftime(came, '%m')", 12, {"02": 1, "05": 1}),
        ("hour(at_time)", 24, {7: 1, 9: 1}),
        ("month(came + INTERVAL 1 MONTH)", 13, {None: 2}),
        ("month(left_on)", 13, {None: 2}),
        ("month(free)", 13, {None: 1}),
        ("month(CASE WHEN unit > 3 THEN came END)", 13, {None: 6}),
    ],
)
def test_parts_of_dates_with_bounds_have_no_row_for_infinite_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, rows: int, of_endless: dict[Any, int]
) -> None:
    """Such a date counts in the part of the bound that it is beyond."""
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        for one in _ENDLESS.split(";"):
            con.execute(one).fetchall()
    monkeypatch.setattr(mechanisms, "draw", truth)
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        counts = dict(con.execute(f"SELECT {key} AS k, count(*) FROM visits GROUP BY k").fetchall())
    assert len(counts) == rows
    assert sum(counts.values()) == 22
    assert {part: counts[part] for part in of_endless} == of_endless
