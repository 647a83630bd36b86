"""Databases and folders that a command cannot use: the sentence says why, and names no file that nobody knows."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.integrations.cli.commandline import VOTERS, run

HOLDS = "import duckdb, sys; con = duckdb.connect('shop.duckdb'); print('open', flush=True); sys.stdin.read()"
NO_PLACE = "cannot be written: ask for permission to write in its folder, or choose another folder.\n"


@pytest.fixture
def locked(here: Path) -> Iterator[str]:
    """The name of a database that another process has open."""
    with duckdb.connect("shop.duckdb") as con:
        con.execute("CREATE TABLE people AS SELECT i % 40 AS age FROM range(90) r(i)")
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        yield "shop.duckdb"
        other.communicate()


def test_a_database_that_another_process_has_open(locked: str) -> None:
    for command in (
        ["sql", locked, "-c", "SELECT 1"],
        ["sql", locked, "--role", "analyst", "-c", "SELECT 1"],
        ["audit", locked],
        ["report", locked, "--table", "people", "--qi", "age"],
        ["report", locked, "--out", "page.html"],
        ["tables", "audit", locked, "people"],
        ["k-anonymize", locked, "out.csv", "--table", "people", "--qi", "age"],
        ["explore", locked, "--no-browser"],
    ):
        result = run(*command)
        assert (result.exit_code, result.stdout) == (1, ""), command
        assert f"{locked} is open in process " in result.stderr
        assert result.stderr.endswith(", perhaps a server: stop that first.\n")


def test_a_database_whose_end_is_missing(here: Path) -> None:
    """DuckDB opens it, and fails when it reads what is missing."""
    with duckdb.connect("shop.duckdb") as con:
        con.execute("CREATE TABLE people AS SELECT i AS id, hash(i) AS code FROM range(100000) r(i)")
    os.truncate("shop.duckdb", os.path.getsize("shop.duckdb") // 2)
    result = run("sql", "shop.duckdb", "-c", "SELECT sum(code) FROM people")
    assert result.exit_code == 1
    assert "is damaged, or was cut off when it was copied: take a copy that is whole." in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["k-anonymize", VOTERS, "out.csv", "--qi", "age"], ["plot", "compare", VOTERS]])
def test_a_folder_that_may_not_be_written(here: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    """It is said before the work is done."""
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != Path())
    more = ["--qi", "age", "--out", "out.svg"] if command[0] == "plot" else []
    result = run(*command, *more)
    assert (result.exit_code, result.stderr) == (1, f"{'out.svg' if more else 'out.csv'} {NO_PLACE}")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, NO_PLACE),
        (errno.ENOSPC, "cannot be written, since the disk is full: make room, or choose another one.\n"),
    ],
)
def test_a_file_that_cannot_be_written(here: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str) -> None:
    def fails(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(source))

    monkeypatch.setattr(os, "replace", fails)
    result = run("k-anonymize", VOTERS, "out.csv", "--qi", "age", "--drop", "town")
    assert (result.exit_code, result.stderr) == (1, f"out.csv {said}")
    assert list(here.iterdir()) == []


def test_users_of_a_database_in_a_folder_that_may_not_be_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect("shop.duckdb"):
        pass

    def fails(path: Path, *_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        result = run("user", "add", "shop.duckdb", "ann", "--role", "analyst", stdin="a long password\n")
    assert result.exit_code == 1
    assert result.stderr == (
        "shop.duckdb.users cannot be written: ask for permission to write in the folder of the database.\n"
    )
