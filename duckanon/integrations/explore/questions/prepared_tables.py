"""What tables would cost if they were prepared together: the error of each, over prices. Nothing is bought."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import ClassVar, Self

from duckanon.accounting import written
from duckanon.integrations.calls import call
from duckanon.integrations.explore.catalog import Table
from duckanon.integrations.explore.choices import Choices, names
from duckanon.integrations.explore.jobs import Running

_MOST_COLUMNS, _MOST_WAYS = 12, 3
# Prices beside the one that is asked for, as factors of it.
_FACTORS = tuple(10 ** (at / 4) for at in range(-4, 5))


@dataclass(frozen=True)
class PreparedTables:
    """All tables of one to `ways` of some columns of a protected table, at a price in the unit of its budget."""

    table: Table
    columns: tuple[str, ...]
    ways: int
    price: Fraction
    lane: ClassVar[str] = "long"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        columns = choices.columns("columns", table, least=1, most=_MOST_COLUMNS)
        return cls(table, tuple(names(columns)), choices.whole("ways", 1, _MOST_WAYS), choices.epsilon("price"))

    def answer(self, run: Running) -> object:
        """`tables` with their errors at the price, and `curve`: the errors of all at each of several prices.

        A plan's errors are proportional to the inverse of the root of its price, so one plan gives the whole curve.
        """
        ways = range(1, min(self.ways, len(self.columns)) + 1)
        by = [list(each) for size in ways for each in combinations(self.columns, size)]
        asked = call("prepare", self.table.sql, by=by, epsilon=written(self.price))
        records = run.records(asked)
        deviations, price = [record["sd"] for record in records], records[0]["price"]
        return {
            "tables": [{name: record[name] for name in ("columns", "cells", "sd", "within")} for record in records],
            "price": price,
            "remaining": records[0]["remaining"],
            "curve": [
                {"price": factor * price, "sd": [deviation / sqrt(factor) for deviation in deviations]}
                for factor in _FACTORS
            ],
            "sql": asked,
        }
