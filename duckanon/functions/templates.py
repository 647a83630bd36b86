"""Finds the SQL text that ships with the package, and fills in the parts that differ from call to call."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

# No default of a parameter holds a comma or a bracket of this kind.
_MACRO = re.compile(r"CREATE OR REPLACE TEMP MACRO (\w+)\(([^()]*)\) AS( TABLE)?")


@cache
def sql_root() -> Path:
    """The folder `sql`: beside the modules in a wheel, beside the package in a checkout (editable install).

    Raises FileNotFoundError if the installation has lost it.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "sql", package.parent / "sql"):
        if (folder / "macros").is_dir():
            return folder
    raise FileNotFoundError("duckanon's folder sql/ is missing: install the package again.")


@cache
def macros() -> str:
    """All macro definitions, as one script."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((sql_root() / "macros").glob("*.sql")))


@dataclass(frozen=True)
class Signature:
    """What a macro of duckanon's is called with: its parameters in order, with the defaults of those that have one."""

    parameters: Mapping[str, str | None]
    is_table: bool


@cache
def signatures() -> Mapping[str, Signature]:
    """The functions that users call, by name."""
    return {
        name: Signature(dict(map(_parameter, filter(str.strip, parameters.split(",")))), bool(is_table))
        for name, parameters, is_table in _MACRO.findall(macros())
        if not name.startswith("_dk_")
    }


def _parameter(written: str) -> tuple[str, str | None]:
    name, _, default = written.partition(":=")
    return name.strip(), default.strip() or None


@cache
def table_functions() -> Mapping[str, Sequence[str]]:
    """The names of duckanon's table functions, and of their parameters in order."""
    return {name: list(found.parameters) for name, found in signatures().items() if found.is_table}


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
