"""Splits SQL text into tokens, as far as the server needs it: to separate statements, and to find parameters.

The guard parses an analyst's statement again, from the original text. So a mistake here cannot weaken the guard's
decision: it can only cause a refusal, or a wrong way of handling the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

# In characters: of a text whose tokens are kept.
SHORT = 1_000
# The most parameters of a statement, as in PostgreSQL's protocol.
_MOST = 65_535
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<text>(?:[eE]'(?:[^'\\]|\\.|'')*'|(?:[xXbBuU]&?)?'(?:[^']|'')*'))
  | (?P<name>"(?:[^"]|"")*")
  | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$)
  | (?P<parameter>\$\d+)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """A word, a "name", a 'text', a number, a parameter ($1) or a mark. start, end: its place in the text."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A word in lower case; '' for everything else."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def value(self) -> str:
        """The content of the quotes of a name or a text; a word in lower case; else the token as it is written."""
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"')
        if self.kind == "text":
            return self.text.partition("'")[2][:-1].replace("''", "'")
        return self.word or self.text


def tokens(text: str) -> Iterable[Token]:
    """The tokens of a text, without comments. A quote that is not closed is a mark.

    Those of a short text are kept: a session looks at its statement several times, and programs send the same again.
    """
    return _kept(text) if len(text) <= SHORT else _scanned(text)


@lru_cache(maxsize=200)
def _kept(text: str) -> Sequence[Token]:
    return tuple(_scanned(text))


def _scanned(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        assert match.lastgroup is not None
        kind, end = match.lastgroup, match.end()
        if kind == "comment":
            end = _comment_end(text, at)
        elif kind == "dollar":
            closing = text.find(match[0], end)
            kind, end = "text", len(text) if closing < 0 else closing + len(match[0])
        if kind not in ("space", "comment"):
            yield Token(kind, text[at:end], at, end)
        at = end


def _comment_end(text: str, at: int) -> int:
    """The place after a comment /* ... */, in which others may be nested."""
    depth = 0
    while at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        else:
            at += 1
    return at


def statements(text: str) -> list[str]:
    """The statements of a text, which are separated by semicolons."""
    values, start, is_empty = [], 0, True
    for token in tokens(text):
        if token.text == ";" and token.kind == "mark":
            if not is_empty:
                values.append(text[start : token.start].strip())
            start, is_empty = token.end, True
        else:
            is_empty = False
    return values if is_empty else [*values, text[start:].strip()]


def parameters(text: str) -> int:
    """The highest number of a parameter in a text: 2 for $1 and $2; 0 for none."""
    return max((int(token.text[1:]) for token in tokens(text) if token.kind == "parameter"), default=0)


def apart(text: str) -> str:
    """The text with a space behind each parameter: sqlglot reads `$1,$` as the beginning of a quoted text."""
    return with_parameters(text, [f"${number} " for number in range(1, min(parameters(text), _MOST) + 1)])


def with_parameters(text: str, written: list[str]) -> str:
    """The text with other text in place of its parameters $1, $2, ..."""
    parts, at = [], 0
    for token in tokens(text):
        if token.kind == "parameter" and 0 < int(token.text[1:]) <= len(written):
            parts += [text[at : token.start], written[int(token.text[1:]) - 1]]
            at = token.end
    return "".join([*parts, text[at:]])
