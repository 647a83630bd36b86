"""Splits SQL text into statements with their lines; one that cannot be parsed does not hide the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlglot import Dialect
from sqlglot.errors import SqlglotError


@dataclass(frozen=True)
class Statement:
    """One statement: its text, the line where it begins, its tree, or None if it cannot be parsed.

    words: the identifiers and texts in it, as written, each with its line.
    """

    text: str
    line: int
    tree: Any
    words: tuple[tuple[str, int], ...]

    def line_of(self, word: str, nth: int = 0) -> int:
        """The line of the nth use of a name, from 0; of its last use if there are fewer.

        Case is ignored. If the name is not used, it is the statement's first line.
        """
        lines = [line for used, line in self.words if used.lower() == word.lower()]
        return lines[min(nth, len(lines) - 1)] if lines else self.line

    def mentions(self, word: str) -> bool:
        """Whether a name or a text in it contains the word."""
        return any(word.lower() in used.lower() for used, _ in self.words)


def statements(text: str) -> Iterator[Statement]:
    """The statements of a script in DuckDB's dialect. Text that cannot be tokenized is one statement."""
    dialect = Dialect.get_or_raise("duckdb")
    try:
        tokens = dialect.tokenize(text)
    except SqlglotError:
        words = tuple((word, at + 1) for at, line in enumerate(text.splitlines()) for word in line.split())
        yield Statement(text, 1, None, words)
        return
    chunk: list[Any] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type.name != "SEMICOLON":
            chunk.append(token)
        elif chunk:
            yield _statement(text, chunk, dialect)
            chunk = []


def _statement(text: str, tokens: list[Any], dialect: Dialect) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    line, at = text.count("\n", 0, start) + 1, start
    first, words = line, []
    for token in tokens:
        line, at = line + text.count("\n", at, token.start), token.start
        words.append((token.text, line))
    written = text[start:end]
    with _quiet():
        try:
            parsed = dialect.parser().parse(tokens, text)
            tree = parsed[0] if len(parsed) == 1 else None
        except (SqlglotError, RecursionError):
            tree = None
    return Statement(written, first, tree, tuple(words))


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn off sqlglot's log about what it cannot parse: a statement without a tree says so."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
