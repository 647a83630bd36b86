"""Keys keep their types and values on the way into a stored answer, whatever Arrow makes of them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckanon
from duckanon.catalog.arrow_texts import labelled, received, sent
from duckanon.catalog.names import literal
from duckanon.catalog.types import WHOLE

# Values at both ends of types that a key may have, as texts.
ENDS = {kind: [str(one) for one in ends] for kind, ends in WHOLE.items()} | {
    "BOOLEAN": ["true", "false"],
    "DECIMAL(38,10)": ["-9999999999999999999999999999.9999999999", "0.0000000001"],
    "DOUBLE": ["-inf", "5e-324"],
    "VARCHAR": ["", "NULL"],
    "BLOB": [r"\x00\xFF", ""],
    "BIT": ["0101010", "1"],
    "UUID": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "DATE": ["5877642-06-25 (BC)", "infinity"],
    "TIME": ["00:00:00", "24:00:00"],
    "TIMETZ": ["00:00:00+15:59:59", "23:59:59.999999-15:59:59"],
    "TIME_NS": ["00:00:00.000000001", "23:59:59.999999999"],
    "TIMESTAMP": ["290309-12-22 (BC) 00:00:00", "infinity"],
    "TIMESTAMP_S": ["1970-01-01 00:00:01", "infinity"],
    "TIMESTAMP_MS": ["1970-01-01 00:00:00.001", "infinity"],
    "TIMESTAMP_NS": ["1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806"],
    "TIMESTAMPTZ": ["290309-12-22 (BC) 00:00:00+00", "infinity"],
    "JSON": ["null", '{"a": 1}'],
    "INTERVAL": ["1 month", "-999 years -8 months 31 days -00:00:00.000001"],
    "JSON[]": ['[{"a": 1}, "null"]', "[]"],
}
if duckdb.__version__.startswith("1."):
    del ENDS["TIME_NS"]  # Python cannot fetch it there.
COLUMNS = ", ".join(f"c{at}" for at in range(len(ENDS)))


def _made(con: duckdb.DuckDBPyConnection | duckanon.Connection) -> None:
    """A table `o` with a row of each type's first value, one of its last, and one of NULLs."""
    for k in (1, 2, 3):
        values = [
            f"CAST({'NULL' if k == 3 else literal(ends[k - 1])} AS {kind}) AS c{at}"
            for at, (kind, ends) in enumerate(ENDS.items())
        ]
        rows = f"SELECT CAST({k} AS INTEGER) AS k, {', '.join(values)}"
        con.execute(f"CREATE TABLE o AS {rows}" if k == 1 else f"INSERT INTO o {rows}").fetchall()


def _through_arrow(con: duckdb.DuckDBPyConnection, query: str) -> None:
    """Let the view `found` have a query's rows as they come back."""
    told = con.sql(query)
    kinds = dict(zip(told.columns, map(str, told.types), strict=True))
    shown = ", ".join(sent(name, kind) for name, kind in kinds.items())
    table = labelled(con.sql(f"SELECT {shown} FROM ({query})").to_arrow_table(), kinds)
    con.register("sent", table)
    con.execute(f"CREATE OR REPLACE TEMP TABLE found AS SELECT {received(table)} FROM sent").fetchall()


def _types(con: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    return [kind for _, kind, *_ in con.execute(f"DESCRIBE {query}").fetchall()]


@pytest.mark.parametrize(
    "shown",
    [
        COLUMNS,
        "[c0, c5] AS l, {'a': c5, 'b': c14} AS s",
        """[json('null'), NULL, json('{"a":  1}'), json(' 1')] AS l, MAP {json('null'): [c4]} AS m""",
        """{'json': [json('null')], 'a "uuid", b': {'uuid': c4, 'x': INTERVAL '1 month -30 days'}} AS s""",
        "CAST([' a ', 'null', NULL, ''] AS VARCHAR[4]) AS l, union_value(j := json('null')) AS u",
        "[INTERVAL '2147483647 months', to_days(-2147483648), INTERVAL '1 year 2 days 3 microseconds', NULL] AS l",
    ],
)
def test_values_come_back_from_arrow(shown: str) -> None:
    with duckdb.connect() as con:
        _made(con)
        query = f"SELECT {shown} FROM o"
        _through_arrow(con, query)
        assert _types(con, "FROM found") == _types(con, query)
        # As texts: to DuckDB 1 month and 30 days are equal.
        own, came = (f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({one})" for one in (query, "FROM found"))
        assert con.execute(f"({came} EXCEPT {own}) UNION ALL ({own} EXCEPT {came})").fetchall() == []


@given(st.lists(st.integers(*WHOLE["HUGEINT"]), min_size=1, max_size=5))
def test_wide_numbers_come_back_from_arrow(numbers: list[int]) -> None:
    query = " UNION ALL ".join(f"SELECT CAST('{one}' AS HUGEINT) AS k" for one in numbers)
    with duckdb.connect() as con:
        _through_arrow(con, query)
        assert con.execute("FROM found").fetchall() == [(one,) for one in numbers]


def test_answers_have_duckdbs_own_keys(tmp_path: Path) -> None:
    with duckanon.connect(tmp_path / "x.duckdb", role="steward") as con:
        _made(con)
        con.execute("CREATE UNIQUE INDEX one ON o(k)").fetchall()
        con.execute("CREATE TABLE t AS SELECT i AS u, (1 + i % 3)::INTEGER AS k FROM range(30) r(i)").fetchall()
        con.execute("SELECT open_table('o')").fetchall()
        con.execute(
            "SELECT protect('t', privacy_unit := 'u', rows_per_unit := 1, epsilon := 1000, per_query := 500, "
            "public := ['k'], domains := {'k': [1, 2, 3]})"
        ).fetchall()
        own = con.execute(f"SELECT {COLUMNS}, count(*) FROM t JOIN o USING (k) GROUP BY ALL")
        types, rows = [str(one[1]) for one in own.description], own.fetchall()
    with duckanon.connect(tmp_path / "x.duckdb", role="analyst") as con:
        told = con.execute(f"SELECT {COLUMNS}, count(*) FROM t JOIN o ON t.k = o.k GROUP BY ALL")
        assert [str(one[1]) for one in told.description] == types
        assert sorted(map(repr, told.fetchall())) == sorted(map(repr, rows))
