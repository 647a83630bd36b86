"""Every attack of `fixtures/attacks` through an analyst's connection: no canary in rows, names, errors or catalog."""

from __future__ import annotations

import re
from pathlib import Path

import duckanon
from duckanon.connection import Session
from tests.attacks import attacks, besieged, split
from tests.guard.canaries import analyst, outcome

CANARY = re.compile(r"canary \w+ \d|700[1]\d{3}")
POLICY = """
SELECT open_table('shops'), protect('persons', privacy_unit := 'pid', rows_per_unit := 1, unit := 'household_id',
  epsilon := 1000, per_query := 1, max_size := 5, public := ['vote'], domains := {'vote': ['true', 'false']})
"""
# The name of a column may be the sender's own words.
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


def test_no_attack_gets_a_canary(tmp_path: Path) -> None:
    path = tmp_path / "people.duckdb"
    besieged(tmp_path).close()
    with duckanon.connect(path) as con:
        con.execute(POLICY).fetchall()
        before = _content(con)
    admitted = []
    with analyst(path) as con:
        for one in attacks():
            for statement in _split(one.placed(tmp_path)):
                ran, seen = outcome(con, statement)
                own = set(CANARY.findall(statement))
                told = {found for part in seen for found in CANARY.findall(str(part))}
                assert not told - own, (one.family, one.kind, one.tries, statement, told - own)
                if ran:
                    admitted.append((one.kind, statement))
                    assert not CANARY.search(str(seen[1])), (one.kind, one.tries, statement)
            _reset(con)
    with duckanon.connect(path, role="steward") as con:
        assert _content(con) == before
        others = con.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE table_name <> 'persons'"
        ).fetchall()
        # A line of the ledger says what was asked, with the constants of whoever asked.
        asked = {found for _, statement in admitted for found in CANARY.findall(statement)}
        for schema, name in others:
            kept = set(CANARY.findall(str(con.execute(f'FROM "{schema}"."{name}"').fetchall())))
            assert not kept - (asked if name == "ledger" else set()), (schema, name)
    assert not list(tmp_path.glob("out/*"))
    # What runs is a release, or touches nothing protected; most is refused.
    assert len(admitted) < 90, admitted


def _split(sql: str) -> list[str]:
    """Its statements one by one, and, because a sender may, all at once."""
    parts = split(sql)
    return [sql, *parts] if len(parts) != 1 else [sql]


def _reset(con: duckanon.Analyst) -> None:
    """No transaction and no temporary table of the attack before."""
    outcome(con, "ROLLBACK")
    outcome(con, "DROP TABLE IF EXISTS temp.main.persons")
    for (name,) in con._con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall():
        outcome(con, f'DROP TABLE "{name}"')


def _content(con: Session) -> object:
    """The tables as they were, and what else there is."""
    return (
        con.execute("SELECT * FROM persons ORDER BY ALL").fetchall(),
        con.execute("SELECT * FROM shops ORDER BY ALL").fetchall(),
        con.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY ALL").fetchall(),
        con.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name <> 'duckanon' ORDER BY ALL").fetchall(),
    )
