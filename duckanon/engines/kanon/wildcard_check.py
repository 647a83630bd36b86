"""Who may be whom by some perfect matching, where a suppressed value may stand for any. The search is other code.

A record *covers* a person if every value that it shows is the person's. A record may belong to a person in some perfect
matching exactly if it covers the person and both lie in one strongly connected component of the graph in which records
point to the persons whom they cover, and persons to their own records (Tassa 2012, theorem 4.3).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping

Values = tuple[bytes | None, ...]


def least_possible(kinds: Iterable[tuple[Values, Values, int]]) -> int:
    """The least number of persons that a record may belong to, or of records that may be a person's, by some perfect
    matching. kinds: a person's values, what the record of such a person shows, and how many there are.

    A record that shows too little or too much would break the matching: a value that is shown must be the person's.
    """
    rows = list(kinds)
    if any(b is not None and a != b for own, shown, _ in rows for a, b in zip(own, shown, strict=True)):
        return 0
    persons = Counter[Values]()
    records = Counter[Values]()
    covers = dict[Hashable, set[Hashable]]()
    for own, shown, count in rows:
        persons[own] += count
        records[shown] += count
        covers.setdefault(("person", own), set()).add(("record", shown))
    by_columns = defaultdict[tuple[int, ...], set[Values]](set)
    for shown in records:
        by_columns[tuple(i for i, value_shown in enumerate(shown) if value_shown is not None)].add(shown)
    width = len(rows[0][0])
    covered = defaultdict[Values, list[Values]](list)
    for columns, shown_here in by_columns.items():
        for own in persons:
            shown = tuple(own[i] if i in columns else None for i in range(width))
            if shown in shown_here:
                covered[shown].append(own)
    for shown, covered_persons in covered.items():
        covers["record", shown] = {("person", own) for own in covered_persons}
    component = _components(covers)
    possible = Counter[Values]()
    least = sum(persons.values())
    for shown, covered_persons in covered.items():
        near = [own for own in covered_persons if component["person", own] == component["record", shown]]
        least = min(least, sum(persons[own] for own in near))
        for own in near:
            possible[own] += records[shown]
    return min(least, min(possible[own] for own in persons))


def _components(graph: Mapping[Hashable, set[Hashable]]) -> dict[Hashable, Hashable]:
    """The strongly connected component of each node (Kosaraju and Sharir)."""
    back = defaultdict[Hashable, list[Hashable]](list)
    for tail, heads in graph.items():
        for head in heads:
            back[head].append(tail)
    order, visited = list[Hashable](), set[Hashable]()
    for root in graph:
        if root in visited:
            continue
        visited.add(root)
        stack = [(root, iter(graph[root]))]
        while stack:
            node, left = stack[-1]
            following = next((head for head in left if head not in visited), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                visited.add(following)
                stack.append((following, iter(graph[following])))
    component_of = dict[Hashable, Hashable]()
    for root in reversed(order):
        if root in component_of:
            continue
        component_of[root] = root
        waiting = [root]
        while waiting:
            for tail in back[waiting.pop()]:
                if tail not in component_of:
                    component_of[tail] = root
                    waiting.append(tail)
    return component_of
