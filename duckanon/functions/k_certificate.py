"""k_certificate and k_certificate_check: from a call to the query that answers it, and the engine's call inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from duckanon.cancellation import within
from duckanon.catalog.names import fold, identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions.arrow import columns_of, one_list, one_row, row_type, struct
from duckanon.functions.bands import of_one_width
from duckanon.functions.collection import COLLECTIONS, Collection
from duckanon.functions.generalisation import place
from duckanon.functions.k_request import Generalised, register_k
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import NUMBER, PLACES, ROW, THREADS, absent, ascending, call, check, exactly, fill
from duckanon.functions.sqltext import struct as sql_struct
from duckanon.functions.squares import SQUARES, without_cells
from duckanon.functions.udf import Host, Instance, Progress, register_check, register_engine

if TYPE_CHECKING:
    from duckanon.engines.kanon.control import Control
    from duckanon.engines.kanon.records import Records

_VERDICT = columns_of("k_certificate_check")
# What the certificate adds to the quasi-identifiers.
_ADDED = ("records", "price")
# The place of a record's price among those of its values, in grains; and a price that no k is so large for.
# (A record has at most all of the sum of squares: as many times the mean as there are records.)
_PRICE, _MOST, _GRAINS = "duckanon.price", 5000, 1 << 40
_CERTIFICATE = '"duckanon.certificate"'


def register(on: Instance, host: Host) -> None:
    """Put the functions behind k_certificate and k_certificate_check on a database instance."""
    register_k(on, KCertificate)
    register_check(on, "k_certificate", _check, KCertificate)
    kind = row_type({"labels": "BIGINT", "prices": "DOUBLE[]"})
    register_engine(on, "_dk_k_certificate", partial(_prices, host.progress), "found", kind, KCertificate)
    register_k(on, KCertificateCheck)
    register_check(on, "k_certificate_check", _check_both, KCertificateCheck)
    judge, kind = partial(_judge, host.progress), f"{row_type(_VERDICT)}[]"
    register_engine(on, "_dk_k_certificate_check", judge, "rows", kind, KCertificateCheck)


# --- from a call to a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Records(Generalised):
    """What both calls say of the records."""

    k: int
    objective: str

    @classmethod
    def generalised(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        checked = super().generalised(arguments)
        if checked["objective"] == SQUARES:
            without_cells(checked["how"])
        of_one_width(checked["how"].bands, "name one width")
        for name in checked["qi"]:
            if fold(name) in _ADDED:
                raise InvalidInput(f'The certificate would have two columns "{name}": rename the column of the table.')
        return checked

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> Self:
        return cls(**cls.generalised(arguments))

    def check_size(self, records: int, threads: int, limit: int) -> None:
        from duckanon.engines.kanon.anonymize import check_memory
        from duckanon.engines.kanon.records import check_k

        check_k(self.k, records)
        if self.objective == SQUARES:
            from duckanon.engines.kanon.squares_check import check_size

            check_size(records, self.k)
        check_memory("The certificate", records, len(self.qi), threads, limit, blocks=False)


@dataclass(frozen=True, kw_only=True)
class KCertificate(_Records):
    """A call of k_certificate."""

    function = "k_certificate"
    seconds: float | None

    def query(self) -> str:
        columns = [f"{ROW}.{identifier(name)}" for name in self.qi]
        return fill(
            "k_certificate",
            table=literal(self.tbl),
            absent=absent(self.qi),
            problem=check("k_certificate", self.literal),
            trees=self.how.trees,
            joined=self.how.joined,
            places=self.how.places,
            collected=self.collected(),
            found=call("_dk_k_certificate", request=self.literal, handle="collected", threads=THREADS),
            label=f"system.main._dk_label((SELECT labels FROM _dk_found), {ROW}.{NUMBER}, 1)",
            columns=", ".join(columns),
            in_order=ascending([*columns, *map(exactly, columns)]),
        )


@dataclass(frozen=True, kw_only=True)
class KCertificateCheck(_Records):
    """A call of k_certificate_check. certificate: the table with the prices."""

    function = "k_certificate_check"
    certificate: str

    def query(self) -> str:
        return fill(
            "rows_answered",
            table=literal(self.tbl),
            absent=absent(self.qi),
            problem=check(
                "k_certificate_check",
                self.literal,
                certificate_names=self._described("column_name"),
                certificate_types=self._described("column_type"),
            ),
            trees=self.how.trees,
            joined=f"{self.how.joined}\n  LEFT JOIN {self._prices} ON {self._same}",
            places=f", {sql_struct(self._places)} AS {PLACES}",
            collected=self.collected(instead={_PRICE: place(_PRICE)}),
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
        return " AND ".join(
            f"{row_value} IS NOT DISTINCT FROM {certificate_value}" for row_value, certificate_value in own
        )

    @property
    def _places(self) -> dict[str, str]:
        return {**{column.name: column.number for column in self.how.all}, _PRICE: f"{_CERTIFICATE}.price"}


def _check(request: _Records, names: list[str], types: list[str]) -> None:
    request.check_columns(Table(request.tbl, names, types))


def _check_both(
    request: KCertificateCheck,
    names: list[str],
    types: list[str],
    certificate_names: list[str],
    certificate_types: list[str],
) -> None:
    _check(request, names, types)
    prices = Table(request.certificate, certificate_names, certificate_types)
    prices.has([*request.qi, "price"])
    prices.number("price", "a price", "DOUBLE")


# --- the engine's call ------------------------------------------------------------------------------------------------


def _of(rows: Collection, request: _Records, threads: int) -> tuple[Any, int]:
    """The records, and what each loses in any class, in grains: prices in SQL hold it, prices of the engine do not.

    (Where sums of squares are kept small, there are no bands, so that is nothing.)
    """
    records = request.records(rows, threads)
    return records, int(records.floor * _GRAINS * (1.0 - 2.0**-50))


def _prices(progress: Progress, request: KCertificate, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    """A label for the rows of each price, which the collection keeps, and the prices by label."""
    from duckanon.engines.kanon.control import Control

    kept, workers = handle.as_py(), max(1, int(threads.as_py()))
    with COLLECTIONS.work(kept) as rows:
        records, floor = _of(rows, request, workers)
        control = Control(workers, partial(progress, f"k_certificate, k = {request.k}"), within(request.seconds))
        prices, labels = np.unique(_proving(request, records, control) + floor, return_inverse=True)
        rows.answer(labels.ravel().astype(np.int32))
    return struct({"labels": pa.array([kept], pa.int64()), "prices": one_list(prices / _GRAINS)})


def _proving(request: KCertificate, records: Records, control: Control) -> npt.NDArray[np.int64]:
    """The prices of the records, in grains."""
    if request.objective == SQUARES:
        from duckanon.engines.kanon.microaggregation.microaggregate import priced

        return np.floor(priced(records, request.k, control) * _GRAINS).astype(np.int64)
    from duckanon.engines.kanon.certificate.certify import certify

    return certify(records, request.k, control).prices


def _judge(progress: Progress, request: KCertificateCheck, handle: pa.Scalar, threads: pa.Scalar) -> pa.Array:
    from duckanon.engines.kanon import certificate_check, squares_check

    judge = squares_check.check if request.objective == SQUARES else certificate_check.check
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
