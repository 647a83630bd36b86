"""What programs ask of open tables, asked of a protected one: charts as PostgreSQL answers them, and no records."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from psycopg import pq

from tests.amounts import sampled
from tests.clients import world
from tests.clients.statements import Sent, programs, sent
from tests.server.served import Served, serving
from tests.server.test_programs import answer, rows_differ

# With so much of a budget for each question its noise is nothing.
_PROTECTED = """
SELECT protect('visits', population := 'visits', epsilon := 1000000, per_query := 1000,
  public := ['shop', 'day', 'visit_ts'], domains := {shop: {'from': 0, 'to': 49}},
  bounds := {day: [DATE '2024-01-01', DATE '2025-12-31'], amount: [0, 1500, 0.5],
    visit_ts: [TIMESTAMP '2024-01-01', TIMESTAMP '2025-12-31']});
"""
# Records and values of single ones, a quantile without bounds, pairs of records, and steps too fine for a year.
_OF_RECORDS = re.compile(
    r"""
    ^SELECT\ \S*\*\ FROM | \bvisit"?, | Visit_visit
    | ^SELECT\ (visit_ts|extract\(epoch\ from\ visit_ts\))\ AS\ "time",\ amount
    | \bMIN\( | SELECT\ 1\ AS | PERCENTILE_CONT | a\.visit\ \* | DATE_TRUNC\('second' | seconds'
    """,
    re.VERBOSE | re.IGNORECASE,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "_POLICY", world._POLICY.replace("SELECT open_table('visits');", _PROTECTED))
        with serving(world.make(tmp_path_factory.mktemp("protected") / "people.duckdb")) as found:
            yield found


def asked(program: str) -> list[Sent]:
    return [one for one in sent(program) if one.kind == "open" and "visits" in one.text]


@pytest.mark.ci("each chart of each program once more, of a protected table")
@pytest.mark.parametrize("program", sampled([one for one in programs() if one != "dbt" and asked(one)], every=1))
def test_charts_are_answered(program: str, served: Served) -> None:
    with served.login("ana") as con:
        for one in asked(program):
            result = answer(con, one)
            is_refused = result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
            assert is_refused == bool(_OF_RECORDS.search(" ".join(one.text.split()))), (one.text, result.error_message)
            # Sums have noise of some steps.
            if not is_refused and one.rows is not None and "amount" not in one.text:
                assert rows_differ(result, one.rows, in_order=False) == "", one.text
