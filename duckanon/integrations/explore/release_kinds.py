"""The kinds of releases that the page can make, as queries.

Each has its `table`, the `suffix` of the name that it gets, and `epsilon`, which it costs. `query` makes it, with
another name for the table if one is given. `published` are the arguments of publish but for names of tables, or None
where publish does not take such a release. is_call: whether the query is a call, which the approval page shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from duckanon.accounting import written as exactly
from duckanon.errors import InvalidInput
from duckanon.integrations.calls import call, policy_units, privacy_unit
from duckanon.integrations.copied_columns import Copied
from duckanon.integrations.explore.catalog import Column, Table
from duckanon.integrations.explore.choices import Choices, names
from duckanon.integrations.explore.questions.generalising import Generalised
from duckanon.integrations.explore.suppressing import Suppressing

if TYPE_CHECKING:
    from duckanon.connection import Connection


@dataclass(frozen=True)
class Copy:
    """A k-anonymous copy."""

    asked: Generalised
    k: int
    epsilon: Fraction | None = None
    suffix: str = "anonymous"
    is_call: ClassVar[bool] = True

    @classmethod
    def read(cls, choices: Choices) -> Self:
        return cls(Generalised.read(choices), choices.whole("k", 2, 100_000))

    @property
    def table(self) -> Table:
        return self.asked.table

    def query(self, of: str | None = None) -> str:
        return self.asked.anonymize(self.k, of=of)

    def published(self) -> dict[str, object] | None:
        return {}

    def facts(self, con: Connection) -> dict[str, object]:
        """What is to be known before it is confirmed: k, l and t, whose records count, and what is let out as it is.

        identifying: those of the columns let out by which a record or a unit is found.
        """
        asked = self.asked
        copied = Copied.of(con, self.table.sql, [*names(asked.qi), *asked.left_out], policy_units(con))
        unit = asked.unit.name if asked.unit else privacy_unit(con, self.table.sql)
        return {
            "k": self.k,
            "l": asked.l if asked.sensitive else None,
            "t": str(asked.t) if asked.sensitive and asked.t is not None else None,
            "unit": unit,
            "sensitive": names(asked.sensitive),
            "copied": list(copied.names),
            "identifying": copied.identifying,
        }


@dataclass(frozen=True)
class Shares:
    """A table of the shares that a design gives. digits: to how many decimals they are rounded; None: exact."""

    table: Table
    rows: tuple[Column, ...]
    cols: tuple[Column, ...]
    digits: int | None
    epsilon: Fraction | None = None
    suffix: str = "shares"
    is_call: ClassVar[bool] = False

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        rows, cols = (choices.columns(text, table, least=1, most=16) for text in ("rows", "cols"))
        if set(rows) & set(cols):
            raise InvalidInput("A column is in both rows and cols.")
        return cls(table, rows, cols, choices.maybe_whole("digits", 1, 6))

    @property
    def value(self) -> str:
        """The name of the column of shares."""
        taken = {row.name.lower() for row in (*self.rows, *self.cols)}
        return (
            "share" if "share" not in taken else next(f"share_{i}" for i in range(2, 99) if f"share_{i}" not in taken)
        )

    def query(self, of: str | None = None) -> str:
        rows, cols = (", ".join(column.sql for column in part) for part in (self.rows, self.cols))
        share = f"count(*) / sum(count(*)) OVER (PARTITION BY {rows})"
        if self.digits is not None:
            share = f"round({share}, {self.digits})"
        return f"SELECT {rows}, {cols}, {share} AS {self.value}\nFROM {of or self.table.sql}\nGROUP BY {rows}, {cols}"

    def published(self) -> dict[str, object] | None:
        return {"variables": names(self.cols), "given": names(self.rows), "value": self.value, "digits": self.digits}


@dataclass(frozen=True)
class Sizes:
    """Group sizes with noise, which are paid for."""

    table: Table
    unit: Column
    hierarchy: tuple[Column, ...]
    epsilon: Fraction
    max_size: int
    person: Column | None
    suffix: str = "group_sizes"
    is_call: ClassVar[bool] = False

    @classmethod
    def read(cls, choices: Choices) -> Self:
        table = choices.table()
        unit = choices.column("unit", table)
        if unit is None:
            raise InvalidInput("Choose the column that identifies a group.")
        return cls(
            table,
            unit,
            choices.columns("hierarchy", table, most=6),
            choices.epsilon(),
            choices.whole("max_size", 1, 1000),
            choices.column("person", table),
        )

    def query(self, of: str | None = None) -> str:
        named = {"epsilon": exactly(self.epsilon), "max_size": self.max_size}
        person = self.person.name if self.person else None
        return call(
            "dp_group_sizes", of or self.table.sql, self.unit.name, names(self.hierarchy), **named, person=person
        )

    def published(self) -> dict[str, object] | None:
        return None


@dataclass(frozen=True)
class Suppressed:
    """A table of counts or sums with suppressed cells."""

    asked: Suppressing
    epsilon: Fraction | None = None
    suffix: str = "suppressed"
    is_call: ClassVar[bool] = False

    @classmethod
    def read(cls, choices: Choices) -> Self:
        return cls(Suppressing.read(choices))

    @property
    def table(self) -> Table:
        return self.asked.table

    def query(self, of: str | None = None) -> str:
        return self.asked.query(of)

    def published(self) -> dict[str, object] | None:
        asked = self.asked
        summed = asked.value.name if asked.value else None
        by = names([*asked.rows, *asked.cols])
        return {"variables": by, "value": "value", "suppressed": "suppressed", "sum": summed}


Kind = Copy | Shares | Sizes | Suppressed
KINDS: dict[str, type[Kind]] = {"copy": Copy, "shares": Shares, "sizes": Sizes, "suppressed": Suppressed}
