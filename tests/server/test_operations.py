"""What a team does with a server that runs: renewed certificates, a rotated log, metrics."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import psycopg
import pytest

from duckanon.errors import InvalidInput
from duckanon.server.backends import StewardBackend
from duckanon.server.tls import loaded
from tests import extras
from tests.server.certificates import certificate
from tests.server.served import Served, add_users, serving

DOCS = Path(__file__).parents[2] / "docs" / "how-to"


def shown(served: Served, trusted: Path) -> bool:
    """Whether a client that trusts a certificate alone logs in, bound to it."""
    try:
        with served.login("ana", sslmode="verify-ca", sslrootcert=trusted, channel_binding="require") as con:
            return con.execute("SELECT 1").fetchall() == [(1,)]
    except psycopg.OperationalError:
        return False


def test_a_renewed_certificate_holds_for_new_connections_and_old_ones_go_on(database: Path, tmp_path: Path) -> None:
    for name in ("old", "new", "used"):
        (tmp_path / name).mkdir()
    old, new = certificate(tmp_path / "old"), certificate(tmp_path / "new", "ec384")
    cert, key = tmp_path / "used" / "crt", tmp_path / "used" / "key"
    shutil.copyfile(old.cert, cert)
    shutil.copyfile(old.key, key)
    with serving(database, tls_cert=cert, tls_key=key) as served, served.login("ana", sslmode="require") as open_before:
        assert shown(served, old.cert)
        shutil.copyfile(new.cert, cert)
        # The key is not that of the certificate yet: the old pair stays.
        served.call(served.service.reload)
        assert shown(served, old.cert)
        assert "of another key than the one beside it" in served.log()
        assert "from before stays in use" in served.log()
        shutil.copyfile(new.key, key)
        served.call(served.service.reload)
        assert shown(served, new.cert)
        assert not shown(served, old.cert)
        assert open_before.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("algorithm", ["rsa", "ec384"])
def test_a_certificate_and_a_key_that_are_no_pair_are_said_to_be_none(tmp_path: Path, algorithm: str) -> None:
    (tmp_path / "other").mkdir()
    old, new = certificate(tmp_path), certificate(tmp_path / "other", algorithm)
    with pytest.raises(InvalidInput, match="of another key"):
        loaded("127.0.0.1", new.cert, old.key)
    with pytest.raises(InvalidInput, match="cannot be read"):
        loaded("127.0.0.1", old.cert, old.cert)


def test_the_log_goes_on_in_a_new_file(database: Path) -> None:
    with serving(database) as served, served.login("ana") as con:
        log = database.with_suffix(".log")
        con.execute("SELECT 'before'")
        log.rename(log.with_suffix(".log.1"))
        con.execute("SELECT 'between'")
        served.call(served.service.reload)
        con.execute("SELECT 'after'")
        rotated, current = log.with_suffix(".log.1").read_text(), log.read_text()
    assert "'before'" in rotated
    assert "'between'" in rotated
    assert "'after'" not in rotated
    assert "'after'" in current
    assert "reloaded" in current
    assert log.stat().st_mode & 0o777 == 0o600


def asked(port: int, head: str) -> tuple[int, str]:
    """The status and the body of what the metrics' address answers."""
    with socket.create_connection(("127.0.0.1", port), 10) as con:
        con.sendall(head.encode())
        answer = b"".join(iter(lambda: con.recv(4096), b"")).decode()
    return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


def test_figures_are_told_to_who_has_the_token(database: Path, tmp_path: Path) -> None:
    extras.needs("metrics")
    token = tmp_path / "token"
    token.write_text("a token of some length\n")
    with serving(database, metrics="127.0.0.1:0", metrics_token=token) as served, served.login("ana") as con:
        port = next(json.loads(one)["port"] for one in served.log().splitlines() if '"metrics"' in one)
        head = "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a token of some length\r\n\r\n"
        before = figures(asked(port, head)[1])
        con.execute("SELECT county, count(*) FROM persons GROUP BY county").fetchall()
        status, text = asked(port, head)
        assert status == 200
        assert text.endswith("# EOF\n")
        after = figures(text)
        assert after["duckanon_connections"] == 1
        assert after["duckanon_waiting_statements"] == 0
        charged = 'duckanon_charges_total{population="1"}'
        assert after[charged] == before[charged] + 1
        left, spent = ('duckanon_budget_remaining{population="1"}', 'duckanon_budget_spent_total{population="1"}')
        assert before[left] - after[left] == pytest.approx(after[spent] - before[spent])
        # Neither users nor tables nor texts are in it.
        assert not {one for one in ("ana", "persons", "county", "residents") if one in text}
        for wrong in (head.replace("some", "any"), "GET /metrics HTTP/1.1\r\n\r\n"):
            assert asked(port, wrong) == (401, "")
        assert asked(port, head.replace("/metrics", "/other")) == (404, "")
        with pytest.raises(IndexError):
            asked(port, "GET /metrics HTTP/1.1\r\n" + "X: y\r\n" * 9_000)
        assert asked(port, head)[0] == 200


def test_figures_are_told_without_tls_to_this_machine_alone(database: Path, tmp_path: Path) -> None:
    extras.needs("metrics")
    token = tmp_path / "token"
    token.write_text("a token of some length\n")
    pair = certificate(tmp_path)
    head = "GET /metrics HTTP/1.1\r\nAuthorization: Bearer a token of some length\r\n\r\n"
    for host in ("127.0.0.1", "0.0.0.0"):
        with serving(
            database, metrics=f"{host}:0", metrics_token=token, tls_cert=pair.cert, tls_key=pair.key
        ) as served:
            port = next(json.loads(one)["port"] for one in served.log().splitlines()[::-1] if '"metrics"' in one)
            if host == "127.0.0.1":
                assert asked(port, head)[0] == 200
            else:
                with pytest.raises((IndexError, ConnectionError)):
                    asked(port, head)


def figures(text: str) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in (one.rsplit(" ", 1) for one in text.splitlines() if not one.startswith("#"))
    }


def test_what_metrics_need(database: Path, tmp_path: Path) -> None:
    extras.needs("metrics")
    token = tmp_path / "token"
    token.write_text("short")
    for options, said in (
        ({"metrics": "9464"}, "--metrics is an address and a port"),
        ({"metrics": "127.0.0.1:0"}, "--metrics needs --metrics-token"),
        ({"metrics": "127.0.0.1:0", "metrics_token": tmp_path / "none"}, "cannot be read"),
        ({"metrics": "127.0.0.1:0", "metrics_token": token}, "is too short"),
        ({"metrics": "0.0.0.0:0", "metrics_token": database}, "Without TLS only this machine is served"),
    ):
        with pytest.raises(InvalidInput, match=said), serving(database, **options):
            pass


def test_the_unit_for_systemd_is_verified(tmp_path: Path) -> None:
    unit = (DOCS / "duckanon.service").read_text()
    shown = "".join(f"    {line}\n" if line else "\n" for line in unit.splitlines())
    assert shown in (DOCS / "serve.md").read_text()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    # The program is not installed here, so its place is another one's.
    tried = tmp_path / "duckanon.service"
    tried.write_text(unit.replace("/opt/duckanon/bin/duckanon", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tried)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_database_that_duckdb_has_given_up_ends_the_server(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who watches the process starts it again: until then every statement would fail."""

    def fails(*_: object) -> None:
        raise duckdb.FatalException("the database has been invalidated")

    with serving(database) as served, served.login("stu") as con:
        monkeypatch.setattr(StewardBackend, "run", fails)
        with pytest.raises(psycopg.Error):
            con.execute("SELECT 42")
        until = time.monotonic() + 20
        while '"stop"' not in served.log():
            assert time.monotonic() < until
            time.sleep(0.02)
        assert served.service.is_broken
        assert "database failed" in served.log()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGHUP")
def test_sighup_reloads_and_ends_nothing(database: Path, tmp_path: Path) -> None:
    add_users(database)
    log, command = tmp_path / "log", [sys.executable, "-m", "duckanon.integrations.cli", "serve", str(database)]
    with subprocess.Popen([*command, "--port", "0", "--log", str(log)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Serving")
        log.rename(tmp_path / "log.1")
        process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 20
        while not (log.exists() and "reloaded" in log.read_text()):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert process.poll() is None
        process.terminate()
        assert process.wait(30) == 0
