"""How the quasi-identifiers of a call are generalised beside intervals and sets: to bands, along hierarchies, or not at
all, where single values are suppressed.

A query adds to each row the *place* of such a value: the number of its band, or of its leaf. Engines search by places,
and SQL computes what is released from the least and the greatest place of a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from duckanon.catalog.names import identifier
from duckanon.errors import InvalidInput
from duckanon.functions import bands, hierarchies
from duckanon.functions.bands import Bands
from duckanon.functions.hierarchies import Labels
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import PLACES, ROW, struct

if TYPE_CHECKING:
    from duckanon.engines.kanon.hierarchy import Hierarchy


# The word of suppress_cells for NULLs that may stand for any value.
WILDCARD = "wildcard"


def place(name: str) -> str:
    """SQL: the place of a row's value of this column."""
    return f"{ROW}.{PLACES}.{identifier(name)}"


@dataclass(frozen=True)
class Generalisation:
    """The bands and the hierarchies of a call, each in the order of its quasi-identifiers.

    suppress: whether each value is released as it is, or as NULL. wildcard: whether such a NULL may be any value.
    """

    bands: tuple[Bands, ...]
    hierarchies: tuple[Labels, ...]
    suppress: bool = False
    wildcard: bool = False

    @classmethod
    def read(
        cls,
        given_bands: object,
        given_hierarchies: object,
        suppress: bool | str,
        qi: Sequence[str],
        sets: Sequence[str],
    ) -> Generalisation:
        """Those of a call. sets: quasi-identifiers that are released as sets. Raises InvalidInput."""
        banded = bands.read(given_bands, qi, sets)
        if suppress:
            if sets or banded or given_hierarchies is not None:
                raise InvalidInput(
                    "suppress_cells releases each value as it is, or not at all: leave categorical, bands and "
                    "hierarchies out, or apply them in a view first."
                )
            return cls((), (), suppress=True, wildcard=suppress == WILDCARD)
        return cls(banded, hierarchies.read(given_hierarchies, qi, [*sets, *(band.name for band in banded)]))

    @property
    def all(self) -> tuple[Bands | Labels, ...]:
        return (*self.bands, *self.hierarchies)

    def of(self, name: str) -> Bands | Labels | None:
        """How a quasi-identifier is generalised, by its name as in `qi`; None if by an interval or a set."""
        return next((column for column in self.all if column.name == name), None)

    def check(self, table: Table) -> None:
        """Check the columns' types. Raises InvalidInput."""
        for band in self.bands:
            band.check(table)

    @property
    def labelled(self) -> list[str]:
        """The columns that have a hierarchy."""
        return [hierarchy.name for hierarchy in self.hierarchies]

    @property
    def trees(self) -> str:
        """The definitions of the query's tables with hierarchies."""
        return "".join(hierarchy.defined for hierarchy in self.hierarchies)

    @property
    def joined(self) -> str:
        """SQL: the joins of rows with them."""
        return "".join(hierarchy.joined for hierarchy in self.hierarchies)

    @property
    def places(self) -> str:
        """SQL: the column with the places of a row's values, after others; nothing if there are none."""
        fields = {column.name: column.number for column in self.all}
        return f", {struct(fields)} AS {PLACES}" if fields else ""

    @property
    def handed(self) -> dict[str, str]:
        """SQL: what is handed over of a row in place of values, by column."""
        return {column.name: place(column.name) for column in self.all}

    @property
    def facts(self) -> dict[str, str]:
        """SQL: what an engine knows before the rows: in which columns values have no place, and the hierarchies."""
        if not self.all:
            return {}
        lost = {}
        for column in self.all:
            row_value, own = f"{ROW}.{identifier(column.name)}", place(column.name)
            lost[column.name] = f"system.main.count_if({row_value} IS NOT NULL AND {own} IS NULL) > 0"
        facts = {"outside": f"(SELECT {struct(lost)} FROM _dk_rows AS {ROW})"}
        if self.hierarchies:
            facts["trees"] = struct({hierarchy.name: hierarchy.rows for hierarchy in self.hierarchies})
        return facts

    def trees_of(self, outside: pa.Scalar | None, trees: pa.Scalar | None) -> dict[str, Hierarchy]:
        """The hierarchies by column, from the `facts`. Raises InvalidInput if a value has no place."""
        from duckanon.engines.kanon.hierarchy import hierarchy

        rows = {} if trees is None else trees.as_py()
        by_column = {labels.name: hierarchy(labels.name, rows[labels.name] or []) for labels in self.hierarchies}
        lost = {} if outside is None else outside.as_py()
        for column in self.all:
            if lost[column.name]:
                raise InvalidInput(column.outside)
        return by_column
