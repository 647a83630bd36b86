"""Threads that are made before there is work for them: a process at the limit of its memory can make none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier


def start(threads: ThreadPoolExecutor, number: int) -> None:
    """Make so many threads of a pool that has done nothing yet."""
    # Each waits for the others, so none does the work of two.
    all_there = Barrier(number)
    for _ in range(number):
        threads.submit(all_there.wait)
