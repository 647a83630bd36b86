"""Questions that a product team asks of its users' events and payments: without noise the answers are DuckDB's own.

They were written down before it was known which of them have answers: active users, funnels, cohorts, retention,
sessions, conversion, revenue by segment, with WITH, windows, subqueries and lookups as people write them.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

import duckanon
from tests.amounts import sampled
from tests.answers.checking import check, made, statements, without_noise

STATEMENTS = statements("fixtures/answers/product_analytics.sql")
EVENTS = 6000
# Every record lies in its domains and bounds, and no unit has more records than count. So nothing is left out.
_RECORDS = f"""
  CREATE TABLE countries AS SELECT * FROM (VALUES ('DE', 'Germany', 'EU'), ('FR', 'France', 'EU'),
    ('US', 'United States', 'NA'), ('BR', 'Brazil', 'SA'), ('IN', 'India', 'AS')) AS t(code, name, continent);
  CREATE TABLE pages AS
    SELECT '/p/' || i AS path, ['home', 'docs', 'pricing', 'blog'][1 + i % 4] AS section FROM range(20) r(i);
  CREATE TABLE calendar AS SELECT DATE '2024-01-01' + i::INTEGER AS day, i IN (0, 121) AS holiday FROM range(182) r(i);
  CREATE TABLE users AS
    SELECT i AS user_id, ['BR', 'DE', 'FR', 'IN', 'US'][1 + (hash(i) % 5)::INTEGER] AS country,
      DATE '2024-01-01' + (hash(i, 1) % 120)::INTEGER AS signup_date,
      ['free', 'pro', 'team'][1 + (hash(i, 2) % 3)::INTEGER] AS plan,
      18 + (hash(i, 3) % 60)::INTEGER AS age, ['f', 'm', 'x'][1 + (hash(i, 4) % 3)::INTEGER] AS gender,
      ['ads', 'organic', 'referral'][1 + (hash(i, 5) % 3)::INTEGER] AS channel
    FROM range(800) r(i);
  CREATE TABLE events AS
    SELECT i AS event_id, (hash(i, 7) % 800)::BIGINT AS user_id,
      TIMESTAMP '2024-01-01' + to_seconds((hash(i, 8) % (181 * 86400))::BIGINT) AS ts,
      ['view', 'click', 'signup', 'add_to_cart', 'purchase'][1 + (hash(i, 9) % 5)::INTEGER] AS event,
      '/p/' || hash(i, 10) % 20 AS path, (hash(i, 11) % 600)::INTEGER AS seconds,
      ['ios', 'android', 'web'][1 + (hash(i, 12) % 3)::INTEGER] AS device
    FROM range({EVENTS}) r(i);
  CREATE TABLE payments AS
    SELECT i AS payment_id, (hash(i, 17) % 800)::BIGINT AS user_id, DATE '2024-01-01' + (hash(i, 18) % 181)::INTEGER
      AS paid_on, ((hash(i, 19) % 20000) / 100)::DECIMAL(8, 2) AS amount,
      ['card', 'paypal', 'wire'][1 + (hash(i, 20) % 3)::INTEGER] AS method, hash(i, 21) % 10 = 0 AS refunded
    FROM range(1500) r(i);
  ALTER TABLE countries ADD PRIMARY KEY (code);
  ALTER TABLE pages ADD PRIMARY KEY (path);
  ALTER TABLE calendar ADD PRIMARY KEY (day);
  ALTER TABLE users ADD PRIMARY KEY (user_id);
  ALTER TABLE events ADD PRIMARY KEY (event_id);
  ALTER TABLE payments ADD PRIMARY KEY (payment_id)
"""
_CALLS = """
  SELECT open_table('countries'), open_table('pages'), open_table('calendar');
  SELECT protect('users', population := 'users', privacy_unit := 'user_id', unit := 'user_id', rows_per_unit := 1,
    epsilon := 9999, per_query := 1, public := ['country', 'plan', 'gender', 'channel', 'signup_date'],
    domains := {'country': 'countries.code', 'plan': ['free', 'pro', 'team'], 'gender': ['f', 'm', 'x'],
      'channel': ['ads', 'organic', 'referral'], 'signup_date': {'from': DATE '2024-01-01', 'to': DATE '2024-06-30'}},
    bounds := {'age': [18, 80]});
  SELECT protect('events', population := 'users', privacy_unit := 'user_id', unit := 'user_id', rows_per_unit := 40,
    epsilon := 9999, per_query := 1, public := ['event', 'path', 'device'],
    domains := {'event': ['view', 'click', 'signup', 'add_to_cart', 'purchase'], 'path': 'pages.path',
      'device': ['ios', 'android', 'web']},
    bounds := {'seconds': [0, 600], 'ts': ['2024-01-01 00:00:00', '2024-06-30 23:59:59']});
  SELECT protect('payments', population := 'users', privacy_unit := 'user_id', unit := 'user_id', rows_per_unit := 20,
    epsilon := 9999, per_query := 1, public := ['method', 'refunded', 'paid_on'],
    domains := {'method': ['card', 'paypal', 'wire'], 'refunded': [true, false],
      'paid_on': {'from': DATE '2024-01-01', 'to': DATE '2024-06-30'}},
    bounds := {'amount': [0, 200, 0.01]})
"""


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckanon.Analyst]:
    with without_noise(made(tmp_path_factory.mktemp("product") / "x.duckdb", _RECORDS, _CALLS)) as found:
        yield found


@pytest.fixture(scope="module")
def plain(con: duckanon.Analyst) -> Iterator[duckdb.DuckDBPyConnection]:
    with con._con.cursor() as found:
        yield found


def test_there_are_a_hundred_of_them() -> None:
    assert len(set(STATEMENTS)) >= 100


@pytest.mark.parametrize("sql", sampled(STATEMENTS, every=4), ids=lambda sql: sql[:60])
def test_it_is_duckdbs_own_answer(con: duckanon.Analyst, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    check(con, plain, sql, EVENTS)


def test_approximate_counts_are_exact_but_for_the_noise(con: duckanon.Analyst) -> None:
    asked = "SELECT device, {}(DISTINCT user_id) FROM events GROUP BY device ORDER BY device"
    approximate = asked.replace("{}(DISTINCT user_id)", "approx_count_distinct(user_id)")
    assert con.execute(approximate).fetchall() == con.execute(asked.format("count")).fetchall()
