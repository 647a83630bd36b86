"""explain_privacy: how a statement would be decided, as rows. Nothing runs and nothing is charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, row_type, rows
from duckanon.functions.listing import listed
from duckanon.functions.request import Request
from duckanon.functions.udf import Explain, Host, Instance, register_engine

_AS_WRITTEN = "For a steward it runs as it is written; for an analyst: explain_privacy(sql, role := 'analyst')."


def register(on: Instance, host: Host) -> None:
    """Put the functions behind explain_privacy on a database instance."""
    on.function(ExplainPrivacy)
    kind = f"{row_type(columns_of('explain_privacy'))}[]"
    register_engine(on, "_dk_explain_privacy", partial(_explain, host.explain), "rows", kind, ExplainPrivacy)


@dataclass(frozen=True, kw_only=True)
class ExplainPrivacy(Request):
    """A call of explain_privacy."""

    function = "explain_privacy"
    sql: str
    role: str
    within: int | None

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        if not isinstance(arguments["sql"], str):
            raise InvalidInput("explain_privacy needs a statement as text: explain_privacy('SELECT ...').")
        return super().read(arguments)

    def query(self) -> str:
        return listed("_dk_explain_privacy", self, path="system.main.current_setting('search_path')")


def _explain(explain: Explain, request: ExplainPrivacy, path: pa.Scalar) -> pa.Array:
    """path: where the caller looks names up, as DuckDB's setting."""
    as_written = {"kind": "query", "decision": "runs", "reason": _AS_WRITTEN, "rewritten_sql": request.sql}
    parts = explain(request.sql, path.as_py()) if request.role == "analyst" else [as_written]
    return rows([{**part, "needed": _needed(part, request.within)} for part in parts], columns_of("explain_privacy"))


def _needed(row: Mapping[str, Any], within: int | None) -> float | None:
    """The epsilon for which 95 % of the counts are within a width: the noise's width is proportional to 1 / epsilon."""
    if within is None or row.get("width") is None:
        return None
    return float(row["price"] * row["width"] / within)
