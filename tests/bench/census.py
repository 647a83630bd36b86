"""Synthetic census records with the attributes of Table 3 of Liang and Samavi 2020: cardinalities and ranges, seeded.

Values are drawn independently, each from a distribution drawn once; the real extract is not public in this form.
"""

from typing import Any

import numpy as np
import pyarrow as pa

# Name, number of distinct values, least and greatest value.
ATTRIBUTES = (
    ("gender", 2, 1, 2),
    ("age", 75, 16, 90),
    ("marital_status", 6, 1, 6),
    ("race", 7, 1, 7),
    ("birthplace", 83, 1, 426),
    ("education", 17, 4, 20),
    ("work_class", 7, 13, 29),
    ("occupation", 47, 4, 79),
)


def census(n: int, m: int = 8, seed: int = 1) -> pa.Table:
    """n records of the first m attributes, INTEGER columns."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, distinct, low, high in ATTRIBUTES[:m]:
        inner: Any = rng.choice(np.arange(low + 1, high), distinct - 2, replace=False) if distinct > 2 else []
        values = np.sort(np.concatenate(([low], inner, [high]))).astype(np.int32)
        columns[name] = rng.choice(values, n, p=rng.dirichlet(np.full(distinct, 2.0)))
    return pa.table(columns)
