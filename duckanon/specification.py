"""What each SQL function takes and gives, in words: what its page says of it, and whatever else wants to explain it.

Names and defaults of arguments are those of the macro (`sql/macros`); the words are in `sql/specification`, a file for
each function. The tests hold both against DuckDB: its catalog, what calls really return, and what they refuse.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# No default of a parameter holds a comma or a bracket of this kind.
_MACRO = re.compile(r"CREATE OR REPLACE TEMP MACRO (\w+)\(([^()]*)\) AS( TABLE)?")


@cache
def sql_root() -> Path:
    """The folder `sql`: beside the modules in a wheel, beside the package in a checkout (editable install).

    Raises FileNotFoundError if the installation has lost it.
    """
    package = Path(__file__).resolve().parent
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


@dataclass(frozen=True)
class Argument:
    """An argument. default: as SQL, None if there is none. required: a call without it is refused."""

    name: str
    type: str
    meaning: str
    default: str | None
    required: bool


@dataclass(frozen=True)
class Column:
    """A column of the answer; with `several`, as many as the call asks for, in turns with its neighbours."""

    name: str
    type: str
    meaning: str
    several: bool = False


@dataclass(frozen=True)
class Refusal:
    """A call that is refused, and how the sentence begins that says why."""

    call: str
    says: str


@dataclass(frozen=True)
class Function:
    """A SQL function. rows: what each row of the answer is for. source: where its method comes from, or nothing."""

    name: str
    summary: str
    is_table: bool
    rows: str
    source: str
    arguments: tuple[Argument, ...]
    columns: tuple[Column, ...]
    refusals: tuple[Refusal, ...]


@cache
def functions() -> Mapping[str, Function]:
    """Every SQL function by name. Raises ValueError if a file and its macro do not have the same arguments."""
    return {name: _function(name) for name in sorted(signatures())}


def _function(name: str) -> Function:
    signature = signatures()[name]
    told = tomllib.loads((sql_root() / "specification" / f"{name}.toml").read_text(encoding="utf-8"))
    if list(told["arguments"]) != list(signature.parameters):
        raise ValueError(f"sql/specification/{name}.toml has not the arguments of the macro, in its order.")
    return Function(
        name,
        told["summary"],
        signature.is_table,
        told["rows"],
        told["source"],
        tuple(
            Argument(
                argument,
                told["arguments"][argument]["type"],
                told["arguments"][argument]["meaning"],
                default,
                told["arguments"][argument].get("required", default is None),
            )
            for argument, default in signature.parameters.items()
        ),
        tuple(Column(**column) for column in told["columns"]),
        tuple(Refusal(**refusal) for refusal in told["refusals"]),
    )
