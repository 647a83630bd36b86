"""Databases that cannot be opened: one sentence in every role, in place of DuckDB's error.

Tests may run as root, whom no permission stops, so DuckDB's refusals for others are put in the place of its answers.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import duckanon
from duckanon.catalog.database_files import unattached
from duckanon.errors import InvalidInput

ROLES = (None, "steward", "analyst")
HOLDS = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
DAMAGED = "is damaged, or was cut off when it was copied: take a copy that is whole."
FOREIGN = "is no DuckDB database: name one, or a new file to make it."


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "people.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE persons AS SELECT i AS id, hash(i) AS code FROM range(100000) r(i)")
    return path


@pytest.fixture
def locked(sound: Path) -> Iterator[Path]:
    """A database that another process has open."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(sound)], **pipes) as other:  # type: ignore[call-overload]
        assert other.stdout.readline() == b"open\n"
        yield sound
        other.communicate()


def refusal(path: Path, role: str | None = None, *, read_only: bool = False) -> str:
    with pytest.raises(InvalidInput) as raised:
        duckanon.connect(path, role=role, read_only=read_only)
    text = str(raised.value)
    assert text.startswith(f"{path} ")
    return text.removeprefix(f"{path} ")


@pytest.mark.parametrize("role", ROLES)
def test_a_database_that_another_process_has_open(locked: Path, role: str | None) -> None:
    for read_only in (False, True):
        said = refusal(locked, role, read_only=read_only)
        assert re.fullmatch(r"is open in process \d+ \(python[\d.]*\), perhaps a server: stop that first\.", said)


@pytest.mark.parametrize("role", ROLES)
def test_files_that_are_no_database(tmp_path: Path, sound: Path, role: str | None) -> None:
    whole = sound.read_bytes()
    flipped = bytearray(whole)
    flipped[5000] ^= 255
    contents = {
        b"hello world" * 1000: FOREIGN,
        b"hi": FOREIGN,
        whole[:13_000]: DAMAGED,
        bytes(flipped): DAMAGED,
    }
    path = tmp_path / "people.duckdb"
    for content, why in contents.items():
        for read_only in (False, True):
            path.write_bytes(content)
            assert refusal(path, role, read_only=read_only) == why
    path.write_bytes(b"")
    assert refusal(path, role, read_only=True) == FOREIGN


def test_no_file(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "is a folder: name a file in it."
    missing = tmp_path / "missing" / "people.duckdb"
    assert refusal(missing) == "cannot be made, since its folder does not exist: make that first."
    assert refusal(missing, read_only=True) == "does not exist: what is opened for reading only must be there."


def test_a_path_through_a_file(sound: Path) -> None:
    why = "cannot be made, since a part of its path is a file and no folder: choose another one."
    assert refusal(sound / "people.duckdb") == why


def test_a_database_that_is_no_path() -> None:
    with pytest.raises(InvalidInput, match="A database is the path of its file"):
        duckanon.connect(5)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("config", "says"),
    [({"nothing": 1}, "config names nothing"), ({"threads": "many"}, "config has a value that its setting")],
)
def test_a_config_that_duckdb_does_not_take(tmp_path: Path, config: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        duckanon.connect(tmp_path / "new.duckdb", config=config)


def test_attached_files(locked: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.duckdb"
    text.write_text("no database" * 1000)
    with duckanon.connect(role="steward") as con:
        for path, says in {locked: "is open in process", text: "is no DuckDB database"}.items():
            with pytest.raises(InvalidInput, match=says):
                con.execute(f"ATTACH '{path}' AS other")
        with pytest.raises(duckdb.CatalogException):
            con.execute("FROM nothing")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("Invalid Input Error: Wrong encryption key used to open the database file", "The key .* is wrong"),
        ('Catalog Error: Cannot open encrypted database "/a.duckdb" without a key', "/a.duckdb is encrypted"),
        ("DuckDB currently has a read-only crypto module loaded.", "only with its extension httpfs"),
    ],
)
def test_attached_databases_that_are_encrypted(words: str, says: str) -> None:
    found = unattached("ATTACH '/a.duckdb' AS other", duckdb.Error(words))
    assert found is not None
    assert re.search(says, str(found))
    assert unattached("SELECT 1", duckdb.Error(words)) is None


def test_no_permission(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str, *_: object, **__: object) -> None:
        raise duckdb.IOException(f'IO Error: Cannot open file "{path}": Permission denied')

    monkeypatch.setattr(duckdb, "connect", denied)
    ask = "ask its owner for permission."
    assert refusal(sound) == (
        f"may not be written: open it for reading only (read_only=True, on the command line --read-only), or {ask}"
    )
    assert refusal(sound, read_only=True) == f"may not be read: {ask}"
    assert (
        refusal(tmp_path / "new.duckdb") == "cannot be made, since its folder may not be written: choose another one."
    )
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert refusal(sound) == f"may not be read: {ask}"


def test_a_database_of_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB looks for an extension, which it may have to download."""

    def without_network(*_: object, **__: object) -> None:
        raise duckdb.IOException('IO Error: Failed to download extension "sqlite_scanner"')

    monkeypatch.setattr(duckdb, "connect", without_network)
    (tmp_path / "people.db").write_bytes(b"SQLite format 3\0" + bytes(500))
    assert refusal(tmp_path / "people.db") == FOREIGN


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(duckdb.Error, match="in-memory"):
        duckanon.connect(read_only=True)
