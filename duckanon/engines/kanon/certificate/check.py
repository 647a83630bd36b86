"""Whether prices prove a bound, from the table and the prices alone.

Nothing of how the prices were found is used: each is held against the class of its point that it exceeds most, by the
exact search that is tested against all classes of small tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from duckanon.engines.kanon.anonymize import check_k
from duckanon.engines.kanon.certificate.certificate import bound_of
from duckanon.engines.kanon.certificate.points import GRAINS, MOST_POINTS, Whole, distinct
from duckanon.engines.kanon.certificate.pricing import Effort, valid_prices
from duckanon.engines.kanon.records import Records
from duckanon.errors import InvalidInput

# What a search may look at before it is cut short: ten times as much as one that finds prices.
_STEPS = 10_000_000
MOST_K = 1_000


@dataclass(frozen=True)
class Verdict:
    """claimed: the information loss that the prices would prove. proven: what they prove with too high ones lowered.

    valid: whether no class loses less than the prices of its records. too_high: how many distinct points have a price
    that had to be lowered. undecided: those of them whose search was cut short.
    """

    claimed: float
    proven: float
    valid: bool
    points: int
    too_high: int
    undecided: int


def check(records: Records, k: int, prices: Whole, progress: Callable[[float], None] = lambda _: None) -> Verdict:
    """Judge prices of n records in any order, shape (n,), in grains of 2^-40.

    Of records with equal quasi-identifiers the least price counts. Raises InvalidInput above `MOST_POINTS` distinct
    ones, and above `MOST_K`.
    """
    check_k(k, len(records))
    if k > MOST_K:
        raise InvalidInput(f"Prices are checked for k up to {MOST_K:,}: choose a smaller k.")
    found = distinct(records)
    if len(found) > MOST_POINTS:
        raise InvalidInput(
            f"Prices are checked for up to {MOST_POINTS:,} distinct combinations of quasi-identifiers: check a part of "
            "the table on its own."
        )
    # No price of use is farther from 0, and sums of 2k of these are whole numbers of 64 bits.
    raw = np.full(len(found), 2 * k * GRAINS)
    np.minimum.at(raw, found.of, np.maximum(prices, -2 * k * GRAINS))
    # A class may lose a little less than it is counted with.
    raw += found.slack
    judged = valid_prices(found, raw, k, Effort(_STEPS, 0), progress=progress)
    lowered = judged.prices < raw
    return Verdict(
        claimed=bound_of((raw - found.slack)[found.of], records.floor),
        proven=bound_of((judged.prices - found.slack)[found.of], records.floor),
        valid=not lowered.any(),
        points=len(found),
        too_high=int(lowered.sum()),
        undecided=int((judged.cut[lowered] > 0).sum()),
    )
