"""The figures of docs/benchmarks.md and of the pages in docs/benchmarks, and the commands that print them.

Above each table, and above each paragraph whose numbers a command prints, stands a comment of one line:

    <!-- measured: COMMAND; at COMMIT; under ten minutes -->

COMMAND is written as the page shows it, COMMIT is what it was run on (several, where rows are of different ages), and
the last part is how long it takes on an idle machine: `under ten minutes` or `longer`. More parts, where needed:

    times at COMMIT           seconds and memory are of another commit than the other numbers
    times                     all numbers of the table are times
    rows COLUMN=VALUE, ...    only these rows are printed by this command; the command does not print these columns
    columns PAGE=PRINTED, ... names of columns that the page has changed
    keys N                    the first N columns that page and command share identify a row
    says TEXT {NUMBER} TEXT   a number in the paragraph below, as the command prints it; may be there several times

A table that no command prints as it stands has `<!-- by hand: WHY; at COMMIT -->`, which names its commands, if any;
a command without figures in the page has `<!-- no figures: COMMAND -->`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = ROOT / "docs" / "benchmarks.md"
# A page a family of work; that on top has the most important figures of all.
PAGES = (TOP, *sorted((ROOT / "docs" / "benchmarks").glob("*.md")))
TENTH = 0.1

_COMMENT = re.compile(r"<!-- (measured|by hand|no figures): (.*) -->")
_COMMANDS = re.compile(r"(?:^    |`)((?:python -m|poe bench) [^`\n]+?)(?:`|$)", re.MULTILINE)
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
_TIMES = re.compile(
    r"\b(s|ms|seconds?|minutes|ratios?|wall|cpu|cold|warm|compiling|peak|gib|of the sort|of the group by)\b",
    re.IGNORECASE,
)
# Between pairs, not between the words of a value with commas.
_PAIRS = re.compile(r", (?=[^,=]+=)")
_DURATIONS = {"under ten minutes": False, "longer": True}


class FormatError(ValueError):
    """A comment of the page that is not written as this module says."""


@dataclass(frozen=True)
class Source:
    """A comment `measured`. times_at: the commits of times, where they are others; says: templates."""

    command: str
    commits: tuple[str, ...]
    long: bool
    times_at: tuple[str, ...] = ()
    all_times: bool = False
    rows: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    keys: int | None = None
    says: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [self.command, f"at {', '.join(self.commits)}"]
        parts += [f"times at {', '.join(self.times_at)}"] if self.times_at else []
        parts += [next(text for text, long in _DURATIONS.items() if long == self.long)]
        parts += ["times"] if self.all_times else []
        for word, pairs in (("rows", self.rows), ("columns", self.columns)):
            parts += [f"{word} {', '.join(f'{name}={value}' for name, value in pairs)}"] if pairs else []
        parts += [f"keys {self.keys}"] if self.keys else []
        parts += [f"says {one}" for one in self.says]
        return f"<!-- measured: {'; '.join(parts)} -->"


@dataclass(frozen=True)
class Block:
    """A table or paragraph. first: its first line, and comments: the lines of its comments, all from 0."""

    section: str
    first: int
    lines: tuple[str, ...]
    sources: tuple[Source, ...]
    comments: tuple[int, ...]
    by_hand: bool

    @property
    def is_table(self) -> bool:
        return self.lines[0].startswith("|")


@dataclass(frozen=True)
class Table:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Change:
    """A number that the command prints otherwise. row: its place in the table, None in a paragraph."""

    label: str
    page: str
    printed: str
    moved: bool
    is_time: bool
    row: int | None
    column: int = 0


@dataclass
class Compared:
    """What a command prints otherwise, the places of the rows it prints, and the sentences it does not."""

    changes: list[Change] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    unsaid: list[str] = field(default_factory=list)


def source(text: str) -> Source:
    """A comment `measured` as it is read. Raises FormatError."""
    command, *parts = text.split("; ")
    found: dict[str, object] = {}
    says = []
    for part in parts:
        word, _, rest = part.partition(" ")
        if part in _DURATIONS:
            found["long"] = _DURATIONS[part]
        elif part == "times":
            found["all_times"] = True
        elif word in ("at", "times"):
            commits = tuple(rest.removeprefix("at ").split(", "))
            if not all(_COMMIT.fullmatch(one) for one in commits):
                raise FormatError(f"{part!r} names no commits")
            found["commits" if word == "at" else "times_at"] = commits
        elif word in ("rows", "columns"):
            found[word] = tuple((name, value) for name, _, value in (one.partition("=") for one in _PAIRS.split(rest)))
        elif word == "keys":
            found["keys"] = int(rest)
        elif word == "says" and re.search(r"\{[^{}]+\}", rest):
            says.append(rest)
        else:
            raise FormatError(f"{part!r} is no part of a comment")
    if not {"commits", "long"} <= set(found):
        raise FormatError(f"{command}: the commit or the duration is missing")
    return Source(command, says=tuple(says), **found)  # type: ignore[arg-type]


def blocks(page: str) -> list[Block]:
    """Every table of the page, and every paragraph that has a comment."""
    found: list[Block] = []
    comments: list[int] = []
    lines, section, at = page.splitlines(), "", 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("## "):
            section, comments = line, []
        if _COMMENT.fullmatch(line):
            comments.append(at)
        elif line and not line.startswith(("#", "    ", "<!--")) and (comments or line.startswith("|")):
            end = at
            while end < len(lines) and lines[end] and lines[end].startswith("|") == line.startswith("|"):
                end += 1
            told = [_COMMENT.fullmatch(lines[one]) for one in comments]
            kinds = [(one[1], one[2]) for one in told if one]
            sources = tuple(source(text) for kind, text in kinds if kind == "measured")
            by_hand = any(kind == "by hand" for kind, _ in kinds)
            if line.startswith("|") or sources or by_hand:
                found.append(Block(section, at, tuple(lines[at:end]), sources, tuple(comments), by_hand))
            comments, at = [], end - 1
        at += 1
    return found


def sections(page: str) -> dict[str, str]:
    """The text of each part of the page, by its heading of the second level."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: part for part in parts}


def commands(text: str) -> list[str]:
    """The commands that a reader sees in a text: in blocks of code and between backticks."""
    visible = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return [one.strip() for one in _COMMANDS.findall(visible)]


def module(command: str) -> Path:
    """The file that a command runs."""
    words = command.split()
    if words[:2] == ["poe", "bench"]:
        return ROOT / "tests" / "bench" / f"{words[2]}.py"
    file = ROOT.joinpath(*words[2].split("."))
    return file / "__main__.py" if file.is_dir() else file.with_suffix(".py")


def problems(page: str, elsewhere: frozenset[str] = frozenset()) -> list[str]:
    """What keeps a figure of the page from being told apart as measured, and by what; empty where all is well.

    elsewhere: the commands that figures of other pages name.
    """
    try:
        found = blocks(page)
    except FormatError as error:
        return [str(error)]
    wrong, text = [], sections(page)
    for block in found:
        where = f"line {block.first + 1}"
        if not block.sources and not block.by_hand:
            wrong.append(f"{where}: a table without the command that prints it")
        for one in block.sources:
            if one.command not in commands(text.get(block.section, "")):
                wrong.append(f"{where}: {one.command} is not shown in this section")
            if not module(one.command).is_file():
                wrong.append(f"{where}: {one.command} runs nothing")
            wrong += [f"{where}: {number} is not in the paragraph that it is told of" for number in _unsaid(block, one)]
    cited = elsewhere | named(found)
    others = " ".join(text for kind, text in _COMMENT.findall(page) if kind != "measured")
    wrong += [
        f"{one} is shown, and no figure names it" for one in commands(page) if one not in cited and one not in others
    ]
    return wrong


def named(found: Iterable[Block]) -> frozenset[str]:
    """The commands that figures name."""
    return frozenset(one.command for block in found for one in block.sources)


def _unsaid(block: Block, one: Source) -> list[str]:
    """The numbers of a comment that are not in the paragraph below it."""
    numbers = [number for each in one.says for number in re.findall(r"\{([^{}]+)\}", each)]
    text = " ".join(block.lines)
    return [number for number in numbers if not re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d|[.,]\d)", text)]


def tables(text: str) -> list[Table]:
    """The Markdown tables in a text."""
    found: list[Table] = []
    lines: list[tuple[str, ...]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append(cells(line))
        elif lines:
            if len(lines) > 1:
                found.append(Table(lines[0], tuple(lines[2:] if set("".join(lines[1])) <= set("-: ") else lines[1:])))
            lines = []
    return found


def cells(line: str) -> tuple[str, ...]:
    """The cells of a line of a table; a bar after a backslash is no border."""
    return tuple(one.strip() for one in re.split(r"(?<!\\)\|", line.strip())[1:-1])


def compare(block: Block, asked: Source, output: str) -> Compared:
    """The numbers that a command prints otherwise than the page has them."""
    if not block.is_table:
        return _compared_sentences(asked, output)
    (mine,) = tables("\n".join(block.lines))
    found = [one for theirs in tables(output) if (one := _compared_tables(mine, theirs, asked)) is not None]
    # Of several printed tables with the same columns, the one with most rows, then most numbers, in common.
    return min(found, key=lambda one: (-len(one.rows), sum(change.moved for change in one.changes)), default=Compared())


def expected(block: Block) -> dict[int, str]:
    """The rows of a table that one of its commands should print, with their first cells as a label."""
    (mine,) = tables("\n".join(block.lines))
    return {
        at: ", ".join(row[:4])
        for at, row in enumerate(mine.rows)
        if any(_is_printed(mine, row, one) for one in block.sources)
    }


def _compared_sentences(asked: Source, output: str) -> Compared:
    flat, found = " ".join(output.split()), Compared()
    for template in asked.says:
        parts = re.split(r"\{([^{}]+)\}", template)
        texts = [re.escape(text) for text in parts[::2]]
        seen = re.search(f"({_NUMBER.pattern})".join(texts), flat)
        if seen is None:
            found.unsaid.append(template)
            continue
        for mine, theirs in zip(parts[1::2], seen.groups(), strict=True):
            if mine != theirs:
                is_time = _is_time(template, asked)
                found.changes.append(Change(template, mine, theirs, moved(mine, theirs), is_time, None))
    return found


def _compared_tables(mine: Table, theirs: Table, asked: Source) -> Compared | None:
    """None where the two tables have too little in common to be the same one."""
    pairs = _same_columns(mine, theirs, asked)
    wanted = [at for at, row in enumerate(mine.rows) if _is_printed(mine, row, asked)]
    if len(pairs) < 2 or len(pairs) < (len(mine.header) - len(asked.rows)) / 2 or not wanted:
        return None
    keys = asked.keys or _fewest_keys(mine, theirs, pairs, wanted)
    printed: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for row in theirs.rows:
        if len(row) == len(theirs.header):
            printed[tuple(_plain(row[at]) for _, at in pairs[:keys])].append(row)
    found = Compared()
    for at in wanted:
        row = mine.rows[at]
        key = tuple(_plain(row[column]) for column, _ in pairs[:keys])
        if not printed[key]:
            continue
        other = printed[key].pop(0)
        found.rows.add(at)
        for column, place in pairs[keys:]:
            if row[column] and other[place] and row[column] != other[place]:
                label, name = ", ".join(key), mine.header[column]
                far, is_time = moved(row[column], other[place]), _is_time(f"{name} {key[0]}", asked)
                found.changes.append(Change(f"{label}: {name}", row[column], other[place], far, is_time, at, column))
    return found if found.rows else None


def _same_columns(mine: Table, theirs: Table, one: Source) -> list[tuple[int, int]]:
    """Places of columns of the same name, in the page's order; the n-th of a name with the n-th."""
    renamed, places = dict(one.columns), defaultdict(list)
    for at, name in enumerate(theirs.header):
        places[_plain(name)].append(at)
    found, given = [], {name for name, _ in one.rows}
    for at, name in enumerate(mine.header):
        wanted = _plain(renamed.get(name, name))
        if name not in given and places[wanted]:
            found.append((at, places[wanted].pop(0)))
    return found


def _is_printed(table: Table, row: tuple[str, ...], one: Source) -> bool:
    """Whether this row is one of those that the command prints."""
    asked = dict(one.rows)
    values = [(name, value) for name, value in zip(table.header, row, strict=True) if name in asked]
    return all(_plain(value) == _plain(asked[name]) for name, value in values)


def _fewest_keys(mine: Table, theirs: Table, pairs: list[tuple[int, int]], wanted: list[int]) -> int:
    """How many columns, from the left, tell apart the rows of both."""
    for many in range(1, len(pairs)):
        ours = [tuple(_plain(mine.rows[at][column]) for column, _ in pairs[:many]) for at in wanted]
        others = [
            tuple(_plain(row[at]) for _, at in pairs[:many]) for row in theirs.rows if len(row) == len(theirs.header)
        ]
        if len(set(ours)) == len(ours) and len(set(others)) == len(others):
            return many
    return 1


def _plain(text: str) -> str:
    """A label without its marks, and whole numbers without commas."""
    bare = re.sub(r"(?<=\d),(?=\d{3})", "", text.replace("`", "").replace("*", ""))
    return " ".join(bare.lower().split())


def _is_time(label: str, one: Source) -> bool:
    return one.all_times or _TIMES.search(label) is not None


def moved(page: str, printed: str) -> bool:
    """Whether a number changed by more than a tenth, and by more than one of its last digit."""
    ours, theirs = _NUMBER.findall(page), _NUMBER.findall(printed)
    if len(ours) != len(theirs) or not ours:
        return True
    return any(_far(a, b) for a, b in zip(ours, theirs, strict=True))


def _far(page: str, printed: str) -> bool:
    mantissa, _, exponent = page.partition("e")
    step = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    before, now = (float(one.replace(",", "")) for one in (page, printed))
    return abs(now - before) > max(TENTH * abs(before), 1.001 * step)


def runs(page: Iterable[Block]) -> Iterator[tuple[str, list[tuple[Block, Source]]]]:
    """Each command once, with the blocks that it prints."""
    found: dict[str, list[tuple[Block, Source]]] = defaultdict(list)
    for block in page:
        for one in block.sources:
            found[one.command].append((block, one))
    yield from found.items()
