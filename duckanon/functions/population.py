"""What a call says about the population that a table was drawn from: a table of it, or how much of it was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from duckanon.catalog.names import identifier, literal
from duckanon.errors import InvalidInput
from duckanon.functions import arguments
from duckanon.functions.schema import Table
from duckanon.functions.sqltext import ROW, absent

# The column that marks the records of a population, where they are counted together with those of a table.
OTHERS = '"duckanon.others"'
_SOURCES = ("population", "fraction", "weight")


@dataclass(frozen=True)
class Population:
    """At most one of these. table: of everybody who could be in the call's table.

    fraction: the share of the population that is in it. weight: its column of how many people a record stands for.
    """

    table: str | None = None
    fraction: Fraction | None = None
    weight: str | None = None

    @classmethod
    def read(cls, checked: dict[str, Any]) -> Self:
        """Take these arguments out of `checked`. Raises InvalidInput if they contradict each other."""
        people, share, weight = (checked.pop(name) for name in _SOURCES)
        sources = [name for name, source in zip(_SOURCES, (people, share, weight), strict=True) if source is not None]
        if len(sources) > 1:
            raise InvalidInput(f"{sources[0]} and {sources[1]} both say how many people there are: give one of them.")
        arguments.disjoint([] if weight is None else [weight], checked["qi"], "weight")
        return cls(people, share, weight)

    @property
    def columns(self) -> list[str]:
        """The columns of the call's table that it needs beside the quasi-identifiers."""
        return [] if self.weight is None else [self.weight]

    @property
    def described(self) -> str:
        """SQL: the names of the columns of the table of the population."""
        if self.table is None:
            return "[]::VARCHAR[]"
        return f"(SELECT system.main.list(column_name) FROM (DESCRIBE FROM {self._people}))"

    def check(self, table: Table, people: Sequence[str], qi: Sequence[str]) -> None:
        """Check the columns of the call's table, and those of the population, whose names are `people`."""
        if self.weight is not None:
            table.has([self.weight])
            table.number(self.weight, "a weight", "a number")
        if self.table is not None:
            Table(self.table, people, [""] * len(people)).has(qi)

    def check_unit(self, unit: str | None) -> None:
        """Raises InvalidInput where units count and records have weights."""
        if unit is not None and self.weight is not None:
            raise InvalidInput(
                "weight says how many people a record stands for, and unit whose it is: give one of them (unit := '' "
                "where the table's policy names a unit)."
            )

    def together(self, own: str, qi: Sequence[str]) -> str:
        """SQL: the rows of `own` and those of the population, which a column `OTHERS` tells apart."""
        return (
            f"(SELECT *, false AS {OTHERS} FROM {own} UNION ALL BY NAME "
            f"SELECT {', '.join(map(identifier, qi))}, true AS {OTHERS} "
            f"FROM (FROM {self._people} UNION ALL BY NAME SELECT {absent(qi)} WHERE false))"
        )

    @property
    def weighed(self) -> str:
        """SQL: an aggregate over the records of a class, the people for whom they stand; NULL if a weight is none.

        Weights are added as decimals, because a sum of floats depends on the order of the rows.
        """
        weight = f"TRY_CAST({ROW}.{identifier(self.weight or '')} AS DECIMAL(28, 9))"
        return (
            f"CASE WHEN system.main.bool_and(coalesce({weight} > 0, false)) "
            f"THEN CAST(system.main.sum({weight}) AS DOUBLE) END"
        )

    def sampled(
        self, sizes: npt.NDArray[np.int64], weighed: npt.NDArray[Any]
    ) -> float | npt.NDArray[np.float64] | None:
        """The share of the population that is in the table, or of each class, shape (classes,); None if not said.

        sizes: records of each class. weighed: what `weighed` gave for each, NaN where that is NULL.
        """
        if self.fraction is not None:
            return float(self.fraction)
        if self.weight is None:
            return None
        if np.isnan(weighed).any():
            raise InvalidInput(f'Column "{self.weight}" has weights that are missing or not above 0: correct them.')
        return np.asarray(sizes / weighed, np.float64)

    @property
    def _people(self) -> str:
        return f"system.main.query_table({literal(self.table or '')})"
