"""PostgreSQL's types, and which of them each DuckDB type is shown as.

The codecs write values by this table, and the emulated catalog lists it as pg_type, so both name a column's type by the
same number. The numbers are those of PostgreSQL 15's pg_type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class PgType:
    """A type as PostgreSQL knows it.

    oid: its number. name: in pg_type. spelled: in SQL, as format_type gives it. size: in bytes, negative if it varies.
    array: the number of the type of its arrays, or 0. element: that of an array's elements, or 0. category: pg_type's
    letter.
    """

    oid: int
    name: str
    spelled: str
    size: int
    array: int
    category: str
    element: int = 0

    @property
    def is_array(self) -> bool:
        return self.element != 0

    @property
    def in_out(self) -> str:
        """The beginning of the names of the functions that read and write it: int4 of int4in, date_ of date_in."""
        if self.is_array:
            return "array_"
        return f"{self.name}_" if self.name in _WITH_UNDERSCORE else self.name


@dataclass(frozen=True)
class ColumnType:
    """The type of a column: with its modifier (-1 for none; precision and scale of a numeric), and an array's depth."""

    type: PgType
    modifier: int = -1
    dimensions: int = 0


_WITH_UNDERSCORE = frozenset(
    "bit date interval json numeric pg_node_tree record time timestamp timestamptz timetz uuid varbit void".split()
)
# oid, name, size, array, category, spelling in SQL
_SCALARS = """
16   bool         1  1000 B boolean
17   bytea        -1 1001 U bytea
18   char         1  1002 Z "char"
19   name         64 1003 S name
20   int8         8  1016 N bigint
21   int2         2  1005 N smallint
23   int4         4  1007 N integer
24   regproc      4  1008 N regproc
25   text         -1 1009 S text
26   oid          4  1028 N oid
28   xid          4  1011 U xid
114  json         -1 199  U json
194  pg_node_tree -1 0    Z pg_node_tree
700  float4       4  1021 N real
701  float8       8  1022 N double precision
705  unknown      -2 0    X unknown
1033 aclitem      12 1034 U aclitem
1042 bpchar       -1 1014 S character
1043 varchar      -1 1015 S character varying
1082 date         4  1182 D date
1083 time         8  1183 D time without time zone
1114 timestamp    8  1115 D timestamp without time zone
1184 timestamptz  8  1185 D timestamp with time zone
1186 interval     16 1187 T interval
1266 timetz       12 1270 D time with time zone
1560 bit          -1 1561 V bit
1562 varbit       -1 1563 V bit varying
1700 numeric      -1 1231 N numeric
2205 regclass     4  2210 N regclass
2206 regtype      4  2211 N regtype
2249 record       -1 2287 P record
2278 void         4  0    P void
2950 uuid         16 2951 U uuid
"""


def _all_types() -> dict[int, PgType]:
    found = {}
    for line in _SCALARS.split("\n"):
        if line:
            oid, name, size, array, category, spelled = line.split(maxsplit=5)
            found[int(oid)] = PgType(int(oid), name, spelled, int(size), int(array), category)
    arrays = [PgType(one.array, f"_{one.name}", f"{one.spelled}[]", -1, 0, "A", one.oid) for one in found.values()]
    # The types of catalogs' lists of column numbers and of types.
    vectors = [
        PgType(22, "int2vector", "int2vector", -1, 1006, "A", 21),
        PgType(30, "oidvector", "oidvector", -1, 1013, "A", 26),
    ]
    return found | {one.oid: one for one in [*arrays, *vectors] if one.oid}


TYPES = _all_types()
BY_NAME = {one.name: one for one in TYPES.values()}

# By DuckDB's name, without what is in parentheses. Numbers go where all of them fit.
_SHOWN_AS = {
    "BOOLEAN": "bool",
    "TINYINT": "int2",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "HUGEINT": "numeric",
    "UTINYINT": "int2",
    "USMALLINT": "int4",
    "UINTEGER": "int8",
    "UBIGINT": "numeric",
    "UHUGEINT": "numeric",
    "BIGNUM": "numeric",
    "VARINT": "numeric",
    "FLOAT": "float4",
    "DOUBLE": "float8",
    "DECIMAL": "numeric",
    "VARCHAR": "text",
    "ENUM": "text",
    "BLOB": "bytea",
    "BIT": "varbit",
    "DATE": "date",
    "TIME": "time",
    "TIME_NS": "time",
    "TIME WITH TIME ZONE": "timetz",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "INTERVAL": "interval",
    "UUID": "uuid",
    "JSON": "json",
    "STRUCT": "json",
    "MAP": "json",
    "UNION": "json",
    "VARIANT": "json",
}
_LIST = re.compile(r"(.*)\[\d*\]", re.DOTALL)
_PRECISION = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


@lru_cache(maxsize=1000)
def column_type(duckdb_type: str) -> ColumnType:
    """The PostgreSQL type of a column of a DuckDB type, by DuckDB's name of it, such as DECIMAL(10,2)[].

    Lists of any depth are arrays of their innermost elements; lists of structs and maps are JSON as a whole. A type
    that is not known is text.
    """
    nested = _LIST.fullmatch(duckdb_type)
    if nested is not None:
        inner = column_type(nested[1])
        if inner.type.name == "json" and nested[1].partition("(")[0] != "JSON":
            return inner
        array = inner.type if inner.type.is_array else TYPES[inner.type.array]
        return ColumnType(array, inner.modifier, inner.dimensions + 1)
    base = duckdb_type.partition("(")[0].strip()
    digits = _PRECISION.fullmatch(duckdb_type)
    modifier = (int(digits[1]) << 16 | int(digits[2])) + 4 if digits else -1
    return ColumnType(BY_NAME[_SHOWN_AS.get(base, "text")], modifier)
