"""metric_perturb: replacements drawn from a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from duckanon.accounting import Charge, epsilon, written
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.cells import absent
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import fill, identifier, literal
from duckanon.functions.udf import Instance, register_check, register_engine, register_writer


class Governance(Protocol):
    """What metric_perturb needs of governance."""

    def stored_or_drawn(
        self,
        table: str,
        lookup: Mapping[str, Any],
        content: Mapping[str, Any],
        charge: Charge,
        draw: Callable[[], pa.Array],
        *,
        action: str,
    ) -> pa.Array:
        """What was drawn for the same before, or what is drawn and charged now."""
        ...

    def protected(self, table: str, lookup: Mapping[str, Any]) -> bool: ...


def register(on: Instance, governance: Governance) -> None:
    """Put the functions behind metric_perturb on a database instance."""
    register_writer(on, "_dk_write_metric_perturb", _write)
    register_check(on, "_dk_perturb_problem", _check)
    register_engine(on, "_dk_metric_perturb", partial(_perturb, governance), "found", "BIGINT[]")


def _write(tbl: object, id: object, mechanism: object, budget: object) -> str:  # noqa: A002 # as the caller knows it
    table, name = arguments.table(tbl), arguments.text(id, "id")
    if not isinstance(mechanism, str) or not mechanism:
        raise InvalidInput("mechanism must be the name of a table that metric_mechanism filled, in quotes.")
    exact = None if budget is None else written(epsilon(budget))
    said = f", epsilon := {exact}" if exact else ""
    return fill(
        "metric_perturb",
        call=literal(f"metric_perturb({literal(table)}, {literal(name)}, {literal(mechanism)}{said})"),
        epsilon="NULL::VARCHAR" if exact is None else literal(exact),
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


def _perturb(
    governance: Governance,
    wanted: pa.Scalar,
    rows: pa.Scalar,
    mechanism: pa.Scalar,
    table: pa.Scalar,
    seen: pa.Scalar,
    call: pa.Scalar,
    budget: pa.Scalar,
) -> pa.Array:
    """A cell of the mechanism for each record. rows: the records' hashes."""
    from duckanon.engines.metric.sampling import Rows, draw
    from duckanon.engines.randomness import Entropy

    if not mechanism.is_valid:
        raise InvalidInput("The mechanism has no rows.")
    cells = mechanism.values
    if cells.field("probability").null_count:
        raise InvalidInput("The mechanism holds NULL as a probability.")
    secret = cells.field("secret").to_numpy().astype(np.int64)
    weights = cells.field("probability").cast(pa.float64()).to_numpy().astype(np.float64)
    chances = Rows(np.searchsorted(secret, np.arange(secret[-1] + 2)), weights)
    if not wanted.is_valid:
        return pa.array([[]], pa.list_(pa.int64()))
    records = wanted.values
    if records.null_count:
        raise InvalidInput(
            f"{records.null_count} records have a name that the mechanism does not have: "
            "make the mechanism from a table of all of them."
        )
    places = records.to_numpy().astype(np.int64)

    def release() -> pa.Array:
        return pa.array([draw(chances, places, Entropy().octets)], pa.list_(pa.int64()))

    if not budget.is_valid:
        if governance.protected(table.as_py(), seen.as_py()):
            raise InvalidInput(
                "The table is protected, so a draw is recorded: say the mechanism's epsilon, as in epsilon := 1."
            )
        return release()
    content = sha256()
    for array in (places, rows.values.to_numpy(), secret, weights, cells.field("content").to_numpy()):
        content.update(len(array).to_bytes(8, "big") + np.ascontiguousarray(array).tobytes())
    charge = Charge(
        Fraction(budget.as_py()),
        call.as_py(),
        "tables that differ in the record of one row, for each unit of distance between the two records",
    )
    # An epsilon of a distance is no epsilon of a unit: it is recorded beside the budget, and never added to it.
    whole = {"call": call.as_py(), "content": content.hexdigest()}
    return governance.stored_or_drawn(table.as_py(), seen.as_py(), whole, charge, release, action="perturb")
