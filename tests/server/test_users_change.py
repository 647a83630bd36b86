"""Users, passwords and allotments that a steward changes while the server runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from duckanon.connection import connect
from duckanon.server.users import UserFile
from tests.server.served import Served, add_users, password, serving


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "people.duckdb"
    with connect(path, role="steward") as con:
        con.execute("CREATE TABLE persons AS SELECT i AS person, ['f', 'm'][1 + i % 2] AS sex FROM range(100) r(i)")
        con.execute(
            "SELECT protect('persons', population := 'people', privacy_unit := 'person', rows_per_unit := 1, "
            "epsilon := 4, per_query := 1, public := ['sex'], domains := {'sex': ['f', 'm']})"
        ).fetchall()
    add_users(path)
    return path


def _soon(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.05)


def _is_ended(con: psycopg.Connection[object]) -> bool:
    try:
        con.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def _as(served: Served, name: str, word: str) -> psycopg.Connection[object]:
    return psycopg.connect(
        host=served.host, port=served.port, user=name, password=word, dbname=served.path.stem, autocommit=True
    )


def test_users_come_change_and_go_while_the_server_runs(path: Path) -> None:
    with serving(path) as served, served.login("stu") as steward:
        steward.execute("CREATE USER eve PASSWORD 'a word of eve'")
        eve = _as(served, "eve", "a word of eve")
        assert eve.execute("SELECT 1").fetchone() == (1,)
        steward.execute("ALTER USER eve WITH PASSWORD 'another word'")
        assert eve.execute("SELECT 1").fetchone() == (1,), "an open session stays"
        with pytest.raises(psycopg.OperationalError):
            _as(served, "eve", "a word of eve")
        second = _as(served, "eve", "another word")
        steward.execute("DROP USER eve")
        for one in (eve, second):
            with pytest.raises(psycopg.OperationalError, match="The user was removed"):
                one.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            _as(served, "eve", "another word")
        assert UserFile(path).read().users.keys() == {"ana", "bob", "cyd", "dan", "stu"}
        log = served.log()
        assert "CREATE USER eve" in log
        assert "word" not in log


def test_another_process_removes_a_user(path: Path) -> None:
    with serving(path) as served, served.login("dan") as dan, served.login("ana") as ana:
        UserFile(path).remove("dan")
        _soon(lambda: _is_ended(dan))
        assert ana.execute("SELECT 1").fetchone() == (1,)
        UserFile(path).add("dan", "analyst", password("dan"))


def test_a_removed_users_paid_answer_is_made(path: Path) -> None:
    with serving(path) as served, served.login("stu") as steward:
        steward.execute("CREATE USER fay PASSWORD 'a word of fay'")
        with _as(served, "fay", "a word of fay") as fay:
            fay.execute("SELECT count(*) FROM persons")
        steward.execute("DROP USER fay")
        (row,) = steward.execute("SELECT who FROM privacy_ledger() WHERE action = 'charge'").fetchall()
        assert row == ("fay",)


def test_a_verifier_that_a_client_makes(served: Served) -> None:
    """As psql's `\\password` does, with the rounds that the server tells."""
    with served.login("stu") as steward:
        if psycopg.pq.version() < 160_000:
            pytest.skip("Older clients make verifiers with 4,096 rounds, whatever the server tells.")
        secret = steward.pgconn.encrypt_password(b"a word of hal", b"hal", b"scram-sha-256").decode()
        steward.execute(f"CREATE USER hal PASSWORD '{secret}'")
    dsn = f"host={served.host} port={served.port} user=hal password='a word of hal' dbname=people"
    with psycopg.connect(dsn) as hal:
        assert hal.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE USER gus PASSWORD 'a word of gus'",
        "ALTER USER stu PASSWORD 'a word of mine'",
        "DROP USER bob",
        "CREATE ROLE gus SUPERUSER PASSWORD 'a word of gus'",
        "SELECT allot('ana', 'people', 100)",
        "FROM allotments()",
    ],
)
def test_analysts_change_no_user(path: Path, statement: str) -> None:
    with serving(path) as served, served.login("ana") as ana:
        with pytest.raises(psycopg.Error):
            ana.execute(statement)
        assert "a word of" not in served.log()


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("CREATE USER ana PASSWORD 'another word'", "There is a user ana already"),
        ("CREATE USER gus PASSWORD 'short'", "A password has 8"),
        ("CREATE USER gus", "A password has 8"),
        ("ALTER USER nobody PASSWORD 'a long word'", "There is no user nobody"),
        ("ALTER USER ana SUPERUSER", "A role does not change"),
        ("DROP USER stu", "You cannot remove yourself"),
        ("CREATE USER gus PASSWORD 'SCRAM-SHA-256$4096:AAAA$AAAA:AAAA'", "A password does not begin like a verifier"),
    ],
)
def test_what_cannot_be_changed(path: Path, statement: str, says: str) -> None:
    with serving(path) as served, served.login("stu") as steward:
        with pytest.raises(psycopg.Error, match=says):
            steward.execute(statement)
        assert "word" not in served.log().replace("password", "")


def test_allotments_are_changed_and_what_is_left_is_shown(path: Path) -> None:
    with serving(path) as served, served.login("stu") as steward, served.login("bob") as bob:
        steward.execute("SELECT allot('bob', 'people', 1)")
        bob.execute("SELECT count(*) FROM persons WHERE sex = 'f'")
        left = "SELECT epsilon, spent, remaining FROM allotments() WHERE who = 'bob'"
        assert steward.execute(left).fetchall() == [(1.0, 1.0, 0.0)]
        with pytest.raises(psycopg.Error, match="bob may spend epsilon 1 on people, and 0 is left of it"):
            bob.execute("SELECT sex, count(*) FROM persons GROUP BY sex")
        steward.execute("SELECT allot('bob', 'people', 2)")
        bob.execute("SELECT sex, count(*) FROM persons GROUP BY sex")
        assert steward.execute(left).fetchall() == [(2.0, 2.0, 0.0)]
