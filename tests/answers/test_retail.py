"""Questions about a shop's sales: without noise the answers are DuckDB's own, and so are the types of keys.

They were written down before it was known which of them have answers: funnels, cohorts, the best per customer, means
per day, shares, CASE, windows, dates and decimals over a star schema.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import duckanon
from tests.amounts import sampled
from tests.answers.checking import check, made, statements, without_noise

STATEMENTS = statements("fixtures/answers/retail.sql")
SALES = 3000
# Every record lies in its domains and bounds, and no unit has more records than count. So nothing is left out.
_RECORDS = f"""
  CREATE TABLE products AS
    SELECT i AS product_id, ['toys', 'food', 'books'][1 + i % 3] AS category, 'brand ' || (i % 7) AS brand,
      (20 + hash(i) % 8000 / 100)::DECIMAL(8, 2) AS list_price FROM range(40) r(i);
  CREATE TABLE stores AS SELECT i AS store_id, ['north', 'south'][1 + i % 2] AS region FROM range(6) r(i);
  CREATE TABLE customers AS
    SELECT i AS customer_id, ['DE', 'FR', 'US'][1 + (hash(i) % 3)::INTEGER] AS country,
      ['home', 'firm'][1 + (hash(i, 1) % 2)::INTEGER] AS segment, 18 + (hash(i, 2) % 63)::INTEGER AS age,
      DATE '2024-01-01' + (hash(i, 3) % 90)::INTEGER AS joined
    FROM range(400) r(i);
  CREATE TABLE sales AS
    SELECT i AS sale_id, (hash(i, 4) % 380)::BIGINT AS customer_id, (hash(i, 5) % 40)::BIGINT AS product_id,
      (hash(i, 6) % 6)::BIGINT AS store_id,
      TIMESTAMP '2024-01-01' + to_seconds((hash(i, 7) % (182 * 86400))::BIGINT) AS sold_at,
      1 + (hash(i, 8) % 9)::INTEGER AS quantity, ((hash(i, 9) % 10000) / 100)::DECIMAL(8, 2) AS price,
      ((hash(i, 10) % 30) / 100)::DECIMAL(4, 2) AS discount,
      ['web', 'shop', 'phone'][1 + (hash(i, 11) % 3)::INTEGER] AS channel
    FROM range({SALES}) r(i);
  CREATE TABLE returns AS
    SELECT sale_id, customer_id, sold_at + to_days((hash(sale_id, 12) % 20)::INTEGER) AS returned_at,
      ['broken', 'late', 'other'][1 + (hash(sale_id, 13) % 3)::INTEGER] AS reason
    FROM sales WHERE hash(sale_id, 14) % 8 = 0;
  ALTER TABLE sales ALTER sold_at SET NOT NULL;
  ALTER TABLE products ADD PRIMARY KEY (product_id);
  ALTER TABLE stores ADD PRIMARY KEY (store_id);
  ALTER TABLE customers ADD PRIMARY KEY (customer_id);
  ALTER TABLE sales ADD PRIMARY KEY (sale_id);
  ALTER TABLE returns ADD PRIMARY KEY (sale_id)
"""
_CALLS = """
  SELECT open_table('products'), open_table('stores');
  SELECT protect('customers', population := 'customers', privacy_unit := 'customer_id', rows_per_unit := 1,
    epsilon := 9999, per_query := 1, public := ['country', 'segment', 'joined'],
    domains := {'country': ['DE', 'FR', 'US'], 'segment': ['home', 'firm'],
      'joined': {'from': DATE '2024-01-01', 'to': DATE '2024-06-30'}},
    bounds := {'age': [18, 80]});
  SELECT protect('sales', population := 'customers', privacy_unit := 'customer_id', rows_per_unit := 30,
    epsilon := 9999, per_query := 1, public := ['channel', 'product_id', 'store_id'],
    domains := {'channel': ['web', 'shop', 'phone'], 'product_id': 'products.product_id',
      'store_id': 'stores.store_id'},
    bounds := {'quantity': [1, 9], 'price': [0, 100, 0.01], 'discount': [0, 0.3, 0.01],
      'sold_at': ['2024-01-01 00:00:00', '2024-06-30 23:59:59']});
  SELECT protect('returns', population := 'customers', privacy_unit := 'customer_id', rows_per_unit := 30,
    epsilon := 9999, per_query := 1, public := ['reason'], domains := {'reason': ['broken', 'late', 'other']},
    bounds := {'returned_at': ['2024-01-01 00:00:00', '2024-07-31 23:59:59']})
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    with without_noise(made(tmp_path_factory.mktemp("retail") / "x.duckdb", _RECORDS, _CALLS)) as found:
        yield found


@pytest.fixture(scope="module")
def plain(con: duckanon.Analyst) -> Iterator[duckdb.DuckDBPyConnection]:
    with con._con.cursor() as found:
        yield found


def test_there_are_sixty_of_them() -> None:
    assert len(set(STATEMENTS)) >= 60


@pytest.mark.parametrize("sql", sampled(STATEMENTS, every=4), ids=lambda sql: sql[:60])
def test_it_is_duckdbs_own_answer(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    check(con, plain, sql, SALES)


@pytest.mark.parametrize("key", ["quantity // 2", "quantity * 2 + 1", "-quantity", "quantity % 3", "sale_id // 1000"])
def test_keys_have_duckdbs_own_types(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, key: str) -> None:
    asked = f"SELECT {key} AS k, count(*) AS n FROM sales GROUP BY k"
    if key.startswith("sale_id"):
        asked = "SELECT n // 2 AS k, count(*) FROM (SELECT customer_id, count(*) AS n FROM sales GROUP BY 1) GROUP BY k"
    mine, theirs = con.execute(asked).description, plain.execute(asked).description
    assert [str(kind) for _, kind, *_ in mine] == [str(kind) for _, kind, *_ in theirs]


def test_units_in_a_column_of_a_left_join_are_counted_once_each(con: duckanon.Analyst) -> None:
    """A unit changes it by one, however many records it has: so the interval is that of a count of customers."""
    con.execute(
        "SELECT count(DISTINCT s.customer_id) FROM customers c LEFT JOIN sales s USING (customer_id)"
    ).fetchall()
    assert con.decision is not None
    assert "95 % are within 3 of the truth" in con.decision.steps[0].reason


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT chanel, count(*) FROM sales GROUP BY ALL", 'sales has no column "chanel"'),
        (
            "SELECT max(n) FROM (SELECT customer_id, count(*) AS n FROM sales GROUP BY customer_id)",
            "ask for quantile_cont(n, 0.99)",
        ),
        ("SELECT count(*) FROM sales s ASOF JOIN returns r ON s.sale_id = r.sale_id AND s.sold_at >= r.returned_at",
         "number the rows by row_number() with the unit's column and the key of the first table in PARTITION BY"),
        ("SELECT n, count(*) FROM (SELECT row_number() OVER (ORDER BY price) AS n FROM sales) GROUP BY n",
         "add the unit's column to its PARTITION BY"),
    ],
)  # fmt: skip
def test_refusals_name_what_is_refused(con: duckanon.Analyst, sql: str, said: str) -> None:
    with pytest.raises(duckanon.errors.PolicyRefusal) as raised:
        con.execute(sql)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SELECT avg(m) FROM (SELECT customer_id, max(quantity) / 24.0 AS m FROM sales GROUP BY 1)",
            ": m: 1/24 to 0.375",
        ),
        ("SELECT n, count(*) FROM (SELECT customer_id, count(*) AS n FROM sales GROUP BY 1) GROUP BY n", "which n is"),
    ],
)
def test_notes_name_what_the_statement_names(con: duckanon.Analyst, sql: str, said: str) -> None:
    con.execute(sql).fetchall()
    assert con.decision is not None
    assert said in con.decision.steps[0].reason


_NORTH = "(SELECT store_id FROM stores WHERE region = 'north')"
LISTED = [
    f"SELECT store_id, sum(quantity) FROM sales WHERE store_id IN {_NORTH} GROUP BY store_id",
    f"SELECT store_id, count(*) FROM sales WHERE store_id IN {_NORTH} AND store_id > 0 GROUP BY store_id",
    f"SELECT product_id, count(*) FROM sales WHERE product_id IN {_NORTH} GROUP BY product_id",
    f"SELECT s.store_id % 3, sum(quantity) FROM sales s SEMI JOIN {_NORTH} t USING (store_id) GROUP BY ALL",
    "SELECT product_id, count(*) FROM sales s WHERE EXISTS (SELECT 1 FROM products p WHERE p.product_id = s.product_id "
    "AND brand = 'brand 1') GROUP BY product_id",
    "SELECT store_id, count(*) FROM sales JOIN stores USING (store_id) WHERE region = 'north' GROUP BY store_id",
    "SELECT s.product_id, count(*) FROM sales s JOIN products p ON s.product_id = p.product_id "
    "WHERE p.category <> 'toys' AND (p.brand = 'brand 1' OR s.quantity = 3) GROUP BY s.product_id",
    "SELECT segment, channel, count(*) FROM sales JOIN customers USING (customer_id) WHERE channel IN "
    "(SELECT 'web' FROM stores) GROUP BY ALL",
    "SELECT store_id, count(*) FROM sales WHERE store_id IN (SELECT store_id FROM stores WHERE region = 'none') "
    "GROUP BY 1",
]


@pytest.mark.parametrize("sql", sampled(LISTED, every=3))
def test_keys_are_those_that_open_tables_list(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    """There is no row for another value of the key's domain."""
    assert sorted(con.execute(sql).fetchall()) == sorted(plain.execute(sql).fetchall())


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT store_id, count(*) FROM sales WHERE store_id NOT IN {_NORTH} GROUP BY store_id",
        f"SELECT store_id, count(*) FROM sales WHERE store_id IN {_NORTH} OR quantity = 1 GROUP BY store_id",
        f"SELECT s.store_id, count(t.store_id) FROM sales s LEFT JOIN {_NORTH} t USING (store_id) GROUP BY ALL",
        f"SELECT store_id, count(*) FROM sales WHERE product_id IN {_NORTH} GROUP BY store_id",
    ],
)
def test_other_conditions_leave_all_values_of_a_key(con: duckanon.Analyst, sql: str) -> None:
    assert len(con.execute(sql).fetchall()) == 6


PIVOTS = [
    "WITH x AS (SELECT channel AS ch, quantity FROM sales WHERE quantity > 2 AND channel <> 'web') "
    "PIVOT x ON ch USING sum(quantity)",
    "WITH y AS (SELECT channel AS c, quantity, store_id FROM sales), x(ch, q, store) AS (SELECT c, quantity, store_id "
    "FROM y WHERE c LIKE '%e%') PIVOT x ON ch USING sum(q) GROUP BY store",
    "PIVOT (SELECT channel, quantity, store_id FROM sales) ON channel USING sum(quantity) GROUP BY store_id",
    "WITH x AS (SELECT country, channel, quantity FROM sales JOIN customers USING (customer_id)) "
    "PIVOT x ON country USING sum(quantity)",
    "PIVOT (SELECT c.segment, s.channel FROM sales s JOIN customers c USING (customer_id)) ON segment, channel "
    "USING count(*)",
    "FROM (PIVOT (SELECT category, channel FROM sales JOIN products USING (product_id)) ON category USING count(*))",
    "PIVOT (SELECT channel, store_id, count(*) AS n FROM sales GROUP BY ALL) ON channel USING sum(n) GROUP BY store_id",
    "PIVOT (SELECT channel, CASE WHEN store_id > 2 THEN 'new' ELSE 'old' END AS kind FROM sales) ON kind "
    "USING count(*)",
]


@pytest.mark.parametrize("sql", sampled(PIVOTS, every=3))
def test_a_pivot_of_a_query_has_the_columns_that_domains_list(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    mine, theirs = con.execute(sql), plain.execute(sql)
    assert [name for name, *_ in mine.description] == [name for name, *_ in theirs.description]
    assert sorted(mine.fetchall()) == sorted(theirs.fetchall())


SETS = [
    "SELECT channel, store_id, count(DISTINCT customer_id) FROM sales GROUP BY ROLLUP (channel, store_id)",
    "SELECT channel, store_id, median(quantity), count(*), sum(quantity) FROM sales "
    "GROUP BY GROUPING SETS ((channel), (store_id), (channel), ())",
    "SELECT country, count(DISTINCT age) FILTER (WHERE country = 'DE'), grouping(country) FROM customers "
    "GROUP BY CUBE (country) HAVING count(DISTINCT customer_id) > 120",
    "SELECT channel, country, count(DISTINCT customer_id), avg(quantity) FROM sales JOIN customers USING (customer_id) "
    "WHERE country <> 'DE' GROUP BY ROLLUP (channel, country)",
    "SELECT max(n) FROM (SELECT channel, count(DISTINCT customer_id) AS n FROM sales GROUP BY ROLLUP (channel))",
]


@pytest.mark.parametrize("sql", sampled(SETS, every=3))
def test_what_does_not_add_up_is_asked_for_each_grouping_set(
    con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    mine, theirs = (sorted(map(repr, one.execute(sql).fetchall())) for one in (con, plain))
    assert mine == theirs


def test_each_grouping_set_is_a_question_of_its_own(con: duckanon.Analyst) -> None:
    sql = "SELECT {0}, count(DISTINCT price) FROM sales GROUP BY {1}"
    spent = "SELECT spent FROM privacy_budget() WHERE population = 'customers'"
    ((before,),) = con.execute(spent).fetchall()
    con.execute(sql.format("channel, store_id", "channel, store_id")).fetchall()
    steps = con.explain(sql.format("channel, store_id", "ROLLUP (channel, store_id)")).steps
    assert [step.drawn is not None for step in steps] == [True, False, False]
    con.execute(sql.format("channel, store_id", "ROLLUP (channel, store_id)")).fetchall()
    con.execute(sql.format("channel", "channel")).fetchall()
    assert con.execute(spent).fetchall() == [(before + 3,)]
    many = ", ".join(f"(store_id + {at})" for at in range(17))
    with pytest.raises(duckanon.errors.PolicyRefusal, match="these are too many"):
        con.execute(f"SELECT count(DISTINCT price) FROM sales GROUP BY GROUPING SETS ({many})")


def test_what_is_told_of_asof_joins_is_what_they_are(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection) -> None:
    on = "r.customer_id = s.customer_id AND s.sold_at >= r.returned_at"
    asof = f"SELECT reason, count(*) FROM sales s ASOF JOIN returns r ON {on} GROUP BY reason"
    numbered = (
        "SELECT reason, count(*) FROM (SELECT reason, row_number() OVER (PARTITION BY s.customer_id, s.sale_id "
        f"ORDER BY r.returned_at DESC) AS n FROM sales s JOIN returns r ON {on}) WHERE n = 1 GROUP BY reason"
    )
    assert sorted(con.execute(numbered).fetchall()) == sorted(plain.execute(asof).fetchall())
