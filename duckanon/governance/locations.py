"""Which table a name means to a connection, and which database's ledger keeps its charges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from duckanon.catalog.names import TEMPORARY, TableName, candidates, fold, parts, search_path
from duckanon.errors import InvalidInput

Identity = tuple[str | None, str]


@dataclass(frozen=True)
class Location:
    """A table as the ledger knows it.

    database: whose ledger keeps the charges. schema: None where the name is a file's, a data frame's or a CTE's; these
    and temporary tables are charged in the current database. definition: a view's SQL, else empty. made: the statement
    that made a table or view, as far as known.
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
    def identity(self) -> Identity:
        """What equals what within one ledger: DuckDB's names ignore case, those of files do not."""
        return (None, self.name) if self.schema is None else (fold(self.schema), fold(self.name))

    @property
    def path(self) -> tuple[str, str, str]:
        """The full name, of a table or view of a database."""
        return self.database, self.schema or "", self.name

    @property
    def lasting(self) -> bool:
        """Whether it is a table or view of a database, and no temporary one."""
        return self.schema is not None and self.schema != TEMPORARY


def locate(name: str, seen: Mapping[str, Any]) -> Location:
    """The table that `name` means to a connection.

    seen: what the connection sees: database and schema (the current ones), path (its search path), and found, tables
    and views that the last part of `name` may mean, each with database, schema, name and definition, and sql if known.
    Raises InvalidInput for a name that is not on the search path and that several tables have.
    """
    wanted = _written(name)
    standing = {_full(one): one for one in seen["found"] or () if fold(one["name"]) == wanted.object}
    for full in candidates(wanted, search_path(seen["database"], seen["schema"], seen["path"])):
        if full in standing:
            return _location(standing[full], seen)
    # A view of another database finds its own neighbours. To charge a table that a CTE only shares its name with is the
    # lesser evil.
    beyond = [full for full in standing if not wanted.catalog and wanted.schema in ("", full.schema)]
    if len(beyond) > 1:
        raise InvalidInput(
            f"{name} is the name of several tables: write its database and schema before it, or rename the CTE."
        )
    return _location(standing[beyond[0]], seen) if beyond else Location(seen["database"], None, name)


def expected(name: str, seen: Mapping[str, Any]) -> Location:
    """The place of a table that is gone: the first one where it could have been."""
    found = locate(name, seen)
    if found.schema is not None:
        return found
    wanted = parts(name)
    if len(wanted) == 3:
        return Location(*wanted)
    return Location(seen["database"], wanted[0] if len(wanted) == 2 else seen["schema"], wanted[-1])


def _written(name: str) -> TableName:
    found = [fold(part) for part in parts(name)]
    return TableName(*([""] * (3 - len(found)) + found))


def _full(one: Mapping[str, Any]) -> TableName:
    return TableName(*(fold(one[part]) for part in ("database", "schema", "name")))


def _location(one: Mapping[str, Any], seen: Mapping[str, Any]) -> Location:
    definition, made = one["definition"] or "", one.get("sql") or ""
    if one["database"] == TEMPORARY:
        return Location(seen["database"], TEMPORARY, one["name"], definition, made)
    return Location(one["database"], one["schema"], one["name"], definition, made)
