"""Non-interference where keys are found with noise: with the same keys and answers injected, nothing differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.releases.mechanisms import found_keys
from duckanon.releases.paid_questions import KeysQuestion, PaidQuestion
from tests.amounts import sampled
from tests.noninterference.harness import Comparison, Sent, injected, injecting

PROTECT = """
SELECT protect('persons', population := 'people', privacy_unit := 'person', rows_per_unit := 2, epsilon := 3,
  delta := 1e-6, per_query := 0.01, public := ['state', 'diagnosis', 'age', 'day'], bounds := {'age': [0, 90]},
  domains := {'state': ['GA', 'NY'], 'diagnosis': 'found', 'age': 'found', 'day': {'values': 'found', 'nulls': true}})
"""
TABLE = "CREATE TABLE persons (person BIGINT, state VARCHAR, age BIGINT, diagnosis VARCHAR, day DATE)"
# Without one value, one unit or one group of records in common.
RECORDS = (
    "SELECT i // 2 AS person, 'GA' AS state, i % 40 AS age, 'cold' AS diagnosis, DATE '2020-01-01' AS day "
    "FROM range(900) r(i)",
    "SELECT -i, 'NY', 40 + i, 'canary ' || i, NULL FROM range(3) r(i)",
    "SELECT NULL, NULL, NULL, NULL, NULL LIMIT 0",
)
STATEMENTS = (
    "SELECT day, count(*) FROM (SELECT day, row_number() OVER (PARTITION BY person ORDER BY age) AS n FROM persons) "
    "WHERE n = 1 GROUP BY day",
    "SELECT a.age, count(*) FROM persons a WHERE EXISTS (SELECT 1 FROM persons b WHERE b.person = a.person AND "
    "b.state = 'NY') GROUP BY ALL",
    "SELECT d, count(*) FROM (SELECT person, diagnosis AS d FROM persons UNION ALL "
    "SELECT person, diagnosis FROM persons) GROUP BY d",
    "SELECT DISTINCT diagnosis FROM persons ORDER BY ALL",
    "SELECT diagnosis, count(*) FROM persons GROUP BY diagnosis",
    "SELECT diagnosis, state, count(*), avg(age) FROM persons GROUP BY ALL ORDER BY ALL",
    "SELECT diagnosis, count(DISTINCT person) FROM persons WHERE age > 30 GROUP BY diagnosis HAVING count(*) > 10",
    "SELECT diagnosis, count(*) FROM persons WHERE diagnosis IN ('flu', 'canary 1') GROUP BY diagnosis",
    "SELECT diagnosis, count(*) FROM persons WHERE diagnosis LIKE 'c%' GROUP BY diagnosis",
    "SELECT diagnosis, state, count(*) FROM persons GROUP BY ROLLUP (diagnosis, state) ORDER BY ALL",
    # Parts of a CUBE come in any order.
    "SELECT day, diagnosis, count(*) FROM persons GROUP BY CUBE (day, diagnosis) ORDER BY ALL",
    "SELECT age, count(*) FROM persons GROUP BY age ORDER BY age LIMIT 3",
    "SELECT age // 10 AS decade, count(*) FROM persons GROUP BY decade",
    "SELECT state, avg((diagnosis = 'flu')::INT) FROM persons GROUP BY state",
    "SELECT diagnosis, avg((state = 'GA')::INT) FROM persons GROUP BY diagnosis",
    "SELECT state, count(*) / sum(count(*)) OVER (PARTITION BY diagnosis) FROM persons GROUP BY state, diagnosis",
    "SELECT diagnosis, median(age) FROM persons GROUP BY diagnosis",
    "SELECT upper(diagnosis) AS d, count(*) FROM persons GROUP BY d",
    "SELECT diagnosis FROM persons",
    "SELECT count(*) FROM persons WHERE diagnosis = 'cold'",
    "SELECT a.diagnosis, count(*) FROM persons a JOIN persons b USING (person) GROUP BY ALL",
    "FROM dp_group_sizes('persons', 'diagnosis', epsilon := 0.01, max_size := 3)",
    "FROM explain_privacy('SELECT day, count(*) FROM persons GROUP BY day')",
    "SELECT column_name FROM information_schema.columns WHERE table_schema = 'duckanon'",
)


@pytest.mark.parametrize("other", sampled([1, 2]))
def test_nothing_differs_but_what_was_found(tmp_path: Path, other: int) -> None:
    paths = []
    for at in (0, other):
        paths.append(tmp_path / str(at) / "x.duckdb")
        paths[-1].parent.mkdir()
        with duckanon.connect(paths[-1], role="steward") as con:
            con.execute(TABLE).fetchall()
            con.execute(f"INSERT INTO persons {RECORDS[at]}").fetchall()
            con.execute(PROTECT).fetchall()
    with injecting(), duckanon.connect(paths[0]) as first, duckanon.connect(paths[1]) as second:
        assert isinstance(first, Analyst)
        assert isinstance(second, Analyst)
        comparison = Comparison(first, second)
        for sql in STATEMENTS * 2:
            comparison.send(Sent(sql))
    assert not comparison.differences, comparison.differences[0]
    assert not comparison.unexpected, comparison.unexpected[0]
    assert comparison.ran > len(STATEMENTS)


def test_the_harness_sees_keys_that_are_the_records_own(tmp_path: Path) -> None:
    """A twin that tells every value that there is."""
    paths = []
    for at in (0, 1):
        paths.append(tmp_path / str(at) / "x.duckdb")
        paths[-1].parent.mkdir()
        with duckanon.connect(paths[-1], role="steward") as con:
            con.execute(TABLE).fetchall()
            con.execute(f"INSERT INTO persons {RECORDS[at]}").fetchall()
            con.execute(PROTECT).fetchall()

    def leaking(con: Any, asked: PaidQuestion, *more: Any) -> Any:
        if not isinstance(asked, KeysQuestion):
            return injected(con, asked, *more)
        values, _ = found_keys.units_by_value(con, asked)
        return pa.table({"k0": values.cast(pa.string())})

    with injecting(leaking), duckanon.connect(paths[0]) as first, duckanon.connect(paths[1]) as second:
        assert isinstance(first, Analyst)
        assert isinstance(second, Analyst)
        comparison = Comparison(first, second)
        comparison.send(Sent(STATEMENTS[1]))
    assert comparison.differences
