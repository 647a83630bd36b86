"""metric_mechanism and metric_report: from a call to the query that answers it, and the engine's calls inside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.cells import absent, one_list
from duckanon.functions.schema import Table, is_number, is_numbers
from duckanon.functions.sqltext import fill, identifier, literal, literals
from duckanon.functions.udf import Instance, Progress, register_check, register_engine, register_writer

if TYPE_CHECKING:
    from duckanon.engines.metric.problem import Step


_FOUND = "secrets INTEGER[], outputs INTEGER[], probabilities DOUBLE[]"
_REPORTED = (
    "pairs BIGINT, max_violation DOUBLE, row_sum_error DOUBLE, expected_loss DOUBLE, exponential_loss DOUBLE, "
    "lower_bound DOUBLE, gap DOUBLE"
)


def register(on: Instance, progress: Progress) -> None:
    """Put the functions behind metric_mechanism and metric_report on a database instance.

    progress: told what runs and the share done (0 to 1), from the thread that runs it.
    """
    register_writer(on, "_dk_write_metric_mechanism", _write_mechanism)
    register_writer(on, "_dk_write_metric_report", _write_report)
    register_check(on, "_dk_metric_problem", _check)
    register_check(on, "_dk_metric_side_problem", check_columns)
    register_engine(on, "_dk_metric_mechanism", partial(_mechanism, progress), "found", f"STRUCT({_FOUND})")
    register_engine(on, "_dk_metric_report", partial(_report, progress), "found", f"STRUCT({_REPORTED})")


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """What both functions are told: the query up to the records, and the engine's arguments."""

    source: str
    inputs: str


def _number(value: float | None) -> str:
    return "NULL::DOUBLE" if value is None else f"{value!r}::DOUBLE"


def _side(name: str, table: str, needed: Sequence[str], numbers: Sequence[str], columns: str, joins: str) -> str:
    """A CTE over another table of the call. needed: the columns it must have; numbers: those that are numbers."""
    return fill(
        "metric_side",
        side=name,
        table=literal(table),
        absent=", ".join(f"NULL AS {identifier(column)}" for column in dict.fromkeys([*needed, *numbers])),
        problem=(
            f"system.main._dk_metric_side_problem(names, types, {literal(table)}, {literals(needed)}, "
            f"{literals(numbers)})"
        ),
        columns=columns,
        joins=joins,
    )


def _pairs(name: str, table: str, first: str, second: str, value: str) -> str:
    """A CTE of pairs of records by place, and a number for each."""
    return _side(
        name,
        table,
        [first, second, value],
        [value],
        f"a.place AS {first}, b.place AS {second}, side.{second} IS NULL AS withheld, side.{value} AS {value}",
        f"LEFT JOIN _dk_records AS a ON a.key = _dk_bytes(side.{first}) "
        f"LEFT JOIN _dk_records AS b ON b.key = _dk_bytes(side.{second})",
    )


def _packed(name: str, table: str | None, first: str, second: str, value: str) -> str:
    if table is None:
        return "NULL"
    fields = f"{{'first': {first}, 'second': {second}, 'withheld': withheld, 'value': {value}}}"
    return f"(SELECT system.main.list({fields}) FROM _dk_{name})"


def _call(
    tbl: object,
    id: object,  # noqa: A002 # as the caller knows it
    features: object,
    epsilon: object,
    radius: object,
    metric: object,
    prior: object,
    loss: object,
    distances: object,
    destinations: object,
    more: str = "",
) -> _Call:
    table = arguments.table(tbl)
    name = arguments.text(id, "id")
    columns = arguments.names(features, "features", empty=distances is not None)
    budget = arguments.real(epsilon, "epsilon", "1.5")
    if budget <= 0:
        raise InvalidInput("epsilon must be a number above 0: the smaller, the more alike neighbours look.")
    reach = None if radius is None else arguments.real(radius, "radius", "2")
    if reach is not None and reach <= 0:
        raise InvalidInput("radius must be a number above 0, or NULL to compare all pairs.")
    measure = arguments.text(metric, "metric")
    weight = None if prior is None else arguments.text(prior, "prior")
    losses, given = arguments.optional_table(loss, "loss"), arguments.optional_table(distances, "distances")
    places = arguments.optional_table(destinations, "destinations")
    if losses and places:
        raise InvalidInput("loss and destinations are both given: a loss comes from one of them.")
    if places and not columns:
        raise InvalidInput("destinations are places: name the features that say where records and destinations are.")
    sides = ""
    if losses:
        sides += _pairs("loss", losses, "secret", "output", "loss")
    if given:
        sides += _pairs("distances", given, "secret", "other", "distance")
    packed_places = "NULL"
    if places:
        fields = ", ".join(f"{literal(column)}: side.{identifier(column)}" for column in columns)
        sides += _side("destinations", places, columns, ["weight"], f"{{{fields}}} AS place, side.weight AS weight", "")
        packed_places = "(SELECT system.main.list({'place': place, 'weight': weight}) FROM _dk_destinations)"
    used = [*columns, *([weight] if weight else [])]
    fields = ", ".join(f"{literal(f'f{i}')}: {identifier(column)}" for i, column in enumerate(columns))
    own = f"'prior': {identifier(weight) if weight else 'NULL'}" + (f", 'features': {{{fields}}}" if columns else "")
    source = fill(
        "metric_source",
        table=literal(table),
        absent=absent(list(dict.fromkeys([name, *used]))),
        problem=(
            f"system.main._dk_metric_problem(names, types, {literal(table)}, {literal(name)}, {literals(columns)}, "
            f"{literals([weight] if weight else [])})"
        ),
        id=identifier(name),
        id_text=literal(f'Column "{name}"'),
        values=f"{{{own}}}",
        sides=sides + more,
    )
    inputs = (
        f'system.main.list("values" ORDER BY place), {literals(columns)}, '
        f"{_packed('loss', losses, 'secret', 'output', 'loss')}, "
        f"{_packed('distances', given, 'secret', 'other', 'distance')}, {packed_places}, {_number(budget)}, "
        f"{_number(reach)}, {literal(measure)}, {str(weight is not None).lower()}, "
        "system.main.current_setting('threads')"
    )
    return _Call(source, inputs)


def _effort(gap: object, time_limit: object) -> str:
    return (
        f"{_number(arguments.real(gap, 'gap', '0.0001'))}, {_number(arguments.real(time_limit, 'time_limit', '600'))}"
    )


def _write_mechanism(
    tbl: object,
    id: object,  # noqa: A002
    features: object,
    epsilon: object,
    radius: object,
    metric: object,
    prior: object,
    loss: object,
    method: object,
    distances: object,
    destinations: object,
    isolated: object,
    gap: object,
    time_limit: object,
    partition: object,
    parts: object,
) -> str:
    call = _call(tbl, id, features, epsilon, radius, metric, prior, loss, distances, destinations)
    pieces = None if parts is None else arguments.whole(parts, "parts")
    if pieces is not None and pieces < 1:
        raise InvalidInput("parts must be 1 or more.")
    answer = (
        f"system.main._dk_metric_mechanism({call.inputs}, {_effort(gap, time_limit)}, "
        f"{literal(arguments.text(method, 'method'))}, {literal(arguments.text(isolated, 'isolated'))}, "
        f"{literal(arguments.text(partition, 'partition'))}, {'NULL::INTEGER' if pieces is None else pieces})"
    )
    return call.source + fill("metric_mechanism", answer=answer)


def _write_report(
    mechanism: object,
    tbl: object,
    id: object,  # noqa: A002
    features: object,
    epsilon: object,
    radius: object,
    metric: object,
    prior: object,
    loss: object,
    distances: object,
    destinations: object,
    bound: object,
    gap: object,
    time_limit: object,
) -> str:
    if not isinstance(mechanism, str) or not mechanism:
        raise InvalidInput("The first argument must be the name of a table that holds a mechanism, in quotes.")
    if not isinstance(bound, bool):
        raise InvalidInput("bound must be true or false: whether to work out how much less could be lost.")
    more = _pairs("mechanism", mechanism, "secret", "output", "probability")
    call = _call(tbl, id, features, epsilon, radius, metric, prior, loss, distances, destinations, more)
    packed = _packed("mechanism", mechanism, "secret", "output", "probability")
    answer = f"system.main._dk_metric_report({call.inputs}, {_effort(gap, time_limit)}, {packed}, {str(bound).lower()})"
    return call.source + fill("metric_report", answer=answer)


# --- checks that need the table's columns -----------------------------------------------------------------------------


def _check(names: list[str], types: list[str], table: str, id: str, features: list[str], prior: list[str]) -> None:  # noqa: A002
    found = Table(table, names, types)
    found.has([id, *features, *prior])
    found.plain([id], "name of records")
    for name in features:
        if not is_number(found.kind(name)) and not is_numbers(found.kind(name)):
            raise InvalidInput(f'Column "{name}" holds no numbers and cannot be a feature: cast it to DOUBLE.')
    for name in prior:
        if not is_number(found.kind(name)):
            raise InvalidInput(f'Column "{name}" is not a number and cannot be prior: cast it to DOUBLE.')


def check_columns(names: list[str], types: list[str], table: str, needed: list[str], numbers: list[str]) -> None:
    """Check that a table has the columns that are needed, and that some that it may have are numbers."""
    found = Table(table, names, types)
    found.has(needed)
    known = {name.lower() for name in names}
    for name in numbers:
        if name.lower() in known and not is_number(found.kind(name)):
            raise InvalidInput(f'Column "{name}" of {table} is not a number: cast it to DOUBLE.')


# --- the engine's calls -----------------------------------------------------------------------------------------------


def _teller(progress: Progress, method: str, gap: float) -> Callable[[str, Step], None]:
    """Tells of each iteration: its bounds and gap, and as share how many of the gap's decimals are done."""

    def tell(part: str, step: Step) -> None:
        share = 0.0
        if 0 < step.gap < 1:
            share = min(1.0, math.log(step.gap) / math.log(gap))
        progress(
            f"{method}, {part}, iteration {step.iteration}: loss {step.upper:.6g}, at least {step.lower:.6g}, "
            f"gap {step.gap:.1e}",
            share,
        )

    return tell


def _mechanism(progress: Progress, *inputs: pa.Scalar) -> pa.Array:
    from duckanon.engines.metric.mechanism import Options, optimise
    from duckanon.engines.metric.methods import named
    from duckanon.functions.metric_inputs import domain

    *told, threads, gap, limit, method, isolated, partition, parts = inputs
    chosen = named(method.as_py(), partition.as_py(), parts.as_py())
    options = Options(gap.as_py(), limit.as_py(), isolated.as_py(), max(1, int(threads.as_py())))
    given = domain(*told)
    found = optimise(given, chosen, options, _teller(progress, chosen.name, options.gap))
    secret, output = np.nonzero(found.matrix)
    probability = found.matrix[secret, output]
    withheld = np.flatnonzero(found.suppressed)
    outputs = pa.concat_arrays([pa.array(given.outputs[output], pa.int32()), pa.nulls(len(withheld), pa.int32())])
    secrets = np.concatenate([secret, withheld]).astype(np.int32)
    return pa.StructArray.from_arrays(
        [
            one_list(secrets),
            pa.ListArray.from_arrays(pa.array([0, len(outputs)], pa.int32()), outputs),
            one_list(np.concatenate([probability, np.ones(len(withheld))])),
        ],
        ["secrets", "outputs", "probabilities"],
    )


def _report(progress: Progress, *inputs: pa.Scalar) -> pa.Array:
    from duckanon.engines.metric.mechanism import Options, report
    from duckanon.functions.metric_inputs import domain, published

    *told, threads, gap, limit, mechanism, bound = inputs
    options = Options(gap.as_py(), limit.as_py(), "keep", max(1, int(threads.as_py())))
    given = domain(*told)
    matrix, suppressed = published(mechanism, given)
    found: dict[str, Any] = report(
        given, matrix, suppressed, options, bound=bound.as_py(), tell=_teller(progress, "bound", options.gap)
    )
    return pa.array([found])
