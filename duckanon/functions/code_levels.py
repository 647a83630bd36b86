"""The levels of a table of codes: what each code is a part of on each of them.

A code that lies higher than the deepest is a level of itself from there on: what is said of it holds on each of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from duckanon.catalog.publication import Codes
from duckanon.errors import InvalidInput
from duckanon.functions.crossed import tree

# A node on one level: its label, its level in the release, the level here, and its label on each level.
Node = tuple[str | None, int, int, tuple[str | None, ...]]


@dataclass(frozen=True)
class Leveled:
    """The levels of a column of codes. names: of the columns of all levels, the widest first; the last is the column.

    nodes: of all codes with their totals. leaves: by code, its label on each level.
    """

    names: tuple[str, ...]
    nodes: tuple[Node, ...]
    leaves: Mapping[str, tuple[str | None, ...]]


def levels_of_codes(
    column: str, codes: Codes, used: Iterable[str | None], name: str = "{column} (level {at})"
) -> Leveled:
    """The levels of the codes that are used. Raises InvalidInput where they have none.

    name: what a level is called.
    """
    above = tree(column, [{"code": code, "parent": parent} for code, parent in codes], list(used))
    chains: dict[str, list[str | None]] = {}
    for below, label in zip(above["below"], above["label"], strict=True):
        chains.setdefault(below, []).append(label)
    deepest = max((len(chain) for chain in chains.values()), default=1) - 1
    if not deepest:
        raise InvalidInput(f'The hierarchy of "{column}" has one code only: leave that column out of the table.')
    nodes: dict[Node, None] = {}
    leaves = {}
    for code, chain in chains.items():
        depth = len(chain) - 1
        labels = (*chain[1:], *[code] * (deepest - depth))
        leaves[code] = labels
        for at in range(deepest + 1):
            level = min(at, depth)
            nodes[chain[level], level, at, (*labels[:at], *[None] * (deepest - at))] = None
    names = [name.format(column=column, at=at) for at in range(1, deepest)]
    return Leveled((*names, column), tuple(nodes), leaves)
