"""Which table a name means to a connection, and in which database's ledger it is charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Template
from typing import Any

import duckdb

from duckanon.catalog.names import TEMPORARY, TableName, candidates, fold, parts, search_path, spelled
from duckanon.errors import InvalidInput
from duckanon.specification import sql_root

Identity = tuple[str | None, str]


@dataclass(frozen=True)
class Location:
    """A table as the ledger names it.

    database: in whose ledger it is charged. schema: None for the name of a file, a data frame or a CTE; these and
    temporary tables are charged in the current database. definition: a view's SQL; empty for others. made: the
    CREATE statement, if known.
    """

    database: str
    schema: str | None
    name: str
    definition: str = ""
    made: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """The name for people: schema and table, or what the caller wrote."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def written(self) -> str:
        """The name as calls take it, in quotes where it must be."""
        return spelled([self.schema or "", self.name])

    @property
    def identity(self) -> Identity:
        """Equal for the same table within one ledger: DuckDB's names ignore case, those of files do not."""
        return (None, self.name) if self.schema is None else (fold(self.schema), fold(self.name))

    @property
    def path(self) -> tuple[str, str, str]:
        """The full name of a table or view of a database."""
        return self.database, self.schema or "", self.name

    @property
    def lasting(self) -> bool:
        """Whether it is a table or view of a database that is not temporary."""
        return self.schema is not None and self.schema != TEMPORARY


def locate(name: str, lookup: Mapping[str, Any]) -> Location:
    """The table that `name` means to a connection.

    lookup: what the connection sees: database and schema (the current ones), path (its search path), and found (the
    tables and views that the last part of `name` may mean, each with database, schema, name, definition and sql).
    Raises InvalidInput for a name that is not on the search path and that several tables have.
    """
    wanted = _written(name)
    standing = {_full(value): value for value in lookup["found"] or () if fold(value["name"]) == wanted.object}
    for full in candidates(wanted, search_path(lookup["database"], lookup["schema"], lookup["path"])):
        if full in standing:
            return _location(standing[full], lookup)
    # A view in another database reads tables there. Charging a table for a CTE that only has its name is the lesser
    # evil.
    beyond = [full for full in standing if not wanted.catalog and wanted.schema in ("", full.schema)]
    if len(beyond) > 1:
        raise InvalidInput(
            f"{name} is the name of several tables: write its database and schema before it, or rename the CTE."
        )
    return _location(standing[beyond[0]], lookup) if beyond else Location(lookup["database"], None, name)


def seen(con: duckdb.DuckDBPyConnection, name: str) -> dict[str, Any]:
    """What a connection sees of the tables that the last part of `name` may mean, as `locate` takes it."""
    visible = Template((sql_root() / "queries" / "visible_tables.sql").read_text(encoding="utf-8"))
    ((value,),) = con.execute(f"SELECT {visible.substitute(tbl='?')}", [name]).fetchall()
    return dict(value)


def expected(name: str, lookup: Mapping[str, Any]) -> Location:
    """The location of a table that may be gone: then the first one where it could have been."""
    location = locate(name, lookup)
    if location.schema is not None:
        return location
    wanted = parts(name)
    if len(wanted) == 3:
        return Location(*wanted)
    return Location(lookup["database"], wanted[0] if len(wanted) == 2 else lookup["schema"], wanted[-1])


def _written(name: str) -> TableName:
    folds = [fold(part) for part in parts(name)]
    return TableName(*([""] * (3 - len(folds)) + folds))


def _full(one: Mapping[str, Any]) -> TableName:
    return TableName(*(fold(one[part]) for part in ("database", "schema", "name")))


def _location(one: Mapping[str, Any], lookup: Mapping[str, Any]) -> Location:
    definition, made = one["definition"] or "", one.get("sql") or ""
    if one["database"] == TEMPORARY:
        return Location(lookup["database"], TEMPORARY, one["name"], definition, made)
    return Location(one["database"], one["schema"], one["name"], definition, made)
