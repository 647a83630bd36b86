"""Who is refused: other hosts, other sites, used keys, other cookies, and requests that are not the page's own."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duckanon.integrations.explore.service import Service
from tests.integrations.explore.pages import Client, enter, protected, serving

FILES = ["/", "/page.css", "/main.js", "/icon.svg", "/session"]
POSTS = ["/ask", "/plan", "/confirm", "/write-report", "/keep", "/forget", "/poll", "/cancel"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Client, str]]:
    path = protected(tmp_path_factory.mktemp("explore") / "shop.duckdb")
    with serving(path) as (service, address):
        yield service, enter(address), address


@pytest.fixture
def client(served: tuple[Service, Client, str]) -> Client:
    return served[1]


def test_the_key_becomes_a_cookie_once(served: tuple[Service, Client, str]) -> None:
    service, client, address = served
    query = address.partition("/open")[2]
    stranger = Client(service.port)
    status, headers, body = stranger.send("GET", f"/open{query}")
    assert (status, headers["set-cookie"]) == (403, None)
    assert "used before" in json.loads(body)["error"]
    for wrong in ("", "?key=", "?key=x", "?key=%C3%A4", f"?key={service.keys.key[:-1]}"):
        assert stranger.send("GET", f"/open{wrong}")[0] == 403
    assert client.send("GET", f"/open{query}")[0] == 403


def test_the_cookie_is_for_this_page_alone(tmp_path: Path) -> None:
    with serving(protected(tmp_path / "shop.duckdb")) as (service, address):
        assert address.startswith(f"http://127.0.0.1:{service.port}/open?key=")
        assert len(service.keys.key) >= 43
        _, headers, entered = Client(service.port).send("GET", "/open" + address.partition("/open")[2])
        # Without an icon of its own a browser asks for one outside the path, which is refused.
        assert f'<link rel="icon" href="{service.keys.path}/icon.svg"'.encode() in entered
        name, *attributes = headers["set-cookie"].split("; ")
        assert name.startswith(f"duckanon_{service.port}=")
        path = attributes.pop(0).removeprefix("Path=")
        assert attributes == ["HttpOnly", "SameSite=Strict"]
        # A browser sends it to other ports too, but below this path only, which is drawn for each session.
        assert (path, len(path) > 20) == (service.keys.path, True)
        assert Client(service.port, f"{name}").send("GET", f"{path}/session")[0] == 200
        for outside in ("/session", "/", f"{path}x/session", path):
            assert Client(service.port, name).send("GET", outside)[0] == 403


@pytest.mark.parametrize("address", FILES)
def test_its_answers(client: Client, address: str) -> None:
    status, headers, body = client.send("GET", address, origin=None)
    assert status == 200
    assert body
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert {policy[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert (headers["referrer-policy"], headers["server"]) == ("no-referrer", None)


@pytest.mark.parametrize("address", [*FILES, "/nowhere", "/report"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "localhost"},
        {"host": "127.0.0.1"},
        {"host": "evil.example"},
        {"host": None},
        {"cookie": ""},
        {"cookie": "duckanon_1=x"},
        {"cookie": "\x00;;=,"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
    ids=str,
)
def test_foreign_reads_are_refused(client: Client, address: str, wrong: Any) -> None:
    status, headers, body = client.send("GET", address, **wrong)
    # What is no HTTP, as without Host, is refused before it comes to us.
    assert status in (400, 403)
    if status == 403:
        assert set(json.loads(body)) == {"error"}
        assert headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("address", POSTS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": None},
        {"origin": "null"},
        {"origin": "http://127.0.0.1"},
        {"origin": "http://localhost:1"},
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
        {"cookie": ""},
        {"sec_fetch_site": "cross-site"},
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_length": "99999999"},
    ],
    ids=str,
)
def test_foreign_posts_are_refused(client: Client, address: str, wrong: Any) -> None:
    assert client.send("POST", address, b'{"question": "tables", "given": {}}', **wrong)[0] in (403, 413, 415)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    assert client.send(method, "/session")[0] in (400, 405)


@pytest.mark.parametrize(
    "address",
    [
        "/../pyproject.toml",
        "/%2e%2e/jobs.py",
        "/static/page.html",
        "/page.css/..%2f..%2fjobs.py",
        "//etc/passwd",
        "/..\\jobs.py",
        "/main.js%00.css",
    ],
)
def test_no_address_leads_to_another_file(client: Client, address: str) -> None:
    assert client.send("GET", address)[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"sql": "DROP TABLE voters"}',
        b'{"question": "tables", "given": {}, "more": 1}',
    ],
    ids=lambda body: body[:20].decode(errors="replace"),
)
def test_requests_that_are_none(client: Client, body: bytes) -> None:
    status, _, answer = client.send("POST", "/ask", body)
    assert status == 400
    assert json.loads(answer)["error"]


def test_it_listens_on_this_machine_only(served: tuple[Service, Client, str]) -> None:
    service = served[0]
    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        pytest.skip("This machine has no address of its own.")
    with pytest.raises(ConnectionRefusedError), socket.create_connection((own, service.port), timeout=2):
        pass


def test_it_ends_when_nobody_uses_it(tmp_path: Path) -> None:
    service = Service(protected(tmp_path / "shop.duckdb"), idle=0.3)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(service.run(lambda _: None)))
    thread.start()
    thread.join(20)
    assert ended == [True]


def test_the_command_prints_the_address_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    path = protected(tmp_path / "shop.duckdb")
    command = [sys.executable, "-m", "duckanon.integrations.cli", "explore", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        client = enter(process.stdout.readline().split()[-1])
        assert client.ask("profile", table="voters")["records"] == 944
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest.splitlines()[-1], errors) == (0, "Ended.", "")
