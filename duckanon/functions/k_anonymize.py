"""k_anonymize: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.functions import arguments, privacy_criteria
from duckanon.functions.collection import COLLECTIONS, Collection, collected, register_collection
from duckanon.functions.generalisation import Generalisation
from duckanon.functions.k_global import LevelCell, choose, register_levels
from duckanon.functions.k_release import CLASSES, Cell, cells, write
from duckanon.functions.k_within import Coarser, register_coarser
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import (
    MEMORY,
    THREADS,
    bytes_of,
    call,
    check,
)
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.kanon.records import Records


# The method that takes one level for each whole column. It is none of METHODS: it cannot do without levels.
_GLOBAL = "global"


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_anonymize on a database instance."""
    on.function("k_anonymize", KAnonymize)
    register_check(on, "_dk_k_problem", check_table, KAnonymize)
    register_engine(on, "_dk_k_open", _open, "handle", "BIGINT", KAnonymize)
    register_collection(on)
    register_levels(on)
    register_engine(on, "_dk_k_classes", partial(_classes, host.progress), "classes", CLASSES, KAnonymize)
    register_coarser(on)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class KAnonymize(Request):
    """A call of k_anonymize. criteria: what sensitive columns must meet."""

    tbl: str
    qi: tuple[str, ...]
    k: int
    method: str
    weights: tuple[float, ...]
    categorical: tuple[str, ...]
    drop: tuple[str, ...]
    seconds: float | None
    criteria: Criteria
    options: Mapping[str, int]
    how: Generalisation

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> KAnonymize | Coarser:  # type: ignore[override] # two ways to answer
        within = given["within"]
        table = arguments.table(given["tbl"])
        columns = arguments.names(given["qi"], "qi", empty=False)
        sets = arguments.names(given["categorical"], "categorical", empty=True)
        dropped = arguments.names(given["drop"], "drop", empty=True)
        arguments.subset(sets, columns, "categorical")
        arguments.disjoint(dropped, columns, "drop")
        weights = arguments.weights(given["weights"], columns)
        k = arguments.whole(given["k"], "k")
        if k < 2:
            raise InvalidInput("k must be 2 or more: with k = 1 every record may stand alone.")
        told: dict[str, Any] = {
            "tbl": table,
            "qi": tuple(columns),
            "k": k,
            "weights": tuple(weights),
            "categorical": tuple(sets),
            "drop": tuple(dropped),
            "criteria": privacy_criteria.read(given, [*columns, *dropped], columns),
        }
        how = Generalisation.read(given, columns, sets)
        limit, method = arguments.seconds(given["seconds"]), arguments.text(given["method"], "method")
        if within is None:
            if method == _GLOBAL:
                _check_global(columns, how, limit, given)
            return cls(**told, seconds=limit, method=method, options=arguments.options(given["options"]), how=how)
        if limit is not None or method != "auto" or given["options"] is not None:
            raise InvalidInput("within joins the classes of an earlier release: leave method, seconds and options out.")
        if how.all or how.suppress:
            raise InvalidInput(
                "within joins the classes of a release with intervals and sets: leave bands, hierarchies and "
                "suppress_cells out."
            )
        return Coarser(**told, within=arguments.optional_table(within, "within") or "")

    def query(self) -> str:
        """The query that answers it. Columns go to the engine as DuckDB scans them, all others stay in DuckDB."""
        opened = call(
            "_dk_k_open", request=self.literal, records="records", threads=THREADS, memory=MEMORY, **self.how.told
        )
        return write(
            self.tbl,
            self.cells,
            self.k,
            self.criteria,
            dropped=self.drop,
            replaced=self.qi,
            problem=check("_dk_k_problem", self.literal),
            collected=collected(opened, [*self.qi, *self.criteria.columns], self.how.handed),
            classes=call("_dk_k_classes", request=self.literal, handle="collected", threads=THREADS),
            how=self.how,
            levels=", system.main._dk_levels(answer.classes) AS levels" if self.method == _GLOBAL else "",
        )

    @property
    def cells(self) -> list[Cell]:
        """What is released of each quasi-identifier."""
        if self.method == _GLOBAL:
            chosen = [self.how.of(name) for name in self.qi]
            return [LevelCell(one, number) for number, one in enumerate(chosen, 1) if one is not None]
        return cells(self.qi, self.categorical, self.how)


def _check_global(qi: Sequence[str], how: Generalisation, seconds: float | None, given: Mapping[str, Any]) -> None:
    for name in qi:
        if how.of(name) is None:
            raise InvalidInput(
                f"Method 'global' chooses a level for each column, and \"{name}\" has none: name it in hierarchies or "
                "bands."
            )
    if seconds is not None or given["options"] is not None:
        raise InvalidInput("Method 'global' finds the optimum and has no options: leave seconds and options out.")
    if given["sensitive"]:
        raise InvalidInput("Method 'global' has no conditions beside k: leave sensitive, l and t out.")


def check_columns(
    found: Table,
    qi: Sequence[str],
    categorical: Sequence[str],
    others: Sequence[str],
    criteria: Criteria,
    how: Generalisation,
) -> None:
    """Check the columns that k_anonymize or k_compare names. others: those that need no order."""
    found.has([*qi, *others, *criteria.sensitive])
    found.plain(criteria.sensitive, "sensitive column")
    found.unit(criteria.unit)
    found.plain(qi, "quasi-identifier")
    how.check(found)
    if not how.suppress:
        found.ordered(qi, [*categorical, *how.labelled])


def check_table(request: KAnonymize, names: list[str], types: list[str]) -> None:
    found = Table(request.tbl, names, types)
    check_columns(found, request.qi, request.categorical, request.drop, request.criteria, request.how)
    released = ["class_id", *(name for cell in request.cells for name in cell.names)]
    found.leaves_free(released, [*request.qi, *request.drop])


# --- the engine's call ------------------------------------------------------------------------------------------------


def records_of(
    rows: Collection,
    qi: Sequence[str],
    categorical: Sequence[str],
    weights: Sequence[float],
    threads: int,
    how: Generalisation,
    *,
    last: bool = False,
) -> Records:
    """All rows' quasi-identifiers as the engine takes them. last: whether they are asked for no more."""
    from duckanon.engines.kanon.records import records

    sets, banded = {fold(name) for name in categorical}, {one.name for one in how.bands}
    return records(rows.attributes(qi, sets, weights, threads, banded, suppress=how.suppress, last=last))


def _open(
    request: KAnonymize,
    records: pa.Scalar,
    threads: pa.Scalar,
    memory: pa.Scalar,
    outside: pa.Scalar | None = None,
    trees: pa.Scalar | None = None,
) -> pa.Array:
    """Check what can be checked before a row is handed over, and open a collection for them."""
    from duckanon.engines.kanon.anonymize import check_memory, check_method, check_options, check_seconds
    from duckanon.engines.kanon.methods import METHODS
    from duckanon.engines.kanon.records import check_k

    n, columns = records.as_py(), len(request.qi) + len(request.criteria.columns)
    if request.method != _GLOBAL:
        check_method(request.method)
        check_seconds(request.seconds, request.method)
        check_options(request.options, [request.method])
    check_k(request.k, n)
    limit, blocks = bytes_of(memory.as_py()), request.method != _GLOBAL and METHODS[request.method].blocks
    check_memory(f"Method '{request.method}'", n, columns, int(threads.as_py()), limit, blocks=blocks)
    return pa.array([COLLECTIONS.open(request.how.trees_of(outside, trees))], pa.int64())


def _classes(progress: Progress, request: KAnonymize, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.control import Control
    from duckanon.engines.kanon.private_classes import private_classes

    k, workers, kept = request.k, max(1, int(threads.as_py())), handle.as_py()
    control = Control(workers, partial(progress, f"k_anonymize, k = {k}"), request.seconds, options=request.options)
    criteria = request.criteria
    with COLLECTIONS.work(kept) as rows:
        is_global = request.method == _GLOBAL
        attributes = records_of(
            rows, request.qi, request.categorical, request.weights, workers, request.how, last=not is_global
        )
        if is_global:
            rows.levels, labels = choose(rows, request.qi, attributes.attributes, k, criteria, progress)
        else:
            content, sensitive = rows.content(), rows.sensitive(criteria.sensitive, workers)
            subjects = None if criteria.unit is None else rows.units(criteria.unit)
            rows.let_go()
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
