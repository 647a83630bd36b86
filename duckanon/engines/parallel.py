"""Independent pieces of work on a few threads; numpy, Arrow and compiled kernels leave the GIL to each other."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def spread(function: Callable[[A], B], items: Iterable[A], threads: int) -> list[B]:
    """`function` of each item, in the items' order, on at most `threads` threads."""
    items = list(items)
    if threads <= 1 or len(items) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(function, items))
