"""The functions that an analyst's rewritten queries call for the ends of intervals: numbers in, numbers out.

They read nothing, and give NULL for arguments that make no sense. What they compute from is public: the kind of the
noise, and how many noisy numbers were added up, which DuckDB counts while the query runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from duckanon.functions.udf import Instance


def register(on: Instance) -> None:
    """Put the functions on a database instance."""
    on.create("_dk_width", _width, "DOUBLE", side_effects=False)
    on.create("_dk_quotient_end", _quotient_end, "DOUBLE", side_effects=False)


def _width(noise: Any, weights: Any, cells: Any) -> pa.Array:
    """The width of a sum of noises, for each row. noise, weights: constants, as text; weights: of one cell's totals.

    cells: how many are added up.
    """
    if len(cells) == 0:
        return pa.array([], pa.float64())
    counts = np.asarray(cells)
    widths = {int(count): _width_of(noise[0].as_py(), weights[0].as_py(), int(count)) for count in np.unique(counts)}
    return pa.array([widths[int(count)] for count in counts], pa.float64())


@lru_cache(20_000)
def _width_of(noise: str, weights: str, cells: int) -> float:
    from duckanon.engines.noise import parsed
    from duckanon.engines.noise_tails import Kind, width

    return float(width(parsed(noise), [Kind(fraction, cells) for fraction in _fractions(weights)]))


def _quotient_end(
    side: Any, noise: Any, unit: Any, values: Any, above: Any, below: Any, more: Any, *cells: Any
) -> pa.Array:
    """An end of the interval of a quotient, for each row. side, noise, unit, values: constants.

    side: 'low' or 'high'. unit: what a total of 1 adds. more: by how much above may be off beside its noise. cells: how
    many totals there are of each value.
    """
    from duckanon.engines.noise_tails import quotient_ends

    if len(above) == 0:
        return pa.array([], pa.float64())
    counts = np.stack([np.asarray(cell) for cell in cells], axis=1)
    numbers, divisors, off = (np.asarray(column, dtype=np.float64) for column in (above, below, more))
    interval_ends = np.zeros(len(counts))
    kinds, places = np.unique(counts, axis=0, return_inverse=True)
    places = places.reshape(-1)
    for at, kind in enumerate(kinds):
        met = places == at
        widths = _widths_of(noise[0].as_py(), values[0].as_py(), tuple(map(int, kind)))
        ends = quotient_ends(numbers[met], divisors[met], widths, float(Fraction(unit[0].as_py())), off[met])
        interval_ends[met] = ends[side[0].as_py() == "high"]
    return pa.array(interval_ends)


@lru_cache(2_000)
def _widths_of(noise: str, values: str, counts: tuple[int, ...]) -> Any:
    from duckanon.engines.noise import parsed
    from duckanon.engines.noise_tails import Kind, quotient_widths

    kinds = zip(_fractions(values), counts, strict=True)
    return quotient_widths(parsed(noise), tuple(Kind(weight, count) for weight, count in kinds))


def _fractions(numbers: str) -> Sequence[Fraction]:
    return [Fraction(number) for number in numbers.split()]
