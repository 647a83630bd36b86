"""dbt-postgres: `dbt debug`, and a steward's `dbt run`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.clients.conftest import Server, needs

needs("dbt-postgres", library="dbt.adapters.postgres")

PROJECT = "name: served\nversion: 1.0\nprofile: served\nmodel-paths: [models]\n"


@pytest.fixture
def project(server: Server, tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "labelled.sql").write_text("SELECT county, label FROM main.counties")
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    outputs = "".join(
        f"    {user}: {{type: postgres, host: {server.host}, port: {server.port}, user: {user}, "
        f"password: {server.passwords[user]}, dbname: {server.database}, schema: main, threads: 1, "
        f"sslmode: verify-full, sslrootcert: {server.certificate}}}\n"
        for user in ("ana", "stew")
    )
    (tmp_path / "profiles.yml").write_text(f"served:\n  target: ana\n  outputs:\n{outputs}")
    return tmp_path


def dbt(project: Path, *given: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    run = [sys.executable, "-m", "dbt.cli.main", *given, "--profiles-dir", str(project), "--project-dir", str(project)]
    return subprocess.run(run, env=environment, text=True, capture_output=True, timeout=120, check=False)


@pytest.mark.parametrize("user", ["ana", "stew"])
def test_debug(project, user):
    done = dbt(project, "debug", "--target", user)
    assert done.returncode == 0, done.stdout
    assert "Connection test: [OK connection ok]" in done.stdout.replace("\x1b[32m", "").replace("\x1b[0m", "")
