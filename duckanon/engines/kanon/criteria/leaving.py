"""What a class loses less without one of its records."""

from duckanon.engines.compiled import compiled
from duckanon.engines.kanon.criteria.classes import ClassBoxes, absorb, empty, joined_loss
from duckanon.engines.kanon.records import Codes, Floats


@compiled
def fill_costs(boxes: ClassBoxes, starts: Codes, cost: Floats) -> float:
    """Fill in the costs; the loss of all classes, summed over records.

    boxes: those of the n records, class by class, and room for twice the largest class and two.
    """
    n = cost.shape[0]
    total = 0.0
    for c in range(starts.shape[0] - 1):
        size = starts[c + 1] - starts[c]
        # Box before + t covers the first t records of the class, box behind + t those from t on.
        before = n
        behind = n + size + 1
        empty(boxes, before)
        empty(boxes, behind + size)
        for t in range(size):
            empty(boxes, before + t + 1)
            absorb(boxes, before + t + 1, boxes, before + t)
            absorb(boxes, before + t + 1, boxes, starts[c] + t)
        for t in range(size - 1, -1, -1):
            empty(boxes, behind + t)
            absorb(boxes, behind + t, boxes, behind + t + 1)
            absorb(boxes, behind + t, boxes, starts[c] + t)
        whole = size * joined_loss(boxes, behind, behind)
        total += whole
        for t in range(size):
            cost[starts[c] + t] = whole - (size - 1) * joined_loss(boxes, before + t, behind + t + 1)
    return total
