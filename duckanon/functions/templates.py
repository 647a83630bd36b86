"""Finds the SQL text that ships with the package, and fills in the parts that differ from call to call."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template

# No default of a parameter holds a comma or a bracket of this kind.
_TABLE_MACRO = re.compile(r"CREATE OR REPLACE TEMP MACRO (\w+)\(([^()]*)\) AS TABLE")


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


@cache
def table_functions() -> Mapping[str, Sequence[str]]:
    """The names of duckanon's table functions, and of their parameters in order."""
    found = _TABLE_MACRO.findall(macros())
    return {
        name: [part.split(":=")[0].strip() for part in parameters.split(",") if part.strip()]
        for name, parameters in found
        if not name.startswith("_dk_")
    }


@cache
def _template(name: str) -> Template:
    # Comments name the parts too, and a part with a line break would leave its comment.
    text = (sql_root() / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    return Template("".join(line for line in text.splitlines(keepends=True) if not line.startswith("--")))


def fill(name: str, **parts: str) -> str:
    """The query `name` with every $part filled in. Raises KeyError if a part is missing."""
    return _template(name).substitute(parts)


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
