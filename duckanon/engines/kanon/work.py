"""How a method may work, and whom it tells how far it has come."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """How a method may work.

    threads: how many it may use. progress: told the share of work done (0 to 1). seconds: how long a method with a
    time limit may take; None leaves it to the method, whose result is then the same every time. certify: told an
    information loss that the method has proven no partition to be below.
    """

    threads: int = 1
    progress: Callable[[float], None] = lambda _: None
    seconds: float | None = None
    certify: Callable[[float], None] = lambda _: None
