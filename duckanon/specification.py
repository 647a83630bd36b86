"""The SQL functions: their arguments, what they read, who may call them, and the words that explain them.

`sql/specification` has a file for each function. It is the only list of a function's arguments: macros, the guard,
completions and the reference pages follow from it. The tests hold it against what DuckDB says, returns and refuses.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Argument:
    """An argument. default: as SQL, None if there is none. required: a call without it is refused.

    table: it names a table that the function reads or is about. sql: there are names of tables or expressions inside,
    which the guard does not look into: an analyst's call cannot give it. policy: what is not given is as the policy
    of `tbl` says.

    duckanon.functions.arguments checks a call by its type and by what follows. least, most: of a number. above, below:
    what a number must not reach. values: the texts that it may be. names: what its text is the name of. empty: whether
    a list of columns may be empty although it must be given. decimals: to how many a DECIMAL is rounded down. because:
    why, for the refusal. example: a right value, for the refusal, as SQL.
    """

    name: str
    type: str
    meaning: str
    default: str | None = None
    required: bool = False
    table: bool = False
    sql: bool = False
    policy: bool = False
    least: int | None = None
    most: int | None = None
    above: int | None = None
    below: int | None = None
    values: Sequence[str] = ()
    names: str | None = None
    empty: bool = False
    decimals: int = 9
    because: str | None = None
    example: str | None = None

    @property
    def bounds(self) -> str:
        """What it must be, in words; nothing where its type alone says that."""
        if self.values:
            flags = ["true", "false"] if self.type.startswith("BOOLEAN") else []
            *others, last = [*flags, *(f"'{value}'" for value in self.values)]
            return f"{', '.join(others)} or {last}"
        if self.least is None and self.above is None:
            return ""
        begins = f"above {self.above:,}" if self.least is None else f"from {self.least:,}"
        if self.most is not None:
            return f"{begins}{' and at most' if self.least is None else ' to'} {self.most:,}"
        if self.below is not None:
            return f"{begins} to below {self.below:,}"
        return begins if self.least is None else f"{self.least:,} or more"


# Where a name that has no schema is looked up, by the connection that asks.
_PLACE = (
    "{'database': system.main.current_database(), 'schema': system.main.current_schema(), "
    "'path': system.main.current_setting('search_path')}"
)


@dataclass(frozen=True)
class Column:
    """A column of the answer.

    several: as many as the call's arguments give, in turns with its neighbours. optional: there only if an argument is
    given.
    """

    name: str
    type: str
    meaning: str
    several: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Refusal:
    """A call that is refused, and the sentence that says why."""

    call: str
    says: str


@dataclass(frozen=True)
class Function:
    """A SQL function.

    kind: "table" or "scalar". module: the one of duckanon.functions that answers it. analysts: whether an analyst may
    call it on tables that are not protected. release: whether its answer is made to be given away. rows: what each row
    of the answer is for. source: where its method comes from, or nothing.
    """

    name: str
    kind: str
    family: str
    module: str
    analysts: bool
    release: bool
    summary: str
    rows: str
    source: str
    arguments: tuple[Argument, ...]
    columns: tuple[Column, ...]
    refusals: tuple[Refusal, ...]

    @property
    def is_table(self) -> bool:
        return self.kind == "table"

    @property
    def tables(self) -> frozenset[str]:
        """The arguments that name tables."""
        return frozenset(argument.name for argument in self.arguments if argument.table)

    @property
    def fixed_columns(self) -> Sequence[str]:
        """The names of the answer's columns that do not depend on the call."""
        return [column.name for column in self.columns if not column.several]

    @property
    def needed(self) -> Sequence[str]:
        """The names of the arguments without which DuckDB does not take a call, in order."""
        return [argument.name for argument in self.arguments if argument.default is None]

    @property
    def usage(self) -> str:
        """What a call must give, in a sentence: for a call that DuckDB does not take."""
        *others, last = self.needed or [""]
        needed = f" needs {', '.join(others)} and {last}" if others else f" needs {last}" if last else ""
        optional = len(self.arguments) > len(self.needed)
        more = f"{', and' if needed else ''} takes what its page lists by name" if optional else ""
        return f"{self.name}{needed}{more or (not needed and ' takes no arguments') or ''}: look at the call."

    @property
    def asks_policy(self) -> bool:
        """Whether an argument that is not given is as a policy says."""
        return any(argument.policy for argument in self.arguments)

    @property
    def macro(self) -> str:
        """The statement that defines it: a macro that runs the query which `_dk_write` writes for the arguments.

        DuckDB binds it while it makes the macro, for each connection: short text takes the least time. DuckDB 1.4 would
        even call `_dk_write` then, with made-up arguments, unless the type of one matters, as in list_reverse.
        """
        head = ", ".join(
            argument.name if argument.default is None else f"{argument.name} := {argument.default}"
            for argument in self.arguments
        )
        told = [f"'{self.name}'", *([_PLACE] if self.asks_policy else [])]
        # A name such as "by" is a word of SQL.
        names = [f'"{argument.name}"' for argument in self.arguments]
        told += [f"system.main.list_reverse([{name}])" for name in names[:1]] + names[1:]
        written = f"system.main._dk_write({', '.join(told)})"
        answer = f"FROM system.main.query({written})"
        body = f"TABLE {answer}" if self.is_table else f"(SELECT said {answer} AS _dk_answer(said))"
        return f"CREATE OR REPLACE TEMP MACRO {self.name}({head}) AS {body};"


@cache
def sql_root() -> Path:
    """The folder `sql`: inside the package in a wheel, next to the package in a checkout (editable install).

    Raises FileNotFoundError if the installation has lost it.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "sql", package.parent / "sql"):
        if (folder / "queries").is_dir():
            return folder
    raise FileNotFoundError("duckanon's folder sql/ is missing: install the package again.")


@cache
def functions() -> Mapping[str, Function]:
    """Every SQL function by name. Raises TypeError for a file that lacks a field or has one too many."""
    files = sorted((sql_root() / "specification").glob("*.toml"))
    return {path.stem: _function(path.stem, tomllib.loads(path.read_text(encoding="utf-8"))) for path in files}


def _function(name: str, told: dict[str, Any]) -> Function:
    arguments = told.pop("arguments")
    columns, refusals = told.pop("columns"), told.pop("refusals")
    return Function(
        name=name,
        arguments=tuple(_argument(value, **fields) for value, fields in arguments.items()),
        columns=tuple(Column(**column) for column in columns),
        refusals=tuple(Refusal(**refusal) for refusal in refusals),
        **told,
    )


def _argument(name: str, **fields: Any) -> Argument:
    return Argument(name, **{"required": "default" not in fields, **fields})


@cache
def macros() -> str:
    """The definitions of all functions, as one script."""
    return "\n".join(function.macro for function in functions().values())


@cache
def table_functions() -> Mapping[str, Sequence[str]]:
    """The names of duckanon's table functions, and of their parameters in order."""
    return {
        name: [argument.name for argument in function.arguments]
        for name, function in functions().items()
        if function.is_table
    }
