"""How far noise moves a number: half the width of 95 % intervals, from the scale of the noise alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, exp, log


def spread(scale: Fraction) -> int:
    """The least m with P(|noise| > m) <= 5 %, for discrete Laplace noise of that scale."""
    a = exp(-1 / scale)
    return max(0, ceil(log(0.05 * (1 + a) / 2) / log(a)) - 1) if a > 0 else 0


def half_width(scale: Fraction) -> float:
    """As `spread`, for noise so fine that it is continuous: the sum of c such numbers is within sqrt(c) times that.

    The sum of more than one has lighter tails than one, for the same variance, so 95 % is what it holds at least.
    """
    return -log(0.05) * float(scale)


def quotient_end(above: str, below: str, parts: Sequence[tuple[str, str]], half: float, side: str, worst: str) -> str:
    """An end of the interval of a quotient of noisy numbers, as SQL (Fieller 1954).

    below is a sum of totals with noise of the same width, half, and above is the sum of the same totals, each times a
    value. So above - q below, for the true quotient q, is noise whose width is known, and the interval has all q for
    which that noise would be no wider: it holds at least as often where below is hardly more than its noise.

    above, below: SQL. parts: of each kind of total its value, and how many there are, as SQL. side: 'low' or 'high'.
    worst: the end where below is so small that every quotient is possible.
    """
    squared = repr(half**2)
    centre = f"(({above}) / ({below}))"
    leading = f"(({below}) ** 2 - {squared} * ({' + '.join(count for _, count in parts)}))"
    lean = f"({squared} * ({' + '.join(f'{count} * ({value} - {centre})' for value, count in parts)}))"
    width = f"({squared} * ({' + '.join(f'{count} * ({value} - {centre}) ** 2' for value, count in parts)}))"
    root = f"sqrt({lean} ** 2 + {leading} * {width})"
    end = f"{centre} + (-{lean} {'-' if side == 'low' else '+'} {root}) / {leading}"
    return f"(CASE WHEN ({below}) >= 1 AND {leading} > 0 THEN {end} ELSE {worst} END)"
