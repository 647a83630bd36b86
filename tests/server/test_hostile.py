"""What no driver sends: frames of any bytes, keys that are not one's own, clients that wait, vanish or are many."""

from __future__ import annotations

import random
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from duckanon.releases import mechanisms
from duckanon.server import execution, service, session
from tests.amounts import LONG
from tests.server import client as wire
from tests.server.certificates import Certificate, certificate
from tests.server.client import SYNC, Client, bind, cancel, describe, execute, frame, parse, query
from tests.server.served import Served, serving

# Runs for hours if it is not stopped.
ENDLESS = "SELECT count(*) FROM " + ", ".join(f"range(100000) r{n}" for n in range(4))
COUNT = "SELECT count(*) FROM persons"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def encrypted(database: Path, papers: Certificate) -> Iterator[Served]:
    with serving(database, tls_cert=papers.cert, tls_key=papers.key) as found:
        yield found


def trusting(papers: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(papers.cert))


def works(served: Served, user: str = "ana") -> None:
    """Another client can log in and ask."""
    with Client(served.host, served.port).log_in(user) as client:
        assert client.ask(query("SELECT 1")).rows == [("1",)]


def ledger(served: Served) -> list[tuple[str | None, ...]]:
    with Client(served.host, served.port).log_in("stu") as client:
        return client.ask(query("SELECT who, release FROM duckanon.ledger WHERE action = 'charge'")).rows


# --- before the login -------------------------------------------------------------------------------------------------


def test_a_session_over_tls(encrypted: Served, papers: Certificate) -> None:
    with Client(encrypted.host, encrypted.port, tls=trusting(papers)).log_in("ana") as client:
        assert client.ask(query("SELECT 1")).rows == [("1",)]


def test_without_tls_nobody_logs_in_where_there_is_a_certificate(encrypted: Served) -> None:
    with Client(encrypted.host, encrypted.port) as client, pytest.raises(ConnectionError, match="28000"):
        client.log_in("ana")


def test_what_is_sent_behind_a_request_for_tls_is_not_taken_for_encrypted(encrypted: Served) -> None:
    with Client(encrypted.host, encrypted.port) as client:
        client.send(wire.TLS_REQUEST + wire.startup("ana"))
        assert client.is_ended()
    assert "login" not in encrypted.log()


@pytest.mark.parametrize(
    "sent",
    [
        b"\0\0\0\0",
        b"\0\0\0\x04",
        b"\x7f\xff\xff\xff" + b"x" * 100,
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!i", 12) + wire.STARTUP + b"user",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + b"\0" * 100,
        wire.TLS_REQUEST * 4,
    ],
    ids=range(8),
)
def test_a_beginning_that_is_none_ends_the_connection(served: Served, sent: bytes) -> None:
    with Client(served.host, served.port) as client:
        client.send(sent)
        if sent.startswith(b"\x7f"):
            assert client.is_ended()
        else:
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_ended()
    works(served)


def test_who_sends_nothing_is_sent_away(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_LOGIN", 0.5)
    with Client(served.host, served.port) as silent, Client(served.host, served.port) as slow:
        slow.send(wire.startup("ana")[:9])
        began = time.monotonic()
        assert silent.is_ended()
        assert slow.is_ended()
        assert time.monotonic() - began < 10


def test_strangers_are_limited_and_users_are_none(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that are about to end are no strangers: else nobody could log in after many have left."""
    monkeypatch.setattr(service, "_MOST_STRANGERS", 3)
    users = [Client(served.host, served.port).log_in("ana") for _ in range(8)]
    for one in users:
        one.close()
    works(served)
    strangers = [Client(served.host, served.port) for _ in range(3)]
    time.sleep(0.5)
    with Client(served.host, served.port) as one_more:
        assert one_more.is_ended()
    for one in strangers:
        one.close()
    time.sleep(0.5)
    works(served)


def test_statements_before_the_login_end_the_connection(served: Served) -> None:
    for early in (query("SELECT 1"), SYNC, parse("SELECT 1"), frame(b"p", b"SCRAM-SHA-256\0\x7f\xff\xff\xff")):
        with Client(served.host, served.port) as client:
            client.send(wire.startup("ana"), early)
            assert client.is_ended()
    works(served)


# --- after the login --------------------------------------------------------------------------------------------------


def test_a_message_of_an_unknown_kind_ends_the_session(served: Served) -> None:
    for unknown in (frame(b"F", b"\0" * 10), frame(b"?"), frame(b"p", b"password\0"), frame(b"\0")):
        with Client(served.host, served.port).log_in("ana") as client:
            client.send(unknown, query(COUNT))
            kind, body = client.message()
            assert kind == b"E"
            assert b"08P01" in body
            assert client.is_ended()
    assert ledger(served) == []


def test_a_frame_that_is_too_long_ends_the_session(served: Served) -> None:
    for user, length in (("ana", 3 << 20), ("stu", 65 << 20), ("ana", 3), ("ana", -1)):
        with Client(served.host, served.port).log_in(user) as client:
            client.send(b"Q" + struct.pack("!i", length))
            assert client.is_ended()
    works(served)


def test_a_long_text_of_an_analyst_is_refused_unread(served: Served) -> None:
    with Client(served.host, served.port).log_in("ana") as client:
        assert client.ask(query("SELECT 1 -- " + "x" * 200_000)).error == "54000"
        assert client.ask(parse("SELECT 1 -- " + "x" * 200_000), SYNC).error == "54000"


def test_prepared_statements_and_cursors_are_limited(served: Served) -> None:
    with Client(served.host, served.port).log_in("ana") as client:
        found = client.ask(*(parse("SELECT 1", f"s{at}") for at in range(1_001)), SYNC)
        assert found.error == "54000"
        client.ask(query("BEGIN"))
        assert client.ask(*(bind(name="s1", portal=f"p{at}") for at in range(101)), SYNC).error == "54000"


@pytest.mark.parametrize("user", ["ana", "stu"])
def test_frames_of_any_bytes(served: Served, user: str) -> None:
    """The session answers or ends; nothing else fails. `HYPOTHESIS_PROFILE=long` sends 100,000."""
    chance = random.Random(user)
    texts = [
        "SELECT 1",
        "",
        ";",
        "BEGIN",
        "COMMIT",
        "DECLARE c CURSOR FOR SELECT 1",
        "FETCH 1 FROM c",
        "SELECT $1",
        "'",
    ]
    texts += ["COPY (SELECT 1) TO STDOUT", "SET a = b", "SHOW ALL", "DISCARD ALL", "\ud7ff", "SELECT * FROM pg_class"]
    whole = [query(one) for one in texts] + [parse(one) for one in texts]
    whole += [
        bind(),
        bind("1"),
        describe("S"),
        describe("P"),
        execute(),
        execute(1),
        SYNC,
        wire.FLUSH,
        frame(b"d", b"x"),
    ]
    left, ended = 50_000 if LONG else 300, 0
    while left > 0:
        with Client(served.host, served.port).log_in(user) as client:
            client.socket.setblocking(False)
            batch = []
            for _ in range(min(left, 40)):
                one = bytearray(chance.choice(whole))
                if chance.random() < 0.4:
                    one[chance.randrange(len(one))] = chance.randrange(256)
                if chance.random() < 0.05:
                    one = bytearray(chance.randbytes(chance.randrange(1, 40)))
                batch.append(bytes(one))
            left -= len(batch)
            client.socket.setblocking(True)
            client.socket.settimeout(30)
            try:
                client.send(*batch)
                client.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            assert client.is_ended()
            ended += 1
    works(served, user)
    assert "internal error" not in served.log()


def test_a_cancel_request_needs_the_key(served: Served) -> None:
    with Client(served.host, served.port).log_in("ana") as client:
        client.send(query(ENDLESS))
        time.sleep(0.3)
        for process, key in ((client.process, client.key ^ 1), (client.process ^ 1, client.key), (0, 0)):
            with Client(served.host, served.port) as other:
                other.send(cancel(process, key))
                assert other.is_ended()
        client.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.reply()
        client.socket.settimeout(30)
        with Client(served.host, served.port) as other:
            other.send(cancel(client.process, client.key))
        assert client.reply().error == "57014"


def test_a_client_that_vanishes_leaves_nothing_running(served: Served) -> None:
    for name in ("ana", "stu"):
        client = Client(served.host, served.port).log_in(name)
        client.send(query(ENDLESS))
        time.sleep(0.3)
        client.close()
    until = time.monotonic() + 20
    while served.log().count("logout") < 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert served.log().count("logout") == 2


def test_a_client_that_vanishes_in_the_middle_of_a_charge(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is charged, drawn and stored, and free for whoever asks next."""
    drawing, goes_on, drawn = threading.Event(), threading.Event(), mechanisms.draw

    def slow(*given: Any) -> Any:
        drawing.set()
        assert goes_on.wait(30)
        return drawn(*given)

    monkeypatch.setattr(mechanisms, "draw", slow)
    client = Client(served.host, served.port).log_in("ana")
    client.send(query(COUNT))
    assert drawing.wait(30)
    client.close()
    time.sleep(0.3)
    goes_on.set()
    with Client(served.host, served.port).log_in("bob") as other:
        assert other.ask(query(COUNT)).rows
    assert [who for who, _ in ledger(served)] == ["ana"]


def test_a_stop_waits_for_a_charge_and_its_client_does_not(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing, drawn = threading.Event(), mechanisms.draw

    def slow(*given: Any) -> Any:
        drawing.set()
        time.sleep(4)
        return drawn(*given)

    monkeypatch.setattr(mechanisms, "draw", slow)
    with (
        Client(served.host, served.port).log_in("ana") as client,
        Client(served.host, served.port).log_in("bob") as idle,
    ):
        client.send(query(COUNT))
        assert drawing.wait(30)
        began, stop = time.monotonic(), threading.Thread(target=served.stop)
        stop.start()
        assert client.message()[0] == b"E"
        assert idle.message()[0] == b"E"
        assert time.monotonic() - began < 2
        stop.join()
    with serving(served.path) as again:
        assert len(ledger(again)) == 1
        with again.login("ana") as con:
            con.execute(COUNT)
        assert len(ledger(again)) == 1


def test_a_client_that_does_not_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds up itself alone, and its result does not pile up in memory."""
    monkeypatch.setattr(execution, "_TAKES", 3)
    used = psutil.Process().memory_info().rss
    with Client(served.host, served.port).log_in("ana") as client:
        client.send(query("SELECT repeat('x', 1000) FROM range(1000000)"))
        time.sleep(1.5)
        works(served)
        assert psutil.Process().memory_info().rss - used < 300 << 20
        until = time.monotonic() + 30
        while served.log().count("logout") < 2 and time.monotonic() < until:
            time.sleep(0.1)
        assert served.log().count("logout") == 2
        assert client.is_ended()


def test_500_idle_connections(database: Path) -> None:
    """They take little memory and no thread, and everybody else is served; the next one is told that it is too many."""
    with serving(database, connections=500, connections_per_user=125) as served:
        works(served)
        used, threads = psutil.Process().memory_info().rss, threading.active_count()
        users = ("ana", "bob", "cyd", "dan")
        clients = [Client(served.host, served.port).log_in(user) for user in users for _ in range(125)]
        assert psutil.Process().memory_info().rss - used < 100 << 20
        # Threads for statements and logins, of which there are so many at most.
        assert threading.active_count() - threads <= 20
        for user in ("ana", "stu"):
            with Client(served.host, served.port) as one_more, pytest.raises(ConnectionError, match="53300"):
                one_more.log_in(user)
        for one in clients[::50]:
            assert one.ask(query("SELECT 1")).rows == [("1",)]
        for one in clients:
            one.close()
        works(served)


def test_results_are_limited(database: Path) -> None:
    with serving(database, max_rows=1_000, seconds=1.0) as served, Client(served.host, served.port) as client:
        client.log_in("ana")
        assert client.ask(query("FROM range(1000)")).tags == ["SELECT 1000"]
        assert client.ask(query("FROM range(10000)")).error == "54000"
        assert client.ask(query("COPY (FROM range(10000)) TO STDOUT")).error == "54000"
        assert client.ask(query(ENDLESS)).error == "57014"
        assert client.ask(query("SET statement_timeout = 0"), query(ENDLESS)).error == ""
        assert client.reply().error == "57014"


def test_the_log_cannot_be_forged(served: Served) -> None:
    with Client(served.host, served.port) as client, pytest.raises(ConnectionError):
        client.log_in('x"}\n{"event": "login", "user": "stu', "wrong")
    assert not re.search(r'^\{"event": "login", "user": "stu', served.log(), re.MULTILINE)
