"""What the page asks of suppress: the call, with the costs that the officer chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call
from duckanon.integrations.explore.catalog import Column, Table
from duckanon.integrations.explore.choices import Choices, names

RULES = ("threshold", "p%", "dominance")
# What suppressing a cell costs: log(1 + value), its value, or the same for each.
COSTS = ("log", "value", "same")
_MOST_LEVELS = 4


@dataclass(frozen=True)
class Suppressing:
    """A table of counts, or of sums of `value`, and its rules. rows, cols: hierarchies, the widest column first.

    n, p, percent: of the rules threshold, p% and dominance, None where that rule is not among `rules`. unit: whose
    records are one contribution; None: as the policy has it. digits: decimals of `value`.
    """

    table: Table
    rows: tuple[Column, ...]
    cols: tuple[Column, ...]
    value: Column | None
    rules: tuple[str, ...]
    n: int | None
    p: Decimal | None
    percent: Decimal | None
    unit: Column | None
    digits: int
    cost: str

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        rows = choices.columns("rows", table, least=1, most=_MOST_LEVELS)
        cols = choices.columns("cols", table, most=_MOST_LEVELS)
        if set(rows) & set(cols):
            raise InvalidInput("A column is in both rows and cols.")
        value = choices.column("value", table)
        if value is not None and not value.is_number:
            raise InvalidInput("value is no column of numbers.")
        rules = choices.words("rules", RULES)
        n, p, percent = choices.maybe_whole("n", 2, 1_000_000), choices.percent("p"), choices.percent("percent")
        return cls(
            table=table,
            rows=rows,
            cols=cols,
            value=value,
            rules=rules,
            n=n if "threshold" in rules else None,
            p=p if "p%" in rules else None,
            percent=percent if "dominance" in rules else None,
            unit=choices.column("unit", table),
            digits=choices.whole("digits", 0, 9, 0),
            cost=choices.word("cost", COSTS, "log"),
        )

    @property
    def measure(self) -> str:
        """What a cell holds, as a heading."""
        return "Records" if self.value is None else self.value.name

    def query(self, of: str | None = None, *, audit: bool = False) -> str:
        """The query that makes the table. of: another name of the records. audit: with what is not for publication."""
        asked = call(
            "suppress",
            of or self.table.sql,
            names(self.rows),
            names(self.cols),
            value=self.value.name if self.value else None,
            rule=list(self.rules),
            n=self.n,
            p=self.p,
            percent=self.percent,
            unit=self.unit.name if self.unit else None,
            digits=self.digits or None,
            apriori=None if self.cost == "log" else self._costs,
            audit=audit or None,
        )
        return asked if self.cost == "log" else f"{self._costing(of or self.table.sql)}\nSELECT *\n{asked}"

    @property
    def _costs(self) -> str:
        """The name of the costs, which no table that is read here has."""
        return "costs_of_cells" if self.table.sql.lower() == "suppression_costs" else "suppression_costs"

    def _costing(self, of: str) -> str:
        """The costs of all cells with records, as suppress takes them."""
        total = "count(*)" if self.value is None else f"sum({self.value.sql})"
        groups = ", ".join(f"ROLLUP ({_listed(part)})" for part in (self.rows, self.cols) if part)
        levels = (
            f"{' + '.join(f'(1 - grouping({one.sql}))' for one in part) or '0'} AS {name}"
            for part, name in ((self.rows, "row_level"), (self.cols, "col_level"))
        )
        cost = total if self.cost == "value" else "1"
        columns = _listed([*self.rows, *self.cols])
        select = f"  SELECT {columns}, {', '.join(levels)}, {cost} AS cost\n  FROM {of} GROUP BY {groups}"  # noqa: S608
        return f"WITH {self._costs} AS (\n{select}\n)"


def _listed(columns: Sequence[Column]) -> str:
    return ", ".join(column.sql for column in columns)
