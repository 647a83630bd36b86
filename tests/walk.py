"""Walks a page as its reader would, block by block: SQL in the console, shell commands in the shell."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from duckanon.integrations.cli.script import run_script
from duckanon.integrations.error_sentences import is_told, sentence
from duckanon.integrations.terminal.session import Session

ROOT = Path(__file__).parents[1]
READERS = ("analyst", "analytics-engineer", "auditor", "contributor", "officer", "operator")
BLOCK = re.compile(r"^```(sql|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """What the reader types, where, and what the page says is printed then (None: it does not say)."""

    place: str
    typed: str
    printed: str | None


def steps(page: Path) -> list[Step]:
    return [Step(*found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


def walk(taken: Iterable[Step], database: str) -> Iterator[tuple[Step, str]]:
    """Take the steps in the folder where we are; each with what was printed.

    The console stays open as long as SQL is typed.
    """
    for place, same in groupby(taken, key=lambda step: step.place):
        with Session(database) if place == "sql" else contextlib.nullcontext() as session:
            for step in same:
                yield step, _console(session, step.typed) if session else _shell(step.typed)


def _console(session: Session, typed: str) -> str:
    """What the console prints, errors too."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            run_script(session, typed, chatty=True)
        except Exception as error:
            if not is_told(error):
                raise
            print(sentence(error))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def shell(typed: str) -> subprocess.CompletedProcess[str]:
    """Run shell commands; `python` is this one, and `duckanon` that of this checkout."""
    with tempfile.TemporaryDirectory() as programs:
        for name, module in (("python", ""), ("duckanon", "-m duckanon.integrations.cli ")):
            program = Path(programs) / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n', encoding="utf-8")
            program.chmod(0o755)
        path = os.pathsep.join((programs, os.environ["PATH"]))
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
        return subprocess.run(["sh", "-c", typed], env=environment, capture_output=True, text=True, check=False)


def _shell(typed: str) -> str:
    done = shell(f"set -e\n{typed}")
    assert done.returncode == 0, done.stderr
    return done.stdout
