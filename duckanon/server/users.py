"""The users of a served database: names, roles and verifiers of passwords, in a file beside the database.

They are kept outside the database, so that nobody who reads the database has the verifiers. Only its owner may read it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.server.scram import ITERATIONS, PLAIN, Verifier, mock_verifier, new_verifier, read_verifier

ROLES = ("analyst", "steward")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,62}")
_LEAST = 8
_MOST = 1_000


@dataclass(frozen=True)
class User:
    """A user. role: 'analyst' or 'steward'."""

    name: str
    role: str
    verifier: Verifier


@dataclass(frozen=True)
class Users:
    """All users. secret: from which verifiers for unknown names are made."""

    secret: bytes
    users: Mapping[str, User] = field(default_factory=dict)

    def verifier(self, name: str) -> Verifier:
        """The verifier of a name; for an unknown one a verifier that no password matches."""
        return self.users[name].verifier if name in self.users else mock_verifier(self.secret, name)


class UserFile:
    """The file of users of a database. It is read again whenever it has changed."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}.users")
        self._known: tuple[tuple[int, int, int], Users] | None = None

    def read(self) -> Users:
        """All users. Raises InvalidInput for a file that others may read, or that is not a file of users."""
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_mtime_ns, status.st_size, status.st_ino)
                if self._known is None or self._known[0] != seen:
                    self._check_mode(status.st_mode)
                    self._known = seen, _loaded(file.read(), self.path)
                return self._known[1]
        except FileNotFoundError:
            raise InvalidInput(
                f"There are no users: add one with duckanon user add {self.path.with_suffix('')} NAME --role analyst."
            ) from None

    def add(self, name: str, role: str, password: str) -> bool:
        """Add a user, or give an existing one this role and password. Returns whether the name is new.

        password: or a verifier of one in its place.

        Raises InvalidInput for a name, a role or a password that cannot be used.
        """
        if not _NAME.fullmatch(name):
            raise InvalidInput("A name has up to 63 letters, digits and _ . @ -, and begins with a letter or with _.")
        if role not in ROLES:
            raise InvalidInput("role must be 'analyst' or 'steward'.")
        verifier = _verifier(password)
        with self._changed() as users:
            is_new = name not in users
            users[name] = User(name, role, verifier)
        return is_new

    def change_password(self, name: str, password: str) -> None:
        """Give a user another password, which counts from the next login on.

        Raises InvalidInput for an unknown name, and for a password that cannot be used.
        """
        verifier = _verifier(password)
        with self._changed() as users:
            if name not in users:
                raise InvalidInput(f"There is no user {name}.")
            users[name] = replace(users[name], verifier=verifier)

    def remove(self, name: str) -> None:
        """Remove a user; the user's charges remain. Raises InvalidInput for an unknown name."""
        with self._changed() as users:
            if users.pop(name, None) is None:
                raise InvalidInput(f"There is no user {name}.")

    @contextmanager
    def _changed(self) -> Iterator[dict[str, User]]:
        """A context with the users, to be changed; at its end the file is replaced as a whole."""
        known = self.read() if self.path.exists() else Users(secrets.token_bytes(32))
        users = dict(known.users)
        yield users
        whole = {
            "format": 1,
            "secret": known.secret.hex(),
            "users": {user.name: {"role": user.role, "verifier": str(user.verifier)} for user in users.values()},
        }
        new = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        # O_EXCL: nobody else has put a file of that name there.
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except PermissionError as error:
            raise InvalidInput(
                f"{self.path} cannot be written: ask for permission to write in the folder of the database."
            ) from error
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(whole, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        except BaseException:
            with suppress(FileNotFoundError):
                new.unlink()
            raise

    def _check_mode(self, mode: int) -> None:
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise InvalidInput(f"{self.path} can be read by others: chmod 600 it, and give its users new passwords.")


def _verifier(password: str) -> Verifier:
    """The verifier of a password, or the one that stands in its place. Raises InvalidInput."""
    if password.startswith(f"{PLAIN}$"):
        try:
            verifier = read_verifier(password)
        except ValueError:
            raise InvalidInput("A password does not begin like a verifier of one: choose another.") from None
        if verifier.iterations != ITERATIONS:
            # Another number would tell a stranger that there is such a user.
            raise InvalidInput(f"A verifier has {ITERATIONS:,} iterations here: send the password, over TLS.")
        return verifier
    if not _LEAST <= len(password) <= _MOST or "\0" in password:
        raise InvalidInput(f"A password has {_LEAST} to {_MOST:,} characters.")
    return new_verifier(password)


def _loaded(text: bytes, path: Path) -> Users:
    try:
        whole: Any = json.loads(text)
        if whole["format"] != 1:
            raise ValueError
        users = {
            name: User(name, value["role"], read_verifier(value["verifier"])) for name, value in whole["users"].items()
        }
        if any(user.role not in ROLES for user in users.values()):
            raise ValueError
        return Users(bytes.fromhex(whole["secret"]), users)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{path} is no file of users: move it away, and add the users again.") from None
