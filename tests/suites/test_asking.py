"""The command's parts on a suite of ten sales: what is answered, compared and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.guard.truthful import truth
from tests.suites import asking, database, policies
from tests.suites.asking import Outcome
from tests.suites.policies import Protected, Suite
from tests.suites.refusals import by_reason, reason

SUITE = Suite(
    name="shop",
    population="customers",
    scale="1",
    draw_scale="1",
    nulls=True,
    open={"items": ["item"]},
    protected={
        "customers": Protected("customers", ["customer"], owner="customer"),
        "sales": Protected("sales", ["sale"], owner="buyer", domains={"sold": "items.item"}),
    },
    endings={"domains": {"_state": ["CA", "GA"]}, "bounds": {"price": [0, 10, 0.25]}},
)
TABLES = {
    "items": "SELECT i AS item, 'item ' || i AS name FROM range(4) r(i)",
    "customers": "SELECT i AS customer, ['CA', 'GA', NULL][1 + i % 3] AS home_state FROM range(5) r(i)",
    "sales": """SELECT i AS sale, CASE WHEN i < 9 THEN i // 2 END AS buyer, nullif(i % 4, 3) AS sold,
      (i * 0.75)::DECIMAL(4, 2) AS price FROM range(10) r(i)""",
}
QUERIES = {
    1: "SELECT sold, count(*) AS n, sum(price) FROM sales GROUP BY sold ORDER BY n DESC LIMIT 2",
    2: "SELECT home_state, count(*) FROM customers GROUP BY home_state",
    3: "SELECT name FROM items",
    4: "SELECT buyer FROM sales",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suites")
    (folder / "shop-1").mkdir()
    (folder / "shop").mkdir()
    with duckdb.connect() as con:
        for name, sql in TABLES.items():
            con.execute(f"COPY ({sql}) TO '{folder / 'shop-1' / name}.parquet'")
    for number, sql in QUERIES.items():
        (folder / "shop" / f"{number:02}.sql").write_text(sql + ";\n", encoding="utf-8")
    return folder


def ask(data: Path, tmp_path: Path) -> dict[int, Outcome]:
    queries = database.queries(data, SUITE)
    protected, _ = database.make(tmp_path / "x.duckdb", data, SUITE, "1")
    return {one.query: one for one in asking.ask(tmp_path / "x.duckdb", data, protected, "1", queries)}


def test_answers_without_noise_are_equal_and_reads_of_records_refused(data: Path, tmp_path: Path) -> None:
    outcomes = ask(data, tmp_path)
    # Three reads no protected table. The sale of nobody is not in DuckDB's answer either.
    assert list(outcomes) == [1, 2, 4]
    assert [(one.answered, one.equal, one.rows) for one in outcomes.values()] == [
        (True, True, 4),
        (True, True, 3),
        (False, False, 0),
    ]
    assert "Records of sales are protected" in outcomes[4].why


def test_an_answer_that_is_off_by_one_is_not_equal(data: Path, tmp_path: Path) -> None:
    def off_by_one(con: duckdb.DuckDBPyConnection, asked: Any, entropy: Any = None) -> pa.Table:
        table = truth(con, asked, entropy)
        counts = [at for at, one in enumerate(table.schema) if pa.types.is_integer(one.type)]
        return table.set_column(counts[-1], table.schema.names[counts[-1]], pc.add(table.column(counts[-1]), 1))

    with patch("tests.suites.asking.truth", off_by_one):
        outcomes = ask(data, tmp_path)
    assert [one.equal for one in outcomes.values() if one.answered] == [False, False]


def test_reasons_are_counted_by_the_rule_that_they_state() -> None:
    join = "`b` cannot be answered. Statistics are of one protected table at a time: ask for b. What may be asked: c."
    record = "`SELECT x` ... cannot be answered. Records of {} are protected."
    refused = [(1, record.format("orders")), (2, join), (3, record.format("customer"))]
    assert by_reason(refused, ["orders", "customer"]) == [
        ("Records of TABLE are protected", [1, 3]),
        ("Statistics are of one protected table at a time", [2]),
    ]
    assert reason("Counts are told by columns (a, b). Ask so.", ["t"]) == "Counts are told by columns"


@pytest.mark.parametrize("name", ["tpch", "tpcds", "clickbench", "ssb", "omop"])
def test_links_and_domains_lead_to_keys_and_open_tables(name: str) -> None:
    suite = policies.read(name)
    for table in suite.protected.values():
        if table.link:
            targets = [target.split(".")[1] for target in table.link.values()]
            assert sorted(targets) == sorted(suite.protected[table.parent].key)
        references = [
            one for one in (*table.domains.values(), *suite.endings["domains"].values()) if isinstance(one, str)
        ]
        assert {one.split(".")[0] for one in references} <= set(suite.open)


def test_the_owner_of_a_linked_record_is_in_the_table_that_its_links_lead_to() -> None:
    suite = policies.read("tpch")
    with duckdb.connect() as con:
        con.execute("CREATE TABLE orders AS FROM (VALUES (1, 7), (2, NULL)) v(o_orderkey, o_custkey)")
        con.execute("CREATE TABLE lineitem AS FROM (VALUES (1), (1), (2), (3)) v(l_orderkey)")
        assert con.execute(suite.owned("lineitem")).fetchall() == [(1, 7), (1, 7)]
