"""Certificates for tests, made with openssl."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEYS = {
    "rsa": ["-newkey", "rsa:2048", "-sha256"],
    "ec384": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-sha384"],
    "ed25519": ["-newkey", "ed25519"],
}


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and of its key, in PEM."""

    cert: Path
    key: Path

    @property
    def der(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.cert.read_text())


def certificate(folder: Path, algorithm: str = "rsa") -> Certificate:
    found = Certificate(folder / f"{algorithm}.crt", folder / f"{algorithm}.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", *_KEYS[algorithm], "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", found.key, "-out", found.cert),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return found
