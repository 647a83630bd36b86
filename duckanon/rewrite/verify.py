"""The last check, on which safety rests: the text that is about to run, as DuckDB itself parses it.

The tree comes from DuckDB (`json_serialize_sql`), so a difference between sqlglot and DuckDB cannot be exploited. Every
table must be readable, every function listed, every type built in; a call of duckanon's functions must equal one that
the rules approved, with all its constants. A node of an unlisted kind is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from duckanon.catalog.names import TableName, fold
from duckanon.errors import PolicyRefusal, UnsupportedQuery
from duckanon.rewrite.allowed import FUNCTIONS, NO_TRY, OPERATORS, TABLE_FUNCTIONS, TYPES
from duckanon.rewrite.instead import not_called
from duckanon.rewrite.quote import of_part

_QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_SOURCES = frozenset({"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY"})
_MODIFIERS = frozenset({"ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"})
_ORDERS = frozenset({"ORDER_DEFAULT", "ASCENDING", "DESCENDING"})
_LITERALS = frozenset({"LIST_TYPE_INFO", "STRUCT_TYPE_INFO", "DECIMAL_TYPE_INFO", "ARRAY_TYPE_INFO", "USER_TYPE_INFO"})
_KNOWN = _QUERIES | _SOURCES | _MODIFIERS | _ORDERS | _LITERALS | {"STRING_TYPE_INFO", "GENERIC_TYPE_INFO"}
_EXPRESSIONS = frozenset(
    """BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA LAMBDA_REF OPERATOR
    PARAMETER
    POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW""".split()
)
# Types as DuckDB 1.4 names them in casts and constants.
_CASTS = frozenset(
    """ARRAY BIGINT BIT BLOB BOOLEAN CHAR DATE DECIMAL DOUBLE FLOAT HUGEINT INTEGER INTEGER_LITERAL INTERVAL LIST MAP
    NULL SMALLINT SQLNULL STRING_LITERAL STRUCT TIME TIMESTAMP TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_S TINYINT UBIGINT
    UHUGEINT UINTEGER UNION USMALLINT UTINYINT UUID VARCHAR VARINT BIGNUM""".split()
) | {"TIME WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE", '"NULL"', "TIME_NS"}
# Names that DuckDB takes for calls if there is no such column, and other functions that it may call for them.
_VALUES = frozenset(
    """current_catalog current_date current_role current_schema current_time current_timestamp current_user localtime
    localtimestamp session_user user""".split()
)
_BEHIND = _VALUES | {
    *("current_database", "current_localtime", "current_localtimestamp", "get_current_time", "get_current_timestamp")
}
# Functions that the guard writes out around numbers with noise; elsewhere there are none.
_ENDS = frozenset({"low", "high"})
_OWN_TYPE = "The statement casts to a type that somebody made: cast to a built-in one."
# Keys that give a position in the text, and nothing else.
_PLACES = frozenset({"query_location", "query_location_length"})


@dataclass(frozen=True)
class Allowed:
    """What the text may use. tables: readable ones. calls: approved ones, as trees. macros: names of users' macros.

    objects: the names of all tables and views.
    """

    tables: frozenset[TableName]
    calls: tuple[Any, ...] = ()
    macros: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()


def verify(serialized: Mapping[str, Any], allowed: Allowed) -> None:
    """Check DuckDB's tree of one query. Raises UnsupportedQuery or PolicyRefusal; then the query must not run."""
    statements = _statements(serialized)
    if len(statements) != 1:
        raise UnsupportedQuery("The guard wrote more than one statement: this is a bug in duckanon, nothing ran.")
    ctes = frozenset(fold(entry["key"]) for entry in _entries(statements[0]))
    if ctes & allowed.objects:
        raise PolicyRefusal("A WITH clause has the name of a table: rename it.")
    stack: list[Any] = [statements[0]]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if not _check(node, allowed, ctes):
                continue
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)


def call(serialized: Mapping[str, Any]) -> Any:
    """The call in DuckDB's tree of `SELECT * FROM call`, without positions, to be compared with others."""
    return _bare(_statements(serialized)[0]["node"]["from_table"]["function"])


def _statements(serialized: Mapping[str, Any]) -> list[Any]:
    if serialized.get("error") or not isinstance(serialized.get("statements"), list):
        raise UnsupportedQuery(
            "DuckDB does not take the statement for a query: look for a mistake, or write it more plainly."
        )
    return list(serialized["statements"])


def _entries(node: Any) -> Iterable[dict[str, Any]]:
    """The entries of all CTEs in the tree."""
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            ctes = part.get("cte_map")
            yield from ctes.get("map", []) if isinstance(ctes, dict) else []
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)


def _bare(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _bare(part) for key, part in node.items() if key not in _PLACES}
    return [_bare(part) for part in node] if isinstance(node, list) else node


def _check(node: dict[str, Any], allowed: Allowed, ctes: frozenset[str]) -> bool:
    """Refuse a node that is not allowed. Returns whether the nodes below it are to be checked too."""
    kind, expression = node.get("type"), node.get("class")
    if expression is not None:
        return _expression(node, expression, allowed)
    if isinstance(kind, str):
        if kind not in _KNOWN:
            raise UnsupportedQuery(f"The statement holds what the guard does not know ({kind}): write it another way.")
        if kind == "USER_TYPE_INFO":
            _named_type(node)
        elif kind == "BASE_TABLE":
            _table(node, allowed, ctes)
        elif kind == "TABLE_FUNCTION":
            return _source(node, allowed)
    return True


def _expression(node: dict[str, Any], kind: Any, allowed: Allowed) -> bool:
    """As `_check`, for a node of an expression. kind: DuckDB's class of expressions."""
    operator = node.get("type") if kind == "OPERATOR" else None
    if operator == "OPERATOR_TRY":
        raise UnsupportedQuery(NO_TRY)
    if kind not in _EXPRESSIONS or operator not in {None, *OPERATORS}:
        raise UnsupportedQuery(
            f"The statement holds what the guard does not know ({operator or kind}): write it another way."
        )
    if kind in ("FUNCTION", "WINDOW"):
        _function(node, allowed, FUNCTIONS)
    elif kind == "COLUMN_REF":
        _column(node, allowed)
    elif kind == "CAST" and "cast_type" in node:
        _cast(node["cast_type"])
    elif kind == "TYPE":
        _type(node)
    return bool(kind != "CONSTANT")


def _table(node: dict[str, Any], allowed: Allowed, ctes: frozenset[str]) -> None:
    name = TableName(*(fold(node.get(part) or "") for part in ("catalog_name", "schema_name", "table_name")))
    path = (node.get("qualified_name") or {}).get("path")
    if node.get("at_clause") or (path is not None and len(path) not in (1, 3)):
        raise UnsupportedQuery("The statement reads a table in a way that the guard does not know.")
    if path is not None and [fold(part) for part in path] != [
        part for part in (name.catalog, name.schema, name.object) if part
    ]:
        raise UnsupportedQuery("The statement reads a table in a way that the guard does not know.")
    if not name.catalog and not name.schema:
        if name.object not in ctes:
            raise PolicyRefusal("A table is not named in full: this is a bug in duckanon, nothing ran.")
    elif name not in allowed.tables:
        raise PolicyRefusal("A table would be read that must not be: nothing ran.")


def _source(node: dict[str, Any], allowed: Allowed) -> bool:
    function = node.get("function") or {}
    if function.get("catalog") == "temp" or fold(str(function.get("function_name"))) not in TABLE_FUNCTIONS:
        if _bare(function) not in allowed.calls:
            raise PolicyRefusal("A function would be called that must not be: nothing ran.")
        return False
    _function(function, allowed, TABLE_FUNCTIONS)
    return True


def _function(node: dict[str, Any], allowed: Allowed, listed: frozenset[str]) -> None:
    name = fold(str(node.get("function_name")))
    if name in allowed.macros:
        sentence = (
            f"In this database {name[:40]} is a macro that somebody wrote, so what it does is not known here: ask the "
            "steward to drop or rename it."
        )
        raise of_part(PolicyRefusal(sentence), name)
    if name in _ENDS:
        raise of_part(
            UnsupportedQuery("low and high are of counts, sums, means and shares, where these are computed."), name
        )
    if name not in listed:
        raise of_part(UnsupportedQuery(not_called(name)), name)
    if node.get("catalog") or (node.get("schema") or "main") != "main" or node.get("export_state"):
        raise of_part(
            UnsupportedQuery(f"The function {name[:40]} is called in a way that the guard does not know."), name
        )


def _column(node: dict[str, Any], allowed: Allowed) -> None:
    """Check a column's name, which may be a call, such as `current_date`."""
    names = node.get("column_names") or []
    if len(names) == 1 and fold(str(names[0])) in _VALUES and allowed.macros & _BEHIND:
        called = fold(str(names[0]))
        sentence = (
            f"In this database a macro has the name of a built-in function, so what {called} does is not known here: "
            "ask the steward to drop or rename it."
        )
        raise of_part(PolicyRefusal(sentence), called)


def _cast(kind: Any) -> None:
    """Check the types in a cast, in DuckDB 1.4's form."""
    stack = [kind]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if part.get("id") == "USER":
                _named_type(part["type_info"])
            elif "id" in part and part["id"] not in _CASTS:
                raise of_part(UnsupportedQuery(_OWN_TYPE), fold(str(part["id"])))
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)


def _named_type(info: dict[str, Any]) -> None:
    """Check a type that DuckDB 1.4 knows by its name, which JSON is one of."""
    _type({**info, "type_name": info.get("user_type_name")})


def _type(node: dict[str, Any]) -> None:
    """Check a type, in DuckDB 2's form."""
    if node.get("catalog") or node.get("schema") or fold(str(node.get("type_name"))) not in TYPES:
        raise of_part(UnsupportedQuery(_OWN_TYPE), fold(str(node.get("type_name"))))
