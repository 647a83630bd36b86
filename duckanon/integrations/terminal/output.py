"""Output of the command line: answers to stdout, everything else to stderr. Data is never read as rich markup."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TextIO

from rich.console import Console, RenderableType

from duckanon.errors import InvalidInput

_ENDLESS = 10_000


def answers() -> Console:
    """The console for answers. Lines are not wrapped in a pipe or a file, unless COLUMNS is set."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, markup=False, emoji=False, width=_ENDLESS)
    return console


def write_table(*parts: RenderableType) -> None:
    """Write tables and texts to stdout, as `write` does."""
    console = answers()
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    write(captured.get())


@contextmanager
def answer() -> Iterator[TextIO]:
    """What the body puts into this text goes to stdout, as `write` does."""
    text = StringIO()
    yield text
    write(text.getvalue())


def write(text: str) -> None:
    """Write an answer to stdout: all of it, or nothing.

    Raises InvalidInput if the encoding of stdout lacks one of its characters. A stream that takes text has none.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding, getattr(sys.stdout, "errors", None) or "strict")
    except UnicodeEncodeError:
        fitting = "utf-8" if encoding.lower().replace("-", "") != "utf8" else "utf-8:backslashreplace"
        raise InvalidInput(
            f"The answer has characters that cannot be written in {encoding}, the encoding of the output: set the "
            f"environment variable PYTHONIOENCODING={fitting}."
        ) from None
    sys.stdout.write(text)


def inform(text: str) -> None:
    """Write a line about what has been done to stdout. Characters that its encoding lacks are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def messages() -> Console:
    """The console for messages, errors and progress."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """Write one line to stderr, as it stands."""
    print(printable(text), file=sys.stderr)


def printable(text: str) -> str:
    """The text with control characters escaped: data must not move the cursor or break a line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
