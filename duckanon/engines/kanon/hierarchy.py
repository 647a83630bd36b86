"""Hierarchies: trees whose leaves are the values of an attribute, as tables with a column for each level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from duckanon.engines.kanon.records import Attribute, Codes, Floats
from duckanon.errors import InvalidInput

# What stands above the last level where that has several labels.
ROOT = "*"


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree over d leaves with levels of equal depth, the leaves themselves the first.

    nodes: int32, shape (levels, d): the node above each leaf on each level, numbered from 0 along the leaves. The last
    level is a root. names: of the leaves. meanings: the leaves below each label, from the first to before the last.
    """

    nodes: Codes
    names: Sequence[str] = ()
    meanings: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def leaves(self) -> int:
        return int(self.nodes.shape[1])

    def losses(self, level: int) -> Floats:
        """What a record loses whose leaf is replaced by its ancestor on a level, by leaf, shape (d,), from 0 to 1."""
        below = np.bincount(self.nodes[level])
        losses: Floats = (below[self.nodes[level]] - 1) / max(self.leaves - 1, 1)
        return losses

    @cached_property
    def joins(self) -> Floats:
        """What a class of two neighbouring leaves loses, shape (d - 1,): that of their lowest common ancestor."""
        joins = np.zeros(self.leaves - 1)
        for level in range(len(self.nodes) - 1, -1, -1):
            same = self.nodes[level, 1:] == self.nodes[level, :-1]
            joins[same] = self.losses(level)[1:][same]
        return joins

    def attribute(self, name: str, codes: Codes, weight: float) -> Attribute:
        """An attribute whose values are the leaves. codes: shape (n,), d for NULL."""
        places = np.append(0.0, np.cumsum(self.joins))
        levels = places / places[-1] if places[-1] else places
        return Attribute(name, codes, levels, self.leaves, float(self.leaves - 1), weight, joins=self.joins)


def suppressed(leaves: int) -> Hierarchy:
    """The hierarchy of values that are released as they are, or not at all."""
    return Hierarchy(np.stack([np.arange(leaves), np.zeros(leaves)]).astype(np.int32))


def hierarchy(name: str, rows: Sequence[Sequence[str | None]]) -> Hierarchy:
    """The hierarchy of a column from its table: a row for each leaf, its labels from the leaf upwards.

    rows: sorted by their labels from the last to the first, each once. A root is added where the last level has several
    labels. Raises InvalidInput if it is no tree, or if a label has two meanings.
    """
    if not rows or not rows[0]:
        raise InvalidInput(
            f'The hierarchy of "{name}" has no rows: give it a row for each value of the column, or leave it out if '
            "the column holds NULL alone."
        )
    if any(label is None for row in rows for label in row):
        raise InvalidInput(f'The hierarchy of "{name}" has a row without a label on some level: fill it in.')
    labels = np.array(rows, dtype=object).T
    starts = np.zeros((len(labels) + 1, len(rows)), np.bool_)
    starts[-1, 0] = True
    for level in range(len(labels) - 1, -1, -1):
        starts[level] = starts[level + 1]
        starts[level, 1:] |= labels[level, 1:] != labels[level, :-1]
        if starts[level].sum() != len(set(labels[level].tolist())):
            what = f"label on level {level} above the values" if level else "value"
            raise InvalidInput(
                f'The hierarchy of "{name}" is no tree: a {what} has two labels above it. Give each one label above '
                "it, on every level."
            )
    nodes = np.cumsum(starts, axis=1) - 1
    if nodes[-2, -1] == 0:
        nodes = nodes[:-1]
    else:
        labels = np.concatenate([labels, np.full((1, len(rows)), ROOT, dtype=object)])
    return Hierarchy(nodes.astype(np.int32), labels[0].tolist(), _meanings(name, labels, nodes))


def _meanings(
    name: str, labels: npt.NDArray[np.object_], nodes: npt.NDArray[np.int64]
) -> Mapping[str, tuple[int, int]]:
    """The leaves below each label. Raises InvalidInput if a label on several levels has others on each."""
    meant: dict[str, tuple[int, int]] = {}
    for level, numbers in enumerate(nodes):
        first = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
        for start, stop in zip(first.tolist(), [*first[1:].tolist(), len(numbers)], strict=True):
            if meant.setdefault(labels[level, start], (start, stop)) != (start, stop):
                raise InvalidInput(
                    f'The hierarchy of "{name}" has one label for different sets of values on two levels: rename one, '
                    "so that a released label says what it stands for."
                )
    return meant
