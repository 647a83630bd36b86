"""What a user may see, as an emulated catalog lists it: tables, views and columns with their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias
from zlib import crc32

from duckanon.server import catalog_facts as facts
from duckanon.server.noise_comments import Comment
from duckanon.server.types import pg_type

# (database, schema, table, column, type, YES or NO)
ColumnRow: TypeAlias = tuple[str, str, str, str, str, str]
# (database, schema, table, BASE TABLE or VIEW or ...)
TableRow: TypeAlias = tuple[str, str, str, str]

_SYSTEM_NAMESPACES = {facts.PG: 11, "main": 2200, facts.INFORMATION: 13000}
# PostgreSQL numbers users' objects from 16384 on. Numbers stay below 2^31, where every client's integers end.
_FIRST, _LAST = 16384, 2**31 - 1
_PARTS = re.compile(r'"(?:[^"]|"")*"|[^".]+')


@dataclass(frozen=True)
class Listing:
    """What one user may see. database: the name of the user's own. Schemas of others are listed with their database."""

    database: str
    columns: tuple[ColumnRow, ...] = ()
    tables: tuple[TableRow, ...] = ()
    comments: tuple[Comment, ...] = ()

    @classmethod
    def of(
        cls,
        database: str,
        columns: Iterable[Sequence[Any]],
        tables: Iterable[Sequence[Any]],
        comments: Iterable[Comment] = (),
    ) -> Listing:
        given = [tuple(map(str, row)) for row in columns], [tuple(map(str, row)) for row in tables]
        return cls(database, tuple(given[0]), tuple(sorted(given[1])), tuple(comments))  # type: ignore[arg-type]

    @cached_property
    def _kinds(self) -> Mapping[tuple[str, str], str]:
        """The kind of each table or view, by schema and name."""
        texts = {(self._schema(*row[:2]), row[2]): "BASE TABLE" for row in self.columns}
        return texts | {(self._schema(*row[:2]), row[2]): row[3] for row in self.tables}

    @cached_property
    def namespaces(self) -> Mapping[str, int]:
        """The numbers of the schemas."""
        own = {(schema,) for schema, _ in self._kinds} - {(schema,) for schema in _SYSTEM_NAMESPACES}
        return _SYSTEM_NAMESPACES | {name: number for (name,), number in _numbered(own).items()}

    @cached_property
    def numbers(self) -> Mapping[tuple[str, str], int]:
        """The numbers of the tables and views, by schema and name."""
        return {(schema, name): number for (schema, name), number in _numbered(self._kinds).items()}

    def classes(self) -> list[tuple[Any, ...]]:
        """Rows of seen.classes."""
        widths = dict.fromkeys(self._kinds, 0)
        for row in self.columns:
            widths[self._schema(*row[:2]), row[2]] += 1
        return [
            (self.numbers[pair], self.namespaces[pair[0]], *pair, "v" if kind == "VIEW" else "r", widths[pair])
            for pair, kind in self._kinds.items()
        ]

    def fields(self) -> list[tuple[Any, ...]]:
        """Rows of seen.columns."""
        values, place = [], dict.fromkeys(self._kinds, 0)
        for database, schema, table, column, kind, nullable in self.columns:
            pair = self._schema(database, schema), table
            place[pair] += 1
            shown = pg_type(kind)
            modifier, depth = (shown.element or shown).modifier, int(shown.element is not None)
            values.append((self.numbers[pair], column, place[pair], shown.oid, modifier, depth, nullable != "NO"))
        return values

    def described(self) -> list[tuple[Any, ...]]:
        """Rows of seen.comments."""
        places = {(field[0], field[1]): field[2] for field in self.fields()}
        values = []
        for database, schema, table, column, text in self.comments:
            number = self.numbers[self._schema(database, schema), table]
            values.append((number, places[number, column] if column else 0, text))
        return values

    def find(self, kind: str, said: str) -> int | None:
        """The number of a regclass, regtype or regnamespace by its name as a query writes it; None if there is none."""
        if kind == "regtype":
            return facts.type_numbers().get(" ".join(said.lower().removeprefix(f"{facts.PG}.").split()))
        parts = [part[1:-1].replace('""', '"') if part[:1] == '"' else part for part in _PARTS.findall(said)]
        if not parts:
            return None
        if kind == "regnamespace":
            return self._folded_namespaces.get(parts[-1].lower())
        name, schemas = parts[-1].lower(), [".".join(parts[:-1]).lower()] if len(parts) > 1 else ["main", "temp"]
        own = next((self._folded[schema, name] for schema in schemas if (schema, name) in self._folded), None)
        catalog = facts.relations().get((schemas[0] if len(parts) > 1 else facts.PG, name))
        return own if own is not None or catalog is None else catalog.oid

    # As in DuckDB, names that differ only in case are the same.

    @cached_property
    def _folded(self) -> Mapping[tuple[str, str], int]:
        return {(schema.lower(), name.lower()): number for (schema, name), number in self.numbers.items()}

    @cached_property
    def _folded_namespaces(self) -> Mapping[str, int]:
        return {name.lower(): number for name, number in self.namespaces.items()}

    def _schema(self, database: str, schema: str) -> str:
        """The schema under which a table is listed: the qualifier with which a query finds it."""
        if database == self.database:
            return schema
        return "temp" if database == "temp" else f"{database}.{schema}"


def _numbered(names: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """A number for each name. It depends on the name alone, unless two names would get the same number.

    So a client that has listed tables finds them again by number, even if other tables have been added since.
    """
    found: dict[tuple[str, ...], int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        number = _FIRST + crc32("\0".join(name).encode()) % (_LAST - _FIRST)
        while number in taken:
            number = _FIRST if number >= _LAST else number + 1
        taken.add(number)
        found[name] = number
    return found
