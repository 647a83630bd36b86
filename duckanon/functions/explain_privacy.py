"""explain_privacy: what would become of a statement, as rows. Nothing runs and nothing is charged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions.sqltext import identifier
from duckanon.functions.udf import Instance, register_engine

_STEP = (
    ("kind", "VARCHAR", pa.string()),
    ("object", "VARCHAR", pa.string()),
    ("decision", "VARCHAR", pa.string()),
    ("epsilon", "DOUBLE", pa.float64()),
    ("remaining", "DOUBLE", pa.float64()),
    ("edition", "BIGINT", pa.int64()),
    ("drawn", "DATE", pa.date32()),
    ("reason", "VARCHAR", pa.string()),
    ("rewritten_sql", "VARCHAR", pa.string()),
)
_IN_SQL = ", ".join(f"{identifier(name)} {kind}" for name, kind, _ in _STEP)
_AS_WRITTEN = "For a steward it runs as it is written; for an analyst: explain_privacy(sql, role := 'analyst')."

Explain = Callable[[str], Sequence[dict[str, Any]]]


def register(on: Instance, explain: Explain) -> None:
    """Put the function behind explain_privacy on a database instance. explain: the rows for an analyst's statement."""
    register_engine(on, "_dk_explain", _explained(explain), "steps", f"STRUCT({_IN_SQL})[]")


def _explained(explain: Explain) -> Callable[..., pa.Array]:
    kind = pa.list_(pa.struct([(name, arrow) for name, _, arrow in _STEP]))

    def answer(sql: pa.Scalar, role: pa.Scalar) -> pa.Array:
        text, who = sql.as_py(), role.as_py()
        if not isinstance(text, str):
            raise InvalidInput("explain_privacy needs a statement as text: explain_privacy('SELECT ...').")
        if who not in ("analyst", "steward"):
            raise InvalidInput("role must be 'analyst' or 'steward': who would run the statement.")
        return pa.array([list(explain(text)) if who == "analyst" else [_as_written(text)]], kind)

    return answer


def _as_written(text: str) -> dict[str, Any]:
    return {"kind": "query", "decision": "runs", "reason": _AS_WRITTEN, "rewritten_sql": text}
