"""Node's pg."""

import json
import os
import subprocess
from pathlib import Path

from tests.server.clients.conftest import COUNT, COUNTY_ROWS, RECORDS, VISIBLE, needs

# Where `npm install --prefix .clients pg` puts it, as .ci/run does; or NODE_PATH.
MODULES = Path(os.environ.get("NODE_PATH") or Path(__file__).parents[3] / ".clients" / "node_modules")
needs("Node", program="node")
needs("Node's pg", file=MODULES / "pg")


def test_queries(server):
    environment = {
        **os.environ,
        "NODE_PATH": str(MODULES),
        "PGHOST": server.host,
        "PGPORT": str(server.port),
        "PGUSER": "ana",
        "PGPASSWORD": server.passwords["ana"],
        "PGDATABASE": server.database,
        "PGSSLROOTCERT": str(server.certificate),
        "COUNT": COUNT,
        "RECORDS": RECORDS,
    }
    run = ["node", str(Path(__file__).with_name("client.js"))]
    done = subprocess.run(run, env=environment, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [tuple(row.values()) for row in found["counties"]] == COUNTY_ROWS
    assert found["one"] == [{"label": "County 2"}]
    assert found["named"] == [{"whole": 2}]
    assert found["list"] == [{"list": [1, 2]}]
    assert [row["county"] for row in found["count"]] == ["c1", "c2", "c3", "c4", "c5"]
    assert [row["table_name"] for row in found["tables"]] == VISIBLE
    assert found["refused"] == "42501"
