"""Figures of a running server in OpenMetrics, for those who watch it: off unless an address is named.

They say what analysts may read too, and how busy the server is: no label holds a user, a table or a text, and nothing
tells how long a draw took or how much memory it had. Populations are numbered as the ledger names them first.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from duckanon.errors import InvalidInput
from duckanon.governance.ledger_state import LedgerState
from duckanon.server.tls import Tls

# Of a request: the most bytes of its head, and the seconds that it may take.
_LONGEST, _TAKES = 8192, 10.0
# The most connections at a time.
_MOST = 10
# In characters: the shortest token.
_LEAST = 16


@dataclass(frozen=True)
class Spending:
    """Of one population, by its number: what is left of its budget and was spent, in its ledger's unit, and charges."""

    number: int
    remaining: float
    spent: float
    charges: int


@dataclass(frozen=True)
class Figures:
    """What is told. waiting: statements that wait for a turn."""

    connections: int
    waiting: int
    spending: Sequence[Spending]


def spending(states: Sequence[LedgerState]) -> list[Spending]:
    """Of all populations with a budget, in the order in which the ledgers named them first."""
    named = [population for state in states for population in state.populations.values()]
    return [
        Spending(number, float(population.budget.remaining), float(population.spent), population.charges)
        for number, population in enumerate(named, 1)
        if population.budget is not None
    ]


def written(figures: Figures) -> bytes:
    """The figures as OpenMetrics."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.openmetrics.exposition import generate_latest

    class Collector:
        def collect(self) -> Iterator[Any]:
            return _families(figures)

    registry = CollectorRegistry()
    registry.register(Collector())  # type: ignore[arg-type, unused-ignore] # it has what a collector needs
    return bytes(generate_latest(registry))  # type: ignore[no-untyped-call]


def _families(figures: Figures) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield GaugeMetricFamily("duckanon_connections", "Connections that have logged in.", figures.connections)
    yield GaugeMetricFamily(
        "duckanon_waiting_statements", "Statements that wait for their user's turn.", figures.waiting
    )
    left = GaugeMetricFamily("duckanon_budget_remaining", "What is left of a budget.", labels=["population"])
    spent = CounterMetricFamily("duckanon_budget_spent", "What was spent of a budget.", labels=["population"])
    charges = CounterMetricFamily("duckanon_charges", "How often a budget was charged.", labels=["population"])
    for one in figures.spending:
        label = [str(one.number)]
        left.add_metric(label, one.remaining)
        spent.add_metric(label, one.spent)
        charges.add_metric(label, one.charges)
    yield from (left, spent, charges)


def address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises InvalidInput."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidInput("--metrics is an address and a port, as in 127.0.0.1:9464.")
    return host.strip("[]"), int(port)


def token_in(path: Path | None) -> bytes:
    """The token in a file, without which nothing is told. Raises InvalidInput."""
    if find_spec("prometheus_client") is None:
        raise InvalidInput("--metrics needs prometheus_client: pip install 'duckanon[metrics]'.")
    if path is None:
        raise InvalidInput("--metrics needs --metrics-token, a file with the token that requests must carry.")
    try:
        content = path.read_bytes().strip()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) < _LEAST:
        raise InvalidInput(f"The token in {path} is too short: take {_LEAST} random characters or more.")
    return content


class MetricsServer:
    """Answers GET /metrics to those who have the token, and nothing else.

    figures: called for each answer.
    """

    def __init__(self, token: bytes, figures: Callable[[], Awaitable[Figures]], tls: Tls | None) -> None:
        self._token, self._figures, self._tls = token, figures, tls
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> int:
        """Begin to listen, and return the port."""
        context = None if self._tls is None else self._tls.context
        self._server = await asyncio.start_server(self._serve, host, port, ssl=context, limit=_LONGEST)
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    def renew(self, cert: Path | None, key: Path | None) -> None:
        """Take a renewed certificate, which was read before, for connections from now on."""
        if self._tls is not None and cert is not None:
            self._tls.context.load_cert_chain(cert, key)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MOST:
                async with asyncio.timeout(_TAKES):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open -= 1
            with suppress(OSError):
                writer.close()

    async def _answer(self, head: bytes) -> bytes:
        first, *lines = head.split(b"\r\n")
        text = b""
        for line in lines:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"authorization":
                text = value.strip()
        if not hmac.compare_digest(text, b"Bearer " + self._token):
            return _response("401 Unauthorized", b"")
        if first.split(b" ")[:2] != [b"GET", b"/metrics"]:
            return _response("404 Not Found", b"")
        return _response("200 OK", written(await self._figures()))


def _response(status: str, body: bytes) -> bytes:
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
