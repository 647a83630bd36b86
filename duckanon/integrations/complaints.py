"""Errors as one clear sentence on stderr and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from duckanon.errors import DuckanonError
from duckanon.integrations.terminal import say

_LONGEST = 400


class Cancelled(Exception):
    """The user pressed Ctrl-C while something ran: what was wanted, not an error."""


def sentence(error: Exception) -> str:
    """What went wrong, without DuckDB's prefix of our own sentences, its excerpt of the statement, or lines of data."""
    text = str(error).removeprefix("Invalid Input Error: ")
    if isinstance(error, DuckanonError):
        return text
    lines = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("LINE "):
            break
        if not line.startswith("Original Line:"):
            lines.append(line.strip())
    told = " ".join(lines)
    return told if len(told) <= _LONGEST else told[:_LONGEST].rstrip() + " ..."


def is_told(error: Exception) -> bool:
    """Whether the error is one that a user can bring about: duckanon's, DuckDB's or the system's."""
    import duckdb

    return isinstance(error, DuckanonError | duckdb.Error | OSError) and not isinstance(error, BrokenPipeError)


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what a user can bring about into one sentence on stderr.

    Raises typer.Exit with code 1, or 130 after Ctrl-C. Other errors are bugs and pass unchanged.
    """
    try:
        yield
    except (Cancelled, KeyboardInterrupt):
        say("Cancelled.")
        raise typer.Exit(130) from None
    except Exception as error:
        if not is_told(error):
            raise
        say(sentence(error))
        raise typer.Exit(1) from None
