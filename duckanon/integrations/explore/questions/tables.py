"""The tables that there are, and one of them column by column, with a role suggested for each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from duckanon.catalog.names import identifier
from duckanon.integrations.explore.catalog import Catalog, Column, Table
from duckanon.integrations.explore.choices import Choices
from duckanon.integrations.explore.jobs import Running
from duckanon.integrations.explore.questions.suggested_roles import UNIT, Figures, suggested

_SHOWN = (
    "tbl", "population", "privacy_unit", "rows_per_unit", "unit", "hierarchy", "max_size", "per_query", "public",
    "quasi_identifiers", "k", "sensitive", "small", "drop",
)  # fmt: skip


@dataclass(frozen=True)
class Tables:
    """All tables and views with their columns, policies and budgets. No record is read."""

    catalog: Catalog
    lane: ClassVar[str] = "short"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        return cls(choices.catalog)

    def answer(self, run: Running) -> object:
        """`tables` by their names in SQL, `policies` and `budgets` by the labels of tables, and `publications`."""
        policies = {record["tbl"]: {name: record[name] for name in _SHOWN} for record in run.records("FROM policies()")}
        budgets = {record["population"]: record for record in run.records("FROM privacy_budget()")}
        published = run.records("SELECT name, of, kind, variables, given FROM publications() WHERE NOT withdrawn")
        return {
            "tables": [_table(table, policies, budgets) for table in self.catalog.tables.values()],
            "publications": published,
        }

    def __hash__(self) -> int:
        return hash("tables")


def _table(table: Table, policies: dict[str, Any], budgets: dict[str, Any]) -> dict[str, Any]:
    policy = policies.get(table.label)
    budget = budgets.get(policy["population"]) if policy else None
    exact = ["epsilon_exact", "spent_exact", "remaining_exact"]
    exact += ["promise", "left_in_words"] if budget and budget["promise"] else []
    return {
        "name": table.sql,
        "label": table.label,
        "is_view": table.is_view,
        "columns": [
            {
                "name": column.name,
                "type": column.type,
                "is_text": column.is_text,
                "is_number": column.is_number,
                "is_date": column.is_date,
            }
            for column in table.columns
        ],
        "policy": policy,
        "budget": {name: budget[name] for name in exact} if budget else None,
    }


@dataclass(frozen=True)
class Profile:
    """One table: its rows, and for each column its NULLs, distinct values, values of one record, and a role and why."""

    table: Table
    lane: ClassVar[str] = "short"

    @classmethod
    def read(cls, choices: Choices) -> Self:
        return cls(choices.table())

    def answer(self, run: Running) -> object:
        ((records,),) = run.rows(f"SELECT count(*) FROM {self.table.sql}")  # noqa: S608 - a name of the catalog
        policies = [record for record in run.records("FROM policies()") if record["tbl"] == self.table.label]
        columns: list[dict[str, Any]] = []
        for one in self.table.columns:
            nulls, distinct, alone = self._figures(run, one)
            has_unit = any(column["role"] == UNIT for column in columns)
            role, reason = suggested(one, Figures(records, nulls, distinct), policies[0] if policies else {}, has_unit)
            columns.append(
                {
                    "name": one.name,
                    "type": one.type,
                    "nulls": nulls,
                    "distinct": distinct,
                    "alone": alone,
                    "can_be_quasi": not one.is_opaque,
                    "role": role,
                    "reason": reason,
                }
            )
        return {"records": records, "columns": columns}

    def _figures(self, run: Running, column: Column) -> tuple[int, int, int]:
        """NULLs, distinct values without NULL, and values that one record alone has."""
        name = identifier(column.name)
        ((nulls, distinct, alone),) = run.rows(f"""
            SELECT coalesce(sum(n) FILTER (v IS NULL), 0)::BIGINT, count(*) FILTER (v IS NOT NULL),
              count(*) FILTER (n = 1)
            FROM (SELECT {name} AS v, count(*) AS n FROM {self.table.sql} GROUP BY v)
        """)  # noqa: S608 - names of the catalog
        return nulls, distinct, alone
