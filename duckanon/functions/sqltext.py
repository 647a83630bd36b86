"""SQL as text: names and values in quotes, calls of our functions by name, and the queries in `sql/queries`."""

from collections.abc import Iterable, Mapping
from functools import cache
from string import Template

from duckanon.catalog.names import fold, quoted
from duckanon.specification import sql_root

# What our queries call a whole row of the table.
RESERVED = "duckanon.row"
ROW = f'"{RESERVED}"'
# A hash of each row's full content.
HASHES = f"system.main.list(system.main.hash({ROW}))"
THREADS = "system.main.current_setting('threads')"
# In place of this comment a query gets the beginning that many share.
_INCLUDED = "-- include source.sql\n"
# What source.sql takes of a table: every column, and none of the name that the empty branch adds.
_TAKEN = f'* EXCLUDE ("{RESERVED}")'


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
    return quoted([name])


def literal(text: str) -> str:
    """The text as a SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Iterable[str]) -> str:
    """A SQL list of strings, typed even when it is empty."""
    return "[" + ", ".join(map(literal, texts)) + "]::VARCHAR[]"


def struct(fields: Mapping[str, str]) -> str:
    """A SQL struct of expressions by name."""
    return "{" + ", ".join(f"{literal(name)}: {value}" for name, value in fields.items()) + "}"


def call(function: str, **fields: str) -> str:
    """A call of one of our functions inside a query: one struct of expressions by name."""
    return f"system.main.{function}({struct(fields)})"


def check(function: str, request: str, **fields: str) -> str:
    """A call of a check, where `names` and `types` are those of a table's columns."""
    return call(function, request=request, names="names", types="types", **fields)


def packed(columns: Iterable[str]) -> str:
    """All rows' values of `columns`, as one list of structs; NULL without any."""
    fields = {name: f"{ROW}.{identifier(name)}" for name in columns}
    return f"system.main.list({struct(fields)})" if fields else "NULL"


def ascending(keys: Iterable[str]) -> str:
    """Sort keys, NULL last."""
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


def renamed(names: Iterable[str], own: Iterable[str]) -> str:
    """A caller's columns under our names."""
    return ", ".join(f"{identifier(name)} AS {key}" for name, key in zip(names, own, strict=True))


def absent(columns: Iterable[str], *, own: bool = True) -> str:
    """The columns that a call names, each once, as NULLs; with `own`, also the one that no table must have."""
    once = {fold(name): name for name in [*columns, *([RESERVED] if own else [])]}
    return ", ".join(f"NULL AS {identifier(name)}" for name in once.values())


def refusal(sentence: str) -> str:
    """A query that raises `sentence` as DuckDB's own error and does nothing else."""
    return f"SELECT system.main.error({literal(sentence)})"
