"""Every SQL example in the documentation runs and gives what is printed; every link leads somewhere."""

import json
import re
from pathlib import Path

import duckdb
import pytest

from duckanon.integrations.cli.console import converse
from duckanon.integrations.terminal.session import Session
from duckanon.specification import functions
from tests.documents import PAGES, ROOT, cells, examples, prose, run, words
from tests.reference import FUNCTION_PAGES
from tests.walk import READERS, shell

# Pages show what a user gets.
pytestmark = pytest.mark.usefixtures("whole_search")

MOST_WORDS = 70_000  # of prose in all pages: what is added to one is taken away elsewhere
WALKS = [ROOT / "docs" / "learn" / f"{name}.md" for name in READERS]  # tests/test_walks.py walks them
RECORD = ROOT / "docs" / "how-to" / "record.md"  # tests/integrations/record walks it


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in (*WALKS, RECORD) and any(True for _ in examples(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_examples(own_con: duckdb.DuckDBPyConnection, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The README is read in the checkout's top folder; the pages say that they run beside the examples.
    monkeypatch.chdir(ROOT if page.name == "README.md" else ROOT / "sql" / "examples")
    for example in examples(page):
        drawn = run(own_con, example.sql)
        if example.printed is not None:
            assert cells(drawn) == cells(example.printed), example.sql


@pytest.mark.ci("each command is a process of its own")
def test_the_commands_of_the_audit_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaves with the status that the page promises, on models of which one lets records out."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "how-to" / "audit-in-ci.md").read_text(encoding="utf-8")
    models = tmp_path / "models"
    models.mkdir()
    (models / "fine.sql").write_text("SELECT 1")
    strict = next(block for block in re.findall(r"\n\n((?:    .+\n)+)", page) if "json" in block)
    plain = next(block for block in re.findall(r"\n\n((?:    .+\n)+)", page) if "status=$?" in block)
    expected = {"fine": (0, 0), "count": (0, 1), "records": (1, 1)}
    sql = {"fine": "SELECT 1", "count": "SELECT count(*) FROM persons", "records": "SELECT * FROM persons"}
    for name, statuses in expected.items():
        (models / "model.sql").write_text(sql[name])
        for block, status in zip((plain, strict), statuses, strict=True):
            assert shell(block).returncode == status, (name, block)
    assert json.loads(Path("audit.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"


def test_the_readme_shows_what_the_console_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first screen is typed into the real console, key by key, and the answers are compared."""
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.chdir(ROOT / "sql" / "examples")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
    typed = [
        line.removeprefix("duckanon> ").removeprefix("     ...> ") for line in screen.splitlines() if "> " in line[:10]
    ]
    with create_pipe_input() as keyboard, Session() as session:
        keyboard.send_text("".join(f"{line}\r" for line in typed) + "\x04")
        converse(session, history=InMemoryHistory(), source=keyboard, screen=DummyOutput())
    shown = [line for line in screen.splitlines() if "> " not in line[:10]]
    printed = capsys.readouterr().out.splitlines()
    assert "Ctrl-D leaves" in printed[0]
    assert printed[-len(shown) :] == shown


def test_every_sql_function_has_a_page_with_an_example() -> None:
    for name in functions():
        assert any(f"{name}(" in example.sql for example in examples(FUNCTION_PAGES / f"{name}.md")), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "contributing/architecture.md"])
def test_code_that_contributors_read_about_exists(page: str) -> None:
    """Paths and dotted names in backticks and in the picture of the rooms, down to the class and its method."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    paths = set(re.findall(r"(?<![\w/.])((?:\.ci|docs|duckanon|fixtures|sql|tests)/[\w./-]*)", text))
    names = set(re.findall(r"`(duckanon(?:\.\w+)+)`", text))
    assert len(paths) > 20
    assert len(names) > 5
    missing = {path for path in paths if not (ROOT / path.rstrip(".")).exists()}
    assert missing | {name for name in names if not _is_defined(name)} == set()


def _is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or something that a module's text defines."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module.exists():
            text = module.read_text(encoding="utf-8")
            return all(
                re.search(rf"^\s*(?:class|def) {one}\b|^{one}\b.* = |\"{one}\"", text, re.M) for one in parts[length:]
            )
    return False


def test_the_readme_fits_a_screen_and_has_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split("## Two commands")[0].splitlines()) <= 20
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert [len(command.splitlines()) for command in commands] == [1, 1]
    assert len(examples(ROOT / "README.md")) == 4


def test_no_words_say_that_the_first_records_of_a_unit_count() -> None:
    """It is a sample of them: `tests/releases/test_contribution.py` measures that each is as likely as any other."""
    wrong = re.compile(r"\bfirst (\d+ |`?rows_per_unit`? |N |R )?records?( of each unit)? counts?\b", re.IGNORECASE)
    texts = [path for kind in ("docs/**/*.md", "duckanon/**/*.py", "sql/**/*.*") for path in ROOT.glob(kind)]
    said = {path.name for path in texts if wrong.search(path.read_text(encoding="utf-8"))}
    assert not said - {"changelog.md"}


def test_the_pages_stay_short() -> None:
    """A fact that another page already says is linked; `python -m tests.documents` counts."""
    assert words().total() <= MOST_WORDS


def test_what_counts_as_prose() -> None:
    page = "# A *title*\n\nTwo\nwords, [a link](x y).\n\n- item\n  | cell |\n  |---|\n\n    python -m this\n\n"
    fences = "```sql\nSELECT 1\n```\n\n````text\na\n```\n````\n<!-- not\n    seen -->\nend `code`\n"
    assert prose(page + fences) == 11
