"""EXPLAIN answers in one column, as PostgreSQL does: text, JSON and XML, and tells nothing of protected records."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest
from psycopg import generators

from duckanon.server import commands, plans
from duckanon.server.errors import PgError

OPEN = "SELECT county FROM counties WHERE state = 'A' ORDER BY county"
COUNT = "SELECT state, count(*) FROM persons GROUP BY state"
SPACE = "{http://www.postgresql.org/2009/explain}"


def plan(con: psycopg.Connection[object], text: str) -> list[object]:
    cursor = con.execute(text.encode())
    assert cursor.description is not None
    assert [one.name for one in cursor.description] == ["QUERY PLAN"]
    return [row[0] for row in cursor.fetchall()]  # type: ignore[index]


@pytest.mark.parametrize("user", ["ana", "stu"])
def test_the_plan_of_an_open_table(served, user):
    with served.login(user) as con:
        lines = plan(con, f"EXPLAIN {OPEN}")
        assert any("Seq Scan" in str(one) for one in lines)
        (found,) = plan(con, f"EXPLAIN (FORMAT JSON, ANALYZE OFF, VERBOSE, COSTS OFF) {OPEN}")
        kinds: list[str] = []
        step: Any = found
        (step,) = step
        step = step["Plan"]
        while step:
            kinds.append(step["Node Type"])
            step = next(iter(step.get("Plans", [])), None)
        assert kinds[-1] == "Seq Scan"
        (said,) = plan(con, f"EXPLAIN (FORMAT XML) {OPEN}")
        read = ET.fromstring(str(said))
        assert [one.text for one in read.iter(f"{SPACE}Node-Type")] == kinds
        assert plan(con, f"EXPLAIN VERBOSE {OPEN}") == lines


def test_of_a_protected_table_the_decision_stands_in_its_place(served):
    with served.login("ana") as con:
        before = plan(con, f"EXPLAIN {COUNT}")
        assert "Count of persons" in before
        assert any("Epsilon" in str(one) for one in before)
        (found,) = plan(con, f"EXPLAIN (FORMAT JSON) {COUNT}")
        assert found[0]["Plan"]["Decision"] == "rewritten"  # type: ignore[index]
        refused = plan(con, "EXPLAIN SELECT name FROM persons")
        assert any("Decision: refused" in str(one) for one in refused)
        # It costs nothing, and a plan would tell how many rows there are.
        assert plan(con, f"EXPLAIN {COUNT}") == before
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="leave out ANALYZE"):
            con.execute(f"EXPLAIN ANALYZE {COUNT}")


def test_it_is_described_before_it_runs(served):
    with served.login("ana") as con:
        made = con.pgconn.prepare(b"one", b"EXPLAIN (FORMAT XML) SELECT county FROM counties WHERE state = $1")
        assert not made.error_message
        # (`describe_prepared` itself keeps Python from running the server, which is in this process.)
        con.pgconn.send_describe_prepared(b"one")
        (about,) = con.wait(generators.execute(con.pgconn))
        assert (about.nparams, about.fname(0), about.ftype(0)) == (1, b"QUERY PLAN", 142)
        assert con.pgconn.exec_prepared(b"one", [b"A"]).ntuples == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("EXPLAIN SELECT 1", commands.Explain("SELECT 1")),
        ("EXPLAIN (SELECT 1)", commands.Explain("(SELECT 1)")),
        ("explain verbose select 1", commands.Explain("select 1")),
        ("EXPLAIN ANALYZE VERBOSE SELECT 1", commands.Explain("SELECT 1", runs=True)),
        ("EXPLAIN (FORMAT XML, ANALYSE) SELECT 1", commands.Explain("SELECT 1", "xml", runs=True)),
        ("EXPLAIN (ANALYZE, FORMAT XML) SELECT 1", commands.Explain("SELECT 1", "xml", runs=True)),
        ("EXPLAIN (ANALYZE false, FORMAT 'json') (SELECT 1)", commands.Explain("(SELECT 1)", "json")),
    ],
)
def test_how_it_is_read(text, wanted):
    assert commands.command(text) == wanted


@pytest.mark.parametrize(
    "text", ["EXPLAIN (FORMAT graphviz) SELECT 1", "EXPLAIN (FORMAT json SELECT 1", "EXPLAIN (COSTS, no) SELECT 1"]
)
def test_what_is_not_understood(text):
    with pytest.raises(PgError):
        commands.command(text)


def test_names_in_xml_are_escaped():
    step = plans.Plan("Seq Scan", {"Filter": "(a < '&')", "Projections": ["a", "<b>"]})
    (said,) = plans.written(step, "xml")
    read = ET.fromstring(said)
    assert read.findtext(f".//{SPACE}Filter") == "(a < '&')"
    assert [one.text for one in read.iter(f"{SPACE}Item")] == ["a", "<b>"]
