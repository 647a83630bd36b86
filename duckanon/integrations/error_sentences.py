"""Errors as one clear sentence, for whatever program shows them."""

from __future__ import annotations

from duckanon.errors import DuckanonError

_LONGEST = 400
# DuckDB's prefix of what our SQL says through its function error().
_PREFIX = "Invalid Input Error: "
# What DuckDB makes of Ctrl-C while it runs itself, and while it runs Python on the main thread.
_INTERRUPTED = ("Query interrupted", _PREFIX + "Python exception occurred while executing the UDF: KeyboardInterrupt")


def sentence(error: Exception) -> str:
    """What went wrong, without DuckDB's prefix of our own sentences, its excerpt of the statement, or lines of data."""
    text = unprefixed(str(error))
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


def unprefixed(text: str) -> str:
    """An error's text as it was said to DuckDB."""
    return text.removeprefix(_PREFIX)


def is_told(error: BaseException) -> bool:
    """Whether the error is one that a user can bring about: duckanon's, DuckDB's or the system's."""
    import duckdb

    return isinstance(error, DuckanonError | duckdb.Error | OSError) and not isinstance(error, BrokenPipeError)


def was_interrupted(error: BaseException) -> bool:
    """Whether the error stands for Ctrl-C on the thread that ran the statement."""
    return str(error).startswith(_INTERRUPTED)
