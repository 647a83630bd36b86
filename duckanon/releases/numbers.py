"""Columns of numbers with declared bounds, as whole steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from duckanon.catalog.names import fold, literal
from duckanon.catalog.policy import LARGEST_BOUND
from duckanon.catalog.snapshot import Protected
from duckanon.releases.measures import Number
from duckanon.releases.noise import NotOffered
from duckanon.rewrite.recognize.measures import WHOLE

# The most steps between the bounds. Squares have as many totals of twice the digits; quantiles try each step.
_MOST_STEPS, _MOST_OF_SQUARES, _MOST_OF_QUANTILES = 10**8, 10**4, 10**3
# The steps of a column of floats without a declared step: so fine that rounding to them does not show beside the noise.
_DEFAULT_STEPS = 10**6
_DECIMAL = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")


def rounding(number: Number, kind: str) -> Fraction:
    """How far a value of a column of that type can be from the step to which it is rounded."""
    low, step = Fraction(number.low), Fraction(number.step)
    own = own_step(kind)
    exact = own is not None and (own / step).denominator == 1 and (low / own).denominator == 1
    return Fraction(0) if exact else step / 2


def is_number(kind: str) -> bool:
    """Whether a column's type is one of numbers."""
    return own_step(kind) is not None or kind in ("DOUBLE", "FLOAT")


def own_step(kind: str) -> Fraction | None:
    """The step in which a type holds numbers; None for floats."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return Fraction(1, 10 ** int(decimal[1]))
    return Fraction(1) if kind in WHOLE else None


def of_column(
    protected: Protected, types: Mapping[str, str], column: str, *, squares: bool = False, quantiles: bool = False
) -> Number:
    """A column as a number. types: of the table's columns, by folded name. Raises NotOffered."""
    bounds = {fold(name): one for name, one in protected.policy.bounds.items()}.get(fold(column))
    kind = types.get(fold(column), "")
    if not is_number(kind):
        raise NotOffered("Sums, means and quantiles are told of columns of numbers.")
    if bounds is None:
        raise NotOffered(
            f"The policy declares no bounds for {column}, so one record could change its sum without limit: ask the "
            f"steward for bounds := {{{literal(column)}: [least, largest]}}."
        )
    low, high, *steps = map(Fraction, bounds)
    if max(-low, high) > LARGEST_BOUND:
        raise NotOffered(f"The bounds of {column} are too wide for sums: ask the steward for narrower ones.")
    step = steps[0] if steps else own_step(kind) or (high - low) / _DEFAULT_STEPS
    most = _MOST_OF_QUANTILES if quantiles else _MOST_OF_SQUARES if squares else _MOST_STEPS
    step *= ceil((high - low) / step / most)
    assert protected.stored is not None
    stored = {fold(name): name for name in protected.stored.columns}
    return Number(stored[fold(column)], str(low), str(step), ceil((high - low) / step))
