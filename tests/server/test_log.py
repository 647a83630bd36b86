"""The log where its disk is full: no statement fails of it, and what is missing is said."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from duckanon.server.log import Log


def test_a_full_disk_loses_lines_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write, room = tmp_path / "log", os.write, [10]
    log = Log(path)
    log.write("start")

    def full(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(file, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", full)
    log.write("login", user="ana")
    log.write("statement", user="ana")
    monkeypatch.setattr(os, "write", write)
    log.write("logout", user="ana")
    log.close()
    first, torn, *rest = path.read_text().splitlines()
    assert json.loads(first)["event"] == "start"
    assert len(torn) == 10
    assert [json.loads(one)["event"] for one in rest] == ["lines missing", "logout"]
    assert json.loads(rest[0])["lines"] == 2


def test_a_log_that_was_closed_raises_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.close()
    log.close()
