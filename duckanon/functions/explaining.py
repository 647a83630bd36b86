"""explain_privacy: what the guard would make of a statement, as rows. Nothing runs and nothing is charged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions.udf import Instance, register_engine

_STEP = (
    ("kind", pa.string()),
    ("object", pa.string()),
    ("decision", pa.string()),
    ("epsilon", pa.float64()),
    ("remaining", pa.float64()),
    ("reason", pa.string()),
    ("rewritten_sql", pa.string()),
)
_IN_SQL = ", ".join(f'"{name}" {"DOUBLE" if kind == pa.float64() else "VARCHAR"}' for name, kind in _STEP)

Explain = Callable[[str], Sequence[dict[str, Any]]]


def register(on: Instance, explain: Explain) -> None:
    """Put the function behind explain_privacy on a database instance. explain: the rows for a statement."""
    register_engine(on, "_dk_explain", _explained(explain), "steps", f"STRUCT({_IN_SQL})[]")


def _explained(explain: Explain) -> Callable[[pa.Scalar], pa.Array]:
    kind = pa.list_(pa.struct(list(_STEP)))

    def answer(sql: pa.Scalar) -> pa.Array:
        text = sql.as_py()
        if not isinstance(text, str):
            raise InvalidInput("explain_privacy needs a statement as text: explain_privacy('SELECT ...').")
        return pa.array([list(explain(text))], kind)

    return answer
