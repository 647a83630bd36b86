"""Output of the command line: answers to stdout, everything else to stderr. Data is never read as rich markup."""

from __future__ import annotations

import os
import sys

from rich.console import Console

_ENDLESS = 10_000


def answers() -> Console:
    """The console for answers. Lines are not wrapped in a pipe or a file, unless COLUMNS is set."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, markup=False, emoji=False, width=_ENDLESS)
    return console


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
