"""Every attack of `fixtures/attacks` through the wire: no canary in any byte that comes back."""

from __future__ import annotations

import re
from pathlib import Path

import duckanon
from tests.amounts import LONG
from tests.attacks import attacks, besieged, split
from tests.guard.test_attacks import CANARY, POLICY
from tests.server.client import Client, query
from tests.server.served import serving
from tests.server.ways import WAYS, reset


def test_no_attack_gets_a_canary(tmp_path: Path) -> None:
    """Each statement in one way, the ways in turn; in all ways with `HYPOTHESIS_PROFILE=long`."""
    besieged(tmp_path).close()
    path = tmp_path / "people.duckdb"
    with duckanon.connect(path) as con:
        con.execute(POLICY).fetchall()
        before = con.execute("SELECT * FROM persons ORDER BY ALL").fetchall()
    ran = 0
    with serving(path, seconds=20.0) as served, Client(served.host, served.port, seconds=60).log_in("ana") as client:
        statements = [
            (one, sql)
            for one in attacks()
            for sql in dict.fromkeys([one.placed(tmp_path), *split(one.placed(tmp_path))])
            if "\0" not in sql and _is_unicode(sql)
        ]
        for at, (one, sql) in enumerate(statements):
            ways = list(WAYS) if LONG else [list(WAYS)[at % len(WAYS)]]
            for way in ways:
                seen = WAYS[way](client, sql)
                told = set(CANARY.findall(seen.raw.decode(errors="replace"))) - set(CANARY.findall(sql))
                assert not told, (way, one.family, one.kind, one.tries, sql, told)
                assert not any(said["C"] == "XX000" for said in seen.errors), (way, sql, seen.errors)
                ran += bool(seen.rows or seen.copied)
            if at % 10 == 9:
                reset(client)
        reset(client)
        log = served.log()
        assert "internal error" not in log
        assert client.ask(query("SELECT 1")).rows == [("1",)]
    assert not re.search(r"^Traceback", log, re.MULTILINE)
    with duckanon.connect(path, role="steward") as con:
        assert con.execute("SELECT * FROM persons ORDER BY ALL").fetchall() == before
    assert not list(tmp_path.glob("out/*"))
    assert len(statements) > 300


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
