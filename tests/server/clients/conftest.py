"""A served database, and what clients need to reach it: an address, a certificate, two users."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

import duckanon
from tests.server.certificates import certificate

TABLES = """
CREATE TABLE counties AS SELECT 'c' || i AS county, 'County ' || i AS label FROM range(1, 6) t(i);
CREATE TABLE closed AS SELECT 1 AS hidden;
CREATE TYPE secret AS ENUM ('a value of the data');
CREATE VIEW labels AS SELECT label FROM counties;
CREATE TABLE persons AS
  SELECT i AS id, 'name ' || i AS name, (i % 90)::INTEGER AS age, 'c' || (1 + i % 5) AS county,
    (1000 + i)::DECIMAL(10, 2) AS income
  FROM range(1000) t(i);
CREATE TABLE kinds AS
  SELECT 1::SMALLINT AS small, 2::INTEGER AS whole, 3::BIGINT AS big, 4.50::DECIMAL(10, 2) AS exact,
    0.25::DOUBLE AS rough, 'Ä€😀' AS said, true AS yes, DATE '2026-11-22' AS day,
    TIMESTAMP '2026-11-22 13:14:15.5' AS moment,
    [1, 2, NULL] AS list, '00000000-0000-0000-0000-000000000001'::UUID AS key, 'ab'::BLOB AS bytes,
    NULL::INTEGER AS nothing;
"""
POLICY = """
SELECT open_table('counties');
SELECT open_table('labels');
SELECT open_table('kinds');
SELECT protect('persons', epsilon := 50, per_query := 0.5, public := ['county'], domains := {county: 'counties'});
"""
# Answered with noise, from the budget.
COUNT = "SELECT county, count(*) AS persons FROM persons GROUP BY county ORDER BY county"
# Refused: records of a protected table.
RECORDS = "SELECT name FROM persons"
VISIBLE = ["counties", "kinds", "labels", "persons"]
COUNTY_ROWS = [(f"c{number}", f"County {number}") for number in range(1, 6)]


@dataclass(frozen=True)
class Server:
    """A running server. certificate: its own, in PEM, which clients trust. passwords: by user."""

    port: int
    database: str
    certificate: Path
    passwords: Mapping[str, str]
    host: str = "127.0.0.1"

    def dsn(self, user: str) -> str:
        """For libpq: over TLS with the certificate verified, and SCRAM bound to it."""
        return (
            f"host={self.host} port={self.port} dbname={self.database} user={user} password={self.passwords[user]} "
            f"sslmode=verify-full sslrootcert={self.certificate} channel_binding=require connect_timeout=20"
        )

    def url(self, user: str, driver: str = "") -> str:
        """For libraries that take a URL."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://{user}:{self.passwords[user]}@{self.host}:{self.port}/{self.database}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serves a database with a protected table, two open ones and a view to ana, an analyst, and stew, a steward."""
    place = tmp_path_factory.mktemp("served")
    path = place / "people.duckdb"
    with duckanon.connect(path, role="steward") as con:
        con.execute(TABLES)
        con.execute(POLICY).fetchall()
    tls = certificate(place)
    command = [sys.executable, "-m", "duckanon.integrations.cli"]
    passwords = {"ana": "analyst-7", "stew": "steward-7"}
    for user, role in (("ana", "analyst"), ("stew", "steward")):
        add = [*command, "user", "add", str(path), user, "--role", role]
        subprocess.run(add, input=f"{passwords[user]}\n", text=True, check=True, timeout=60, capture_output=True)
    serve = [*command, "serve", str(path), "--port", "0", "--tls-cert", str(tls.cert), "--tls-key", str(tls.key)]
    with (place / "server.log").open("w") as log:
        process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert found, (place / "server.log").read_text()
            yield Server(int(found[1]), "people", tls.cert, passwords)
        finally:
            process.terminate()
            process.wait(timeout=30)


def needs(client: str, *, library: str = "", program: str = "", file: Path | None = None) -> None:
    """Skip the module that is being collected if a client is not installed; fail it in CI."""
    there = (
        (not library or find_spec(library) is not None)
        and (not program or shutil.which(program) is not None)
        and (file is None or file.exists())
    )
    if there:
        return
    reason = f"needs {client}, which .ci/run installs"
    if os.environ.get("DUCKANON_ALL_EXTRAS"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)
