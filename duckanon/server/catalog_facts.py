"""What PostgreSQL 15 has in its catalogs, as far as clients ask: relations with their columns, and types.

Recorded from PostgreSQL in sql/server/relations.csv and sql/server/types.csv.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from duckanon.specification import sql_root

PG, INFORMATION = "pg_catalog", "information_schema"
# The in-memory schema that stands for each of PostgreSQL's.
HELD_IN = {PG: "pg", INFORMATION: "info"}
# Functions that return no rows here, with the columns that they would have.
NO_ROWS = {
    "aclexplode": "grantor UINTEGER, grantee UINTEGER, privilege_type VARCHAR, is_grantable BOOLEAN",
    "pg_options_to_table": "option_name VARCHAR, option_value VARCHAR",
    "pg_get_publication_tables": "relid UINTEGER",
    "pg_available_extensions": "name VARCHAR, default_version VARCHAR, comment VARCHAR",
    "pg_available_extension_versions": "name VARCHAR, version VARCHAR, superuser BOOLEAN",
    "pg_event_trigger_ddl_commands": "classid UINTEGER",
    "pg_stat_get_activity": "datid UINTEGER, pid INTEGER",
    "pg_stat_file": "size BIGINT",
    "pg_lock_status": "locktype VARCHAR",
}
# Functions whose rows are those of a catalog.
ROWS_OF = {
    "pg_prepared_statement": "pg_prepared_statements",
    "pg_show_all_settings": "pg_settings",
    "pg_timezone_abbrevs": "pg_timezone_abbrevs",
    "pg_timezone_names": "pg_timezone_names",
}
_INSERTS = re.compile(r"^INSERT INTO (\S+)", re.MULTILINE)
_OTHER_SPELLINGS = {"int": 23, "decimal": 1700, "timestamp": 1114, "time": 1083}
_NUMBERS = {
    "bool": "BOOLEAN",
    "cardinal_number": "INTEGER",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "int2": "SMALLINT",
    "int2vector": "SMALLINT[]",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "interval": "INTERVAL",
    "numeric": "DECIMAL(38, 0)",
    "oid": "UINTEGER",
    "oidvector": "UINTEGER[]",
    "regtype": "UINTEGER",
    "time_stamp": "TIMESTAMP WITH TIME ZONE",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "xid": "UINTEGER",
}


@dataclass(frozen=True)
class Relation:
    """A catalog. oid: its number. columns: the names of its columns, and of their types."""

    oid: int
    schema: str
    name: str
    columns: Mapping[str, str]

    @property
    def create(self) -> str:
        """The statement that makes it in the in-memory instance, empty."""
        columns = ", ".join(f'"{name}" {held_as(kind)}' for name, kind in self.columns.items())
        return f'CREATE TABLE {HELD_IN[self.schema]}."{self.name}" ({columns})'


def held_as(kind: str) -> str:
    """The DuckDB type that holds values of a type of PostgreSQL's catalogs. All but numbers are text."""
    if kind.startswith("_"):
        return f"{_NUMBERS.get(kind[1:], 'VARCHAR')}[]"
    return _NUMBERS.get(kind, "VARCHAR")


@cache
def relations() -> Mapping[tuple[str, str], Relation]:
    """By schema and name."""
    found = {}
    for row in _rows("relations"):
        columns = dict(column.rsplit(" ", 1) for column in row["columns"].split(" | "))
        relation = Relation(int(row["oid"]), row["schema"], row["relation"], columns)
        found[relation.schema, relation.name] = relation
    return found


@cache
def types() -> list[dict[str, str]]:
    """Rows of pg_type, with their spelling in SQL."""
    return _rows("types")


@cache
def type_numbers() -> Mapping[str, int]:
    """A type's number, by its name and by its spelling."""
    by_spelling = {row["spelled"]: int(row["oid"]) for row in types()}
    return _OTHER_SPELLINGS | by_spelling | {row["typname"]: int(row["oid"]) for row in types()}


def type_name(spelled: str) -> str:
    """A type's name in pg_type, by any spelling."""
    number = str(type_numbers().get(spelled))
    return next((row["typname"] for row in types() if row["oid"] == number), spelled)


@cache
def columns_of_type(kind: str) -> frozenset[str]:
    """The names of all columns that have a type in some catalog."""
    return frozenset(name for relation in relations().values() for name, has in relation.columns.items() if has == kind)


@cache
def script(name: str) -> str:
    """A script of sql/server/, without its comments."""
    text = (sql_root() / "server" / f"{name}.sql").read_text(encoding="utf-8")
    return re.sub(r"^--.*\n", "", text, flags=re.MULTILINE)


def macros() -> str:
    """The macros that stand for PostgreSQL's functions."""
    return script("functions")


@cache
def scalars() -> frozenset[str]:
    """The names of these macros."""
    return frozenset(re.findall(r"^CREATE MACRO (\w+)\(", macros(), re.MULTILINE))


@cache
def filled_anew() -> Sequence[str]:
    """The in-memory tables that a user's tables and columns are listed in."""
    return tuple(dict.fromkeys(_INSERTS.findall(script("fill"))))


@cache
def filled() -> frozenset[str]:
    """The in-memory tables that may have rows."""
    return frozenset({*filled_anew(), *_INSERTS.findall(script("constants")), "pg.pg_type", "pg.pg_settings"})


def _rows(name: str) -> list[dict[str, str]]:
    with (sql_root() / "server" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
