"""The functions that rewritten queries over what was prepared call for the ends of intervals: numbers in, numbers out.

They read nothing. What they compute from is public: how the measurements were planned, and which cells are added up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from duckanon.functions.udf import Instance


def register(on: Instance) -> None:
    """Put the functions on a database instance."""
    on.create("_dk_prepared_width", _width, "DOUBLE", side_effects=False)
    on.create("_dk_prepared_quotient_end", _quotient_end, "DOUBLE", side_effects=False)


def _width(form: Any, weights: Any, cells: Any) -> pa.Array:
    """The width of a linear function, for each row. form, weights: constants, of `duckanon.releases.prepared_noise`.

    cells: a list of those that are added up; NULL for none.
    """
    if len(cells) == 0:
        return pa.array([], pa.float64())
    widths: Any = _read(form[0].as_py())
    known: dict[bytes, float] = {}
    half_widths = []
    for added in _lists(cells):
        key = widths.alike(added)
        if key not in known:
            known[key] = widths.width(widths.of(added, _numbers(weights)))
        half_widths.append(known[key])
    return pa.array(half_widths, pa.float64())


def _quotient_end(side: Any, form: Any, weights: Any, divisors: Any, *quotient: Any) -> pa.Array:
    """An end of the interval of a quotient, for each row. side, form, weights, divisors: constants.

    quotient: what stands above and below its line; by how much above may be off beside its noise; and lists of the
    cells that are added up above and below.
    """
    from duckanon.engines.marginals.intervals import quotient_ends

    *numbers, part, whole = quotient
    if len(part) == 0:
        return pa.array([], pa.float64())
    widths: Any = _read(form[0].as_py())
    known: dict[Any, tuple[float, float, float]] = {}
    noises = []
    for part_cells, whole_cells in zip(_lists(part), _lists(whole), strict=True):
        key = widths.alike(part_cells), widths.alike(whole_cells), np.array_equal(part_cells, whole_cells)
        if key not in known:
            first, second = widths.of(part_cells, _numbers(weights)), widths.of(whole_cells, _numbers(divisors))
            known[key] = widths.quotient(first, second)
        noises.append(known[key])
    above, below, off = (np.asarray(number, dtype=np.float64) for number in numbers)
    ends = quotient_ends(above, below, list(np.array(noises).T), off, widths.factor)
    return pa.array(ends[side[0].as_py() == "high"])


def _lists(cells: Any) -> list[Any]:
    return [np.array(row or (), dtype=np.int64) for row in cells.to_pylist()]


def _numbers(constant: Any) -> list[float]:
    """The numbers in a constant: the weights of a cell's parts."""
    return [float(number) for number in constant[0].as_py().split()]


@lru_cache(200)
def _read(form: str) -> Any:
    """The widths of a table. form: its sizes, the residuals' variances, how many deviations an interval has, and 1
    where functions with whole weights are whole, apart by semicolons.

    Where a key's values are added up, its place and the values come after that.
    """
    from duckanon.engines.marginals.intervals import Widths
    from duckanon.engines.marginals.linear_functions import Along, Noise

    sizes, residuals, factor, is_whole, *rest = form.split(";")
    noise = Noise(tuple(map(int, sizes.split())), tuple(map(float, residuals.split())))
    along = Along(int(rest[0]), np.array([float(way) for way in rest[1].split()])) if rest else None
    return Widths(noise, float(factor), is_whole == "1", along)
