"""Limits how often passwords are tried: each failure makes the next try of the same name from the same address wait.

Tries of other addresses do not wait for it, and neither does an address from which the user has logged in before: so
nobody can keep a user out by failing in the user's name.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from duckanon.server.errors import TOO_MANY_TRIES, PgError

# In seconds: how long the next try waits after the first failure, and after many.
_FIRST, _LONGEST = 0.5, 8.0
# The most tries of a name from an address that wait for each other, and the most of such pairs that are remembered.
_MOST_WAITING, _MOST_PAIRS = 4, 10_000
# An address's network, and a name.
_Pair: TypeAlias = tuple[str, str]


@dataclass
class _Tried:
    """The tries of one pair. failures: since the last login. is_known: whether there was a login.

    until: when the next try may be, by the event loop's clock.
    """

    failures: int = 0
    until: float = 0.0
    waiting: int = 0
    is_known: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def failed(self) -> None:
        """Add a failure, from which on the next try waits."""
        seconds = min(_FIRST * 2.0 ** min(self.failures, 10), _LONGEST)
        self.failures, self.until = self.failures + 1, asyncio.get_running_loop().time() + seconds

    async def wait(self) -> None:
        """Wait until the next try is allowed. That is a fixed time, so a new connection has to wait for it too."""
        await asyncio.sleep(max(0.0, self.until - asyncio.get_running_loop().time()))


class Tries:
    """The tries since the server has begun. Used from the event loop alone."""

    def __init__(self) -> None:
        self._pairs: dict[_Pair, _Tried] = {}

    @asynccontextmanager
    async def turn(self, address: str, name: str) -> AsyncIterator[None]:
        """A context for one try. An error that is raised inside means a failed try, and is raised again after a delay.

        Raises PgError if too many of the same name and address wait.
        """
        tried = self._tried((_network(address), name))
        if tried.waiting >= _MOST_WAITING and not tried.is_known:
            raise PgError(*TOO_MANY_TRIES)
        tried.waiting += 1
        try:
            if tried.is_known:
                async with _costing(tried):
                    yield
            else:
                async with tried.lock:
                    await tried.wait()
                    async with _costing(tried):
                        yield
        finally:
            tried.waiting -= 1

    def _tried(self, pair: _Pair) -> _Tried:
        """The tries of a pair, which becomes the most recently used one: the least recently used is forgotten first."""
        tried = self._pairs.pop(pair, None) or _Tried()
        self._pairs[pair] = tried
        if len(self._pairs) > _MOST_PAIRS:
            del self._pairs[next(iter(self._pairs))]
        return tried


@asynccontextmanager
async def _costing(tried: _Tried) -> AsyncIterator[None]:
    try:
        yield
    except Exception:
        tried.failed()
        await tried.wait()
        raise
    tried.failures, tried.is_known = 0, True


def _network(address: str) -> str:
    """The address; of one of version 6 its network of 64 bits, in which a client takes any address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(found) if found.version == 4 else str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
