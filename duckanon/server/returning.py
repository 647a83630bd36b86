"""The rows of INSERT, UPDATE and DELETE ... RETURNING: DuckDB describes queries only."""

from __future__ import annotations

from collections.abc import Sequence

from duckanon.server.lexer import Token, tokens

# The word before the table.
_BEFORE = {"insert": "into", "update": "update", "delete": "from"}
_BEHIND = {"set", "using", "where", "values", "select", "default", "returning", "with", "by", "from", "("}


def returned(text: str) -> str | None:
    """A query with the columns that a statement returns; None if it returns no rows."""
    found = _outside(list(tokens(text)))
    words = [one.word or one.text for one in found]
    before = _BEFORE.get(words[0]) if words else None
    if before is None or "returning" not in words or before not in words:
        return None
    start = words.index(before) + 1
    end = next(at for at, word in enumerate(words) if at >= start and word in _BEHIND)
    listed = found[len(words) - 1 - words[::-1].index("returning")]
    return f"SELECT {text[listed.end :]} FROM {text[found[start].start : found[end].start]}"  # noqa: S608


def _outside(found: Sequence[Token]) -> list[Token]:
    """The tokens that are in no parentheses; of those the first one."""
    kept, depth = [], 0
    for one in found:
        if depth == 0 and one.text != ")":
            kept.append(one)
        depth += {"(": 1, ")": -1}.get(one.text, 0) if one.kind == "mark" else 0
    return kept
