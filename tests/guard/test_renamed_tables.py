"""A protected table under another name stays closed until a steward opens it, and so does a copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.errors import DuckanonError

_MADE = """
CREATE SCHEMA pub;
CREATE TABLE pub.persons AS SELECT i AS id, ['GA', 'NY'][1 + i % 2] AS state, i * 37 AS secret FROM range(5) r(i);
CREATE TABLE pub.states AS SELECT unnest(['GA', 'NY']) AS state;
CREATE TABLE pub.example AS SELECT -1 AS id, 'GA' AS state, 0 AS secret;
SELECT protect('pub.persons', privacy_unit := 'id', rows_per_unit := 1, epsilon := 1, per_query := 0.1,
  public := ['state'], domains := {'state': ['GA', 'NY']})
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with steward(tmp_path / "x.duckdb") as con:
        for one in _MADE.split(";"):
            con.execute(one).fetchall()
    return tmp_path / "x.duckdb"


@contextmanager
def steward(path: Path) -> Iterator[duckanon.Connection]:
    with duckanon.connect(path, role="steward") as con:
        yield con


def run(path: Path, *statements: str) -> list[str]:
    """What a steward is told."""
    with steward(path) as con:
        return [str(row[0]) for one in statements for row in con.execute(one).fetchall() if row]


def is_open(path: Path, table: str) -> bool:
    with duckanon.connect(path, role="analyst") as con:
        try:
            con.execute(f"FROM {table}").fetchall()
        except DuckanonError:
            return False
        return True


RENAMED = {
    "renamed": (["ALTER TABLE pub.persons RENAME TO later"], "pub.later"),
    "unprotected before": (
        ["SELECT unprotect('pub.persons')", "ALTER TABLE pub.persons RENAME TO later"],
        "pub.later",
    ),
    "copied": (["CREATE TABLE pub.later AS FROM pub.persons"], "pub.later"),
    "swapped": (
        [
            "CREATE TABLE pub.later AS FROM pub.persons",
            "ALTER TABLE pub.persons RENAME TO earlier",
            "ALTER TABLE pub.later RENAME TO persons",
        ],
        "pub.earlier",
    ),
    "in place of an open one": (
        ["DROP TABLE pub.example", "ALTER TABLE pub.persons RENAME TO example"],
        "pub.example",
    ),
    "behind a view": (
        ["ALTER TABLE pub.persons RENAME TO later", "CREATE VIEW pub.seen AS FROM pub.later"],
        "pub.seen",
    ),
}


@pytest.mark.parametrize("opening", ["pub.*", "pub.example"])
@pytest.mark.parametrize("how", RENAMED)
def test_another_name_opens_nothing(path: Path, opening: str, how: str) -> None:
    statements, table = RENAMED[how]
    run(path, f"SELECT open_table('{opening}')")
    assert is_open(path, "pub.example")
    run(path, *statements)
    assert not is_open(path, table)
    assert is_open(path, "pub.states") is (opening == "pub.*")


def test_an_open_view_does_not_read_it_either(path: Path) -> None:
    """The name that the view reads was another table's."""
    run(path, "CREATE VIEW pub.seen AS FROM pub.example", "SELECT open_table('pub.seen')")
    assert is_open(path, "pub.seen")
    run(path, "DROP TABLE pub.example", "ALTER TABLE pub.persons RENAME TO example")
    assert not is_open(path, "pub.seen")


def test_a_table_that_comes_later_is_opened_by_a_call(path: Path) -> None:
    (said,) = run(path, "SELECT open_table('pub.*')")
    assert said.endswith("Later ones are closed until they are opened, since the schema has protected tables.")
    run(path, "CREATE TABLE pub.later AS SELECT 1 AS x")
    assert not is_open(path, "pub.later")
    run(path, "SELECT open_table('pub.*')")
    assert is_open(path, "pub.later")
    run(path, "DROP TABLE pub.later", "CREATE TABLE pub.later AS SELECT 2 AS y")
    assert is_open(path, "pub.later")


def test_where_nothing_was_ever_protected_later_tables_are_open(path: Path) -> None:
    (said,) = run(path, "SELECT open_table('main.*')")
    assert said == "Every table of main that is not protected is open: analysts read it as it is."
    run(path, "CREATE TABLE later AS SELECT 1 AS x")
    assert is_open(path, "later")


def test_what_may_be_a_renamed_table_is_opened_once_its_policy_has_ended(path: Path) -> None:
    run(path, "ALTER TABLE pub.persons RENAME TO later")
    with pytest.raises(duckdb.InvalidInputException, match="it may be that table under another name"):
        run(path, "SELECT open_table('pub.later')")
    run(path, "SELECT unprotect('pub.persons')", "SELECT open_table('pub.later')")
    assert is_open(path, "pub.later")
