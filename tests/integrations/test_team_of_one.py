"""A team of one: a file with ten tables, two of them protected, a dbt project rebuilt ten times, a console as analyst.

One person has both roles. Nothing on the way may be refused without a sentence that says why and what to do instead.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError
from duckanon.integrations.dbt.project import macros
from duckanon.integrations.roles import ROLES
from tests.integrations.cli.commandline import run
from tests.integrations.dbt.test_dbt import dbt

pytestmark = pytest.mark.long("ten builds of a project; tests/integrations/dbt builds the example once")
# What a loader has left in the file.
LOADED = """
CREATE SCHEMA raw;
CREATE TABLE raw.persons AS
  SELECT i AS person, i // 3 AS household, 'w' || (i % 4) AS ward, 20 + i % 50 AS age, 'name ' || i AS name
  FROM range(600) r(i);
CREATE TABLE raw.visits AS
  SELECT i AS visit, i % 600 AS person, 'w' || (i % 4) AS ward, if(i % 3 = 0, 'ill', 'well') AS outcome
  FROM range(1500) r(i);
CREATE TABLE raw.wards AS SELECT 'w' || i AS ward, 'city ' || (i // 2) AS city FROM range(4) r(i);
CREATE TABLE raw.calendar AS SELECT DATE '2026-01-01' + i::INT AS day FROM range(365) r(i);
CREATE TABLE raw.staff AS SELECT i AS id, 1000 * i AS salary FROM range(9) r(i);
CREATE TABLE raw.suppliers AS SELECT 's' || i AS supplier FROM range(3) r(i);
CREATE TABLE raw.invoices AS SELECT i AS invoice, 100 * i AS amount FROM range(7) r(i);
"""
PROJECT = {
    "dbt_project.yml": """
name: hospital
profile: hospital
flags: {send_anonymous_usage_stats: false}
on-run-start: "{{ duckanon_policies() }}"
on-run-end: "{{ duckanon_policies() }}"
models:
  +materialized: table
""",
    "profiles.yml": """
hospital:
  target: dev
  outputs:
    dev:
      type: duckdb
      path: hospital.duckdb
      plugins:
        - module: duckanon.integrations.dbt
          config: {guard: "on"}
""",
    "models/schema.yml": """
sources:
  - name: raw
    tables:
      - name: persons
        meta:
          duckanon: {population: patients, epsilon: 4, per_query: 0.5, rows_per_unit: 1, max_size: 6,
            new_edition: yearly}
        columns:
          - {name: person, meta: {duckanon: {role: privacy_unit}}}
          - {name: household, meta: {duckanon: {role: unit}}}
          - {name: ward, meta: {duckanon: {role: public, domain: raw.wards}}}
          - {name: age, meta: {duckanon: {role: quasi_identifier}}}
          - {name: name, meta: {duckanon: {role: identifier}}}
      - name: visits
        meta: {duckanon: {population: patients, per_query: 0.5, rows_per_unit: 2}}
        columns:
          - {name: person, meta: {duckanon: {role: privacy_unit}}}
          - {name: ward, meta: {duckanon: {role: public, domain: raw.wards}}}
          - {name: outcome, meta: {duckanon: {role: public, domain: [ill, well]}}}
      - name: wards
        meta: {duckanon: {open: true}}
      - name: calendar
        meta: {duckanon: {open: true}}
models:
  - name: weeks
    meta: {duckanon: {open: true}}
""",
    "models/weeks.sql": "select week(day) as week, count(*) as days from {{ source('raw', 'calendar') }} group by all",
    "models/payments.sql": "select sum(amount) as paid from {{ source('raw', 'invoices') }}",
    "models/ages.sql": (
        "select * exclude (household) from k_anonymize('{{ source(\"raw\", \"persons\") }}', ['age'], k := 5, "
        "drop := ['person', 'name', 'ward'])"
    ),
}
REFUSED = "select name, age from {{ source('raw', 'persons') }}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, built once."""
    folder = loaded(tmp_path_factory.mktemp("hospital"))
    (done,) = dbt(folder, ["build"])
    assert done["success"], done
    return folder


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Path:
    """A copy of the built project, so that no test depends on what another one asked."""
    return shutil.copytree(built, tmp_path / "hospital")


def loaded(folder: Path) -> Path:
    with duckdb.connect(folder / "hospital.duckdb") as con:
        con.execute(LOADED).fetchall()
    (folder / "models").mkdir()
    for name, text in PROJECT.items():
        if name == "models/schema.yml":
            text = text.replace("      - name: calendar", "      - name: invoices\n      - name: calendar")
        (folder / name).write_text(text)
    macros(folder)
    return folder


def steward(home: Path, query: str) -> list[tuple[Any, ...]]:
    with duckanon.connect(home / "hospital.duckdb", role="steward") as con:
        found: list[tuple[Any, ...]] = con.execute(query).fetchall()
        return found


def ask(home: Path, text: str, *more: str) -> tuple[int, str, str]:
    done = run("sql", str(home / "hospital.duckdb"), "-c", text, "--format", "csv", *more)
    return done.exit_code, done.stdout, done.stderr


def publish(home: Path) -> None:
    code, _, told = ask(home, "SELECT publish('ages', of := 'raw.persons') AS said", "--role", "steward")
    assert (code, told) == (0, f"-- {ROLES['steward']}\n")


def ledger(home: Path) -> list[tuple[Any, ...]]:
    return steward(home, "SELECT action, tbl, population FROM privacy_ledger() ORDER BY number")


def test_the_file_has_ten_tables_and_ten_builds_change_nothing_but_the_models(tmp_path: Path) -> None:
    home = loaded(tmp_path)
    (home / "models" / "mine.sql").write_text(REFUSED)
    refused, *_ = dbt(home, ["build"])
    status, said = refused["nodes"].pop("mine")
    assert status == "error"
    assert "Model mine asks protected tables for more than a release:" in said
    assert "line 1: row-level of hospital.raw.persons" in said
    assert "Ask for a release instead. Or keep the model inside, protected as well" in said
    assert {status for status, _ in refused["nodes"].values()} == {"success"}
    before = ledger(home)
    assert before == [
        ("open", "raw.wards", None),
        ("open", "raw.calendar", None),
        ("protect", "raw.persons", "patients"),
        ("protect", "raw.visits", "patients"),
        ("open", "main.weeks", None),
    ]
    (home / "models" / "mine.sql").unlink()
    for one in dbt(home, *[["build"]] * 10):
        assert one["success"], one
    assert ledger(home) == before
    tables = "SELECT count(*) FROM duckdb_tables() WHERE NOT internal AND schema_name <> 'duckanon'"
    assert steward(home, tables) == [(10,)]


def test_a_steward_looks_at_what_analysts_get_and_publishes(home: Path) -> None:
    path = str(home / "hospital.duckdb")
    preview = (
        "SELECT decision, epsilon, edition FROM explain_privacy('SELECT ward, count(*) FROM raw.visits GROUP BY ward')"
    )
    assert steward(home, preview) == [("rewritten", 0.5, 1)]
    publish(home)
    # dbt builds the copy's source anew; what is published stays as it was.
    published = steward(home, "FROM duckanon.ages ORDER BY ALL")
    (again,) = dbt(home, ["build", "--select", "ages"])
    assert again["success"], again
    assert steward(home, "FROM duckanon.ages ORDER BY ALL") == published
    assert run("sql", path, "-c", "SELECT count(*) AS n FROM ages", "--format", "csv").stdout == "n\n600\n"


NOISE = "count of raw.visits: rewritten (epsilon 0.5"
FREE = "count of raw.visits: rewritten (free: edition 1"
# What an analyst asks, and the beginning of what is said of it.
ANSWERED = {
    "SELECT ward, count(*) AS n FROM raw.visits GROUP BY ward ORDER BY ward": NOISE,
    "SELECT ward, count(*) AS n FROM raw.visits GROUP BY ward ORDER BY n": FREE,
    "SELECT city, sum(n) AS n FROM (SELECT ward, count(*) AS n FROM raw.visits GROUP BY ward) "
    "JOIN raw.wards USING (ward) GROUP BY city": FREE,
    # The ward is looked up before counting, so this is a question of its own.
    "SELECT city, count(*) FROM raw.visits JOIN raw.wards USING (ward) GROUP BY 1": "count of raw.visits: rewritten "
    "(epsilon 0.5",
    "SELECT outcome, count(*) / sum(count(*)) OVER () AS p FROM raw.visits GROUP BY outcome": NOISE,
    "SELECT size, count(*) AS n FROM (SELECT household, count(*) AS size FROM raw.persons GROUP BY household) "
    "GROUP BY size": "group sizes of raw.persons: rewritten (epsilon 0.5",
    "FROM ages": "query: runs.",
    "FROM weeks WHERE week = 7": "query: runs.",
    "CREATE TEMP TABLE mine AS FROM raw.wards": "query: runs.",
    "SELECT table_name FROM information_schema.tables": "query: runs.",
    "FROM privacy_budget()": "query: runs.",
}
CLOSED = "The statement reads something that analysts cannot see"
NOT_ANSWERED = {
    "FROM raw.persons": "Records of raw.persons are protected. What may be asked: ",
    "SELECT avg(age) FROM raw.persons": "The policy declares no bounds for age",
    "SELECT age, count(*) FROM raw.persons GROUP BY age": "Counts are told by columns that the policy calls",
    "SELECT city, median(visit) FROM raw.visits JOIN raw.wards USING (ward) GROUP BY 1": "Told of a join are count",
    "FROM k_anonymize('raw.persons', ['age'])": "k_anonymize of raw.persons, which is protected, is released by the",
    "FROM raw.staff": CLOSED,
    "FROM payments": CLOSED,
    "FROM raw.nowhere": CLOSED,
    "COPY raw.wards TO 'wards.csv'": "An analyst's connection does not run COPY statements: it answers queries",
    "SELECT protect('raw.staff', epsilon := 1)": "The function protect is not one of those that an analyst may call",
    "CREATE TABLE mine AS SELECT 1 AS a": "An analyst creates nothing but temporary views",
}


def test_an_analyst_is_answered_or_told_what_to_do_instead(home: Path) -> None:
    publish(home)
    with duckanon.connect(home / "hospital.duckdb") as con:
        assert con.role == "analyst"
        for query, said in ANSWERED.items():
            con.execute(query).fetchall()
            assert con.decision is not None
            assert con.decision.steps[0].line.startswith(said), query
        for query, said in NOT_ANSWERED.items():
            with pytest.raises(DuckanonError) as refused:
                con.execute(query).fetchall()
            text = str(refused.value)
            # One sentence or two, with a way out: a call, a person to ask, or what else there is.
            assert said in text, (query, text)
            assert text.endswith("."), text
            assert re.search(r"What may be asked: |: it answers|ask the steward|SHOW TABLES|TEMP TABLE", text), text
            for offered in offers(text):
                con.execute(offered).fetchall()
        # A closed table and one that is not there are told of in the same words, besides the name as it was written.
        closed = [query for query, said in NOT_ANSWERED.items() if said == CLOSED]
        told = {str(con.explain(one).steps[0].reason).replace(one.removeprefix("FROM "), "NAME") for one in closed}
        assert len(told) == 1


def offers(text: str) -> list[str]:
    """The statements that a refusal offers, as they stand there."""
    _, _, offered = text.partition("What may be asked: ")
    return [one.removesuffix(".") for one in offered.split(" or ") if one]


def test_the_console_says_who_is_there_and_what_a_number_is(home: Path) -> None:
    """By the command line, in a pipe: data on stdout, the decision beside it."""
    counts = "SELECT ward, count(*) AS n FROM raw.visits GROUP BY ward ORDER BY ward"
    assert ask(home, counts)[2].startswith(f"-- {NOISE}")
    code, data, told = ask(home, counts)
    assert (code, len(data.splitlines())) == (0, 5)
    assert re.match(
        r"-- count of raw\.visits: rewritten \(free: edition 1, drawn [\d-]{10}\)\. The counts have noise", told
    )
    assert ask(home, counts)[1] == data
    code, data, told = ask(home, "FROM raw.persons")
    assert (code, data) == (1, "")
    assert "Records of raw.persons are protected. What may be asked: " in told
