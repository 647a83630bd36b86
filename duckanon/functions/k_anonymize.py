"""k_anonymize: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.engines.parallel import spread
from duckanon.errors import InvalidInput
from duckanon.functions import arguments, privacy_criteria
from duckanon.functions.encoding import encode, sensitive_columns
from duckanon.functions.k_release import CLASSES, Cell, classes, write
from duckanon.functions.k_within import Coarser, register_coarser
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import HASHES, THREADS, call, check, packed
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.kanon.records import Records


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_anonymize on a database instance."""
    on.function("k_anonymize", KAnonymize)
    register_check(on, "_dk_k_problem", check_table, KAnonymize)
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
            "criteria": privacy_criteria.read(given, [*columns, *dropped], bare=within is not None),
        }
        limit, method = arguments.seconds(given["seconds"]), arguments.text(given["method"], "method")
        if within is None:
            return cls(**told, seconds=limit, method=method, options=arguments.options(given["options"]))
        if limit is not None or method != "auto" or given["options"] is not None:
            raise InvalidInput("within joins the classes of an earlier release: leave method, seconds and options out.")
        return Coarser(**told, within=arguments.optional_table(within, "within") or "")

    def query(self) -> str:
        hidden = self.criteria.sensitive
        return write(
            self.tbl,
            self.cells,
            self.k,
            self.criteria,
            dropped=self.drop,
            replaced=self.qi,
            problem=check("_dk_k_problem", self.literal),
            classes=call(
                "_dk_k_classes",
                request=self.literal,
                rows=packed(self.qi),
                hashes=HASHES,
                sensitive=packed(hidden),
                threads=THREADS,
            ),
        )

    @property
    def cells(self) -> list[Cell]:
        """What is released of each quasi-identifier."""
        named = {name.lower() for name in self.categorical}
        return [Cell.of(name, categorical=name.lower() in named) for name in self.qi]


def check_columns(
    found: Table, qi: Sequence[str], categorical: Sequence[str], others: Sequence[str], sensitive: Sequence[str]
) -> None:
    """Check the columns that k_anonymize or k_compare names. others: those that need no order."""
    found.has([*qi, *others, *sensitive])
    found.plain(sensitive, "sensitive column")
    found.plain(qi, "quasi-identifier")
    found.ordered(qi, categorical)


def check_table(request: KAnonymize, names: list[str], types: list[str]) -> None:
    found = Table(request.tbl, names, types)
    check_columns(found, request.qi, request.categorical, request.drop, request.criteria.sensitive)
    released = ["class_id", *(name for cell in request.cells for name in cell.names)]
    found.leaves_free(released, [*request.qi, *request.drop])


# --- the engine's call ------------------------------------------------------------------------------------------------


def records_of(rows: pa.Scalar, categorical: Sequence[str], weights: Sequence[float], threads: int) -> Records:
    """All rows' quasi-identifiers as the engine takes them."""
    from duckanon.engines.kanon.records import Attribute, records

    if not rows.is_valid:
        raise InvalidInput("The table has no rows: there is nothing to anonymise.")
    packed, sets = rows.values, {name.lower() for name in categorical}
    named = [(packed.type.field(i).name, packed.field(i)) for i in range(packed.type.num_fields)]

    def one(given: tuple[tuple[str, pa.Array], float]) -> Attribute:
        (name, column), weight = given
        return encode(name, column, categorical=name.lower() in sets, weight=weight)

    return records(spread(one, zip(named, weights, strict=True), threads))


def _classes(
    progress: Progress,
    request: KAnonymize,
    rows: pa.Scalar,
    hashes: pa.Scalar,
    sensitive: pa.Scalar,
    threads: pa.Scalar,
) -> pa.Array:
    from duckanon.engines.kanon.anonymize import anonymize, check_k, check_method, check_options, check_seconds
    from duckanon.engines.kanon.control import Control
    from duckanon.engines.kanon.criteria.enforcement import settle_classes

    k, method, workers = request.k, request.method, max(1, int(threads.as_py()))
    check_method(method)
    check_seconds(request.seconds, method)
    check_options(request.options, [method])
    check_k(k, len(rows.values) if rows.is_valid else 0)
    control = Control(workers, partial(progress, f"k_anonymize, k = {k}"), request.seconds, options=request.options)
    records = records_of(rows, request.categorical, request.weights, workers)
    labels = anonymize(records, k, method, content=hashes.values.to_numpy(), control=control)
    if sensitive.is_valid:
        wanted = request.criteria.engine_criteria(k)
        labels = settle_classes(records, labels, sensitive_columns(sensitive), wanted, workers).labels
    return classes(labels)
