"""k_anonymize(..., method := 'global'): one level of its hierarchy, or bands, for each whole column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from duckanon.catalog.names import identifier
from duckanon.functions.bands import Bands
from duckanon.functions.collection import COLLECTIONS, Collection
from duckanon.functions.generalisation import place
from duckanon.functions.hierarchies import Labels
from duckanon.functions.k_cells import Cell, lowest
from duckanon.functions.privacy_criteria import Criteria
from duckanon.functions.udf import Instance, Progress

if TYPE_CHECKING:
    from duckanon.engines.kanon.full_domain import Levels
    from duckanon.engines.kanon.records import Attribute

# The level on which values and NULL are one, which shows nothing.
_NOTHING = -1


@dataclass(frozen=True)
class LevelCell(Cell):
    """The label of a column's values on the level that was chosen for it.

    how: its bands or its hierarchy. number: of the column, from 1.
    """

    how: Bands | Labels
    number: int

    @property
    def names(self) -> Sequence[str]:
        return [f"{self.how.name}_label"]

    @property
    def shown(self) -> Sequence[str]:
        own = identifier(self.names[0])
        labels = self.how.above_end("low") if isinstance(self.how, Labels) else f'"duckanon.cell".{own}'
        return [f"{self._label(labels)} AS {own}"]

    @property
    def joins(self) -> str:
        own = f'"duckanon.cell".{identifier(self.names[0])}'
        return self.how.join_of("low", own) if isinstance(self.how, Labels) else ""

    def aggregate(self) -> str:
        # All records of a class have the same label, so any place does that is not NULL for some of them only.
        return f"{lowest(place(self.how.name))} AS {identifier(self.names[0])}"

    def holds(self) -> str:
        own = self.how.above if isinstance(self.how, Labels) else place(self.how.name)
        return f"{self._label(own)} IS NOT DISTINCT FROM _dk_classes.{identifier(self.names[0])}"

    def _label(self, own: str) -> str:
        """SQL: the label of a value by the labels above it, or by the number of its band."""
        level = f"(SELECT levels[{self.number}] FROM _dk_answered)"
        if isinstance(self.how, Labels):
            return f"CASE WHEN {level} >= 0 THEN {own}[{level} + 1] END"
        labels = [self.how.label(own, width) for width in self.how.levels]
        labels.append(f"CASE WHEN {own} IS NOT NULL THEN '*' END")
        return f"CASE {level} {' '.join(f'WHEN {at} THEN {label}' for at, label in enumerate(labels))} END"


def register_levels(on: Instance) -> None:
    """Register `_dk_levels(handle)`: the level of each column that `choose` has chosen."""

    def levels(handles: pa.ChunkedArray) -> pa.Array:
        return pa.array([COLLECTIONS[handle.as_py()].levels for handle in handles], pa.list_(pa.int32()))

    on.create("_dk_levels", levels, "INTEGER[]", side_effects=True)


def choose(
    rows: Collection,
    how: Sequence[Bands | Labels],
    attributes: Sequence[Attribute],
    k: int,
    criteria: Criteria,
    progress: Progress,
) -> tuple[list[int], np.ndarray]:
    """The best level of each column, and the class of each row, -1 where it is dropped. attributes: of all rows.

    how: the bands or the hierarchy of each column.
    """
    from duckanon.engines.kanon.full_domain import full_domain

    column_levels = [_levels(rows, generalised, a) for generalised, a in zip(how, attributes, strict=True)]
    suppress = int(criteria.max_suppression * len(attributes[0].codes))
    subjects = None if criteria.unit is None else rows.units(criteria.unit)
    sensitive = None
    if criteria.sensitive:
        columns = rows.sensitive(criteria.sensitive, 1, null_is_value=criteria.null_is_value)
        sensitive = columns, criteria.engine_criteria(k)
    best = full_domain(column_levels, k, suppress, partial(progress, f"k_anonymize, k = {k}"), subjects, sensitive)
    last = [
        len(levels.nodes) - 1 if (a.codes == a.distinct).any() else None
        for levels, a in zip(column_levels, attributes, strict=True)
    ]
    levels = [_NOTHING if level == most else level for level, most in zip(best.levels, last, strict=True)]
    return levels, best.labels


def _levels(rows: Collection, how: Bands | Labels, a: Attribute) -> Levels:
    """The levels of one column. NULL is a value of its own on all, but for one more where everything is NULL."""
    from duckanon.engines.kanon.full_domain import Levels

    if isinstance(how, Bands):
        numbers, null = rows.places(how.name)
        nodes, losses = _levels_of_bands(np.unique(numbers[~null]), a.floor, how.levels)
    else:
        tree = rows.hierarchies[how.name]
        nodes = [np.append(level, level[-1] + 1) for level in tree.nodes]
        losses = [np.append(tree.losses(level), 0.0) for level in range(len(tree.nodes))]
    if (a.codes == a.distinct).any():
        nodes.append(np.zeros(a.distinct + 1, np.int64))
        losses.append(np.ones(a.distinct + 1))
    return Levels(a.codes, np.stack(nodes).astype(np.int64), np.stack(losses), a.weight)


def _levels_of_bands(
    numbers: np.ndarray, floor: float, levels: Sequence[int]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The node of each band on each level, NULL the last one, and what a record loses there; '*' is the last level.

    numbers: of the bands that occur, ascending. A record loses the share of all bands, from the first to the last that
    occurs, that its own covers: floor for one.
    """
    nodes, losses = [], []
    for width in levels:
        groups = numbers // width
        first = np.maximum(groups * width, numbers[:1])
        last = np.minimum(groups * width + width - 1, numbers[-1:])
        codes = np.unique(groups, return_inverse=True)[1].ravel()
        nodes.append(np.append(codes, codes[-1:] + 1 if len(codes) else [0]))
        losses.append(np.append((last - first + 1) * floor, floor))
    nodes.append(np.append(np.zeros(len(numbers), np.int64), 1))
    losses.append(np.append(np.ones(len(numbers)), floor))
    return nodes, losses
