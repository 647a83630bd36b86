"""release_audit and next_tables: they say what publish then does, and change nothing."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

import duckanon
from duckanon.integrations.cli.commands import app
from tests.functions.test_publish import PERSONS, POLICY, TELLING, counts, refused, said, shares

INSURED = "candidate := {vars: ['insured'], given: ['state']}"


@pytest.fixture
def told(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    for sql in (PERSONS, TELLING, f"SELECT protect('persons', {POLICY})"):
        con.execute(sql).fetchall()
    return con


def unsafe(con: duckdb.DuckDBPyConnection, more: str = "") -> list[tuple[list[str], int, list[str]]]:
    return con.execute(
        f"SELECT variables, determined, publications FROM release_audit('persons'{more}) WHERE NOT safe ORDER BY ALL"
    ).fetchall()


def test_an_audit_says_what_publish_refuses(told: duckdb.DuckDBPyConnection) -> None:
    assert told.execute("FROM release_audit('persons')").fetchall() == []
    assert unsafe(told, f", {INSURED}") == []
    said(told, shares(told, "d", "disease", "county"))
    assert unsafe(told) == []
    assert unsafe(told, f", {INSURED}") == [
        (["county", "insured"], 1, ["d", "the candidate"]),
        (["county", "state", "insured"], 1, ["d", "the candidate"]),
        (["state", "insured"], 1, ["the candidate"]),
    ]
    assert "1 follow from all of them" in refused(told, shares(told, "i", "insured", "state"))
    assert len(told.execute("FROM publications()").fetchall()) == 1


def test_next_tables_are_those_that_publish_takes(told: duckdb.DuckDBPyConnection) -> None:
    said(told, shares(told, "d", "disease", "county"))
    asked = told.execute(
        "SELECT variables, publishable, reason FROM next_tables('persons', candidates := "
        "[{vars: ['sex']}, {vars: ['state', 'insured']}, {vars: ['disease', 'sex']}])"
    ).fetchall()
    assert [(row[0], row[1]) for row in asked] == [
        (["sex"], True), (["disease", "sex"], True), (["state", "insured"], False),
    ]  # fmt: skip
    for variables, publishable, reason in asked:
        call = counts(told, f"n_{'_'.join(variables)}", *variables)
        if publishable:
            continue
        assert reason.removeprefix("The table") == refused(told, call).removeprefix("n_state_insured")
    said(told, counts(told, "n", "sex"))


def test_nothing_is_next_where_the_records_have_changed(told: duckdb.DuckDBPyConnection) -> None:
    said(told, counts(told, "n", "sex"))
    told.execute("INSERT INTO persons SELECT * REPLACE (999 AS person) FROM persons LIMIT 1").fetchall()
    asked = "SELECT publishable, reason FROM next_tables('persons', candidates := [{vars: ['age']}])"
    ((publishable, reason),) = told.execute(asked).fetchall()
    assert not publishable
    assert reason.removeprefix("The table") == refused(told, counts(told, "m", "age")).removeprefix("m")


def test_what_is_proposed_tells_something_new(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b, i AS c FROM range(60) r(i)").fetchall()
    con.execute("SELECT protect('t', epsilon := 1, public := ['a', 'b', 'c'])").fetchall()
    rows = "SELECT variables, publishable, cells, information FROM next_tables('t') ORDER BY variables"
    found = con.execute(rows).fetchall()
    assert [row[0] for row in found] == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "c"], ["b"], ["b", "c"], ["c"]]
    assert [row[1] for row in found] == [True, True, False, False, True, False, False]
    assert found[0][2:] == (2, 1.0)
    con.execute("CREATE TABLE n AS SELECT a, b, count(*) AS n FROM t GROUP BY ALL").fetchall()
    con.execute("SELECT publish('n', variables := ['a', 'b'], value := 'n')").fetchall()
    assert [row[0] for row in con.execute(rows).fetchall()] == [["a", "b", "c"], ["a", "c"], ["b", "c"], ["c"]]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("release_audit('persons', candidate := {vars: ['name']})", 'Numbers are not published by "name"'),
        ("release_audit('persons', candidate := {given: ['sex'], vars: []})", "Shares within given need vars"),
        ("next_tables('persons', candidates := [])", "candidates must be a list of tables"),
        ("next_tables('nothing')", "nothing is not protected."),
    ],
)
def test_what_makes_no_sense(told: duckdb.DuckDBPyConnection, call: str, sentence: str) -> None:
    with pytest.raises(duckdb.InvalidInputException) as raised:
        told.execute(f"FROM {call}").fetchall()
    assert str(raised.value).removeprefix("Invalid Input Error: ").startswith(sentence)


def test_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        for sql in (PERSONS, TELLING, f"SELECT protect('persons', {POLICY})"):
            con.execute(sql).fetchall()
        con.execute(f"SELECT {shares(con, 'd', 'disease', 'county')}").fetchall()  # type: ignore[arg-type]
    fine = CliRunner().invoke(app, ["tables", "audit", str(path), "persons"])
    assert fine.exit_code == 0, fine.output
    asked = ["tables", "audit", str(path), "persons", "--vars", "insured", "--given", "state", "--format", "json"]
    bad = CliRunner().invoke(app, asked)
    assert bad.exit_code == 1, bad.output
    assert '"determined": 1' in bad.output
