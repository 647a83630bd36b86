"""k_anonymize: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from duckanon.cancellation import within
from duckanon.errors import InvalidInput
from duckanon.functions import arguments, privacy_criteria
from duckanon.functions.bands import Bands, of_one_width
from duckanon.functions.centroids import Centroids
from duckanon.functions.collection import COLLECTIONS, register_collection
from duckanon.functions.hierarchies import Labels
from duckanon.functions.k_cells import Cell, cells
from duckanon.functions.k_global import LevelCell, choose, register_levels
from duckanon.functions.k_release import CLASSES, Release
from duckanon.functions.k_request import Generalised, register_k
from duckanon.functions.k_wildcard import MOST_COLUMNS, assign, least_matched, register_wildcard
from duckanon.functions.k_within import Coarser, register_coarser
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import (
    THREADS,
    call,
    check,
)
from duckanon.functions.squares import SQUARES, without_cells, without_conditions
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

# The method that takes one level for each whole column. It is none of METHODS: it cannot do without levels.
_GLOBAL = "global"


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_anonymize on a database instance."""
    register_k(on, KAnonymize)
    register_check(on, "k_anonymize", check_table, KAnonymize)
    register_collection(on)
    register_levels(on)
    register_wildcard(on)
    register_engine(on, "_dk_k_classes", partial(_classes, host.progress), "classes", CLASSES, KAnonymize)
    register_coarser(on)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class KAnonymize(Generalised):
    """A call of k_anonymize. criteria: what sensitive columns must meet. objective: 'loss' or 'sse'. centroids: what is
    released where no cells are.
    """

    function = "k_anonymize"
    k: int
    method: str
    drop: tuple[str, ...]
    seconds: float | None
    criteria: Criteria
    options: Mapping[str, int]
    objective: str
    centroids: Centroids | None

    @classmethod
    def read(cls, call_arguments: Mapping[str, Any]) -> KAnonymize | Coarser:  # type: ignore[override] # two ways to answer
        checked = cls.generalised(call_arguments)
        arguments.disjoint(checked["drop"], checked["qi"], "drop")
        criteria = privacy_criteria.read(checked, [*checked["qi"], *checked["drop"]])
        within, centroids = checked.pop("within"), _centroids(checked)
        _check_objective(checked, criteria, centroids, within)
        if checked["how"].wildcard and within is None:
            _check_wildcard(checked, criteria)
        if within is not None:
            return Coarser.of(checked, criteria, within)
        if checked["method"] == _GLOBAL:
            _check_global(checked, criteria)
        else:
            of_one_width(checked["how"].bands, "take method := 'global', or name one width")
        options = arguments.options(checked.pop("options"))
        return cls(**checked, criteria=criteria, options=options, centroids=centroids)

    def query(self) -> str:
        """The query that answers it. Columns go to the engine as DuckDB scans them, all others stay in DuckDB."""
        return Release(
            source=self.tbl,
            cells=self.cells,
            k=self.k,
            criteria=self.criteria,
            dropped=self.drop,
            replaced=self.qi,
            problem=check("k_anonymize", self.literal),
            collected=self.collected(self.criteria.columns),
            classes=call("_dk_k_classes", request=self.literal, handle="collected", threads=THREADS),
            how=self.how,
            levels=", system.main._dk_levels(answer.classes) AS levels"
            if self.method == _GLOBAL or self.how.wildcard
            else "",
            smallest=partial(least_matched, self.qi) if self.how.wildcard else None,
        ).query

    @property
    def cells(self) -> list[Cell]:
        """What is released of each quasi-identifier."""
        if self.centroids is not None:
            return self.centroids.cells(self.qi, self.categorical)
        if self.method == _GLOBAL:
            return [LevelCell(how, number) for number, how in enumerate(self.chosen, 1)]
        return cells(self.qi, self.categorical, self.how)

    @property
    def chosen(self) -> list[Bands | Labels]:
        """For method 'global': the bands or the hierarchy of each quasi-identifier."""
        return [how for how in map(self.how.of, self.qi) if how is not None]

    def check_size(self, records: int, threads: int, limit: int) -> None:
        from duckanon.engines.kanon.anonymize import (
            check_duration,
            check_memory,
            check_method,
            check_options,
            check_seconds,
        )
        from duckanon.engines.kanon.methods import METHODS
        from duckanon.engines.kanon.records import check_k

        if self.objective == SQUARES:
            self._check_squares(records, threads, limit)
            return
        if self.method != _GLOBAL:
            check_method(self.method)
            check_seconds(self.seconds, self.method)
            check_options(self.options, [self.method])
        check_k(self.k, records)
        if self.method != _GLOBAL:
            check_duration(self.method, records, len(self.qi), self.k, seconds=self.seconds, options=self.options)
        columns, blocks = (
            len(self.qi) + len(self.criteria.columns),
            self.method != _GLOBAL and METHODS[self.method].blocks,
        )
        check_memory(f"Method '{self.method}'", records, columns, threads, limit, blocks=blocks)

    def _check_squares(self, records: int, threads: int, limit: int) -> None:
        from duckanon.engines.kanon.anonymize import check_memory
        from duckanon.engines.kanon.microaggregation.microaggregate import check_method
        from duckanon.engines.kanon.records import check_k

        check_method(self.method, records)
        check_k(self.k, records)
        check_memory("objective := 'sse'", records, len(self.qi), threads, limit, blocks=False)


def _centroids(checked: dict[str, Any]) -> Centroids | None:
    """Take the arguments about centroids out of those of a call."""
    release, steps, dominance = (checked.pop(name) for name in ("release", "steps", "dominance"))
    if release == "cells":
        if steps is not None or dominance is not None:
            raise InvalidInput("steps and dominance are about means: add release := 'centroid', or leave them out.")
        return None
    if checked["how"].all or checked["how"].suppress or checked["method"] == _GLOBAL:
        raise InvalidInput(
            "release := 'centroid' shows one value for each class: leave bands, hierarchies, suppress_cells and "
            "method := 'global' out."
        )
    return Centroids.read(steps, dominance, checked["qi"], checked["categorical"])


def _check_objective(
    checked: Mapping[str, Any], criteria: Criteria, centroids: Centroids | None, within: str | None
) -> None:
    """Check what goes together with sums of squares, and with centroids. Raises InvalidInput."""
    squares = checked["objective"] == SQUARES
    if within is not None and (squares or centroids is not None):
        raise InvalidInput(
            "within joins the classes of a release with intervals and sets: leave objective, release and steps out. "
            "Beside intervals of the same classes, means would tell single values."
        )
    if not squares:
        return
    without_cells(checked["how"])
    without_conditions(criteria, checked["options"])


def _check_wildcard(checked: Mapping[str, Any], criteria: Criteria) -> None:
    if checked["method"] == _GLOBAL:
        raise InvalidInput("Method 'global' takes one level for a whole column: leave suppress_cells out.")
    others = criteria.columns or criteria.max_suppression or checked["method"] != "auto"
    if others or checked["seconds"] is not None or checked["options"] is not None:
        raise InvalidInput(
            "suppress_cells := 'wildcard' has no conditions beside k of the records and one method: leave method, "
            "seconds, options, sensitive, l, t and max_suppression out, and write unit := '' where a policy names one."
        )
    if len(checked["qi"]) > MOST_COLUMNS:
        raise InvalidInput(f"suppress_cells := 'wildcard' takes up to {MOST_COLUMNS} quasi-identifiers: name fewer.")


def _check_global(checked: Mapping[str, Any], criteria: Criteria) -> None:
    for name in checked["qi"]:
        if checked["how"].of(name) is None:
            raise InvalidInput(
                f"Method 'global' chooses a level for each column, and \"{name}\" has none: name it in hierarchies or "
                "bands."
            )
    if checked["seconds"] is not None or checked["options"] is not None:
        raise InvalidInput("Method 'global' finds the optimum and has no options: leave seconds and options out.")
    if criteria.sensitive:
        from duckanon.engines.kanon.full_domain import check_criteria

        check_criteria(
            criteria.engine_criteria(checked["k"]), criteria.max_suppression, of_subjects=criteria.unit is not None
        )


def check_table(request: KAnonymize, names: list[str], types: list[str]) -> None:
    table = Table(request.tbl, names, types)
    request.check_columns(table, request.drop)
    request.criteria.check_columns(table)
    if request.centroids is not None:
        request.centroids.check(table, request.qi, request.categorical)
    released = ["class_id", *(name for cell in request.cells for name in cell.names)]
    table.leaves_free(released, [*request.qi, *request.drop])


# --- the engine's call ------------------------------------------------------------------------------------------------


def _classes(progress: Progress, request: KAnonymize, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.control import Control
    from duckanon.engines.kanon.private_classes import private_classes

    k, workers, kept = request.k, max(1, int(threads.as_py())), handle.as_py()
    control = Control(
        workers, partial(progress, f"k_anonymize, k = {k}"), within(request.seconds), options=request.options
    )
    criteria = request.criteria
    with COLLECTIONS.work(kept) as rows:
        if request.how.wildcard:
            rows.levels, labels = assign(request.records(rows, workers), rows.content(), k)
            rows.answer(labels)
            return pa.array([kept])
        is_global = request.method == _GLOBAL
        attributes = request.records(rows, workers, last=not is_global)
        if is_global:
            rows.levels, labels = choose(rows, request.chosen, attributes.attributes, k, criteria, progress)
        else:
            content, sensitive = (
                rows.content(),
                rows.sensitive(criteria.sensitive, workers, null_is_value=criteria.null_is_value),
            )
            subjects = None if criteria.unit is None else rows.units(criteria.unit)
            rows.let_go()
            if request.objective == SQUARES:
                from duckanon.engines.kanon.microaggregation.microaggregate import microaggregate

                rows.answer(microaggregate(attributes, k, request.method, content=content, control=control))
                return pa.array([kept])
            labels = private_classes(
                attributes,
                criteria.engine_criteria(k),
                request.method,
                content=content,
                control=control,
                sensitive=sensitive,
                subjects=subjects,
            ).labels
        rows.answer(labels)
    return pa.array([kept])
