"""Tables that contradict each other, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from duckanon.engines.tables.cells import Ints, group
from duckanon.engines.tables.model import build
from duckanon.engines.tables.part import part_around
from duckanon.engines.tables.released import UNBOUNDED, Counts, Released, Releases
from duckanon.engines.tables.search import NoSolutionError, Search
from duckanon.errors import InvalidInput

# Seconds for each check of a part of the tables.
_SECONDS = 5.0


def check_consistency(releases: Releases) -> None:
    """Raises InvalidInput if two tables of counts differ in the counts of the variables that they share, or a table of
    shares cannot have the counts of another table.

    Also if they contradict n, or nothing tells the number of records.
    """
    tables = [table for table in releases.tables if isinstance(table.content, Counts) and table.complete]
    for first, second in combinations(tables, 2):
        shared = sorted(set(first.scope) & set(second.scope))
        if _differ(first, second, shared):
            raise _sentence([first, second])
    releases.total()
    for shares in releases.tables:
        if not isinstance(shares.content, Counts):
            for other in tables:
                two = tuple(table for table in releases.tables if table is shares or table is other)
                linked = set(shares.scope) & set(other.scope)
                if linked and _contradictory(replace(releases, tables=two), shares.scope):
                    raise _sentence(two)


def _differ(first: Released, second: Released, shared: Sequence[int]) -> bool:
    sides = [table.codes[:, [table.scope.index(v) for v in shared]] for table in (first, second)]
    of, groups = group(np.vstack(sides))
    cut = len(sides[0])
    a, b = _sums(first, of[:cut], groups), _sums(second, of[cut:], groups)
    return bool((a[0] > b[1]).any() or (b[0] > a[1]).any())


def _sums(table: Released, of: Ints, groups: int) -> tuple[Ints, Ints]:
    assert isinstance(table.content, Counts)
    lower, upper = np.zeros(groups, dtype=np.int64), np.zeros(groups, dtype=np.int64)
    free = table.content.upper == UNBOUNDED
    np.add.at(lower, of, table.content.lower)
    np.add.at(upper, of, np.where(free, 0, table.content.upper))
    upper[of[free]] = UNBOUNDED
    return lower, upper


def contradiction(releases: Releases, target: Sequence[int]) -> InvalidInput:
    """The error that names the fewest tables found that no records can have together.

    They are what a deletion filter leaves: each table is left out for good if the others still contradict each other.
    """
    left = list(releases.tables)
    for table in releases.tables:
        others = [kept for kept in left if kept is not table]
        if others and _contradictory(replace(releases, tables=tuple(others)), target):
            left = others
    return _sentence(left)


def _contradictory(releases: Releases, target: Sequence[int]) -> bool:
    covered = {v for table in releases.tables for v in table.scope}
    inside = [v for v in target if v in covered] or sorted(covered)[:1]
    try:
        model = build(releases, part_around(releases, frozenset(inside)), inside, None)
        Search(model.system, _SECONDS).run(np.unique(model.column[model.column >= 0])[:1])
    except NoSolutionError:
        return True
    except InvalidInput:
        # Without this table the number of records is unknown: it is needed.
        return False
    return False


def _sentence(tables: Sequence[Released]) -> InvalidInput:
    names = [f"'{table.name}'" for table in tables]
    if len(names) == 1:
        return InvalidInput(
            f"The table {names[0]} contradicts itself or the number of records: no records have it. Correct it, its "
            "digits or base, or n."
        )
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return InvalidInput(
        f"The tables {listed} contradict each other: no records have them all. Correct or leave out one of them."
    )
