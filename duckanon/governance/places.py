"""Which table a name means, and which database's ledger keeps its charges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckanon.errors import InvalidInput

_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
# The catalog of temporary tables, which lasts as long as its connection.
_TEMPORARY = "temp"


@dataclass(frozen=True)
class Place:
    """A table as the ledger knows it.

    database: whose ledger keeps the charges. schema: None where the name is a file's, a data frame's or a CTE's; these
    and temporary tables are charged in the current database. definition: a view's SQL, else empty.
    """

    database: str
    schema: str | None
    name: str
    definition: str = ""

    @property
    def label(self) -> str:
        """The name for people: schema and table, or what the caller wrote."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def identity(self) -> tuple[str | None, str]:
        """What equals what within one ledger: DuckDB's names ignore case, those of files do not."""
        return (None, self.name) if self.schema is None else (self.schema.lower(), self.name.lower())

    @property
    def lasting(self) -> bool:
        """Whether it is a table or view of a database, and no temporary one."""
        return self.schema is not None and self.schema != _TEMPORARY


def parts(name: str) -> list[str]:
    """The parts of a.b."c.d", without their quotes; the whole name where it has no such form."""
    found = list(_PART.finditer(name))
    if not 0 < len(found) <= 3 or ".".join(one.group(0) for one in found) != name:
        return [name]
    return [one.group(1).replace('""', '"') if one.group(1) is not None else one.group(2) for one in found]


def locate(name: str, seen: Mapping[str, Any]) -> Place:
    """The table that `name` means to a connection.

    seen: what the connection sees: database and schema (the current ones), path (its search path), and found, tables
    and views that the last part of `name` may mean, each with database, schema, name and definition.
    Raises InvalidInput for a name that is not on the search path and that several tables have.
    """
    wanted = [part.lower() for part in parts(name)]
    same = [one for one in seen["found"] or () if one["name"].lower() == wanted[-1]]
    for database, schema in _order(wanted, seen):
        for one in same:
            if (one["database"].lower(), one["schema"].lower()) == (database, schema):
                return _place(one, seen)
    # A view of another database finds its own neighbours. To charge a table that a CTE only shares its name with is the
    # lesser evil.
    beyond = [one for one in same if [one["schema"].lower(), wanted[-1]][-len(wanted) :] == wanted]
    if len(beyond) > 1:
        raise InvalidInput(
            f"{name} is the name of several tables: write its database and schema before it, or rename the CTE."
        )
    return _place(beyond[0], seen) if beyond else Place(seen["database"], None, name)


def _place(one: Mapping[str, Any], seen: Mapping[str, Any]) -> Place:
    definition = one["definition"] or ""
    if one["database"] == _TEMPORARY:
        return Place(seen["database"], _TEMPORARY, one["name"], definition)
    return Place(one["database"], one["schema"], one["name"], definition)


def expected(name: str, seen: Mapping[str, Any]) -> Place:
    """The place of a table that is gone: the first one where it could have been."""
    found = locate(name, seen)
    if found.schema is not None:
        return found
    wanted = parts(name)
    if len(wanted) == 3:
        return Place(*wanted)
    return Place(seen["database"], wanted[0] if len(wanted) == 2 else seen["schema"], wanted[-1])


def _order(wanted: Sequence[str], seen: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The schemas in which DuckDB looks for a name, in its order, in lower case."""
    current = seen["database"].lower()
    path = [parts(entry.strip()) for entry in (seen["path"] or "").split(",") if entry.strip()]
    path = [*path, [seen["schema"]], ["main"]]
    entries = [(current if len(entry) == 1 else entry[0].lower(), entry[-1].lower()) for entry in path]
    entries.insert(0, (_TEMPORARY, "main"))
    if len(wanted) == 3:
        return [(wanted[0], wanted[1])]
    if len(wanted) == 2:
        # a.b is a schema's table, or a database's in its main schema.
        databases = list(dict.fromkeys(database for database, _ in entries))
        return [(database, wanted[0]) for database in databases] + [(wanted[0], "main")]
    return entries
