"""Every SQL example in the documentation runs and gives what is printed; every link leads somewhere."""

import re
from pathlib import Path

import duckdb
import pytest

from tests.documents import cells, examples, run

ROOT = Path(__file__).parents[1]
FUNCTIONS = {
    "k_anonymize", "k_report", "k_compare", "cell_bounds", "cell_values", "conditional_bounds", "disclosure_report",
    "table_designs", "group_sizes", "dp_group_sizes", "protect", "unprotect", "privacy_ledger", "privacy_budget",
    "metric_mechanism", "metric_report", "metric_perturb", "policies", "explain_privacy",
}  # fmt: skip
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples(con: duckdb.DuckDBPyConnection, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The README is read in the checkout's top folder; the pages say that they run beside the examples.
    monkeypatch.chdir(ROOT if page.name == "README.md" else ROOT / "sql" / "examples")
    for example in examples(page):
        drawn = run(con, example.sql)
        if example.printed is not None:
            assert cells(drawn) == cells(example.printed), example.sql


def test_every_sql_function_has_a_page_with_an_example() -> None:
    names = {
        name
        for file in (ROOT / "sql" / "macros").glob("*.sql")
        for name in re.findall(r"TEMP MACRO (\w+)", file.read_text(encoding="utf-8"))
        if not name.startswith("_")
    }
    assert names == FUNCTIONS
    for name in names:
        assert any(f"{name}(" in example.sql for example in examples(ROOT / "docs" / f"{name}.md")), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readme_fits_a_screen_and_has_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split("## Two commands")[0].splitlines()) <= 20
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert [len(command.splitlines()) for command in commands] == [1, 1]
    assert len(examples(ROOT / "README.md")) == 4
