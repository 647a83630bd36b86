"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS: the server's side of a login. No input or output.

Source: RFC 5802, RFC 7677, RFC 5929 (tls-server-end-point), as PostgreSQL 15 uses them: the user's name in the SASL
message is ignored, since the startup message has it. The server never has a password, only a verifier of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
ITERATIONS = 16_384
_SALT = 16
_VERIFIER = re.compile(r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")
_FIRST = re.compile(r"(n|y|p=[A-Za-z0-9.-]+),(?:a=[^,]*)?,(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)", re.DOTALL)
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[^,]*)*),p=([A-Za-z0-9+/=]+)")


class LoginFailed(Exception):
    """The login failed. The client is not told why."""


@dataclass(frozen=True)
class Verifier:
    """What is stored in place of a password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = map(_base64, (self.salt, self.stored_key, self.server_key))
        return f"{PLAIN}${self.iterations}:{salt}${stored}:{server}"


def new_verifier(password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
    """The verifier of a password, with a new salt if none is given."""
    salt = secrets.token_bytes(_SALT) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, iterations)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return Verifier(iterations, salt, stored_key, hmac.digest(salted, b"Server Key", "sha256"))


def read_verifier(text: str) -> Verifier:
    """A verifier as it was written. Raises ValueError."""
    match = _VERIFIER.fullmatch(text)
    if match is None:
        raise ValueError("no SCRAM-SHA-256 verifier")
    salt, stored, server = (base64.b64decode(group, validate=True) for group in match.groups()[1:])
    if len(stored) != 32 or len(server) != 32:
        raise ValueError("no SCRAM-SHA-256 verifier")
    return Verifier(int(match[1]), salt, stored, server)


def mock_verifier(secret: bytes, user: str) -> Verifier:
    """A verifier that matches no password, always the same for a name. So an unknown name cannot be recognised."""
    salt, stored, server = (hmac.digest(secret, one + user.encode(), "sha256") for one in (b"salt", b"key", b"server"))
    return Verifier(ITERATIONS, salt[:_SALT], stored, server)


class Exchange:
    """One login. binding: the tls-server-end-point of the connection; None without TLS, or if it has none.

    Call `first` with the client's first message, and `final` with its last one; both return what to send.
    """

    def __init__(self, verifier: Verifier, binding: bytes | None, *, known: bool = True) -> None:
        self._verifier, self._binding, self._known = verifier, binding, known
        self._said = self._nonce = ""
        self._header = b""

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms offered to the client, the better one first."""
        return [PLUS, PLAIN] if self._binding is not None else [PLAIN]

    def first(self, mechanism: str, body: bytes) -> bytes:
        """The answer to the client's first message. Raises LoginFailed."""
        match = _FIRST.fullmatch(_decoded(body))
        if match is None or mechanism not in self.mechanisms:
            raise LoginFailed
        flag, bare, nonce = match.groups()
        if mechanism == PLUS:
            if flag != "p=tls-server-end-point":
                raise LoginFailed
        elif flag.startswith("p") or (flag == "y" and self._binding is not None):
            # The client can bind, and was told that the server cannot: somebody intercepts the connection.
            raise LoginFailed
        self._header = body[: len(body) - len(bare.encode())]
        if mechanism == PLUS:
            self._header += self._binding or b""
        self._nonce = nonce + _base64(secrets.token_bytes(24))
        answer = f"r={self._nonce},s={_base64(self._verifier.salt)},i={self._verifier.iterations}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def final(self, body: bytes) -> bytes:
        """The answer to the client's last message, which proves that the server knows the verifier.

        Raises LoginFailed. The exchange ends with this call, whether it succeeds or not.
        """
        match = _FINAL.fullmatch(_decoded(body))
        said, nonce, self._said, self._nonce = self._said, self._nonce, "", ""
        if match is None or not said:
            raise LoginFailed
        without_proof, header, given, proof = match.groups()
        whole = f"{said},{without_proof}".encode()
        signature = hmac.digest(self._verifier.stored_key, whole, "sha256")
        key = bytes(number ^ other for number, other in zip(_unbase64(proof, 32), signature, strict=True))
        # All three are always compared, so that the time does not show which one failed.
        fits = hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key)
        bound = hmac.compare_digest(_unbase64(header), self._header)
        fresh = hmac.compare_digest(given.encode(), nonce.encode())
        if not (fits and bound and fresh and self._known):
            raise LoginFailed
        return b"v=" + _base64(hmac.digest(self._verifier.server_key, whole, "sha256")).encode()


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise LoginFailed from None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unbase64(text: str, size: int | None = None) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginFailed from None
    if size is not None and len(found) != size:
        raise LoginFailed
    return found


def _prepared(password: str) -> bytes:
    """The password after SASLprep (RFC 4013); as it is where that does not allow it, as PostgreSQL does."""
    mapped = "".join(
        " " if stringprep.in_table_c12(text) else text for text in password if not stringprep.in_table_b1(text)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    right_to_left = [stringprep.in_table_d1(text) for text in normal]
    mixed = any(right_to_left) and (
        any(map(stringprep.in_table_d2, normal)) or not (right_to_left[0] and right_to_left[-1])
    )
    if not normal or mixed or any(prohibited(text) for text in normal for prohibited in _PROHIBITED):
        return password.encode()
    return normal.encode()


_PROHIBITED = (
    *(stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4),
    *(stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8),
    *(stringprep.in_table_c9, stringprep.in_table_a1),
)


# Channel binding. The signature algorithms of certificates, by the DER encoding of their object identifiers: each says
# with which hash the certificate is hashed (RFC 5929, section 4.1: SHA-256 in place of MD5 and SHA-1).
_RSA, _ECDSA = bytes.fromhex("2a864886f70d0101"), bytes.fromhex("2a8648ce3d04")
_HASHES = {
    _RSA + b"\x04": "sha256",
    _RSA + b"\x05": "sha256",
    _RSA + b"\x0b": "sha256",
    _RSA + b"\x0c": "sha384",
    _RSA + b"\x0d": "sha512",
    _ECDSA + b"\x01": "sha256",
    _ECDSA + b"\x03\x02": "sha256",
    _ECDSA + b"\x03\x03": "sha384",
    _ECDSA + b"\x03\x04": "sha512",
}


def end_point(certificate: bytes) -> bytes | None:
    """The tls-server-end-point of a certificate in DER; None where none is defined, as for Ed25519."""
    try:
        whole, _ = _der(certificate)
        _, after = _der(whole)
        algorithm, _ = _der(after)
        name, _ = _der(algorithm)
    except (IndexError, ValueError):
        return None
    hashed = _HASHES.get(name)
    return None if hashed is None else hashlib.new(hashed, certificate).digest()


def _der(data: bytes) -> tuple[bytes, bytes]:
    """The content of the first DER element, and what comes after it."""
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start])
    if start + length > len(data):
        raise ValueError("no DER")
    return data[start : start + length], data[start + length :]
