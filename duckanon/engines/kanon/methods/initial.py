"""The initial feasible solution (section 2.3): the variance order cut into runs of k records."""

import numpy as np

from duckanon.engines.kanon.kernels.consecutive import Labels


def initial(n: int, k: int) -> Labels:
    """Labels of n records in variance order: runs of k, the n mod k last records in the last run. Shape (n,)."""
    return np.minimum(np.arange(n) // k, n // k - 1).astype(np.int32)
