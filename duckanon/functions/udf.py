"""How Python functions are put on a DuckDB database: whole columns in and out, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol
from uuid import uuid4
from weakref import WeakSet

import duckdb
import pyarrow as pa

from duckanon.errors import DuckanonError, InvalidInput
from duckanon.functions.arguments import from_policy
from duckanon.functions.request import Request
from duckanon.functions.sqltext import refusal
from duckanon.functions.worker_threads import on_lasting_state
from duckanon.specification import functions

# Called with what runs and the share done (0 to 1), from the thread that runs it.
Progress = Callable[[str, float], None]
# How an analyst's statement would be decided, as rows of explain_privacy.
Explain = Callable[[str], Sequence[dict[str, Any]]]


class PrivacyUnit(Protocol):
    """The column that names the privacy unit of a table, by its policy; None where there is none.

    place: where the caller looks names up: its database, schema and search path.
    """

    def __call__(self, table: str, place: Mapping[str, Any]) -> str | None: ...


# DuckDB lets go of a function when the connection that registered it closes, and still calls it for others. A few
# kilobytes for each database ever opened are the price of not crashing.
_KEPT: list[Callable[..., Any]] = []
# The identities of the instances that have all functions.
_COMPLETE: set[str] = set()
# Connections that were asked for functions before. They see those that they registered in an open transaction.
_USED: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


@dataclass(frozen=True)
class Host:
    """What the functions may call: the report of progress, governance, and the explanation of a statement."""

    progress: Progress
    governance: Any
    explain: Explain


class Instance:
    """A database instance, and which of our functions it has: they are shared by all its cursors.

    identity: the same for all connections of this instance, and of no other instance in the process.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._requests: dict[str, type[Request]] = {}
        found = self._found()
        self._is_new = found is None and con not in _USED
        _USED.add(con)
        self.identity = found or self._made()

    def _found(self) -> str | None:
        """The identity that the instance has, if that is committed.

        A cursor asks, because an error would end a transaction of the caller's.
        """
        try:
            return _identity(self._con.cursor())
        except duckdb.CatalogException:
            return None

    def _made(self) -> str:
        own = uuid4().hex
        self.create("_dk_instance", lambda rows: pa.array([own] * len(rows)), "VARCHAR", side_effects=True)
        return _identity(self._con)

    @cached_property
    def _known(self) -> set[str]:
        """The names of the functions that it has. To list them takes DuckDB 25 ms, as it lists its own, too."""
        if self._is_new:
            return set()
        found = self._con.execute(
            "SELECT function_name FROM system.main.duckdb_functions() "
            "WHERE system.main.starts_with(function_name, '_dk_')"
        )
        return {name for (name,) in found.fetchall()}

    @property
    def is_complete(self) -> bool:
        """Whether it has all functions: `finish` was called on one of its connections."""
        return self.identity in _COMPLETE

    def function(self, name: str, request: type[Request]) -> None:
        """Name the request whose query answers calls of a SQL function."""
        self._requests[name] = request

    def finish(self, privacy_unit: PrivacyUnit) -> None:
        """Register what the macros call: a function of constants that writes a query, when a statement is bound.

        If a request raises an error of duckanon's, the query raises it. privacy_unit: of a table, by its policy.
        """
        requests = self._requests

        def answer(*columns: pa.Array) -> pa.Array:
            name = columns[0][0].as_py()
            try:
                setting, *given = (_python(one[0]) for one in columns[1:])
                arguments = given[0] if given else {}
                if setting is not None:
                    raise InvalidInput(
                        f"duckanon's SQL would mean something else under this {setting}: RESET {setting}."
                    )
                if len(given) > 1:
                    arguments = from_policy(arguments, partial(privacy_unit, place=given[1]))
                written = requests[name].read(arguments).query()
            except DuckanonError as error:
                written = refusal(str(error), [one.name for one in functions()[name].columns if not one.several])
            return pa.array([written] * len(columns[0]))

        self.create("_dk_write", answer, "VARCHAR", side_effects=False)
        _COMPLETE.add(self.identity)

    def create(self, name: str, function: Callable[..., Any], returns: str, *, side_effects: bool) -> None:
        """Register `function`, unless another cursor has done so."""
        if name not in self._known:
            function = on_lasting_state(function)
            _KEPT.append(function)
            self._con.create_function(  # type: ignore[call-overload] # the stubs forget that names of types do as well
                name,
                function,
                None,
                self._con.type(returns),
                type="arrow",
                null_handling="special",
                side_effects=side_effects,
            )


def _python(value: Any) -> Any:
    """A value of DuckDB as one of Python. Raises InvalidInput for times that Python does not have."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    raise InvalidInput(
        "A date or time before the year 1, after 9999 or infinite, or in parts of a microsecond, is given as text, as "
        "in 'infinity'."
    )


def _identity(con: duckdb.DuckDBPyConnection) -> str:
    ((found,),) = con.execute("SELECT system.main._dk_instance(true)").fetchall()
    return str(found)


def _fields(row: pa.ChunkedArray, request: type[Request] | None) -> dict[str, Any]:
    """The fields of the one struct that a function is called with, by name: Arrow scalars, and the request loaded."""
    one = row[0]
    found = {field.name: one[field.name] for field in row.type}
    if request is not None:
        found["request"] = request.load(found["request"].as_py())
    return found


def register_check(on: Instance, name: str, check: Callable[..., None], request: type[Request] | None = None) -> None:
    """Register a function of one row that returns NULL, or the sentence of what `check` raises of duckanon's own.

    `check` gets the fields of the call's struct by name, as Python values; the field `request` as a `request`.
    """

    def answer(row: pa.ChunkedArray) -> pa.Array:
        try:
            given = _fields(row, request)
            check(**{field: one.as_py() if isinstance(one, pa.Scalar) else one for field, one in given.items()})
        except DuckanonError as error:
            return pa.array([str(error)])
        return pa.array([None], pa.string())

    on.create(name, answer, "VARCHAR", side_effects=True)


def register_engine(
    on: Instance,
    name: str,
    compute: Callable[..., pa.Array],
    field: str,
    kind: str,
    request: type[Request] | None = None,
) -> None:
    """Register a function of one row that runs an engine. It returns STRUCT(`field` `kind`, problem VARCHAR).

    `compute` gets the fields of the call's struct by name, as Arrow scalars; the field `request` as a `request`. It
    returns an Arrow array of one value. What it raises of duckanon's own becomes the problem, for SQL to raise with
    `_dk_unless`.
    """

    def answer(row: pa.ChunkedArray) -> pa.Array:
        try:
            found, problem = compute(**_fields(row, request)), None
        except DuckanonError as error:
            found, problem = pa.nulls(1), str(error)
        return pa.StructArray.from_arrays([found, pa.array([problem], pa.string())], [field, "problem"])

    on.create(name, answer, f"STRUCT({field} {kind}, problem VARCHAR)", side_effects=True)
