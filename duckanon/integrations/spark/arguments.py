"""A call of one of the functions on Spark: its arguments, read as DuckDB's functions read them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
from pyspark.sql import DataFrame, Row

from duckanon.errors import InvalidInput
from duckanon.specification import Argument, functions

# What errors call the table, which has no name of its own.
TABLE = "the DataFrame"
# Arguments that only the functions on Spark have, by function. Each may be left out.
OWN: Mapping[str, Sequence[str]] = {
    "dp_group_sizes": ("ledger", "name"),
    "k_anonymize": ("staging", "block"),
    "metric_perturb": ("ledger", "name", "staging"),
}


def signature(function: str) -> inspect.Signature:
    """The function's signature: the arguments of the specification, with Python's None for SQL's NULL."""
    arguments = functions()[function].arguments
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(argument.name, kind, default=inspect.Parameter.empty if argument.default is None else None)
        for argument in arguments
    ]
    own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in OWN.get(function, ())]
    return inspect.Signature([*parameters, *own])


def bound(function: str, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name; those left out are left out. Raises InvalidInput for one that is missing or unknown."""
    wanted = [argument.name for argument in functions()[function].arguments]
    known = [*wanted, *OWN.get(function, ())]
    if len(given) > len(wanted):
        raise InvalidInput(f"{function} has {len(wanted)} arguments, and {len(given)} are given: name them.")
    found = dict(zip(wanted, given, strict=False))
    for name, value in named.items():
        if name not in known:
            raise InvalidInput(f'{function} has no argument "{name}": its arguments are {", ".join(known)}.')
        if name in found:
            raise InvalidInput(f'The argument "{name}" of {function} is given twice: give it once.')
        found[name] = value
    for one in functions()[function].arguments:
        if one.default is None and one.name not in found:
            raise InvalidInput(f"{function} needs the argument {one.name}: {one.meaning}.")
    return found


def tables(function: str, found: dict[str, Any]) -> dict[str, DataFrame]:
    """The DataFrames of a call, which are replaced in `found` by the names that errors call them."""
    taken = {}
    for argument in functions()[function].arguments:
        value = found.get(argument.name)
        if not argument.table or value is None:
            continue
        if not isinstance(value, DataFrame):
            raise InvalidInput(f"{argument.name} must be a DataFrame, as in spark.table('people').")
        taken[argument.name] = value
        found[argument.name] = TABLE if argument.name == "tbl" else argument.name
    return taken


def complete(con: duckdb.DuckDBPyConnection, function: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments as DuckDB hands them to the function behind a macro. con: has no say but about defaults."""
    return {argument.name: _value(con, argument, found) for argument in functions()[function].arguments}


def _value(con: duckdb.DuckDBPyConnection, argument: Argument, found: Mapping[str, Any]) -> Any:
    if found.get(argument.name) is not None:
        return plain(found[argument.name])
    if argument.default is None:
        return None
    ((value,),) = con.execute(f"SELECT {argument.default}").fetchall()
    return value


def plain(value: Any) -> Any:
    """A value of Python or Spark as DuckDB would hand it over: lists for sequences, mappings for structs."""
    if isinstance(value, Row):
        return {name: plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
