"""Columns of numbers with declared bounds, as whole steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from duckanon.catalog.names import fold
from duckanon.catalog.snapshot import Protected
from duckanon.releases.noise import NotOffered
from duckanon.releases.paid_questions import Number
from duckanon.rewrite.recognize.measures import WHOLE

# The most steps between the bounds. Squares have as many totals of twice the digits; quantiles try each step.
_MOST_STEPS, _MOST_OF_SQUARES, _MOST_OF_QUANTILES = 10**8, 10**4, 10**3
# The steps of a column of floats without a declared step: so fine that rounding to them does not show beside the noise.
_DEFAULT_STEPS = 10**6
_DECIMAL = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")


def of_column(
    protected: Protected, types: Mapping[str, str], column: str, *, squares: bool = False, quantiles: bool = False
) -> Number:
    """A column as a number. types: of the table's columns, by folded name. Raises NotOffered."""
    bounds = {fold(name): one for name, one in protected.policy.bounds.items()}.get(fold(column))
    kind = types.get(fold(column), "")
    decimal = _DECIMAL.fullmatch(kind)
    if kind not in WHOLE and kind not in ("DOUBLE", "FLOAT") and decimal is None:
        raise NotOffered("Sums, means and quantiles are told of columns of numbers.")
    if bounds is None:
        raise NotOffered(
            f"The policy declares no bounds for {column}, so one record could change its sum without limit: ask the "
            f"steward for bounds := {{'{column}': [least, largest]}}."
        )
    low, high, *steps = map(Fraction, bounds)
    own = (
        Fraction(1)
        if kind in WHOLE
        else Fraction(1, 10 ** int(decimal[1]))
        if decimal
        else (high - low) / _DEFAULT_STEPS
    )
    step = steps[0] if steps else own
    most = _MOST_OF_QUANTILES if quantiles else _MOST_OF_SQUARES if squares else _MOST_STEPS
    step *= ceil((high - low) / step / most)
    assert protected.stored is not None
    stored = {fold(name): name for name in protected.stored.columns}
    return Number(stored[fold(column)], str(low), str(step), ceil((high - low) / step))
