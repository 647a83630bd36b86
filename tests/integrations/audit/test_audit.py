"""duckanon audit: what it reads, what it lists and where, and with which exit code it ends."""

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner, Result

import duckanon
from duckanon.integrations.cli.commands import app


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(app, ["audit", *arguments])


def listed(*arguments: str, code: int = 1) -> list[dict[str, object]]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def told(records: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(one["line"], one["kind"], one["table"], one["verdict"]) for one in records]


SCRIPT = """-- a report; with 'a ; in text'
SELECT 1 AS one;

SELECT name
FROM persons
WHERE note = 'x;y';

WITH s AS (
  SELECT hid, count(*) AS n
  FROM persons
  GROUP BY hid)
SELECT n, count(*) FROM s GROUP BY n;

SELECT state, count(*) / sum(count(*)) OVER (PARTITION BY state)
FROM persons GROUP BY state, sex;
SELECT state, count(*) FROM persons GROUP BY state; SELECT * FROM shops
"""


def test_a_script_by_line(here: Path) -> None:
    (here / "report.sql").write_text(SCRIPT)
    assert told(listed("report.sql", "--table", "persons")) == [
        (5, "row-level", "persons", "unsafe"),
        (10, "group-size", "persons", "unsafe"),
        (15, "conditional", "persons", "check"),
        (16, "count", "persons", "check"),
    ]


def test_advice_can_be_pasted(here: Path) -> None:
    (here / "report.sql").write_text(SCRIPT)
    advice = [one["advice"] for one in listed("report.sql", "--table", "persons")]
    assert advice[1] == "FROM dp_group_sizes('persons', 'hid', epsilon := 1, max_size := 20)"
    assert advice[2] == "FROM disclosure_report('persons', ['state'], ['sex'])"


def test_without_a_table_sizes_and_shares_of_any(here: Path) -> None:
    (here / "report.sql").write_text(SCRIPT)
    assert [one["kind"] for one in listed("report.sql")] == ["group-size", "conditional"]


def test_what_is_safe_ends_with_zero(here: Path) -> None:
    (here / "report.sql").write_text("SELECT * FROM shops; SELECT state, count(*) FROM persons GROUP BY ALL;")
    assert told(listed("report.sql", "--table", "persons", code=0)) == [(1, "count", "persons", "check")]
    assert listed("report.sql", "--table", "visitors", code=0) == []


def test_releases_are_safe(here: Path) -> None:
    (here / "report.sql").write_text(
        "FROM k_anonymize('persons', ['age']); FROM dp_group_sizes('persons', 'hid', epsilon := 1);"
    )
    assert listed("report.sql", "--table", "persons", code=0) == []
    (here / "report.sql").write_text("FROM cell_bounds('persons', ['state'], ['sex']);")
    assert told(listed("report.sql", "--table", "persons")) == [(1, "unknown", "persons", "unsafe")]


def test_a_folder_knows_what_its_files_make(here: Path) -> None:
    (here / "models" / "deep").mkdir(parents=True)
    (here / ".hidden").mkdir()
    (here / ".hidden" / "x.sql").write_text("FROM persons")
    (here / "models" / "a.sql").write_text(
        "CREATE TABLE persons (hid INT, flag BOOLEAN, income INT);\nINSERT INTO persons VALUES (1, true, 2)"
    )
    (here / "models" / "b.sql").write_text("CREATE VIEW units AS SELECT hid, count(*) AS n FROM persons GROUP BY hid;")
    (here / "models" / "deep" / "c.SQL").write_text(
        "SELECT n, count(*) FROM units GROUP BY n;\nSELECT avg(flag::INT) FROM persons"
    )
    (here / "models" / "deep" / "d.sql").write_text("CREATE TABLE copy AS FROM persons;\nSELECT income FROM copy;")
    found = listed("models", "--table", "persons")
    assert [(Path(str(one["path"])).name, one["line"], one["kind"]) for one in found] == [
        ("b.sql", 1, "count"),
        ("c.SQL", 1, "group-size"),
        ("c.SQL", 2, "conditional"),
        ("d.sql", 1, "row-level"),
        ("d.sql", 2, "row-level"),
    ]


def test_what_cannot_be_parsed(here: Path) -> None:
    (here / "x.sql").write_text(
        "SELECT 1;\n.mode csv\nSELECT * FROM {{ ref('persons') }} ;; SELECT FROM WHERE shops;\nFROM persons"
    )
    assert told(listed("x.sql", "--table", "persons")) == [
        (3, "unknown", "persons", "unsafe"),
        (3, "unknown", None, "unread"),
        (4, "row-level", "persons", "unsafe"),
    ]
    (here / "x.sql").write_text("SELECT 'an open text FROM persons")
    assert told(listed("x.sql", "--table", "persons")) == [(1, "unknown", "persons", "unsafe")]


@pytest.mark.parametrize(
    "statement",
    [
        "COPY persons TO 'x.csv'",
        "COPY (SELECT name FROM persons) TO 'x.csv'",
        "CREATE TABLE x AS SELECT name FROM persons",
        "INSERT INTO x SELECT name FROM persons",
        "SUMMARIZE persons",
        "EXPLAIN ANALYZE SELECT name FROM persons",
        "FROM query('FROM persons')",
        "FROM query_table('persons')",
        "FROM query('FROM per' || 'sons')",
        "PRAGMA storage_info('persons')",
        "CREATE MACRO peek() AS (SELECT max(income) FROM persons); SELECT peek()",
        "UPDATE x SET a = (SELECT max(income) FROM persons)",
        "DELETE FROM persons RETURNING *",
        "WITH RECURSIVE r AS (SELECT name FROM persons UNION SELECT name FROM r) FROM r",
        "SELECT * FROM shops POSITIONAL JOIN persons",
        "FROM PERSONS",
        'FROM main."Persons"',
    ],
)
def test_other_ways_to_the_table(here: Path, statement: str) -> None:
    (here / "x.sql").write_text(statement)
    found = listed("x.sql", "--table", "persons")
    assert found
    assert all(one["verdict"] == "unsafe" for one in found)


def test_filling_the_table_lets_nothing_out(here: Path) -> None:
    (here / "x.sql").write_text(
        "CREATE TABLE persons (hid INT); INSERT INTO persons SELECT 1; ALTER TABLE persons ADD COLUMN b INT; "
        "CREATE OR REPLACE TABLE persons AS FROM 'x.csv'; DROP TABLE persons"
    )
    assert listed("x.sql", "--table", "persons", code=0) == []


def test_a_database(here: Path) -> None:
    with duckdb.connect("shop.duckdb") as con:
        con.execute(
            """CREATE TABLE persons (pid INTEGER PRIMARY KEY, hid INTEGER, income INTEGER);
            CREATE VIEW rich AS SELECT pid FROM persons WHERE income > 5;
            CREATE VIEW units AS SELECT hid, count(*) AS n FROM persons GROUP BY hid;
            CREATE SCHEMA reports;
            CREATE VIEW reports.sizes AS SELECT n, count(*) AS f FROM units GROUP BY n;
            CREATE MACRO person(i) AS TABLE SELECT * FROM persons WHERE pid = i;
            CREATE VIEW shops AS SELECT 1 AS shop;"""
        ).fetchall()
    found = listed("shop.duckdb", "--table", "persons")
    assert sorted((str(one["object"]), str(one["kind"]), str(one["table"])) for one in found) == [
        ("person", "row-level", "shop.main.persons"),
        ("rich", "row-level", "shop.main.persons"),
        ("sizes", "group-size", "shop.main.persons"),
        ("units", "count", "shop.main.persons"),
    ]
    assert not (here / "shop.duckdb.wal").exists()


def manifest(**more: object) -> dict[str, object]:
    def model(name: str, code: str | None) -> dict[str, object]:
        return {
            "resource_type": "model", "name": name, "alias": name, "database": "lake", "schema": "marts",
            "original_file_path": f"models/{name}.sql", "compiled_path": f"target/compiled/{name}.sql",
            "language": "sql", "compiled_code": code,
        }  # fmt: skip

    nodes = {
        "model.shop.stg": model("stg", 'SELECT hid, state\nFROM "lake"."raw"."persons"'),
        "model.shop.sizes": model(
            "sizes",
            'SELECT n, count(*) FROM (SELECT hid, count(*) AS n FROM "lake"."marts"."stg" GROUP BY hid) GROUP BY n',
        ),
        "model.shop.other": model("other", "SELECT 1 AS one"),
    }
    source = {"name": "persons", "identifier": "persons", "database": "lake", "schema": "raw", "columns": {}, **more}
    return {"metadata": {}, "nodes": nodes, "sources": {"source.shop.raw.persons": source}}


def project(here: Path, content: dict[str, object]) -> None:
    (here / "dbt_project.yml").write_text("name: shop")
    (here / "target" / "compiled").mkdir(parents=True)
    (here / "target" / "manifest.json").write_text(json.dumps(content))


def test_a_dbt_project(here: Path) -> None:
    project(here, manifest())
    (here / "target" / "compiled" / "stg.sql").write_text("compiled")
    found = listed(".", "--table", "raw.persons")
    assert [(one["path"], one["line"], one["object"], one["kind"]) for one in found] == [
        ("models/sizes.sql", 1, "sizes", "group-size"),
        ("target/compiled/stg.sql", 2, "stg", "row-level"),
    ]
    assert found == listed("target/manifest.json", "--table", "lake.raw.persons")
    assert [one["kind"] for one in listed(".")] == ["group-size"]


def test_dbt_can_name_the_tables_itself(here: Path) -> None:
    project(here, manifest(meta={"duckanon": {"protected": True}}))
    assert {one["object"] for one in listed(".")} == {"stg", "sizes"}


def test_dbt_says_what_stays_inside_and_what_is_allowed(here: Path) -> None:
    content = manifest(columns={"name": {"name": "name", "meta": {"duckanon": {"role": "identifier"}}}})
    nodes: dict[str, dict[str, object]] = content["nodes"]  # type: ignore[assignment]
    nodes["model.shop.stg"]["meta"] = {"duckanon": {"epsilon": 1}}
    nodes["model.shop.sizes"]["config"] = {"meta": {"duckanon": {"allow": "group-size"}}}
    test = {**nodes["model.shop.stg"], "resource_type": "test", "name": "not_null", "alias": "not_null", "meta": {}}
    nodes["test.shop.not_null"] = test
    project(here, content)
    found = listed(".", code=0)
    assert [(one["object"], one["verdict"]) for one in found] == [("sizes", "check")]
    test["config"] = {"store_failures": True}
    (here / "target" / "manifest.json").write_text(json.dumps(content))
    assert {(one["object"], one["verdict"]) for one in listed(".")} == {("sizes", "check"), ("not_null", "unsafe")}
    # Where analysts are to read the model, nothing is allowed it, as dbt's own build refuses it.
    nodes["model.shop.sizes"]["config"] = {"meta": {"duckanon": {"allow": "group-size", "open": True}}}
    (here / "target" / "manifest.json").write_text(json.dumps(content))
    assert ("sizes", "unsafe") in {(one["object"], one["verdict"]) for one in listed(".")}


def test_a_dbt_project_must_be_compiled(here: Path) -> None:
    content = manifest()
    content["nodes"]["model.shop.stg"]["compiled_code"] = None  # type: ignore[index]
    project(here, content)
    result = run(".")
    assert (result.exit_code, result.stderr) == (1, "The dbt model stg is not compiled: run dbt compile first.\n")
    (here / "target" / "manifest.json").unlink()
    assert run(".").stderr == ". is a dbt project that was not compiled: run dbt compile first.\n"


def test_the_table_format(here: Path) -> None:
    (here / "report.sql").write_text(SCRIPT)
    result = run("report.sql", "--table", "persons")
    assert result.exit_code == 1
    assert "report.sql:10" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 read; 2 unsafe, 2 to check"
    misspelt = run("report.sql", "--table", "shoppers")
    assert misspelt.stdout == "1 read; 0 unsafe, 0 to check\n"
    assert misspelt.stderr == "Nothing here mentions a table shoppers: check the name that --table gives.\n"
    assert not run("report.sql", "--table", "persons").stderr


def test_sarif(here: Path) -> None:
    """What SARIF 2.1.0 requires of a log, a run, a rule and a result: sections 3.13, 3.14, 3.27, 3.49."""
    (here / "a folder").mkdir()
    (here / "a folder" / "réport.sql").write_text(SCRIPT)
    result = run("a folder", "--table", "persons", "--format", "sarif")
    assert result.exit_code == 1
    log = json.loads(result.stdout)
    assert log["version"] == "2.1.0"
    (found,) = log["runs"]
    driver = found["tool"]["driver"]
    assert driver["name"] == "duckanon"
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules)
    assert [one["level"] for one in found["results"]] == ["error", "error", "warning", "warning"]
    for one in found["results"]:
        assert rules[one["ruleIndex"]] == one["ruleId"]
        assert one["message"]["text"]
        place = one["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "a%20folder/r%C3%A9port.sql"
        assert place["region"]["startLine"] >= 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.sql"], "There is no file or folder nowhere.sql."),
        (["empty"], "There is no .sql file in the folder empty."),
        (["data.csv"], "data.csv: audit reads .sql files, folders, dbt's manifest.json and DuckDB databases."),
        (["manifest.json"], "manifest.json is no manifest of dbt: run dbt compile to make it again."),
        (
            ["ok.sql", "--table", "a.b.c.d"],
            "--table a.b.c.d: give a name such as persons, main.persons or lake.main.persons.",
        ),
    ],
)
def test_bad_input(here: Path, arguments: list[str], said: str) -> None:
    (here / "empty").mkdir()
    (here / "data.csv").write_text("a")
    (here / "manifest.json").write_text("[]")
    (here / "ok.sql").write_text("SELECT 1")
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (1, said + "\n")


def test_auditing_scripts_opens_no_database() -> None:
    code = (
        "import sys, pathlib\nfrom duckanon.integrations.audit.findings import audit\n"
        "from duckanon.integrations.audit.corpus import Corpus, Script\n"
        "assert audit(Corpus((Script(pathlib.Path('x.sql'), 'FROM persons'),)), ['persons'])\n"
        "assert 'numba' not in sys.modules and 'duckdb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_the_policies_of_a_database(here: Path) -> None:
    with duckanon.connect(here / "people.db") as con:
        con.execute(
            "CREATE TABLE persons(hid INTEGER, name VARCHAR, flag BOOLEAN); CREATE TABLE shops AS SELECT 1 AS a"
        )
        con.execute("CREATE VIEW names AS SELECT name FROM persons").fetchall()
        con.execute("SELECT protect('persons', unit := 'hid', epsilon := 1)").fetchall()
    (here / "models").mkdir()
    (here / "models" / "a.sql").write_text(
        "SELECT * FROM shops;\nSELECT name FROM names;\nSELECT avg(flag::INT) FROM main.persons GROUP BY hid;\n"
        "SELECT count(*) FROM people.main.persons;\nFROM k_anonymize('persons', ['hid']);\n"
    )
    found = listed("models", "--database", "people.db")
    assert [(one["line"], one["kind"], one["verdict"]) for one in found] == [
        (2, "row-level", "unsafe"),
        (3, "conditional", "check"),
        (4, "count", "check"),
    ]
    # A database among the paths tells its policies too.
    assert {(one["object"], one["kind"]) for one in listed("people.db")} == {("names", "row-level")}


def test_a_database_without_policies(here: Path) -> None:
    duckdb.connect(str(here / "shop.db")).close()
    (here / "a.sql").write_text("SELECT 1")
    for name, why in (("shop.db", "No table of shop.db is protected"), ("gone.db", "There is no database gone.db")):
        result = run("a.sql", "--database", name)
        assert result.exit_code == 1
        assert why in " ".join(result.stderr.split())


def test_results_of_metric_functions(here: Path) -> None:
    (here / "a.sql").write_text(
        "FROM metric_mechanism('places', 'id', ['x'], epsilon := 1);\nFROM metric_perturb('places', 'id', 'm')"
    )
    assert told(listed("a.sql", "--table", "places")) == [(2, "unknown", "places", "unsafe")]


def test_a_file_that_is_not_utf_8_is_a_line_of_the_report(here):
    """The others are listed, and so is what it names in plain letters."""
    (here / "a.sql").write_text("SELECT name FROM persons;\n")
    (here / "b.sql").write_bytes("-- größer\nSELECT name FROM persons;\n".encode("latin-1"))
    (here / "c.sql").write_bytes("SELECT 'größer' AS x;\n".encode("latin-1"))
    result = run(".", "--table", "persons", "--format", "json")
    assert (result.exit_code, result.stderr) == (1, "")
    told = [(one["path"], one["line"], one["verdict"], one["found"]) for one in json.loads(result.stdout)]
    assert [one[:3] for one in told] == [
        ("a.sql", 1, "unsafe"),
        ("b.sql", 1, "unread"),
        ("b.sql", 2, "unsafe"),
        ("c.sql", 1, "unread"),
    ]
    assert told[1][3] == told[3][3] == "the file is not UTF-8 text"


def test_a_template_is_told_with_what_to_run(here):
    (here / "m.sql").write_text("{{ config(materialized='table') }}\nselect * from {{ ref('persons') }}\n")
    for table in ("persons", "shops"):
        (found,) = listed("m.sql", "--table", table, code=int(table == "persons"))
        assert found["found"] == "a template, which is no SQL yet"
        assert found["advice"] == "Run dbt compile, and audit the project's folder."
