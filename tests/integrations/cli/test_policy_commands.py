"""`duckanon init`, `duckanon policy` and `duckanon user list`."""

from __future__ import annotations

from pathlib import Path

import pytest

import duckanon
from duckanon.server.users import UserFile
from tests.integrations.cli.commandline import run

TOML = """
[populations.residents]
epsilon = 4

[tables.persons]
population = "residents"
privacy_unit = "person"
rows_per_unit = 1
per_query = 0.1
public = ["sex", "day"]
domains.sex = ["f", "m"]
domains.day = { from = 2024-01-01, to = 2024-01-31 }

[open]
tables = ["counties"]

[users.ana]
role = "analyst"
allotments.residents = 2
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckanon.connect("people.duckdb", role="steward") as con:
        con.execute("CREATE TABLE persons (person BIGINT, sex VARCHAR, day DATE, mood ENUM ('secret', 'other'))")
        con.execute("CREATE TABLE counties AS SELECT 'secret' AS name")
    Path("policies.toml").write_text(TOML)
    return Path("people.duckdb")


def test_a_beginning_has_names_and_types_and_no_value(path: Path) -> None:
    done = run("init", str(path))
    assert (done.exit_code, done.stderr) == (0, "")
    assert '# [tables."main.persons"]' in done.stdout
    assert "# # domains.mood = []  # ENUM\n" in done.stdout
    assert "secret" not in done.stdout
    assert all(line.startswith("#") or not line for line in done.stdout.splitlines())


def test_a_database_is_set_up_exported_and_changed(path: Path) -> None:
    tried = run("init", str(path), "--from", "policies.toml")
    assert tried.exit_code == 0
    assert "For epsilon 0.1, a count is within 30 of the truth" in tried.stdout
    assert tried.stdout.endswith("Nothing is written yet: the same with --yes writes it.\n")
    assert run("policy", "export", str(path)).stdout.count("\n") == 1
    done = run("init", str(path), "--from", "policies.toml", "--yes", stdin="a word of ana\n")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.endswith("ana is added as analyst.\nWritten to people.duckdb.\n")
    assert (
        run("user", "list", str(path)).stdout
        == "ana\tanalyst\t2 of 2 left on residents (about 20 more counts at 0.1 each, within 30 of the truth)\n"
    )
    exported = run("policy", "export", str(path)).stdout
    Path("exported.toml").write_text(exported)
    for file in ("exported.toml", "policies.toml"):
        same = run("policy", "apply", str(path), file)
        assert (same.exit_code, same.stdout, same.stderr) == (0, "Nothing differs.\n", "")
    Path("policies.toml").write_text(TOML.replace("2024-01-31", "2024-02-29").replace('["counties"]', "[]"))
    shown = run("policy", "apply", str(path), "policies.toml", "--dry-run")
    changed = run("policy", "apply", str(path), "policies.toml")
    assert changed.stdout == shown.stdout
    assert "main.counties is closed" in changed.stdout
    assert "the domain of day has 29 more values" in changed.stdout
    Path("policies.toml").write_text(TOML.replace("epsilon = 4", "epsilon = 5").replace("2024-01-31", "2024-02-29"))
    refused = run("policy", "apply", str(path), "policies.toml")
    assert refused.exit_code == 1
    assert "Not changed: persons: main.persons is protected already" in refused.stderr
    assert "Not changed: counties: it is not open" in refused.stderr
    again = run("init", str(path), "--from", "policies.toml")
    assert again.stderr.startswith("The database has policies already")


def test_nothing_is_written_without_all_passwords(path: Path) -> None:
    done = run("init", str(path), "--from", "policies.toml", "--yes", stdin="")
    assert (done.exit_code, done.stderr) == (
        1,
        "The password of ana is missing: standard input has one line for each new user.\n",
    )
    assert not UserFile(path).path.exists()
    assert run("policy", "export", str(path)).stdout.count("\n") == 1


def test_users_that_differ_are_named(path: Path) -> None:
    run("init", str(path), "--from", "policies.toml", "--yes", stdin="a word of ana\n")
    UserFile(path).add("eve", "analyst", "a word of eve")
    Path("policies.toml").write_text(TOML.replace('role = "analyst"', 'role = "steward"'))
    done = run("policy", "apply", str(path), "policies.toml")
    assert done.exit_code == 1
    assert "Not changed: ana: duckanon user add people.duckdb ana --role steward" in done.stderr
    assert "Not changed: eve: duckanon user remove people.duckdb eve" in done.stderr


def test_a_file_as_sql(path: Path) -> None:
    written = run("policy", "sql", "policies.toml")
    calls = written.stdout
    assert written.stderr.startswith("Users are not among these calls")
    assert calls.splitlines()[-1] == "SELECT allot('ana', 'residents', epsilon := '2');"
    assert run("sql", str(path), "--role", "steward", "-c", calls).exit_code == 0
    UserFile(path).add("ana", "analyst", "a word of ana")
    assert run("policy", "apply", str(path), "policies.toml").stdout == "Nothing differs.\n"


def test_what_cannot_be_read(path: Path) -> None:
    assert run("init", "nothing.duckdb").stderr.startswith("There is no database nothing.duckdb")
    assert run("policy", "apply", str(path), "nothing.toml").stderr.startswith("nothing.toml cannot be read")
    Path("wrong.toml").write_text("[")
    assert run("init", str(path), "--from", "wrong.toml").stderr.startswith("wrong.toml: The file is no TOML")
