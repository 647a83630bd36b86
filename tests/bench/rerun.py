"""Reruns the commands of the pages of benchmarks and prints which figures moved by more than a tenth.

Run: python -m tests.bench.rerun [--longer] [--only TEXT] [--times | --no-times] [--write] [--set NAME=VALUE ...]

Without options it runs every command that ends in ten minutes on an idle machine, one after another. What a command
prints is kept in build/rerun; --saved compares that, without running anything. `--only TEXT` runs the commands with
this text in them, `--longer` those that take more than ten minutes too. `--no-times` looks at losses, errors, counts
and coverage, which hardly depend on the machine; `--times` at seconds, ratios and memory alone, which are worth
something on an idle machine. `--write` puts what is printed into the page, with the commit of this checkout.

A command may need what only this machine knows: --set POSTGRES_BIN=/usr/lib/postgresql/15/bin. FOLDER is the folder of
data beside the repository, ../shared/data, unless it is set; files of commands are looked for there too.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from tests.bench.figures import PAGES, ROOT, Block, Change, Source, blocks, compare, expected, runs

DATA = ROOT.parent / "shared" / "data"
KEPT = ROOT / "build" / "rerun"
# Ten minutes on an idle machine; on a busy one it may take several times that.
MOST_SECONDS = {False: 3600.0, True: None}
_PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]{3,}\b")


def words(command: str, given: dict[str, str]) -> list[str] | None:
    """The words to run, None where a word of capital letters has no value."""
    values = {"FOLDER": str(DATA), **given}
    taken = shlex.split(command.partition(" > ")[0])
    taken = taken[1:] if taken[0] == "python" else ["-m", "tests.bench", *taken[2:]]
    filled = [_PLACEHOLDER.sub(lambda found: values.get(found[0], found[0]), one) for one in taken]
    if any(_PLACEHOLDER.search(one) for one, before in zip(filled, taken, strict=True) if one == before):
        return None
    return [sys.executable, *(str(DATA / one) if (DATA / one).is_file() else one for one in filled)]


def kept(command: str) -> Path:
    """The file for what a command prints. Its first line is the commit."""
    return KEPT / f"{re.sub(r'[^a-z0-9]+', '-', command.lower()).strip('-')}.txt"


def output_of(command: str, saved: bool, longer: bool, given: dict[str, str]) -> str | None:
    """The commit and what a command prints, None where it cannot run or failed."""
    file = kept(command)
    if saved:
        return file.read_text(encoding="utf-8") if file.is_file() else None
    line = words(command, given)
    if line is None:
        print(f"  not run: it needs --set {_PLACEHOLDER.findall(command)[-1]}=...")
        return None
    began = time.perf_counter()
    try:
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=MOST_SECONDS[longer], check=False)
    except subprocess.TimeoutExpired:
        print(f"  stopped after {MOST_SECONDS[longer]:.0f} s")
        return None
    print(f"  {time.perf_counter() - began:.0f} s")
    if done.returncode:
        print(f"  failed: {done.stderr.strip().splitlines()[-1:]}")
        return None
    KEPT.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{commit()}\n{done.stdout}", encoding="utf-8")
    return file.read_text(encoding="utf-8")


def commit() -> str:
    """The commit of this checkout, short."""
    asked = ["git", "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def report(block: Block, changes: list[Change], unsaid: list[str]) -> int:
    """Prints what moved; returns how much did."""
    far = [change for change in changes if change.moved]
    for change in far:
        print(f"  {'time ' if change.is_time else ''}{change.label}: {change.page} in the page, {change.printed} now")
    for template in unsaid:
        print(f"  not printed: {template}")
    if len(changes) > len(far):
        print(f"  line {block.first + 1}: {len(changes) - len(far)} more changed by a tenth at most")
    return len(far)


def written(lines: list[str], block: Block, one: Source, changes: list[Change], at: str, *, times: bool | None) -> None:
    """Puts numbers into the page's lines, and the commit into the comment. times: True alone, False none, None all."""
    for change in changes:
        if change.row is not None:
            line = block.first + 2 + change.row
            found = re.split(r"(?<!\\)\|", lines[line])
            found[change.column + 1] = f" {change.printed} "
            lines[line] = "|".join(found)
    says = one.says
    for change in (change for change in changes if change.row is None):
        says = tuple(each.replace(f"{{{change.page}}}", f"{{{change.printed}}}") for each in says)
        for line in range(block.first, block.first + len(block.lines)):
            number = rf"(?<![\d.,]){re.escape(change.page)}(?!\d|[.,]\d)"
            lines[line] = re.sub(number, change.printed, lines[line])
    if times is None:
        new = replace(one, commits=(at,), times_at=(), says=says)
    elif times:
        new = replace(one, times_at=() if one.commits == (at,) else (at,), says=says)
    else:
        new = replace(one, commits=(at,), times_at=one.times_at or one.commits, says=says)
    new = replace(new, times_at=()) if new.times_at == new.commits else new
    comment = next(line for line in block.comments if lines[line] == str(one))
    lines[comment] = str(new)


def rerun(page: Path, asked: argparse.Namespace, given: dict[str, str]) -> int:
    """Reruns the commands of one page; returns how many figures moved."""
    content, total = page.read_text(encoding="utf-8"), 0
    lines = content.splitlines()
    printed: dict[Block, set[int]] = defaultdict(set)
    ran: Counter[Block] = Counter()
    for command, wanted in runs(blocks(content)):
        longer = any(one.long for _, one in wanted)
        if asked.only not in command or (longer and not asked.longer and not asked.saved):
            continue
        if not asked.saved or kept(command).is_file():
            print(f"{page.name}: {command}", flush=True)
        output = output_of(command, asked.saved, longer, given)
        for block, one in wanted if output is not None else ():
            at, _, text = (output or "").partition("\n")
            found = compare(block, one, text)
            found.changes = [each for each in found.changes if asked.times in (None, each.is_time)]
            total += report(block, found.changes, found.unsaid)
            printed[block] |= found.rows
            ran[block] += 1
            if asked.write and not found.unsaid and (found.rows or not block.is_table):
                written(lines, block, one, found.changes, at, times=asked.times)
    for block, rows in printed.items():
        if block.is_table and ran[block] == len(block.sources):
            for label in (label for at, label in expected(block).items() if at not in rows):
                print(f"line {block.first + 1}: no command prints the row {label}")
    if asked.write:
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return total


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longer", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--times", action=argparse.BooleanOptionalAction)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--saved", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    asked = parser.parse_args(arguments)
    given = dict(one.split("=", 1) for one in asked.set)
    total = sum(rerun(page, asked, given) for page in PAGES)
    print(f"{total} figures moved by more than a tenth.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
