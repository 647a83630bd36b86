"""Users: their file, the command that adds them, and what each may spend."""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from psycopg import errors
from typer.testing import CliRunner

import duckanon
from duckanon.errors import InvalidInput
from duckanon.integrations.cli.commands import app
from duckanon.server import tries
from duckanon.server.scram import LoginFailed
from duckanon.server.tries import Tries
from duckanon.server.users import UserFile
from tests.server.client import Client
from tests.server.served import Served, add_users, serving


def run(*arguments: object, password: str = "long enough") -> tuple[int, str]:
    found = CliRunner().invoke(app, [str(one) for one in arguments], input=f"{password}\n")
    return found.exit_code, found.output


def test_a_user_is_added_changed_and_removed(database: Path) -> None:
    assert run("user", "add", database, "ana", "--role", "analyst") == (0, "ana is added as analyst.\n")
    first = UserFile(database).read()
    assert run("user", "add", database, "ana", "--role", "steward") == (0, "ana is now steward.\n")
    second = UserFile(database).read()
    assert second.users["ana"].role == "steward"
    assert second.users["ana"].verifier != first.users["ana"].verifier
    assert second.secret == first.secret
    assert run("user", "list", database) == (0, "ana\tsteward\n")
    assert run("user", "remove", database, "ana")[0] == 0
    assert run("user", "remove", database, "ana")[0] == 1


def test_the_file_is_its_owner_s_and_holds_no_password(database: Path) -> None:
    UserFile(database).add("ana", "analyst", "correct horse battery")
    path = UserFile(database).path
    assert path.stat().st_mode & 0o777 == 0o600
    assert "horse" not in path.read_text()
    with duckdb.connect(str(database), read_only=True) as con:
        assert not con.execute("SELECT 1 FROM duckdb_columns() WHERE column_name ILIKE '%verifier%'").fetchall()
    path.chmod(0o640)
    with pytest.raises(InvalidInput, match="can be read by others"):
        UserFile(database).read()


@pytest.mark.parametrize(
    ("name", "password", "why"),
    [
        ("a b", "long enough", "name"),
        ("", "long enough", "name"),
        ("ana", "short", "password"),
        ("a\n", "x" * 9, "name"),
    ],
)
def test_names_and_passwords_have_a_form(database: Path, name: str, password: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        UserFile(database).add(name, "analyst", password)
    assert not UserFile(database).path.exists()


def test_a_file_that_is_none_is_refused(database: Path) -> None:
    path = UserFile(database).path
    for text in (
        "",
        "[]",
        '{"format": 1}',
        '{"format": 1, "secret": "00", "users": {"a": {"role": "x", "verifier": ""}}}',
    ):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(InvalidInput, match="is no file of users"):
            UserFile(database).read()


def test_a_failed_write_leaves_the_file_as_it_was(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = UserFile(database)
    users.add("ana", "analyst", "long enough")
    before = users.path.read_bytes()

    def fail(_: int) -> None:
        raise OSError

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError):  # noqa: PT011
        users.add("bob", "analyst", "long enough")
    assert users.path.read_bytes() == before
    assert sorted(one.name for one in database.parent.glob("*.users*")) == [users.path.name]


def test_an_allotment_is_said_in_the_unit_of_its_ledger(tmp_path: Path) -> None:
    """It was said as an epsilon, which it is not in a population with a delta."""
    path = tmp_path / "x.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i AS person FROM range(9) r(i)").fetchall()
        con.execute("SELECT protect('persons', population := 'p', epsilon := 3, delta := 1e-6)").fetchall()
    said = run("user", "add", path, "bob", "--role", "analyst", "--epsilon", "0.1", "--of", "p")
    assert said == (0, "bob is added as analyst, who may spend 0.1 (Rényi divergence of order 9.1) on p.\n")


def test_an_allotment_holds_beside_the_budget(database: Path) -> None:
    add_users(database)
    said = run("user", "add", database, "bob", "--role", "analyst", "--epsilon", "2", "--of", "residents")
    assert said == (0, "bob is now analyst, who may spend epsilon 2 on residents.\n")
    add_users(database)  # their passwords again; the allotment stays
    with serving(database) as served, served.login("bob") as bob, served.login("ana") as ana:
        for age in (30, 40):
            bob.execute("SELECT count(*) FROM persons WHERE age < %s", (age,))
        for _ in range(2):
            with pytest.raises(
                errors.ConfigurationLimitExceeded, match="bob may spend epsilon 2 on residents, and 0 is left"
            ):
                bob.execute("SELECT count(*) FROM persons WHERE age < 50")
        explained = "SELECT decision FROM explain_privacy('SELECT count(*) FROM persons WHERE age < 50')"
        assert ana.execute(explained).fetchall() == [("rewritten",)]
        assert bob.execute(explained).fetchall() == [("refused",)]
        ana.execute("SELECT count(*) FROM persons WHERE age < 50")
        bob.execute("SELECT count(*) FROM persons WHERE age < 50")  # stored now, so it is free for all


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--epsilon", "2"], "needs both"),
        (["--epsilon", "0", "--of", "residents"], "must be a number above 0"),
        (["--epsilon", "2", "--of", "nobody"], "no population nobody"),
    ],
)
def test_an_allotment_that_cannot_be_adds_nobody(database: Path, arguments: list[str], why: str) -> None:
    code, said = run("user", "add", database, "bob", "--role", "analyst", *arguments)
    assert code == 1
    assert why in said
    assert not UserFile(database).path.exists()


def test_tries_of_a_password_take_longer_and_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one address; the next one waits, also if the one before has gone. Others do not wait."""
    monkeypatch.setattr(tries, "_FIRST", 0.1)

    async def seconds(known: Tries, address: str, name: str, *, right: bool = False) -> float:
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(LoginFailed):
            async with known.turn(address, name):
                if not right:
                    raise LoginFailed
        return asyncio.get_running_loop().time() - began

    async def main() -> None:
        known = Tries()
        assert await seconds(known, "1.2.3.4", "ana") >= 0.1
        assert await seconds(known, "1.2.3.4", "ana") >= 0.2
        assert await seconds(known, "1.2.3.5", "ana", right=True) < 0.1
        assert await seconds(known, "1.2.3.4", "bob", right=True) < 0.1
        failing = asyncio.create_task(seconds(known, "1.2.3.4", "ana"))
        await asyncio.sleep(0.05)
        failing.cancel()
        assert await seconds(known, "1.2.3.4", "ana") >= 0.3 + 0.8
        # One who has logged in from an address is not kept waiting there by others who fail.
        failing = asyncio.create_task(seconds(known, "1.2.3.5", "ana"))
        await asyncio.sleep(0)
        await seconds(known, "1.2.3.5", "ana", right=True)
        assert not failing.done()
        await failing

    asyncio.run(main())


def test_few_tries_of_a_name_from_an_address_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "_FIRST", 0.3)

    def told(_: int) -> str:
        with Client(served.host, served.port) as client:
            try:
                client.log_in("eve", "wrong password")
            except ConnectionError as error:
                return str(error)
        return "logged in"

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(told, range(8)))
    assert sum("53300" in one for one in found) >= 1
    assert "logged in" not in found
