"""Residue tables: for each q mod m the smallest number congruent to q that some rows can make.

Adding a row goes once around each cycle of q -> q + r mod m (Boecker and Liptak 2007, "A fast and simple
algorithm for the money changing problem").
"""

import numpy as np

from duckanon.engines.array_kernels import assign
from duckanon.engines.cells.knapsack import Ints
from duckanon.engines.compiled import inner, inner_allocating

# Marks a residue that no sum has reached.
NEVER = 2**62


@inner
def gcd(a: int, b: int) -> int:
    """The greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


@inner
def take_in(table: Ints, spare: Ints, item: int, supply: int, target: int) -> None:
    """Let sums use `item` up to `supply` times, FREE for any number. Sums above the target are dropped."""
    m = len(table)
    step = item % m
    if step == 0 or supply == 0:
        return
    cycles = gcd(m, step)
    length = m // cycles
    if supply < 0 or supply >= length - 1:
        for start in range(cycles):
            best, at, q = NEVER, -1, start
            for _ in range(length):
                if table[q] < best:
                    best, at = table[q], q
                q += step
                if q >= m:
                    q -= m
            if at < 0:
                continue
            q, candidate = at, best
            for _ in range(length - 1):
                q += step
                if q >= m:
                    q -= m
                candidate += item
                if candidate < table[q]:
                    if candidate <= target:
                        table[q] = candidate
                    else:
                        candidate = NEVER - item
                else:
                    candidate = min(table[q], NEVER - item)
        return
    left, part = supply, 1
    while left > 0:
        part = min(part, left)
        if part > target // item:
            break
        size = part * item
        assign(spare, table)
        q = size % m
        for p in range(m):
            candidate = spare[p] + size
            if candidate <= target and candidate < table[q]:
                table[q] = candidate
            q += 1
            if q == m:
                q = 0
        left -= part
        part *= 2


@inner
def take_in_all(
    table: Ints, spare: Ints, items: Ints, supplies: Ints, begin: int, end: int, target: int, plain: bool
) -> None:
    """Take in items begin..end-1. plain: no row is bounded, so an item that is a sum already adds nothing."""
    m = len(table)
    for i in range(begin, end):
        if plain and table[items[i] % m] <= items[i]:
            continue
        take_in(table, spare, items[i], supplies[i], target)


@inner
def shape(table: Ints) -> tuple[int, int]:
    """The common divisor of m and all residues reached, and the number from which every multiple of it is reached.

    The second is -1 where some multiple's residue is never reached.
    """
    m = len(table)
    divisor, most, reached = m, 0, 0
    for q in range(m):
        least = table[q]
        if least < NEVER:
            reached += 1
            most = max(most, least)
            if divisor > 1 and q % divisor:
                divisor = gcd(divisor, q)
    return divisor, (most if reached == m // divisor else -1)


@inner_allocating
def append_run(runs: Ints, used: int, first: int, step: int, size: int) -> Ints:
    """The runs with one more, in a larger array if they need one."""
    if used == len(runs):
        larger = np.empty((2 * len(runs) + 64, 3), dtype=np.int64)
        for i in range(used):
            assign(larger[i], runs[i])
        runs = larger
    assign(runs[used], (first, step, size))
    return runs
