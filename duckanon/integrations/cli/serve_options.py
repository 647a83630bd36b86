"""The options of `duckanon serve`, by what they are about."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from duckanon.server.service import Options


@dataclass(frozen=True)
class Address:
    """Where a service listens."""

    host: Annotated[
        str, typer.Option("--host", help="The address to listen at. Others than this machine's need TLS.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes a free one.")] = 5433
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate, in PEM.")] = None
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, in PEM.")] = None


@dataclass(frozen=True)
class Limits:
    """How much a service and its users may take."""

    statement_seconds: Annotated[
        float, typer.Option("--statement-seconds", min=0, help="The most for a statement; 0: any.")
    ] = 300
    max_rows: Annotated[int, typer.Option("--max-rows", min=1, help="The most rows of a result.")] = 10_000_000
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Threads of DuckDB. Default: as cores.")] = (
        None
    )
    connections: Annotated[int, typer.Option("--connections", min=1, help="The most connections.")] = 500
    connections_per_user: Annotated[
        int, typer.Option("--connections-per-user", min=1, help="The most of one user.")
    ] = 100
    statements: Annotated[int, typer.Option("--statements", min=1, help="The most that run at a time.")] = 16
    statements_per_user: Annotated[
        int, typer.Option("--statements-per-user", min=1, help="The most of one user that run at a time.")
    ] = 4
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Of DuckDB, as 4GB. Default: 80 % of it."),
    ] = None
    temp: Annotated[
        Path | None, typer.Option("--temp", metavar="FOLDER", help="For temporary files. Default: beside the database.")
    ] = None
    temp_size: Annotated[
        str, typer.Option("--temp-size", metavar="SIZE", help="The most that temporary files may take.")
    ] = "10GB"


@dataclass(frozen=True)
class Watch:
    """What is told about a service."""

    log: Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Where to log. Default: stderr.")] = None
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Where to tell figures in OpenMetrics.")
    ] = None
    metrics_token: Annotated[
        Path | None, typer.Option("--metrics-token", metavar="FILE", help="The token that asks for them.")
    ] = None


def options(address: Address, limits: Limits, watch: Watch, *, read_only: bool) -> Options:
    """All of them as the service takes them."""
    from duckanon.server.service import Options

    given = asdict(limits)
    return Options(
        **asdict(address),
        **asdict(watch),
        read_only=read_only,
        seconds=given.pop("statement_seconds") or None,
        workers=given.pop("statements"),
        per_user=given.pop("statements_per_user"),
        **given,
    )
