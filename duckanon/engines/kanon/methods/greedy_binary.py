"""Categories as vectors of binary attributes (Liang and Samavi 2020, section 2.5 and Algorithm 2, line 3)."""

from dataclasses import replace

import numpy as np

from duckanon.engines.kanon.records import Attribute, Records
from duckanon.errors import InvalidInput

# Numbers that the decomposed table may have: 1 GiB.
_MOST = 2**27


def decomposed(records: Records) -> Records:
    """The same records with every categorical attribute of d values split into d binary ones of weight w / d.

    A class of c values, c > 1, then loses w c / d of the attribute, where it loses w (c - 1) / (d - 1) of the whole
    one. NULL is NULL in every part. Raises InvalidInput if the table would be too large.
    """
    width = sum(max(a.distinct, 1) if a.categorical else 1 for a in records.attributes)
    if width * len(records) > _MOST:
        raise InvalidInput("The categories have too many values to be split into columns: use method 'greedy'.")
    parts: list[Attribute] = []
    for a in records.attributes:
        if not a.categorical or a.distinct < 2:
            parts.append(a)
            continue
        for code in range(a.distinct):
            codes = np.where(a.codes == a.distinct, 2, a.codes == code).astype(np.int32)
            levels = np.array([0.0, 1.0])
            part = replace(a, codes=codes, levels=levels, distinct=2, span=1.0, weight=a.weight / a.distinct)
            parts.append(part)
    return Records(tuple(parts))
