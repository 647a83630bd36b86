"""How a method may go about its work, and whom it tells how far it has come."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Control:
    """How a method may go about its work.

    threads: how many it may use. progress: told the share of work done (0 to 1). seconds: how long a method with a
    time limit may take; None leaves it to the method, whose result is then the same every time. certify: told an
    information loss that the method has proven no partition to be below. options: parameters of the method by
    name, as its registry entry lists them. table: how many records the table has, if these are one block of it; the
    default budget of a search goes by it.
    """

    threads: int = 1
    progress: Callable[[float], None] = lambda _: None
    seconds: float | None = None
    certify: Callable[[float], None] = lambda _: None
    options: Mapping[str, int] = field(default_factory=dict)
    table: int = 0
