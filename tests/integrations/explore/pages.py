"""The page of `duckanon explore` in this process, and a client that sends whatever it is told."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckanon
from duckanon.integrations.explore.service import Service
from duckanon.integrations.reading import Reading

VOTERS = Path(__file__).parents[3] / "sql" / "examples" / "voters.csv"

# Nine columns, whose 18,660 designs take some seconds: time to cancel.
ANSWERS = ", ".join(f"hash(i + {1000 * n}) % 4 AS a{n}" for n in range(9))


def protected(path: Path) -> Path:
    """A small database: voters with a policy, households, a survey, an empty table, columns that are markup or NULL."""
    with duckanon.connect(path, role="steward") as con:
        for statement in (
            f"CREATE TABLE voters AS FROM '{VOTERS}'",
            """SELECT protect('voters', epsilon := 1, public := ['education', 'tv_news', 'party', 'vote'],
                 quasi_identifiers := ['age', 'education'], sensitive := ['vote'], k := 5)""",
            """CREATE TABLE residents AS SELECT i AS person_id, i // 3 AS household, 'c' || (i // 60) AS county,
                 20 + i % 60 AS age FROM range(240) r(i)""",
            "SELECT protect('residents', epsilon := 2, unit := 'household', hierarchy := ['county'], max_size := 4)",
            """CREATE TABLE odd AS SELECT i % 7 AS "<img src=x onerror=alert(1)>", NULL::VARCHAR AS nothing,
                 ['<b>bold</b>', '"quoted"', 'it''s'][1 + i % 3] AS "sel'ect" FROM range(60) r(i)""",
            "CREATE TABLE empty AS SELECT 1 AS a, 'x' AS b WHERE false",
            f"CREATE TABLE survey AS SELECT {ANSWERS} FROM range(2000) r(i)",
            "CREATE VIEW old AS FROM voters WHERE age > 60",
        ):
            con.execute(statement).fetchall()
    return path


class Client:
    """Sends requests to a page. cookie: of a session that was entered, or nothing. base: below which its page lies."""

    def __init__(self, port: int, cookie: str = "") -> None:
        self.port, self.cookie, self.base = port, cookie, ""
        self.host = f"127.0.0.1:{port}"

    def send(self, method: str, address: str, body: bytes | None = None, **headers: str | None) -> tuple[int, Any, Any]:
        """Status, headers and body. headers: in place of the right ones; None leaves one out."""
        right = {"host": self.host, "cookie": self.cookie, "origin": f"http://{self.host}"}
        right |= (
            {"content-type": "application/json", "content-length": str(len(body or b""))} if body is not None else {}
        )
        sent = right | {name.replace("_", "-"): value for name, value in headers.items()}
        con = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            below = address if address.startswith("/open") else self.base + address
            con.putrequest(method, below, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    con.putheader(name, value)
            con.endheaders(body)
            answer = con.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            con.close()

    def post(self, address: str, **fields: Any) -> tuple[int, Any]:
        status, _, body = self.send("POST", address, json.dumps(fields).encode())
        return status, json.loads(body)

    def followed(self, address: str, **fields: Any) -> Any:
        """The job of a request, once it has ended."""
        status, job = self.post(address, **fields)
        assert status == 200, job
        while job["state"] in ("waiting", "running"):
            _, job = self.post("/poll", job=job["job"])
        return job

    def ask(self, question: str, **given: Any) -> Any:
        """The result of a question."""
        job = self.followed("/ask", question=question, given=given)
        assert job["state"] == "done", job
        return job["result"]


def enter(address: str) -> Client:
    """A client that has exchanged the key of an address for the cookie."""
    host, _, rest = address.removeprefix("http://").partition("/")
    client = Client(int(host.partition(":")[2]))
    status, headers, body = client.send("GET", f"/{rest}")
    assert status == 200
    client.base = body.decode().partition("url=")[2].partition('/">')[0]
    client.cookie = headers["set-cookie"].partition(";")[0]
    return client


@contextmanager
def serving(
    path: Path, idle: float = 600, reading: Reading | None = None, session: Path | None = None
) -> Iterator[tuple[Service, str]]:
    """A service about a file, and its address with the key."""
    service, started, addresses = Service(path, idle, reading, session), threading.Event(), list[str]()

    def note(address: str) -> None:
        addresses.append(address)
        started.set()

    thread = threading.Thread(target=service.run, args=(note,))
    thread.start()
    try:
        assert started.wait(20)
        yield service, addresses[0]
    finally:
        service.stop()
        thread.join(20)
    assert not thread.is_alive()
