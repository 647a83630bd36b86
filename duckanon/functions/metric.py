"""metric_mechanism and metric_report: from a call to the query that answers it, and the engine's calls inside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arguments import names
from duckanon.functions.arrow import columns_of, lists, one_row, row_type
from duckanon.functions.request import Request
from duckanon.functions.schema import Table, is_number, is_numbers
from duckanon.functions.sqltext import THREADS, absent, as_bytes, call, check, fill, literals, named_call, struct
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.metric.problem import Step

_FOUND = {"secrets": "INTEGER[]", "outputs": "INTEGER[]", "probabilities": "DOUBLE[]"}


def register(on: Instance, host: Host) -> None:
    """Put the functions behind metric_mechanism and metric_report on a database instance."""
    on.function(MetricMechanism)
    on.function(MetricReport)
    register_check(on, "metric", _check, Metric)
    register_check(on, "metric_side", _check_side)
    mechanism, report = partial(_mechanism, host.progress), partial(_report, host.progress)
    register_engine(on, "_dk_metric_mechanism", mechanism, "found", row_type(_FOUND), MetricMechanism)
    register_engine(on, "_dk_metric_report", report, "found", row_type(columns_of("metric_report")), MetricReport)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    """Another table of the call. needed: the columns it must have; numbers: those that are numbers."""

    name: str
    table: str
    needed: Sequence[str]
    numbers: Sequence[str]
    columns: str
    joins: str
    packed: str

    @classmethod
    def of_pairs(cls, name: str, table: str, first: str, second: str, number: str) -> _Side:
        """Pairs of records by place, and a number for each."""
        return cls(
            name,
            table,
            [first, second, number],
            [number],
            f"a.place AS {first}, b.place AS {second}, side.{second} IS NULL AS withheld, side.{number} AS {number}",
            f"LEFT JOIN _dk_records AS a ON a.key = {as_bytes(f'side.{first}')} "
            f"LEFT JOIN _dk_records AS b ON b.key = {as_bytes(f'side.{second}')}",
            struct({"first": first, "second": second, "withheld": "withheld", "value": number}),
        )

    @property
    def cte(self) -> str:
        return fill(
            "metric_side",
            side=self.name,
            table=literal(self.table),
            absent=absent([*self.needed, *self.numbers], own=False),
            problem=check_side(self.table, self.needed, self.numbers),
            columns=self.columns,
            joins=self.joins,
        )

    @property
    def lines(self) -> str:
        """All its lines, as one list."""
        return f"(SELECT system.main.list({self.packed}) FROM _dk_{self.name})"


def check_side(table: str, needed: Sequence[str], numbers: Sequence[str]) -> str:
    """The call that checks the columns of another table."""
    return named_call(
        "_dk_check",
        "metric_side",
        names="names",
        types="types",
        table=literal(table),
        needed=literals(needed),
        numbers=literals(numbers),
    )


@dataclass(frozen=True, kw_only=True)
class Metric(Request):
    """The arguments that metric_mechanism and metric_report have in common."""

    tbl: str
    id: str
    features: tuple[str, ...]
    epsilon: float
    radius: float | None
    metric: str
    prior: str | None
    loss: str | None
    distances: str | None
    destinations: str | None
    gap: float
    time_limit: float

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        if checked["distances"] is None:
            names(arguments["features"], "features", empty=False)
        if checked["loss"] and checked["destinations"]:
            raise InvalidInput("loss and destinations are both given: a loss comes from one of them.")
        if checked["destinations"] and not checked["features"]:
            raise InvalidInput(
                "destinations are places: name the features that say where records and destinations are."
            )
        return cls(**checked)

    @property
    def sides(self) -> list[_Side]:
        """The other tables of the call."""
        sides = []
        if self.loss:
            sides.append(_Side.of_pairs("loss", self.loss, "secret", "output", "loss"))
        if self.distances:
            sides.append(_Side.of_pairs("distances", self.distances, "secret", "other", "distance"))
        if self.destinations:
            place = struct({name: f"side.{identifier(name)}" for name in self.features})
            columns, packed = f"{place} AS place, side.weight AS weight", struct({"place": "place", "weight": "weight"})
            sides.append(_Side("destinations", self.destinations, self.features, ["weight"], columns, "", packed))
        return sides

    def source(self) -> str:
        """The query up to the records and the other tables."""
        own = {"prior": identifier(self.prior) if self.prior else "NULL"}
        if self.features:
            own["features"] = struct({f"f{i}": identifier(name) for i, name in enumerate(self.features)})
        return fill(
            "metric_source",
            table=literal(self.tbl),
            absent=absent([self.id, *self.features, *([self.prior] if self.prior else [])]),
            problem=check("metric", self.literal),
            id=identifier(self.id),
            id_text=literal(f'Column "{self.id}"'),
            values=struct(own),
            sides="".join(side.cte for side in self.sides),
        )

    def answer(self, function: str) -> str:
        """The engine's call."""
        return call(
            function,
            request=self.literal,
            values='system.main.list("values" ORDER BY place)',
            **{"loss": "NULL", "distances": "NULL", "destinations": "NULL"}
            | {side.name: side.lines for side in self.sides},
            threads=THREADS,
        )


@dataclass(frozen=True, kw_only=True)
class MetricMechanism(Metric):
    """A call of metric_mechanism."""

    function = "metric_mechanism"
    method: str
    isolated: str
    partition: str
    parts: int | None

    def query(self) -> str:
        return self.source() + fill("metric_mechanism", answer=self.answer("_dk_metric_mechanism"))


@dataclass(frozen=True, kw_only=True)
class MetricReport(Metric):
    """A call of metric_report."""

    function = "metric_report"
    mechanism: str
    bound: bool

    @property
    def sides(self) -> list[_Side]:
        return [*super().sides, _Side.of_pairs("mechanism", self.mechanism, "secret", "output", "probability")]

    def query(self) -> str:
        return self.source() + fill("metric_report", answer=self.answer("_dk_metric_report"))


# --- checks that need the table's columns -----------------------------------------------------------------------------


def _check(request: Metric, names: list[str], types: list[str]) -> None:
    table, prior = Table(request.tbl, names, types), [request.prior] if request.prior else []
    table.has([request.id, *request.features, *prior])
    table.plain([request.id], "name of records")
    for name in request.features:
        if not is_number(table.kind(name)) and not is_numbers(table.kind(name)):
            raise InvalidInput(f'Column "{name}" holds no numbers and cannot be a feature: cast it to DOUBLE.')
    for name in prior:
        table.number(name, "prior", "DOUBLE")


def _check_side(names: list[str], types: list[str], table: str, needed: list[str], numbers: list[str]) -> None:
    """Check that a table has the columns that are needed, and that some that it may have are numbers."""
    side = Table(table, names, types)
    side.has(needed)
    known = {fold(name) for name in names}
    for name in numbers:
        if fold(name) in known and not is_number(side.kind(name)):
            raise InvalidInput(f'Column "{name}" of {table} is not a number: cast it to DOUBLE.')


# --- the engine's calls -----------------------------------------------------------------------------------------------


def _teller(progress: Progress, method: str, gap: float) -> Callable[[str, Step], None]:
    """Reports each iteration: its bounds and gap, and as the share done how many of the gap's decimals are reached."""

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


def _mechanism(progress: Progress, request: MetricMechanism, threads: pa.Scalar, **lines: pa.Scalar) -> pa.Array:
    from duckanon.engines.metric.mechanism import Options, optimise
    from duckanon.engines.metric.methods import named
    from duckanon.functions.metric_inputs import domain

    chosen = named(request.method, request.partition, request.parts)
    options = Options(request.gap, request.time_limit, request.isolated, max(1, int(threads.as_py())))
    inputs = domain(request, **lines)
    mechanism = optimise(inputs, chosen, options, _teller(progress, chosen.name, options.gap))
    secret, output = np.nonzero(mechanism.matrix)
    withheld = np.flatnonzero(mechanism.suppressed)
    outputs = pa.concat_arrays([pa.array(inputs.outputs[output], pa.int32()), pa.nulls(len(withheld), pa.int32())])
    secrets = np.concatenate([secret, withheld]).astype(np.int32)
    probabilities = np.concatenate([mechanism.matrix[secret, output], np.ones(len(withheld))])
    return lists(tuple(_FOUND), (secrets, outputs, probabilities))


def _report(
    progress: Progress, request: MetricReport, mechanism: pa.Scalar, threads: pa.Scalar, **lines: pa.Scalar
) -> pa.Array:
    from duckanon.engines.metric.mechanism import Options, report
    from duckanon.functions.metric_inputs import domain, published

    options = Options(request.gap, request.time_limit, "keep", max(1, int(threads.as_py())))
    inputs = domain(request, **lines)
    matrix, suppressed = published(mechanism, inputs)
    tell = _teller(progress, "bound", options.gap)
    measures: dict[str, Any] = report(inputs, matrix, suppressed, options, bound=request.bound, tell=tell)
    return one_row(measures, columns_of("metric_report"))
