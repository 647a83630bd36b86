"""Signatures of records: Ed25519, with a key of the office in a file.

A private key is a file in PEM (PKCS 8), as `duckanon key new` or `openssl genpkey -algorithm ed25519` makes it; the
public key beside it is one too.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


_ALGORITHM = "Ed25519"


def new_key(path: Path) -> str:
    """Write a new private key to `path` and its public key beside it. Returns the fingerprint of the public one.

    Raises InvalidInput if one of the files is there.
    """
    check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    public = path.with_suffix(".pub")
    if path == public:
        raise InvalidInput("The public key gets the suffix .pub: give the private one another, as in office.key.")
    for one in (path, public):
        if one.exists():
            raise InvalidInput(f"{one} is there: a key is not written over. Choose another name.")
    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return fingerprint(_raw(key.public_key()))


def private_key(path: Path) -> Ed25519PrivateKey:
    """The key in a file. Raises InvalidInput."""
    check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = _read(path)
    try:
        found = load_pem_private_key(text, None)
    except TypeError:
        raise InvalidInput(f"{path} has a passphrase: write the key without one for the time of signing.") from None
    except ValueError:
        found = None
    if not isinstance(found, Ed25519PrivateKey):
        raise InvalidInput(
            f"{path} holds no private key of the kind Ed25519: make one with duckanon key new office.key."
        )
    return found


def public_key(path: Path) -> bytes:
    """The 32 bytes of the public key in a file. Raises InvalidInput."""
    check_installed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    text = _read(path)
    try:
        found = load_pem_public_key(text)
    except ValueError:
        found = None
    if not isinstance(found, Ed25519PublicKey):
        raise InvalidInput(f"{path} holds no public key of the kind Ed25519: give the file that ends in .pub.")
    return _raw(found)


def signed(content: dict[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """The content with its signature."""
    value = key.sign(_bytes(content))
    told = {"algorithm": _ALGORITHM, "key": _text(_raw(key.public_key())), "value": _text(value)}
    return {**content, "signature": told}


def signer(record: dict[str, Any]) -> bytes | None:
    """The public key whose signature a record carries; None if it is not one of this record."""
    check_installed()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    content = {name: value for name, value in record.items() if name != "signature"}
    told = record.get("signature")
    # The signature does not cover its own object: nothing more may stand there.
    if not isinstance(told, dict) or told.keys() != {"algorithm", "key", "value"} or told["algorithm"] != _ALGORITHM:
        return None
    try:
        key, value = _decoded(told["key"]), _decoded(told["value"])
        Ed25519PublicKey.from_public_bytes(key).verify(value, _bytes(content))
    except (InvalidSignature, RecursionError, TypeError, ValueError):
        return None
    return key


def fingerprint(key: bytes) -> str:
    """How people compare a public key: the SHA-256 of its 32 bytes."""
    return sha256(key).hexdigest()


def _bytes(content: dict[str, Any]) -> bytes:
    """The bytes that are signed: JSON with sorted names and without spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes_raw()


def _text(value: bytes) -> str:
    return b64encode(value).decode()


def _decoded(text: str) -> bytes:
    """Raises ValueError for any other text than the one that encodes the bytes, TypeError for what is no text."""
    found = b64decode(text, validate=True)
    if _text(found) != text:
        raise ValueError("No canonical Base64.")
    return found


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}: name the file of the key.")
    try:
        return path.read_bytes()
    except OSError:
        raise InvalidInput(f"{path} cannot be read: name the file of the key.") from None


def check_installed() -> None:
    """Raises InvalidInput where the library for signatures is missing."""
    try:
        import cryptography
    except ModuleNotFoundError:
        raise InvalidInput("Signatures need their extra: pip install 'duckanon[record]'.") from None
    del cryptography
