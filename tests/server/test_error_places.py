"""Errors over the wire say what is not allowed, where it stands in the text, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from duckanon.server.error_places import place
from tests.server.served import serving
from tests.server.visits import make

# Statements with « before the place of the error, and a part of what is said.
CASES = [
    # Functions that there are not, with what to write.
    ("SELECT «to_char(n, 'FM999') FROM open_visits", "takes a date or a time, and a constant format"),
    ("SELECT kind,\n  «clock_timestamp() FROM open_visits", "not one of those that an analyst may call: write now()."),
    ("SELECT «getdate()", "write now()."),
    ("SELECT «nvl(kind, 'x') FROM open_visits", "write coalesce(x, y)."),
    ("SELECT «isnull(kind, 'x') FROM open_visits", "write coalesce(x, y)."),
    ("SELECT «dateadd('day', 1, day) FROM open_visits", "write x + INTERVAL 1 MONTH."),
    ("SELECT «regexp_substr(kind, 'a') FROM open_visits", "write regexp_extract(x, pattern)."),
    ("SELECT «jsonb_agg(kind) FROM open_visits", "write json_group_array(x)."),
    ("SELECT «date_bin('5 minutes', ts, ts) FROM open_visits", "write time_bucket(INTERVAL 5 MINUTE, x)."),
    ("SELECT «initcap(kind) FROM open_visits", "write upper(x[1])"),
    ("SELECT «width_bucket(n, 0, 50, 5) FROM open_visits", "write floor(x / 10) * 10."),
    ("SELECT «string_to_table(kind, ',') FROM open_visits", "write unnest(string_split(x, ','))."),
    ("SELECT «date_format(day, '%Y') FROM open_visits", "write strftime(x, '%Y-%m')."),
    ("SELECT kind FROM open_visits WHERE\n\n   «unix_timestamp(ts) > 0", "write epoch(x)."),
    # A letter is wrong.
    ("SELECT «strftim(ts, '%Y') FROM open_visits", "write strftime(...)."),
    ("SELECT «date_trnc('month', ts) FROM open_visits", "write date_trunc(...)."),
    ("SELECT count(*) FROM open_visits WHERE «lowerr(kind) = 'a'", "write lower(...)."),
    # What nobody may call.
    ("SELECT «read_text('/etc/passwd')", "leave it out, or ask the steward."),
    ("SELECT «pg_read_file('x')", "leave it out, or ask the steward."),
    ("SELECT 1, «getvariable('x')", "leave it out, or ask the steward."),
    # The same in questions about protected tables.
    ("SELECT count(*) FROM visits WHERE «initcap(kind) = 'A'", "The function initcap is not one of those"),
    ("SELECT count(*) FROM visits WHERE n > 3 AND «date_bin('5 minutes', ts, ts) > now()", "write time_bucket("),
    ("SELECT count(*) FROM visits WHERE «sqrt(n) > 2", "The function sqrt is not followed on records"),
    ("SELECT count(*)\nFROM visits\nWHERE «kind || 'x' = 'ax'", "A filter compares columns"),
    ("SELECT count(*) FROM visits WHERE ts > «to_date('x', 'YYYY')", "to_date takes a constant text"),
    ("SELECT count(*) FROM visits WHERE «n = 'x'", "must be a value of its column's type (INTEGER)"),
    ("SELECT kind, «min(n) FROM visits GROUP BY kind", "min shows the value of a single record"),
    ("SELECT «kind FROM visits", "Records of visits are protected."),
    ("SELECT kind, count(*) FROM visits GROUP BY «nothing", 'visits has no column "nothing"'),
    ("SELECT «day, count(*) FROM visits GROUP BY day", "Counts are told by columns"),
    ("SELECT kind, «sum(n) FROM visits GROUP BY kind", "bounds"),
    ("SELECT count(*) FROM visits WHERE «n::TINYINT = 3", "A filter compares columns"),
    ("SELECT count(*) FROM visits WHERE «strftime(day, '%x') = 'a'", "strftime takes a date or a time"),
    # Names, and words.
    ("SELECT «nosuch FROM open_visits", "nosuch"),
    ("SELECT o.kind FROM open_visits AS o WHERE o.«nosuch = 1", "nosuch"),
    ("SELECT n, n + «nosuchcolumn FROM open_visits", "nosuchcolumn"),
    ("SELECT «TRY(kind::INT) FROM open_visits", "TRY is not run here: cast with TRY_CAST"),
    ("SELECT «low(n) FROM open_visits", "low and high are of counts"),
    ("SELECT kind FROM open_visits WHERE «kind::mood = 'x'", "cast to a built-in one"),
    # Of several statements, the one that fails.
    ("SELECT kind FROM open_visits LIMIT 1; SELECT «kind FROM visits", "Records of visits are protected."),
    ("SELECT «to_char(n, '9') FROM open_visits; SELECT to_char(n, '9') FROM open_visits", "to_char takes"),
]  # fmt: skip


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection[object]]:
    with serving(make(tmp_path_factory.mktemp("places") / "visits.duckdb")) as served, served.login("ana") as found:
        yield found


def test_there_are_forty_of_them() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize(("statement", "said"), CASES)
def test_errors_say_where_they_are(con: psycopg.Connection[object], statement: str, said: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        con.execute(statement.replace("«", ""))
    assert said in str(refused.value.diag.message_primary)
    assert refused.value.diag.statement_position == str(statement.index("«") + 1)


def test_of_a_prepared_statement_it_is_the_place_in_the_clients_text(con: psycopg.Connection[object]) -> None:
    with pytest.raises(psycopg.Error) as refused:
        con.execute("SELECT count(*) FROM visits WHERE n IN (%s,%s) AND initcap(kind) = %s", [1, 2, "A"])
    sent = "SELECT count(*) FROM visits WHERE n IN ($1,$2) AND initcap(kind) = $3"
    assert refused.value.diag.statement_position == str(sent.index("initcap") + 1)


def test_an_error_about_nothing_in_the_text_has_no_place(con: psycopg.Connection[object]) -> None:
    """A closed table and one that is not there have one error, to the letter."""
    for name in ("nosuch", "duckanon.ledger"):
        with pytest.raises(psycopg.Error) as refused:
            con.execute(f"SELECT * FROM {name}")
        assert refused.value.diag.statement_position is None


def test_places_are_counted_in_characters() -> None:
    text = "SELECT 'Ä€😀',\n  min( n )  FROM t"
    assert place(text, "`min( n )` cannot be answered. Why.") == text.index("min") + 1
    assert place(text, "`nothing` cannot be answered.") is None
    assert place("SELECT a; SELECT a", "`a` cannot be answered.", 10) == 18
    assert place(text, "The limit is reached.") is None
