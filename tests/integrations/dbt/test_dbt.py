"""dbt: the example project and models that must be refused, built by the real dbt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import duckanon
from duckanon.catalog.policy import Policy
from duckanon.errors import InvalidInput
from duckanon.integrations.cli.commands import app
from duckanon.integrations.dbt.macro_functions import MacroFunctions
from duckanon.integrations.dbt.settings import Changes, Mode, Settings
from duckanon.integrations.dbt_meta import declared, is_due, policy_fields

ROOT = Path(__file__).parents[3]

# What stands beside the example's models, and why the guard refuses it.
REFUSED = {
    "copy.sql": ("select * from {{ ref('voters') }}", "line 1: row-level of survey.main.voters"),
    "counts.sql": (
        "select party, count(*) as n from {{ ref('voters') }} group by party",
        "count of survey.main.voters",
    ),
    "view_of_records.sql": (
        "{{ config(materialized='view') }} select vote from {{ ref('voters') }}",
        "line 1: row-level of survey.main.voters",
    ),
    "open_copy.sql": (
        "{{ config(meta={'duckanon': {'open': true}}) }} select * from k_anonymize('{{ ref(\"voters\") }}', "
        "['age', 'education', 'income'], categorical := ['education'], drop := ['town', 'tv_news'])",
        "call publish('open_copy', of := 'voters') once the model stands",
    ),
    "lazy.sql": (
        "{{ config(materialized='view') }} select * from k_anonymize('{{ ref(\"plain\") }}', ['a'])",
        "Model lazy is a view over k_anonymize: it would be computed anew at each read",
    ),
    "grows.sql": (
        "{{ config(materialized='incremental') }} select * from k_anonymize('{{ ref(\"plain\") }}', ['a'])",
        "two k-anonymous copies of the same records can be intersected. Make it a table",
    ),
    "through_cte.sql": (
        "with v as (from {{ source('raw', 'residents') }}) "
        "select * from dp_group_sizes('v', 'household', epsilon := 0.1, max_size := 8)",
        "dp_group_sizes is called on v, which reads a protected table and has no policy itself",
    ),
    "by_python.py": (
        "def model(dbt, con):\n    return dbt.ref('voters')\n",
        "what a python model reads of survey.main.voters is not followed",
    ),
    "too_dear.sql": (
        "select * from dp_group_sizes('{{ source(\"raw\", \"residents\") }}', 'household', epsilon := 1.25, "
        "max_size := 8)",
        "epsilon 1.25 is more than",
    ),
}
ADMITTED = {
    # A steward's own, until it is published.
    "low_k.sql": "select * from k_anonymize('{{ ref(\"voters\") }}', ['age', 'education', 'income'], k := 2, "
    "categorical := ['education'])",
    "plain.sql": "select i // 5 as a, i % 3 as b from range(20) r(i)",
    "also_plain.sql": "select i // 5 as a, i % 3 as b from range(20) r(i)",
    "inside.sql": "{{ config(meta={'duckanon': {'protected': true, 'epsilon': 1}}) }} "
    "select age from {{ ref('voters') }}",
    "part.sql": "{{ config(materialized='ephemeral') }} "
    "select class_id, a_lo from k_anonymize('{{ ref(\"plain\") }}', ['a'])",
    "of_part.sql": "select * from {{ ref('part') }}",
    "of_release.sql": "{{ config(materialized='view') }} "
    "select vote, count(*) as n from {{ ref('voters_released') }} group by 1",
    "copied_again.sql": "select party from {{ ref('copy') }}",
}
TESTS = """
models:
  - name: also_plain
    data_tests:
      - k_anonymous: {name: small_k, arguments: {quasi_identifiers: [a, b], k: 3}}
      - k_anonymous: {name: some_rows, arguments: {quasi_identifiers: a}, config: {where: "a > 1"}}
      - k_anonymous: {name: no_column, arguments: {quasi_identifiers: [zip]}}
      - k_anonymous: {name: right_k, arguments: {quasi_identifiers: [a], k: 5}}
      - no_disclosed_cells: {name: few, arguments: {rows: [a], cols: [b], small: 3}}
      - no_disclosed_cells: {name: fewer, arguments: {rows: [a], cols: [b], small: 1}}
      - budget_not_exceeded: {name: no_budget}
  - name: inside
    data_tests:
      - budget_not_exceeded: {name: little_left, arguments: {reserve: 2}}
      - budget_not_exceeded: {name: enough_left, arguments: {reserve: 1}}
    columns:
      - name: age
        data_tests:
          - not_null
          - unique: {name: stored, config: {store_failures: true}}
unit_tests:
  - name: few_voters
    model: vote_by_tv_news
    given:
      - input: ref('voters')
        rows: [{tv_news: 1, vote: Dole}, {tv_news: 1, vote: Clinton}]
    expect:
      rows: [{tv_news: 1, vote: Dole, share: 0.5}, {tv_news: 1, vote: Clinton, share: 0.5}]
  - name: few_released
    model: voters_released
    given:
      - input: ref('voters')
        format: sql
        rows: "select i as age, 'x' as education, 10 as income, 'a' as party, 'b' as vote, 1 as town, 2 as tv_news
          from range(5) r(i)"
    expect:
      format: sql
      rows: "select 1 as class_id, 0 as age_lo, 4 as age_hi, ['x'] as education_set, 10 as income_lo, 10 as income_hi,
        'a' as party, 'b' as vote from range(5)"
"""
PROTECTED = "main.people is protected: of epsilon {} in all, 0 is spent and {} left. A charge protects one record."
PROFILE = """
survey:
  target: dev
  outputs:
"""
OUTPUT = """
    {name}:
      type: duckdb
      path: survey.duckdb
      threads: 4
      settings: {{preserve_insertion_order: true}}
      plugins:
        - module: duckanon.integrations.dbt
          config: {{guard: {guard}}}
"""


def dbt(project: Path, *runs: list[str]) -> list[dict[str, Any]]:
    """Each run of dbt in the project: whether it succeeded, each node's status and message, and what was said."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integrations.dbt.dbt_driver", json.dumps(runs)],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows(project: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(project / "survey.duckdb") as con:
        return duckanon.register(con).execute(query).fetchall()


def statuses(run: dict[str, Any]) -> dict[str, str]:
    return {name: status for name, (status, _) in run["nodes"].items()}


def example(folder: Path) -> Path:
    result = CliRunner().invoke(app, ["dbt", "example", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def test_the_example_and_what_stands_beside_it(tmp_path: Path) -> None:
    """One project, built twice: with the guard on, then with the guard only listing."""
    project = example(tmp_path / "survey")
    (project / "models" / "more").mkdir()
    for name, text in {**{name: text for name, (text, _) in REFUSED.items()}, **ADMITTED}.items():
        (project / "models" / "more" / name).write_text(text)
    (project / "models" / "more" / "more.yml").write_text(TESTS)
    outputs = [OUTPUT.format(name=name, guard=name) for name in ("on", "audit")]
    (project / "profiles.yml").write_text(PROFILE.replace("dev", "audit") + "".join(outputs).replace(" on:", " 'on':"))
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "dbt_project.yml").write_text("name: bare\nprofile: survey\nflags: {send_anonymous_usage_stats: false}")
    (bare / "models").mkdir()
    (bare / "models" / "a.sql").write_text("select 1 as a")
    without = ["run", "--target", "on", "--project-dir", str(bare), "--profiles-dir", str(project)]
    operation = ["run-operation", "duckanon_unprotect", "--args", "{name: working_voters}"]
    on, audit, ended, unguarded = dbt(project, ["build", "--target", "on"], ["build"], operation, without)

    found = statuses(on)
    models = {path.stem for path in (project / "models").glob("*.sql")}
    for name in [*models, "voters", "survey-on-run-end-0"]:
        assert found[name] == "success", on["nodes"][name]
    for name, (_, why) in REFUSED.items():
        status, message = on["nodes"][Path(name).stem]
        assert status == "error", name
        assert why in message, message
    assert {name: found.get(Path(name).stem) for name in ADMITTED} == {
        **dict.fromkeys(ADMITTED, "success"),
        "part.sql": None,
        "copied_again.sql": "skipped",
    }
    for name in ("small_k", "few", "no_budget", "little_left"):
        assert found[name] == "fail", name
    for name in ("right_k", "fewer", "enough_left", "not_null_inside_age", "few_voters", "few_released"):
        assert found[name] == "pass", name
    assert "k_anonymous looks at a whole table: leave `where` out" in on["nodes"]["some_rows"][1]
    assert "there is no column zip in" in on["nodes"]["no_column"][1]
    assert "Test stored asks protected tables for more than a release" in on["nodes"]["stored"][1]

    # Built again: what the guard refused is listed, nothing more is charged, and policies outlive rebuilt tables.
    assert "too_dear" in audit["nodes"]
    warned = [one for one in audit["said"] if "asks protected tables for more than a release" in one]
    built = ("copy", "counts", "view_of_records", "open_copy", "through_cte", "by_python", "copied_again")
    for name in built:
        assert statuses(audit)[name] == "success", audit["nodes"][name]
        assert any(one.startswith(f"Model {name} asks") for one in warned), name
    assert all(statuses(audit)[name] == "error" for name in ("lazy", "grows", "too_dear"))
    lines = rows(project, "SELECT action, tbl, epsilon_exact FROM privacy_ledger() ORDER BY ALL")
    # (Audit builds what the guard refuses: noise on a table expression is charged to that.)
    charges = [line for line in lines if line[0] == "charge"]
    assert charges == [("charge", "raw.residents", "0.5"), ("charge", "v", "0.1")]
    assert [line[1] for line in lines if line[0] == "open"] == ["main.open_copy", "raw.counties"]
    protected = ["main.inside", "main.voters", "main.working_voters", "raw.residents"]
    assert [line[1] for line in lines if line[0] == "protect"] == protected
    assert ended["success"], ended
    assert [line[0] for line in rows(project, "SELECT tbl FROM policies() ORDER BY ALL")] == [
        name for name in protected if name != "main.working_voters"
    ]
    # What is copied as it is, as the command line tells it.
    assert any(one.endswith("Model voters_released: copied as they are: party, vote.") for one in on["said"]), on[
        "said"
    ]
    ((least,),) = rows(
        project,
        "SELECT k FROM k_report('voters_released', ['age_lo', 'age_hi', 'education_set', 'income_lo', 'income_hi'])",
    )
    assert least >= 5
    assert rows(project, "SELECT sum(groups) FROM household_sizes WHERE level = 0") == [(600,)]

    # A guard without macros would guard nothing, and say nothing.
    assert not unguarded["success"]
    told = unguarded["exception"] + " ".join(unguarded["said"])
    assert "run `duckanon dbt macros` in the project's folder" in told, unguarded


def test_a_project_that_was_never_built_is_compiled_and_audited(tmp_path: Path) -> None:
    project = example(tmp_path / "survey")
    (compiled,) = dbt(project, ["compile"])
    assert compiled["success"], compiled
    assert rows(project, "SELECT count(*) FROM privacy_ledger()") == [(0,)]
    audited = CliRunner(env={"TERM": "dumb"}).invoke(app, ["audit", str(project)])
    assert (audited.exit_code, "0 unsafe" in audited.output) == (0, True), audited.output


def steward(now: Callable[[], datetime] | None = None, **config: Any) -> duckdb.DuckDBPyConnection:
    """A connection with what the macros ask, and a table of people."""
    con = duckanon.register(duckdb.connect())
    MacroFunctions(Settings.of(config), now).register(con)
    con.execute("CREATE TABLE people AS SELECT i // 5 AS age, 'p' || i AS name FROM range(20) r(i)").fetchall()
    return con


def ask(con: duckdb.DuckDBPyConnection, function: str, **given: Any) -> dict[str, Any]:
    ((answer,),) = con.execute(f"SELECT {function}(?)", [json.dumps(given)]).fetchall()
    found: dict[str, Any] = json.loads(answer)
    return found


def node(name: str = "people", kind: str = "seed", **meta: Any) -> dict[str, Any]:
    columns = {one: {"meta": {"duckanon": {"role": role}}} for one, role in meta.pop("columns", {}).items()}
    path = ["memory", "main", name]
    known: dict[str, Any] = {"unique_id": f"{kind}.{name}", "resource_type": kind, "name": name, "relation": path}
    known |= {"file": False, "materialized": "table"}
    return {**known, "meta": {"duckanon": meta}, "columns": columns}


def policies(
    con: duckdb.DuckDBPyConnection,
    *nodes: dict[str, Any],
    built: tuple[str, ...] = (),
    ended: bool = False,
    builds: bool = True,
) -> dict[str, Any]:
    return ask(con, "_dk_dbt_policies", run="1", nodes=nodes, built=built, ended=ended, builds=builds)


def lines(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return con.execute("SELECT action, tbl FROM privacy_ledger() ORDER BY number").fetchall()


def judged(
    con: duckdb.DuckDBPyConnection, code: str, kind: str = "table", run: str = "1", **meta: Any
) -> dict[str, Any]:
    model = {"name": "m", "resource_type": "model", "this": ["memory", "main", "m"], "language": "sql"}
    reads = [["memory", "main", "people"]]
    given = {**model, "run": run, "node": node("m", "model", **meta), "materialized": kind, "code": code}
    return ask(con, "_dk_dbt_judge", **given, reads=reads)


def test_columns_that_are_copied_and_those_that_could_identify() -> None:
    con = steward()
    policies(con)
    code = "SELECT * FROM k_anonymize('people', ['age'], k := 5)"
    assert judged(con, code) == {"said": [], "problem": None}
    # A model that was not built has no table.
    assert ask(con, "_dk_dbt_copied")["said"] == []
    judged(con, code)
    con.execute(f"CREATE TABLE m AS {code}").fetchall()
    (told,) = ask(con, "_dk_dbt_copied")["said"]
    assert told == {
        "text": "Model m: copied as they are: name. Almost every record has a value of its own in name: whoever knows "
        "this value finds the record. Leave it out with drop := ['name'].",
        "warns": True,
    }
    # Said once, and nothing is said of other models.
    judged(con, "SELECT 1 AS one")
    assert ask(con, "_dk_dbt_copied")["said"] == []


def test_a_copied_unit_of_a_policy_is_warned_of() -> None:
    con = steward()
    policies(con)
    con.execute("CREATE TABLE homes AS SELECT i // 4 AS hh FROM range(20) r(i)").fetchall()
    con.execute("SELECT protect('homes', epsilon := 1, privacy_unit := 'hh', rows_per_unit := 4)").fetchall()
    judged(con, "SELECT * FROM k_anonymize('people', ['age'], k := 5)")
    con.execute("CREATE TABLE m AS SELECT 1 AS class_id, 1 AS age_lo, 9 AS age_hi, hh FROM homes").fetchall()
    (told,) = ask(con, "_dk_dbt_copied")["said"]
    assert told["warns"]
    assert "hh links the records of each hh" in told["text"]


def test_settings() -> None:
    assert Settings.of({"guard": True}).guard is Mode.ON  # as YAML reads `guard: on`
    assert Settings.of({"guard": False}).guard is Mode.OFF
    assert Settings.of({"guard": "audit", "threads": 4}, {"threads"}).guard is Mode.AUDIT
    assert Settings.of({}).guard is None
    assert Settings.of({"changes": "apply"}).changes is Changes.APPLY
    wrong: dict[str, dict[str, Any]] = {
        "has no setting 'gaurd' in profiles.yml: it is guard, changes or policy.": {"gaurd": "on"},
        "guard in profiles.yml is wrong: it is on, audit or off": {"guard": "maybe"},
        "changes in profiles.yml is wrong: it is refuse or apply": {"changes": True},
        "has no term 'kk' in its policy": {"policy": {"kk": 5}},
        "must be keys and values": {"policy": [5]},
    }
    for said, config in wrong.items():
        with pytest.raises(InvalidInput, match=said):
            Settings.of(config)


def test_policies_from_meta() -> None:
    columns = {"age": ["quasi_identifier", "public"], "name": "identifier", "home": "unit"}
    found = declared(node(epsilon=0.1, k=3, sensitive="vote", columns=columns))
    made = Policy(**policy_fields(found, {"epsilon": 5, "small": 7}, "people", {}))
    assert (made.epsilon, made.unit, made.k, made.small) == (Fraction(1, 10), "home", 3, 7)
    assert (made.quasi_identifiers, made.public, made.drop, made.sensitive) == (
        ("age",),
        ("age",),
        ("name",),
        ("vote",),
    )
    assert declared(node(protected=True)).protected
    assert not declared({"name": "people"}).protected
    # dbt 1.10 and later may keep meta in the config alone.
    assert declared({"name": "people", "config": {"meta": {"duckanon": {"epsilon": 1}}}}).protected
    wrong = {
        "The seed people has no term 'eps' in its policy": node(eps=1),
        "The seed people, column age: meta.duckanon gives a role": node(columns={"age": "qi"}),
        "has two columns with the role unit": node(columns={"age": "unit", "name": "unit"}),
        "domains says something for each column": node(domains=["age"]),
        "is not to be protected, and has a policy": node(protected=False, epsilon=1),
        "may allow findings of these kinds only": node(allow=["all"]),
        "protected in meta.duckanon is true or false": node(protected="yes"),
        "meta.duckanon must be keys and values": {**node(), "meta": {"duckanon": "protected"}},
    }
    for said, one in wrong.items():
        with pytest.raises(InvalidInput, match=said):
            declared(one)
    for said, one in {
        "people is protected and has no budget": node(protected=True),
        "people: epsilon must be a number above 0": node(epsilon="much"),
        "people: k must be 2 or more": node(epsilon=1, k=1),
        'people: Column "age" is both in quasi_identifiers and in drop': node(
            epsilon=1, columns={"age": ["quasi_identifier", "identifier"]}
        ),
    }.items():
        with pytest.raises(InvalidInput, match=said):
            policy_fields(declared(one), {}, "people", {})


def test_policies_are_set_once_and_changed_only_on_purpose() -> None:
    con = steward()
    one = node(epsilon=1, columns={"age": "quasi_identifier"})
    assert policies(con, one)["said"] == [PROTECTED.format(1, 1)]
    assert policies(con, one) == {"said": [], "problem": None}
    # A table that is dropped and made again has kept its policy; one that does not stand yet has its own already.
    con.execute("CREATE OR REPLACE TABLE people AS SELECT 1 AS age").fetchall()
    assert policies(con, one, node("later", epsilon=2))["problem"] is None
    assert con.execute("SELECT tbl FROM policies()").fetchall() == [("main.later",), ("main.people",)]
    changed = policies(con, node(epsilon=2, columns={"age": "quasi_identifier"}))["problem"]
    assert changed.startswith("The seed people is protected already, and the project says another policy (epsilon).")
    assert "dbt run-operation duckanon_unprotect --args '{name: people}'" in changed
    con.execute("SELECT unprotect('people')").fetchall()
    assert policies(con, node(epsilon=2))["said"] == [PROTECTED.format(2, 2)]
    applied = steward(changes="apply")
    policies(applied, one)
    assert "of epsilon 3 in all" in policies(applied, node(epsilon=3))["said"][0]


def test_policies_name_tables_and_columns_that_stand() -> None:
    con = steward(policy={"epsilon": 1})
    missing = node("nowhere", "source", protected=True)
    assert "there is no table memory.main.nowhere: load it first" in policies(con, missing)["problem"]
    zip_code = node(columns={"zip": "quasi_identifier"})
    # A seed or model may get the column in this very run.
    assert policies(con, zip_code)["problem"] is None
    assert 'no column "zip" in the seed people' in policies(con, zip_code, built=("seed.people",))["problem"]
    file = {**node(kind="source", protected=True), "file": True}
    assert "is a file, which can have no policy" in policies(con, file)["problem"]
    part = {**node(kind="model", protected=True), "materialized": "ephemeral"}
    assert "is ephemeral, and so a part of every model" in policies(con, part)["problem"]


def test_judgements_without_dbt() -> None:
    con = steward(policy={"epsilon": 1})
    assert "were not applied in this run" in judged(con, "FROM people", run="2")["problem"]
    policies(con, node(protected=True, columns={"age": "quasi_identifier", "name": "identifier"}))
    assert judged(con, "SELECT 1 AS a")["problem"] is None
    assert "line 2: row-level of memory.main.people" in judged(con, "SELECT *\nFROM people")["problem"]
    assert (
        "Or allow it what it asks: meta: {duckanon: {allow: [count]}}"
        in judged(con, "SELECT count(*) FROM people")["problem"]
    )
    assert judged(con, "SELECT count(*) FROM people", allow=["count"])["problem"] is None
    kept = "SELECT * FROM k_anonymize('\"memory\".\"main\".\"people\"', ['age'], k := 5, drop := ['name'])"
    assert judged(con, kept)["problem"] is None
    # A copy is a steward's own until it is published: what is open to analysts is none.
    assert judged(con, kept.replace(", drop := ['name']", ""))["problem"] is None
    assert "call publish('m', of := 'people') once the model stands" in judged(con, kept, open=True)["problem"]
    opened = judged(con, "FROM people", open=True, allow=["row-level"])["problem"]
    assert "row-level" in opened
    assert opened.endswith("Analysts are to read it (open: true), so its meta can allow it nothing.")
    assert (
        "protected as well: {{ config(materialized='table') }} and meta:"
        in judged(con, "FROM people", "view")["problem"]
    )
    assert (
        "what a table_function reads of memory.main.people" in judged(con, "FROM people", "table_function")["problem"]
    )
    con.execute("CREATE VIEW grown AS SELECT * FROM people WHERE age > 1").fetchall()
    sizes = "FROM dp_group_sizes('{}', 'name', epsilon := 1, max_size := 2)"
    assert "dp_group_sizes is called on grown" in judged(con, sizes.format("grown"))["problem"]
    assert judged(con, sizes.format("people"))["problem"] is None
    assert "snapshot" in judged(con, kept, "snapshot")["problem"]
    # What cannot be parsed is refused if it names a protected table, and only then.
    assert "cannot be parsed" in judged(con, "FROM people SELEC ((")["problem"]
    assert judged(con, "FROM others SELEC ((")["problem"] is None


def test_ten_runs_of_the_same_project_add_no_line() -> None:
    con = steward(policy={"epsilon": 1})
    con.execute("CREATE TABLE places AS SELECT 1 AS age").fetchall()
    project = [
        node(population="all", privacy_unit="name", rows_per_unit=2, new_edition="yearly", domains={"age": [0, 1, 2]}),
        node("places", "source", open=True),
    ]
    for _ in range(10):
        assert policies(con, *project)["problem"] is None
        con.execute("CREATE OR REPLACE TABLE people AS SELECT * FROM people").fetchall()
        con.execute("CREATE OR REPLACE TABLE places AS SELECT 2 AS age").fetchall()
        assert policies(con, *project, built=("seed.people",), ended=True)["problem"] is None
    assert lines(con) == [("open", "main.places"), ("protect", "main.people")]
    # A protected table that is gone keeps its policy, and analysts out.
    con.execute("DROP TABLE people").fetchall()
    assert policies(con, *project, ended=True) == {"said": [], "problem": None}
    refused = con.execute("SELECT decision, reason FROM explain_privacy('FROM people')").fetchall()
    assert refused[0][0] == "refused"
    assert "Records of people are protected" in refused[0][1]


def test_open_tables() -> None:
    con = steward(policy={"epsilon": 1})
    one = node("places", "model", open=True)
    assert policies(con, one) == {"said": [], "problem": None}
    con.execute("CREATE TABLE places AS SELECT 1 AS city").fetchall()
    assert policies(con, one, ended=True)["said"] == ["main.places is open: analysts read it as it is."]

    def reads() -> str:
        ((decision,),) = con.execute("SELECT decision FROM explain_privacy('FROM places')").fetchall()
        return str(decision)

    assert reads() == "runs"
    # With other columns it is another table, until the project says so again.
    con.execute("CREATE OR REPLACE TABLE places AS SELECT 1 AS city, 2 AS size").fetchall()
    assert reads() == "refused"
    assert len(policies(con, one, ended=True)["said"]) == 1
    assert reads() == "runs"
    assert policies(con, node("places", "model"))["said"] == []
    assert reads() == "runs"
    assert "is closed" in policies(con, node("places", "model", open=False))["said"][0]
    assert reads() == "refused"
    assert policies(con, node("places", "model", open=False))["said"] == []
    wrong = {
        "is to be open, and has a policy": node("places", open=True, epsilon=1),
        "open in meta.duckanon is true or false": node("places", open="yes"),
        "there is no table memory.main.nowhere": node("nowhere", "source", open=True),
        "is ephemeral": {**node("places", "model", open=True), "materialized": "ephemeral"},
    }
    for said, bad in wrong.items():
        assert said in policies(con, bad)["problem"]


def test_editions_begin_by_the_calendar_and_never_twice_in_a_period() -> None:
    now = datetime(2030, 1, 31, 23)
    con = steward(policy={"epsilon": 1}, now=lambda: now)
    one, other = (
        node(name, population="all", privacy_unit="name", new_edition="monthly") for name in ("people", "others")
    )
    con.execute("CREATE TABLE others AS FROM people").fetchall()

    def edition() -> int:
        ((found,),) = con.execute("SELECT edition FROM privacy_budget()").fetchall()
        return int(found)

    policies(con, one, other)
    assert policies(con, one, other, ended=True, builds=False) == {"said": [], "problem": None}
    assert edition() == 1
    # (The ledger's lines have today's date, which is an earlier year's.)
    assert "Edition 2 of all has begun" in policies(con, one, other, ended=True)["said"][0]
    now = datetime.now()
    assert policies(con, one, other, ended=True)["said"] == []
    assert policies(con, one, other)["said"] == []
    assert edition() == 2
    quarrel = policies(
        con, one, {**other, "meta": {"duckanon": {**other["meta"]["duckanon"], "new_edition": "daily"}}}, ended=True
    )
    assert "are of one population, and say different things of new_edition" in quarrel["problem"]
    assert "new_edition in meta.duckanon says how often" in policies(con, node(new_edition="hourly"))["problem"]


@pytest.mark.parametrize(
    ("period", "began", "same", "later"),
    [
        ("daily", "2026-03-01 00:00", "2026-03-01 23:59", "2026-03-02 00:00"),
        ("weekly", "2026-12-28 00:00", "2027-01-03 23:59", "2027-01-04 00:00"),
        ("monthly", "2026-03-01 00:00", "2026-03-31 23:59", "2026-04-01 00:00"),
        ("quarterly", "2026-04-01 00:00", "2026-06-30 23:59", "2026-07-01 00:00"),
        ("yearly", "2026-01-01 00:00", "2026-12-31 23:59", "2027-01-01 00:00"),
    ],
)
def test_periods(period: str, began: str, same: str, later: str) -> None:
    at = datetime.fromisoformat
    assert not is_due(period, at(began), at(same))
    assert is_due(period, at(began), at(later))
    assert not is_due(period, at(later), at(began))


@pytest.mark.parametrize("domain", ["ages", "main.ages.age", {"values": "ages.age", "nulls": True}])
def test_a_policy_with_domains_waits_for_its_table_and_is_set_before_anything_reads_it(domain: object) -> None:
    con = steward(policy={"epsilon": 1, "per_query": 0.1})
    place = {"name": "age", "meta": {"duckanon": {"role": "public", "domain": domain}}}
    born = {**node("born", "model"), "columns": {"age": place}}
    ages = node("ages", "seed", open=True)
    assert policies(con, born, ages) == {"said": [], "problem": None}
    model = {"name": "m", "resource_type": "model", "this": ["memory", "main", "m"], "language": "sql"}
    reading: dict[str, Any] = {**model, "run": "1", "node": node("m", "model"), "materialized": "table"}
    reading |= {"code": "SELECT 1 AS a", "reads": [["memory", "main", "born"]]}
    con.execute("CREATE TABLE born AS SELECT 1 AS age").fetchall()
    assert "has no policy yet" in ask(con, "_dk_dbt_judge", **reading)["problem"]
    con.execute("CREATE TABLE ages AS SELECT 1 AS age").fetchall()
    assert ask(con, "_dk_dbt_judge", **reading) == {"said": [], "problem": None}
    assert lines(con) == [("open", "main.ages"), ("protect", "main.born")]
    ended = policies(con, born, ages, built=("model.born", "seed.ages"), ended=True)
    assert [one[: one.index(":")] for one in ended["said"]] == ["main.ages is open", "main.born is protected"]
    (told,) = con.execute(
        "SELECT decision FROM explain_privacy('SELECT age, count(*) FROM born GROUP BY age')"
    ).fetchall()
    assert told == ("rewritten",)


@pytest.mark.parametrize("code", ["SELECT * FROM born", "SELECT age, count(*) AS n FROM born GROUP BY age"])
def test_the_model_at_which_a_policy_is_set_is_judged_by_it(code: str) -> None:
    con = steward(policy={"epsilon": 1, "per_query": 0.1})
    place = {"name": "age", "meta": {"duckanon": {"role": "public", "domain": "ages"}}}
    born, ages = {**node("born", "seed"), "columns": {"age": place}}, node("ages", "seed", open=True)
    policies(con, born, ages)
    con.execute("CREATE TABLE born AS SELECT 1 AS age").fetchall()
    con.execute("CREATE TABLE ages AS SELECT 1 AS age").fetchall()
    model = {"name": "m", "resource_type": "model", "this": ["memory", "main", "m"], "language": "sql"}
    reading: dict[str, Any] = {**model, "run": "1", "node": node("m", "model"), "materialized": "view"}
    reading |= {"code": code, "reads": [["memory", "main", "born"]]}
    assert "asks protected tables for more than a release" in ask(con, "_dk_dbt_judge", **reading)["problem"]


def test_populations_and_what_never_changes() -> None:
    con = steward(policy={"epsilon": 1}, changes="apply")
    con.execute("CREATE TABLE visits AS FROM people").fetchall()

    def project(epsilon: float, unit: str = "name") -> list[dict[str, Any]]:
        return [
            node("visits", population="people", privacy_unit="name", columns={"age": "quasi_identifier"}),
            node(population="people", epsilon=epsilon, columns={"name": ["privacy_unit"]} if unit == "name" else {}),
        ]

    assert len(policies(con, *project(3))["said"]) == 2
    assert con.execute("SELECT tables, epsilon FROM privacy_budget()").fetchall() == [
        (["main.people", "main.visits"], 3)
    ]
    # The budget of both is changed together.
    assert len(policies(con, *project(4))["said"]) == 2
    assert con.execute("SELECT epsilon FROM privacy_budget()").fetchall() == [(4,)]
    before = lines(con)
    assert "has name as its privacy_unit, which never changes" in policies(con, *project(4, "none"))["problem"]
    assert lines(con) == before
    view = {**node("seen", "model", protected=True), "materialized": "view"}
    assert "make it a table, {{ config(materialized='table') }}" in policies(con, view)["problem"]


def test_tables_of_a_population_have_the_delta_that_one_of_them_names() -> None:
    con = steward(policy={"epsilon": 1}, changes="apply")
    con.execute("CREATE TABLE visits AS FROM people").fetchall()
    project = [
        node("visits", population="people", privacy_unit="name"),
        node(population="people", epsilon=3, delta="1e-6", columns={"name": ["privacy_unit"]}),
    ]
    assert len(policies(con, *project)["said"]) == 2
    assert con.execute("SELECT tables, promise FROM privacy_budget()").fetchall() == [
        (["main.people", "main.visits"], "epsilon 3, delta 1e-6")
    ]
    assert policies(con, *project) == {"said": [], "problem": None}
    project[1] = node(population="people", epsilon=3, delta="1e-9", columns={"name": ["privacy_unit"]})
    assert "The population people has delta 1e-6, which was settled" in policies(con, *project)["problem"]


def test_links_wait_for_their_parents_and_their_keys() -> None:
    con = steward(policy={"epsilon": 1}, changes="apply")
    con.execute("CREATE TABLE orders AS SELECT i AS number, 'p' || i AS name FROM range(3) r(i)").fetchall()
    con.execute("CREATE TABLE lines AS SELECT i AS ordered FROM range(9) r(i)").fetchall()

    def project(price: float = 0.1) -> list[dict[str, Any]]:
        """The tables, those that are linked first."""
        return [
            node("lines", population="p", link={"ordered": "orders.number"}, rows_per_unit=9, per_query=price),
            node("orders", population="p", link={"name": "main.people.name"}),
            node(population="p", epsilon=3, columns={"name": ["privacy_unit"]}),
        ]

    said = policies(con, *project())
    assert (lines(con), said["problem"]) == ([("protect", "main.people")], None)
    con.execute("CREATE UNIQUE INDEX i ON people (name); ALTER TABLE orders ADD PRIMARY KEY (number)").fetchall()
    assert policies(con, *project(), ended=True)["problem"] is None
    assert lines(con)[1:] == [("protect", "main.orders"), ("protect", "main.lines")]
    assert policies(con, *project(), ended=True) == {"said": [], "problem": None}
    assert policies(con, *project(0.2), ended=True)["problem"] is None
    assert con.execute("SELECT privacy_unit, per_query FROM policies() WHERE tbl = 'main.lines'").fetchall() == [
        ("main.people.name by ordered, name", 0.2)
    ]
    other = node("lines", population="p", link={"ordered": "orders.name"}, rows_per_unit=9)
    assert "as its link, which never changes" in policies(con, other, *project()[1:], ended=True)["problem"]
    con.execute("CREATE TABLE keyless AS FROM orders").fetchall()
    late = [node("keyless", population="p", columns={"name": ["privacy_unit"]})]
    late += [node("last", population="p", link={"number": "keyless.number"})]
    con.execute("CREATE TABLE last AS FROM orders").fetchall()
    assert "main.keyless.number is no key" in policies(con, *project(0.2), *late, ended=True)["problem"]


def test_a_guard_that_is_off_still_refuses_views_over_releases() -> None:
    con = steward(guard=False)
    assert judged(con, "FROM people")["problem"] is None
    assert "is a view over k_anonymize" in judged(con, "FROM k_anonymize('people', ['age'])", "view")["problem"]


def test_macros_for_a_project(tmp_path: Path) -> None:
    refused = CliRunner(env={"TERM": "dumb"}).invoke(app, ["dbt", "macros", str(tmp_path)])
    assert (refused.exit_code, "has no dbt_project.yml" in refused.output) == (1, True)
    (tmp_path / "dbt_project.yml").write_text("name: mine")
    written = CliRunner().invoke(app, ["dbt", "macros", str(tmp_path)])
    assert 'on-run-start: "{{ duckanon_policies() }}"' in written.output
    ours = sorted(path.name for path in (ROOT / "sql" / "dbt").glob("*.sql"))
    assert sorted(path.name for path in (tmp_path / "macros" / "duckanon").iterdir()) == ours
    taken = CliRunner(env={"TERM": "dumb"}).invoke(app, ["dbt", "example", str(tmp_path)])
    assert (taken.exit_code, "exists already" in taken.output) == (1, True)
