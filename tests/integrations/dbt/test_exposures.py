"""The queries of a dbt exposure, compiled by the real dbt, and what is prepared for them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import duckanon
from duckanon.errors import InvalidInput
from duckanon.integrations.dbt.exposures import queries
from tests.integrations.cli.commandline import run
from tests.integrations.dbt.test_dbt import dbt

FILES = {
    "dbt_project.yml": "name: shop\nversion: 1.0.0\nprofile: shop\nmodels:\n  shop:\n    +materialized: view\n",
    "profiles.yml": "shop:\n  target: dev\n  outputs:\n    dev: {type: duckdb, path: people.duckdb}\n",
    "models/adults.sql": "select * from {{ source('raw', 'persons') }} where age >= 24",
    "models/by_state.sql": "select state, count(*) as n from {{ ref('adults') }} as a group by state",
    "models/by_sex.sql": "select sex, avg(income) as income from {{ source('raw', 'persons') }} group by all",
    "models/count_others.sql": "select count(*) as n from {{ source('raw', 'others') }}",
    "models/schema.yml": """
sources:
  - name: raw
    database: people
    schema: main
    tables: [{name: persons}, {name: others}]
exposures:
  - name: weekly
    type: dashboard
    owner: {email: a@example.com}
    depends_on:
      - ref('by_state')
      - ref('by_sex')
      - ref('count_others')
  - name: records
    type: notebook
    owner: {email: a@example.com}
    depends_on:
      - source('raw', 'persons')
""",
}
POLICY = (
    "epsilon := 4, delta := 1e-9, per_query := 0.01, public := ['state', 'sex', 'age'], "
    "bounds := {'income': [0, 100]}, domains := {'state': ['GA', 'NY'], 'sex': ['f', 'm'], "
    "'age': {'from': 20, 'to': 29, 'step': 1}}"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled project, beside a database with a protected and an open table."""
    folder: Path = tmp_path_factory.mktemp("shop")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with duckanon.connect(folder / "people.duckdb", role="steward") as con:
        con.execute(
            "CREATE TABLE persons AS SELECT ['GA', 'NY'][1 + i % 2] AS state, ['f', 'm'][1 + i // 2 % 2] AS sex, "
            "20 + i % 10 AS age, i % 100 AS income FROM range(400) r(i); CREATE TABLE others AS FROM range(3)"
        ).fetchall()
        con.execute(f"SELECT protect('persons', {POLICY})").fetchall()
        con.execute("SELECT open_table('others')").fetchall()
    (compiled,) = dbt(folder, ["compile", "--profiles-dir", "."])
    assert compiled["success"], compiled
    return folder


def test_a_dashboard_is_planned_then_bought_and_then_free(project: Path) -> None:
    asked = ["prepare", str(project / "people.duckdb"), "persons", "--exposure", "weekly", "--project", str(project)]
    planned = run(*asked, "--within", "20", "--format", "csv")
    assert planned.exit_code == 0, planned.output
    told = list(csv.DictReader(planned.stdout.splitlines()))
    # The conditions of a model behind the dashboard's own are conditions of the query.
    assert [row["columns"] for row in told] == ["[age, state]", "[sex, income]"]
    assert {row["prepared_on"] for row in told} == {""}
    bought = run(*asked, "--within", "20", "--buy")
    assert bought.exit_code == 0, bought.output
    with duckanon.connect(project / "people.duckdb", role="analyst") as analyst:
        for sql in (
            "SELECT state, count(*) FROM persons WHERE age >= 24 GROUP BY state",
            "SELECT sex, avg(income) FROM persons GROUP BY sex",
        ):
            assert analyst.explain(sql).steps[0].reason.startswith("Free: it follows from what was prepared")


def test_what_has_no_queries_is_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="depends on no model with a query of its own"):
        queries(project, "records")
    with pytest.raises(InvalidInput, match="The project has no exposure monthly: it has records, weekly"):
        queries(project, "monthly")
    with pytest.raises(InvalidInput, match="is no dbt project that was compiled"):
        queries(tmp_path, "weekly")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "manifest.json").write_text(json.dumps([]))
    with pytest.raises(InvalidInput, match="is no manifest of dbt"):
        queries(tmp_path, "weekly")


def test_protected_models_are_asked_and_not_put_into_queries(project: Path, tmp_path: Path) -> None:
    content = json.loads((project / "target" / "manifest.json").read_text())
    adults = content["nodes"]["model.shop.adults"]
    adults["config"]["meta"] = {"duckanon": {"epsilon": 1}}
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "manifest.json").write_text(json.dumps(content))
    assert any('"adults"' in one for one in queries(tmp_path, "weekly"))
    assert not any('"main"."adults"' in one for one in queries(project, "weekly"))


def test_the_command_needs_one_place_of_queries(project: Path) -> None:
    database = str(project / "people.duckdb")
    for more in ([], ["--file", "a.sql", "--exposure", "weekly"]):
        result = run("prepare", database, "persons", "--within", "20", *more)
        assert result.exit_code != 0
        assert "Say where the queries stand" in result.output
    missing = run("prepare", database, "persons", "--within", "20", "--file", "no such file.sql")
    assert "There is no file no such file.sql" in missing.output
