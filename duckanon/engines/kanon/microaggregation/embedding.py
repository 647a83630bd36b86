"""Records as points, such that squared distances are what microaggregation keeps small.

A number is standardised, so that every quasi-identifier has as large a sum of squares. A category becomes a column for
each of its values (Domingo-Ferrer and Torra 2005 take distances 0 and 1; so does this, but for the scale). NULL lies
apart from all values.
"""

from __future__ import annotations

import numpy as np

from duckanon.engines.kanon.records import Attribute, Floats, Records
from duckanon.errors import InvalidInput

# How many standard deviations NULL lies from the mean, in a direction of its own.
_NULL_AWAY = 2.0
# Columns of categories, of one quasi-identifier.
_MOST_VALUES = 200


def embedded(records: Records) -> Floats:
    """The points, shape (n, d); of a column that holds one value nothing. Weights count as multiples of their mean.

    Raises InvalidInput if a categorical quasi-identifier has too many values.
    """
    columns = [column for a in records.attributes for column in _columns(a, a.weight * len(records.attributes))]
    if not columns:
        return np.zeros((len(records), 1))
    return np.ascontiguousarray(np.stack(columns, axis=1))


def total_squares(points: Floats) -> float:
    """The sum of the squared distances of points from their mean."""
    away = points - points.mean(axis=0)
    return float((away * away).sum())


def of_one_unit(points: Floats) -> Floats:
    """The points scaled such that the sum of squares of all is their number, unless it is zero.

    The mean of their prices is then a part of the whole sum of squares.
    """
    whole = total_squares(points)
    return points * np.sqrt(len(points) / whole) if whole > 0.0 else points


def _columns(a: Attribute, weight: float) -> list[Floats]:
    null = a.codes == a.distinct
    if weight == 0:
        return []
    if a.categorical:
        if a.distinct > _MOST_VALUES:
            raise InvalidInput(
                f'Column "{a.name}" has more than {_MOST_VALUES} distinct values, too many for sums of squares: group '
                "them in a view first."
            )
        shares = np.bincount(a.codes, minlength=a.distinct + 1) / len(a.codes)
        spread = (1.0 - float(shares @ shares)) / 2.0
        if spread == 0.0:
            return []
        scale = np.sqrt(weight / (2.0 * spread))
        return [scale * (a.codes == code) for code in np.flatnonzero(shares)]
    numbers = np.append(a.positions, 0.0)[a.codes]
    mean, deviation = numbers[~null].mean() if not null.all() else 0.0, numbers[~null].std() if not null.all() else 0.0
    columns = []
    if deviation > 0.0:
        columns.append(np.sqrt(weight) * np.where(null, 0.0, (numbers - mean) / deviation))
    if null.any() and not null.all():
        columns.append(np.sqrt(weight) * _NULL_AWAY * null)
    return columns
