"""k_certificate and k_certificate_check: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.arrow import columns_of, one_list, one_row, row_type, struct
from duckanon.functions.collection import COLLECTIONS, Collection, collected
from duckanon.functions.generalisation import Generalisation, place
from duckanon.functions.k_anonymize import records_of
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import (
    MEMORY,
    NUMBER,
    PLACES,
    ROW,
    THREADS,
    absent,
    ascending,
    bytes_of,
    call,
    check,
    fill,
    identifier,
    literal,
)
from duckanon.functions.sqltext import struct as sql_struct
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

_VERDICT = columns_of("k_certificate_check")
# What the certificate adds to the quasi-identifiers.
_ADDED = ("records", "price")
# The place of a record's price among those of its values, in grains; and a price that no k is so large for.
_PRICE, _MOST, _GRAINS = "duckanon.price", 4000, 1 << 40
_CERTIFICATE = '"duckanon.certificate"'


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_certificate and k_certificate_check on a database instance."""
    on.function("k_certificate", KCertificate)
    register_check(on, "_dk_k_certificate_problem", _check, KCertificate)
    register_engine(on, "_dk_k_certificate_open", _open, "handle", "BIGINT", KCertificate)
    kind = row_type({"labels": "BIGINT", "prices": "DOUBLE[]"})
    register_engine(on, "_dk_k_certificate", partial(_prices, host.progress), "found", kind, KCertificate)
    on.function("k_certificate_check", KCertificateCheck)
    register_check(on, "_dk_k_certificate_check_problem", _check_both, KCertificateCheck)
    register_engine(on, "_dk_k_certificate_check_open", _open, "handle", "BIGINT", KCertificateCheck)
    judge, kind = partial(_judge, host.progress), f"{row_type(_VERDICT)}[]"
    register_engine(on, "_dk_k_certificate_check", judge, "rows", kind, KCertificateCheck)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Records(Request):
    """What both calls say of the records."""

    tbl: str
    qi: tuple[str, ...]
    k: int
    weights: tuple[float, ...]
    categorical: tuple[str, ...]
    how: Generalisation

    @staticmethod
    def told(given: Mapping[str, Any]) -> dict[str, Any]:
        columns = arguments.names(given["qi"], "qi", empty=False)
        sets = arguments.names(given["categorical"], "categorical", empty=True)
        arguments.subset(sets, columns, "categorical")
        for name in columns:
            if fold(name) in _ADDED:
                raise InvalidInput(f'The certificate would have two columns "{name}": rename the column of the table.')
        return {
            "tbl": arguments.table(given["tbl"]),
            "qi": tuple(columns),
            "k": arguments.whole(given["k"], "k"),
            "weights": tuple(arguments.weights(given["weights"], columns)),
            "categorical": tuple(sets),
            "how": Generalisation.read(given, columns, sets),
        }

    def opened(self, function: str) -> str:
        """SQL: the call that opens a collection for the records."""
        return call(function, request=self.literal, records="records", threads=THREADS, memory=MEMORY, **self.how.told)


@dataclass(frozen=True, kw_only=True)
class KCertificate(_Records):
    """A call of k_certificate."""

    seconds: float | None

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        return cls(**cls.told(given), seconds=arguments.seconds(given["seconds"]))

    def query(self) -> str:
        columns = [f"{ROW}.{identifier(name)}" for name in self.qi]
        return fill(
            "k_certificate",
            table=literal(self.tbl),
            absent=absent(self.qi),
            problem=check("_dk_k_certificate_problem", self.literal),
            trees=self.how.trees,
            joined=self.how.joined,
            places=self.how.places,
            collected=collected(self.opened("_dk_k_certificate_open"), self.qi, self.how.handed),
            found=call("_dk_k_certificate", request=self.literal, handle="collected", threads=THREADS),
            label=f"system.main._dk_label((SELECT labels FROM _dk_found), {ROW}.{NUMBER}, 1)",
            columns=", ".join(columns),
            in_order=ascending([*columns, *(f"system.main.hash({column})" for column in columns)]),
        )


@dataclass(frozen=True, kw_only=True)
class KCertificateCheck(_Records):
    """A call of k_certificate_check. certificate: the table with the prices."""

    certificate: str

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        certificate = arguments.optional_table(given["certificate"], "certificate")
        if certificate is None:
            raise InvalidInput("certificate must be the name of a table or view with prices, in quotes.")
        return cls(**cls.told(given), certificate=certificate)

    def query(self) -> str:
        return fill(
            "rows_answered",
            table=literal(self.tbl),
            absent=absent(self.qi),
            problem=check(
                "_dk_k_certificate_check_problem",
                self.literal,
                certificate_names=self._described("column_name"),
                certificate_types=self._described("column_type"),
            ),
            trees=self.how.trees,
            joined=f"{self.how.joined}\n  LEFT JOIN {self._prices} ON {self._same}",
            places=f", {sql_struct(self._places)} AS {PLACES}",
            collected=collected(
                self.opened("_dk_k_certificate_check_open"), self.qi, {**self.how.handed, _PRICE: place(_PRICE)}
            ),
            answer=call("_dk_k_certificate_check", request=self.literal, handle="collected", threads=THREADS),
        )

    @property
    def _table(self) -> str:
        return f"system.main.query_table({literal(self.certificate)})"

    def _described(self, what: str) -> str:
        """SQL: the names or the types of the certificate's columns."""
        return f"(SELECT system.main.list({what}) FROM (DESCRIBE FROM {self._table}))"

    @property
    def _prices(self) -> str:
        """SQL: the least price of each combination of quasi-identifiers, in grains."""
        names = ", ".join(map(identifier, self.qi))
        price = "TRY_CAST(price AS DOUBLE)"
        grains = f"CAST(system.main.floor(greatest(least({price}, {_MOST}), -{_MOST}) * {_GRAINS}) AS BIGINT)"
        # (`least` passes over NULL.)
        grains = f"CASE WHEN NOT system.main.isnan({price}) THEN {grains} END"
        return (
            f"(SELECT {names}, system.main.min({grains}) AS price "
            f"FROM (FROM {self._table} UNION ALL BY NAME SELECT {absent([*self.qi, 'price'], own=False)} WHERE false) "
            f"GROUP BY {names}) AS {_CERTIFICATE}"
        )

    @property
    def _same(self) -> str:
        own = [(f"{ROW}.{identifier(name)}", f"{_CERTIFICATE}.{identifier(name)}") for name in self.qi]
        return " AND ".join(f"{value} IS NOT DISTINCT FROM {its}" for value, its in own)

    @property
    def _places(self) -> dict[str, str]:
        return {**{one.name: one.number for one in self.how.all}, _PRICE: f"{_CERTIFICATE}.price"}


def _check(request: KCertificate, names: list[str], types: list[str]) -> None:
    _check_table(request, names, types)


def _check_both(
    request: KCertificateCheck,
    names: list[str],
    types: list[str],
    certificate_names: list[str],
    certificate_types: list[str],
) -> None:
    _check_table(request, names, types)
    prices = Table(request.certificate, certificate_names, certificate_types)
    prices.has([*request.qi, "price"])
    prices.number("price", "a price", "DOUBLE")


def _check_table(request: _Records, names: list[str], types: list[str]) -> None:
    found = Table(request.tbl, names, types)
    found.has(request.qi)
    found.plain(request.qi, "quasi-identifier")
    request.how.check(found)
    if not request.how.suppress:
        found.ordered(request.qi, [*request.categorical, *request.how.labelled])


# --- the engine's call ------------------------------------------------------------------------------------------------


def _open(
    request: _Records,
    records: pa.Scalar,
    threads: pa.Scalar,
    memory: pa.Scalar,
    outside: pa.Scalar | None = None,
    trees: pa.Scalar | None = None,
) -> pa.Array:
    """Check what can be checked before a row is handed over, and open a collection for them."""
    from duckanon.engines.kanon.anonymize import check_memory
    from duckanon.engines.kanon.records import check_k

    n, limit = records.as_py(), bytes_of(memory.as_py())
    check_k(request.k, n)
    check_memory("The certificate", n, len(request.qi), int(threads.as_py()), limit, blocks=False)
    return pa.array([COLLECTIONS.open(request.how.trees_of(outside, trees))], pa.int64())


def _of(rows: Collection, request: _Records, threads: int) -> tuple[Any, int]:
    """The records, and what each loses in any class, in grains: prices in SQL hold it, prices of the engine do not."""
    found = records_of(rows, request.qi, request.categorical, request.weights, threads, request.how)
    return found, int(found.floor * _GRAINS * (1.0 - 2.0**-50))


def _prices(progress: Progress, request: KCertificate, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    """A label for the rows of each price, which the collection keeps, and the prices by label."""
    from duckanon.engines.kanon.certificate.certify import certify
    from duckanon.engines.kanon.control import Control

    kept, workers = handle.as_py(), max(1, int(threads.as_py()))
    with COLLECTIONS.work(kept) as rows:
        records, floor = _of(rows, request, workers)
        control = Control(workers, partial(progress, f"k_certificate, k = {request.k}"), request.seconds)
        prices, labels = np.unique(certify(records, request.k, control).prices + floor, return_inverse=True)
        rows.answer(labels.ravel().astype(np.int32))
    return struct({"labels": pa.array([kept], pa.int64()), "prices": one_list(prices / _GRAINS)})


def _judge(progress: Progress, request: KCertificateCheck, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon.certificate_check import check as judge

    kept, workers = handle.as_py(), max(1, int(threads.as_py()))
    with COLLECTIONS.work(kept) as rows:
        records, floor = _of(rows, request, workers)
        prices, missing = rows.places(_PRICE)
        verdict = judge(records, request.k, _priced(prices, missing, floor), partial(progress, "k_certificate_check"))
    COLLECTIONS.drop(kept)
    answer = {
        "valid": verdict.valid,
        "lower_bound": verdict.proven,
        "claimed": verdict.claimed,
        "combinations": verdict.points,
        "too_high": verdict.too_high,
        "undecided": verdict.undecided,
        "unpriced": int(missing.sum()),
    }
    return pa.array([one_row(answer, _VERDICT).to_pylist()])


def _priced(prices: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_], floor: int) -> npt.NDArray[np.int64]:
    """Prices as the engine takes them; 0 where there is none."""
    return np.where(missing, 0, prices) - floor
