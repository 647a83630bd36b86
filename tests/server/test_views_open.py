"""A steward opens views over the wire, where DuckDB's settings are locked: what they read is known all the same."""

from __future__ import annotations

import psycopg
import pytest

from tests.server.served import Served

CLOSED = {
    "over a protected table": "SELECT state FROM persons WHERE false",
    "through another view": "SELECT state FROM people",
    "through a macro": "SELECT n FROM aged(30)",
    "in a subquery": "SELECT county FROM counties WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic > 9)",
    "beside another table": "SELECT c.county FROM counties c POSITIONAL JOIN persons p",
    "of the ledger": "SELECT what FROM duckanon.ledger",
}


def test_a_view_over_an_open_table_is_opened(served: Served) -> None:
    with served.login("stu") as stu, served.login("ana") as ana:
        stu.execute("CREATE VIEW names AS SELECT county FROM counties")
        stu.execute("CREATE VIEW \"a.b 'c'\" AS SELECT county FROM names WHERE county > 'a'")
        stu.execute("SELECT open_table('names')")
        stu.execute("SELECT open_table('\"a.b ''c''\"')")
        assert ana.execute("SELECT count(*) FROM names").fetchall() == [(4,)]
        assert ana.execute("SELECT count(*) FROM \"a.b 'c'\"").fetchall() == [(4,)]


@pytest.mark.parametrize("query", CLOSED.values(), ids=CLOSED)
def test_a_view_over_what_is_protected_stays_closed(served: Served, query: str) -> None:
    with served.login("stu") as stu:
        stu.execute(f"CREATE VIEW closed AS {query}")
        with pytest.raises(psycopg.Error, match="reads") as raised:
            stu.execute("SELECT open_table('closed')")
        assert "cannot be read as it stands" not in str(raised.value)
