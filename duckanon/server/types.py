"""The PostgreSQL type that stands for each DuckDB type on the wire: its oid, its name and its size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class PgType:
    """A type of PostgreSQL. array: the oid of its array type; 0 for an array. size: in bytes, -1 where it varies.

    modifier: of numeric, its precision and scale as PostgreSQL packs them; else -1. element: of an array.
    """

    oid: int
    name: str
    array: int = 0
    size: int = -1
    modifier: int = -1
    element: PgType | None = None


BOOL = PgType(16, "bool", 1000, 1)
BYTEA = PgType(17, "bytea", 1001)
INT8 = PgType(20, "int8", 1016, 8)
INT2 = PgType(21, "int2", 1005, 2)
INT4 = PgType(23, "int4", 1007, 4)
TEXT = PgType(25, "text", 1009)
OID = PgType(26, "oid", 1028, 4)
JSON = PgType(114, "json", 199)
FLOAT4 = PgType(700, "float4", 1021, 4)
FLOAT8 = PgType(701, "float8", 1022, 8)
UNKNOWN = PgType(705, "unknown", 0, -2)
VARCHAR = PgType(1043, "varchar", 1015)
DATE = PgType(1082, "date", 1182, 4)
TIME = PgType(1083, "time", 1183, 8)
TIMESTAMP = PgType(1114, "timestamp", 1115, 8)
TIMESTAMPTZ = PgType(1184, "timestamptz", 1185, 8)
INTERVAL = PgType(1186, "interval", 1187, 16)
TIMETZ = PgType(1266, "timetz", 1270, 12)
NUMERIC = PgType(1700, "numeric", 1231)
UUID = PgType(2950, "uuid", 2951, 16)
# Types that PostgreSQL's clients send, and DuckDB does not have.
BPCHAR = PgType(1042, "bpchar", 1014)
NAME = PgType(19, "name", 1003, 64)
CHAR = PgType(18, "char", 1002, 1)
JSONB = PgType(3802, "jsonb", 3807)
XML = PgType(142, "xml", 143)

# All scalar types that the server can read and write.
SCALARS = (
    *(BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, UNKNOWN, VARCHAR, DATE, TIME, TIMESTAMP),
    *(TIMESTAMPTZ, INTERVAL, TIMETZ, NUMERIC, UUID, BPCHAR, NAME, CHAR, JSONB, XML),
)
_OF_DUCKDB = {
    "BIGINT": INT8,
    "BIGNUM": NUMERIC,
    "BLOB": BYTEA,
    "BOOLEAN": BOOL,
    "DATE": DATE,
    "DOUBLE": FLOAT8,
    "FLOAT": FLOAT4,
    "HUGEINT": NUMERIC,
    "INTEGER": INT4,
    "INTERVAL": INTERVAL,
    "JSON": JSON,
    "SMALLINT": INT2,
    "TIME WITH TIME ZONE": TIMETZ,
    "TIME": TIME,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TINYINT": INT2,
    "UBIGINT": NUMERIC,
    "UHUGEINT": NUMERIC,
    "UINTEGER": INT8,
    "USMALLINT": INT4,
    "UTINYINT": INT2,
    "UUID": UUID,
    "VARCHAR": TEXT,
    "VARINT": NUMERIC,
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LIST = re.compile(r"(.*)\[\d*\]", re.DOTALL)


def array_of(element: PgType) -> PgType:
    """The array type of a scalar type."""
    return PgType(element.array, f"_{element.name}", element=element)


BY_OID = {one.oid: one for one in SCALARS} | {one.array: array_of(one) for one in SCALARS if one.array}


@lru_cache(4096)
def pg_type(duckdb: str) -> PgType:
    """The type for a DuckDB type, as DuckDB writes it.

    An ENUM and all types that are not listed are text. A STRUCT, a MAP, a UNION and a list of lists are json:
    PostgreSQL's arrays of several dimensions cannot hold lists of different lengths.
    """
    known = _OF_DUCKDB.get(duckdb)
    if known is not None:
        return known
    decimal = _DECIMAL.fullmatch(duckdb)
    if decimal is not None:
        modifier = (int(decimal[1]) << 16 | int(decimal[2])) + 4
        return PgType(NUMERIC.oid, NUMERIC.name, NUMERIC.array, modifier=modifier)
    listed = _LIST.fullmatch(duckdb)
    if listed is not None:
        element = pg_type(listed[1])
        return JSON if element is JSON or element.element is not None else array_of(element)
    return JSON if duckdb.startswith(("STRUCT(", "MAP(", "UNION(")) else TEXT
