"""Which person a released record may belong to, where a suppressed value may stand for any.

A reader knows the values of all n persons, and has n released records, one of each. A record *covers* a person if every
value that it shows is the person's. The reader looks for all ways to give each person one record that covers them: the
perfect matchings. One is known to exist, each person's own record. Hence record i may belong to person j in some
perfect matching exactly if i covers j and both lie in one strongly connected component of the graph in which i has an
edge to every person whom it covers (Tassa 2012, theorem 4.3: the edges that lie in a perfect matching are those of one
and those on alternating cycles).

Equal persons cover each other, so they lie in one component, and the graph has a node for each *group* of them. Records
that show the same values in the same columns cover the same persons: they share a *hub*, a node between them and these.
So there are at most groups x patterns edges, where a *pattern* is a set of columns that are suppressed.

Gionis, Mazza and Tassa 2008 call a release in which every person has k such records globally (1, k)-anonymous. Here
every record has k such persons besides. Sources: A. Gionis, A. Mazza, T. Tassa, k-Anonymization revisited, ICDE 2008;
T. Tassa, Finding all maximally-matchable edges in a bipartite graph, Theoretical Computer Science 423, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from duckanon.cancellation import check

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """Persons by their values. values: shape (groups, columns), numbers. sizes: how many persons, shape (groups,).

    missing: for each group the columns that have no value at all, as bits: no record of theirs shows them.
    """

    values: Ints
    sizes: Ints
    missing: Ints
    _cells: dict[int, Ints] = field(default_factory=dict, repr=False, compare=False)
    _sorted: dict[int, tuple[Ints, Ints]] = field(default_factory=dict, repr=False, compare=False)

    def cells(self, pattern: int) -> Ints:
        """A number for each group: equal for groups that agree in all columns that the pattern shows, from 0."""
        if pattern not in self._cells:
            shown = [column for column in range(self.values.shape[1]) if not pattern >> column & 1]
            self._cells[pattern] = numbered(self.values[:, shown])
        return self._cells[pattern]

    def members(self, pattern: int, cell: int) -> list[int]:
        """The groups of a cell, in their order."""
        if pattern not in self._sorted:
            cells = self.cells(pattern)
            self._sorted[pattern] = np.argsort(cells, kind="stable"), np.append(0, np.cumsum(np.bincount(cells)))
        order, starts = self._sorted[pattern]
        groups: list[int] = order[starts[cell] : starts[cell + 1]].tolist()
        return groups


@dataclass(frozen=True)
class Kinds:
    """Records by what they show, each kind a group and a pattern, both of shape (kinds,). counts: how many records."""

    groups: Ints
    patterns: Ints
    counts: Ints


@dataclass(frozen=True)
class Matches:
    """persons: for each kind of record, how many persons it may belong to. records: for each group of persons, how many
    records may be that of each of them.
    """

    persons: Ints
    records: Ints

    @property
    def least(self) -> int:
        """The k of the release."""
        return int(min(self.persons.min(), self.records.min()))


def numbered(values: Ints) -> Ints:
    """A number from 0 for each row, equal for equal rows. values: shape (rows, columns)."""
    numbers = np.zeros(len(values), np.int64)
    for column in values.T:
        numbers = np.unique(numbers * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1].ravel()
    return numbers


def possible(groups: Groups, kinds: Kinds) -> Matches:
    """What some perfect matching allows. Every record must have its own group's values, so that a matching exists."""
    return _matches(groups, kinds, by_matching=True)


def contained(groups: Groups, kinds: Kinds) -> Matches:
    """What single records and persons allow: by whom each is covered, whether or not the others can be matched too."""
    return _matches(groups, kinds, by_matching=False)


def _matches(groups: Groups, kinds: Kinds, *, by_matching: bool) -> Matches:
    hub_of = np.empty(len(kinds.groups), np.int64)
    hubs, tails, heads = 0, list[Ints](), list[Ints]()
    for pattern in np.unique(kinds.patterns):
        check()
        cells = groups.cells(int(pattern))
        here = np.flatnonzero(kinds.patterns == pattern)
        number = np.full(int(cells.max()) + 1, -1)
        used = np.unique(cells[kinds.groups[here]])
        number[used] = hubs + np.arange(len(used))
        hub_of[here] = number[cells[kinds.groups[here]]]
        covered = np.flatnonzero(number[cells] >= 0)
        tails.append(number[cells[covered]])
        heads.append(covered)
        hubs += len(used)
    hub, group = np.concatenate(tails), np.concatenate(heads)
    if by_matching:
        component = _components(kinds.groups, hub_of, hub, group, len(groups.sizes), hubs)
        kept = component[len(groups.sizes) + hub] == component[group]
        hub, group = hub[kept], group[kept]
    persons = np.bincount(hub, groups.sizes[group], hubs).astype(np.int64)
    records = np.bincount(hub_of, kinds.counts, hubs)
    return Matches(persons[hub_of], np.bincount(group, records[hub], len(groups.sizes)).astype(np.int64))


def _components(own: Ints, hub_of: Ints, hub: Ints, group: Ints, groups: int, hubs: int) -> Ints:
    """The strongly connected component of each group, and then of each hub."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    tails, heads = np.concatenate([own, groups + hub]), np.concatenate([groups + hub_of, group])
    nodes = groups + hubs
    graph = coo_array((np.ones(len(tails), np.int32), (tails, heads)), shape=(nodes, nodes)).tocsr()
    components: Ints = connected_components(graph, directed=True, connection="strong")[1].astype(np.int64)
    return components
