"""`duckanon suppress`: the table that it writes, what it says, and what it refuses."""

from pathlib import Path

import pytest

from tests.integrations.cli.commandline import VOTERS, rows_of, run


def test_the_table_is_that_of_sql(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    done = run("suppress", VOTERS, str(out), "--rows", "party", "--cols", "tv_news")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.replace("\n", " ").strip().endswith("table.csv: 72 cells, 7 of them suppressed.")
    found = rows_of(out)
    assert list(found[0]) == ["party", "tv_news", "row_level", "col_level", "value", "suppressed"]
    assert found[0]["value"] == "944"
    assert {row["value"] for row in found if row["suppressed"] == "true"} == {""}


def test_the_officers_columns_come_with_a_warning(tmp_path: Path) -> None:
    out = tmp_path / "audit.csv"
    options = ("--value", "income", "--rule", "p%,threshold", "--n", "20", "--audit")
    done = run("suppress", VOTERS, str(out), "--rows", "education", *options)
    assert done.exit_code == 0, done.stderr
    assert "undo the suppression" in done.stderr
    assert {row["status"] for row in rows_of(out)} == {"published", "primary", "secondary"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--p", "10"), "p is for --rule p%: choose that rule, or leave p out."),
        (("--value", "vote"), 'Column "vote" is not a number and cannot be value: cast it to DECIMAL.'),
    ],
)
def test_errors_name_options(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    out = tmp_path / "table.csv"
    done = run("suppress", VOTERS, str(out), "--rows", "education", *options)
    assert done.exit_code == 1
    assert says in done.stderr.replace("\n", " ")
    assert not out.exists()


def test_linked_tables(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    given = "--by tv_news --by vote --tables party,tv_news --tables party,vote --widths threshold=50".split()
    done = run("suppress", VOTERS, str(out), "--rows", "party", "--value", "income", *given)
    assert done.exit_code == 0, done.stderr
    assert {row["by_level"] for row in rows_of(out)} == {"[0,0]", "[1,0]", "[0,1]"}
