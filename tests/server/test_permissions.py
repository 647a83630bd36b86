"""A database that the server's user cannot write: what is said, with the texts that DuckDB gives to such a user.

Tests may run as root, whom no permission stops, so DuckDB's refusal is put in its place.
"""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from duckanon.errors import InvalidInput
from duckanon.server import service
from duckanon.server.service import Options

# Of DuckDB 2.0 as the user nobody, for a file of another user with the mode 0444.
DENIED = 'IO Error: Cannot open file "{}": Permission denied'
LOCKED = 'IO Error: Could not set lock on file "{}": Conflicting lock is held in another process'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.duckdb"
    duckdb.connect(str(path)).close()
    return path


def refused(path: Path, text: str, monkeypatch: pytest.MonkeyPatch, *, read_only: bool = False) -> str:
    def fails(*_: object, **__: object) -> None:
        raise duckdb.IOException(text.format(path))

    with monkeypatch.context() as patch:
        patch.setattr(duckdb, "connect", fails)
        with pytest.raises(InvalidInput) as raised:
            service._opened(path, Options(read_only=read_only))
    return str(raised.value)


def test_a_file_that_may_not_be_written_is_not_called_anything_else(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = refused(path, DENIED, monkeypatch)
    assert denied.startswith(f"{path} cannot be written: ")
    assert "permission" in denied
    assert "--read-only" in denied
    assert "no DuckDB database" not in denied
    assert refused(path, DENIED, monkeypatch, read_only=True).startswith(f"{path} cannot be read: ")
    # The sentence of a database that another process has open is as it was.
    assert "another process has it open" in refused(path, LOCKED, monkeypatch)


def test_a_folder_that_may_not_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB opens the file, and fails when it writes its log beside it: a server says so before it starts."""
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != path.parent)
    with pytest.raises(InvalidInput, match=r"cannot be written: .* and its folder"):
        service._opened(path, Options())
