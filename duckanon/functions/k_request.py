"""What calls of the k functions have in common: the table, its quasi-identifiers, and how an engine gets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.catalog.names import fold
from duckanon.functions import arguments
from duckanon.functions.collection import COLLECTIONS, Collection, collected
from duckanon.functions.generalisation import Generalisation
from duckanon.functions.request import Request
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import bytes_of, opened
from duckanon.functions.udf import Instance, register_open

if TYPE_CHECKING:
    from duckanon.engines.kanon.hierarchy import Hierarchy
    from duckanon.engines.kanon.records import Records


@dataclass(frozen=True, kw_only=True)
class KRequest(Request):
    """A call about the quasi-identifiers of a table. Where an engine gets the rows, it opens a collection for them."""

    tbl: str
    qi: tuple[str, ...]

    def check_size(self, records: int, threads: int, limit: int) -> None:
        """Check what can be checked before a row is handed over. limit: of memory, in bytes. Raises InvalidInput."""
        raise NotImplementedError

    def collected(self, columns: Iterable[str] = (), instead: Mapping[str, str] | None = None) -> str:
        """SQL: an aggregate over the rows that hands over the quasi-identifiers and other columns.

        instead: SQL of what is handed over in place of some columns, by name.
        """
        return collected(opened(self.function, self.literal, **self.facts), [*self.qi, *columns], instead)

    @property
    def facts(self) -> dict[str, str]:
        """SQL: what is known of the rows before they are handed over."""
        return {}

    def trees(self, outside: pa.Scalar | None, trees: pa.Scalar | None) -> Mapping[str, Hierarchy] | None:  # noqa: ARG002
        """The hierarchies of the columns. outside, trees: the `facts`."""
        return None


@dataclass(frozen=True, kw_only=True)
class Generalised(KRequest):
    """A call whose engine generalises the quasi-identifiers. categorical: those whose values have no order."""

    weights: tuple[float, ...]
    categorical: tuple[str, ...]
    how: Generalisation

    @classmethod
    def generalised(cls, call_arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, with those about quasi-identifiers as fields of this class. Raises InvalidInput."""
        checked = cls.checked(call_arguments)
        qi, sets = checked["qi"], checked["categorical"]
        arguments.subset(sets, qi, "categorical")
        checked["weights"] = arguments.weights(checked["weights"], qi)
        bands, hierarchies, suppress = (checked.pop(name) for name in ("bands", "hierarchies", "suppress_cells"))
        checked["how"] = Generalisation.read(bands, hierarchies, suppress, qi, sets)
        return checked

    def collected(self, columns: Iterable[str] = (), instead: Mapping[str, str] | None = None) -> str:
        return super().collected(columns, {**self.how.handed, **(instead or {})})

    @property
    def facts(self) -> dict[str, str]:
        return self.how.facts

    def trees(self, outside: pa.Scalar | None, trees: pa.Scalar | None) -> Mapping[str, Hierarchy] | None:
        return self.how.trees_of(outside, trees)

    def check_columns(self, table: Table, others: Sequence[str] = ()) -> None:
        """Check the table's columns. others: more of them that must be there. Raises InvalidInput."""
        table.has([*self.qi, *others])
        table.plain(self.qi, "quasi-identifier")
        self.how.check(table)
        if not self.how.suppress:
            table.ordered(self.qi, [*self.categorical, *self.how.labelled])

    def records(self, rows: Collection, threads: int, *, last: bool = False) -> Records:
        """The quasi-identifiers of all rows as the engine takes them. last: whether they are asked for no more."""
        from duckanon.engines.kanon.records import records

        sets, banded = {fold(name) for name in self.categorical}, {band.name for band in self.how.bands}
        return records(
            rows.attributes(self.qi, sets, self.weights, threads, banded, suppress=self.how.suppress, last=last)
        )


def register_k(on: Instance, request: type[KRequest]) -> None:
    """Register a function whose engine gets the rows: its request, and what opens a collection for them."""
    on.function(request)
    register_open(on, _open, request)


def _open(
    request: KRequest,
    records: pa.Scalar,
    threads: pa.Scalar,
    memory: pa.Scalar,
    outside: pa.Scalar | None = None,
    trees: pa.Scalar | None = None,
) -> pa.Array:
    """Open a collection for the rows, if their number is right."""
    request.check_size(records.as_py(), int(threads.as_py()), bytes_of(memory.as_py()))
    return pa.array([COLLECTIONS.open(request.trees(outside, trees))], pa.int64())
