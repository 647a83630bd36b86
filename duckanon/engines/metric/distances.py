"""Distances between records: euclidean, manhattan, haversine and cosine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]

EARTH_RADIUS = 6371.0088  # km, the mean radius (IUGG)


def _minkowski(name: str) -> Callable[[Floats, Floats], Floats]:
    def between(points: Floats, others: Floats) -> Floats:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(points, others, name))

    return between


def _haversine(points: Floats, others: Floats) -> Floats:
    for features in (points, others):
        if features.shape[1] != 2:
            raise InvalidInput("haversine needs two features: latitude first, then longitude, in degrees.")
        if (np.abs(features[:, 0]) > 90).any():
            raise InvalidInput(
                "A latitude is beyond 90 degrees: haversine takes latitude first, then longitude, in degrees."
            )
        if (np.abs(features[:, 1]) > 360).any():
            raise InvalidInput("A longitude is beyond 360 degrees: haversine takes degrees.")
    lat, lon = np.radians(points).T
    lat2, lon2 = np.radians(others).T
    chord = np.sin((lat[:, None] - lat2) / 2) ** 2
    chord += np.cos(lat)[:, None] * np.cos(lat2) * np.sin((lon[:, None] - lon2) / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.minimum(chord, 1.0))))


def _cosine(points: Floats, others: Floats) -> Floats:
    def directions(vectors: Floats) -> Floats:
        # Scaled first, because squares of very small or large numbers under- or overflow.
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        if (largest == 0).any():
            raise InvalidInput("A record is zero in every feature and has no direction: cosine cannot place it.")
        scaled = vectors / largest
        return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))

    # Half the squared chord: for small angles 1 - cos would lose digits.
    return np.asarray(_minkowski("sqeuclidean")(directions(points), directions(others)) / 2)


@dataclass(frozen=True)
class Metric:
    """A way to measure how far records are from each other.

    between: points of shape (n, features) and (m, features) to distances of shape (n, m).
    triangle: whether the triangle inequality holds.
    """

    name: str
    between: Callable[[Floats, Floats], Floats]
    triangle: bool


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("euclidean", _minkowski("euclidean"), True),
        Metric("manhattan", _minkowski("cityblock"), True),
        Metric("haversine", _haversine, True),
        Metric("cosine", _cosine, False),
    )
}


def named(name: str) -> Metric:
    """The metric of that name. Raises InvalidInput with the names there are."""
    if name not in METRICS:
        known = ", ".join(f"'{metric}'" for metric in METRICS)
        raise InvalidInput(f"There is no metric '{name}': choose one of {known}.")
    return METRICS[name]


def pairwise(points: Floats, metric: Metric) -> Floats:
    """Distances of all pairs, shape (records, records): symmetric, zero on the diagonal.

    Raises InvalidInput for points that the metric does not cover, and for distances that overflow.
    """
    distances = metric.between(points, points)
    # Libraries may round the two directions of a pair differently.
    distances = np.minimum(distances, distances.T)
    np.fill_diagonal(distances, 0.0)
    if not np.isfinite(distances).all():
        raise InvalidInput("Distances between records overflow: scale the features down.")
    return np.ascontiguousarray(distances)
