"""One connection's bytes: reading exactly so many, writing with a limit on what waits, and the change to TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from duckanon.server.wire import FrameError

# In bytes: how much is read ahead, and how much may wait to be sent before the server waits for the client.
_AHEAD = 1 << 18
_BEHIND = 1 << 18


class Ended(ConnectionError):
    """The client is gone, or too slow; or the server ends the connection."""


class Stream(asyncio.Protocol):
    """A connection. begin: called with it once it is open. lost: a function to set, called when it is closed."""

    def __init__(self, begin: Callable[[Stream], None]) -> None:
        self._begin = begin
        self.lost: Callable[[], None] = _nothing
        self._transport: Any = None
        self._buffer = bytearray()
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_over = self._is_stopped = self._is_paused = self._is_full = False

    # What asyncio calls.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=_BEHIND)
        self._begin(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > _AHEAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._over()
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self._over()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        _wake(self._writer)

    # What a session calls.

    @property
    def buffered(self) -> int:
        """The number of bytes that are here and not read yet."""
        return len(self._buffer)

    @property
    def peer(self) -> str:
        found = self._transport.get_extra_info("peername")
        return str(found[0]) if isinstance(found, tuple) else ""

    @property
    def is_encrypted(self) -> bool:
        return self._transport.get_extra_info("ssl_object") is not None

    def has(self, size: int) -> bytes | None:
        """The next bytes if they are here, without reading them."""
        return bytes(self._buffer[:size]) if len(self._buffer) >= size else None

    def take(self, size: int) -> bytes | None:
        """Exactly so many bytes if they are here."""
        found = self.has(size)
        if found is not None:
            del self._buffer[:size]
        return found

    async def read(self, size: int) -> bytes:
        """Exactly so many bytes. Raises Ended if the connection ends before."""
        while (found := self.take(size)) is None:
            await self.more()
        return found

    async def more(self) -> None:
        """Wait until more bytes are here. Raises Ended if none will come."""
        if self._is_over or self._is_stopped:
            raise Ended
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    async def write(self, data: bytes | bytearray, seconds: float | None = None) -> None:
        """Send bytes. Raises Ended if the client does not take them within so many seconds."""
        if self._is_over:
            raise Ended
        self._transport.write(bytes(data))
        if not self._is_full:
            return
        try:
            async with asyncio.timeout(seconds):
                while self._is_full and not self._is_over:
                    self._writer = asyncio.get_running_loop().create_future()
                    await self._writer
        except TimeoutError:
            self.abort()
            raise Ended from None
        finally:
            self._writer = None
        if self._is_over:
            raise Ended

    async def start_tls(self, answer: bytes, context: ssl.SSLContext, seconds: float) -> None:
        """Send the answer to a request for TLS, and go on encrypted.

        Raises FrameError if the client has sent anything after its request: it would be read as if encrypted. Nothing
        is awaited between the answer and the change, so what arrives later is read as TLS.
        """
        if self._buffer:
            raise FrameError("something was sent behind the request for encryption")
        self._transport.write(answer)
        loop = asyncio.get_running_loop()
        try:
            self._transport = await loop.start_tls(
                self._transport, self, context, server_side=True, ssl_handshake_timeout=seconds
            )
        except (OSError, ssl.SSLError) as error:
            raise Ended from error
        if self._transport is None:
            raise Ended
        self._transport.set_write_buffer_limits(high=_BEHIND)

    def stop(self) -> None:
        """Read no more: what waits to be read ends with Ended. Writing goes on."""
        self._is_stopped = True
        _wake(self._reader)

    def close(self) -> None:
        """Close the connection after all is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _over(self) -> None:
        if not self._is_over:
            self._is_over = True
            self.lost()
        _wake(self._reader)
        _wake(self._writer)


def _nothing() -> None:
    """Nobody is told."""


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
