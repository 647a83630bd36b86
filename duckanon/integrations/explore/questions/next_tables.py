"""What else could be published beside what is published already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from duckanon.integrations.calls import call
from duckanon.integrations.explore.catalog import Table
from duckanon.integrations.explore.choices import Choices
from duckanon.integrations.explore.jobs import Running


@dataclass(frozen=True)
class NextTables:
    """The tables of counts of a protected table that could be published next."""

    table: Table
    lane: ClassVar[str] = "long"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        return cls(choices.table())

    def answer(self, run: Running) -> object:
        """Rows of next_tables, the safest and most informative first."""
        records = run.records(
            f"SELECT variables, given, publishable, cells, information, reason {call('next_tables', self.table.sql)}"
        )
        return {"candidates": records, "sql": call("next_tables", self.table.sql)}
