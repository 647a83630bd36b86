"""Releases: their texts, and that only what was shown and confirmed is made, once."""

import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckanon
from duckanon.integrations.reading import Reading
from tests.integrations.explore.pages import VOTERS, Client, enter, protected, serving

COPY = {"table": "voters", "qi": ["age", "education"], "sensitive": ["vote"], "method": "order", "k": 5,
        "dropped": ["income", "town", "tv_news", "party"]}  # fmt: skip
SIZES = {"table": "residents", "unit": "household", "hierarchy": ["county"], "epsilon": "0.5", "max_size": 4}


def planned(client: Client, kind: str, given: dict[str, Any]) -> Any:
    job = client.followed("/plan", kind=kind, given=given)
    assert job["state"] == "done", job
    return job["result"]


def tables(path: Path) -> set[str]:
    with duckdb.connect(path, read_only=True) as con:
        return {
            name
            for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'").fetchall()
        }


def test_a_copy_is_released_published_and_reported(tmp_path: Path) -> None:
    path = protected(tmp_path / "shop.duckdb")
    digest = hashlib.sha256(path.read_bytes()).digest()
    with serving(path) as (_, address):
        client = enter(address)
        plan = planned(client, "copy", COPY)
        assert (plan["source"], plan["target"], plan["epsilon"], plan["publishes"]) == (
            "voters",
            "voters_anonymous",
            None,
            True,
        )
        assert hashlib.sha256(path.read_bytes()).digest() == digest
        for wrong in ("", "x", None, plan["nonce"] + "x", [plan["nonce"]]):
            status, answer = client.post("/confirm", nonce=wrong)
            assert (status, "not valid" in answer["error"]) == (400, True)
        # A wrong nonce uses the plan up.
        assert client.post("/confirm", nonce=plan["nonce"])[0] == 400
        earlier = planned(client, "copy", COPY)
        latest = planned(client, "copy", {**COPY, "k": 6})
        assert client.post("/confirm", nonce=earlier["nonce"])[0] == 400
        assert hashlib.sha256(path.read_bytes()).digest() == digest
        latest = planned(client, "copy", {**COPY, "k": 6})
        assert (
            client.send("POST", "/confirm", json.dumps({"nonce": latest["nonce"], "kind": "sizes"}).encode())[0] == 400
        )
        job = client.followed("/confirm", nonce=latest["nonce"])
        assert job["state"] == "done", job
        assert job["result"]["rows"] == 944
        assert "voters_anonymous is published" in job["result"]["said"] or "published" in job["result"]["said"]
        assert client.post("/confirm", nonce=latest["nonce"])[0] == 400
        # The page goes on with the database as it is now, for reading only.
        listed = client.ask("tables")
        assert "voters_anonymous" in {one["name"] for one in listed["tables"]}
        assert [one["name"] for one in listed["publications"]] == ["voters_anonymous"]
        assert planned(client, "copy", COPY)["target"] == "voters_anonymous_2"
        assert client.followed("/write-report")["state"] == "done"
        status, headers, body = client.send("GET", "/report")
        assert (status, headers["content-disposition"]) == (200, 'attachment; filename="shop-report.html"')
        assert b"voters_anonymous" in body
    with duckanon.connect(path, role="steward") as con:
        ((least,),) = con.execute(
            "SELECT min(n) FROM (SELECT count(*) n FROM voters_anonymous GROUP BY class_id)"
        ).fetchall()
        assert least >= 6
        assert con.execute("SELECT action FROM privacy_ledger() WHERE tbl LIKE '%voters'").fetchall() == [
            ("protect",),
            ("publish",),
        ]


def test_group_sizes_cost_exactly_what_was_said(tmp_path: Path) -> None:
    path = protected(tmp_path / "shop.duckdb")
    with serving(path) as (_, address):
        client = enter(address)
        plan = planned(client, "sizes", SIZES)
        assert [plan[name] for name in ("epsilon", "left", "after", "publishes")] == ["0.5", "2", "1.5", False]
        job = client.followed("/confirm", nonce=plan["nonce"])
        assert job["state"] == "done", job
        budgets = {one["name"]: one["budget"] for one in client.ask("tables")["tables"]}
        assert budgets["residents"]["remaining_exact"] == "1.5"
        assert budgets["voters"]["remaining_exact"] == "1"
        dear = client.followed("/plan", kind="sizes", given={**SIZES, "epsilon": "8/5"})
        assert (
            dear["error"] == "This release costs epsilon 1.6, and 1.5 is left of the budget: choose a smaller epsilon."
        )
    assert "residents_group_sizes" in tables(path)


def test_what_the_audit_refuses_leaves_no_table(tmp_path: Path) -> None:
    path = protected(tmp_path / "shop.duckdb")
    before = tables(path)
    with serving(path) as (_, address):
        client = enter(address)
        shares = {"table": "voters", "rows": ["education", "party", "tv_news"], "cols": ["vote"]}
        job = client.followed("/confirm", nonce=planned(client, "shares", shares)["nonce"])
        assert job["state"] == "failed"
        assert job["error"].endswith(".")
        safe = planned(client, "shares", {"table": "voters", "rows": ["education"], "cols": ["vote"], "digits": 2})
        done = client.followed("/confirm", nonce=safe["nonce"])
        assert done["state"] == "done", done
    assert tables(path) - before == {"voters_shares"}


def test_a_suppressed_table_is_released_and_published(tmp_path: Path) -> None:
    path = protected(tmp_path / "shop.duckdb")
    asked = {"table": "voters", "rows": ["party"], "cols": ["tv_news"], "rules": ["threshold"], "n": 5}
    with serving(path) as (_, address):
        client = enter(address)
        plan = planned(client, "suppressed", {**asked, "cost": "same"})
        assert (plan["target"], plan["publishes"], plan["epsilon"]) == ("voters_suppressed", True, None)
        assert 'FROM {{ ref("voters") }} GROUP BY' in plan["dbt"]
        job = client.followed("/confirm", nonce=plan["nonce"])
        assert job["state"] == "done", job
        assert (job["result"]["rows"], "is published" in job["result"]["said"]) == (72, True)
        sums = planned(client, "suppressed", {**asked, "value": "income"})
        assert (sums["publishes"], "sum := 'income')" in sums["sql"]) == (True, True)
    with duckanon.connect(path, role="steward") as con:
        columns = {one[0] for one in con.execute("DESCRIBE voters_suppressed").fetchall()}
    assert columns == {"party", "tv_news", "row_level", "col_level", "value", "suppressed"}


def test_a_suppressed_table_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "voters.csv"
    path.write_bytes(VOTERS.read_bytes())
    asked = {"table": "voters", "rows": ["party"], "rules": ["threshold"], "n": 38, "cost": "value"}
    with serving(path) as (_, address):
        client = enter(address)
        plan = planned(client, "suppressed", asked)
        job = client.followed("/confirm", nonce=plan["nonce"])
        assert job["state"] == "done", job
    file = tmp_path / "voters_suppressed.csv"
    written = file.read_bytes()
    file.unlink()
    with duckanon.connect() as con:
        for statement in plan["sql"].split(";\n\n"):
            con.execute(statement).fetchall()
    assert file.read_bytes() == written


def test_a_data_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "voters.csv"
    path.write_bytes(VOTERS.read_bytes())
    with serving(path) as (service, address):
        client = enter(address)
        assert [one["name"] for one in client.ask("tables")["tables"]] == ["voters"]
        plan = planned(client, "copy", COPY)
        assert plan["target"] == str(tmp_path / "voters_anonymous.csv")
        Path(plan["target"]).write_text("taken meanwhile")
        job = client.followed("/confirm", nonce=plan["nonce"])
        assert "exists already" in job["error"]
        assert Path(plan["target"]).read_text() == "taken meanwhile"
        plan = planned(client, "copy", COPY)
        assert client.followed("/confirm", nonce=plan["nonce"])["state"] == "done"
        assert (tmp_path / "voters_anonymous_2.csv").read_text().count("\n") == 945
        assert client.followed("/write-report")["error"].startswith("A report tells of a database")
        assert service.explorer.source.version == 1
    assert path.read_bytes() == VOTERS.read_bytes()


def test_the_script_of_a_file_is_the_whole_way(tmp_path: Path) -> None:
    """Decimal commas, missing values and sets: as SQL and as a command it is the release that the page makes."""
    path = tmp_path / "homes.csv"
    rows = "".join(f"{i // 3};{20 + i % 9 if i % 11 else 'n/a'};{i % 4},5;{'xyz'[i % 3]}\n" for i in range(90))
    path.write_text(f"home;age;rent;town\n{rows}")
    given = {"table": "homes", "qi": ["age", "rent", "town"], "dropped": ["home"], "method": "order", "k": 4}
    with serving(path, reading=Reading(null=("n/a",))) as (_, address):
        client = enter(address)
        plan = planned(client, "copy", given)
        assert client.followed("/confirm", nonce=plan["nonce"])["state"] == "done"
    out = Path(plan["target"])
    made = out.read_text(encoding="utf-8")
    assert "0.5" in made
    for text in ("sql", "command"):
        out.unlink()
        if text == "sql":
            with duckanon.connect(role="steward") as con:
                con.execute(plan["sql"]).fetchall()
        else:
            typed = [sys.executable, "-m", "duckanon.integrations.cli", *shlex.split(plan["command"])[1:]]
            done = subprocess.run(typed, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        assert out.read_text(encoding="utf-8") == made


def test_what_is_to_be_known_before_a_copy_is_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "homes.csv"
    path.write_text("home,age,rent,town\n" + "".join(f"{i // 3},{20 + i % 9},{i * 7.25},t\n" for i in range(90)))
    asked = {"table": "homes", "qi": ["age"], "unit": "home", "method": "order", "k": 4}
    with serving(path) as (_, address):
        client = enter(address)
        facts = planned(client, "copy", {**asked, "sensitive": ["rent"], "l": 3, "t": "0.5"})["facts"]
        assert facts == {
            "k": 4, "l": 3, "t": "0.5", "unit": "home", "sensitive": ["rent"], "copied": ["rent", "town"],
            "identifying": ["rent"],
        }  # fmt: skip
        assert planned(client, "copy", asked)["facts"]["l"] is None


@pytest.mark.parametrize("kind", ["copy", "shares", "sizes", "suppressed"])
def test_the_texts_make_the_same_release(tmp_path: Path, kind: str) -> None:
    path = protected(tmp_path / "shop.duckdb")
    releases: dict[str, dict[str, Any]] = {
        "copy": {**COPY, "bands": {"age": "10"}, "max_suppression": "0.01"},
        "shares": {"table": "odd", "rows": ["sel'ect"], "cols": ["<img src=x onerror=alert(1)>"]},
        "sizes": SIZES,
        "suppressed": {"table": "odd", "rows": ["sel'ect"], "rules": ["threshold"], "n": 9, "cost": "same"},
    }
    given = releases[kind]
    with serving(path) as (_, address):
        plan = planned(enter(address), kind, given)
    table = given["table"]
    # dbt replaces the reference by a name, and Jinja leaves the rest as it is.
    model = (
        plan["dbt"].replace(f'{{{{ ref("{table}") }}}}', table).removeprefix("{{ config(materialized='table') }}\n\n")
    )
    assert plan["command"].startswith("duckanon ")
    typed = [sys.executable, "-m", "duckanon.integrations.cli", *shlex.split(plan["command"])[1:]]
    with duckanon.connect(path, role="steward") as con:
        con.execute(f"CREATE TABLE by_dbt AS {model}").fetchall()
        for statement in plan["sql"].split(";\n\n"):
            con.execute(statement).fetchall()
        columns = [name for name, *_ in con.execute(f"DESCRIBE {plan['target']}").fetchall()]
        assert columns == [name for name, *_ in con.execute("DESCRIBE by_dbt").fetchall()]
        con.execute(f"DROP TABLE {plan['target']}").fetchall()
    if kind == "shares":
        done = subprocess.run(typed, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert plan["target"] in tables(path)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("copy", {**COPY, "qi": []}),
        ("copy", {**COPY, "target": "voters"}),
        ("copy", {**COPY, "out": "/tmp/x.csv"}),
        ("shares", {"table": "voters", "rows": ["vote"], "cols": ["vote"]}),
        ("sizes", {**SIZES, "unit": None}),
        ("sizes", {**SIZES, "epsilon": "0"}),
        ("sizes", {**SIZES, "epsilon": "1; DROP"}),
        ("drop", {"table": "voters"}),
    ],
)
def test_releases_that_are_none(tmp_path_factory: pytest.TempPathFactory, kind: str, given: Any) -> None:
    from duckanon.errors import InvalidInput
    from duckanon.integrations.explore.explorer import Explorer

    explorer = Explorer(_shared(tmp_path_factory))
    try:
        with pytest.raises(InvalidInput):
            explorer.plan(kind, given)
    finally:
        explorer.close()


def _shared(factory: pytest.TempPathFactory) -> Path:
    path = factory.getbasetemp() / "explore-refused.duckdb"
    return path if path.exists() else protected(path)
