"""What pages name is there: functions and their arguments, commands and their options, headings of links."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer.main

from duckanon.integrations.cli.commands import app
from duckanon.specification import functions

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = typer.main.get_command(app)
# What pages call that is neither ours nor DuckDB's: names of tables with columns, Python, R, JDBC, PostgreSQL, dbt,
# words of mathematics, and what analysts write for the ends of an interval.
OTHERS = set(
    "a always b bool connect cursor distance f level open print r ref register repr t text v clock_timestamp dbConnect "
    "dbGetQuery extract getWarnings high inspect library low pg_cancel_backend "
    "pg_terminate_backend require to_char".split()
)
# Options of DuckDB's read_csv.
READING = set("all_varchar comment decimal_separator encoding escape header nullstr quote skip".split())


def code(text: str) -> Iterator[str]:
    """What stands between backticks, and in blocks of code, without what programs print."""
    text = re.sub(r"^```(?!sql|sh|python).*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield block.replace("\\\n", " ")
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    yield from re.findall(r"^    (.+)$", text.replace("\\\n", " "), re.MULTILINE)


def calls(text: str) -> Iterator[tuple[str, set[str]]]:
    """Each name before a bracket, and the arguments that are named directly in that bracket."""
    for found in re.finditer(r"(?<![\w.$%])([a-z]\w*)\(", text):
        depth, at = 1, found.end()
        while at < len(text) and depth:
            depth += (text[at] in "([{") - (text[at] in ")]}")
            at += 1
        inside = text[found.end() : at]
        while (less := re.sub(r"[(\[{][^()\[\]{}]*[)\]}]", "", inside)) != inside:
            inside = less
        yield found[1], set(re.findall(r"(\w+) :=", inside))


def unknown_calls(text: str, known: set[str]) -> set[str]:
    """Names of functions and arguments that are not there."""
    wrong: set[str] = set()
    for part in code(text):
        for name, arguments in calls(part):
            if function := functions().get(name):
                wrong |= {f"{name}({one} := )" for one in arguments - {each.name for each in function.arguments}}
            elif name not in known:
                wrong.add(f"{name}()")
        named = set(re.findall(r"(\w+) :=", part))
        wrong |= {f"{one} :=" for one in named - READING - {a.name for f in functions().values() for a in f.arguments}}
    return wrong


def options(command: Any) -> set[str]:
    """The options of a command, or of all commands of a group."""
    inner = getattr(command, "commands", {}).values()
    own = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
    return own.union(*(options(one) for one in inner))


def unknown_options(text: str) -> set[str]:
    """Commands of ours that are not there, and options that they do not have."""
    wrong: set[str] = set()
    for part in code(text):
        for line in re.findall(r"(?:^|(?<!-a)(?<!install)[\s;&|(])duckanon ([a-z][\w -]*.*)", part):
            typed = re.split(r"[;|>#]|&&", re.sub(r"\"[^\"]*\"?|'[^']*'", "X", line))[0].split()
            command: Any = COMMANDS  # typer brings classes of its own in place of click's, from some version on
            while typed and (inner := getattr(command, "commands", {}).get(typed[0])):
                command = inner
                del typed[0]
            if command is COMMANDS:
                wrong.add(f"duckanon {line[:30]}")
            wrong |= {
                f"{command.name} {word}"
                for word in typed
                if word.startswith("--") and word.partition("=")[0] not in {*options(command), "--help", "--version"}
            }
    return wrong


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Names of DuckDB's functions, and OTHERS."""
    with duckdb.connect() as con:
        return {name for (name,) in con.execute("SELECT function_name FROM duckdb_functions()").fetchall()} | OTHERS


def test_functions_and_options_are_there(known: set[str]) -> None:
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    wrong = {page: unknown_calls(text, known) | unknown_options(text) for page, text in texts.items()}
    assert {page: names for page, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("`k_anonymise('t', ['a'])`", "k_anonymise()"),
        ("```sql\nFROM k_anonymize('t', ['a'], kk := 5);\n```\n", "k_anonymize(kk := )"),
        ("`kk := 5`", "kk :="),
        ("    duckanon reports people.duckdb", "duckanon reports people.duckdb"),
        ("```sh\nduckanon report people.duckdb --outt x.html\n```\n", "report --outt"),
        ("`duckanon user add people.duckdb --rolle analyst`", "add --rolle"),
    ],
)
def test_what_is_not_there_is_noticed(text: str, says: str, known: set[str]) -> None:
    assert says in unknown_calls(text, known) | unknown_options(text)


def anchors(page: Path) -> set[str]:
    """The ends of addresses of a page's headings, as code hosts and the site make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_links_lead_to_headings() -> None:
    there = {page: anchors(page) for page in PAGES}
    lost = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in PAGES
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
        if anchor not in there.get((page.parent / target).resolve() if target else page, {anchor})
    ]
    assert lost == []
