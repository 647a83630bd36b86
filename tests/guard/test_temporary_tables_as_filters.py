"""An analyst's temporary table beside protected records: what cannot be drawn with it is refused before it is charged.

An answer is drawn on another connection, which does not see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duckanon
from duckanon.analyst import Analyst
from duckanon.errors import PolicyRefusal
from duckanon.governance import answers

SIZES = "SELECT size, count(*) FROM (SELECT hid, count(*) AS size FROM persons {} GROUP BY hid) GROUP BY size"
REFUSED = (
    SIZES.format("WHERE hid IN (SELECT h FROM mine)"),
    SIZES.format("SEMI JOIN mine ON hid = h"),
    SIZES.format("WHERE hid IN (SELECT h FROM also_mine)"),
    SIZES.format("WHERE age IN (SELECT h FROM mine WHERE h > 1)"),
    "SELECT size, count(*) FROM (SELECT m.h, count(persons.age) AS size FROM mine AS m LEFT JOIN persons "
    "ON m.h = persons.hid GROUP BY m.h) GROUP BY size",
)
# What is looked up for a value of a key is not part of what is drawn.
ANSWERED = (
    "SELECT count(*) FROM persons WHERE age IN (SELECT h FROM mine)",
    "SELECT count(*) FROM persons SEMI JOIN mine ON age = h",
    "SELECT h, count(*) FROM persons JOIN mine ON age = h GROUP BY h",
    "SELECT count(*) FROM mine",
)


@pytest.fixture
def con(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Analyst]:
    monkeypatch.setattr(answers, "STRICT", True)
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as steward:
        steward.execute(
            "CREATE TABLE persons AS "
            "SELECT i::INT AS person, (i // 3)::INT AS hid, (i % 9)::INT AS age FROM range(60) r(i)"
        )
        steward.execute(
            "SELECT protect('persons', privacy_unit := 'person', unit := 'hid', rows_per_unit := 1, epsilon := 100, "
            "per_query := 1, max_size := 5, public := ['age'], domains := {'age': {'from': 0, 'to': 8}})"
        ).fetchall()
    with duckanon.connect(path, role="analyst") as found:
        assert isinstance(found, Analyst)
        found.execute("CREATE TEMP TABLE mine AS SELECT i::INT AS h FROM range(4) r(i)")
        found.execute("CREATE TEMP VIEW also_mine AS SELECT h FROM mine WHERE h > 0")
        yield found


@pytest.mark.parametrize("sql", REFUSED)
def test_it_is_refused_without_a_charge(con: Analyst, sql: str) -> None:
    with pytest.raises(PolicyRefusal, match="not in a temporary one: write its values out"):
        con.execute(sql)
    assert con.execute("SELECT spent_exact FROM privacy_budget()").fetchall() == [("0",)]


@pytest.mark.parametrize("sql", ANSWERED)
def test_it_is_answered_where_it_stands_beside_the_answer(con: Analyst, sql: str) -> None:
    assert con.execute(sql).fetchall()


def test_its_values_may_be_written_out(con: Analyst) -> None:
    assert con.execute(SIZES.format("WHERE hid IN (0, 1, 2, 3)")).fetchall()
