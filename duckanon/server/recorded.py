"""Finds a steward's statements that may write to the ledger, directly or through macros and views."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache

from duckanon.catalog.names import fold
from duckanon.server.lexer import SHORT, tokens
from duckanon.specification import functions

# The macros and views that stewards have defined: name and SQL.
DEFINED = """
SELECT function_name, macro_definition FROM system.main.duckdb_functions()
WHERE macro_definition IS NOT NULL AND NOT internal
UNION ALL SELECT view_name, sql FROM system.main.duckdb_views() WHERE NOT internal
"""
_RECORDED = {
    "dp_group_sizes",
    "metric_perturb",
    *(name for name, function in functions().items() if function.kind == "scalar"),
}
# These can run any statement.
_ANYTHING = {"execute", "query"}


def names(text: str) -> AbstractSet[str]:
    """The names in a text, folded. Those of a short text are kept, as its tokens are."""
    return _kept(text) if len(text) <= SHORT else _names(text)


def _names(text: str) -> frozenset[str]:
    return frozenset(fold(token.value) for token in tokens(text) if token.kind in ("word", "name"))


_kept = lru_cache(maxsize=200)(_names)


def recording(defined: Iterable[tuple[str, str]]) -> set[str]:
    """The names of everything that may write to the ledger. defined: macros and views, with their SQL."""
    # duckanon's own macros call `query` too.
    mentions = {fold(name): names(sql) for name, sql in defined if name not in functions()}
    texts = _RECORDED | _ANYTHING
    while more := {name for name, said in mentions.items() if name not in texts and said & texts}:
        texts |= more
    return texts
