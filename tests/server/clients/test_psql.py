"""psql: its commands about tables, queries, and \\copy."""

import re
import subprocess

import pytest

from tests.amounts import sampled
from tests.server.clients.conftest import COUNT, RECORDS, VISIBLE, Server, needs

needs("psql", program="psql")


def psql(server: Server, *commands: str, user: str = "ana", options: tuple[str, ...] = ("-At",)) -> str:
    given = [part for one in commands for part in ("-c", one)]
    run = ["psql", "-X", "-v", "ON_ERROR_STOP=1", *options, server.dsn(user), *given]
    done = subprocess.run(run, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lists_of_tables_and_views(server):
    assert [line.split("|")[:3] for line in psql(server, r"\d").splitlines()] == [
        ["main", "counties", "table"],
        ["main", "kinds", "table"],
        ["main", "labels", "view"],
        ["main", "persons", "table"],
    ]
    assert [line.split("|")[1] for line in psql(server, r"\dt").splitlines()] == ["counties", "kinds", "persons"]
    assert [line.split("|")[1] for line in psql(server, r"\dv").splitlines()] == ["labels"]
    assert [line.split("|")[1] for line in psql(server, r"\dt per*").splitlines()] == ["persons"]
    assert "main" in psql(server, r"\dn")


def test_what_is_closed_is_not_there(server):
    run = ["psql", "-X", server.dsn("ana"), "-c", r"\d closed"]
    done = subprocess.run(run, text=True, capture_output=True, timeout=60, check=False)
    assert 'Did not find any relation named "closed".' in done.stderr
    told = "SELECT * FROM pg_class; SELECT * FROM pg_attribute; SELECT * FROM pg_type; SELECT * FROM pg_enum;"
    told += "SELECT * FROM information_schema.columns; SELECT * FROM information_schema.tables;"
    told += "SELECT * FROM pg_settings; SELECT * FROM pg_roles; SELECT * FROM pg_description; SELECT * FROM pg_views"
    assert not re.search(r"\b(closed|hidden|secret|a value|stew)\b", psql(server, told))
    assert "hidden|integer" in psql(server, r"\d closed", user="stew")


def test_databases_users_and_functions(server):
    assert psql(server, r"\l").split("|")[0] == "people"
    assert "ana" in psql(server, r"\du")
    assert psql(server, r"\df") == ""


@pytest.mark.parametrize("command", [r"\d persons", r"\d+ persons"])
def test_a_table(server, command):
    told = [line.split("|")[:2] for line in psql(server, command).splitlines()]
    assert told[:5] == [
        ["id", "bigint"],
        ["name", "text"],
        ["age", "integer"],
        ["county", "text"],
        ["income", "numeric(10,2)"],
    ]


@pytest.mark.parametrize(
    "command",
    sampled(
        r"\d+ \dt+ \dv+ \dn+ \l+ \du+ \df+ \di \ds \dm \dp \dT \dy \dx \db \dO \dD \do \da \dC \dc \det \des"
        r" \dL \dX \dRp \dP \conninfo \encoding \dconfig \drds \ddp \dd \dF".split()
    ),
)
def test_every_other_command_ends_well(server, command):
    psql(server, command)


def test_queries(server):
    rows = [line.split("|") for line in psql(server, COUNT).splitlines()]
    assert [row[0] for row in rows] == ["c1", "c2", "c3", "c4", "c5"]
    assert psql(server, COUNT) == psql(server, COUNT)
    assert psql(server, "SELECT current_user, current_database(), current_schema") == "ana|people|main\n"


def test_copy_out(server, tmp_path):
    place = tmp_path / "counties.csv"
    psql(server, rf"\copy (SELECT * FROM counties ORDER BY county) TO '{place}' WITH (FORMAT csv, HEADER)")
    assert place.read_text().splitlines()[:2] == ["county,label", "c1,County 1"]
    psql(server, rf"\copy counties TO '{place}'")
    assert sorted(place.read_text().splitlines())[0] == "c1\tCounty 1"


def test_catalogs_by_copy_and_cursor(server):
    asked = "SELECT relname FROM pg_catalog.pg_class ORDER BY 1"
    assert psql(server, rf"\copy ({asked}) TO STDOUT").split() == VISIBLE
    assert (
        psql(server, f"BEGIN; DECLARE mine CURSOR FOR {asked}; FETCH 3 FROM mine; COMMIT", options=("-qAt",)).split()
        == VISIBLE[:3]
    )
    assert psql(server, "SELECT 1 AS one; SELECT current_user; SELECT 2").split() == ["1", "ana", "2"]


def test_refusals_have_a_sentence(server):
    run = ["psql", "-X", "-v", "VERBOSITY=verbose", server.dsn("ana"), "-c", RECORDS]
    done = subprocess.run(run, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "42501" in done.stderr
    assert "name 1" not in done.stderr + done.stdout


def test_a_steward_reads_and_writes(server):
    assert psql(server, RECORDS + " WHERE id = 7", user="stew") == "name 7\n"
    psql(server, "CREATE TABLE IF NOT EXISTS scratch AS SELECT 1 AS one", r"\d scratch", user="stew")
    assert [line.split("|")[1] for line in psql(server, r"\dt").splitlines()] == sorted({*VISIBLE} - {"labels"})
    psql(server, "DROP TABLE scratch", user="stew")


def test_a_wrong_password(server):
    run = ["psql", "-X", server.dsn("ana").replace("analyst-7", "wrong"), "-c", "SELECT 1"]
    done = subprocess.run(run, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "The name or the password is wrong." in done.stderr
