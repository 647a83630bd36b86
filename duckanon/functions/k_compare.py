"""k_compare: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import pyarrow as pa

from duckanon.cancellation import within
from duckanon.catalog.names import fold, literal
from duckanon.errors import InvalidInput
from duckanon.functions import arguments, privacy_criteria
from duckanon.functions.arrow import columns_of, row_type
from duckanon.functions.bands import of_one_width
from duckanon.functions.collection import COLLECTIONS
from duckanon.functions.k_request import Generalised, register_k
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.schema import Table, is_nested
from duckanon.functions.sqltext import THREADS, absent, call, check, fill
from duckanon.functions.squares import SQUARES, without_cells, without_conditions
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_compare on a database instance."""
    register_k(on, KCompare)
    register_check(on, "k_compare", _check, KCompare)
    kind = f"{row_type(columns_of('k_compare'))}[]"
    register_engine(on, "_dk_k_compare", partial(_compare, host.progress), "rows", kind, KCompare)


@dataclass(frozen=True, kw_only=True)
class KCompare(Generalised):
    """A call of k_compare. target: a column that a user of the release would predict."""

    function = "k_compare"
    k: tuple[int, ...]
    methods: tuple[str, ...]
    seconds: float | None
    target: str | None
    criteria: Criteria
    options: Mapping[str, int]
    objective: str

    @classmethod
    def read(cls, call_arguments: Mapping[str, Any]) -> Self:
        checked = cls.generalised(call_arguments)
        of_one_width(checked["how"].bands, "name one width")
        target = checked["target"]
        arguments.disjoint([] if target is None else [target], checked["qi"], "target")
        criteria = privacy_criteria.read(checked, checked["qi"])
        if target is not None and criteria.unit is not None and fold(target) == fold(criteria.unit):
            raise InvalidInput(f'Column "{target}" is in both target and unit: name it in one of them.')
        if checked["objective"] == SQUARES:
            without_cells(checked["how"])
            without_conditions(criteria, checked["options"])
        options = arguments.options(checked.pop("options"))
        return cls(**checked, criteria=criteria, options=options)

    def query(self) -> str:
        columns = [*([] if self.target is None else [self.target]), *self.criteria.columns]
        return fill(
            "rows_answered",
            table=literal(self.tbl),
            absent=absent([*self.qi, *columns]),
            problem=check("k_compare", self.literal),
            trees=self.how.trees,
            joined=self.how.joined,
            places=self.how.places,
            collected=self.collected(columns),
            answer=call("_dk_k_compare", request=self.literal, handle="collected", threads=THREADS),
        )

    def check_size(self, records: int, threads: int, limit: int) -> None:
        from duckanon.engines.kanon.anonymize import check_memory
        from duckanon.engines.kanon.compare import check as check_comparison
        from duckanon.engines.kanon.microaggregation.compare import check as check_squares

        if self.objective == SQUARES:
            check_squares(self.methods, self.k, records)
            check_memory("objective := 'sse'", records, len(self.qi), threads, limit, blocks=False)
            return
        columns = len(self.qi) + len(self.criteria.columns)
        criteria = bool(self.criteria.columns or self.criteria.max_suppression)
        check_comparison(
            self.methods, self.k, (records, len(self.qi)), self.options, classes=criteria, seconds=self.seconds
        )
        check_memory("The lower bound", records, columns, threads, limit, blocks=False)


def _check(request: KCompare, names: list[str], types: list[str]) -> None:
    table = Table(request.tbl, names, types)
    request.check_columns(table, [] if request.target is None else [request.target])
    request.criteria.check_columns(table)
    if request.target is not None and is_nested(table.kind(request.target)):
        raise InvalidInput("The target column is nested: unnest it, or pick out one field as a column.")


def _compare(progress: Progress, request: KCompare, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.compare import Comparison, compare
    from duckanon.engines.kanon.microaggregation.compare import compare_squares

    kept, workers, criteria = handle.as_py(), max(1, int(threads.as_py())), request.criteria
    with COLLECTIONS.work(kept) as rows:
        comparison = Comparison(
            methods=request.methods,
            criteria=[criteria.engine_criteria(k) for k in request.k],
            seconds=within(request.seconds),
            options=request.options,
            content=rows.content() if criteria.columns or criteria.max_suppression else None,
            target=None if request.target is None else rows.values(request.target),
            sensitive=rows.sensitive(criteria.sensitive, workers, null_is_value=criteria.null_is_value),
            subjects=None if criteria.unit is None else rows.units(criteria.unit),
            threads=workers,
            progress=progress,
        )
        records = request.records(rows, workers)
        runs = compare_squares(records, comparison) if request.objective == SQUARES else compare(records, comparison)
    COLLECTIONS.drop(kept)
    return pa.array([[asdict(run) for run in runs]])
