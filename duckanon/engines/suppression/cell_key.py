"""The cell key method: counts change by chance, and the same records change in the same way in every table.

Each record has a key, a whole number below `KEYS`, drawn once. A cell's key is the sum of its records' keys modulo
`KEYS`: their fractional part, in units of 1 / KEYS. The cell's count and a hash of its key look up its change in a
perturbation table (ptable). So the same cell has the same answer however it is asked for. (Without the hash, the key of
a total would be the sum of its parts' keys, and readers could exclude counts whose changes do not add up so.)

Source: Fraser and Wooton 2005 (Australian Bureau of Statistics); Giessing 2016, Computational issues in the design of
transition probabilities and disclosure risk estimation for additive noise, for the ptable of maximum entropy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import md5

import numpy as np
import numpy.typing as npt

from duckanon.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Below 2^32, and a multiple of every number up to 16: thirds and sevenths are whole numbers of keys.
KEYS = 720720 * 4096
# Probabilities of a given ptable may be rounded that much.
_ROUNDED = 1e-4


@dataclass(frozen=True)
class PTable:
    """Probabilities of each change of a count, in units of 1 / KEYS.

    weights: shape (counts, 2 d + 1), for counts 0, 1, ...; the last row is for all larger counts too. Column j is for a
    change of j - d. Every row adds up to KEYS and has a mean change of exactly 0; no result is negative; 0 stays 0.
    """

    weights: Ints

    @staticmethod
    def of(probabilities: npt.ArrayLike, allowed: npt.ArrayLike | None = None) -> PTable:
        """The ptable with these probabilities, shape (counts, 2 d + 1), as near as whole numbers of keys allow.

        allowed: of the same shape, changes that may get a few keys; None: those with a probability.
        Raises InvalidInput if it is no ptable.
        """
        rows = np.asarray(probabilities, dtype=np.float64)
        if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] % 2 == 0 or not np.isfinite(rows).all():
            raise InvalidInput("A ptable has a row for each count from 0 on, and columns for changes from -d to d.")
        if (rows < 0).any() or (np.abs(rows.sum(axis=1) - 1) > _ROUNDED).any():
            raise InvalidInput(
                "The probabilities of a ptable add up to 1 for each count from 0 to its largest, and none is left out."
            )
        most = rows.shape[1] // 2
        changes = np.arange(-most, most + 1)
        results = np.arange(len(rows))[:, None] + changes
        if (rows[results < 0] > 0).any():
            raise InvalidInput("A ptable gives no negative results: counts below d cannot fall by d.")
        if rows[0, most] != rows[0].sum():
            raise InvalidInput("A ptable leaves empty cells empty: its first row is 1 for no change.")
        if (np.abs(rows @ changes) > _ROUNDED * max(1, most)).any():
            raise InvalidInput("A ptable is unbiased: the mean change of each row is 0.")
        if len(rows) <= most:
            raise InvalidInput("A ptable has a row for each count up to d at least: the last one is for larger counts.")
        may = rows > 0 if allowed is None else np.asarray(allowed, dtype=bool)
        return PTable(np.array([_whole(row, changes, own) for row, own in zip(rows, may, strict=True)]))

    @property
    def most(self) -> int:
        """The largest change."""
        return int(self.weights.shape[1]) // 2

    @property
    def variances(self) -> Floats:
        """Shape (counts,): the variance of each row's change."""
        changes = np.arange(-self.most, self.most + 1)
        variances: Floats = self.weights @ changes**2 / KEYS
        return variances

    @cached_property
    def _ends(self) -> Ints:
        """Shape (counts, 2 d + 1): the first key beyond each change's."""
        return np.cumsum(self.weights, axis=1)

    def perturbed(self, counts: Ints, keys: Ints) -> Ints:
        """Shape (cells,): the counts to publish. keys: cell keys, shape (cells,). Raises InvalidInput."""
        if counts.shape != keys.shape or (counts < 0).any() or (keys < 0).any() or (keys >= KEYS).any():
            raise InvalidInput("Each cell has a count that is not negative and a cell key: see cell_keys.")
        return self.changed(counts, hashed(keys))

    def changed(self, counts: Ints, keys: Ints) -> Ints:
        """As `perturbed`, by hashed keys."""
        row = np.minimum(counts, len(self.weights) - 1)
        perturbed: Ints = counts + (keys[:, None] >= self._ends[row]).sum(axis=1) - self.most
        return perturbed

    def possible(self, counts: Ints, perturbed: Ints) -> tuple[Ints, Ints]:
        """The ends, shape (cells,), of counts around each true one that the ptable turns into the perturbed one.

        Counts beyond a gap are left out: so the ends never say that more is possible than is.
        """
        pairs, of = np.unique(np.stack([counts, perturbed], axis=1), axis=0, return_inverse=True)
        ends = [[self._run(count, changed, step) for count, changed in pairs.tolist()] for step in (-1, 1)]
        low, high = np.array(ends, dtype=np.int64).reshape(2, -1)[:, of.reshape(-1)]
        return low, high

    def _run(self, count: int, changed: int, step: int) -> int:
        while self._gives(count + step, changed):
            count += step
        return count

    def _gives(self, count: int, changed: int) -> bool:
        """Whether a count may become a result."""
        if count < 0 or abs(changed - count) > self.most:
            return False
        return bool(self.weights[min(count, len(self.weights) - 1), changed - count + self.most] > 0)


def hashed(keys: Ints) -> Ints:
    """Shape (cells,): a number below KEYS for each cell key, by which its change is looked up: of the key's MD5 digest.

    As SQL: `md5_number_lower(key::VARCHAR) % KEYS`.
    """
    once, of = np.unique(keys, return_inverse=True)
    numbers = [
        int.from_bytes(md5(str(key).encode(), usedforsecurity=False).digest()[8:], "little") % KEYS
        for key in once.tolist()
    ]
    return np.array(numbers, dtype=np.int64)[of.reshape(-1)]


def cell_keys(record_keys: Ints, cell_of: Ints, cells: int) -> Ints:
    """Shape (cells,): the key of each cell. record_keys, cell_of: shape (records,). Raises InvalidInput.

    Sums are taken in whole numbers, so the order of records does not matter.
    """
    if record_keys.shape != cell_of.shape or record_keys.dtype.kind not in "iu":
        raise InvalidInput("Each record has a key, a whole number, and a cell.")
    if ((record_keys < 0) | (record_keys >= KEYS)).any() or ((cell_of < 0) | (cell_of >= cells)).any():
        raise InvalidInput(f"Record keys are whole numbers from 0 to {KEYS - 1}, and cells are numbered from 0 on.")
    sums = np.zeros(cells, dtype=np.int64)
    np.add.at(sums, cell_of, record_keys)
    return sums % KEYS


def maximum_entropy(most: int, variance: float, threshold: int = 0) -> PTable:
    """The ptable of largest entropy whose changes are at most `most`, unbiased, and of that variance.

    threshold: no result is from 1 to this. Where small counts leave no room for the variance, theirs is the nearest
    possible one. Raises InvalidInput if the variance is possible nowhere.
    """
    if not (1 <= most <= 1000 and 0 <= threshold <= most):
        raise InvalidInput("The largest change is from 1 to 1000, and the threshold is from 0 to that.")
    if not 0 < variance <= most**2:
        raise InvalidInput("The variance is above 0, and the square of the largest change at most.")
    changes = np.arange(-most, most + 1)
    counts = np.arange(most + threshold + 2)[:, None]
    results = counts + changes
    allowed = np.where(counts > 0, (results == 0) | (results > threshold), changes == 0)
    probabilities = np.zeros(results.shape)
    for row, may in zip(probabilities, allowed, strict=True):
        row[may] = _entropic(changes[may], variance)
    return PTable.of(probabilities, allowed)


def _entropic(changes: Ints, variance: float) -> Floats:
    """Probabilities of those changes with mean 0 and the nearest possible variance, of largest entropy."""
    below, above = changes[changes <= 0].max(), changes[changes >= 0].min()
    least, largest = -int(below) * int(above), -int(changes[0]) * int(changes[-1])
    if variance <= least or least == largest:
        return _two(changes, int(below), int(above))
    if variance >= largest:
        return _two(changes, int(changes[0]), int(changes[-1]))
    # p ~ exp(a d + b d^2): the minimum of the convex function log(sum(exp(a d + b (d^2 - variance)))).
    moments = np.array([changes, changes**2 - variance], dtype=np.float64)
    scale = np.abs(moments).max(axis=1)
    moments /= scale[:, None]
    at = np.zeros(2)
    for _ in range(200):
        p = _softmax(at @ moments)
        slope = moments @ p
        if np.abs(slope).max() < 1e-13:
            break
        curve = (moments * p) @ moments.T - np.outer(slope, slope)
        step = np.linalg.lstsq(curve, slope, rcond=None)[0]
        here, size = _log_sum(at @ moments), 1.0
        while size > 1e-9 and _log_sum((at - size * step) @ moments) > here - 1e-4 * size * float(slope @ step):
            size /= 2
        at = at - size * step
    return _softmax(at @ moments)


def _two(changes: Ints, low: int, high: int) -> Floats:
    """Mean 0 on two changes."""
    p = np.zeros(len(changes))
    p[changes == low] = high / (high - low) if high > low else 1.0
    p[changes == high] += -low / (high - low) if high > low else 0.0
    return p


def _log_sum(x: Floats) -> float:
    return float(x.max() + np.log(np.exp(x - x.max()).sum()))


def _softmax(x: Floats) -> Floats:
    p: Floats = np.exp(x - x.max())
    p /= p.sum()
    return p


def _whole(row: Floats, changes: Ints, allowed: npt.NDArray[np.bool_]) -> Ints:
    """Weights that add up to KEYS with a mean change of exactly 0, next to the probabilities. Raises InvalidInput."""
    weights: Ints = np.rint(row / row.sum() * KEYS).astype(np.int64)
    weights[np.argmax(weights)] += KEYS - weights.sum()
    off = int(weights @ changes)
    if off == 0:
        return weights
    # Moving `share` keys from one change to another moves the mean by their distance for each.
    likely = np.argsort(-weights, kind="stable")
    for i in likely.tolist():
        for j in likely.tolist():
            distance = int(changes[i] - changes[j])
            if distance and off % distance == 0 and allowed[j] and 0 <= off // distance <= weights[i]:
                weights[i] -= off // distance
                weights[j] += off // distance
                return weights
    raise InvalidInput(
        "A row of the ptable has no unbiased weights in whole numbers: change it, or its largest change."
    )
