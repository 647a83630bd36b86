"""metric_perturb: from a call to the query that draws each record's replacement from a mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from duckanon.accounting import Charge, written
from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import integers
from duckanon.functions.metric import check_side
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import ROW, absent, as_bytes, call, check, fill, row_hash, seen, struct
from duckanon.functions.udf import Host, Instance, register_check, register_engine


class Governance(Protocol):
    """What metric_perturb needs of governance."""

    def stored_or_perturbed(
        self,
        table: str,
        lookup: Mapping[str, Any],
        content: Mapping[str, Any],
        charge: Charge,
        draw: Callable[[], pa.Array],
    ) -> pa.Array:
        """The stored draw for the same key, or a new one, which is recorded now."""
        ...

    def protected(self, table: str, lookup: Mapping[str, Any]) -> bool: ...


def register(on: Instance, host: Host) -> None:
    """Put the functions behind metric_perturb on a database instance."""
    on.function(MetricPerturb)
    register_check(on, "perturb", check_table, MetricPerturb)
    register_engine(on, "_dk_metric_perturb", partial(_perturb, host.governance), "found", "BIGINT[]", MetricPerturb)


@dataclass(frozen=True, kw_only=True)
class MetricPerturb(Request):
    """A call of metric_perturb. epsilon: the mechanism's, where the draw is to be recorded."""

    function = "metric_perturb"
    tbl: str
    id: str
    mechanism: str
    epsilon: Fraction | None

    def query(self) -> str:
        cell = struct(
            {
                "secret": "secret_place",
                "probability": "probability",
                "content": f"system.main.hash({as_bytes('secret')}, {as_bytes('output')})",
            }
        )
        content = row_hash(ROW)
        return fill(
            "metric_perturb",
            content=content,
            answer=call(
                "_dk_metric_perturb",
                request=self.literal,
                wanted="system.main.list(secret_place ORDER BY place)",
                rows=f"system.main.list({content} ORDER BY place)",
                mechanism=f"(SELECT system.main.list({cell} ORDER BY cell) FROM _dk_mechanism)",
                seen=seen(self.tbl),
            ),
            table=literal(self.tbl),
            absent=absent([self.id]),
            problem=check("perturb", self.literal),
            id=identifier(self.id),
            mechanism=literal(self.mechanism),
            mechanism_problem=check_side(self.mechanism, ["secret", "output", "probability"], ["probability"]),
        )

    @property
    def key(self) -> dict[str, Any]:
        """What a draw depends on. Tables are compared by their content, and names ignore case."""
        return {"id": fold(self.id), "epsilon": self.epsilon and written(self.epsilon)}

    def __str__(self) -> str:
        """The call, as the ledger shows it."""
        epsilon_shown = f", epsilon := {written(self.epsilon)}" if self.epsilon else ""
        return f"metric_perturb({literal(self.tbl)}, {literal(self.id)}, {literal(self.mechanism)}{epsilon_shown})"


def check_table(request: MetricPerturb, names: list[str], types: list[str]) -> None:
    table = Table(request.tbl, names, types)
    table.has([request.id])
    table.plain([request.id], "name of records")
    table.leaves_free(["perturbed"], [])


def check_names(unknown: int) -> None:
    """Check that the mechanism has all records. unknown: how many it does not have."""
    if unknown:
        raise InvalidInput(
            f"{unknown} records have a name that the mechanism does not have: "
            "make the mechanism from a table of all of them."
        )


def charged(request: MetricPerturb, epsilon: Fraction) -> Charge:
    """What the ledger records of a draw, beside the budget: an epsilon of a distance is no epsilon of a unit."""
    return Charge(
        epsilon,
        str(request),
        "tables that differ in the record of one row, for each unit of distance between the two records",
    )


def _perturb(
    governance: Governance,
    request: MetricPerturb,
    wanted: pa.Scalar,
    rows: pa.Scalar,
    mechanism: pa.Scalar,
    seen: pa.Scalar,
) -> pa.Array:
    """A cell of the mechanism for each record. rows: the records' hashes."""
    from duckanon.engines.metric.sampling import Rows, draw
    from duckanon.engines.randomness import Entropy

    if not mechanism.is_valid:
        raise InvalidInput("The mechanism has no rows.")
    cells = mechanism.values
    if cells.field("probability").null_count:
        raise InvalidInput("The mechanism holds NULL as a probability.")
    secret = integers(cells.field("secret"))
    weights = cells.field("probability").cast(pa.float64()).to_numpy().astype(np.float64)
    chances = Rows(np.searchsorted(secret, np.arange(secret[-1] + 2)), weights)
    if not wanted.is_valid:
        return pa.array([[]], pa.list_(pa.int64()))
    records = wanted.values
    check_names(records.null_count)
    places = integers(records)

    def release() -> pa.Array:
        return pa.array([draw(chances, places, Entropy().octets)], pa.list_(pa.int64()))

    if request.epsilon is None:
        if governance.protected(request.tbl, seen.as_py()):
            raise InvalidInput(
                "The table is protected, so a draw is recorded: say the mechanism's epsilon, as in epsilon := 1."
            )
        return release()
    content = sha256()
    for part in (places, rows.values.to_numpy(), secret, weights, cells.field("content").to_numpy()):
        content.update(len(part).to_bytes(8, "big") + np.ascontiguousarray(part).tobytes())
    charge = charged(request, request.epsilon)
    whole = {"call": request.key, "content": content.hexdigest()}
    return governance.stored_or_perturbed(request.tbl, seen.as_py(), whole, charge, release)
