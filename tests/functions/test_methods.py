"""methods lists what the registries of the engines have, and an analyst may call it."""

from pathlib import Path

import duckdb

import duckanon
from duckanon.engines.registry import families


def test_every_method_of_every_family_is_listed(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute("SELECT family, name, help, limits, source FROM methods()").fetchall()
    assert found == [
        (family, one.name, one.help, one.limits, one.source)
        for family, methods in families().items()
        for one in methods.values()
    ]
    assert con.execute("SELECT DISTINCT family FROM methods(family := 'groups')").fetchall() == [("groups",)]


def test_options_come_with_their_least_values(con: duckdb.DuckDBPyConnection) -> None:
    listed = con.execute("SELECT options FROM methods('kanon') WHERE name = 'split_carry'").fetchall()
    options = families()["kanon"]["split_carry"].options
    assert listed == [([f"{name} >= {least}" for name, least in options.items()],)]
    assert options


def test_an_analyst_may_call_it(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    with duckanon.connect(path, role="analyst") as analyst:
        assert ("auto",) in analyst.execute("SELECT name FROM methods(family := 'kanon')").fetchall()
