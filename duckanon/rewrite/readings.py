"""What was read: the text of a query, beside the text of what the guard understood by it.

DuckDB parses both, and `same_meaning` compares the trees, so that nothing is answered that was not asked.
"""

from __future__ import annotations

from typing import TypeAlias

import sqlglot

from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.dialect import DIALECT, Separated

Reading: TypeAlias = tuple[str, str]
_BEGINS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "PIVOT", "TABLE"})


def reading(text: str, query: Node, *, is_within: bool = False) -> Reading:
    """A query's text, and what was understood by it. is_within: whether more than the query stands in the text."""
    understood = str(query.sql(Separated, comments=False, normalize_functions=False))
    return (_query_in(text) if is_within else text), understood


def _query_in(text: str) -> str:
    """The query in a statement that creates something from it, or inserts it."""
    depth, opened = 0, len(text)
    words = [(one.text.upper(), one) for one in sqlglot.tokenize(text, read=DIALECT)]
    is_create = bool(words) and words[0][0] == "CREATE"
    for word, token in words:
        is_name = token.token_type.name == "IDENTIFIER"
        if depth == 0 and not is_name and is_create and word == "AS":
            return text[token.end + 1 :]
        if depth == 0 and not is_name and not is_create and word in _BEGINS:
            return text[token.start :]
        if token.token_type.name == "L_PAREN":
            opened = token.start if depth == 0 else opened
            depth += 1
        elif token.token_type.name == "R_PAREN":
            depth -= 1
    return text[opened:]
