"""metric_perturb: replacements drawn from a mechanism."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.cells import absent
from duckanon.functions.schema import Table
from duckanon.functions.templates import fill, identifier, literal
from duckanon.functions.udf import Instance, register_check, register_engine, register_writer


def register(on: Instance) -> None:
    """Put the functions behind metric_perturb on a database instance."""
    register_writer(on, "_dk_write_metric_perturb", _write)
    register_check(on, "_dk_perturb_problem", _check)
    register_engine(on, "_dk_metric_perturb", _perturb, "found", "BIGINT[]")


def _write(tbl: object, id: object, mechanism: object) -> str:  # noqa: A002 # as the caller knows it
    table, name = arguments.table(tbl), arguments.text(id, "id")
    if not isinstance(mechanism, str) or not mechanism:
        raise InvalidInput("mechanism must be the name of a table that metric_mechanism filled, in quotes.")
    return fill(
        "metric_perturb",
        table=literal(table),
        absent=absent([name]),
        problem=f"system.main._dk_perturb_problem(names, types, {literal(table)}, {literal(name)})",
        id=identifier(name),
        mechanism=literal(mechanism),
        mechanism_problem=(
            f"system.main._dk_metric_side_problem(names, types, {literal(mechanism)}, "
            "['secret', 'output', 'probability'], ['probability'])"
        ),
    )


def _check(names: list[str], types: list[str], table: str, id: str) -> None:  # noqa: A002
    found = Table(table, names, types)
    found.has([id])
    found.plain([id], "name of records")
    found.leaves_free(["perturbed"], [])


def _perturb(wanted: pa.Scalar, mechanism: pa.Scalar) -> pa.Array:
    """A cell of the mechanism for each record."""
    from duckanon.engines.metric.sampling import Rows, draw

    if not mechanism.is_valid:
        raise InvalidInput("The mechanism has no rows.")
    cells = mechanism.values
    if cells.field("probability").null_count:
        raise InvalidInput("The mechanism holds NULL as a probability.")
    secret = cells.field("secret").to_numpy().astype(np.int64)
    weights = cells.field("probability").cast(pa.float64()).to_numpy().astype(np.float64)
    rows = Rows(np.searchsorted(secret, np.arange(secret[-1] + 2)), weights)
    if not wanted.is_valid:
        return pa.array([[]], pa.list_(pa.int64()))
    records = wanted.values
    if records.null_count:
        raise InvalidInput(
            f"{records.null_count} records have a name that the mechanism does not have: "
            "make the mechanism from a table of all of them."
        )
    drawn = draw(rows, records.to_numpy().astype(np.int64), os.urandom)
    return pa.array([drawn], pa.list_(pa.int64()))
