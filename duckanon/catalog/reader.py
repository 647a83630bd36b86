"""Reads a database's catalog, and makes from it the snapshot of what an analyst may see.

That is an allow-list: only tables that were opened, published or protected, and the analyst's own temporary tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from duckanon.catalog import domain_values
from duckanon.catalog.links import at_home, with_owners
from duckanon.catalog.names import TableName, fold, parts, search_path
from duckanon.catalog.openings import is_like_one_of, is_open
from duckanon.catalog.policy import Domain, collates, obstacle
from duckanon.catalog.snapshot import SCHEMA, Catalog, Macro, Protected, Stored, View

_SEARCH = """
SELECT system.main.current_database(), system.main.current_schema(), system.main.current_setting('search_path')
"""
_COLUMNS = """
SELECT database_name, schema_name, table_name, column_name, data_type FROM system.main.duckdb_columns()
WHERE NOT internal AND database_name <> 'temp'
ORDER BY database_name ASC, schema_name ASC, table_name ASC, column_index ASC
"""
_TABLES = """
SELECT database_name, schema_name, table_name, "sql" FROM system.main.duckdb_tables()
WHERE NOT internal AND NOT temporary
"""
_CONSTRAINTS = """
SELECT database_name, schema_name, table_name, constraint_column_names FROM system.main.duckdb_constraints()
WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE') AND database_name <> 'temp'
"""
_REQUIRED = """
SELECT database_name, schema_name, table_name, column_name FROM system.main.duckdb_columns()
WHERE NOT is_nullable AND NOT internal AND database_name <> 'temp'
"""
# An index of an expression holds more than names; only those of plain columns are keys.
_INDEXES = """
SELECT database_name, schema_name, table_name, CAST(expressions AS VARCHAR[]) FROM system.main.duckdb_indexes()
WHERE is_unique AND database_name <> 'temp'
"""
_COLUMN = re.compile(r'[A-Za-z_]\w*|"([^"]|"")+"', re.ASCII)
_VIEWS = """
SELECT database_name, schema_name, view_name, "sql" FROM system.main.duckdb_views() WHERE NOT internal AND NOT temporary
"""
_MACROS = """
SELECT function_name, database_name, schema_name, parameters, macro_definition, function_type = 'table_macro'
FROM system.main.duckdb_functions()
WHERE NOT internal AND function_type IN ('macro', 'table_macro') AND database_name <> 'temp'
"""
_TEMPORARY = """
SELECT database_name, schema_name, table_name, column_name, data_type FROM system.main.duckdb_columns()
WHERE database_name = 'temp' AND NOT internal ORDER BY table_name ASC, column_index ASC
"""


@dataclass(frozen=True)
class Governed:
    """What stewards have decided about one database. Tables are keyed by schema and name, folded.

    number: that of the last line of its ledger. protected: the tables that have a policy. opened, ever: as for
    `openings.is_open`. published: the tables of the schema duckanon that analysts may read.
    """

    number: int = 0
    protected: Mapping[tuple[str, str], Protected] = field(default_factory=dict)
    opened: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    published: frozenset[str] = frozenset()
    ever: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Everything:
    """All tables, views and macros of an instance's databases. unprotectable: tables that cannot be protected."""

    search: Sequence[tuple[str, str]]
    tables: Mapping[TableName, Stored]
    views: Mapping[TableName, View]
    macros: frozenset[str]
    definitions: Mapping[str, Macro]
    unprotectable: frozenset[TableName] = frozenset()


def read(con: duckdb.DuckDBPyConnection) -> Everything:
    """Everything in the catalog. con: a connection that nothing else uses meanwhile."""
    ((database, schema, path),) = con.execute(_SEARCH).fetchall()
    columns = _columns(con)
    tables, unprotectable = _tables(con, columns)
    views = {
        _name(whole): View(_path(whole), sql, tuple(columns.get(_name(whole), ())), columns.get(_name(whole), {}))
        for *whole, sql in con.execute(_VIEWS).fetchall()
    }
    macros, definitions = _macros(con.execute(_MACROS).fetchall())
    return Everything(search_path(database, schema, path), tables, views, macros, definitions, unprotectable)


def stored_tables(con: duckdb.DuckDBPyConnection) -> dict[TableName, Stored]:
    """The tables of all databases that may be protected, by name."""
    tables, unprotectable = _tables(con, _columns(con))
    return {name: stored for name, stored in tables.items() if name not in unprotectable}


def _columns(con: duckdb.DuckDBPyConnection) -> dict[TableName, dict[str, str]]:
    """The columns of all tables and views with their types."""
    columns: dict[TableName, dict[str, str]] = {}
    for *owner, column, kind in con.execute(_COLUMNS).fetchall():
        columns.setdefault(_name(owner), {})[column] = kind
    return columns


def _tables(
    con: duckdb.DuckDBPyConnection, columns: Mapping[TableName, Mapping[str, str]]
) -> tuple[dict[TableName, Stored], frozenset[TableName]]:
    """All tables, and those of them that cannot be protected."""
    tables, unprotectable, unique, required = {}, set(), _unique(con), _required(con)
    for *whole, sql in con.execute(_TABLES).fetchall():
        name = _name(whole)
        tables[name] = Stored(
            _path(whole),
            columns.get(name, {}),
            unique=tuple(unique.get(name, ())),
            collates=collates(sql or ""),
            required=frozenset(required.get(name, ())),
        )
        if obstacle(sql or "") is not None:
            unprotectable.add(name)
    return tables, frozenset(unprotectable)


def _required(con: duckdb.DuckDBPyConnection) -> dict[TableName, set[str]]:
    """The folded columns, by table, that are NOT NULL, also as those of a primary key are."""
    required: dict[TableName, set[str]] = {}
    for *owner, column in con.execute(_REQUIRED).fetchall():
        required.setdefault(_name(owner), set()).add(fold(column))
    return required


def _unique(con: duckdb.DuckDBPyConnection) -> dict[TableName, list[frozenset[str]]]:
    """The sets of folded columns, by table, of which DuckDB lets no two rows have the same values but for NULL."""
    unique: dict[TableName, list[frozenset[str]]] = {}
    for *owner, names in con.execute(_CONSTRAINTS).fetchall():
        unique.setdefault(_name(owner), []).append(frozenset(map(fold, names)))
    for *owner, expressions in con.execute(_INDEXES).fetchall():
        if all(map(_COLUMN.fullmatch, expressions)):
            unique.setdefault(_name(owner), []).append(
                frozenset(fold(parts(expression)[0]) for expression in expressions)
            )
    return unique


def temporary(con: duckdb.DuckDBPyConnection) -> dict[TableName, Stored]:
    """The temporary tables of a connection, by name."""
    columns: dict[TableName, dict[str, str]] = {}
    paths: dict[TableName, tuple[str, str, str]] = {}
    for *owner, column, kind in con.execute(_TEMPORARY).fetchall():
        columns.setdefault(_name(owner), {})[column] = kind
        paths[_name(owner)] = _path(owner)
    return {name: Stored(path, columns[name], temporary=True) for name, path in paths.items()}


def visible(whole: Everything, governed: Mapping[str, Governed], own: Mapping[TableName, Stored | View]) -> Catalog:
    """The part of the catalog that an analyst may see.

    whole: all that there is. governed: what stewards decided, by folded database. own: the analyst's temporary tables
    and views.
    """
    tables: dict[TableName, Stored] = {name: stored for name, stored in own.items() if isinstance(stored, Stored)}
    views: dict[TableName, View] = {name: view for name, view in own.items() if isinstance(view, View)}
    behind: dict[TableName, Stored | View] = {}
    protected = _protected(whole, governed)
    # A protected table that is not there may have been renamed: what may be it is not there for open views, either.
    gone = [(name, one.policy.columns) for name, one in protected.items() if one.stored is None]
    for name, stored in whole.tables.items():
        decided = governed.get(name.catalog, Governed())
        if name.schema == SCHEMA:
            if name.object in decided.published:
                tables[name] = stored
        elif name not in protected:
            beside = [
                named
                for table_name, named in gone
                if (table_name.catalog, table_name.schema) == (name.catalog, name.schema)
            ]
            if is_like_one_of(stored.columns, beside):
                continue
            behind[name] = stored
            if _is_open(name, decided, tuple(stored.columns)):
                tables[name] = stored
    for name, view in whole.views.items():
        if name.schema != SCHEMA and name not in protected:
            behind[name] = view
            if _is_open(name, governed.get(name.catalog, Governed()), view.columns):
                views[name] = view
    return Catalog(whole.search, tables, views, protected, behind, whole.macros, whole.definitions)


def _protected(whole: Everything, governed: Mapping[str, Governed]) -> dict[TableName, Protected]:
    """The tables that have a policy, as they stand in the catalog."""
    protected: dict[TableName, Protected] = {}
    for database, decided in governed.items():
        for (schema, table), one in decided.protected.items():
            name = TableName(database, schema, table)
            stands = None if name in whole.unprotectable else whole.tables.get(name)
            policy = at_home(one.policy, database) if one.policy.links else one.policy
            domains = _fitting(one, stands, database, whole)
            protected[name] = replace(one, policy=policy, stored=stands, domains=domains)
    owned = {name: with_owners(protected, name) for name, one in protected.items() if one.policy.is_linked}
    return {**protected, **owned}


def _fitting(protected: Protected, stands: Stored | None, database: str, whole: Everything) -> dict[str, Domain]:
    """The domains whose types are still those of the columns: a table that was built again may have other types.

    Comparing a column with keys of another type would cast it, and a cast may fail on a record. Domains hold an ENUM's
    values as text, so that an ENUM made anew with other values makes no difference. Domains of earlier versions that
    may be days in a column of times are left out too.
    """
    types, found = {} if stands is None else stands.types, {}
    for column, domain in protected.domains.items():
        if domain.found:
            if types.get(column) in domain_values.FINDABLE:
                found[column] = domain
            continue
        if may_be_days(protected, column, types) is not None:
            continue
        copy = whole.tables.get(TableName(database, SCHEMA, domain.table))
        kept = {} if copy is None else copy.types
        kinds = [(kept.get(fold(name)), types.get(fold(name))) for name in domain.columns]
        if all(kind is not None and keeps in (kind, text_for_enum(kind)) for keeps, kind in kinds):
            found[column] = domain
    return found


def may_be_days(protected: Protected, column: str, types: Mapping[str, str]) -> str | None:
    """Why a domain of an earlier version may count the records of midnight only, in a sentence; None if it does not.

    column: folded. types: of the table's columns, by folded name.
    """
    source = {fold(name): said for name, said in protected.policy.domains.items()}.get(column)
    domain = protected.domains.get(column)
    if source is None or (domain is not None and domain.checked):
        return None
    return domain_values.may_be_days(column, source, types.get(column, ""))


def text_for_enum(kind: str) -> str:
    """VARCHAR for an ENUM, whose type would show all its values; every other type as it is."""
    return "VARCHAR" if kind.startswith("ENUM(") else kind


def _is_open(name: TableName, decided: Governed, columns: tuple[str, ...]) -> bool:
    return is_open((name.schema, name.object), columns, decided.opened, decided.ever)


def _macros(rows: Sequence[tuple[Any, ...]]) -> tuple[frozenset[str], dict[str, Macro]]:
    """The names of all macros, and the definitions of those whose name is defined only once."""
    macros: dict[str, list[Macro]] = {}
    for name, database, schema, parameters, body, is_table in rows:
        macro = Macro(name, (fold(database), fold(schema)), tuple(map(fold, parameters)), body, is_table)
        macros.setdefault(fold(name), []).append(macro)
    return frozenset(macros), {name: same[0] for name, same in macros.items() if len(same) == 1}


def _name(path: Sequence[str]) -> TableName:
    return TableName(*map(fold, path))


def _path(path: Sequence[str]) -> tuple[str, str, str]:
    catalog, schema, name = path
    return catalog, schema, name
