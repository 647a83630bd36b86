"""Random expressions over an open table, through a server and in DuckDB itself: what runs means what was written.

    python -m tests.server.differential [expressions] [seed]

Expressions are made of every function that analysts may call, by the types of its arguments, of operators without
parentheses, casts, CASE, lists and intervals, over columns with the extreme values of each type. Both answers are
compared as text, row by row. Where DuckDB answers, the server answers the same or refuses; where DuckDB fails, the
server does not answer.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import psycopg

import duckanon
from duckanon.rewrite.allowed import AGGREGATES, SCALARS
from tests.rewrite.test_filters import VALUES
from tests.server.served import serving

_KINDS = {
    "BOOLEAN": "truth", "TINYINT": "tiny", "INTEGER": "whole", "BIGINT": "large", "HUGEINT": "huge", "UBIGINT": "ubig",
    "DECIMAL(5,2)": "exact", "DOUBLE": "real", "FLOAT": "single", "VARCHAR": "said", "DATE": "day",
    "TIMESTAMP": "moment", "TIMESTAMP WITH TIME ZONE": "zoned", "TIME": "clock", "UUID": "uid",
}  # fmt: skip
_MORE = {
    "INTERVAL": ("span", ["1 year 2 months", "-3 days 04:05:06.5", "0 days"]),
    "INTEGER[]": ("numbers", ["[1, NULL, 3]", "[]", "[-7]"]),
    "VARCHAR[]": ("texts", ["[a, NULL]", "[]"]),
    "BLOB": ("bytes", ["\\x00\\xFF", ""]),
    "JSON": ("doc", ['{"a": [1, null], "b": "x"}', "[]", "7"]),
}
# Their results are others in each session, or at each time.
_CHANGING = frozenset(
    """
    random uuid uuidv4 uuidv7 gen_random_uuid now today current_date current_time current_timestamp get_current_time
    get_current_timestamp transaction_timestamp current_localtime current_localtimestamp age reservoir_quantile
    approx_quantile approx_top_k approx_count_distinct list_approx_count_distinct version current_database
    current_schema repeat range generate_series bar lpad rpad hash row_number
    """.split()
)
_INFIX = ["+", "-", "*", "/", "//", "%", "^", "**", "||", "=", "<>", "<", ">=", "AND", "OR", "&", "|", "<<", "LIKE"]
_CASTS = (
    "INTEGER",
    "BIGINT",
    "DOUBLE",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "DECIMAL(9,3)",
    "BOOLEAN",
    "INTERVAL",
)
_UNITS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "epoch",
    "dow",
    "isodow",
    "doy",
    "decade",
)
_ZONES = ("'UTC'", "'Asia/Tokyo'", "'Europe/Berlin'")


def columns() -> dict[str, tuple[str, list[str]]]:
    """The table's columns by type: their names and values."""
    return {**{kind: (name, VALUES[kind]) for kind, name in _KINDS.items()}, **_MORE}


def fill(con: Any) -> None:
    """Make the table, in which each type has each of its values, and NULL."""
    known = columns()
    con.execute(f"CREATE TABLE t (id INTEGER, {', '.join(f'{name} {kind}' for kind, (name, _) in known.items())})")
    for at in range(max(len(values) for _, values in known.values()) + 1):
        row = [
            [*values, None][(at * (1 + place % 3)) % (len(values) + 1)]
            for place, (_, values) in enumerate(known.values())
        ]
        casts = ", ".join(f"CAST(? AS {kind})" for kind in known)
        con.execute(f"INSERT INTO t VALUES ({at}, {casts})", row)


class Writer:
    """Writes random expressions. signatures: of functions, by name and the types of their arguments."""

    def __init__(self, random: Random, signatures: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        self._random, self._signatures, self._columns = random, signatures, columns()

    def expression(self, depth: int = 3) -> str:
        if depth == 0 or self._random.random() < 0.15:
            return self.value(self._random.choice(list(self._columns)))
        return self._random.choice(
            [self._call, self._call, self._call, self._infix, self._cast, self._case, self._date, self._list]
        )(depth - 1)

    def value(self, kind: str) -> str:
        """A column or a constant of a type, or of one that is near it."""
        kind = kind if kind in self._columns else self._random.choice(list(self._columns))
        name, values = self._columns[kind]
        how = self._random.random()
        if how < 0.6:
            return name
        text = self._random.choice(values).replace("'", "''")
        if how < 0.7 and re.fullmatch(r"-?\d+(\.\d+)?", text):
            return text
        return f"CAST('{text}' AS {kind})" if how < 0.85 else f"'{text}'::{kind}" if how < 0.97 else "NULL"

    def _call(self, depth: int) -> str:
        name, kinds = self._random.choice(self._signatures)
        parts = [self.value(one) if self._random.random() < 0.7 else self.expression(depth) for one in kinds]
        if name in AGGREGATES:
            return f"{name}({', '.join(parts)}) OVER (PARTITION BY id)"
        written = self._random.choice([str.lower, str.upper, str.lower])(name)
        return f"{written}({', '.join(parts)})"

    def _infix(self, depth: int) -> str:
        """Operators without parentheses, so that their order counts."""
        parts = [self.expression(depth) if self._random.random() < 0.3 else self.value(self._kind()) for _ in range(3)]
        one, other = self._random.choice(_INFIX), self._random.choice(_INFIX)
        minus = self._random.choice(["", "", "- ", "NOT ", "~"])
        return f"{minus}{parts[0]} {one} {parts[1]} {other} {parts[2]}"

    def _kind(self) -> str:
        return self._random.choice(
            ["INTEGER", "BIGINT", "DOUBLE", "DECIMAL(5,2)", "VARCHAR", "BOOLEAN", "DATE", "INTERVAL"]
        )

    def _cast(self, depth: int) -> str:
        inner, kind = self.expression(depth), self._random.choice(_CASTS)
        ways = (f"CAST({inner} AS {kind})", f"TRY_CAST({inner} AS {kind})", f"({inner})::{kind}")
        return self._random.choice(ways)

    def _case(self, depth: int) -> str:
        one, other = self.expression(depth), self.expression(depth)
        low, high = self.value("INTEGER"), self.value("INTEGER")
        return self._random.choice(
            [
                f"CASE WHEN whole BETWEEN {low} AND {high} THEN {one} ELSE {other} END",
                f"CASE {self.value('INTEGER')} WHEN {low} THEN {one} WHEN {high} THEN {one} END",
                f"coalesce({one}, {other})",
                f"{self.value('INTEGER')} NOT IN ({low}, {high}) OR truth IS NOT TRUE",
                f"({one}) IS NOT DISTINCT FROM ({other})",
                f"whole = ANY ([{low}, {high}]) AND NOT said ILIKE 'a%'",
                f"large <> ALL (ARRAY[{low}, {high}])",
            ]
        )

    def _date(self, depth: int) -> str:
        at = self._random.choice(["day", "moment", "zoned", self.value("TIMESTAMP"), self.expression(depth)])
        unit = self._random.choice(_UNITS)
        many = self._random.randint(-40, 40)
        return self._random.choice(
            [
                f"EXTRACT({unit} FROM {at})",
                f"date_part('{unit}', {at})",
                f"DATE_TRUNC('{unit.upper()}', {at})",
                f"{at} + INTERVAL '{many} {unit}'",
                f"{at} - INTERVAL {abs(many)} {unit}",
                f"{at} - INTERVAL '{many}' {unit}",
                f"{at} AT TIME ZONE {self._random.choice(_ZONES)}",
                f"{at}::timestamp AT TIME ZONE {self._random.choice(_ZONES)}",
                f"strftime({at}, '%Y-%m-%d %H:%M')",
                f"CAST({at} AS date) BETWEEN DATE '2024-01-01' AND TIMESTAMP '2026-12-31 10:00:00'",
                f"{at} >= timestamp with time zone '2024-01-01 00:00:00.000Z'",
                f"INTERVAL '1 day' * {many} + span",
            ]
        )

    def _list(self, depth: int) -> str:
        inner = self.expression(depth)
        return self._random.choice(
            [
                f"[{inner}, {inner}]",
                "numbers[1]", "numbers[-1:]", "numbers[1:2]", "said[2]", "said[2:3]", "doc -> 'a'", "doc ->> '$.b'",
                "list_transform(numbers, x -> x + 1)",
                "list_filter(numbers, lambda x: x IS NOT NULL)",
                "[x * 2 for x in numbers if x > 0]",
                f"{{'a': {inner}, 'b': whole}}",
                f"struct_pack(a := {inner}).a",
                "substring(said FROM 2 FOR 2)", "position('a' IN said)", "trim(LEADING 'a' FROM said)",
                "said SIMILAR TO 'a.*'",
                "said ~ '^a'", "said COLLATE NOCASE = 'A'", "said GLOB 'a*'", "said LIKE 'a!%' ESCAPE '!'",
            ]
        )  # fmt: skip


def signatures(con: duckdb.DuckDBPyConnection) -> list[tuple[str, tuple[str, ...]]]:
    """Of the functions that analysts may call, as DuckDB lists them."""
    rows = con.execute(
        "SELECT DISTINCT function_name, parameter_types FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'aggregate', 'macro') AND len(parameter_types) <= 4 ORDER BY ALL"
    ).fetchall()
    known = (SCALARS | AGGREGATES) - _CHANGING
    return [(name, tuple(str(one) for one in kinds)) for name, kinds in rows if name in known and name.isidentifier()]


def answer(con: Any, expression: str) -> tuple[str, Any]:
    """What comes out, by rows; or the kind of error."""
    try:
        return "rows", con.execute(f"SELECT id, CAST(({expression}) AS VARCHAR) FROM t ORDER BY id").fetchall()
    except psycopg.Error as error:
        refused = error.diag.sqlstate in ("0A000", "42501")
        return "refused" if refused else "failed", str(error)
    except (duckdb.Error, UnicodeDecodeError) as error:
        return "failed", str(error)


@contextmanager
def both() -> Iterator[tuple[psycopg.Connection[Any], duckdb.DuckDBPyConnection]]:
    """A client of a server, and DuckDB itself, with the same table."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.duckdb"
        with duckanon.connect(path, role="steward") as con:
            con.execute("SET TimeZone = 'UTC'")
            fill(con)
            con.execute("SELECT open_table('t')").fetchall()
        with serving(path, memory="1GB") as served, served.login("ana") as client, duckdb.connect() as plain:
            plain.execute("SET TimeZone = 'UTC'")
            fill(plain)
            yield client, plain


def differences(number: int, seed: int) -> tuple[Counter[str], list[tuple[str, Any, Any]], list[str]]:
    """How often what came out, the expressions whose answers differ, and those refused though DuckDB answers."""
    refused: list[str] = []
    counts: Counter[str] = Counter()
    found: list[tuple[str, Any, Any]] = []
    with both() as (client, plain):
        writer = Writer(Random(seed), signatures(plain))
        for _ in range(number):
            expression = writer.expression()
            own, mine = answer(plain, expression), answer(client, expression)
            counts[f"DuckDB {own[0]}, server {mine[0]}"] += 1
            if own[0] == "rows" and mine[0] == "refused":
                refused.append(f"{expression}\n   {mine[1][:200]}")
            if mine[0] == "rows" and mine != own:
                found.append((expression, mine, own))
            if own[0] == "rows" and mine[0] == "failed":
                found.append((expression, mine, own))
    return counts, found, refused


def main() -> None:
    number, seed = (int(one) for one in [*sys.argv[1:], "2000", "1"][:2])
    counts, found, refused = differences(number, seed)
    for what, many in sorted(counts.items()):
        print(f"{many:7} {what}")
    for one in refused:
        print(f"refused {one}")
    for expression, mine, own in found:
        print(f"DIFFERENT {expression}\n   server {str(mine)[:400]}\n   DuckDB {str(own)[:400]}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
