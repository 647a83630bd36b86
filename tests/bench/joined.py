"""How far noise moves counts and sums of joins: python -m tests.bench.joined.

A star of customers, orders and lines, made from a seed: one customer's records are protected. Each question is
decided as an analyst asks it, and its noise is drawn several hundred times; beside it stands Laplace noise on the exact
cells of the join, with the sensitivity of a sum that is bounded by as many lines of a customer. `ratio` is ours by
Laplace's, of the median errors in all cells. At epsilon 1 for each question.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import duckanon
from duckanon.engines.randomness import Entropy
from duckanon.releases import mechanisms
from duckanon.releases.paid_questions import AggregatesQuestion

DRAWS = 400
_TABLES = """
  SELECT setseed(0.5);
  CREATE TABLE nation AS SELECT i AS nation, 'nation ' || i AS nation_name FROM range(25) r(i);
  CREATE TABLE supplier AS SELECT i AS supplier, i % 25 AS supplier_nation FROM range(1000) r(i);
  CREATE TABLE customer AS SELECT i AS customer, ['a', 'b', 'c'][1 + i % 3] AS segment FROM range(15_000) r(i);
  CREATE TABLE orders AS SELECT i AS order_id, i // 10 AS customer FROM range(150_000) r(i);
  CREATE TABLE lines AS SELECT i // 4 AS order_id, floor(random() * 1000)::INT AS supplier,
    floor(random() * 50)::INT + 1 AS quantity, (floor(random() * 100_001) / 100)::DECIMAL(9, 2) AS price
    FROM range(600_000) r(i);
  ALTER TABLE nation ADD PRIMARY KEY (nation);
  ALTER TABLE supplier ADD PRIMARY KEY (supplier);
  ALTER TABLE customer ADD PRIMARY KEY (customer);
  ALTER TABLE orders ADD PRIMARY KEY (order_id);
  SELECT open_table('nation'), open_table('supplier');
  SELECT protect('customer', population := 'customers', privacy_unit := 'customer', rows_per_unit := 1, epsilon := 1000,
    per_query := 1, public := ['segment'], domains := {'segment': ['a', 'b', 'c']});
  SELECT protect('orders', population := 'customers', privacy_unit := 'customer', rows_per_unit := 10, per_query := 1);
  SELECT protect('lines', population := 'customers', link := {'order_id': 'orders.order_id'}, rows_per_unit := 40,
    per_query := 1, bounds := {'quantity': [0, 50], 'price': [0, 1000, 0.01]})
"""
_JOINED = """FROM lines JOIN supplier USING (supplier) JOIN nation ON supplier_nation = nation"""
# Each question, and how much one line adds at most.
QUESTIONS = {
    "lines by the supplier's nation": (f"SELECT nation_name, count(*) {_JOINED} GROUP BY nation_name", 1),
    "quantity by the supplier's nation": (f"SELECT nation_name, sum(quantity) {_JOINED} GROUP BY nation_name", 50),
    "quantity times price, by segment": (
        "SELECT segment, sum(lines.quantity * lines.price) FROM lines JOIN orders USING (order_id) "
        "JOIN customer USING (customer) GROUP BY segment",
        50_000,
    ),
}
LINES_OF_ONE = 40


def asked(con: duckanon.Analyst, sql: str) -> AggregatesQuestion:
    """The question behind a statement."""
    (question,) = con._guard.decide(sql).answers
    assert isinstance(question, AggregatesQuestion)
    return question


def errors(con: duckanon.Analyst, sql: str) -> np.ndarray:
    """The errors of the number that a statement shows, in each cell and draw."""
    question, own = asked(con, sql), con._guard._shared.own
    size = len(mechanisms.form(own, question))
    ((measure, _),) = question.measures
    (exactly,) = mechanisms.totals(own, question, size)

    def shown(totals: np.ndarray) -> np.ndarray:
        columns = measure.decoded(totals)
        return np.array([float(one) for one in (columns[1] if len(columns) > 1 else columns[0])])

    source, true = Entropy(), shown(exactly)
    return np.array([shown(mechanisms.noised(question, measure, exactly, source)) - true for _ in range(DRAWS)])


def lines() -> Iterator[str]:
    yield "| question | median error | Laplace on the joined cells | ratio |"
    yield "|---|---:|---:|---:|"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "star.duckdb"
        with duckanon.connect(path, role="steward") as con:
            for one in _TABLES.split(";"):
                con.execute(one).fetchall()
        with duckanon.connect(path, role="analyst") as con:
            for name, (sql, most) in QUESTIONS.items():
                ours = float(np.median(np.abs(errors(con, sql))))
                laplace = LINES_OF_ONE * most * float(np.log(2))
                yield f"| {name} | {ours:,.1f} | {laplace:,.1f} | {ours / laplace:.2f} |"


if __name__ == "__main__":
    print("\n".join(lines()))
