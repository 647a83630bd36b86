"""k_subsets: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import pyarrow as pa

from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arrow import columns_of, row_type
from duckanon.functions.arrow import rows as as_rows
from duckanon.functions.collection import COLLECTIONS, collected
from duckanon.functions.key_columns import check_keys, keys_of, opened
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import MEMORY, THREADS, absent, call, check, fill, literal
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

_COLUMNS = columns_of("k_subsets")


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_subsets on a database instance."""
    on.function("k_subsets", KSubsets)
    register_check(on, "_dk_k_subsets_problem", _check, KSubsets)
    register_engine(on, "_dk_k_subsets_open", _open, "handle", "BIGINT", KSubsets)
    kind = f"{row_type(_COLUMNS)}[]"
    register_engine(on, "_dk_k_subsets", partial(_subsets, host.progress), "rows", kind, KSubsets)


@dataclass(frozen=True, kw_only=True)
class KSubsets(Request):
    """A call of k_subsets."""

    tbl: str
    qi: tuple[str, ...]
    size: int

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        table = arguments.table(given["tbl"])
        columns = arguments.names(given["qi"], "qi", empty=False)
        return cls(tbl=table, qi=tuple(columns), size=subset_size(given["size"]))

    def query(self) -> str:
        handle = call("_dk_k_subsets_open", request=self.literal, records="records", memory=MEMORY)
        return fill(
            "rows_answered",
            table=literal(self.tbl),
            absent=absent(self.qi),
            problem=check("_dk_k_subsets_problem", self.literal),
            collected=collected(handle, self.qi),
            answer=call("_dk_k_subsets", request=self.literal, handle="collected", threads=THREADS),
        )


def subset_size(given: object) -> int:
    """The argument `size`: the number of columns of the largest subsets."""
    size = arguments.whole(given, "size")
    if size < 1:
        raise InvalidInput("size must be 1 or more: the number of columns in the largest subsets.")
    return size


def _check(request: KSubsets, names: list[str], types: list[str]) -> None:
    check_keys(Table(request.tbl, names, types), request.qi)


def _open(request: KSubsets, records: pa.Scalar, memory: pa.Scalar) -> pa.Array:
    """Check what can be checked before a row is handed over, and open a collection for them."""
    from duckanon.engines.kanon.key_subsets import memory as needed

    return opened("k_subsets", records, memory, len(request.qi), request.size, needed)


def _subsets(progress: Progress, request: KSubsets, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.key_subsets import subsets

    kept = handle.as_py()
    with COLLECTIONS.work(kept) as rows:
        keys = keys_of(rows, request.qi, max(1, int(threads.as_py())))
        found = []
        for one in subsets(keys, request.size, partial(progress, "k_subsets")):
            places = sorted(one.columns)
            found.append(
                (len(places), places, one.classes, one.least, one.singletons, one.classes / len(keys[0].codes))
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
        }
        for _, places, classes, least, singletons, risk in sorted(found)
    ]
    return as_rows(answer, _COLUMNS)
