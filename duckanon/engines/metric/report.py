"""A published mechanism, verified and measured from its probabilities alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from duckanon.engines.metric.certificate import certify
from duckanon.engines.metric.domain import Domain
from duckanon.engines.metric.mechanism import Options, Tell, optimise
from duckanon.engines.metric.methods import DEFAULT, METHODS
from duckanon.engines.metric.problem import relative_gap

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def report(
    domain: Domain, matrix: Floats, suppressed: Flags, options: Options, *, bound: bool, tell: Tell
) -> dict[str, Any]:
    """What metric_report tells, by name.

    matrix: shape (records, outputs). suppressed: records that give no output; they count nothing as loss, and as an
    output of their own in every check, so that a neighbour of one that is not suppressed breaks the promise.
    bound: whether to look for a lower bound, which takes as long as finding a mechanism.
    """
    whole = np.concatenate([matrix, suppressed[:, None].astype(float)], axis=1) if suppressed.any() else matrix
    checked = certify(whole, domain.distances, domain.epsilon, domain.radius, options.threads)
    counted = replace(domain, loss=np.where(suppressed[:, None], 0.0, domain.loss))
    loss = float((matrix * counted.expected).sum())
    lower = optimise(counted, METHODS[DEFAULT], options, tell).lower if bound else None
    return {
        "pairs": checked.pairs,
        "max_violation": None if checked.pairs == 0 else checked.max_violation,
        "row_sum_error": checked.row_sum_error,
        "expected_loss": loss,
        "exponential_loss": optimise(counted, METHODS["exponential"], options).loss,
        "lower_bound": lower,
        "gap": None if lower is None else relative_gap(loss, lower),
    }
