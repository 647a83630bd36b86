"""The magics in a real kernel: the example notebook, then two roles, refusals, and jupysql on the same connections."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.integrations.protected import COPY, COUNT, RECORDS, make

EXAMPLES = Path(__file__).parents[2] / "sql" / "examples"

MORE = {
    "as an analyst": "%duckanon {path} --role analyst",
    "count": f"%%duckanon\n{COUNT}",
    "count again": f"%%duckanon\n{COUNT}",
    "no copy": f"%%duckanon\n{COPY}",
    "closed": "%%duckanon\nFROM payroll",
    "records": f"%%duckanon\n{RECORDS}",
    "preview": f"%%privacy\n{RECORDS}",
    "two": "%%duckanon\nFROM cities; CREATE TEMP TABLE two AS SELECT 2 AS n; FROM two",
    "class_id of a school": "%%duckanon\nSELECT 1 AS class_id FROM cities",
    "as a steward": "%duckanon --role steward",
    "steward's": f"%%duckanon\n{RECORDS} LIMIT 2",
    "copy": f"%%duckanon -o copy\n{COPY}",
    "kept": "len(copy), get_ipython().user_ns['copy'].columns.tolist()",
    "frame": "import pandas as pd\nlocal = pd.DataFrame({{'<b>': [1, 2]}})",
    "from frame": "%%duckanon\nSELECT count(*) AS n FROM local",
    "error": "%%duckanon\nFROM k_anonymize('persons', ['age'], k := 1000)",
    "missing": "%duckanon /nowhere/at/all.duckdb",
    "nowhere": "%%duckanon\nSELECT 1",
    "connect": "import duckanon, duckdb\ncon = duckanon.connect()\n"
    "con.execute('CREATE TABLE t AS SELECT i AS age FROM range(12) r(i)').fetchall()",
    "shared": "%%duckanon -c con\nSELECT count(*) AS shared FROM t",
    "markup": """%%duckanon
CREATE TABLE "<i>t" AS FROM t; FROM dp_group_sizes('"<i>t"', 'age', epsilon := 1, max_size := 3)""",
    # Where jupysql finds pyspark, it also wants the libraries of Spark's remote sessions.
    "jupysql": "import sys\nsys.modules['pyspark'] = None\n%load_ext sql",
    "its sql": "%sql con --alias ours",
    "its answer": "%sql SELECT count(*) AS n FROM k_anonymize('t', ['age'], k := 3)",
    "plain": "plain = duckanon.register(duckdb.connect())\nplain.execute('CREATE TABLE t AS SELECT 1 AS age')",
    "plain sql": "%sql plain --alias plain",
    "plain fails": "%sql SELECT count(*) AS n FROM k_report('t', ['age'])",
    "wrapped": "wrapped = duckanon.Connection(plain)",
    "wrapped sql": "%sql wrapped --alias wrapped",
    "wrapped works": "%sql SELECT k FROM k_report('t', ['age'])",
    "guarded": "guarded = duckanon.connect(r'{path}', role='analyst')",
    "guarded sql": "%sql guarded --alias guarded",
    "guarded works": "%sql SELECT size FROM cities WHERE size = 2",
    "guarded refuses": f"%sql {RECORDS}",
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything that the kernel said, by the name of the cell; the example's are numbered."""
    folder = tmp_path_factory.mktemp("notebook")
    path = make(folder / "people.duckdb")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    names = [f"example {i}" for i in range(len(notebook.cells))] + list(MORE)
    notebook.cells += [nbformat.v4.new_code_cell(text.format(path=path)) for text in MORE.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("PLOOMBER_STATS_ENABLED", "false")
        client = NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(EXAMPLES)}},
        )
        client.execute()
    return dict(zip(names, notebook.cells, strict=True))


def said(cell: Any, kind: str = "text/html") -> str:
    """What the cell showed."""
    return "\n".join(
        part.data.get(kind, "") if "data" in part else part.get("text", "") or f"{part.ename}: {part.evalue}"
        for part in cell.outputs
    )


@pytest.mark.ci("a notebook's kernel is started")
def test_the_example_runs(cells: dict[str, Any]) -> None:
    example = [cell for name, cell in cells.items() if name.startswith("example") and cell.cell_type == "code"]
    assert not [part for cell in example for part in cell.outputs if part.output_type == "error"]
    shown = [said(cell) for cell in example]
    assert "<td>738</td>" in shown[1]
    assert "In the 944 rows below: k = 5 (the smallest class)" in shown[2]
    assert "Epsilon 0.5 spent on main.persons; 0.5 left." in shown[5]
    assert "For an analyst would run: " in shown[6]
    assert "main.persons: 0.5 of epsilon 1 left, edition 1." in shown[7]


def test_an_analyst_is_told_what_was_decided_and_spent(cells: dict[str, Any]) -> None:
    assert "You are an analyst: protected tables answer through releases only" in said(cells["as an analyst"])
    assert "count of persons: rewritten (epsilon 0.5, edition 1). The counts have noise" in said(cells["count"])
    assert "Epsilon 0.5 spent on main.persons; 1.5 left." in said(cells["count"])
    today = datetime.now(UTC).date().isoformat()
    assert f"count of persons: rewritten (free: edition 1, drawn {today})." in said(cells["count again"])
    assert "Nothing spent on persons: this answer is stored. 1.5 left." in said(cells["count again"])
    tables = [re.findall(r"<td>.*?</td>", said(cells[name])) for name in ("count", "count again")]
    assert tables[0] == tables[1]
    assert "is released by the steward, once" in said(cells["no copy"])
    assert "something that analysts cannot see" in said(cells["closed"])
    assert re.search(r"In the 90 rows below: k = \d+ \(the smallest class\)", said(cells["copy"]))
    assert "(90, ['class_id', 'age_lo', 'age_hi'])" in said(cells["kept"], "text/plain")
    assert "class" not in said(cells["class_id of a school"]).split("<table")[0].replace('class="duckanon', "")


def test_a_refusal_is_an_error_of_one_sentence(cells: dict[str, Any]) -> None:
    (error,) = cells["records"].outputs
    assert error.output_type == "error"
    assert error.ename == "PolicyRefusal"
    assert error.traceback == [f"PolicyRefusal: {error.evalue}"]
    assert "Records of persons are protected." in error.evalue
    assert "refused" in said(cells["preview"])
    (error,) = cells["error"].outputs
    assert error.traceback == [
        "InvalidInputException: The table has fewer than k = 1000 rows: choose a smaller k, or anonymise more rows "
        "together."
    ]


def test_every_statement_of_a_cell_is_told_of_and_shown(cells: dict[str, Any]) -> None:
    shown = said(cells["two"])
    assert shown.count("It touches no protected table.") == 3
    assert "c2" in shown
    assert "<td>2</td>" in shown.rsplit("duckanon-banner", 1)[1]


def test_a_role_is_changed_on_the_same_file(cells: dict[str, Any]) -> None:
    assert "You are a steward: statements run as they are written" in said(cells["as a steward"])
    assert "name 1" in said(cells["steward's"])
    assert "Runs as written: the role is steward." in said(cells["steward's"])
    assert "<td>2</td>" in said(cells["from frame"])


def test_nothing_runs_elsewhere_after_a_failed_opening(cells: dict[str, Any]) -> None:
    assert "There is no file /nowhere/at/all.duckdb: check the name, or make a new database" in said(cells["missing"])
    assert "No database is open, since the last %duckanon failed" in said(cells["nowhere"])


def test_banners_escape_what_they_show(cells: dict[str, Any]) -> None:
    shown = said(cells["markup"])
    assert "Epsilon 1 spent on main.&lt;i&gt;t; no budget limits it" in shown
    assert "<i>" not in shown


def test_jupysql_has_the_functions(cells: dict[str, Any]) -> None:
    assert "shared" in said(cells["shared"])
    assert "12" in said(cells["its answer"])
    assert "k_report does not exist" in said(cells["plain fails"])
    assert "1" in said(cells["wrapped works"])
    assert "2" in said(cells["guarded works"])
    assert "Records of persons are protected." in said(cells["guarded refuses"])
