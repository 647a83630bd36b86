"""Calls about quasi-identifiers of which only equal and unequal counts, and these as the engines take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from duckanon.catalog.names import fold
from duckanon.errors import InvalidInput
from duckanon.functions.collection import Collection
from duckanon.functions.k_request import KRequest
from duckanon.functions.schema import Table

if TYPE_CHECKING:
    from duckanon.engines.kanon.key_subsets import Key


@dataclass(frozen=True, kw_only=True)
class Keyed(KRequest):
    """A call about subsets of the quasi-identifiers. size: the number of columns in the largest ones.

    unit: the column that names whose a record is, if units count.
    """

    size: int
    unit: str | None

    def memory(self, records: int, keys: int, size: int) -> int:
        """The bytes that the engine holds beside the keys. keys: how many columns. size: of the largest subset."""
        raise NotImplementedError

    def check_size(self, records: int, threads: int, limit: int) -> None:  # noqa: ARG002
        from duckanon.engines.kanon.key_subsets import check_size

        keys = len(self.qi)
        size = min(self.size, keys)
        if records == 0:
            raise InvalidInput("The table has no rows: there is nothing to report.")
        check_size(records, keys, size)
        # While it is handed over, a row has its number, its content's hash and its codes.
        whole = self.memory(records, keys, size) + records * (12 + 8 * keys)
        if whole > limit:
            raise InvalidInput(
                f"{self.function} would need about {whole / 2**20:,.0f} MiB beside DuckDB for {records:,} rows, more "
                f"than memory_limit ({limit / 2**20:,.0f} MiB): raise memory_limit, choose a smaller size, or name "
                "fewer columns."
            )

    @property
    def units(self) -> list[str]:
        """The column of units, if they count."""
        return [] if self.unit is None else [self.unit]

    def check_columns(self, table: Table) -> None:
        """Check that the columns are there and that their values can be compared; lists of plain values, too."""
        table.has(self.qi)
        table.plain(self.qi, "quasi-identifier", lists=True)
        table.unit(self.unit)

    def owners(self, rows: Collection) -> npt.NDArray[np.int32] | None:
        """The unit of each row, shape (n,), -1 for none; None where records count. Raises InvalidInput without any."""
        owners = None if self.unit is None else rows.units(self.unit)
        if owners is not None and (owners < 0).all():
            raise InvalidInput("The table has no rows with a unit: there is nothing to report.")
        return owners

    def keys(self, rows: Collection, threads: int) -> list[Key]:
        """The columns of all rows; NULL is a value of its own."""
        from duckanon.engines.kanon.key_subsets import Key

        attributes = rows.attributes(self.qi, {fold(name) for name in self.qi}, [1.0] * len(self.qi), threads)
        return [Key(attribute.codes.astype(np.int32, copy=False), attribute.distinct + 1) for attribute in attributes]
