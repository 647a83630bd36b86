"""truncation: the count that rows_per_unit leaves out, for a steward alone, which leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import duckanon
from duckanon.errors import DuckanonError

UNITS = ["a", "A", "ä", "b", None]
POLICY = "population := 'patients', privacy_unit := 'patient', rows_per_unit := 2, epsilon := 1, per_query := 0.1"


def filled(con: Any, units: Sequence[str | None]) -> None:
    con.execute("CREATE OR REPLACE TABLE visits (patient VARCHAR, visit INTEGER)").fetchall()
    for at, unit in enumerate(units):
        con.execute("INSERT INTO visits VALUES (?, ?)", [unit, at]).fetchall()


def left_out(con: Any, more: str = "") -> int:
    ((count,),) = con.execute(f"SELECT records_left_out FROM truncation('visits'{more})").fetchall()
    return int(count)


@pytest.fixture(scope="module")
def protected() -> duckdb.DuckDBPyConnection:
    con = duckanon.register(duckdb.connect())
    filled(con, [])
    con.execute(f"SELECT protect('visits', {POLICY})").fetchall()
    return con


@given(st.lists(st.sampled_from(UNITS), max_size=12), st.integers(1, 4), st.sampled_from(["", "nocase", "noaccent"]))
def test_it_counts_what_is_beyond_rows_per_unit(
    protected: duckdb.DuckDBPyConnection, units: list[str | None], rows: int, collation: str
) -> None:
    protected.execute(f"SET GLOBAL default_collation = '{collation}'").fetchall()
    filled(protected, units)
    own = Counter(one for one in units if one is not None)
    assert left_out(protected) == sum(max(many - 2, 0) for many in own.values())
    assert left_out(protected, f", rows_per_unit := {rows}") == sum(max(many - rows, 0) for many in own.values())


def test_it_counts_units_in_several_regions_where_the_group_is_the_unit() -> None:
    """Each of them counts in one of its regions only, which the answers say too."""
    con = duckanon.register(duckdb.connect())
    con.execute(
        "CREATE TABLE rec AS FROM (VALUES (1, 'GA', 7), (1, 'GA', 7), (2, 'GA', 7), (2, 'ga', 7), (3, NULL, 8), "
        "(3, 'GA', 8), (4, NULL, 8), (4, NULL, 8), (NULL, 'GA', 8), (NULL, 'ga', 8)) v(person, state, home)"
    ).fetchall()
    rest = (
        "hierarchy := ['state'], epsilon := 100, per_query := 9, max_size := 4, rows_per_unit := 4, "
        "public := ['state'], domains := {'state': ['GA', 'ga']}"
    )
    con.execute(f"SELECT protect('rec', privacy_unit := 'person', unit := 'person', {rest})").fetchall()
    con.execute("SET GLOBAL default_collation = 'nocase'").fetchall()
    assert con.execute("FROM truncation('rec')").fetchall() == [(0, 2)]
    con.execute("SELECT unprotect('rec')").fetchall()
    con.execute(f"SELECT protect('rec', privacy_unit := 'person', unit := 'home', {rest})").fetchall()
    assert con.execute("FROM truncation('rec')").fetchall() == [(0, None)]


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        filled(con, ["a", "a", "a"])
        con.execute(f"SELECT protect('visits', {POLICY})").fetchall()
        before = everything(con)
        assert left_out(con) == 1
        assert everything(con) == before
    assert {one.name for one in tmp_path.iterdir()} == {path.name, f"{path.name}.journal"}


def everything(con: Any) -> list[list[tuple[Any, ...]]]:
    """All tables with their contents, and the ledger."""
    tables = con.execute("SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
    contents = [con.execute(f'FROM "{schema}"."{name}" ORDER BY ALL').fetchall() for schema, name in tables]
    return [tables, *contents, con.execute("FROM privacy_ledger()").fetchall()]


def test_an_analyst_is_refused_whatever_the_records_are(tmp_path: Path) -> None:
    said = []
    for at, units in enumerate((["a", "a", "a"], [])):
        path = tmp_path / f"{at}.duckdb"
        with duckanon.connect(path, role="steward") as con:
            filled(con, units)
            con.execute(f"SELECT protect('visits', {POLICY})").fetchall()
        with duckanon.connect(path, role="analyst") as analyst:
            with pytest.raises(DuckanonError) as raised:
                analyst.execute("FROM truncation('visits')")
            said.append(str(raised.value))
    assert said[0] == said[1]
    assert "steward" in said[0]


def test_what_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    filled(con, ["a"])
    for call, why in (
        ("truncation('visits')", "visits is not protected, so no policy says"),
        ("truncation('visits', rows_per_unit := 0)", "rows_per_unit must be 1 or more"),
        ("truncation('visits', rows_per_unit := 1.5)", "rows_per_unit must be a whole number"),
    ):
        with pytest.raises(duckdb.InvalidInputException, match=why.replace("(", "\\(")):
            con.execute(f"FROM {call}").fetchall()
    con.execute("SELECT protect('visits', epsilon := 1)").fetchall()
    with pytest.raises(duckdb.InvalidInputException, match="each record is a privacy unit"):
        con.execute("FROM truncation('visits')").fetchall()
