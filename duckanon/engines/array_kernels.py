"""Sorting and copying for compiled code: numba's versions of NumPy's functions take seconds to compile.

An assignment to a slice, `a[:] = b`, also compiles an error message about shapes, with all of Python's text handling;
`np.argsort` takes three times as long as the one below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.compiled import inner, inner_allocating

# Runs of this many keys are sorted by insertion.
_RUN = 16


@inner
def assign(target: npt.NDArray[Any], source: Any) -> None:
    """Copy an array, or a tuple, of one dimension into as many places of another."""
    for i in range(len(source)):
        target[i] = source[i]


@inner
def sort(values: npt.NDArray[Any], count: int) -> None:
    """Sort the first `count` values in place (heapsort)."""
    start, stop = count // 2, count
    while stop > 1:
        if start > 0:
            start -= 1
        else:
            stop -= 1
            values[0], values[stop] = values[stop], values[0]
        parent = start
        child = 2 * parent + 1
        while child < stop:
            if child + 1 < stop and values[child] < values[child + 1]:
                child += 1
            if values[parent] < values[child]:
                values[parent], values[child] = values[child], values[parent]
                parent = child
                child = 2 * parent + 1
            else:
                child = stop


@inner_allocating
def argsort(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """A stable order of keys, by merging. int64 of shape (n,)."""
    n = len(keys)
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for start in range(0, n, _RUN):
        for i in range(start, min(start + _RUN, n)):
            key, place = keys[i], i
            while place > start and keys[order[place - 1]] > key:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    width = 1 * _RUN  # (a variable that starts as a constant of the module could not change)
    while width < n:
        for start in range(0, n, 2 * width):
            left, middle = start, min(start + width, n)
            right, stop = middle, min(start + 2 * width, n)
            for place in range(start, stop):
                if right == stop or (left < middle and keys[order[left]] <= keys[order[right]]):
                    other[place] = order[left]
                    left += 1
                else:
                    other[place] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order
