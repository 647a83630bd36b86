"""SQL as text: names and values in quotes, calls of our functions by name, and the queries in `sql/queries`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from string import Template

from duckanon.catalog import names
from duckanon.catalog.names import fold, identifier, literal
from duckanon.catalog.policy import OWNER
from duckanon.errors import InvalidInput
from duckanon.specification import sql_root

# What our queries call a whole row of the table.
RESERVED = "duckanon.row"
ROW = f'"{RESERVED}"'
# What our queries add to the rows of a table: a number from 1, a hash of the full content, and the row's class.
# And where values lie among bands or in hierarchies.
NUMBER, CONTENT, LABEL, PLACES = (f'"duckanon.{name}"' for name in ("number", "content", "label", "places"))
RESERVED_NAMES = (RESERVED, "duckanon.number", "duckanon.content", "duckanon.label", "duckanon.places")
THREADS = "system.main.current_setting('threads')"
MEMORY = "system.main.current_setting('memory_limit')"
# In place of such a comment a query gets a part that many share.
_INCLUDED = re.compile(r"^-- include (\w+)\.sql\n", re.MULTILINE)
# What source.sql takes of a table: every column, and none of the names that the empty branch adds.
_TAKEN = f"* EXCLUDE ({', '.join(identifier(name) for name in RESERVED_NAMES)})"


def _query(name: str) -> str:
    return (sql_root() / "queries" / f"{name}.sql").read_text(encoding="utf-8")


@cache
def _template(name: str) -> Template:
    query = _query(name)
    while included := _INCLUDED.search(query):
        query = query.replace(included[0], _query(included[1]))
    # Comments name the parts too, and a part with a line break would leave its comment.
    return Template("".join(line for line in query.splitlines(keepends=True) if not line.startswith("--")))


def fill(name: str, **parts: str) -> str:
    """The query `name` with every $part filled in. Raises KeyError if a part is missing."""
    return _template(name).substitute({"taken": _TAKEN, "trees": "", "joined": "", "places": ""} | parts)


def literals(strings: Iterable[str]) -> str:
    """A SQL list of strings, typed even when it is empty."""
    return f"{names.literals(strings)}::VARCHAR[]"


def query_table(table: str) -> str:
    """What stands after FROM in our queries to read a table by its name as it was written."""
    return f"system.main.query_table({literal(table)})"


def described(table: str | None) -> str:
    """SQL: the names and types of a table's columns, as a struct of lists; NULL without a table."""
    if table is None:
        return "NULL"
    columns = "{'names': system.main.list(column_name), 'types': system.main.list(column_type)}"
    return f"(SELECT {columns} FROM (DESCRIBE FROM {query_table(table)}))"


def struct(fields: Mapping[str, str]) -> str:
    """A SQL struct of expressions by name."""
    return "{" + ", ".join(f"{literal(name)}: {expression}" for name, expression in fields.items()) + "}"


def as_bytes(expression: str) -> str:
    """What tells a value from every other of its type, whatever the collation."""
    return f"system.main.encode(CAST({expression} AS VARCHAR))"


def exactly(expression: str) -> str:
    """A hash of a value of any type, which tells apart what a collation takes for equal.

    Since DuckDB 2.0.1 `hash` itself follows the collation. (typeof is constant, so a column costs one of the two.)
    """
    is_text = f"system.main.contains(system.main.typeof({expression}), 'VARCHAR')"
    return (
        f"(CASE WHEN {is_text} THEN system.main.hash({expression}, {as_bytes(expression)}) "
        f"ELSE system.main.hash({expression}) END)"
    )


def hashed(expressions: Iterable[str]) -> str:
    """A hash of several values, as `exactly`."""
    return f"system.main.hash({', '.join(map(exactly, expressions))})"


def row_hash(row: str) -> str:
    """A hash of a whole row, as `exactly`: its sort key follows no collation."""
    is_text = f"system.main.regexp_matches(system.main.typeof({row}), 'VARCHAR|JSON')"
    whole = f"system.main.hash({row}, system.main.create_sort_key({row}, 'ASC NULLS LAST'))"
    return f"(CASE WHEN {is_text} THEN {whole} ELSE system.main.hash({row}) END)"


def seen(table: str) -> str:
    """What the connection sees of the tables that a name may mean, as a struct for governance."""
    return fill("visible_tables", tbl=literal(table))


def call(function: str, **fields: str) -> str:
    """A call of one of our functions inside a query: one struct of expressions by name."""
    return f"system.main.{function}({struct(fields)})"


def check(name: str, request: str, **fields: str) -> str:
    """A call of a check, where `names` and `types` are those of a table's columns."""
    return named_call("_dk_check", name, request=request, names="names", types="types", **fields)


def named_call(function: str, name: str, **fields: str) -> str:
    """A call of one of our functions that many share: first which of them is meant, then the struct."""
    return f"system.main.{function}({literal(name)}, {struct(fields)})"


def opened(name: str, request: str, **fields: str) -> str:
    """The call that opens a collection for `records` of the table that a request names."""
    return named_call("_dk_open", name, request=request, records="records", threads=THREADS, memory=MEMORY, **fields)


def decision(name: str, request: str, **fields: str) -> str:
    """The call of a steward's decision."""
    return named_call("_dk_decide", name, request=request, **fields)


def packed(columns: Iterable[str]) -> str:
    """All rows' values of `columns`, as one list of structs; NULL without any."""
    fields = {name: f"{ROW}.{identifier(name)}" for name in columns}
    return f"system.main.list({struct(fields)})" if fields else "NULL"


def units(column: str, where: str | None = None) -> str:
    """An aggregate over rows: how many units those have that meet a condition, or all. NULL is no unit.

    column: which names the unit of each row.

    (Their hashes are counted: a collation takes for one what engines take for two.)
    """
    name = f"{ROW}.{identifier(column)}"
    met = f"{name} IS NOT NULL" if where is None else f"{name} IS NOT NULL AND {where}"
    return f"system.main.count(DISTINCT {exactly(name)}) FILTER (WHERE {met})"


def no_unit(column: str | None) -> str:
    """The sentence of a refusal where a record's unit is not known."""
    named = "Some records have no owner" if column == OWNER else f'Column "{column}" holds NULL'
    return f"{named}: say whose each record is, leave those rows out, or count records with unit := ''."


def unit_of(column: str | None) -> str:
    """The unit of a record as it is compared: its hash, as in `units`; NULL for no unit, or without a column."""
    if column is None:
        return "NULL"
    name = identifier(column)
    return f"CASE WHEN {name} IS NOT NULL THEN {exactly(name)} END"


def ascending(keys: Iterable[str]) -> str:
    """Sort keys, NULL last."""
    return ", ".join(f"{key} ASC NULLS LAST" for key in keys)


def renamed(names: Iterable[str], own: Iterable[str]) -> str:
    """A caller's columns under our names."""
    return ", ".join(f"{identifier(name)} AS {key}" for name, key in zip(names, own, strict=True))


def absent(columns: Iterable[str], *, own: bool = True) -> str:
    """The columns that a call names, each once, as NULLs; with `own`, also those that no table must have.

    Raises InvalidInput if the call names one of these.
    """
    columns = list(columns)
    if reserved := next((name for name in columns if fold(name) in RESERVED_NAMES), None):
        raise InvalidInput(f'The column name "{reserved}" is reserved for duckanon: rename the column.')
    once = {fold(name): name for name in [*columns, *(RESERVED_NAMES if own else [])]}
    return ", ".join(f"NULL AS {identifier(name)}" for name in once.values())


def refusal(sentence: str, columns: Sequence[str] = ()) -> str:
    """A query that raises `sentence` as DuckDB's own error and does nothing else, whatever is asked of its columns.

    columns: names that a statement around it may use.
    """
    names = ", ".join(f"NULL AS {identifier(name)}" for name in columns or ["refused"])
    return f"SELECT {names} WHERE system.main.error({literal(sentence)}) IS NULL"


_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def bytes_of(setting: str) -> int:
    """DuckDB's way to write an amount of memory, such as '3.7 GiB', in bytes."""
    amount, unit = setting.split()
    return int(float(amount) * _UNITS[unit])
