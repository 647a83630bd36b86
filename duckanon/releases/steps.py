"""Values of whole numbers and decimals as steps between bounds, without floats."""

from __future__ import annotations

from fractions import Fraction

from duckanon.catalog.types import WHOLE, digits, own_step, reach
from duckanon.rewrite.algebra.constants import in_sql
from duckanon.rewrite.algebra.scalars import builtin

# The most digits of decimals that DuckDB computes with in 64 bits.
_FAST = 18


def in_steps(value: str, kind: str, low: Fraction, step: Fraction, steps: int) -> str | None:
    """The steps from `low` to a value, from 0 to `steps`, as SQL that cannot fail; NULL for NULL.

    The value is clamped first, and rounded to the nearest step; of two it is the higher one. low: up to 10^15, as is
    the largest value. None for a type that is not exact, and where a bound or a step is between two of its values.
    """
    own, high = own_step(kind), low + steps * step
    if own is None or (low / own).denominator != 1 or (high / own).denominator != 1:
        return None
    per = step / own
    text = _in_own_steps(value, kind, low, high)
    if text is None or 1 not in (per.numerator, per.denominator):
        return None
    least = int(low / own)
    moved = builtin("-", text, f"({least})") if least else text
    if per.numerator == 1:
        return moved if per == 1 else builtin("*", moved, str(per.denominator))
    return builtin("//", builtin("+", builtin("*", moved, "2"), str(per)), str(2 * per))


def _in_own_steps(value: str, kind: str, low: Fraction, high: Fraction) -> str | None:
    """A clamped value in the steps of its type, as a BIGINT; None for decimals that take more than 64 bits.

    None, too, where the type has no value between the bounds.
    """
    least, largest = reach(kind)
    if high < least or largest < low:
        return None
    tests = f" WHEN {value} < {in_sql(low, kind)} THEN {in_sql(low, kind)}" if least < low else ""
    tests += f" WHEN {value} > {in_sql(high, kind)} THEN {in_sql(high, kind)}" if high < largest else ""
    clamped = f"(CASE{tests} ELSE {value} END)" if tests else value
    width, scale = digits(kind) or (0, 0)
    if kind not in WHOLE and width + scale + 1 > _FAST:
        width = max(scale, len(str(int(max(abs(low), abs(high)) * 10**scale))))
        if width + scale + 1 > _FAST:
            return None
        clamped = f"CAST({clamped} AS DECIMAL({width},{scale}))"
    return f"CAST({builtin('*', clamped, str(10**scale)) if scale else clamped} AS BIGINT)"
