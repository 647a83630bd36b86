"""Whoever sees a number over the wire is told of its noise: by notices, columns for intervals, and comments."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest

from duckanon.server.interval_columns import with_intervals
from tests.server.client import SYNC, Client, bind, describe, execute, parse, query
from tests.server.served import Served

COUNTS = "SELECT state, count(*) AS n FROM persons GROUP BY state"


@pytest.fixture
def notices(served: Served):
    with served.login("ana") as con:
        told: list[str] = []
        con.add_notice_handler(lambda diagnostic: told.append(diagnostic.message_primary or ""))
        yield con, told


def test_a_noisy_result_says_what_it_protects_how_wide_and_what_it_cost(notices: Any) -> None:
    con, told = notices
    rows = con.execute(COUNTS).fetchall()
    (said,) = told
    largest = max(abs(n) for _, n in rows)
    assert re.search(r"95 % within [\d.]+ % of the largest cell", said)
    assert "The noise protects all records of one person (a sample of 1 counts)." in said
    assert said.endswith("It cost epsilon 1 (edition 1).")
    assert largest > 100
    con.execute(COUNTS).fetchall()
    assert told[1].endswith(f"It is free (edition 1, drawn {date.today().isoformat()}).")


def test_numbers_that_may_be_noise_alone_are_said_first(notices: Any) -> None:
    """State C has no record, and A and B have 60 and 180: intervals are 6 wide."""
    con, told = notices
    con.execute("SELECT state, count(*) FROM persons WHERE state <> 'A' GROUP BY state").fetchall()
    assert told[0].startswith("1 of 2 noisy numbers is smaller than its own interval is wide: it may be noise alone.")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT avg(insured::INT) FROM persons",
        "SELECT n FROM (SELECT state, count(*) AS n FROM persons GROUP BY state)",
        "CREATE TEMP TABLE kept AS SELECT state, count(*) AS n FROM persons GROUP BY state",
        "DECLARE c CURSOR WITH HOLD FOR SELECT sex, count(*) FROM persons GROUP BY sex",
        "SELECT sex, count(*) FROM persons GROUP BY ROLLUP (sex)",
    ],
)
def test_every_kind_of_noisy_statement_says_so_once(notices: Any, sql: str) -> None:
    con, told = notices
    con.execute(sql)
    assert len(told) == 1
    assert "The noise protects all records of one person" in told[0]


@pytest.mark.parametrize("sql", ["SELECT 1", "SELECT count(*) FROM counties", "SELECT * FROM persons LIMIT 0"])
def test_what_has_no_noise_says_nothing(notices: Any, sql: str) -> None:
    con, told = notices
    con.execute(sql)
    assert told == []


def test_notices_come_before_rows_in_all_protocols(served: Served) -> None:
    with Client(served.host, served.port).log_in("ana") as client:
        assert client.ask(query(COUNTS)).kinds == "NTDDDCZ"
        assert client.ask(parse(COUNTS), bind(), describe("P"), execute(), SYNC).kinds == "12NTDDDCZ"
        # In parts it is said with the first.
        first = client.ask(parse(COUNTS), bind(), execute(2), execute(2), SYNC)
        assert first.kinds == "12NDDsDCZ"
        assert client.ask(query(f"COPY ({COUNTS}) TO STDOUT")).kinds == "NHdddcCZ"
        client.ask(query("SET client_min_messages = warning"))
        assert client.ask(query(COUNTS)).kinds == "TDDDCZ"


def test_intervals_stand_beside_noisy_numbers(notices: Any) -> None:
    con, _ = notices
    con.execute("SET duckanon.intervals = on")
    found = con.execute(f"{COUNTS} ORDER BY 2 DESC, 1")
    assert [one.name for one in found.description] == ["state", "n", "n_low", "n_high"]
    rows = found.fetchall()
    assert [n for _, n, *_ in rows] == sorted((n for _, n, *_ in rows), reverse=True)
    known = con.execute("SELECT state, low(count(*)), high(count(*)) FROM persons GROUP BY state").fetchall()
    assert sorted((state, low, high) for state, _, low, high in rows) == sorted(known)
    ((spent,),) = con.execute("SELECT spent FROM privacy_budget()").fetchall()
    assert spent == 1, "It is the same question."
    con.execute("SET duckanon.intervals = off")
    assert len(con.execute(COUNTS).description) == 2


def test_intervals_are_shown_where_they_are_known(notices: Any) -> None:
    con, _ = notices
    con.execute("SET duckanon.intervals = on")
    noisy = con.execute(
        "SELECT state AS s, count(*) FILTER (WHERE insured) / count(*) AS share, count(*) * count(*) AS odd "
        "FROM persons GROUP BY 1 ORDER BY 3"
    )
    assert [one.name for one in noisy.description] == ["s", "share", "share_low", "share_high", "odd"]
    exact = con.execute("SELECT state, count(*) AS n FROM counties GROUP BY 1")
    assert [one.name for one in exact.description] == ["state", "n"]


def test_a_prepared_statement_has_the_columns_that_were_described(served: Served) -> None:
    sql = "SELECT sex, count(*) AS n FROM persons WHERE insured = $1 GROUP BY sex"
    with Client(served.host, served.port).log_in("ana") as client:
        client.ask(query("SET duckanon.intervals = on"))
        told = client.ask(parse(sql, "s"), describe("S", "s"), SYNC)
        assert [name for name, _ in told.columns] == ["sex", "n", "n_low", "n_high"]
        assert len(client.ask(bind("t", name="s"), execute(), SYNC).rows[0]) == 4
        client.ask(query("SET duckanon.intervals = off"))
        assert client.ask(bind("t", name="s"), execute(), SYNC).error == "0A000"


def test_intervals_can_be_asked_for_when_a_session_begins(served: Served) -> None:
    with served.login("ana", options="-c duckanon.intervals=on") as con:
        assert con.execute("SHOW duckanon.intervals").fetchall() == [("on",)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a, count(*) c FROM t GROUP BY 1 ORDER BY 2, a",
         'SELECT a, count(*) c, low(count(*)) AS "c_low", high(count(*)) AS "c_high" FROM t GROUP BY 1 ORDER BY 2, a'),
        ("SELECT sum(x), a FROM t GROUP BY 2 ORDER BY 2",
         'SELECT sum(x), low(sum(x)) AS "sum_low", high(sum(x)) AS "sum_high", a FROM t GROUP BY 4 ORDER BY 4'),
        ("FROM t SELECT count(*) AS \"A b\"",
         'FROM t SELECT count(*) AS "A b", low(count(*)) AS "A b_low", high(count(*)) AS "A b_high"'),
        ("WITH u AS (SELECT count(*) FROM t) SELECT f(a, (SELECT max(b) FROM u)), 1 FROM t", None),
        ("SELECT DISTINCT count(*) FROM t", None),
        ("SELECT count(*) FROM t UNION ALL SELECT count(*) FROM u", None),
        ("SELECT low(count(*)) FROM t", None),
        ("SELECT a FROM t LIMIT 3", None),
        ("SELECT ')' , \"count(\" FROM t", None),
    ],
)  # fmt: skip
def test_where_the_ends_are_written(text: str, expected: str | None) -> None:
    asked = {expected, text}
    assert with_intervals(text, lambda one: one in asked) == (expected or text)


def test_comments_say_that_numbers_get_noise(served: Served) -> None:
    with served.login("ana") as con:
        told = dict(
            con.execute(
                "SELECT a.attname, col_description(c.oid, a.attnum) FROM pg_class c JOIN pg_attribute a "
                "ON a.attrelid = c.oid WHERE c.relname = 'persons'"
            ).fetchall()
        )
        assert told["state"] == "Numbers by its values get noise."
        assert told["name"] == "It is in no answer."
        ((table,), (other,)) = con.execute(
            "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname IN ('persons', 'counties') "
            "ORDER BY relname DESC"
        ).fetchall()
        assert "all records of one person" in table
        assert other is None
    with served.login("stu") as con:
        assert con.execute("SELECT * FROM pg_description").fetchall() == []
