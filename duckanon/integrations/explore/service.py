"""Serves the page on this machine until Ctrl-C, or until nobody has used it for a while."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import uvicorn

from duckanon.integrations.explore.access import ADDRESS, ENTRY, Guarded, Keys
from duckanon.integrations.explore.explorer import Explorer
from duckanon.integrations.explore.pages import application
from duckanon.integrations.reading import Reading

_GLANCE = 0.5


class Service:
    """The page about one file, at a port of 127.0.0.1 that the system chooses. Raises as `Source`.

    idle: after so many seconds without a request and without work it ends. reading: what is said of a text file.
    session: the file that the session may be kept in. address: with the single-use key.
    """

    def __init__(self, path: Path, idle: float, reading: Reading | None = None, session: Path | None = None) -> None:
        self.explorer = Explorer(path, reading, session)
        self._idle = idle
        self._socket = socket.socket()
        self._socket.bind((ADDRESS, 0))
        self.port: int = self._socket.getsockname()[1]
        self.keys = Keys()
        app = Guarded(application(self.explorer), self.keys, self.port, self.explorer.see)
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            access_log=False,
            log_level="error",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.port}{ENTRY}?key={self.keys.key}"

    def run(self, started: Callable[[str], None]) -> bool:
        """Serve. started: called with the address. Returns whether it ended because nobody used it."""
        try:
            return asyncio.run(self._serve(started))
        finally:
            self._socket.close()
            self.explorer.close()

    def stop(self) -> None:
        """Let `run` end, from another thread."""
        self._server.should_exit = True

    async def _serve(self, started: Callable[[str], None]) -> bool:
        ended = False
        serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        while not (self._server.started or serving.done()):
            await asyncio.sleep(0.01)
        if self._server.started:
            started(self.address)
        while not serving.done():
            await asyncio.wait([serving], timeout=min(_GLANCE, self._idle))
            if not serving.done() and self.explorer.idle > self._idle:
                ended = True
                self.stop()
        await serving
        return ended


def open_browser(address: str) -> None:
    """Open the address in the user's browser, without waiting for it."""
    Thread(target=webbrowser.open, args=(address,), daemon=True).start()
