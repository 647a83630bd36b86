"""Aggregating before a join, and PIVOT as GROUP BY, change no result: compared with DuckDB on small random tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from hypothesis import assume, event, given
from hypothesis import strategies as st

from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.normalize.desugar import pivots
from duckanon.rewrite.normalize.eager_aggregation import aggregated_first
from duckanon.rewrite.normalize.grouped import NotFollowed

COLUMNS = {"a": "a", "b": "b", "x": "x"}
AGGREGATES = [
    "count(*)", "count(p.x)", "sum(p.x)", "avg(p.x)", "count(1)", "sum(CASE WHEN p.b THEN p.x END)",
    "count(*) FILTER (WHERE p.b)", "sum(p.x) FILTER (WHERE p.x > 1)", "count(*) FILTER (WHERE s.v > 1)",
    "avg((p.x > 1)::INT)", "avg(p.b::INT)", "count(s.v)", "sum(s.v)", "avg(s.v)", "sum(s.v) FILTER (WHERE p.b)",
    "avg(s.v + p.a)", "count(*) FILTER (WHERE s.v > p.a)", "sum(count(*)) OVER ()",
    "count(*) + 1", "sum(p.x) / count(*)",
]  # fmt: skip
JOINS = [
    "p JOIN s ON p.a = s.a", "p, s", "p LEFT JOIN s ON p.a = s.a AND s.v > 1", "p CROSS JOIN s", "p JOIN s USING (a)",
    "s JOIN p USING (a)", "s RIGHT JOIN p ON p.a = s.a", "p SEMI JOIN s ON p.a = s.a", "p ANTI JOIN s ON p.a = s.a",
    "p JOIN s ON p.a < s.a OR p.b", "p RIGHT JOIN s USING (a)", "s LEFT JOIN p USING (a)", "p FULL JOIN s USING (a)",
    "p JOIN s ON p.a = s.a LEFT JOIN t ON t.a = s.a", "(SELECT a, x, b FROM p WHERE x > 0) AS p JOIN s USING (a)",
]  # fmt: skip
WHERE = [
    "", "", "WHERE p.x > 0", "WHERE p.x > 0 AND s.v > 1", "WHERE p.a IN (SELECT a FROM t)", "WHERE s.v IS NULL OR p.b",
    "WHERE EXISTS (FROM t WHERE t.a = p.a)", "WHERE p.a = 1 AND p.b",
]  # fmt: skip
KEYS = ["", "s.v", "p.a", "p.b, s.v", "p.a + 1", "coalesce(s.v, p.a)"]


Rows = tuple[list[str], Counter[tuple[object, ...]]]


@st.composite
def queries(draw: st.DrawFn) -> str:
    keys = draw(st.sampled_from(KEYS))
    told = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3))
    shown = [keys] * bool(keys) + [f"{one} AS n{at}" for at, one in enumerate(told)]
    having = draw(st.sampled_from(["", "HAVING count(*) > 1", "HAVING sum(p.x) > 2"]))
    tail = draw(st.sampled_from(["", "ORDER BY ALL", "ORDER BY count(*) DESC"]))
    group = f"GROUP BY {draw(st.sampled_from([keys, f'ROLLUP ({keys})']))}" if keys else ""
    return (
        f"SELECT {', '.join(shown)} FROM {draw(st.sampled_from(JOINS))} {draw(st.sampled_from(WHERE))} "
        f"{group} {having} {tail}"
    )


NUMBERS = st.sampled_from([0, 1, 2, None])
RECORDS = st.lists(st.tuples(NUMBERS, st.sampled_from([True, False, None]), NUMBERS), max_size=7)
OTHERS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        yield made


def fill(con: duckdb.DuckDBPyConnection, p: list[tuple[object, ...]], s: list[tuple[object, ...]]) -> None:
    con.execute("CREATE OR REPLACE TABLE p (a INTEGER, b BOOLEAN, x INTEGER)")
    con.execute("CREATE OR REPLACE TABLE s (a INTEGER, v INTEGER)")
    con.execute("CREATE OR REPLACE TABLE t AS FROM (VALUES (1), (2)) AS v(a)")
    for one in p:
        con.execute("INSERT INTO p VALUES (?, ?, ?)", list(one))
    for one in s:
        con.execute("INSERT INTO s VALUES (?, ?)", list(one))


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> Rows | None:
    try:
        found = con.execute(sql)
    except duckdb.BinderException:
        return None
    names = [one[0] for one in found.description or []]
    told = (tuple(round(one, 9) if isinstance(one, float) else one for one in row) for row in found.fetchall())
    return names, Counter(told)


def place(query: Node) -> int:
    sources = [query.args.get("from_") or query.args["from"], *query.args["joins"]]
    (found,) = (at for at, one in enumerate(sources) if one.this.alias_or_name == "p")
    return found


@given(queries(), RECORDS, OTHERS)
def test_aggregating_first_changes_nothing(
    con: duckdb.DuckDBPyConnection, sql: str, p: list[tuple[object, ...]], s: list[tuple[object, ...]]
) -> None:
    fill(con, p, s)
    wanted = rows(con, sql)
    query: Node = sqlglot.parse_one(sql, read="duckdb")
    for one in query.find_all(sqlglot.exp.Table):  # As the binder leaves them.
        one.set("alias", one.args.get("alias") or sqlglot.exp.TableAlias(this=one.this.copy()))
    try:
        around, inner = aggregated_first(query, place(query), COLUMNS)
    except NotFollowed:
        event("not followed")
        return
    if inner.args.get("group") is None:
        # Without keys there is one row of zeros where there are no records.
        records = inner.copy()
        records.set("expressions", [sqlglot.exp.Literal.number(1)])
        assume(con.execute(records.sql("duckdb")).fetchall())
    event("followed" if wanted is not None else "not bound")
    assert zeros(rows(con, around.sql("duckdb"))) == zeros(wanted), around.sql("duckdb")


def zeros(found: Rows | None) -> Rows | None:
    """A sum of nothing is NULL, and a sum of counts of nothing is 0."""
    if found is None:
        return None
    return found[0], Counter(tuple(0 if one is None else one for one in row) for row in found[1].elements())


PIVOTS = [
    "PIVOT p ON a IN (0, 1, 2) USING count(*) GROUP BY b", "PIVOT p ON b IN (true) USING sum(x) AS total GROUP BY a",
    "PIVOT p ON a IN (0, 1), x IN (1, 2) USING count(*) AS n, max(x) GROUP BY b", "PIVOT p ON a IN (1) USING avg(x)",
    "PIVOT (SELECT a, b FROM p) ON a IN (0, 1)", "SELECT * FROM p AS q PIVOT (sum(x) FOR a IN (0, 1)) AS r WHERE b",
    "SELECT * FROM (SELECT a, x FROM p) PIVOT (count(*) FOR a IN (0, 1)) JOIN s ON s.v = x",
    "WITH w AS (PIVOT p ON a IN (1, 2) USING count(x) GROUP BY b) SELECT b, \"1\" + \"2\" AS n FROM w",
]  # fmt: skip


@given(st.sampled_from(PIVOTS), RECORDS, OTHERS)
def test_pivot_is_the_group_by_that_it_means(
    con: duckdb.DuckDBPyConnection, sql: str, p: list[tuple[object, ...]], s: list[tuple[object, ...]]
) -> None:
    fill(con, p, s)
    mine = pivots(sqlglot.parse_one(sql, read="duckdb")).sql("duckdb")
    assert rows(con, mine) == rows(con, sql), mine


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT p ON a USING count(*)",
        "PIVOT p ON a IN (SELECT a FROM t) USING count(*)",
        "UNPIVOT p ON a, x INTO NAME n VALUE v",
        "FROM p UNPIVOT (v FOR n IN (a, x))",
    ],
)
def test_other_pivots_are_refused_with_what_to_write(sql: str) -> None:
    with pytest.raises((UnsupportedQuery, sqlglot.ParseError), match=r"write|Unexpected"):
        pivots(sqlglot.parse_one(sql, read="duckdb"))


# By where the counted table p stands, the joins after which each of its rows is still there once for each partner, and
# no row stands for partners alone.
FOLLOWED = {
    "p {} s USING (a)": {"JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "SEMI JOIN", "ANTI JOIN"},
    "s {} p USING (a)": {"JOIN", "INNER JOIN", "RIGHT JOIN", "RIGHT OUTER JOIN"},
    "s {} t USING (a) JOIN p USING (a)": {
        *("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "RIGHT OUTER JOIN", "FULL JOIN"),
        "FULL OUTER JOIN",
    },
}
EVERY_JOIN = sorted({one for joins in FOLLOWED.values() for one in joins} | {"ASOF JOIN", "POSITIONAL JOIN"})


@pytest.mark.parametrize("sources", FOLLOWED)
@pytest.mark.parametrize("join", EVERY_JOIN)
def test_which_joins_are_followed(sources: str, join: str) -> None:
    query: Node = sqlglot.parse_one(f"SELECT count(*) AS n FROM {sources.format(join)}", read="duckdb")
    for one in query.find_all(sqlglot.exp.Table):
        one.set("alias", sqlglot.exp.TableAlias(this=one.this.copy()))
    try:
        aggregated_first(query, place(query), COLUMNS)
        followed = True
    except NotFollowed:
        followed = False
    assert followed == (join in FOLLOWED[sources])
