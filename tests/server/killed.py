"""Servers in processes of their own, to be killed.

Each process is a copy of one that has loaded this module, and with it all that a charge needs: so it starts at once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pandas  # noqa: F401 # DuckDB loads it
import scipy.linalg  # noqa: F401 # numba loads it

from duckanon.engines.randomness import Entropy, double_geometric
from duckanon.functions import k_report  # noqa: F401 # the functions that are registered
from duckanon.rewrite import decide  # noqa: F401
from duckanon.server.service import Options, Service

# Loads the compiled sampler.
double_geometric(Fraction(1), 1, Entropy())


def start(path: Path) -> tuple[Any, int]:
    """A server's process, which has the methods of `multiprocessing.Process`, and its port."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(path, tell), daemon=True)
    process.start()
    tell.close()
    with told:
        return process, told.recv()


def _serve(path: Path, tell: Connection) -> None:
    service = Service(path, Options(port=0, log=path.with_suffix(".log")))
    asyncio.run(service.serve(lambda _, port: tell.send(port)))
