"""Finds the SQL text that ships with the package, and fills in the parts that differ from call to call."""

from collections.abc import Iterable
from functools import cache
from string import Template

from duckanon.specification import sql_root

# Where a query begins with what is common to many.
_INCLUDED = "-- include source.sql\n"
# What source.sql takes of a table: every column, and none of the name that the empty branch adds.
_TAKEN = '* EXCLUDE ("duckanon.row")'


def _query(name: str) -> str:
    return (sql_root() / "queries" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def _template(name: str) -> Template:
    text = _query(name).replace(_INCLUDED, _query("source"))
    # Comments name the parts too, and a part with a line break would leave its comment.
    return Template("".join(line for line in text.splitlines(keepends=True) if not line.startswith("--")))


def fill(name: str, **parts: str) -> str:
    """The query `name` with every $part filled in. Raises KeyError if a part is missing."""
    return _template(name).substitute({"taken": _TAKEN} | parts)


def identifier(name: str) -> str:
    """The name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """The text as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Iterable[str]) -> str:
    """A SQL list of strings, typed even when it is empty."""
    return "[" + ", ".join(literal(text) for text in texts) + "]::VARCHAR[]"


def refusal(sentence: str) -> str:
    """A query that says `sentence` as DuckDB's own error and does nothing else."""
    return f"SELECT system.main.error({literal(sentence)})"
