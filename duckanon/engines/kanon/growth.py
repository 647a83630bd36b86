"""Boxes of a few records, for searches that go back and forth: codes are kept in a list, so a box is cheap to copy."""

from duckanon.engines.compiled import inner
from duckanon.engines.kanon.box import Box
from duckanon.engines.kanon.records import Codes, Space


@inner
def stretched(space: Space, box: Box, codes: Codes, count: int, i: int) -> float:
    """Loss of the box with point i in it. codes: (count, q), the codes of the points in the box."""
    loss = 0.0
    for j in range(box.low.shape[0]):
        v = space.points[i, j]
        loss += min(max(box.high[j], v) - min(box.low[j], v), space.caps[j])
    for j in range(box.distinct.shape[0]):
        code = space.symbols[i, j]
        known = False
        for t in range(count):
            if codes[t, j] == code:
                known = True
                break
        distinct = box.distinct[j] + (0 if known else 1)
        if distinct > 1 and (box.has_null[j] or code == space.nulls[j]):
            loss += space.whole[j]
        else:
            loss += (distinct - 1) * space.units[j]
    return loss


@inner
def put(space: Space, box: Box, codes: Codes, count: int, i: int) -> None:
    """Stretch the box over point i, the next of its `count` points."""
    for j in range(box.low.shape[0]):
        v = space.points[i, j]
        box.low[j] = min(box.low[j], v)
        box.high[j] = max(box.high[j], v)
    for j in range(box.distinct.shape[0]):
        code = space.symbols[i, j]
        known = False
        for t in range(count):
            if codes[t, j] == code:
                known = True
                break
        codes[count, j] = code
        if not known:
            box.distinct[j] += 1
            if code == space.nulls[j]:
                box.has_null[j] = True


@inner
def copy(to: Box, box: Box) -> None:
    to.low[:] = box.low
    to.high[:] = box.high
    to.distinct[:] = box.distinct
    to.has_null[:] = box.has_null
