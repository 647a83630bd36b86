"""R's RPostgreSQL."""

import os
import subprocess
from pathlib import Path

from tests.server.clients.conftest import COUNT, RECORDS, needs

PACKAGE = Path("/usr/lib/R/site-library/RPostgreSQL")
needs("R", program="Rscript")
needs("RPostgreSQL", file=PACKAGE)


def test_queries(server):
    environment = {
        **os.environ,
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": "ana",
        "PGPASSWORD": server.passwords["ana"],
        "PGDATABASE": server.database,
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": str(server.certificate),
        "COUNT": COUNT,
        "RECORDS": RECORDS,
    }
    run = ["Rscript", "--vanilla", str(Path(__file__).with_name("client.R"))]
    done = subprocess.run(run, env=environment, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines()] == [
        "counties kinds persons",
        "id name age county income",
        "TRUE FALSE",
        "County 2",
        "c1 c2 c3 c4 c5",
        "5",
        "TRUE",
    ]
