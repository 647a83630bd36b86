"""Random domains: all metrics, uneven priors, several components, duplicates, other losses, tables of distances."""

import numpy as np
from hypothesis import strategies as st

from duckanon.engines.metric.distances import METRICS, pairwise
from duckanon.engines.metric.domain import Domain, travel_loss, uniform


@st.composite
def domains(draw: st.DrawFn, most: int = 12) -> Domain:
    records = draw(st.integers(2, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    metric = METRICS[draw(st.sampled_from(sorted(METRICS)))]
    points = rng.normal(size=(records, 2)) * draw(st.sampled_from([0.3, 1.0, 4.0]))
    if draw(st.booleans()):
        # A lattice has ties, straight lines and duplicates.
        points = np.round(points) + (0.5 if metric.name == "cosine" else 0.0)
    if metric.name == "haversine":
        points = points / 100 + [41.9, 12.5]
    distances, triangle = pairwise(points, metric), metric.triangle
    if draw(st.integers(0, 4)) == 0:
        # Given by a table: only some pairs, and no triangle inequality.
        noise = rng.uniform(0.5, 2.0, distances.shape)
        distances = np.where(rng.random(distances.shape) < 0.3, np.inf, distances * noise)
        distances = np.minimum(distances, distances.T)
        np.fill_diagonal(distances, 0.0)
        triangle = False
    finite = np.where(np.isfinite(distances), distances, 0.0)
    middle = float(np.median(finite[finite > 0])) if (finite > 0).any() else 1.0
    radius = draw(st.sampled_from([None, 0.5 * middle, middle, 2 * middle]))
    epsilon = draw(st.sampled_from([0.1, 0.5, 1.0, 3.0, 10.0])) / middle
    prior = uniform(records)
    if draw(st.booleans()):
        prior = rng.dirichlet(np.full(records, 0.5))
        prior[rng.integers(records)] = 0.0
        prior = prior / prior.sum()
    kind = draw(st.sampled_from(["distance", "travel", "table"]))
    outputs = np.arange(records)
    loss = finite
    if kind == "travel":
        loss = travel_loss(rng.uniform(0, 3, (records, 5)), np.full(5, 0.2))
    elif kind == "table":
        outputs = np.sort(rng.choice(records, rng.integers(1, records + 1), replace=False))
        loss = rng.uniform(0, 3, (records, len(outputs)))
    return Domain(distances, epsilon, radius, triangle, prior, outputs, loss)
