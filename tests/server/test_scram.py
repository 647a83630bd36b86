"""Logins: the example of RFC 7677, what a client must prove, and what somebody in between could try."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from duckanon.server import scram
from duckanon.server.scram import PLAIN, PLUS, Exchange, LoginFailed, mock_verifier, new_verifier, read_verifier
from tests.server.certificates import certificate
from tests.server.client import ScramClient

BINDING = b"the certificate's hash"


VERIFIER = new_verifier("open sesame", iterations=4096)


def log_in(client: ScramClient, exchange: Exchange, mechanism: str = PLAIN) -> bytes:
    return exchange.final(client.final(exchange.first(mechanism, client.first())))


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "_base64", _with_nonce(scram._base64))
    verifier = new_verifier("pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), iterations=4096)
    exchange = Exchange(verifier, None)
    first = exchange.first(PLAIN, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = exchange.final(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def _with_nonce(base64_of):
    return lambda data: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0" if len(data) == 24 else base64_of(data)


def test_a_login_that_succeeds_proves_the_server_too() -> None:
    client = ScramClient("open sesame")
    assert log_in(client, Exchange(VERIFIER, None)) == b"v=" + client.server


def test_a_wrong_password_fails() -> None:
    with pytest.raises(LoginFailed):
        log_in(ScramClient("open barley"), Exchange(VERIFIER, None))


def test_an_unknown_user_fails_with_the_password_of_the_mock() -> None:
    with pytest.raises(LoginFailed):
        log_in(ScramClient("open sesame"), Exchange(VERIFIER, None, known=False))


def test_an_unknown_user_looks_like_a_known_one() -> None:
    one, again, other = mock_verifier(b"s", "eve"), mock_verifier(b"s", "eve"), mock_verifier(b"s", "eva")
    assert one == again
    assert one.salt != other.salt
    assert (len(one.salt), one.iterations) == (len(new_verifier("x").salt), new_verifier("x").iterations)


def test_binding() -> None:
    client = ScramClient("open sesame", b"p=tls-server-end-point,,", BINDING)
    assert log_in(client, Exchange(VERIFIER, BINDING), PLUS) == b"v=" + client.server


def test_somebody_between_with_another_certificate_fails() -> None:
    with pytest.raises(LoginFailed):
        log_in(ScramClient("open sesame", b"p=tls-server-end-point,,", b"another"), Exchange(VERIFIER, BINDING), PLUS)


@pytest.mark.parametrize(
    ("mechanism", "header", "binding"),
    [
        (PLAIN, b"y,,", BINDING),  # the offer of PLUS was taken out on its way
        (PLAIN, b"p=tls-server-end-point,,", BINDING),
        (PLUS, b"n,,", BINDING),
        (PLUS, b"p=tls-unique,,", BINDING),
        (PLUS, b"p=tls-server-end-point,,", None),  # without TLS
        ("SCRAM-SHA-1", b"n,,", None),
    ],
)
def test_a_weaker_way_is_refused(mechanism: str, header: bytes, binding: bytes | None) -> None:
    with pytest.raises(LoginFailed):
        Exchange(VERIFIER, binding).first(mechanism, ScramClient("open sesame", header).first())


def test_a_client_without_binding_may_log_in() -> None:
    assert log_in(ScramClient("open sesame"), Exchange(VERIFIER, BINDING)).startswith(b"v=")
    assert log_in(ScramClient("open sesame", b"y,,"), Exchange(VERIFIER, None)).startswith(b"v=")


def test_a_replay_fails() -> None:
    client, exchange = ScramClient("open sesame"), Exchange(VERIFIER, None)
    final = client.final(exchange.first(PLAIN, client.first()))
    assert exchange.final(final)
    with pytest.raises(LoginFailed):  # in the same exchange
        exchange.final(final)
    later = Exchange(VERIFIER, None)
    later.first(PLAIN, client.first())
    with pytest.raises(LoginFailed):  # in another one, with the same nonce of the client's
        later.final(final)


@pytest.mark.parametrize(
    "final", [b"", b"\xff", b"c=biws,r=x", b"c=biws,r=x,p=", b"c=biws,r=x,p=AA==", b"c=!,r=x,p=" + b"A" * 43 + b"="]
)
def test_what_is_no_last_message_fails(final: bytes) -> None:
    exchange = Exchange(VERIFIER, None)
    exchange.first(PLAIN, b"n,,n=,r=abc")
    with pytest.raises(LoginFailed):
        exchange.final(final)
    with pytest.raises(LoginFailed):
        Exchange(VERIFIER, None).final(final)


def test_verifiers_are_written_and_read() -> None:
    assert read_verifier(str(VERIFIER)) == VERIFIER
    for wrong in ("", "md5abc", str(VERIFIER)[:-8], str(VERIFIER).replace("4096", "x")):
        with pytest.raises(ValueError):  # noqa: PT011 # its words are of several libraries
            read_verifier(wrong)


@pytest.mark.parametrize(
    ("password", "prepared"),
    [("I\u00adX", b"IX"), ("\u00aa", b"a"), ("\u2168", b"IX"), ("a\u00a0b", b"a b"), ("\u0007", b"\x07")],
)
def test_passwords_are_prepared(password: str, prepared: bytes) -> None:
    """The examples of RFC 4013; what it does not allow stays as it is, as in PostgreSQL."""
    assert scram._prepared(password) == prepared


@pytest.mark.parametrize(("algorithm", "hashed"), [("rsa", "sha256"), ("ec384", "sha384"), ("ed25519", None)])
def test_the_end_point_of_a_certificate(tmp_path: Path, algorithm: str, hashed: str | None) -> None:
    der = certificate(tmp_path, algorithm).der
    assert scram.end_point(der) == (None if hashed is None else hashlib.new(hashed, der).digest())
    assert scram.end_point(der[:40]) is None
