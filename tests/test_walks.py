"""The first ten minutes of each reader: every command of the page is typed, and what is printed compared."""

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from tests.extras import needs
from tests.walk import READERS, ROOT, steps, walk

# The database in whose console the SQL of a page is typed; the others have none, or open it in the shell.
# Pages show what a user gets.
pytestmark = pytest.mark.usefixtures("whole_search")

DATABASES = {"analyst": "shop.duckdb", "officer": "survey.duckdb"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a reader works, with the example's file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    shutil.copy(ROOT / "sql" / "examples" / "voters.csv", tmp_path)
    return tmp_path


def walked(reader: str) -> int:
    """Walk the page of a reader; the number of steps."""
    taken = steps(ROOT / "docs" / "learn" / f"{reader}.md")
    today = datetime.now(UTC).date().isoformat()
    for step, printed in walk(taken, DATABASES.get(reader, ":memory:")):
        assert step.printed is None or printed.replace(today, "2026-02-03") == step.printed, step.typed
    return len(taken)


@pytest.mark.ci("each command of the page is a process of its own")
def test_an_officer_signs_a_release(folder: Path) -> None:
    needs("report")
    assert walked("officer") == 19
    for file in ("records.parquet", "shares.csv", "sizes.csv", "ledger.csv"):
        assert file in Path("statement.txt").read_text(encoding="utf-8")
    assert "main.residents" in Path("report.html").read_text(encoding="utf-8")
    assert "vote" not in duckdb.read_parquet("records.parquet").columns


@pytest.mark.ci("each command of the page is a process of its own")
@pytest.mark.parametrize(("reader", "count"), [("analyst", 12), ("analytics-engineer", 6)])
def test_a_walk(folder: Path, reader: str, count: int) -> None:
    assert walked(reader) == count


@pytest.mark.ci("each command of the page is a process of its own")
def test_an_auditor_checks_a_parcel(folder: Path) -> None:
    needs("record")
    assert walked("auditor") == 7


@pytest.mark.ci("a service is started and stopped, and each command is a process of its own")
@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_an_operator_serves_and_restores(folder: Path) -> None:
    assert walked("operator") == 8


@pytest.mark.ci("the checkout is copied, and its tests are run")
def test_a_contributor_makes_a_patch(folder: Path) -> None:
    for part in ("docs", "duckanon", "fixtures", "sql", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for command in ("init -q", "add .", "-c user.name=x -c user.email=x commit -qm x"):
        subprocess.run(["git", *command.split()], check=True)
    assert walked("contributor") == 6


def test_every_reader_has_a_page() -> None:
    assert {page.stem for page in (ROOT / "docs" / "learn").glob("*.md")} == {*READERS, "attackers-mode"}
