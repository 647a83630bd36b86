"""`duckanon sql`: scripts from arguments, files and pipes, and how results are drawn."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from duckanon.integrations.roles import ROLES
from tests.integrations.cli.commandline import ENVIRONMENT, process, run
from tests.integrations.protected import COUNT, RECORDS, make


def test_several_statements_with_semicolons_in_strings_and_comments():
    result = run(
        "sql", "-c", "SELECT 'a;b' AS x -- not; the end\n; /* nor ; here */ SELECT 'c' AS y;", "--format", "csv"
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "x\na;b\ny\nc\n", "")


def test_the_first_error_ends_the_script():
    result = run("sql", "-c", "SELECT 1 AS one; SELECT nope; SELECT 3 AS three")
    assert result.exit_code == 1
    assert "one" in result.stdout
    assert "three" not in result.stdout
    assert result.stderr.startswith('Binder Error: Referenced column "nope"')
    assert result.stderr.count("\n") == 1


def test_our_own_errors_stand_alone():
    result = run("sql", "-c", "CREATE TABLE t (a INT); FROM k_report('t', ['b'])")
    assert (result.exit_code, result.stderr) == (1, 'There is no column "b" in t; its columns are a.\n')


def test_a_pipe():
    good = run("sql", "--format", "csv", stdin="CREATE TABLE t AS SELECT 1 AS a;\nFROM t;\n")
    assert (good.exit_code, good.stdout) == (0, "a\n1\n")
    bad = run("sql", stdin="SELECT 1; SELCT")
    assert (bad.exit_code, bad.stderr) == (1, 'Parser Error: syntax error at or near "SELCT"\n')
    foreign = run("sql", stdin=b"SELECT '\xff'")
    assert (foreign.exit_code, foreign.stderr) == (1, "The SQL is not UTF-8 text: save it as UTF-8.\n")


def test_a_real_pipe():
    with process("sql", stdin=subprocess.PIPE) as child:
        out, err = child.communicate("SELECT 'é' AS x;", timeout=30)
    assert (child.returncode, err) == (0, "")
    assert "é" in out


@pytest.mark.parametrize(("form", "encoding"), [("table", "ascii"), ("csv", "iso8859-1"), ("json", "ascii")])
def test_an_answer_that_the_output_cannot_hold_is_not_begun(form, encoding):
    """Not even its first rows are written, and the sentence names no character of it."""
    command = ["sql", "--format", form, "-c", "SELECT unnest(['glad', 'sad', 'ł']) AS mood"]
    result = run(*command, encoding=encoding)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"The answer has characters that cannot be written in {encoding}, the encoding of the output: set the "
        "environment variable PYTHONIOENCODING=utf-8.\n"
    )


def test_what_every_command_prints_fits_the_output(here):
    """Plans, listings and tables of figures are answers too; a line about what was done is escaped instead."""
    (here / "asks.sql").write_text("SELECT count(*) FROM größen;\n")
    (here / "people.csv").write_text("größe\n" + "180\n" * 9)
    for command in (
        ["sql", "-c", "EXPLAIN SELECT 1"],
        ["k-subsets", "people.csv", "--qi", "größe", "--format", "json"],
        ["audit", "asks.sql", "--table", "größen"],
        ["audit", "asks.sql", "--table", "größen", "--format", "json"],
    ):
        result = run(*command, encoding="ascii")
        assert (result.exit_code, result.stdout) == (1, ""), command
        assert result.stderr.startswith("The answer has characters that cannot be written in ascii"), command
    with process("dbt", "example", "größen", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}) as child:
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert out == "Wrote gr\\xf6\\xdfen. Next: cd gr\\xf6\\xdfen && dbt build\n"


def test_nothing_to_run():
    for nothing in ("", " ;; ", "-- only a comment"):
        assert run("sql", "-c", nothing).exit_code == 0


def test_markup_and_control_characters_are_data():
    query = "SELECT '[red]alarm[/red] :boom:' AS \"[bold]name\", 'a\x1b[31mb\nc' AS \"x\ny\", NULL AS nothing"
    text = run("sql", "-c", query).stdout
    assert "[red]alarm[/red] :boom:" in text
    assert "[bold]name" in text
    assert "a\\x1b[31mb\\nc" in text
    assert "x\\ny" in text
    assert "NULL" in text


def test_many_rows_are_counted_and_not_all_shown():
    text = run("sql", "-c", "FROM range(12345)").stdout
    assert text.splitlines()[-1] == "12,345 rows, 40 shown"
    assert len(run("sql", "-c", "FROM range(12345)", "--format", "csv").stdout.splitlines()) == 12346


def test_columns_that_do_not_fit():
    names = ", ".join(f"'{'x' * 20}' AS c{i}" for i in range(9))
    wide = run("sql", "-c", f"SELECT {names} FROM range(2)", columns=80)
    assert max(map(len, wide.stdout.splitlines())) <= 80
    assert wide.stdout.splitlines()[-1] == "2 rows; 9 columns, 3 shown"
    upright = run("sql", "-c", f"SELECT {names}", columns=80)
    assert all(f"c{i}" in upright.stdout for i in range(9))
    assert "…" not in upright.stdout
    piped = run("sql", "-c", f"SELECT {names} FROM range(2)")
    assert "…" not in piped.stdout


def test_json_of_awkward_values():
    query = "SELECT 1 AS a, 2 AS a, 'nan'::DOUBLE AS n, [1, NULL] AS l, {'k': DATE '2020-01-02'} AS s, true AS b"
    assert json.loads(run("sql", "-c", query, "--format", "json").stdout) == [
        {"a": 1, "a_1": 2, "n": "nan", "l": [1, None], "s": {"k": "2020-01-02"}, "b": True}
    ]


def test_statements_without_a_result_say_nothing():
    script = "CREATE TABLE t (i INT); INSERT INTO t VALUES (1); UPDATE t SET i = 2; SET threads = 1; CHECKPOINT"
    result = run("sql", "-c", script)
    assert (result.exit_code, result.output) == (0, "")
    assert "7" in run("sql", "-c", 'SELECT 7 AS "Count"').stdout


def test_explain_is_printed_as_it_is():
    assert "│ physical_plan" not in run("sql", "-c", "EXPLAIN SELECT 1").stdout


def test_a_database_is_kept_and_can_be_read_only(here):
    assert run("sql", "db.duckdb", "-c", "CREATE TABLE t AS SELECT 7 AS a").exit_code == 0
    assert run("sql", "db.duckdb", "-c", "FROM t", "--format", "csv").stdout == "a\n7\n"
    refused = run("sql", "db.duckdb", "--read-only", "-c", "DROP TABLE t")
    assert refused.exit_code == 1
    assert "read-only" in refused.stderr
    assert run("sql", "--read-only", "-c", "SELECT 1").stderr == "--read-only needs a database: name its file.\n"
    Path("other.db").write_text("this is no database, it only looks like one " * 500)
    assert run("sql", "other.db", "-c", "SELECT 1").exit_code == 1


def test_an_analyst_is_told_of_noise_beside_the_data(tmp_path):
    path = str(make(tmp_path / "people.duckdb"))
    first = run("sql", path, "-c", f"{COUNT}; FROM cities LIMIT 1", "--format", "csv")
    assert first.exit_code == 0, first.output
    assert "epsilon" not in first.stdout
    told, beside = first.stderr.splitlines()
    assert told.startswith("-- count of persons: rewritten (epsilon 0.5, edition 1). The counts have noise")
    assert beside.startswith("-- Noise: ")
    again = run("sql", path, "--format", "csv", stdin=COUNT)
    assert first.stdout.startswith(again.stdout)
    today = datetime.now(UTC).date().isoformat()
    assert again.stderr.startswith(f"-- count of persons: rewritten (free: edition 1, drawn {today}).")
    refused = run("sql", path, "-c", RECORDS)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "Records of persons are protected." in refused.stderr


def test_a_steward_among_protected_tables_is_told_so(tmp_path):
    path = str(make(tmp_path / "people.duckdb"))
    steward = run("sql", path, "--role", "steward", "-c", "SELECT 1 AS one", "--format", "csv")
    assert (steward.stdout, steward.stderr) == ("one\n1\n", f"-- {ROLES['steward']}\n")
    assert run("sql", str(tmp_path / "new.duckdb"), "-c", "SELECT 1 AS one").stderr == ""
