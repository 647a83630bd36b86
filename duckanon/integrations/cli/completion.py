"""Completions of the console: keywords, duckanon's functions, and the database's tables and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from duckanon.catalog.names import identifier
from duckanon.integrations.cli.partial_sql import open_quote
from duckanon.specification import functions

if TYPE_CHECKING:
    from duckanon.connection import Connection

_WORD = re.compile(r"\w+$")
_DOT = re.compile(r"\.\w*$")
_PLAIN = re.compile(r"[^\W\d]\w*")

_FUNCTIONS = """
SELECT DISTINCT function_name, array_to_string(parameters, ', ') FROM duckdb_functions()
WHERE function_type = 'table_macro' AND NOT internal AND NOT starts_with(function_name, '_dk_') ORDER BY ALL
"""
_TABLES = """
SELECT table_name, 'table' FROM duckdb_tables() WHERE NOT internal
UNION SELECT view_name, 'view' FROM duckdb_views() WHERE NOT internal ORDER BY ALL
"""
# A menu of completions cannot hold the columns of a very large database.
_COLUMNS = """
SELECT column_name, 'column of ' || string_agg(DISTINCT table_name, ', ') FROM duckdb_columns() WHERE NOT internal
GROUP BY column_name ORDER BY ALL LIMIT 10_000
"""
_SEEN = "SELECT table_schema, table_name, lower(table_type) FROM information_schema.tables"
_SEEN_COLUMNS = """
SELECT column_name, 'column of ' || string_agg(DISTINCT table_name, ', ') FROM information_schema.columns
GROUP BY column_name ORDER BY column_name LIMIT 10000
"""
_KEYWORDS = "SELECT DISTINCT keyword_name, keyword_category = 'reserved' FROM duckdb_keywords() ORDER BY ALL"


@dataclass(frozen=True)
class Vocabulary:
    """The names that can be completed, each with a short note. keywords: whether each is reserved."""

    keywords: dict[str, bool] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, con: Connection) -> Vocabulary:
        """The names in the database now; for an analyst, those that analysts may see.

        Raises duckdb.Error inside a transaction that has failed.
        """
        if hasattr(con, "decision"):
            callable_ = [function for function in functions().values() if function.analysts]
            named = {
                function.name: ", ".join(argument.name for argument in function.arguments) for function in callable_
            }
            tables = {name: f"{kind} in {schema}" for schema, name, kind in con.execute(_SEEN).fetchall()}
            return cls({}, named, tables, dict(con.execute(_SEEN_COLUMNS).fetchall()))
        queries = (_KEYWORDS, _FUNCTIONS, _TABLES, _COLUMNS)
        return cls(*(dict(con.execute(query).fetchall()) for query in queries))

    def written(self, name: str) -> str:
        """A table's or column's name as SQL, in quotes if it needs them."""
        needs_none = _PLAIN.fullmatch(name) and not self.keywords.get(name.lower(), False)
        return name if needs_none else identifier(name)


class SqlCompleter(Completer):
    """Completes the word before the cursor. Inside a string it offers names without quotes."""

    def __init__(self, vocabulary: Callable[[], Vocabulary], commands: dict[str, str]) -> None:
        self._vocabulary = vocabulary
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if _DOT.fullmatch(before):
            yield from _matching(before, ((name, name, word) for name, word in self._commands.items()))
            return
        match = _WORD.search(before)
        word = match.group() if match else ""
        if word or complete_event.completion_requested:
            yield from _matching(word, self._candidates(word, open_quote(before)))

    def _candidates(self, word: str, quote: str) -> Iterator[tuple[str, str, str]]:
        """Names, the texts to insert, and notes: tables and columns first, keywords last."""
        known = self._vocabulary()
        for name, about in (*known.tables.items(), *known.columns.items()):
            yield name, name if quote else known.written(name), about
        if quote:
            return
        for name, about in known.functions.items():
            yield name, f"{name}(", about
        for name in known.keywords:
            yield name, name if word.islower() else name.upper(), "keyword"


def _matching(word: str, candidates: Iterator[tuple[str, str, str]]) -> Iterator[Completion]:
    for name, inserted, about in candidates:
        if name.lower().startswith(word.lower()):
            yield Completion(inserted, -len(word), display=name, display_meta=about)
