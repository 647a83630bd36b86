"""Offices for the tests of records: their commands, their databases, and records that were changed and signed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from typer.testing import CliRunner, Result

import duckanon
from duckanon.integrations.cli.commands import app
from duckanon.integrations.record.signatures import private_key, signed

DECIDED = ("--purpose", "yearbook", "--recipient", "press", "--decided-by", "A. Officer")


def run(*arguments: str | Path) -> Result:
    return CliRunner(env={"TERM": "dumb", "NO_COLOR": "1"}).invoke(app, [str(one) for one in arguments])


def make(folder: Path, *statements: str) -> None:
    """Run statements in the office's database."""
    with duckdb.connect(str(folder / "people.duckdb")) as con:
        duckanon.register(con)
        for sql in statements:
            con.execute(sql).fetchall()


def recorded(folder: Path, out: str, *more: str, file: str = "hidden.csv") -> Result:
    where = ("--record", folder / out, "--file", folder / file, "--sign", folder / "office.key")
    return run("report", folder / "people.duckdb", *where, *DECIDED, *more)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def signed_again(folder: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The office's record, changed and then signed with its key; its files stand beside it."""
    told = read(folder / "out.json")
    del told["signature"]
    change(told)
    record = path / "out.json"
    record.write_text(json.dumps(signed(told, private_key(folder / "office.key"))), encoding="utf-8")
    return record


def refused(done: Result, *says: str) -> None:
    """Status 1, no trace of Python, and these words on stderr."""
    assert done.exit_code == 1, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    for one in says:
        assert one in done.stderr
