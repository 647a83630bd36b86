"""The catalog that an analyst may see: names and types of visible tables, as queries of constants.

DuckDB's own catalog is not read: it also shows sizes, comments, defaults, numbers of objects and the SQL of views. The
relations have DuckDB's columns, since tools read them; what an analyst may not know is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot

from duckanon.catalog.names import TableName
from duckanon.catalog.snapshot import Catalog
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.dialect import DIALECT

SCHEMA = "information_schema"
# An ENUM with its values, anywhere in a type, such as in a field of a STRUCT.
_ENUM = re.compile(r"ENUM\((?:'(?:[^']|'')*'(?:, )?)*\)")
_Row = Mapping[str, str | int | bool]


@dataclass(frozen=True)
class _Seen:
    """A table or view that may be seen: its full name as stored, its kind, and its columns' types as they are shown."""

    name: TableName
    path: tuple[str, str, str]
    kind: str
    columns: Mapping[str, str]


def tables(catalog: Catalog) -> Node:
    """The query in place of information_schema.tables."""
    return _rows(_TABLES, [{**_named(table, "table"), "table_type": table.kind} for table in _seen(catalog)])


def columns(catalog: Catalog) -> Node:
    """The query in place of information_schema.columns."""
    return _rows(
        _COLUMNS,
        [
            {**_named(table, "table"), "column_name": name, "ordinal_position": place, "data_type": kind, **_ANY}
            for table, place, name, kind in _all_columns(catalog)
        ],
    )


def schemata(catalog: Catalog) -> Node:
    """The query in place of information_schema.schemata."""
    return _rows(
        _SCHEMATA, [{"catalog_name": database, "schema_name": schema} for database, schema in _schemas(catalog)]
    )


def duckdb_tables(catalog: Catalog) -> Node:
    """The query in place of DuckDB's function duckdb_tables."""
    return _rows(
        _DUCKDB_TABLES,
        [
            {**_stored(table, "table"), "internal": False, "temporary": table.kind == _TEMPORARY, **_width(table)}
            for table in _seen(catalog)
            if table.kind != "VIEW"
        ],
    )


def duckdb_views(catalog: Catalog) -> Node:
    """The query in place of DuckDB's function duckdb_views."""
    return _rows(
        _DUCKDB_VIEWS,
        [
            {**_stored(table, "view"), "internal": False, "temporary": table.path[0] == "temp", **_width(table)}
            for table in _seen(catalog)
            if table.kind == "VIEW"
        ],
    )


def duckdb_columns(catalog: Catalog) -> Node:
    """The query in place of DuckDB's function duckdb_columns."""
    return _rows(
        _DUCKDB_COLUMNS,
        [
            {
                **_stored(table, "table"),
                "column_name": name,
                "column_index": place,
                "internal": False,
                "data_type": kind,
            }
            for table, place, name, kind in _all_columns(catalog)
        ],
    )


def duckdb_schemas(catalog: Catalog) -> Node:
    """The query in place of DuckDB's function duckdb_schemas."""
    return _rows(
        _DUCKDB_SCHEMAS, [{"database_name": database, "schema_name": schema} for database, schema in _schemas(catalog)]
    )


def duckdb_databases(catalog: Catalog) -> Node:
    """The query in place of DuckDB's function duckdb_databases."""
    unique = dict.fromkeys(database for database, _ in _schemas(catalog))
    return _rows(
        _DUCKDB_DATABASES, [{"database_name": database, "internal": database == "temp"} for database in unique]
    )


def databases(catalog: Catalog) -> Node:
    """The query in place of SHOW DATABASES."""
    unique = dict.fromkeys(database for database, _ in _schemas(catalog) if database != "temp")
    return _rows({"database_name": "VARCHAR"}, [{"database_name": database} for database in unique])


def all_tables(catalog: Catalog) -> Node:
    """The query in place of SHOW ALL TABLES."""
    return _rows(
        _ALL_TABLES,
        [
            {
                **dict(zip(("database", "schema", "name"), table.path, strict=True)),
                "column_names": _listed(table.columns),
                "column_types": _listed(table.columns.values()),
                "temporary": table.path[0] == "temp",
            }
            for table in _seen(catalog)
        ],
    )


def table_info(catalog: Catalog, name: TableName) -> Node:
    """The query in place of pragma_table_info of a table or view that may be seen."""
    return _rows(
        _TABLE_INFO,
        [
            {"cid": place - 1, "name": column, "type": kind, "notnull": False, "pk": False}
            for table, place, column, kind in _all_columns(catalog)
            if table.name == name
        ],
    )


def names(catalog: Catalog) -> Node:
    """The query in place of SHOW TABLES: names, with their schema if they are not found without it."""
    shown = {
        table.path[2]
        if catalog.find(TableName("", "", table.name.object)) == table.name
        else f"{table.path[1]}.{table.path[2]}"
        for table in _seen(catalog)
    }
    return _rows({"name": "VARCHAR"}, [{"name": name} for name in sorted(shown)])


def labels(catalog: Catalog) -> list[str]:
    """The visible tables, as the ledger names them. Analysts see no other lines of it."""
    return sorted(
        {label for table in _seen(catalog) for label in (f"{table.path[1]}.{table.path[2]}", f"{table.path[1]}.*")}
    )


VIEWS: Mapping[str, Callable[[Catalog], Node]] = {"tables": tables, "columns": columns, "schemata": schemata}
# Also found as views of the same names.
FUNCTIONS: Mapping[str, Callable[[Catalog], Node]] = {
    "duckdb_tables": duckdb_tables,
    "duckdb_columns": duckdb_columns,
    "duckdb_views": duckdb_views,
    "duckdb_schemas": duckdb_schemas,
    "duckdb_databases": duckdb_databases,
}
LISTS: Mapping[str, Callable[[Catalog], Node]] = {
    "TABLES": names,
    "ALL TABLES": all_tables,
    "DATABASES": databases,
}


def shown_type(kind: str, catalog: Catalog, name: TableName) -> str:
    """A column's type as it is shown: without the values of an ENUM, unless the table itself is open."""
    return kind if name in catalog.tables else _ENUM.sub("VARCHAR", kind)


_TEMPORARY = "LOCAL TEMPORARY"


def _seen(catalog: Catalog) -> list[_Seen]:
    seen: list[_Seen] = []
    for name, stored in catalog.tables.items():
        seen.append(_Seen(name, stored.path, _TEMPORARY if stored.temporary else "BASE TABLE", stored.columns))
    for name, view in catalog.views.items():
        seen.append(_Seen(name, view.path, "VIEW", _shown(view.types, catalog, name)))
    for name, protected in catalog.protected.items():
        path = protected.stored.path if protected.stored is not None else (name.catalog, name.schema, name.object)
        kinds = protected.stored.columns if protected.stored is not None else {}
        seen.append(_Seen(name, path, "PROTECTED", _shown(kinds, catalog, name)))
    return sorted(seen, key=lambda entry: (entry.path[1], entry.path[2], entry.name))


def _shown(kinds: Mapping[str, str], catalog: Catalog, name: TableName) -> dict[str, str]:
    return {column: shown_type(kind, catalog, name) for column, kind in kinds.items()}


def _all_columns(catalog: Catalog) -> Iterator[tuple[_Seen, int, str, str]]:
    for table in _seen(catalog):
        for place, (name, kind) in enumerate(table.columns.items(), 1):
            yield table, place, name, kind


def _schemas(catalog: Catalog) -> list[tuple[str, str]]:
    """The databases and schemas of what may be seen, and those in which names are looked up."""
    own = [(database, schema) for database, schema in catalog.search if database not in ("system", "temp")]
    return sorted({table.path[:2] for table in _seen(catalog)} | set(own))


def _named(table: _Seen, kind: str) -> _Row:
    return dict(zip((f"{kind}_catalog", f"{kind}_schema", f"{kind}_name"), table.path, strict=True))


def _stored(table: _Seen, kind: str) -> _Row:
    return dict(zip(("database_name", "schema_name", f"{kind}_name"), table.path, strict=True))


def _width(table: _Seen) -> _Row:
    return {"column_count": len(table.columns)} if table.columns else {}


# Constraints are not shown, so every column counts as nullable.
_ANY: _Row = {"is_nullable": "YES"}


class _Sql(str):
    """A value that is SQL already."""

    __slots__ = ()


def _listed(entries: object) -> _Sql:
    return _Sql("[" + ", ".join(_literal(str(entry)) for entry in entries) + "]")  # type: ignore[attr-defined]


def _rows(header: Mapping[str, str], rows: Sequence[_Row]) -> Node:
    """A query for rows of constants. header: the columns and their types; what a row does not give is NULL."""
    present = [name for name in header if any(name in row for row in rows)]
    tuples = ", ".join("(" + ", ".join(_literal(row.get(name)) for name in present) + ")" for row in rows)
    shown = ", ".join(
        f"CAST({_quoted(name) if name in present else 'NULL'} AS {kind}) AS {_quoted(name)}"
        for name, kind in header.items()
    )
    source = f"FROM (VALUES {tuples}) AS _dk_seen({', '.join(map(_quoted, present))})" if rows else "WHERE false"
    # Sorted by the columns that have values.
    order = f" ORDER BY {', '.join(_quoted(name) for name in present)}" if present else ""
    return sqlglot.parse_one(f"SELECT {shown} {source}{order}", read=DIALECT)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _literal(value: str | int | bool | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, _Sql):
        return str(value)
    if isinstance(value, bool | int):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'"


def _header(spaced_names: str, kind: str = "VARCHAR", **others: str) -> dict[str, str]:
    """Columns of one type, but for some."""
    return {name: others.get(name, kind) for name in spaced_names.split()}


_MAP = "MAP(VARCHAR, VARCHAR)"
_TABLES = _header(
    "table_catalog table_schema table_name table_type self_referencing_column_name reference_generation "
    "user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed "
    "commit_action TABLE_COMMENT"
)
_COLUMNS = _header(
    "table_catalog table_schema table_name column_name ordinal_position column_default is_nullable data_type "
    "character_maximum_length character_octet_length numeric_precision numeric_precision_radix numeric_scale "
    "datetime_precision interval_type interval_precision character_set_catalog character_set_schema "
    "character_set_name collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name "
    "udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality dtd_identifier "
    "is_self_referencing is_identity identity_generation identity_start identity_increment identity_maximum "
    "identity_minimum identity_cycle is_generated generation_expression is_updatable COLUMN_COMMENT",
    **_header(
        "ordinal_position character_maximum_length character_octet_length numeric_precision numeric_precision_radix "
        "numeric_scale datetime_precision interval_precision",
        "INTEGER",
    ),
    **_header("is_self_referencing is_identity identity_cycle is_updatable", "BOOLEAN"),
    maximum_cardinality="BIGINT",
)
_SCHEMATA = _header(
    "catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema "
    "default_character_set_name sql_path"
)
_NUMBERS = _header("database_oid schema_oid table_oid view_oid oid parent_schema_oid data_type_id", "BIGINT")
_FLAGS = _header("internal temporary has_primary_key is_nullable readonly encrypted is_bound is_generated", "BOOLEAN")
_OTHERS = {**_NUMBERS, **_FLAGS, "tags": _MAP, "options": _MAP}
_COUNTS = _header("estimated_size column_count index_count check_constraint_count", "BIGINT")
_DUCKDB_TABLES = _header(
    "database_name database_oid schema_name schema_oid table_name table_oid comment tags internal temporary "
    "has_primary_key estimated_size column_count index_count check_constraint_count sql",
    **_OTHERS,
    **_COUNTS,
)
_DUCKDB_VIEWS = _header(
    "database_name database_oid schema_name schema_oid view_name view_oid comment tags internal temporary "
    "column_count sql is_bound",
    **_OTHERS,
    **_COUNTS,
)
_DUCKDB_COLUMNS = _header(
    "database_name database_oid schema_name schema_oid table_name table_oid column_name column_index comment internal "
    "column_default is_nullable data_type data_type_id character_maximum_length numeric_precision "
    "numeric_precision_radix numeric_scale tags is_generated generation_expression",
    **_OTHERS,
    **_header(
        "column_index character_maximum_length numeric_precision numeric_precision_radix numeric_scale", "INTEGER"
    ),
)
_DUCKDB_SCHEMAS = _header(
    "oid database_name database_oid schema_name comment tags internal sql parent_schema parent_schema_oid", **_OTHERS
)
_DUCKDB_DATABASES = _header(
    "database_name database_oid path comment tags internal type readonly encrypted cipher options", **_OTHERS
)
_ALL_TABLES = _header(
    "database schema name column_names column_types temporary",
    column_names="VARCHAR[]",
    column_types="VARCHAR[]",
    temporary="BOOLEAN",
)
_TABLE_INFO = _header("cid name type notnull dflt_value pk", cid="INTEGER", notnull="BOOLEAN", pk="BOOLEAN")
