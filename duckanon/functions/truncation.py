"""truncation: what the noisy answers of a protected table leave out. It tells this to a steward alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from duckanon.catalog.names import quoted
from duckanon.catalog.policy import Policy
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.request import Request
from duckanon.functions.sqltext import call, fill, seen, unit_of
from duckanon.functions.udf import Host, Instance, register_engine


class Governance(Protocol):
    """What it needs to know of policies, and a connection to read records with."""

    cursors: Any

    def policy_of(self, table: str, lookup: Mapping[str, Any]) -> tuple[Any, Policy | None]: ...

    def owned_records(self, con: duckdb.DuckDBPyConnection, location: Any) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Truncation(Request):
    """A call of truncation. rows_per_unit: None for the policy's."""

    function = "truncation"
    tbl: str
    rows_per_unit: int | None

    def query(self) -> str:
        return fill("listing", answer=call("_dk_truncation", request=self.literal, seen=seen(self.tbl)))


def register(on: Instance, host: Host) -> None:
    """Put truncation on a database instance."""
    on.function(Truncation)
    kind = f"{row_type(columns_of('truncation'))}[]"
    register_engine(on, "_dk_truncation", partial(_left_out, host.governance), "rows", kind, Truncation)


def _left_out(governance: Governance, request: Truncation, seen: pa.Scalar) -> pa.Array:
    """One row. The records are read as they are committed; nothing is recorded."""
    location, policy = governance.policy_of(request.tbl, seen.as_py())
    if policy is None:
        raise InvalidInput(
            f"{request.tbl} is not protected, so no policy says how many records of a unit count: protect it first."
        )
    unit = policy.privacy_unit
    if unit is None:
        raise InvalidInput(
            f"In the policy of {location.label} each record is a privacy unit, so none is left out: name a "
            "privacy_unit in protect where a person may have several records."
        )
    most = request.rows_per_unit or policy.contributions
    with governance.cursors.cursor() as cursor:
        records = governance.owned_records(cursor, location)
        counted = (
            f"SELECT system.main.count(*) AS n FROM {records} WHERE {quoted([unit])} IS NOT NULL "
            f"GROUP BY {unit_of(unit)}"
        )
        ((left_out,),) = cursor.execute(
            f"SELECT CAST(coalesce(system.main.sum(system.main.greatest(n - {most}, 0)), 0) AS BIGINT) FROM ({counted})"
        ).fetchall()
        units = _in_several_regions(cursor, location.path, policy)
    return rows([{"records_left_out": left_out, "units_in_several_regions": units}], columns_of("truncation"))


def _in_several_regions(cursor: duckdb.DuckDBPyConnection, path: Sequence[str], policy: Policy) -> int | None:
    """How many units have records in several regions; None where the policy counts no groups that are units."""
    if not policy.unit_is_group or not policy.hierarchy:
        return None
    assert policy.privacy_unit is not None
    # Text is compared by its bytes, as in an answer.
    regions = ", ".join(f"system.main.encode(CAST({quoted([region])} AS VARCHAR))" for region in policy.hierarchy)
    counted = (
        f"SELECT 1 FROM {quoted(path)} WHERE {quoted([policy.privacy_unit])} IS NOT NULL "
        f"GROUP BY {unit_of(policy.privacy_unit)} HAVING system.main.count(DISTINCT ({regions}, 0)) > 1"
    )
    ((count,),) = cursor.execute(f"SELECT system.main.count(*) FROM ({counted})").fetchall()
    return int(count)
