"""Independent pieces of work on a few threads; numpy, Arrow and compiled kernels leave the GIL to each other."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from duckanon.cancellation import check, current, working_for

A = TypeVar("A")
B = TypeVar("B")


def spread(function: Callable[[A], B], items: Iterable[A], threads: int) -> list[B]:
    """`function` of each item, in the items' order, on at most `threads` threads."""
    items, flag = list(items), current()

    def checked(item: A) -> B:
        with working_for(flag):
            check()
            return function(item)

    if threads <= 1 or len(items) <= 1:
        return [checked(item) for item in items]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(checked, items))
