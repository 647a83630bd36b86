"""Each figure of the pages of benchmarks names its command, and what a command prints is compared with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from tests.bench import rerun
from tests.bench.figures import (
    PAGES,
    ROOT,
    TOP,
    Block,
    Compared,
    FormatError,
    blocks,
    commands,
    compare,
    expected,
    moved,
    named,
    problems,
    sections,
)

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
SMALL = """# Benchmarks

## Losses

    python -m tests.bench.kanon_adult

<!-- measured: python -m tests.bench.kanon_adult; at 0123abc; under ten minutes; keys 2 -->
| k | method | loss | seconds |
|---|---|---|---|
| 3 | `auto` | 0.181 | 2.8 |
| 3 | `order` | 1,651 | 0.2 |

<!-- measured: python -m tests.bench.kanon_adult; at 0123abc; under ten minutes; says the first: {0.67} s -->
The first result takes 0.67 s.
"""
PRINTED = """
| k | method | loss | seconds |
|---|---|---|---|
| 3 | `auto` | {} | 2.9 |
| 3 | `order` | 1,651 | {} |

the first: {} s
"""


def test_every_figure_names_a_command_that_exists_and_its_commit() -> None:
    below = frozenset().union(*(named(blocks(text)) for page, text in TEXTS.items() if page != TOP))
    for page, text in TEXTS.items():
        assert problems(text, below if page == TOP else frozenset()) == [], page.name
    assert sum(len(blocks(text)) for text in TEXTS.values()) >= 59


@pytest.mark.parametrize(
    ("was", "becomes", "problem"),
    [
        (
            "<!-- measured: python -m tests.bench.kanon_adult; at 0123abc; under ten minutes; keys 2 -->\n",
            "",
            "without",
        ),
        ("    python -m tests.bench.kanon_adult\n", "", "is not shown"),
        ("tests.bench.kanon_adult", "tests.bench.kanon_adults", "runs nothing"),
        ("at 0123abc; under ten minutes; keys", "under ten minutes; keys", "commit"),
        ("at 0123abc; under ten minutes; keys", "at yesterday; under ten minutes; keys", "commit"),
        ("takes 0.67 s", "takes 1.67 s", "0.67 is not in the paragraph"),
        ("## Losses\n", "## Losses\n\n    python -m tests.bench.kanon_size\n", "no figure names it"),
    ],
)
def test_a_figure_without_its_command_is_found(was: str, becomes: str, problem: str) -> None:
    assert problems(SMALL) == []
    assert was in SMALL
    assert any(problem in one for one in problems(SMALL.replace(was, becomes)))


def test_every_table_needs_its_comment() -> None:
    """The twin: a page without the comment of any one table has a problem."""
    for text in TEXTS.values():
        for block in (block for block in blocks(text) if block.is_table):
            without = [line for at, line in enumerate(text.splitlines()) if at not in block.comments]
            assert any("without the command" in one for one in problems("\n".join(without))), block.lines[0]


def test_the_table_on_top_has_the_numbers_of_its_sections() -> None:
    by_link = {
        f"benchmarks/{page.name}#{anchor(heading)}": section
        for page, text in TEXTS.items()
        for heading, section in sections(text).items()
    }
    rows = re.findall(r"^\| \[.*?\]\((.*?)\).*? \| (.*) \| (.*) \| (.*) \| `(.*)` \|$", TEXTS[TOP], re.MULTILINE)
    assert len(rows) >= 15
    for section, _, peer, today, command in rows:
        assert command in commands(by_link[section])
        for number in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", f"{peer.partition(', ')[0]} {today}"):
            standing = re.compile(rf"(?<![\d.,]){re.escape(number)}(?![\d.]|,\d)")
            assert number == "1" or standing.search(by_link[section]), (section, number)


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.removeprefix("## ").lower()).replace(" ", "-")


def test_the_commits_are_of_this_repository() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is no checkout")
    asked = ["git", "rev-parse", "--is-shallow-repository"]
    if subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == "true":
        pytest.skip("this checkout has no history")
    commits = {
        one
        for text in TEXTS.values()
        for block in blocks(text)
        for each in block.sources
        for one in (*each.commits, *each.times_at)
    }
    kinds = subprocess.run(
        ["git", "cat-file", "--batch-check=%(objecttype)"],
        cwd=ROOT,
        input="\n".join(sorted(commits)),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    assert [name for name, kind in zip(sorted(commits), kinds, strict=False) if kind != "commit"] == []


def test_comments_are_read_as_they_are_written() -> None:
    for text in TEXTS.values():
        lines = text.splitlines()
        for block in blocks(text):
            for one in block.sources:
                assert str(one) in {lines[at] for at in block.comments}


def test_a_comment_that_says_something_else_is_refused() -> None:
    with pytest.raises(FormatError, match="tomorrow"):
        blocks(SMALL.replace("; keys 2", "; tomorrow"))


@pytest.mark.parametrize(
    ("page", "printed", "far"),
    [
        ("18.1%", "17.6%", False),
        ("0.67", "1.7", True),
        ("9.5", "26.6", True),
        ("3.56", "7.3", True),
        ("-106.8%", "-107.0%", False),
        ("0.1", "0.2", False),
        ("7.5e-09", "9.5e-09", True),
        ("97.8 % in 85.3 (16.17)", "97.8 % in 85.3 (26.17)", True),
        ("5,678", "5678", False),
        ("stopped", "0.5", True),
    ],
)
def test_more_than_a_tenth_is_moved(page: str, printed: str, far: bool) -> None:
    assert moved(page, printed) is far


def found(*numbers: str) -> tuple[Block, Block, Compared, Compared]:
    table, sentence = blocks(SMALL)
    output = PRINTED.format(*numbers)
    return table, sentence, compare(table, table.sources[0], output), compare(sentence, sentence.sources[0], output)


def test_rows_are_found_by_their_labels() -> None:
    table, _, of_table, of_sentence = found("0.3", "0.21", "1.7")
    assert [(one.label, one.printed, one.moved, one.is_time) for one in of_table.changes] == [
        ("3, auto: loss", "0.3", True, False),
        ("3, auto: seconds", "2.9", False, True),
        ("3, order: seconds", "0.21", False, True),
    ]
    assert [(one.page, one.printed, one.moved) for one in of_sentence.changes] == [("0.67", "1.7", True)]
    assert set(expected(table)) == of_table.rows == {0, 1}


def test_what_is_no_longer_printed_is_missed() -> None:
    table, sentence = blocks(SMALL)
    output = PRINTED.format("0.3", "0.2", "1.7").replace("`order`", "`auto` again").replace("the first", "the last")
    assert compare(table, table.sources[0], output).rows == {0}
    assert compare(sentence, sentence.sources[0], output).unsaid == ["the first: {0.67} s"]


@pytest.mark.parametrize(
    ("times", "commits", "times_at", "loss", "seconds"),
    [
        (None, "fedcba9", "", "0.3", "2.9"),
        (False, "fedcba9", "0123abc", "0.3", "2.8"),
        (True, "0123abc", "fedcba9", "0.181", "2.9"),
    ],
)
def test_numbers_are_written_with_their_commit(
    times: bool | None, commits: str, times_at: str, loss: str, seconds: str
) -> None:
    table, _, compared, _ = found("0.3", "0.2", "1.7")
    lines = SMALL.splitlines()
    wanted = [one for one in compared.changes if times in (None, one.is_time)]
    rerun.written(lines, table, table.sources[0], wanted, "fedcba9", times=times)
    again = blocks("\n".join(lines))[0]
    assert again.lines[2] == f"| 3 | `auto` | {loss} | {seconds} |"
    assert again.sources[0] == replace(table.sources[0], commits=(commits,), times_at=(times_at,) if times_at else ())


def test_sentences_are_written_with_their_commit() -> None:
    _, sentence, _, compared = found("0.3", "0.2", "1.7")
    lines = SMALL.splitlines()
    rerun.written(lines, sentence, sentence.sources[0], compared.changes, "fedcba9", times=None)
    assert lines[-1] == "The first result takes 1.7 s."
    assert problems("\n".join(lines)) == []


def test_commands_are_run_with_what_this_machine_knows() -> None:
    run = rerun.words("python -m tests.bench.server POSTGRES_BIN > x.md", {"POSTGRES_BIN": "/bin"})
    assert run is not None
    assert run[1:] == ["-m", "tests.bench.server", "/bin"]
    assert rerun.words("python -m tests.bench.server POSTGRES_BIN", {}) is None
    spark = rerun.words("poe bench spark 1000000 order", {})
    assert spark is not None
    assert spark[1:] == ["-m", "tests.bench", "spark", "1000000", "order"]
