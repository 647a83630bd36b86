"""k_subsets: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pyarrow as pa

from duckanon.catalog.names import literal
from duckanon.functions.arguments import check_unit
from duckanon.functions.arrow import columns_of, row_type
from duckanon.functions.arrow import rows as as_rows
from duckanon.functions.collection import COLLECTIONS
from duckanon.functions.k_request import register_k
from duckanon.functions.key_columns import Keyed
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import THREADS, absent, call, check, fill
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

_COLUMNS = columns_of("k_subsets")


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_subsets on a database instance."""
    register_k(on, KSubsets)
    register_check(on, "k_subsets", _check, KSubsets)
    kind = f"{row_type(_COLUMNS)}[]"
    register_engine(on, "_dk_k_subsets", partial(_subsets, host.progress), "rows", kind, KSubsets)


@dataclass(frozen=True, kw_only=True)
class KSubsets(Keyed):
    """A call of k_subsets."""

    function = "k_subsets"

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        checked = cls.checked(arguments)
        check_unit(checked["unit"], checked["qi"], [])
        return cls(**checked)

    def query(self) -> str:
        return fill(
            "rows_answered",
            table=literal(self.tbl),
            absent=absent([*self.qi, *self.units]),
            problem=check("k_subsets", self.literal),
            collected=self.collected(self.units),
            answer=call("_dk_k_subsets", request=self.literal, handle="collected", threads=THREADS),
        )

    def memory(self, records: int, keys: int, size: int) -> int:
        from duckanon.engines.kanon.key_subsets import memory

        return memory(records, keys, size)


def _check(request: KSubsets, names: list[str], types: list[str]) -> None:
    request.check_columns(Table(request.tbl, names, types))


def _subsets(progress: Progress, request: KSubsets, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.key_subsets import subsets

    kept = handle.as_py()
    with COLLECTIONS.work(kept) as rows:
        keys = request.keys(rows, max(1, int(threads.as_py())))
        measured = []
        for subset in subsets(keys, request.size, partial(progress, "k_subsets"), request.owners(rows)):
            places = sorted(subset.columns)
            risk = subset.classes / subset.members
            measured.append(
                (len(places), places, subset.classes, subset.least, subset.singletons, risk, subset.units_alone)
            )
    COLLECTIONS.drop(kept)
    answer = [
        {
            "columns": [request.qi[j] for j in places],
            "classes": classes,
            "k": least,
            "singletons": singletons,
            "max_risk": 1 / least,
            "avg_risk": risk,
            "units_alone": alone,
        }
        for _, places, classes, least, singletons, risk, alone in sorted(measured, key=lambda row: row[:2])
    ]
    return as_rows(answer, _COLUMNS)
