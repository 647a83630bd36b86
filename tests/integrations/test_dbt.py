"""dbt: the example project and models that must be refused, built by the real dbt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

import duckanon
from duckanon.errors import InvalidInput
from duckanon.integrations.commands import app
from duckanon.integrations.dbt.meta import declared, policy
from duckanon.integrations.dbt.settings import Changes, Mode, Settings
from duckanon.integrations.dbt.steward import Steward

ROOT = Path(__file__).parents[2]

# What stands beside the example's models, and why the guard refuses it.
REFUSED = {
    "copy.sql": ("select * from {{ ref('voters') }}", "line 1: row-level of survey.main.voters"),
    "counts.sql": (
        "select party, count(*) as n from {{ ref('voters') }} group by party",
        "count of survey.main.voters",
    ),
    "view_of_records.sql": (
        "{{ config(materialized='view') }} select vote from {{ ref('voters') }}",
        "FROM k_anonymize('voters', ['age', 'education', 'income'], k := 5, drop := ['town', 'tv_news'])",
    ),
    "lazy.sql": (
        "{{ config(materialized='view') }} select * from k_anonymize('{{ ref(\"plain\") }}', ['a'])",
        "Model lazy is a view over k_anonymize: it would be computed anew at each read",
    ),
    "grows.sql": (
        "{{ config(materialized='incremental') }} select * from k_anonymize('{{ ref(\"plain\") }}', ['a'])",
        "two k-anonymous copies of the same records can be intersected. Make it a table",
    ),
    "low_k.sql": (
        "select * from k_anonymize('{{ ref(\"voters\") }}', ['age', 'education', 'income'], k := 2, "
        "categorical := ['education'], drop := ['town', 'tv_news'])",
        "k must be 5 or more",
    ),
    "through_cte.sql": (
        "with v as (select vote, age from {{ ref('voters') }}) select * from k_anonymize('v', ['age'], k := 2)",
        "k_anonymize is called on v, which reads a protected table and has no policy itself",
    ),
    "by_python.py": (
        "def model(dbt, con):\n    return dbt.ref('voters')\n",
        "what a python model reads of survey.main.voters is not followed",
    ),
    "too_dear.sql": (
        "select * from dp_group_sizes('{{ source(\"raw\", \"residents\") }}', 'household', epsilon := 0.75, max_size := 8)",
        "epsilon 0.75 is more than",
    ),
}
ADMITTED = {
    "plain.sql": "select i // 5 as a, i % 3 as b from range(20) r(i)",
    "also_plain.sql": "select i // 5 as a, i % 3 as b from range(20) r(i)",
    "inside.sql": "{{ config(meta={'duckanon': {'protected': true, 'epsilon': 1}}) }} select age from {{ ref('voters') }}",
    "part.sql": "{{ config(materialized='ephemeral') }} select class_id, a_lo from k_anonymize('{{ ref(\"plain\") }}', ['a'])",
    "of_part.sql": "select * from {{ ref('part') }}",
    "of_release.sql": "{{ config(materialized='view') }} select vote, count(*) as n from {{ ref('voters_released') }} group by 1",
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
"""
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
        [sys.executable, "-m", "tests.integrations.dbt_driver", json.dumps(runs)],
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
    operation = ["run-operation", "duckanon_unprotect", "--args", "{name: working_voters}"]
    on, audit, ended = dbt(project, ["build", "--target", "on"], ["build"], operation)

    found = statuses(on)
    models = {path.stem for path in (project / "models").glob("*.sql")}
    assert all(found[name] == "success" for name in [*models, "voters", "survey-on-run-end-0"]), on
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
    for name in ("right_k", "fewer", "enough_left", "not_null_inside_age"):
        assert found[name] == "pass", name
    assert "k_anonymous looks at a whole table: leave `where` out" in on["nodes"]["some_rows"][1]
    assert "there is no column zip in" in on["nodes"]["no_column"][1]
    assert "Test stored asks protected tables for more than a release" in on["nodes"]["stored"][1]

    # Built again: what the guard refused is listed, nothing more is charged, and policies outlive rebuilt tables.
    assert "too_dear" in audit["nodes"]
    warned = [one for one in audit["said"] if "asks protected tables for more than a release" in one]
    built = ("copy", "counts", "view_of_records", "low_k", "through_cte", "by_python", "copied_again")
    for name in built:
        assert statuses(audit)[name] == "success", audit["nodes"][name]
        assert any(one.startswith(f"Model {name} asks") for one in warned), name
    assert all(statuses(audit)[name] == "error" for name in ("lazy", "grows", "too_dear"))
    lines = rows(project, "SELECT action, tbl, epsilon_exact FROM privacy_ledger() ORDER BY ALL")
    assert [line for line in lines if line[0] == "charge"] == [("charge", "raw.residents", "0.5")]
    protected = ["main.inside", "main.voters", "main.working_voters", "raw.residents"]
    assert [line[1] for line in lines if line[0] == "protect"] == protected
    assert ended["success"], ended
    assert [line[0] for line in rows(project, "SELECT tbl FROM policies() ORDER BY ALL")] == [
        name for name in protected if name != "main.working_voters"
    ]
    ((least,),) = rows(
        project,
        "SELECT k FROM k_report('voters_released', ['age_lo', 'age_hi', 'education_set', 'income_lo', 'income_hi'])",
    )
    assert least >= 5
    assert rows(project, "SELECT sum(groups) FROM household_sizes WHERE level = 0") == [(600,)]
