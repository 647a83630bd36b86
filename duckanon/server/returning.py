"""The rows of INSERT, UPDATE and DELETE ... RETURNING: DuckDB describes queries only."""

from __future__ import annotations

from collections.abc import Sequence

from duckanon.server.lexer import Token, tokens

# The word before the table.
_BEFORE = {"insert": "into", "update": "update", "delete": "from"}
_BEHIND = {"set", "using", "where", "values", "select", "default", "returning", "with", "by", "from", "("}
_QUERIES = {"select", "from", "values", "table"}


def is_change(text: str) -> bool:
    """Whether a statement is an INSERT, UPDATE or DELETE, also behind WITH."""
    words = [token.word for token in _outside(list(tokens(text)))]
    if words[:1] == ["with"]:
        words = [word for word in words if word in _BEFORE or word in _QUERIES]
    return words[:1] != [] and words[0] in _BEFORE


def returned(text: str) -> str | None:
    """A query with the columns that a change returns; None if it returns no rows."""
    found = _outside(list(tokens(text)))
    words = [token.word or token.text for token in found]
    verb = next(at for at, word in enumerate(words) if word in _BEFORE)
    if "returning" not in words or _BEFORE[words[verb]] not in words[verb:]:
        return None
    start = words.index(_BEFORE[words[verb]], verb) + 1
    end = next(at for at, word in enumerate(words) if at >= start and word in _BEHIND)
    listed = found[len(words) - 1 - words[::-1].index("returning")]
    names = text[: found[verb].start]
    return f"{names} SELECT {text[listed.end :]} FROM {text[found[start].start : found[end].start]}"  # noqa: S608


def _outside(found: Sequence[Token]) -> list[Token]:
    """The tokens that are in no parentheses, and the opening ones."""
    kept, depth = [], 0
    for token in found:
        if depth == 0 and token.text != ")":
            kept.append(token)
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
    return kept
