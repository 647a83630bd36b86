"""The questions of the page: what they answer, what they refuse, cancelling, and that nothing is computed twice."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

import duckanon
from duckanon.integrations.explore.catalog import Catalog, Column
from duckanon.integrations.explore.questions.designs import number_of_designs
from duckanon.integrations.explore.questions.noise import Simulation
from duckanon.integrations.explore.questions.suggested_roles import Figures, suggested
from duckanon.integrations.explore.service import Service
from tests.integrations.explore.pages import VOTERS, Client, enter, protected, serving

MARKUP = "<img src=x onerror=alert(1)>"
GENERALISED = {"table": "voters", "qi": ["age", "education"], "method": "order", "k": 5}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Client]]:
    path = protected(tmp_path_factory.mktemp("explore") / "shop.duckdb")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with serving(path) as (service, address):
        yield service, enter(address)
    # Exploring leaves the file, and so the ledger in it, as they were.
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


@pytest.fixture
def client(served: tuple[Service, Client]) -> Client:
    return served[1]


def test_the_tables(client: Client) -> None:
    tables = {one["name"]: one for one in client.ask("tables")["tables"]}
    assert list(tables) == ["empty", "odd", "old", "residents", "survey", "voters"]
    assert tables["voters"]["budget"] == {"epsilon_exact": "1", "spent_exact": "0", "remaining_exact": "1"}
    assert tables["voters"]["policy"]["quasi_identifiers"] == ["age", "education"]
    assert (tables["old"]["is_view"], tables["old"]["policy"]) == (True, None)
    assert [one["name"] for one in tables["odd"]["columns"]] == [MARKUP, "nothing", "sel'ect"]


def test_a_profile(client: Client) -> None:
    found = client.ask("profile", table="voters")
    roles = {one["name"]: one["role"] for one in found["columns"]}
    assert found["records"] == 944
    assert roles == dict.fromkeys(["income", "town", "tv_news", "party"], "dropped") | {
        "age": "quasi", "education": "quasi", "vote": "sensitive",
    }  # fmt: skip
    odd = {one["name"]: one for one in client.ask("profile", table="odd")["columns"]}
    assert (odd["nothing"]["nulls"], odd["nothing"]["distinct"], odd["nothing"]["role"]) == (60, 0, "other")
    assert client.ask("profile", table="empty")["records"] == 0
    residents = {one["name"]: one["role"] for one in client.ask("profile", table="residents")["columns"]}
    assert residents == {"person_id": "dropped", "household": "unit", "county": "quasi", "age": "quasi"}


@pytest.mark.parametrize(
    ("name", "kind", "distinct", "role"),
    [
        ("e_mail", "VARCHAR", 3, "dropped"),
        ("zip", "VARCHAR", 99, "dropped"),
        ("diagnosis", "VARCHAR", 9, "sensitive"),
        ("height", "DOUBLE", 99, "quasi"),
        ("born", "DATE", 40, "quasi"),
        ("flag", "BOOLEAN", 1, "other"),
        ("tags", "VARCHAR[]", 9, "other"),
        ("Haushalt", "BIGINT", 40, "unit"),
        ("patient_id", "BIGINT", 40, "unit"),
        ("patient_id", "BIGINT", 100, "dropped"),
        ("Einkommen", "DOUBLE", 99, "sensitive"),
        ("Geburtsdatum", "DATE", 40, "quasi"),
        ("w17", "DOUBLE", 40, "dropped"),
    ],
)
def test_a_role_is_suggested(name: str, kind: str, distinct: int, role: str) -> None:
    found, reason = suggested(Column(name, kind, name), Figures(100, 0, distinct), {})
    assert (found, bool(reason)) == (role, True)
    if role == "unit":
        assert suggested(Column(name, kind, name), Figures(100, 0, distinct), {}, has_unit=True)[0] == "dropped"


def test_exposure(client: Client) -> None:
    found = client.ask("exposure", table="voters", qi=["age", "education"])
    assert (found["records"], found["singletons"], found["k"]) == (944, 101, 1)
    empty = client.followed("/ask", question="exposure", given={"table": "empty", "qi": ["a"]})
    assert empty["error"] == "The table has no rows: there is nothing to report."


def test_the_curve(client: Client) -> None:
    found = client.ask("curve", **GENERALISED)
    assert found["min_class"] >= 5
    assert 0 < found["lower_bound"] < found["information_loss"] < 1
    banded = client.ask("curve", **GENERALISED, bands={"age": "10"}, sensitive=["vote"], l=2, max_suppression="0.01")
    assert (banded["l"], banded["suppressed"] <= 9) == (2, True)


def test_before_and_after(client: Client) -> None:
    found = client.ask("preview", **GENERALISED, dropped=["income", "town", "tv_news", "party"], bands={"age": "10"})
    assert [one["name"] for one in found["columns"]] == ["age", "education", "vote"]
    assert (found["records"], found["released"], found["k"] >= 5, len(found["rows"])) == (944, 944, True, 24)
    for row in found["rows"]:
        low, high = (int(one) for one in row["after"][0].strip("[)").split(", "))
        assert low <= int(row["before"][0]) < high
        assert row["before"][1] in row["after"][1]
        assert row["before"][2] == row["after"][2]
    assert {one["measure"] for one in found["utility"]} >= {"total_variation", "query_error"}


def test_all_designs_are_estimated_and_found(client: Client) -> None:
    variables = ["education", "tv_news", "party", "vote"]
    estimate = client.ask("estimate", table="voters", variables=variables)
    found = client.ask("designs", table="voters", variables=variables)
    assert estimate["designs"] == len(found["designs"]) == 50
    fewer = client.ask("designs", table="voters", variables=variables, most_columns=1)
    assert len(fewer["designs"]) == number_of_designs(4, 1)
    assert number_of_designs(8, 7) == 6050
    wide = client.followed("/ask", question="designs", given={"table": "voters", "variables": [*variables, "age"]})
    assert wide["state"] == "done"


def test_bounds(client: Client) -> None:
    found = client.ask("bounds", table="voters", rows=["education"], cols=["vote"])
    assert found["cols"] == [["Clinton"], ["Dole"]]
    assert (found["row_count"], found["col_count"], len(found["cells"])) == (7, 2, 14)
    assert sum(one[2] for one in found["cells"]) == 944
    assert all(one[3] <= one[2] <= one[4] for one in found["cells"])
    odd = client.ask("bounds", table="odd", rows=[MARKUP], cols=["sel'ect", "nothing"])
    assert {tuple(one) for one in odd["cols"]} == {("<b>bold</b>", None), ('"quoted"', None), ("it's", None)}


def test_what_could_be_published_next(client: Client) -> None:
    found = client.ask("next", table="voters")["candidates"]
    assert {one["publishable"] for one in found} == {True, False}
    job = client.followed("/ask", question="next", given={"table": "odd"})
    assert "not protected" in job["error"]


SUPPRESSED = {"table": "voters", "rows": ["party"], "cols": ["tv_news"], "rules": ["threshold"], "n": 5}


def test_a_suppressed_table(client: Client) -> None:
    """What the page shows is what suppress says with audit, in its order, and its costs."""
    found = client.ask("suppressed", **SUPPRESSED, max_deviation=3, variance=1)
    with duckanon.connect() as con:
        wanted = con.execute(
            """SELECT status, true_value, "lower", "upper" FROM suppress($voters, ['party'], ['tv_news'], n := 5,
                 audit := true)""",
            {"voters": str(VOTERS)},
        ).fetchall()
    shown = [cell for row in found["cells"] for cell in row]
    assert [(status, value, *(ends or (None, None))) for status, value, _, _, ends in shown] == wanted
    assert (found["rows"][:2], found["cols"][:2]) == ([[], ["independent"]], [[], ["0"]])
    told = found["suppression"]
    assert (told["primary"], told["secondary"], told["cells"], told["occupied"]) == (9, 4, 72, 71)
    assert told["cost"] == pytest.approx(sum(cost for status, _, cost, _, _ in shown if status == "secondary"))
    changes = [abs(keyed - value) for _, value, _, keyed, _ in shown if value]
    assert found["cell_key"] == {
        "changed": sum(one > 0 for one in changes),
        "mean": pytest.approx(sum(changes) / 71),
        "most": max(changes),
    }
    assert 0 < max(changes) <= 3
    assert found["sql"].startswith("FROM suppress(")


@pytest.mark.parametrize("cost", ["value", "same"])
def test_other_costs_and_sums(client: Client, cost: str) -> None:
    asked = SUPPRESSED | {"rows": ["party", "vote"], "value": "income", "rules": ["p%", "threshold"], "p": "12.5"}
    found = client.ask("suppressed", **asked, cost=cost)
    shown = [cell for row in found["cells"] for cell in row]
    suppressed = [one for one in shown if one[0] == "secondary"]
    wanted = sum(one[1] for one in suppressed) if cost == "value" else len(suppressed)
    assert found["suppression"]["cost"] == pytest.approx(wanted)
    assert found["suppression"]["secondary"] == len(suppressed) > 0
    assert found["rows"][1:3] == [["independent"], ["independent", "Clinton"]]
    assert "p := 12.5" in found["sql"]


def test_an_end_that_is_open_and_a_table_without_columns(client: Client) -> None:
    found = client.ask("suppressed", table="odd", rows=["sel'ect", MARKUP], rules=["threshold"], n=4)
    assert found["cols"] == [[]]
    assert ["<b>bold</b>", "0"] in found["rows"]
    assert {one[0] for (one,) in found["cells"]} == {"primary", "published"}


@pytest.mark.parametrize("form", ["csv", "parquet", "excel"])
def test_a_table_for_print(client: Client, tmp_path: Path, form: str) -> None:
    job = client.followed("/print", given={**SUPPRESSED, "form": form})
    assert job["state"] == "done", job
    suffix = "xlsx" if form == "excel" else form
    status, headers, body = client.send("GET", "/printed")
    assert (status, headers["content-disposition"]) == (200, f'attachment; filename="voters_suppressed.{suffix}"')
    path = tmp_path / f"voters.{suffix}"
    path.write_bytes(body)
    if form == "excel":
        rows = [list(row) for row in load_workbook(path).active.values]
    else:
        with duckanon.connect() as con:
            answer = con.execute(f"FROM '{path}'")
            rows = [[one[0] for one in con.description], *(list(row) for row in answer.fetchall())]
    assert rows[0] == ["party", "Total", *map(str, range(8))]
    numbers = [37, 12, "x", "x", "x", 0, "x", "x", 13]
    # DuckDB reads the columns of a CSV that hold no x as numbers.
    kept = numbers if form == "excel" else [str(one) for one in numbers]
    assert (rows[2][1:] if form == "excel" else [str(one) for one in rows[2][1:]]) == kept
    assert sum(cell == "x" for row in rows for cell in row) == 13


def test_a_large_table_is_for_sql(client: Client) -> None:
    rows = {"rows": ["a0", "a1", "a2", "a3"], "cols": ["a4", "a5", "a6", "a7"], "rules": ["threshold"]}
    job = client.followed("/ask", question="suppressed", given={"table": "survey", **rows})
    assert job["error"] == (
        "The table has 116,281 cells, and the page shows tables of 20,000 at most: choose columns with fewer values, "
        "or call suppress in SQL."
    )


def test_a_simulation(client: Client) -> None:
    found = client.ask("simulation", groups=[30, 20, 10], regions=2, epsilon="1/2")
    assert [one["true"] for one in found["sizes"]] == [30, 20, 10]
    assert all(one["low"] <= one["groups"] <= one["high"] for one in found["sizes"])
    assert (found["epsilon"], found["margin"], len(found["in_region"])) == ("0.5", 6, 3)


def test_the_margin_is_the_least_that_holds() -> None:
    from fractions import Fraction
    from math import exp

    for epsilon in (Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(5)):
        margin, ratio = Simulation((1,), 1, epsilon, 1).margin, exp(-epsilon)
        outside = [2 * ratio ** (m + 1) / (1 + ratio) for m in (margin, margin - 1)]
        assert outside[0] <= 0.05
        assert margin == 0 or outside[1] > 0.05


@pytest.mark.parametrize(
    ("question", "given"),
    [
        ("nothing", {}),
        (None, {}),
        (["tables"], {}),
        ("profile", {}),
        ("profile", {"table": "voters; DROP TABLE voters"}),
        ("profile", {"table": "'/etc/passwd'"}),
        ("profile", {"table": "duckanon.ledger"}),
        ("profile", {"table": ["voters"]}),
        ("profile", {"table": "voters", "sql": "SELECT 1"}),
        ("exposure", {"table": "voters", "qi": ["age); DROP TABLE voters"]}),
        ("exposure", {"table": "voters", "qi": "age"}),
        ("exposure", {"table": "voters", "qi": ["age", "age"]}),
        ("exposure", {"table": "voters", "qi": [], "unit": None}),
        ("exposure", {"table": "voters", "qi": ["AGE"]}),
        ("curve", {**GENERALISED, "k": 1}),
        ("curve", {**GENERALISED, "k": True}),
        ("curve", {**GENERALISED, "k": "5"}),
        ("curve", {**GENERALISED, "method": "auto'); --"}),
        ("curve", {**GENERALISED, "max_suppression": "1e-999999"}),
        ("curve", {**GENERALISED, "t": "NaN"}),
        ("curve", {**GENERALISED, "bands": {"education": "5"}}),
        ("curve", {**GENERALISED, "bands": {"age": "day"}}),
        ("curve", {**GENERALISED, "bands": {"age": "-5"}}),
        ("designs", {"table": "voters", "variables": ["age"]}),
        ("simulation", {"groups": [10**9], "regions": 1, "epsilon": "1"}),
        ("simulation", {"groups": [0], "regions": 1, "epsilon": "1"}),
        ("simulation", {"groups": [1], "regions": 1, "epsilon": "0"}),
        ("simulation", {"groups": [1], "regions": 1, "epsilon": 1}),
        ("simulation", {"groups": [1], "regions": 1, "epsilon": "1') --"}),
        ("suppressed", {**SUPPRESSED, "rows": []}),
        ("suppressed", {**SUPPRESSED, "rows": ["tv_news"]}),
        ("suppressed", {**SUPPRESSED, "rules": []}),
        ("suppressed", {**SUPPRESSED, "rules": ["p%'"]}),
        ("suppressed", {**SUPPRESSED, "rules": "threshold"}),
        ("suppressed", {**SUPPRESSED, "n": 1}),
        ("suppressed", {**SUPPRESSED, "p": "0"}),
        ("suppressed", {**SUPPRESSED, "percent": "100.1"}),
        ("suppressed", {**SUPPRESSED, "value": "party"}),
        ("suppressed", {**SUPPRESSED, "cost": "1"}),
        ("suppressed", {**SUPPRESSED, "digits": 10}),
        ("suppressed", {**SUPPRESSED, "variance": 0}),
    ],
)
def test_what_is_not_asked_so(client: Client, question: Any, given: Any) -> None:
    status, answer = client.post("/ask", question=question, given=given)
    assert status == 400
    assert answer["error"].endswith(".")


def test_nothing_is_computed_twice_and_polling_starts_nothing(served: tuple[Service, Client]) -> None:
    service, client = served
    first = client.followed("/ask", question="exposure", given={"table": "old", "qi": ["age"]})
    again = client.followed("/ask", question="exposure", given={"qi": ["age"], "table": "old", "unit": None})
    assert first == again
    assert client.post("/poll", job="no such job") == (404, {"error": "This work is not known any more: ask again."})
    assert not service.explorer.jobs.is_busy


def test_work_is_cancelled_and_begun_again(served: tuple[Service, Client]) -> None:
    client = served[1]
    many = {"table": "survey", "variables": [f"a{i}" for i in range(9)]}
    few = {"table": "survey", "variables": ["a0", "a1", "a2"]}
    _, job = client.post("/ask", question="designs", given=many)
    while job["state"] == "waiting":
        _, job = client.post("/poll", job=job["job"])
    assert job["state"] == "running"
    _, waiting = client.post("/ask", question="designs", given=few)
    assert waiting["state"] == "waiting"
    assert client.post("/cancel", job=waiting["job"])[1]["state"] == "cancelled"
    began = time.monotonic()
    assert client.post("/cancel", job=job["job"])[1]["state"] == "cancelled"
    assert time.monotonic() - began < 2
    again = client.followed("/ask", question="designs", given=few)
    assert again["job"] != waiting["job"]
    assert len(again["result"]["designs"]) == 12


def test_names_are_quoted_where_sql_needs_it(tmp_path: Path) -> None:
    import duckanon

    with duckanon.connect(tmp_path / "names.duckdb", role="steward") as con:
        con.execute(
            'CREATE SCHEMA "My Shop"; CREATE TABLE "My Shop"."select" AS SELECT 1 AS "Group", 2 AS a'
        ).fetchall()
        con.execute("CREATE TABLE plain AS SELECT 1 AS a; CREATE TEMP TABLE gone AS SELECT 1 AS a").fetchall()
        catalog = Catalog.of(con)
    assert list(catalog.tables) == ['"My Shop"."select"', "plain"]
    assert [one.sql for one in catalog.tables['"My Shop"."select"'].columns] == ['"Group"', "a"]
    assert catalog.free("main", "plain") == "plain_2"


def test_tables_that_could_be_prepared_together(tmp_path: Path) -> None:
    """The picture's errors are those of a plan at each price, and nothing is bought."""
    path = tmp_path / "persons.duckdb"
    with duckanon.connect(path, role="steward") as con:
        for statement in (
            """CREATE TABLE persons AS SELECT i AS person, i % 3 AS region, i % 5 AS job, i % 2 AS sex
                 FROM range(500) r(i)""",
            """SELECT protect('persons', epsilon := 4, delta := 1e-9, privacy_unit := 'person', rows_per_unit := 1,
                 public := ['region', 'job', 'sex'],
                 domains := {'region': [0, 1, 2], 'job': [0, 1, 2, 3, 4], 'sex': [0, 1]})""",
        ):
            con.execute(statement).fetchall()
        asked = "SELECT sd FROM prepare('persons', by := [['region'], ['job'], ['region', 'job']], epsilon := {})"
        exactly = {price: [sd for (sd,) in con.execute(asked.format(price)).fetchall()] for price in ("0.1", "1")}
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    chosen = {"table": "persons", "columns": ["region", "job"], "ways": 3}
    with serving(path) as (_, address):
        client = enter(address)
        found = client.ask("prepared", **chosen, price="0.1")
        assert [one["columns"] for one in found["tables"]] == [["job"], ["region"], ["job", "region"]]
        assert [one["cells"] for one in found["tables"]] == [5, 3, 15]
        here, dearest = found["curve"][4], found["curve"][-1]
        assert here["price"] == pytest.approx(0.1, rel=1e-3)
        assert sorted(here["sd"]) == pytest.approx(sorted(exactly["0.1"]), rel=1e-3)
        assert dearest["price"] == pytest.approx(1, rel=1e-3)
        assert sorted(dearest["sd"]) == pytest.approx(sorted(exactly["1"]), rel=1e-3)
        wrongs: list[dict[str, Any]] = [{"columns": []}, {"ways": 4}, {"price": "0"}, {"columns": ["nobody"]}]
        for wrong in wrongs:
            status, said = client.post("/ask", question="prepared", given={**chosen, "price": "0.1", **wrong})
            assert status == 400, said
        alone = client.followed("/ask", question="prepared", given={**chosen, "columns": ["person"], "price": "0.1"})
        assert "public columns with a domain" in alone["error"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
