"""A process whose disk is full after a number of bytes: what it may say, leave behind and charge.

python -m tests.governance.full_disk FOLDER (releases | questions | publications | tables | spilled)

A process of its own, since the limit holds for all that it writes.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb

import duckanon
from duckanon.governance.answers import NOT_KEPT

NOT_RECORDED = (
    "Nothing can be recorded: the file of database x could not be written. Make room on its disk, and try again."
)
NOT_STORED = (
    "The release was charged and could not be stored, so it is not given. Make room on the disk of the database, and "
    "repeat the call: that costs nothing."
)
# Calls, and the same ones spelled otherwise.
RELEASES = [
    (
        "FROM dp_group_sizes('people', 'household', ['place'], epsilon := 1, max_size := 9, person := 'id')",
        "FROM dp_group_sizes('x.PEOPLE', 'Household', ['PLACE'], epsilon := '1.0', max_size := 9, person := 'ID')",
    ),
    (
        "FROM metric_perturb('people', 'place', 'mechanism', epsilon := 1) ORDER BY ALL",
        "FROM metric_perturb('main.People', 'PLACE', 'x.Mechanism', epsilon := '1/1') ORDER BY ALL",
    ),
]


@contextmanager
def full(size: int) -> Iterator[None]:
    """No file of this process can become larger than `size` bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def steward(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect(str(path))) as con:
        duckanon.register(con)
        yield con


def made(folder: Path, name: str) -> Path:
    """A database with a table; all of it is in the file, and nothing in the log of changes."""
    (folder / name).mkdir()
    path = folder / name / "x.db"
    with closing(duckdb.connect(str(path))) as con:
        con.execute(
            "CREATE TABLE people AS SELECT i AS id, i // 3 AS household, 'p' || i // 3 % 4 AS place "
            "FROM range(600) r(i)"
        )
        con.execute("CREATE TABLE places AS SELECT 'p' || i AS place, i AS x, i * i AS y FROM range(4) r(i)")
        duckanon.register(con)
        con.execute("CREATE TABLE mechanism AS FROM metric_mechanism('places', 'place', ['x', 'y'], epsilon := 1)")
    return path


def said(con: Any, statement: str) -> str:
    """The sentence of a statement that fails; empty if it does not."""
    try:
        con.execute(statement).fetchall()
    except (duckdb.Error, duckanon.errors.DuckanonError) as problem:
        return str(problem).removeprefix("Invalid Input Error: ")
    return ""


def releases(folder: Path) -> None:
    """A steward's release is drawn and stored, or it is not given; however often it fails, it is charged once."""
    heard = set()
    for number, (call, again) in enumerate(RELEASES):
        for size in range(0, 6_000, 900):
            # (The folder's name must not be taken for what DuckDB says of another writer.)
            path = made(folder, f"conflict-{number}-{size}")
            with steward(path) as con:
                with full(size):
                    heard |= {said(con, call) for _ in range(2)}
                con.execute("SELECT protect('people', epsilon := 10)").fetchall()
                con.execute("SELECT new_edition('people')").fetchall()
                if duckdb.__version__ < "2":  # It holds the key of a commit that failed until one more has failed.
                    heard.add(said(con, again))
                given = con.execute(again).fetchall()
            with steward(path) as con:
                assert con.execute(call).fetchall() == given
                charges = "SELECT number FROM x.duckanon.ledger WHERE epsilon = '1'"
                assert (
                    con.execute(charges).fetchall() == con.execute("SELECT number FROM x.duckanon.releases").fetchall()
                )
    assert heard == {"", NOT_RECORDED, NOT_STORED}, heard


def questions(folder: Path) -> None:
    """An analyst's answer is charged once."""
    heard, asked = set(), "SELECT place, count(*) AS n FROM people GROUP BY place ORDER BY place"
    # The charge fits and the answer does not in a range of hardly more than a hundred bytes.
    for size in (0, 800, *range(1_000, 2_000, 100), 2_400):
        path = made(folder, f"asked-{size}")
        with steward(path) as con:
            con.execute(
                "SELECT protect('people', unit := 'id', epsilon := 10, per_query := 1, public := ['place'], "
                "domains := {'place': ['p0', 'p1', 'p2', 'p3']})"
            ).fetchall()
            con.execute("CHECKPOINT")
        with duckanon.connect(path, role="analyst") as analyst:
            with full(size):
                heard |= {said(analyst, asked) for _ in range(2)}
            given = analyst.execute(asked).fetchall()
        with duckanon.connect(path, role="analyst") as analyst:
            assert analyst.execute(asked).fetchall() == given
        with steward(path) as con:
            charged = "SELECT number FROM x.duckanon.ledger WHERE action = 'charge'"
            assert len(con.execute(charged).fetchall()) == 1
    assert heard == {"", NOT_RECORDED, NOT_KEPT}, heard


def publications(folder: Path) -> None:
    """A publication is there with its line, or neither is."""
    heard = set()
    for size in range(0, 6_000, 600):
        path = made(folder, f"published-{size}")
        publish = "SELECT publish('counted', variables := ['place'], value := 'n')"
        with steward(path) as con:
            con.execute("SELECT protect('people', epsilon := 10, public := ['place'])").fetchall()
            con.execute("CREATE TABLE counted AS SELECT place, count(*) AS n FROM people GROUP BY place")
            con.execute("CHECKPOINT")
            with full(size):
                heard.add(said(con, publish))
            there = "SELECT count(*) FROM x.duckanon.ledger WHERE action = 'publish'"
            if con.execute(there).fetchall() == [(0,)]:
                con.execute(publish).fetchall()
            assert con.execute(there).fetchall() == [(1,)]
    assert heard == {"", NOT_RECORDED}, heard


def tables(folder: Path) -> None:
    """No table is left half written."""
    path = made(folder, "tables")
    create = "CREATE TABLE released AS FROM k_anonymize('notes', ['id'], k := 3, method := 'order')"
    with steward(path) as con:
        con.execute("CREATE TABLE notes AS SELECT *, md5(id::VARCHAR) AS note FROM people, range(100)")
        con.execute("CHECKPOINT")
        with full(path.stat().st_size):
            told = said(con, create)
        assert "File too large" in told, told
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'released'").fetchall() == [(0,)]
        con.execute(create).fetchall()
        assert con.execute("SELECT count(*) FROM released").fetchall() == [(60_000,)]


def spilled(folder: Path) -> None:
    """DuckDB's own sentence where it may not spill enough."""
    with steward(folder / "x.db") as con:
        con.execute("SET memory_limit = '200MB'; SET max_temp_directory_size = '20MB'; SET threads = 2")
        con.execute(
            "CREATE VIEW people AS SELECT i * 7919 % 1009 AS age, i * i % 151 AS place, md5(i::VARCHAR) AS note, "
            "md5((-i)::VARCHAR) AS other FROM range(2_000_000) r(i)"
        )
        create = "CREATE TABLE released AS FROM k_anonymize('people', ['age', 'place'], k := 5, method := 'order')"
        told = said(con, create)
        assert "max_temp_directory_size" in told, told
        assert con.execute("FROM duckdb_tables()").fetchall() == []


WAYS = {way.__name__: way for way in (releases, questions, publications, tables, spilled)}

if __name__ == "__main__":
    WAYS[sys.argv[2]](Path(sys.argv[1]))
