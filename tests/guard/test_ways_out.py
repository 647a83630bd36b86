"""What refusals propose is tried: each call, statement and change that is named is answered, on a real database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

import duckanon
from duckanon.errors import DuckanonError, PolicyRefusal
from duckanon.releases import noisy_aggregates
from duckanon.rewrite.algebra.nodes import Node
from tests.amounts import sampled
from tests.rewrite.fixtures import FIXTURES
from tests.rewrite.test_refusals import REFUSED, plain

# What stands in tests.rewrite.refused as data.
_POLICIES = """
SELECT protect('customer', population := 'customers', privacy_unit := 'c_custkey', rows_per_unit := 1,
  epsilon := 1000, per_query := 1,
  public := ['c_mktsegment', 'c_nationkey', 'c_phone'], drop := ['c_name'], bounds := {'c_acctbal': [-1000, 10000]},
  domains := {'c_mktsegment': ['BUILDING', 'MACHINERY'], 'c_nationkey': {'from': 0, 'to': 24, 'step': 1}});
SELECT protect('orders', population := 'customers', privacy_unit := 'o_custkey', rows_per_unit := 10, epsilon := 1000,
  unit := 'o_custkey', max_size := 10, per_query := 1, public := ['o_orderstatus', 'o_orderpriority', 'o_clerk'],
  bounds := {'o_totalprice': [0, 500000]},
  domains := {'o_orderstatus': ['F', 'O'], 'o_orderpriority': ['1-URGENT', '2-HIGH']});
SELECT protect('lineitem', population := 'lines', privacy_unit := 'l_orderkey', rows_per_unit := 7, epsilon := 1000,
  per_query := 1, public := ['l_returnflag', 'l_linestatus', 'l_shipmode', 'l_suppkey', 'l_shipdate'],
  bounds := {'l_quantity': [1, 50], 'l_extendedprice': [0, 100000], 'l_discount': [0, 0.1, 0.01]},
  domains := {'l_returnflag': ['A', 'R'], 'l_linestatus': ['F', 'O'], 'l_shipmode': ['MAIL', 'SHIP'],
    'l_shipdate': {'from': DATE '1995-01-01', 'to': DATE '1995-01-31'}});
SELECT open_table('part'), open_table('supplier'), open_table('partsupp'), open_table('nation'), open_table('region')
"""
MORE = [
    "SELECT max(l_shipdate) FROM lineitem",
    "SELECT l_returnflag, min(l_shipdate) FROM lineitem WHERE l_quantity > 3 GROUP BY l_returnflag",
    "SELECT max(l_receiptdate) FROM lineitem",
    "SELECT max(l_returnflag) FROM lineitem",
    "SELECT max(l_comment) FROM lineitem",
    "SELECT max(l_quantity + l_discount) FROM lineitem",
    "SELECT sum(l_quantity * l_tax) FROM lineitem",
    "SELECT sum(l_tax * 2) FROM lineitem",
    "SELECT sum(l_quantity / l_tax) FROM lineitem",
    "SELECT median(ln(l_extendedprice)) FROM lineitem",
    "SELECT quantile_cont(sqrt(l_extendedprice), 0.25) FROM lineitem",
    "SELECT stddev(l_quantity ** 2) FROM lineitem",
    "SELECT sum(length(l_comment)) FILTER (WHERE l_returnflag = 'A') FROM lineitem",
    "SELECT l_shipmode, sum(l_quantity / l_discount) AS s FROM lineitem GROUP BY ALL ORDER BY s DESC LIMIT 1",
    "SELECT avg(l_extendedprice * l_extendedprice * l_extendedprice) FROM lineitem",
    "SELECT avg(l_extendedprice / l_quantity) FROM lineitem WHERE l_shipmode = 'MAIL'",
    "SELECT median(l_extendedprice * l_discount) FROM lineitem",
    "SELECT quantile_cont(l_extendedprice * l_discount, 0.25) FROM lineitem",
    "SELECT stddev(l_quantity * l_discount) FROM lineitem",
    "SELECT sum(l_quantity * l_discount) FILTER (WHERE l_returnflag = 'A') FROM lineitem",
    "SELECT l_shipmode, sum(l_quantity * l_discount) AS s FROM lineitem GROUP BY ALL ORDER BY s DESC LIMIT 1",
    "SELECT avg(DISTINCT l_quantity) FROM lineitem",
    "SELECT count(DISTINCT (l_returnflag, l_quantity)) FROM lineitem",
    "SELECT count(*) FROM orders WHERE o_totalprice > (SELECT avg(o_totalprice) FROM orders)",
    "SELECT count(*) FROM orders WHERE o_totalprice > (SELECT max(o_comment) FROM orders)",
    "SELECT count(*) FROM orders WHERE o_totalprice < (SELECT sum(l_quantity) FROM lineitem)",
    "SELECT o_orderstatus, o_orderpriority, count(*) FROM orders GROUP BY o_orderstatus",
    "SELECT o_orderstatus, o_custkey, count(*) FROM orders GROUP BY o_orderstatus",
    "SELECT o_totalprice // 1000 AS k, count(*) FROM orders GROUP BY k",
    "SELECT year(l_receiptdate) AS y, avg(l_quantity) FROM lineitem GROUP BY y",
    "SELECT l_tax, count(*) FROM lineitem GROUP BY l_tax",
    "SELECT low(sum(l_quantity) / sum(l_discount)) FROM lineitem",
    "SELECT l_shipmode, count(*) / sum(count(*)) OVER () AS p, low(p) FROM lineitem GROUP BY ROLLUP (l_shipmode)",
    "SELECT * FROM orders",
]
STATEMENTS = [*(plain(one["statement"]) for one in REFUSED), *MORE]
_AGGREGATE = r"(?:\w+\((?:DISTINCT )?\w+(?:, [\d.]+)?\))"
_ASKED = re.compile(rf": ask for ({_AGGREGATE}(?: or {_AGGREGATE})*)\.")
_BY = re.compile(
    r": ask for (count\(\*\)(?: or count\(\*\))* with GROUP BY \w+(?: or count\(\*\) with GROUP BY \w+)*)\."
)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    path = tmp_path_factory.mktemp("ways") / "tpch.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute((FIXTURES / "tpch" / "schema.sql").read_text(encoding="utf-8")).fetchall()
        con.execute("INSERT INTO orders (o_orderkey, o_custkey, o_totalprice) SELECT i, i // 3, i FROM range(60) r(i)")
        con.execute("CREATE MACRO net(price, off) AS (price * (1 - off))")
        for one in _POLICIES.split(";"):
            con.execute(one).fetchall()
    with duckanon.connect(path, role="analyst") as con:
        yield con


def refusal(con: duckanon.Analyst, sql: str) -> str | None:
    try:
        con.execute(sql).fetchall()
    except DuckanonError as error:
        return str(error)
    return None


def proposals(sql: str, said: str) -> Iterator[str]:
    """The statements that a refusal proposes, in words or as SQL."""
    part = re.match(r"`([^`]*)` cannot be answered\.", said)
    why = said.partition(" What may be asked: ")[0]
    asked = _ASKED.search(why)
    if part is not None and asked is not None:
        for one in asked[1].split(" or "):
            yield plain(sql).replace(part[1], one)
    by = _BY.search(why)
    if part is not None and by is not None:
        for one in re.findall(r"GROUP BY (\w+)", by[1]):
            tree: Node = sqlglot.parse_one(sql, read="duckdb")
            for clause in ("group", "order", "having", "limit"):
                tree.set(clause, None)
            tree.set("expressions", [exp.column(one), exp.Count(this=exp.Star())])
            yield tree.group_by(one).sql("duckdb")
    if part is not None and "ask for the query in it by itself" in why:
        found = re.search(r"\( ?(SELECT .*)\)", part[1])
        assert found is not None
        yield found[1]
    if part is not None and "name it in GROUP BY" in why:
        whole: Node = sqlglot.parse_one(sql, read="duckdb")
        yield whole.group_by(part[1], dialect="duckdb").sql("duckdb")
    if part is not None and "group: leave it out" in why:
        yield plain(sql).replace(f"{part[1]}, ", "", 1)
    listed, tested = re.search(r"calls public \(([^)]*)\)", why), re.search(r"as in (CASE .*? END)\.", why)
    table = re.search(r"SELECT (?:\w+, )?count\(\*\) FROM (\w+)", said.partition("What may be asked: ")[2])
    if table is not None:
        keys = [*(listed[1].split(", ") if listed else []), *([tested[1]] if tested else [])]
        yield from (f"SELECT {one} AS k, count(*) FROM {table[1]} GROUP BY k" for one in keys)
    offered = said.partition("What may be asked: ")[2].rstrip(".")
    yield from (one for one in re.split(r" or (?=FROM |SELECT )", offered) if one)


@pytest.mark.parametrize("sql", sampled(STATEMENTS, every=4))
def test_what_is_proposed_is_answered(con: duckanon.Analyst, sql: str) -> None:
    said = refusal(con, sql)
    if said is None:
        pytest.skip("it is answered with these tables")
    for one in proposals(sql, said):
        again = refusal(con, one)
        # (The rest of a long statement may have further parts that cannot be answered.)
        assert again is None or (one != sql and len(sql) > 250 and not _quotes_the_proposal(again, sql)), (one, again)


def _quotes_the_proposal(again: str, sql: str) -> bool:
    """Whether a refusal is about something that the first statement does not have."""
    part = re.match(r"`([^`]*)` cannot be answered\.", again)
    return part is None or part[1] not in plain(sql)


def test_many_are_tried(con: duckanon.Analyst) -> None:
    """Else the property would not see a sentence that is written in another way."""
    said = {one: refusal(con, one) for one in STATEMENTS}
    found = [one for sql, words in said.items() if words is not None for one in proposals(sql, words)]
    own = [one for one in found if not re.match(r"SELECT (\w+, )?count\(\*\) FROM \w+( GROUP BY ALL)?$|FROM ", one)]
    assert len([one for one in said.values() if one is not None]) >= 80
    assert len(own) >= 40
    words = " ".join(filter(None, said.values()))
    for one in (
        "ask for sum(",
        "ask for quantile_cont(",
        "with GROUP BY",
        "name it in GROUP BY",
    ):
        assert one in words


@pytest.mark.parametrize("sql", ["SELECT sum(ln(l_tax)) FROM lineitem", "SELECT max(l_receiptdate) FROM lineitem"])
def test_without_trying_them_some_would_fail(con: duckanon.Analyst, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """The twin names what the policy does not have."""
    monkeypatch.setattr(noisy_aggregates, "_is_answered", lambda *_: True)
    said = refusal(con, sql)
    assert said is not None
    assert any(refusal(con, one) for one in proposals(sql, said))


SHARES = [
    "SELECT sex, sick, count(*) / sum(count(*)) OVER (PARTITION BY sex) FROM persons GROUP BY sex, sick",
    "SELECT avg(sick::INT) FROM persons",
    # Of columns of the rows alone: each share is 1 or 0.
    "SELECT sex, avg((sex = 'f')::INT) FROM persons GROUP BY sex",
    "SELECT sex, sick, count(*) FILTER (WHERE sick) / count(*) FROM persons GROUP BY sex, sick",
]


@pytest.mark.parametrize("sql", SHARES)
def test_what_a_steward_could_publish_can_be_published_and_answers(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(
            "CREATE TABLE persons AS SELECT i AS pid, ['f', 'm'][1 + i % 2] AS sex, i % 3 = 0 AS sick "
            "FROM range(60) r(i); SELECT protect('persons', privacy_unit := 'pid', rows_per_unit := 1, epsilon := 1, "
            "public := ['sex', 'sick'])"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as con, pytest.raises(PolicyRefusal) as refused:
        con.execute(sql)
    proposed = re.search(r"A steward could publish the shares: (.*\))\. ", str(refused.value))
    assert proposed is not None
    with duckanon.connect(path, role="steward") as con:
        con.execute(proposed[1]).fetchall()
        expected = con.execute(f"{sql} ORDER BY ALL").fetchall()
    with duckanon.connect(path, role="analyst") as con:
        found = sorted(con.execute(sql).fetchall())
    assert [one[:-1] for one in found] == [one[:-1] for one in expected]
    assert [one[-1] for one in found] == pytest.approx([one[-1] for one in expected], abs=0.005)
