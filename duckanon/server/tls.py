"""The server's certificate."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from duckanon.errors import InvalidInput
from duckanon.server.scram import end_point

_UNREADABLE = "The certificate or its key cannot be read: both are PEM files, without a password."
_UNMATCHED = "The certificate is of another key than the one beside it: name the two files of one pair."
# What OpenSSL says of two files that it has read and that are no pair; the last where the keys are of two kinds.
_OF_ANOTHER_KEY = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})


@dataclass(frozen=True)
class Tls:
    """The server's certificate. end_point: what logins are bound to; None where that is not defined."""

    context: ssl.SSLContext
    end_point: bytes | None


def loaded(host: str, cert: Path | None, key: Path | None) -> Tls | None:
    """The certificate. Raises InvalidInput where there is none and other machines could connect."""
    if (cert is None) != (key is None):
        raise InvalidInput("TLS needs both --tls-cert and --tls-key.")
    if cert is None or key is None:
        if not is_loopback(host):
            raise InvalidInput(
                f"Without TLS only this machine is served: leave --host {host} out, or give --tls-cert and --tls-key."
            )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
        certificate = _first_certificate(cert.read_text())
    except ssl.SSLError as error:
        raise InvalidInput(_UNMATCHED if error.reason in _OF_ANOTHER_KEY else _UNREADABLE) from error
    except (OSError, ValueError) as error:
        raise InvalidInput(_UNREADABLE) from error
    return Tls(context, end_point(certificate))


def _first_certificate(pem: str) -> bytes:
    """The server's own certificate, which is the first of a file, in DER."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = pem.index(begin)
    return ssl.PEM_cert_to_DER_cert(pem[start : pem.index(end, start) + len(end)] + "\n")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
