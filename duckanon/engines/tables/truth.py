"""The records behind released tables, for those who have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from duckanon.engines.tables.cells import Bools, Ints, keys, places
from duckanon.engines.tables.released import Counts, ExactShares, Released, RoundedShares
from duckanon.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Records:
    """Records by combination of levels.

    levels: of each variable. codes: int64 of shape (cells, variables), different rows. counts: shape (cells,).
    """

    levels: tuple[int, ...]
    codes: Ints
    counts: Ints

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def margin(self, variables: Sequence[int]) -> tuple[Ints, Ints]:
        """The cells of fewer variables that hold a record, in the order of their levels, and their counts."""
        codes = self.codes[:, list(variables)]
        key = keys(codes, [self.levels[v] for v in variables])
        _, first, of = np.unique(key, return_index=True, return_inverse=True)
        sums = np.zeros(len(first), dtype=np.int64)
        np.add.at(sums, of.reshape(-1), self.counts)
        return codes[first], sums


def records(levels: Sequence[int], codes: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> Records:
    """Records from codes of shape (rows, variables), and how often each row occurs; once without `counts`.

    Raises InvalidInput for levels outside those given, negative counts, and for no record at all.
    """
    listed = np.asarray(codes, dtype=np.int64).reshape(-1, len(levels))
    multiplicity = np.ones(len(listed), dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    if (listed < 0).any() or (listed >= np.array(levels)).any():
        raise InvalidInput("A record has a level outside the levels given.")
    if (multiplicity < 0).any() or not multiplicity.sum():
        raise InvalidInput("There must be records, and no count below zero.")
    cells, of = np.unique(listed[multiplicity > 0], axis=0, return_inverse=True)
    sums = np.zeros(len(cells), dtype=np.int64)
    np.add.at(sums, of.reshape(-1), multiplicity[multiplicity > 0])
    return Records(tuple(levels), cells, sums)


def agrees(table: Released, truth: Records) -> bool:
    """Whether a released table is true for these records."""
    sizes = [truth.levels[v] for v in table.scope]
    cells, counts = truth.margin(table.scope)
    at = places(keys(cells, sizes), keys(table.codes, sizes))
    if table.complete and (at < 0).any():
        return False
    true_counts = np.zeros(len(table.codes), dtype=np.int64)
    true_counts[at[at >= 0]] = counts[at >= 0]
    if table.shown and not true_counts.all():
        return False
    if isinstance(table.content, Counts):
        return bool(((table.content.lower <= true_counts) & (true_counts <= table.content.upper)).all())
    given_levels = [truth.levels[v] for v in table.given]
    rows, of_row = truth.margin(table.given)
    at = places(keys(table.codes[:, : len(table.given)], given_levels), keys(rows, given_levels))
    if (at < 0).any():
        return False
    return bool(_right(table.content, true_counts, of_row[at]).all())


def _right(content: ExactShares | RoundedShares, counts: Ints, row: Ints) -> Bools:
    """Whether each share is that of so many records among those of its row."""
    if isinstance(content, ExactShares):
        same = counts * content.whole[content.row] == content.reduced * row
        return np.asarray(same | (content.reduced < 0))
    q = content.published
    away = 2 * content.scale * counts - 2 * q * row
    half = np.where(content.ties in (1, 4), q >= 0, (content.ties == 2) & (q % 2 == 1))
    high = np.where(half, away < row, away <= row)
    strict = (content.ties >= 3) | ((content.ties == 2) & (q % 2 == 1))
    low = np.where(strict, away > -row, away >= -row)
    return np.asarray((high & low) | (q < 0))
