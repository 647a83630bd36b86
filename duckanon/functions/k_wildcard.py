"""k_anonymize(..., suppress_cells := 'wildcard'): the engine's call, and the check of what it made.

A label stands for a set of equal records and a pattern: the columns that they lose, as bits. The check shares nothing
with the engine: it takes the records' values and what is released of them, as text, and finds who may be whom anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckanon.catalog.names import identifier
from duckanon.functions.sqltext import ROW, as_bytes
from duckanon.functions.udf import Instance

if TYPE_CHECKING:
    from duckanon.engines.kanon.kernels.consecutive import Labels
    from duckanon.engines.kanon.records import Records
    from duckanon.engines.kanon.ties import Hashes

# Patterns are INTEGER in SQL.
MOST_COLUMNS = 31

Values = tuple[bytes | None, ...]


def register_wildcard(on: Instance) -> None:
    """Register `_dk_matched(list)`: the k of a release by a list of {own, shown, many}, of values and numbers."""

    def matched(lists: Any) -> pa.Array:
        return pa.array([_least(one) for one in lists.to_pylist()], pa.int64())

    on.create("_dk_matched", matched, "BIGINT", side_effects=True)


def least_matched(qi: Sequence[str], rows: str) -> str:
    """SQL: the k of a release by `least_possible`. rows: `ROW` beside `_dk_classes`."""
    own, shown = (
        "[" + ", ".join(as_bytes(f"{table}.{identifier(name)}") for name in qi) + "]" for table in (ROW, "_dk_classes")
    )
    kinds = f"SELECT {own} AS own, {shown} AS shown, system.main.count(*) AS many FROM {rows} GROUP BY 1, 2"
    packed = "system.main.list({'own': own, 'shown': shown, 'many': many})"
    return f"(SELECT system.main._dk_matched({packed}) FROM ({kinds}))"


def assign(records: Records, content: Hashes, k: int) -> tuple[list[int], Labels]:
    """The pattern of each label, and each record's label, shape (n,). Equal records are told apart by their content."""
    from duckanon.engines.kanon.wildcard.release import release

    return release(records, content, k)


def _least(kinds: Sequence[Mapping[str, Any]]) -> int:
    return least_possible([(tuple(one["own"]), tuple(one["shown"]), one["many"]) for one in kinds])


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
    for own, shown, many in rows:
        persons[own] += many
        records[shown] += many
        covers.setdefault(("person", own), set()).add(("record", shown))
    by_columns = defaultdict[tuple[int, ...], set[Values]](set)
    for shown in records:
        by_columns[tuple(i for i, one in enumerate(shown) if one is not None)].add(shown)
    width = len(rows[0][0])
    covered = defaultdict[Values, list[Values]](list)
    for columns, those in by_columns.items():
        for own in persons:
            shown = tuple(own[i] if i in columns else None for i in range(width))
            if shown in those:
                covered[shown].append(own)
    for shown, those_persons in covered.items():
        covers["record", shown] = {("person", own) for own in those_persons}
    component = _components(covers)
    possible = Counter[Values]()
    least = sum(persons.values())
    for shown, those_persons in covered.items():
        near = [own for own in those_persons if component["person", own] == component["record", shown]]
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
    order, seen = list[Hashable](), set[Hashable]()
    for root in graph:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(graph[root]))]
        while stack:
            node, left = stack[-1]
            following = next((one for one in left if one not in seen), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(graph[following])))
    found = dict[Hashable, Hashable]()
    for root in reversed(order):
        if root in found:
            continue
        found[root] = root
        waiting = [root]
        while waiting:
            for tail in back[waiting.pop()]:
                if tail not in found:
                    found[tail] = root
                    waiting.append(tail)
    return found
