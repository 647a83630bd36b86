"""k_compare: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.functions import arguments, privacy_criteria
from duckanon.functions.arrow import columns_of, row_type
from duckanon.functions.collection import COLLECTIONS, collected
from duckanon.functions.generalisation import Generalisation
from duckanon.functions.k_anonymize import check_columns, records_of
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.request import Request
from duckanon.functions.schema import Table, is_nested
from duckanon.functions.sqltext import MEMORY, THREADS, absent, bytes_of, call, check, fill, literal
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_compare on a database instance."""
    on.function("k_compare", KCompare)
    register_check(on, "_dk_k_compare_problem", _check, KCompare)
    kind = f"{row_type(columns_of('k_compare'))}[]"
    register_engine(on, "_dk_k_compare_open", _open, "handle", "BIGINT", KCompare)
    register_engine(on, "_dk_k_compare", partial(_compare, host.progress), "rows", kind, KCompare)


@dataclass(frozen=True, kw_only=True)
class KCompare(Request):
    """A call of k_compare. target: a column that a user of the release would predict."""

    tbl: str
    qi: tuple[str, ...]
    k: tuple[int, ...]
    methods: tuple[str, ...]
    weights: tuple[float, ...]
    categorical: tuple[str, ...]
    seconds: float | None
    target: str | None
    criteria: Criteria
    options: Mapping[str, int]
    how: Generalisation

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        table = arguments.table(given["tbl"])
        columns = arguments.names(given["qi"], "qi", empty=False)
        sets = arguments.names(given["categorical"], "categorical", empty=True)
        arguments.subset(sets, columns, "categorical")
        weights = arguments.weights(given["weights"], columns)
        target = None if given["target"] is None else arguments.text(given["target"], "target")
        arguments.disjoint([] if target is None else [target], columns, "target")
        criteria = privacy_criteria.read(given, columns, columns)
        if target is not None and criteria.unit is not None and fold(target) == fold(criteria.unit):
            raise InvalidInput(f'Column "{target}" is in both target and unit: name it in one of them.')
        return cls(
            tbl=table,
            qi=tuple(columns),
            categorical=tuple(sets),
            weights=tuple(weights),
            target=target,
            k=tuple(arguments.whole(one, "k") for one in arguments.many(given["k"], "k")),
            methods=tuple(arguments.text(one, "methods") for one in arguments.many(given["methods"], "methods")),
            criteria=criteria,
            seconds=arguments.seconds(given["seconds"]),
            options=arguments.options(given["options"]),
            how=Generalisation.read(given, columns, sets),
        )

    def query(self) -> str:
        learned, hidden = [] if self.target is None else [self.target], self.criteria.columns
        opened = call(
            "_dk_k_compare_open",
            request=self.literal,
            records="records",
            threads=THREADS,
            memory=MEMORY,
            **self.how.told,
        )
        return fill(
            "rows_answered",
            table=literal(self.tbl),
            absent=absent([*self.qi, *learned, *hidden]),
            problem=check("_dk_k_compare_problem", self.literal),
            trees=self.how.trees,
            joined=self.how.joined,
            places=self.how.places,
            collected=collected(opened, [*self.qi, *learned, *hidden], self.how.handed),
            answer=call("_dk_k_compare", request=self.literal, handle="collected", threads=THREADS),
        )


def _check(request: KCompare, names: list[str], types: list[str]) -> None:
    target = [] if request.target is None else [request.target]
    found = Table(request.tbl, names, types)
    check_columns(found, request.qi, request.categorical, target, request.criteria, request.how)
    if request.target is not None and is_nested(found.kind(request.target)):
        raise InvalidInput("The target column is nested: unnest it, or pick out one field as a column.")


def _open(
    request: KCompare,
    records: pa.Scalar,
    threads: pa.Scalar,
    memory: pa.Scalar,
    outside: pa.Scalar | None = None,
    trees: pa.Scalar | None = None,
) -> pa.Array:
    """Check what can be checked before a row is handed over, and open a collection for them."""
    from duckanon.engines.kanon.anonymize import check_memory
    from duckanon.engines.kanon.compare import check

    n, columns, limit = records.as_py(), len(request.qi) + len(request.criteria.columns), bytes_of(memory.as_py())
    criteria = bool(request.criteria.columns or request.criteria.max_suppression)
    check(request.methods, request.k, n, request.options, criteria)
    check_memory("The lower bound", n, columns, int(threads.as_py()), limit, blocks=False)
    return pa.array([COLLECTIONS.open(request.how.trees_of(outside, trees))], pa.int64())


def _compare(progress: Progress, request: KCompare, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.compare import Comparison, compare

    kept, workers, criteria = handle.as_py(), max(1, int(threads.as_py())), request.criteria
    with COLLECTIONS.work(kept) as rows:
        asked = Comparison(
            methods=request.methods,
            criteria=[criteria.engine_criteria(k) for k in request.k],
            seconds=request.seconds,
            options=request.options,
            content=rows.content() if criteria.columns or criteria.max_suppression else None,
            target=None if request.target is None else rows.values(request.target),
            sensitive=rows.sensitive(criteria.sensitive, workers),
            subjects=None if criteria.unit is None else rows.units(criteria.unit),
            threads=workers,
            progress=progress,
        )
        records = records_of(rows, request.qi, request.categorical, request.weights, workers, request.how)
        runs = compare(records, asked)
    COLLECTIONS.drop(kept)
    return pa.array([[asdict(run) for run in runs]])
