"""The command line: help, the demo, `report` and `compare`; what they print and with which exit code they end."""

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter

import duckdb
import pytest

import duckanon
from duckanon import __version__
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call, named, numbers, widths
from duckanon.specification import functions
from tests.integrations.cli.commandline import ROOT, VOTERS, rows_of, run, smallest

# --- the command itself -----------------------------------------------------------------------------------------------


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"duckanon {__version__}\n")


def test_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("demo", "k-anonymize", "report", "compare", "sql"))


def test_help_loads_neither_duckdb_nor_numba():
    code = (
        "import sys; from duckanon.integrations.cli.__main__ import main\n"
        "sys.argv = ['duckanon', '--help']\n"
        "try: main()\n"
        "except SystemExit: sys.exit(str({'duckdb', 'numba', 'pyarrow', 'prompt_toolkit'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stderr == "set()\n"


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(library):
    code = (
        f"import sys; sys.modules['{library}'] = None; from duckanon.integrations.cli.__main__ import main\n"
        "sys.argv = ['duckanon', 'demo']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 1
    assert done.stderr == "The command line needs its extra: pip install 'duckanon[cli]'.\n"
    assert done.stdout == ""


# --- demo -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(whole_search):
    """What it prints to a terminal of 80 columns."""
    return run("demo", columns=80)


@pytest.fixture(scope="module")
def lost(whole_search):
    """What the demo's release loses, as SQL says it."""
    # On DuckDB 1.4 a variable `csv` of the caller's, the module here, would stand in for the end of the path.
    with duckdb.connect(config={"python_enable_replacements": False}) as con:
        call = "k_compare(?, ['age', 'education', 'income'], categorical := ['education'])"
        ((found,),) = duckanon.register(con).execute(f"SELECT information_loss FROM {call}", [VOTERS]).fetchall()
    return found


@pytest.mark.parametrize("columns", [80, 120])
def test_demo_fits(demo, lost, columns):
    result = demo if columns == 80 else run("demo", columns=columns)
    assert result.exit_code == 0, result.output
    for line in result.stdout.splitlines():
        # SQL is never folded, so that it can be pasted; the path to the records may be long.
        assert len(line) <= columns or line.startswith("CREATE OR REPLACE TABLE voters"), line
    told = re.search(r"information lost: (\d\.\d+) %", " ".join(result.stdout.lower().split()))
    assert told is not None
    assert float(told[1]) == pytest.approx(100 * lost, abs=0.0051)
    assert result.stderr == ""


def test_demo_shows_true_figures(demo):
    lines = [line.split("│")[1:-1] for line in demo.stdout.splitlines() if line.startswith("│")]
    cells = {one[0].strip(): [cell.strip() for cell in one[1:]] for one in lines}
    records = rows_of(VOTERS)
    classes = Counter((row["age"], row["education"], row["income"]) for row in records)
    assert cells["records"] == ["944", "944"]
    assert cells["classes"][0] == str(len(classes))
    assert cells["records alone"] == [str(sum(1 for size in classes.values() if size == 1)), "0"]
    assert cells["k (smallest class)"] == ["1", "5"]
    assert cells["highest risk"] == ["100 %", "20 %"]


def test_demo_shows_the_same_records_before_and_after(demo):
    text = demo.stdout
    before, after = (
        [
            [cell.strip() for cell in line.split("│")[1:-1]]
            for line in part.split("╰")[0].splitlines()[4:]
            if line.startswith("│")
        ]
        for part in (text.split("Before:")[1], text.split("After:")[1])
    )
    assert len(before) == len(after) == 5
    for (age, education, income, _town, *kept), (ages, sets, incomes, *same) in zip(before, after, strict=True):
        low, _, high = ages.partition("-")
        assert int(low) <= int(age) <= int(high or low)
        low, _, high = incomes.partition("-")
        assert int(low) <= int(income) <= int(high or low)
        assert education in sets.split(", ")
        assert kept == same


def test_demo_prints_sql_that_runs(here):
    text = run("demo", "--k", "7").stdout
    script = text.split("This is the SQL that was run:")[1].split("Next:")[0]
    assert "k := 7" in script
    again = run("sql", "again.duckdb", "-c", script)
    assert again.exit_code == 0, again.output
    with duckdb.connect("again.duckdb") as con:
        released = con.execute("SELECT class_id FROM released").fetchall()
    assert len(released) == 944
    assert smallest(released) >= 7


def test_demo_refuses_a_k_of_one():
    result = run("demo", "--k", "1")
    assert result.exit_code == 1
    assert result.stderr == "k must be 2 or more: with k = 1 every record may stand alone.\n"


# --- report and compare -----------------------------------------------------------------------------------------------


def test_report_explains_each_figure():
    result = run("report", VOTERS, "--qi", "age,education,income", "--sensitive", "vote", columns=80)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    for piece in ("records alone", "738", "88.3 %", "0.584", "Groups of records that agree on"):
        assert piece in result.stdout


def test_report_leaves_out_figures_of_no_sensitive_column():
    assert "closeness" not in run("report", VOTERS, "--qi", "age").stdout


def test_report_as_json_and_csv():
    found = json.loads(run("report", VOTERS, "--qi", "age", "--format", "json").stdout)
    assert found == [found[0] | {"records": 944, "classes": 71, "k": 1, "l": None}]
    header, row = csv.reader(run("report", VOTERS, "--qi", "age", "--format", "csv").stdout.splitlines())
    assert dict(zip(header, row, strict=True))["classes"] == "71"


def test_compare():
    result = run("compare", VOTERS, "--qi", "age,income", "--k", "2,5", "--methods", "order,auto", columns=80)
    assert result.exit_code == 0
    assert [line.split("│")[1].strip() for line in result.stdout.splitlines() if "%" in line and "│" in line] == [
        "order",
        "auto",
    ] * 2
    assert max(map(len, result.stdout.splitlines())) <= 80
    found = json.loads(run("compare", VOTERS, "--qi", "age", "--k", "3", "--format", "json").stdout)
    assert found[0]["min_class"] >= 3


def test_compare_wants_whole_numbers():
    result = run("compare", VOTERS, "--qi", "age", "--k", "2,x")
    assert (result.exit_code, result.stderr) == (1, "--k needs whole numbers, as in --k 2,5,10.\n")


def test_report_has_the_journalists_risk_for_a_sample():
    result = run("report", VOTERS, "--qi", "age", "--fraction", "0.1", columns=80)
    assert result.exit_code == 0
    assert "journalist's, highest" in result.stdout
    assert "journalist" not in run("report", VOTERS, "--qi", "age").stdout


def test_compare_has_the_share_that_a_classifier_gets_wrong():
    result = run("compare", VOTERS, "--qi", "age", "--target", "vote", columns=100)
    assert result.exit_code == 0
    assert "misclassified" in result.stdout
    assert "misclassified" not in run("compare", VOTERS, "--qi", "age").stdout


# --- options that follow from the specification -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (["k-anonymize"], "k_anonymize"),
        (["suppress"], "suppress"),
        (["report"], "k_report"),
        (["compare"], "k_compare"),
        (["k-utility"], "k_utility"),
        (["plot", "utility"], "k_utility"),
        (["k-subsets"], "k_subsets"),
        (["record-risk"], "record_risk"),
        (["plot", "compare"], "k_compare"),
        (["plot", "bounds"], "conditional_bounds"),
        (["plot", "mechanism"], "metric_mechanism"),
    ],
)
def test_every_argument_of_the_function_is_an_option(command, function):
    told = run(*command, "--help", columns=100).stdout
    arguments = [one for one in functions()[function].arguments if not one.table]
    assert arguments
    for one in arguments:
        assert re.search(rf"--{one.name.replace('_', '-')}\b", told), one.name
    # Neither Markdown nor SQL is left in the help.
    assert not re.search(r"`|:=|\[\w+\]\(|\['|\{'", told)


def test_help_takes_meaning_and_default_from_the_specification():
    told = " ".join(run("compare", "--help", columns=200).stdout.split())
    assert "Every k to try (2 or more). Default: 5." in told
    # The specification refers to k_anonymize here.
    assert "Quasi-identifiers whose values have no order: released as sets." in told
    assert "as in age=3" in told


def test_values_become_arguments():
    assert call("k_anonymize", "t", qi=["a"], k=3, drop=[], weights={"a": 2, "b": 0.5}) == (
        "FROM k_anonymize(\n  't', ['a'],\n  k := 3, weights := {'a': 2, 'b': 0.5::DOUBLE}\n)"
    )
    assert call("conditional_bounds", "t", ["a"], n=5, p="share", cols=["b"], digits=None) == (
        "FROM conditional_bounds('t', ['a'], ['b'], 'share', 5)"
    )


def test_numbers_by_name():
    assert numbers(["age=2,zip=0.5", "big=1e3"], "--weights") == {"age": 2, "zip": 0.5, "big": 1000.0}
    assert named(["zip=zip_levels,job=job=1.csv"], "--hierarchies") == {"zip": "zip_levels", "job": "job=1.csv"}
    assert widths(["age=5,born=3 months", "pay=0.5:10:90,day=week::2000-01-31"], "--bands") == {
        "age": 5,
        "born": "3 months",
        "pay": {"width": 0.5, "bottom": 10, "top": 90},
        "day": {"width": "week", "top": "2000-01-31"},
    }
    assert widths(["age=5/10/20:20:80,born=month/year"], "--bands") == {
        "age": {"width": [5, 10, 20], "bottom": 20, "top": 80},
        "born": ["month", "year"],
    }
    for read, wrong in ((named, "zip"), (named, "=x"), (widths, "5"), (widths, "age="), (widths, "age=5:1:2:3")):
        with pytest.raises(InvalidInput, match="belong, as in"):
            read([wrong], "--bands")
    for wrong in ("age", "=2", "age=", "age=two"):
        with pytest.raises(InvalidInput, match=f"--weights has '{wrong}' where"):
            numbers([wrong], "--weights")


def test_report_with_a_unit_says_what_is_counted(tmp_path):
    file = tmp_path / "visits.csv"
    file.write_text("ward,patient\n1,a\n1,a\n2,b\n2,c\n")
    said = run("report", str(file), "--qi", "ward", "--unit", "patient", columns=120).stdout
    assert "units alone" in said
    assert "Some groups hold the records of one value of patient alone." in said
    assert "Records in a group" not in said
    assert "Records in a group" in run("report", str(file), "--qi", "ward", columns=120).stdout


def test_report_with_a_unit_says_for_whom_the_risk_is(tmp_path):
    file = tmp_path / "visits.csv"
    file.write_text("ward,patient\n1,a\n1,a\n1,b\n1,c\n")
    said = run("report", str(file), "--qi", "ward", "--unit", "patient", columns=400).stdout
    assert "by one of its records, where patient cannot be seen: 1 / k. A copy that shows patient links its" in said
    assert "for the most exposed" not in said
