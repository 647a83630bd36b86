"""DuckDB's types of columns by what they hold, as its catalog writes them."""

from __future__ import annotations

import re
from fractions import Fraction

# The least and the greatest value of each type of whole numbers, the signed ones from the narrowest to the widest.
SIGNED = {
    **{f"{name}INT": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (("TINY", 8), ("SMALL", 16))},
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
}
WHOLE = {
    **SIGNED,
    **{f"U{name}INT": (0, 2**bits - 1) for name, bits in (("TINY", 8), ("SMALL", 16), ("BIG", 64), ("HUGE", 128))},
    "UINTEGER": (0, 2**32 - 1),
}
# Those whose values all fit into a BIGINT.
WITHIN_BIGINT = frozenset(kind for kind, (low, high) in WHOLE.items() if low >= -(2**63) and high < 2**63)
FLOATS = frozenset({"FLOAT", "DOUBLE"})
# Without the widths that stand behind a DECIMAL.
NUMBERS = frozenset({*WHOLE, *FLOATS, "DECIMAL"})
# Days, and times on days without a time zone.
DATES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"})
# Into how many steps floats between two bounds are rounded, where nobody declares a step: so many that this does not
# show beside the noise.
_STEPS_OF_FLOATS = 10**6
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


def base(kind: str) -> str:
    """The type's first words, without what stands in brackets: widths, or the values of an ENUM, which are data."""
    return kind.partition("(")[0].strip().upper()


def digits(kind: str) -> tuple[int, int] | None:
    """The width and scale of a DECIMAL; None for every other type."""
    match = _DECIMAL.fullmatch(kind)
    return None if match is None else (int(match[1]), int(match[2]))


def is_exact(kind: str) -> bool:
    """Whether a type holds whole numbers or decimals, which compare exactly, whatever their widths."""
    return kind in WHOLE or digits(kind) is not None


def reach(kind: str) -> tuple[Fraction, Fraction]:
    """The least and the greatest value of a type of exact numbers."""
    if kind in WHOLE:
        return Fraction(WHOLE[kind][0]), Fraction(WHOLE[kind][1])
    width, scale = digits(kind) or (0, 0)
    most = Fraction(10**width - 1, 10**scale)
    return -most, most


def step(kind: str) -> Fraction:
    """The distance between two values of a type of exact numbers."""
    scale = (digits(kind) or (0, 0))[1]
    return Fraction(1, 10**scale)


def step_between(kind: str, low: Fraction, high: Fraction) -> Fraction:
    """As `step`; of floats, which have none, a millionth of the way between their bounds."""
    return own_step(kind) or (high - low) / _STEPS_OF_FLOATS or Fraction(1)


def own_step(kind: str) -> Fraction | None:
    """As `step`; None for a type of other values."""
    return step(kind) if is_exact(kind) else None
