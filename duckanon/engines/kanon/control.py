"""Threads, time limit and options of a method, and the functions that it reports its progress to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckanon.engines.kanon.criteria.consecutive import Conditions


@dataclass(frozen=True)
class Control:
    """The limits and options of one run of a method.

    threads: how many it may use. progress: called with the share of work done (0 to 1). seconds: how long a method with
    a time limit may take; None leaves it to the method, whose result is then the same every time. certify: called with
    an information loss that the method has proven no partition to be below. options: parameters of the method by name,
    as its registry entry lists them. table: the number of records of the table, if these are one block of it; a
    search's default budget depends on it. conditions: what the classes should meet beside k, of the records in their
    order, for methods that know conditions (`Method.conditions`).
    """

    threads: int = 1
    progress: Callable[[float], None] = lambda _: None
    seconds: float | None = None
    certify: Callable[[float], None] = lambda _: None
    options: Mapping[str, int] = field(default_factory=dict)
    table: int = 0
    conditions: Conditions | None = None
