"""M_H and M_c as integer programs for HiGHS: the paper's models as printed, for small trees and for comparison."""

from __future__ import annotations

import numpy as np

from duckanon.engines.groups.hierarchy import Ints
from duckanon.engines.groups.measurements import Estimate, Measurements
from duckanon.engines.highs import Program, solved
from duckanon.errors import DuckanonError, InvalidInput

# The most steps: HiGHS would not finish a larger program.
_MOST = 400_000
_FIRST_WINDOW = 16

# Columns with their factors, and the least and the most that they may add up to.
Row = tuple[list[tuple[int, int]], float, float]


def refuse_large(regions: tuple[int, ...], sizes: int, scales: tuple[float, ...]) -> None:
    """Raises InvalidInput for programs too large for HiGHS: too many numbers, or too much noise on them."""
    if sum(r * sizes * (2 * _FIRST_WINDOW + 8 * scale) for r, scale in zip(regions, scales, strict=True)) > _MOST:
        raise InvalidInput("The integer program would be too large for HiGHS: take h_dp, c_dp or auto.")


def h_exact(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, Model 1. The same optimum as h_dp."""
    count, sizes, rows = _tree(measured)
    if measured.total is not None:
        rows.append(([(s, 1) for s in range(sizes)], measured.total, measured.total))
    optimum = _least_squares(np.concatenate([x.reshape(-1) for x in measured.histograms()]), rows)
    return Estimate(optimum[count - measured.hierarchy.sizes[-1] * sizes :].reshape(-1, sizes))


def c_exact(measured: Measurements) -> Estimate:
    """Fioretto, Van Hentenryck and Zhu 2021, Model 2, on counts from above where totals are private."""
    count, sizes, rows = _tree(measured)
    public = measured.total is not None
    # Leaves that are monotone make everything above them so (C3).
    for leaf in range(count - measured.hierarchy.sizes[-1] * sizes, count, sizes):
        for s in range(leaf, leaf + sizes - 1):
            rows.append(([(s, -1 if public else 1), (s + 1, 1 if public else -1)], 0, np.inf))
    if measured.total is not None:
        rows.append(([(sizes - 1, 1)], measured.total, measured.total))
    optimum = _least_squares(np.concatenate([x.reshape(-1) for x in measured.values]), rows)
    leaves = optimum[count - measured.hierarchy.sizes[-1] * sizes :].reshape(-1, sizes)
    if public:
        return Estimate(np.diff(leaves, axis=1, prepend=0))
    return Estimate(-np.diff(leaves, axis=1, append=0))


def _tree(measured: Measurements) -> tuple[int, int, list[Row]]:
    """How many numbers there are, sizes a region, and the rows that make children add up to their parents (H3, C4)."""
    sizes, tree = measured.max_size, measured.hierarchy
    offsets = np.concatenate([[0], np.cumsum(tree.sizes)]).tolist()
    rows: list[Row] = []
    for level, starts in enumerate(tree.starts):
        for p in range(tree.sizes[level]):
            children = range(offsets[level + 1] + starts[p], offsets[level + 1] + starts[p + 1])
            for s in range(sizes):
                terms = [(child * sizes + s, 1) for child in children]
                rows.append(([((offsets[level] + p) * sizes + s, -1), *terms], 0, 0))
    return offsets[-1] * sizes, sizes, rows


def _least_squares(noisy: Ints, rows: list[Row]) -> Ints:
    """Whole numbers >= 0 within the rows, with the least sum of squared distances to `noisy`.

    Each number is a lowest value plus steps of one with rising costs 2 (v - noisy) + 1, so the program is linear.
    Steps cover a window; if the optimum touches the end of one, windows double: by convexity an optimum inside is that
    of all.
    Raises DuckanonError if HiGHS gives up.
    """
    from scipy.sparse import coo_array

    window = _FIRST_WINDOW
    while True:
        lowest = np.maximum(noisy - window, 0)
        steps = np.maximum(noisy + window, window) - lowest
        first = len(noisy) + np.concatenate([[0], np.cumsum(steps)])
        owner = np.repeat(np.arange(len(noisy)), steps)
        rank = np.arange(len(owner)) - np.repeat(first[:-1] - len(noisy), steps)
        cost = np.concatenate([np.zeros(len(noisy)), 2.0 * (lowest[owner] + rank - noisy[owner]) + 1])
        terms = [(r, column, factor) for r, (row, _, _) in enumerate(rows) for column, factor in row]
        at, columns, factors = (np.array(part) for part in zip(*terms, strict=True)) if terms else (np.empty(0),) * 3
        # number - its steps = lowest. HiGHS takes 32-bit indices.
        links = len(rows) + np.arange(len(noisy))
        numbers, stairs = np.arange(len(noisy)), len(noisy) + np.arange(len(owner))
        coefficients = np.concatenate([factors, np.ones(len(noisy)), -np.ones(len(owner))])
        places = (np.concatenate([at, links, links[owner]]), np.concatenate([columns, numbers, stairs]))
        shape = (len(rows) + len(noisy), len(cost))
        matrix = coo_array((coefficients, tuple(place.astype(np.int32) for place in places)), shape=shape)
        ends = (
            np.concatenate([[low for _, low, _ in rows], lowest]).astype(np.float64),
            np.concatenate([[high for _, _, high in rows], lowest]).astype(np.float64),
        )
        most = np.concatenate([np.full(len(noisy), np.inf), np.ones(len(owner))])
        whole = np.arange(len(cost)) < len(noisy)
        answer = solved(Program(cost, matrix.tocsc(), *ends, np.zeros(len(cost)), most, whole), mip_rel_gap=0.0)
        if answer.is_infeasible:  # within the windows
            window *= 2
            continue
        if not answer.is_optimal or answer.x is None:
            raise DuckanonError("HiGHS gave up on the integer program: take h_dp, c_dp or auto.")
        optimum: Ints = np.rint(answer.x[: len(noisy)]).astype(np.int64)
        if not ((optimum == lowest + steps) | ((optimum == lowest) & (lowest > 0))).any():
            return optimum
        window *= 2
