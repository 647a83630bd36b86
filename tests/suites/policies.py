"""The policies of fixtures/suites as calls of `protect`, written as a steward would write them.

What `protect` does not know yet is written another way, and said: a linked table is protected by the owner's column
that it has, or by the record in a population of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

FIXTURES = Path(__file__).parents[2] / "fixtures" / "suites"
# Enough for all queries of a suite, none of which costs more than one.
EPSILON, PER_QUERY = 1000, 1


@dataclass(frozen=True)
class Protected:
    """A protected table. link: of its columns, the columns of another protected table that they refer to."""

    name: str
    key: Sequence[str]
    owner: str | None = None
    link: Mapping[str, str] = field(default_factory=dict)
    without_links: str | None = None
    domains: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def parent(self) -> str:
        """The table that a linked table leads to."""
        (parent,) = {target.split(".")[0] for target in self.link.values()}
        return parent


@dataclass(frozen=True)
class Suite:
    """A suite's tables. open: of each open table its key. scale, draw_scale: of the data that is asked, and drawn from.

    nulls: whether a column may be NULL, so that NULL is in every domain. endings: domains and bounds of all columns
    whose names end so.
    """

    name: str
    population: str
    scale: str
    draw_scale: str
    nulls: bool
    open: Mapping[str, Sequence[str]]
    protected: Mapping[str, Protected]
    endings: Mapping[str, Mapping[str, Any]]

    def by_column(self, table: str, what: str, columns: Sequence[str]) -> dict[str, Any]:
        """The domains or bounds of a protected table's columns: its own, or those of names with the longest ending."""
        table_own: Mapping[str, Any] = getattr(self.protected[table], what)
        by_ending = sorted(self.endings[what].items(), key=lambda one: len(one[0]))
        shared = {column: said for end, said in by_ending for column in columns if column.endswith(end)}
        return {**shared, **table_own}

    def owned(self, table: str) -> str:
        """A query of the table's records that have an owner, who is the last column; all where the unit is the record.

        The owner is in the table that the links lead to.
        """
        joins, at = f'"{table}"', self.protected[table]
        while at.link:
            conditions = " AND ".join(f"{at.name}.{column} = {target}" for column, target in at.link.items())
            at = self.protected[at.parent]
            joins += f' JOIN "{at.name}" ON {conditions}'
        if at.owner is None:
            return f"SELECT *, NULL AS owner FROM {joins}"
        return f"SELECT {table}.*, {at.name}.{at.owner} AS owner FROM {joins} WHERE {at.name}.{at.owner} IS NOT NULL"


def read(name: str) -> Suite:
    text = tomllib.loads((FIXTURES / f"{name}.toml").read_text(encoding="utf-8"))
    tables = {table: Protected(table, **what) for table, what in text["protected"].items()}
    return Suite(name, **{**text, "protected": tables, "endings": text.get("endings", {"domains": {}, "bounds": {}})})


def protect(con: Any, suite: Suite) -> tuple[Suite, list[str]]:
    """Open and protect all tables. Returns the suite as it is protected, and what had to be written another way."""
    for table in suite.open:
        con.execute(f"SELECT open_table('{table}')").fetchall()
    said = []
    for one in suite.protected.values():
        suite, instead = _protect_table(con, suite, one)
        said += [instead] if instead else []
    return suite, said


def _protect_table(con: Any, suite: Suite, table: Protected) -> tuple[Suite, str]:
    """Make the first of several calls that is not refused. The text says how it differs from the first, and why."""
    columns = [row[0] for row in con.execute(f'DESCRIBE "{table.name}"').fetchall()]
    bounds = suite.by_column(table.name, "bounds", columns)
    domains = suite.by_column(table.name, "domains", columns)
    if suite.nulls:
        domains = {column: _with_null(domain) for column, domain in domains.items()}
    refusal, last = "", duckdb.Error()
    for owned, by in _ways(table):
        tried = replace(suite, protected={**suite.protected, table.name: owned})
        unit = _unit_arguments(con, tried, owned)
        shared = {"epsilon": EPSILON, "per_query": PER_QUERY, "public": list(domains), "bounds": bounds}
        arguments = {**shared, **unit, "domains": domains}
        call = ", ".join(f"{name} := {_literal(value)}" for name, value in arguments.items() if value)
        try:
            con.execute(f"SELECT protect('{table.name}', {call})").fetchall()
        except duckdb.Error as error:
            last, refusal = error, refusal or str(error).partition("\n")[0]
            continue
        return tried, by and f"{table.name} is protected with {by}: {refusal}"
    raise last


def _ways(table: Protected) -> list[tuple[Protected, str]]:
    """The table as it is meant, and as it was protected before there were links."""
    if not table.link:
        return [(table, "")]
    before = replace(table, link={}, owner=table.without_links)
    return [(table, ""), (before, f"the owner {before.owner}" if before.owner else "the record as its own unit")]


def _unit_arguments(con: Any, suite: Suite, table: Protected) -> dict[str, Any]:
    """The arguments that say whose the records are, and that all records of each owner count."""
    if not table.owner and not table.link:
        return {"population": table.name}
    sizes = f"SELECT count(*) AS n FROM ({suite.owned(table.name)}) GROUP BY owner"
    (most,) = con.execute(f"SELECT max(n) FROM ({sizes})").fetchone()
    shared = {"population": suite.population, "rows_per_unit": most}
    if table.link:
        return shared | {"link": table.link}
    return shared | {"privacy_unit": table.owner, "unit": table.owner, "max_size": most}


def _with_null(domain: Any) -> Any:
    """A list, a range or an open table's column with NULL."""
    described = domain if isinstance(domain, Mapping) else {"values": domain}
    return {**described, "nulls": True}


def _literal(value: Any) -> str:
    """A value of a policy as SQL."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"'{name}': {_literal(part)}" for name, part in value.items()) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, date):
        return f"DATE '{value}'"
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
