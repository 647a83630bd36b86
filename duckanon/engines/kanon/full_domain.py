"""Full-domain generalisation: one level of its hierarchy for each whole column, and the least loss of all such choices.

The choices form a lattice: a node has a level for each attribute, and is finer than another if none of its levels is
higher. Where too many records of a node are in classes of fewer than k, that is so in every finer node, too: going up
only joins classes (LeFevre, DeWitt and Ramakrishnan 2005, Incognito). So a search tests few of the nodes. As Flash does
(Kohlmayer et al. 2012), it follows chains upwards, and halves them; but it takes the nodes by rising loss and stops
where all that is left loses more than the best, which then is the optimum, proven. Source of the problem: Samarati
2001.

The same holds of a class that fails a criterion on sensitive columns, if no record may be dropped: a class joined from
classes that meet it meets it too. Where records may be dropped, it holds of the number of different values alone: a
class that is joined from one that is as diverse as required and one that is not may fail entropy or closeness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.criteria.merging import failing
from duckanon.engines.kanon.criteria.privacy_criteria import PrivacyCriteria, criteria_arrays
from duckanon.engines.kanon.kernels.consecutive import Labels
from duckanon.engines.kanon.records import Codes, Floats
from duckanon.engines.kanon.risk import Sensitive
from duckanon.errors import InvalidInput

# Nodes that a search holds, with their losses and what is known of each.
MANY_NODES = 20_000_000

_UNKNOWN, _FAILS, _KNOWN = 0, 1, 2
# Losses that differ by less are equal.
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of one attribute of n records, the finest first.

    codes: of the records' values, shape (n,). nodes: what stands for each code on each level, int64, shape (levels, d).
    losses: what a record with each code loses on each level, from 0 to 1, rising with the level; shape (levels, d).
    weight: of the attribute; those of all sum to 1.
    """

    codes: Codes
    nodes: npt.NDArray[np.int64]
    losses: Floats
    weight: float


@dataclass(frozen=True, eq=False)
class FullDomain:
    """The best node.

    levels: of each attribute. labels: the class of each record, shape (n,), -1 where it is dropped. loss: mean over all
    records; one that is dropped loses 1. nodes, tested: how many there are, and how many were tested.
    """

    levels: tuple[int, ...]
    labels: Labels
    loss: float
    nodes: int
    tested: int


def full_domain(
    attributes: Sequence[Levels],
    k: int,
    suppress: int = 0,
    progress: Callable[[float], None] = lambda _: None,
    subjects: Codes | None = None,
    sensitive: tuple[Sequence[Sensitive], PrivacyCriteria] | None = None,
) -> FullDomain:
    """The node of least loss in which all records but at most `suppress` are in classes of k or more.

    subjects: whose each record is, shape (n,), from 0, -1 for nobody's; k counts them instead of records. sensitive:
    columns of which the classes must meet criteria too, whose k and suppress are these; where records may be dropped,
    or subjects count, the number of different values alone. Of several
    nodes the first one by levels. Raises InvalidInput if there is none, or if there are too many nodes.
    """
    if sensitive is not None:
        check_criteria(sensitive[1], suppress, of_subjects=subjects is not None)
    shape = tuple(len(a.nodes) for a in attributes)
    if np.prod(shape, dtype=np.float64) > MANY_NODES:
        raise InvalidInput(
            f"The hierarchies have more than {MANY_NODES:,} combinations of levels: leave out some levels, or some "
            "quasi-identifiers."
        )
    return _Search(attributes, k, suppress, shape, subjects, sensitive).run(progress)


def check_criteria(criteria: PrivacyCriteria, suppress: int | Fraction, *, of_subjects: bool) -> None:
    """Raise InvalidInput for criteria that a coarser node may fail although a finer one meets them."""
    if (suppress or of_subjects) and (criteria.t is not None or criteria.diversity != "distinct"):
        raise InvalidInput(
            "Method 'global' with max_suppression or unit takes l by the number of distinct values alone: leave t and "
            "diversity out, or max_suppression and unit."
        )


class _Search:
    """What is known of the lattice while it is searched."""

    def __init__(
        self,
        attributes: Sequence[Levels],
        k: int,
        suppress: int,
        shape: tuple[int, ...],
        subjects: Codes | None,
        sensitive: tuple[Sequence[Sensitive], PrivacyCriteria] | None,
    ) -> None:
        self.sensitive, self.subjects = sensitive, subjects
        self.k, self.suppress, self.shape = k, suppress, shape
        self.attributes, self.n = attributes, len(attributes[0].codes)
        self.state = np.zeros(shape, np.int8)
        # What each node loses if no record is dropped; a dropped one loses no less.
        self.bound = np.zeros(shape)
        for j, a in enumerate(attributes):
            counts = np.bincount(a.codes, minlength=a.nodes.shape[1])
            lost = a.weight * (a.losses @ counts) / self.n
            self.bound += lost.reshape([-1 if axis == j else 1 for axis in range(len(shape))])
        # Records with equal values once.
        self.points, self.point, self.copies = _distinct([a.codes for a in attributes])
        self.has = None if subjects is None else _subjects_of(self.point, subjects)
        self.best, self.loss, self.tested = tuple[int, ...](), np.inf, 0

    def run(self, progress: Callable[[float], None]) -> FullDomain:
        order = np.argsort(self.bound, axis=None, kind="stable")
        state = self.state.reshape(-1)
        for done, node in enumerate(order):
            if self.bound.reshape(-1)[node] >= self.loss - _NOTHING:
                break
            if state[node] == _UNKNOWN:
                self._halve(self._chain(tuple(int(level) for level in np.unravel_index(node, self.shape))))
                progress(done / len(order))
        if not self.best:
            raise InvalidInput(
                "Even on the highest level of every hierarchy there are classes of fewer than k records, or that fail "
                "l or t: choose a smaller k, or allow for more records to be dropped, as in max_suppression := 0.02."
            )
        progress(1.0)
        return self._best_node()

    def _chain(self, node: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Nodes that are not known yet, each coarser than the one before, always by the level that adds least."""
        chain = [node]
        while True:
            above = [
                (float(self.bound[higher]), higher)
                for j, level in enumerate(node)
                if level + 1 < self.shape[j]
                for higher in [(*node[:j], level + 1, *node[j + 1 :])]
                if self.state[higher] == _UNKNOWN and self.bound[higher] < self.loss - _NOTHING
            ]
            if not above:
                return chain
            node = min(above)[1]
            chain.append(node)

    def _halve(self, chain: Sequence[tuple[int, ...]]) -> None:
        """Test nodes of a chain until the first is known, with the one from which on they succeed."""
        low, high = 0, len(chain) - 1
        while low <= high:
            middle = (low + high) // 2
            node = chain[middle]
            if self._fails(node):
                self.state[tuple(slice(0, level + 1) for level in node)] = _FAILS
                low = middle + 1
            else:
                high = middle - 1

    def _classes(
        self, node: tuple[int, ...]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The class of each distinct point in a node, the records of each class, and whether it fails."""
        shown = [a.nodes[level][codes] for a, level, codes in zip(self.attributes, node, self.points, strict=True)]
        _, classes = np.unique(_packed(shown), return_inverse=True)
        classes = classes.ravel()
        size = np.bincount(classes, weights=self.copies).astype(np.int64)
        if self.sensitive is not None:
            columns, criteria = self.sensitive
            unit = classes[self.point].astype(np.int32)
            return classes, size, failing(criteria_arrays(unit, columns, criteria, self.subjects), size)
        if self.has is None:
            return classes, size, size < self.k
        point, subject = self.has
        subject_count = int(subject.max(initial=0)) + 1
        class_of_pair = np.unique(classes[point] * subject_count + subject) // subject_count
        return classes, size, np.bincount(class_of_pair, minlength=len(size)) < self.k

    def _fails(self, node: tuple[int, ...]) -> bool:
        """Test a node: whether too many of its records are in small classes. Keeps it if it is the best."""
        self.tested += 1
        classes, size, small = self._classes(node)
        dropped = int(size[small].sum())
        if dropped > self.suppress or dropped == self.n:
            return True
        self.state[node] = _KNOWN
        loss = float(self.bound[node])
        if dropped:
            gone = self.copies * small[classes]
            for a, level, codes in zip(self.attributes, node, self.points, strict=True):
                loss += a.weight * float(gone @ (1.0 - a.losses[level][codes])) / self.n
        if loss < self.loss - _NOTHING:
            self.best, self.loss = node, loss
        return False

    def _best_node(self) -> FullDomain:
        classes, _, small = self._classes(self.best)
        kept = ~small
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        return FullDomain(self.best, number[classes][self.point], self.loss, self.state.size, self.tested)


def _packed(columns: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """A number for each row that is equal for equal rows only. columns: of numbers from 0, shape (rows,) each."""
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        distinct = int(column.max()) + 1
        if span * distinct >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            key, span = key.ravel().astype(np.int64), int(key.max()) + 1
        key, span = key * distinct + column, span * distinct
    return key


def _subjects_of(point: npt.NDArray[np.intp], subjects: Codes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The pairs of a point and a subject that has a record there, each once."""
    known, subject_count = subjects >= 0, int(subjects.max()) + 1
    return np.divmod(np.unique(point[known].astype(np.int64) * subject_count + subjects[known]), max(subject_count, 1))


def _distinct(
    columns: Sequence[Codes],
) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """The distinct rows, column by column; the number of each row's; and how often each occurs."""
    wide = [column.astype(np.int64) for column in columns]
    _, first, point, copies = np.unique(_packed(wide), return_index=True, return_inverse=True, return_counts=True)
    return [column[first] for column in wide], point.ravel(), copies
