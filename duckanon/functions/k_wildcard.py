"""k_anonymize(..., suppress_cells := 'wildcard'): the engine's call, and the check of what it made.

A label stands for a set of equal records and a pattern: the columns that they lose, as bits. The check takes the
records' values and what is released of them, as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.catalog.names import identifier
from duckanon.functions.sqltext import ROW, as_bytes
from duckanon.functions.udf import Instance

if TYPE_CHECKING:
    from duckanon.engines.kanon.kernels.consecutive import Labels
    from duckanon.engines.kanon.records import Records
    from duckanon.engines.kanon.ties import Hashes

# Patterns are INTEGER in SQL.
MOST_COLUMNS = 31


def register_wildcard(on: Instance) -> None:
    """Register `_dk_matched(list)`: the k of a release by a list of {own, shown, many}, of values and numbers."""

    def matched(lists: Any) -> pa.Array:
        return pa.array([_least(kinds) for kinds in lists.to_pylist()], pa.int64())

    on.create("_dk_matched", matched, "BIGINT", side_effects=True)


def least_matched(qi: Sequence[str], rows: str) -> str:
    """SQL: the k of a release by `least_possible`. rows: `ROW` beside `_dk_classes`."""
    own, shown = (
        "[" + ", ".join(as_bytes(f"{table}.{identifier(name)}") for name in qi) + "]" for table in (ROW, "_dk_classes")
    )
    kinds = f"SELECT {own} AS own, {shown} AS shown, system.main.count(*) AS many FROM {rows} GROUP BY 1, 2"
    packed = "system.main.list({'own': own, 'shown': shown, 'many': many})"
    return f"(SELECT system.main._dk_matched({packed}) FROM ({kinds}))"


def assign(records: Records, content: Hashes, k: int) -> tuple[list[int], Labels]:
    """The pattern of each label, and each record's label, shape (n,). Equal records are told apart by their content."""
    from duckanon.engines.kanon.wildcard.release import release

    return release(records, content, k)


def _least(kinds: Sequence[Mapping[str, Any]]) -> int:
    from duckanon.engines.kanon.wildcard_check import least_possible

    return least_possible([(tuple(kind["own"]), tuple(kind["shown"]), kind["many"]) for kind in kinds])
