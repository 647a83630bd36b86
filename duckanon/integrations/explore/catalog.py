"""The tables and columns of what is explored, as data. What the browser names is looked up here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckanon.catalog.names import identifier
from duckanon.catalog.types import DATES, NUMBERS, WHOLE, base

if TYPE_CHECKING:
    from duckanon.connection import Connection

_TABLES = """
SELECT schema_name, table_name, false AS is_view FROM system.main.duckdb_tables()
WHERE database_name = system.main.current_database() AND NOT internal AND NOT temporary AND schema_name <> 'duckanon'
UNION ALL
SELECT schema_name, view_name, true FROM system.main.duckdb_views()
WHERE database_name = system.main.current_database() AND NOT internal AND NOT temporary AND schema_name <> 'duckanon'
ORDER BY ALL
"""
_COLUMNS = """
SELECT schema_name, table_name, column_name, data_type FROM system.main.duckdb_columns()
WHERE database_name = system.main.current_database() AND NOT internal ORDER BY schema_name, table_name, column_index
"""
_RESERVED = "SELECT keyword_name FROM system.main.duckdb_keywords() WHERE keyword_category <> 'unreserved'"
# Types that no quasi-identifier can have.
_OPAQUE = re.compile(r"\[\]|^STRUCT|^MAP|^UNION|^BLOB|^BIT\b|^INTERVAL|^JSON|^GEOMETRY|^VARIANT")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True)
class Column:
    """A column. type: as DuckDB writes it. sql: its name as SQL writes it, quoted only where that is necessary."""

    name: str
    type: str
    sql: str

    @property
    def is_text(self) -> bool:
        """Whether its values have no order, so that a release has sets of them."""
        return self.type == "VARCHAR"

    @property
    def is_opaque(self) -> bool:
        """Whether no quasi-identifier can have its type."""
        return _OPAQUE.search(self.type) is not None

    @property
    def is_number(self) -> bool:
        return base(self.type) in NUMBERS

    @property
    def is_whole(self) -> bool:
        return self.type in WHOLE

    @property
    def is_date(self) -> bool:
        return self.type in DATES


@dataclass(frozen=True)
class Table:
    """A table or view. sql: its name as SQL writes it, with its schema unless that is main."""

    schema: str
    name: str
    is_view: bool
    columns: tuple[Column, ...]
    sql: str

    @property
    def label(self) -> str:
        """The name by which policies and the ledger know it."""
        return f"{self.schema}.{self.name}"

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True)
class Catalog:
    """The tables by their names as SQL writes them, and the words that SQL must quote."""

    tables: Mapping[str, Table]
    reserved: frozenset[str]

    @classmethod
    def of(cls, con: Connection) -> Catalog:
        """The catalog of a connection's own database."""
        reserved = frozenset(name for (name,) in con.execute(_RESERVED).fetchall())
        columns: dict[tuple[str, str], list[Column]] = {}
        for schema, table, name, kind in con.execute(_COLUMNS).fetchall():
            columns.setdefault((schema, table), []).append(Column(name, kind, written(name, reserved)))
        tables = {}
        for schema, name, is_view in con.execute(_TABLES).fetchall():
            path = written(name, reserved)
            sql = path if schema == "main" else f"{written(schema, reserved)}.{path}"
            tables[sql] = Table(schema, name, is_view, tuple(columns.get((schema, name), ())), sql)
        return cls(tables, reserved)

    def free(self, schema: str, name: str) -> str:
        """A name that no table of the schema has: `name`, or with a number after it."""
        taken = {table.name.lower() for table in self.tables.values() if table.schema == schema}
        numbered = (name if i == 1 else f"{name}_{i}" for i in range(1, len(taken) + 2))
        return next(text for text in numbered if text.lower() not in taken)


def written(name: str, reserved: frozenset[str]) -> str:
    """The name as SQL writes it: quoted only where that is necessary."""
    return name if _PLAIN.fullmatch(name) and name not in reserved else identifier(name)
