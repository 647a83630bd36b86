"""Removes from the text of a catalog query what sqlglot and DuckDB cannot parse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlglot

from duckanon.server.catalog_facts import INFORMATION, PG

# Words that are functions without parentheses. Their macros have other names than DuckDB's functions.
_WORDS = frozenset("current_user session_user current_role current_catalog current_schema user".split())
_OWN_CALLS = frozenset("version current_schema current_database".split())
OWN = "dk_"
# Words that PostgreSQL takes for a column's name after AS, and sqlglot does not.
_RESERVED = frozenset("delete insert select truncate update".split())
# Types of which sqlglot does not parse arrays.
_LISTED = frozenset("oid regclass regtype".split())
_DOMAINS = {
    "sql_identifier": "text",
    "character_data": "text",
    "yes_or_no": "text",
    "cardinal_number": "int4",
    "time_stamp": "timestamptz",
}


def plain(text: str) -> str:
    """The text without what cannot be parsed: pg_catalog's qualifier, OPERATOR(...) and COLLATE."""
    tokens = sqlglot.tokenize(text, read="postgres")
    for start, end, instead in reversed(list(_edits(text, tokens))):
        text = f"{text[:start]} {instead} {text[end:]}"
    return text


def _edits(text: str, tokens: Sequence[Any]) -> Iterator[tuple[int, int, str]]:
    """Spans of the text, in order, and the texts that replace them."""
    at = 0
    while at < len(tokens):
        span = _edit(text, tokens, at)
        if span is None:
            at += 1
            continue
        length, instead = span
        yield tokens[at].start, tokens[at + length - 1].end + 1, instead
        at += length


def _edit(text: str, tokens: Sequence[Any], at: int) -> tuple[int, str] | None:
    """How many tokens are replaced from here on, and by what."""

    def word(ahead: int) -> str:
        token = tokens[at + ahead] if 0 <= at + ahead < len(tokens) else None
        return "" if token is None or token.token_type.name == "STRING" else token.text.lower()

    here, after = word(0), word(1)
    quoted = tokens[at].token_type.name == "IDENTIFIER"
    if after == "." and word(2) == PG and word(3) == ".":  # after a database's name
        return 4, ""
    if here == PG and after == ".":
        own = word(2) in _OWN_CALLS and word(3) == "("
        return (3, f"{OWN}{word(2)}") if own else (2, "")
    if here == INFORMATION and after == ".":
        if word(2) in _DOMAINS:
            return 3, _DOMAINS[word(2)]
        return (2, "") if word(3) == "(" else None
    if quoted:
        return (1, "text") if here == "char" and word(-1) == "::" else None
    if here == "operator" and after == "(":
        close = next((ahead for ahead in range(2, 8) if word(ahead) == ")"), 0)
        if close:
            inside = text[tokens[at + 1].end + 1 : tokens[at + close].start]
            return close + 1, inside.rpartition(".")[2].strip()
    if here in _LISTED and after == "[" and word(2) == "]":
        return 3, f"{here}_list"
    if word(-1) == "as":
        return (1, f'"{here}"') if here in _RESERVED and after in (",", "from", "") else None
    return None if word(-1) == "." else _word(here, after, word(2))


def _word(here: str, after: str, third: str) -> tuple[int, str] | None:
    """As `_edit`, for a word that stands by itself, and the two that follow."""
    if here == "collate" and after:
        return (4 if third == "." else 2), ""
    if here in _WORDS and after not in ("(", "."):
        return 1, f"{OWN}{'current_user' if here == 'user' else here}()"
    if here in _OWN_CALLS and after == "(":
        return 1, f"{OWN}{here}"
    return None
