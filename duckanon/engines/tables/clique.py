"""The cells of a clique that may hold a record, as far as the released tables tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from duckanon.engines.tables.cells import Ints, group, keys, pair_count, pairs, places, product
from duckanon.engines.tables.released import Counts, Released
from duckanon.errors import InvalidInput

# The most cells of a clique: a program with more columns takes minutes an optimum, and gigabytes.
MOST_CELLS = 3_000_000


class TooLargeError(InvalidInput):
    """A target whose clique has more cells than a program can take."""


@dataclass(frozen=True, eq=False)
class Clique:
    """variables: ascending. codes: int64 of shape (cells, variables)."""

    variables: tuple[int, ...]
    codes: Ints

    def __len__(self) -> int:
        return len(self.codes)

    def on(self, variables: Iterable[int]) -> Ints:
        """The levels of some of its variables."""
        return self.codes[:, [self.variables.index(v) for v in variables]]


def clique_cells(variables: Iterable[int], levels: Sequence[int], tables: Sequence[Released]) -> Clique:
    """All cells of a clique that no released zero forbids.

    Raises InvalidInput if there are more than MOST_CELLS.
    """
    clique = tuple(sorted(variables))
    joined = np.zeros((1, 0), dtype=np.int64)
    have: tuple[int, ...] = ()
    for scope, cells in _supports(clique, tables):
        joined, have = _join(joined, have, cells, scope, levels)
    rest = [v for v in clique if v not in have]
    _check_size(float(len(joined)) * float(np.prod([float(levels[v]) for v in rest])))
    others = product([levels[v] for v in rest])
    joined = np.hstack([np.repeat(joined, len(others), axis=0), np.tile(others, (len(joined), 1))])
    codes = joined[:, [(*have, *rest).index(v) for v in clique]]
    return Clique(clique, _without_zeros(clique, codes, levels, tables))


def _supports(clique: tuple[int, ...], tables: Sequence[Released]) -> list[tuple[tuple[int, ...], Ints]]:
    """What complete tables leave possible of combinations of the clique's variables, widest scopes first."""
    supports: dict[tuple[int, ...], Ints] = {}
    for table in tables:
        scope = tuple(v for v in clique if v in table.scope)
        if not table.complete or not scope:
            continue
        columns = [table.scope.index(v) for v in scope]
        cells = np.unique(table.codes[table.content.possible][:, columns], axis=0)
        supports[scope] = _common(supports[scope], cells) if scope in supports else cells
    return sorted(supports.items(), key=lambda support: (-len(support[0]), support[0]))


def _common(first: Ints, second: Ints) -> Ints:
    numbers, _ = group(np.vstack([first, second]))
    return first[np.isin(numbers[: len(first)], numbers[len(first) :])]


def _join(
    left: Ints, have: tuple[int, ...], right: Ints, scope: tuple[int, ...], levels: Sequence[int]
) -> tuple[Ints, tuple[int, ...]]:
    shared = [v for v in scope if v in have]
    sizes = [levels[v] for v in shared]
    here = keys(left[:, [have.index(v) for v in shared]], sizes)
    there = keys(right[:, [scope.index(v) for v in shared]], sizes)
    _check_size(pair_count(here, there))
    at, of = pairs(here, there)
    new = [v for v in scope if v not in have]
    return np.hstack([left[at], right[of][:, [scope.index(v) for v in new]]]), (*have, *new)


def _check_size(cells: float) -> None:
    if cells > MOST_CELLS:
        raise TooLargeError(
            f"The cross-classification that ties these tables and the target together has more than {MOST_CELLS:,} "
            "cells: choose a target of fewer variables, or bound fewer tables at once."
        )


def _without_zeros(clique: tuple[int, ...], codes: Ints, levels: Sequence[int], tables: Sequence[Released]) -> Ints:
    """The cells without those that an incomplete table lists as zero."""
    for table in tables:
        if table.complete or not isinstance(table.content, Counts) or not set(table.scope) <= set(clique):
            continue
        sizes = [levels[v] for v in table.scope]
        zero = keys(table.codes[~table.content.possible], sizes)
        codes = codes[places(keys(codes[:, [clique.index(v) for v in table.scope]], sizes), zero) < 0]
    return codes
