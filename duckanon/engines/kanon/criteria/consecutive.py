"""The best partition of a fixed order into classes of consecutive records that meet privacy criteria.

The dynamic program of `kernels.consecutive`, whose classes may be longer: up to `longest`, as a class that meets l or t
cannot always be split into two that do. A class that fails has a price, as it is joined or dropped later: where the
values that it lacks are far away in the order, that is better than a long class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.criteria.diversity import Tally
from duckanon.engines.kanon.criteria.privacy_criteria import (
    CriteriaArrays,
    add,
    begin,
    counted_meet,
    forget,
    tally_for,
)
from duckanon.engines.kanon.kernels.consecutive import ENDS, Room, fill_losses, following, room_for
from duckanon.engines.kanon.records import Codes, Order, Space

# A class has at most so many times k records, or so many.
_TIMES, _LONG = 4, 128


def longest(k: int) -> int:
    """How many records a class has at most."""
    return max(_TIMES * k, _LONG)


@dataclass(frozen=True, eq=False)
class Conditions:
    """The criteria that classes of some records must meet.

    criteria: of units that are single records. numbers: shape (n,), which of them each record is. price: what a record
    of a class that fails loses at least.
    """

    criteria: CriteriaArrays
    numbers: Order
    price: float = 1.0

    def take(self, order: Order) -> Conditions:
        """Those of the same records in another order, or of some."""
        return replace(self, numbers=self.numbers[order])

    def best_sizes(self, space: Space, order: Order, k: int, grid: int) -> tuple[float, Codes]:
        """As `kernels.consecutive.Cut`: the least loss of a partition whose classes meet the criteria and have at most
        `longest` records, or pay the price.
        """
        room = room_for(len(order), -(-k // grid), -(-longest(k) // grid), grid)
        size, members = np.zeros(len(order) + 1, np.int32), self.numbers[order]
        ahead = following(space.symbols[order])
        _fill(space, order, ahead, k, grid, room, size, self.criteria, members, tally_for(self.criteria), self.price)
        return float(room.best[-1]), size


@compiled
def _fill(
    space: Space, order: Order, following: Codes, k: int, grid: int, room: Room, size: Codes, criteria: CriteriaArrays,
    members: Order, tally: Tally, price: float,
) -> None:  # fmt: skip
    """As `kernels.consecutive`. Only a class that would be the best so far is asked whether it meets the criteria: its
    records are counted from the end backwards, as far as that takes.
    """
    n, best = order.shape[0], room.best
    cells, most = best.shape[0] - 1, room.lines.shape[2] - ENDS
    fewest = most + 1 - room.losses.shape[0]
    best[0] = 0.0
    for first in range(fewest, cells + 1, ENDS):
        for e in range(fill_losses(space, order, following, first, room)):
            cell = first + e
            end = cell * grid if cell * grid < n else n
            counted = 0
            begin(tally)
            for window in range(fewest, (most if most < cell else cell) + 1):
                count = end - (cell - window) * grid
                loss = room.losses[window - fewest, e]
                total = best[cell - window] + count * loss
                if count < k or total >= best[cell]:
                    continue
                while counted < count:
                    counted += 1
                    add(criteria, members[end - counted], tally)
                if not counted_meet(criteria, count, tally):
                    total = best[cell - window] + count * (price if price > loss else loss)
                    if count > 2 * k + grid - 2 or total >= best[cell]:
                        continue
                best[cell] = total
                size[end] = count
            forget(criteria, tally)
