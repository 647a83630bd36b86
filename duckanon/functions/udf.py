"""How Python functions are put on a DuckDB database: whole columns in and out, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import local
from typing import Any, Protocol
from uuid import uuid4

import duckdb
import pyarrow as pa

from duckanon.cancellation import Flag, Stopped, check, current, numbered, working_for
from duckanon.catalog.names import literal
from duckanon.catalog.policy import OWNER, UnitColumn
from duckanon.errors import STOPPED, DuckanonError, InvalidInput
from duckanon.functions.arguments import from_policy
from duckanon.functions.request import Request
from duckanon.functions.sqltext import query_table, refusal
from duckanon.functions.worker_threads import on_lasting_state
from duckanon.specification import Function, functions, macros

# Called with what runs and the share done (0 to 1), from the thread that runs it.
Progress = Callable[[str, float], None]
# How an analyst's statement would be decided, as rows of explain_privacy, where a search path is set.
Explain = Callable[[str, str], Sequence[dict[str, Any]]]
# Answers a call of prepare, as its rows. It gets the request, the texts of its files, and the tables that the caller
# sees.
Prepares = Callable[[Any, Sequence[str], Mapping[str, Any]], Sequence[dict[str, Any]]]


class PrivacyUnit(Protocol):
    """The column that names the privacy unit of a table, by its policy; None where there is none.

    place: where the caller looks names up: its database, schema and search path.
    """

    def __call__(self, table: str, place: Mapping[str, Any]) -> UnitColumn | None: ...


# DuckDB lets go of a function when the connection that registered it closes, and still calls it for others. A few
# kilobytes for each database ever opened are the price of not crashing.
_KEPT: list[Callable[..., Any]] = []
# The identities of the instances that have all functions.
_COMPLETE: set[str] = set()
# Functions that many of ours share, and what they return. Each is called with a name, then with one struct.
_SHARED = {
    "_dk_check": "VARCHAR",
    "_dk_open": "STRUCT(handle BIGINT, problem VARCHAR)",
    "_dk_decide": "STRUCT(said VARCHAR, problem VARCHAR)",
}
# Settings with which our SQL would mean something else, and SQL that is true then.
_OTHER_MEANING = {
    "default_order": "system.main.starts_with(system.main.current_setting('default_order'), 'DESC')",
    "integer_division": "system.main.current_setting('integer_division')",
}
# Types by their names in SQL. To read a long one takes longer than to register a function.
_TYPES: dict[str, Any] = {}
# The statements that make the macros, parsed once.
_MACROS: dict[str, list[duckdb.Statement]] = {}
# Whether this thread makes the macros.
_MAKING = local()


@dataclass(frozen=True)
class Host:
    """What the functions may call: the report of progress, governance, and what decides about statements."""

    progress: Progress
    governance: Any
    explain: Explain
    prepare: Prepares


class Instance:
    """A database instance, and which of our functions it has: they are shared by all its cursors.

    identity: the same for all connections of this instance, and of no other instance in the process.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con
        self._requests: dict[str, type[Request]] = {}
        self._shared: dict[str, dict[str, Callable[..., pa.Array]]] = {name: {} for name in _SHARED}
        self._is_new = self._asked_first()
        self.identity = self._new_identity() if self._is_new else self._committed_identity() or self._new_identity()

    def _asked_first(self) -> bool:
        """Whether nobody has asked for our functions here yet: then the instance has none.

        A cursor tries to register a function for this, outside the caller's transaction. (To look for a function that
        is not there takes DuckDB 4 ms: it names similar ones.)
        """
        try:
            _create(self._con.cursor(), "_dk_asked", lambda rows: rows, "BOOLEAN", side_effects=True)
        except duckdb.CatalogException:
            return False
        return True

    def _committed_identity(self) -> str | None:
        """The identity that the instance has, if that is committed.

        A cursor asks, because an error would end a transaction of the caller's.
        """
        try:
            return _identity(self._con.cursor())
        except duckdb.CatalogException:
            return None

    def _new_identity(self) -> str:
        own = uuid4().hex
        is_new = self.create("_dk_instance", lambda rows: pa.array([own] * len(rows)), "VARCHAR", side_effects=True)
        return own if is_new else _identity(self._con)

    @cached_property
    def _known(self) -> set[str]:
        """The names of the functions that it has. To list them takes DuckDB 25 ms, as it lists its own, too."""
        if self._is_new:
            return set()
        rows = self._con.execute(
            "SELECT function_name FROM system.main.duckdb_functions() "
            "WHERE system.main.starts_with(function_name, '_dk_')"
        )
        return {name for (name,) in rows.fetchall()}

    @property
    def is_complete(self) -> bool:
        """Whether it has all functions: `finish` was called on one of its connections."""
        return self.identity in _COMPLETE

    def function(self, request: type[Request]) -> None:
        """Name the request whose query answers calls of its SQL function."""
        self._requests[request.function] = request

    def share(self, function: str, name: str, answer: Callable[..., pa.Array]) -> None:
        """Say what a function that many share answers where it is called with this name."""
        self._shared[function][name] = answer

    def finish(self, privacy_unit: PrivacyUnit) -> None:
        """Register what many of our functions share, and what the macros call: the writer of queries.

        The writer is a function of constants, which is called when a statement is bound. If a request raises an error
        of duckanon's, the query raises it. privacy_unit: of a table, by its policy.
        """
        for function, answers in self._shared.items():
            self.create(function, partial(_by_name, answers), _SHARED[function], side_effects=True)
        self.create("_dk_write", partial(_written, self._requests, privacy_unit), "VARCHAR", side_effects=False)
        _COMPLETE.add(self.identity)

    def create(self, name: str, function: Callable[..., Any], returns: str, *, side_effects: bool) -> bool:
        """Register `function`, unless another cursor has done so. Whether it was registered now."""
        is_missing = name not in self._known
        if is_missing:
            _create(self._con, name, function, returns, side_effects=side_effects)
        return is_missing


def _create(
    con: duckdb.DuckDBPyConnection, name: str, function: Callable[..., Any], returns: str, *, side_effects: bool
) -> None:
    function = on_lasting_state(function)
    if returns not in _TYPES:
        _TYPES[returns] = con.type(returns)
    con.create_function(  # type: ignore[call-overload] # the stubs forget that names of types do as well
        name, function, None, _TYPES[returns], type="arrow", null_handling="special", side_effects=side_effects
    )
    _KEPT.append(function)


def make_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Make the SQL functions on a connection to an instance that is complete: a temporary macro for each."""
    statements = _MACROS.get("") or _MACROS.setdefault("", con.extract_statements(macros()))
    _MAKING.macros = True
    try:
        for statement in statements:
            con.execute(statement)
    finally:
        _MAKING.macros = False


def _by_name(answers: Mapping[str, Callable[..., pa.Array]], names: pa.ChunkedArray, *fields: pa.Array) -> pa.Array:
    return answers[names[0].as_py()](*fields)


# What SQL raises as a sentence. On the main thread Ctrl-C may come while DuckDB runs our Python.
_TOLD = (DuckanonError, KeyboardInterrupt, Stopped)


def _sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, DuckanonError) else STOPPED


def _written(requests: Mapping[str, type[Request]], privacy_unit: PrivacyUnit, *columns: pa.Array) -> pa.Array:
    """The query that answers a call. columns: as the call in `duckanon.specification.Function.macro` has them."""
    if getattr(_MAKING, "macros", False):
        # DuckDB tries a macro without arguments while it makes it.
        return pa.array(["SELECT NULL"] * len(columns[0]))
    name = columns[0][0].as_py()
    called = functions()[name]
    try:
        called_with = [_python(column[0]) for column in columns[1:]]
        place: Mapping[str, Any] = called_with.pop(0) if called.asks_policy else {}
        called_with[:1] = called_with[0] if called_with else []
        arguments: Mapping[str, Any] = dict(
            zip((argument.name for argument in called.arguments), called_with, strict=True)
        )
        unit = _AskedUnit(privacy_unit, place)
        if called.asks_policy:
            arguments = unit.without_owner(from_policy(name, arguments, unit.column))
        written = requests[name].read(arguments).query()
        written = unit.looked_up(written) if arguments.get("unit") == OWNER else written
    except _TOLD as error:
        written = refusal(_sentence(error), called.fixed_columns)
    return pa.array([_unless_other_meaning(written, called)] * len(columns[0]))


@dataclass
class _AskedUnit:
    """The privacy unit of a call's table, once it is asked for. tables: by name as written, what reads the records."""

    privacy_unit: PrivacyUnit
    place: Mapping[str, Any]
    tables: dict[str, str] = field(default_factory=dict)

    def column(self, table: str) -> str | None:
        """The column of the unit by the policy of a table; None where there is none."""
        unit_column = self.privacy_unit(table, self.place)
        if unit_column is not None and unit_column.records:
            self.tables[table] = unit_column.records
        return None if unit_column is None else unit_column.name

    def without_owner(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments, by which no owner that was looked up is released."""
        drop = arguments.get("drop") or []
        if not self.tables or "drop" not in arguments or not isinstance(drop, list):
            return arguments
        return {**arguments, "drop": [*drop, OWNER]}

    def looked_up(self, query: str) -> str:
        """The query, which reads a linked table with the owners of its records: the table itself names none."""
        for table, records in self.tables.items():
            query = query.replace(query_table(table), f"system.main.query({literal(records)})")
        return query


def _unless_other_meaning(query: str, called: Function) -> str:
    """The query, but a refusal under a setting with which our SQL would mean something else."""
    sentence = "duckanon's SQL would mean something else under this {0}: RESET {0}."
    cases = (
        f"WHEN {test} THEN {literal(refusal(sentence.format(setting), called.fixed_columns))}"
        for setting, test in _OTHER_MEANING.items()
    )
    return f"FROM system.main.query(CASE {' '.join(cases)} ELSE {literal(query)} END)"


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
    ((identity,),) = con.execute("SELECT system.main._dk_instance(true)").fetchall()
    return str(identity)


def _asked_by(row: pa.ChunkedArray, request: type[Request] | None) -> Flag | None:
    """The flag of the statement in which a call stands: known where DuckDB calls on a thread of its own, too."""
    return None if request is None else numbered(request.statement(row[0]["request"].as_py()))


def _fields(row: pa.ChunkedArray, request: type[Request] | None) -> dict[str, Any]:
    """The fields of the one struct that a function is called with, by name: Arrow scalars, and the request loaded."""
    struct = row[0]
    fields = {field.name: struct[field.name] for field in row.type}
    if request is not None:
        fields["request"] = request.load(fields["request"].as_py())
    return fields


def register_check(on: Instance, name: str, check: Callable[..., None], request: type[Request] | None = None) -> None:
    """Register a check by its name: it returns NULL, or the sentence of what `check` raises of duckanon's own.

    `check` gets the fields of the call's struct by name, as Python values; the field `request` as a `request`.
    """

    def answer(row: pa.ChunkedArray) -> pa.Array:
        try:
            fields = _fields(row, request)
            check(
                **{
                    field: field_value.as_py() if isinstance(field_value, pa.Scalar) else field_value
                    for field, field_value in fields.items()
                }
            )
        except _TOLD as error:
            return pa.array([_sentence(error)])
        return pa.array([None], pa.string())

    on.share("_dk_check", name, answer)


def register_open(on: Instance, open_for: Callable[..., pa.Array], request: type[Request]) -> None:
    """Register what opens a collection for the calls of a function: as an engine that returns a handle."""
    on.share("_dk_open", request.function, _answering(open_for, "handle", request))


def register_decision(on: Instance, decide: Callable[..., pa.Array], request: type[Request]) -> None:
    """Register a steward's decision, a function with its request: as an engine that returns a sentence."""
    on.function(request)
    on.share("_dk_decide", request.function, _answering(decide, "said", request))


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
    returns an Arrow array of one value. What it raises of duckanon's own becomes the problem, for SQL to raise.
    """
    answer = _answering(compute, field, request)
    on.create(name, answer, f"STRUCT({field} {kind}, problem VARCHAR)", side_effects=True)


def _answering(
    compute: Callable[..., pa.Array], field: str, request: type[Request] | None
) -> Callable[[pa.ChunkedArray], pa.Array]:
    def answer(row: pa.ChunkedArray) -> pa.Array:
        try:
            fields = _fields(row, request)
            with working_for(current() or _asked_by(row, request)):
                check()
                computed, problem = compute(**fields), None
        except _TOLD as error:
            computed, problem = pa.nulls(1), _sentence(error)
        return pa.StructArray.from_arrays([computed, pa.array([problem], pa.string())], [field, "problem"])

    return answer
