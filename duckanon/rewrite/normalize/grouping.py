"""GROUP BY in all its forms, as keys and grouping sets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, combinations, product

from sqlglot import exp

from duckanon.rewrite.algebra.expressions import Expr, TooComplex
from duckanon.rewrite.algebra.nodes import Node

Keys = tuple[Expr, ...]
Sets = tuple[frozenset[int], ...] | None
_MOST_SETS = 4096


def grouping(group: Node, translate: Callable[[Node], Expr]) -> tuple[Keys, Sets]:
    """The keys, each once, and the grouping sets as positions in them; None if there is only the set of all.

    Raises TooComplex for more than 4096 sets.
    """
    elements = list(group.expressions)
    for name in ("grouping_sets", "rollup", "cube"):  # versions of sqlglot keep them in different arguments
        value = group.args.get(name)
        elements += [one for one in value if one is not None] if isinstance(value, list) else []
    factors = [_sets(element) for element in elements]
    total = 1
    for factor in factors:
        total *= len(factor)
        if total > _MOST_SETS:
            raise TooComplex
    keys: list[Expr] = []

    def place(node: Node) -> int:
        key = translate(node)
        if key not in keys:
            keys.append(key)
        return keys.index(key)

    sets = [frozenset(place(node) for node in chain.from_iterable(choice)) for choice in product(*factors)]
    if len(sets) == 1 and len(sets[0]) == len(keys):
        return tuple(keys), None
    return tuple(keys), tuple(sets)


def _sets(element: Node) -> list[list[Node]]:
    """The sets of expressions that one element of GROUP BY stands for."""
    if isinstance(element, exp.Rollup):
        items = [_items(one) for one in element.expressions]
        return [list(chain.from_iterable(items[:end])) for end in range(len(items), -1, -1)]
    if isinstance(element, exp.Cube):
        items = [_items(one) for one in element.expressions]
        if len(items) > 12:
            raise TooComplex
        return [
            list(chain.from_iterable(chosen))
            for size in range(len(items), -1, -1)
            for chosen in combinations(items, size)
        ]
    if isinstance(element, exp.GroupingSets):
        return list(chain.from_iterable(_sets(one) for one in element.expressions))
    return [_items(element)]


def _items(node: Node) -> list[Node]:
    if isinstance(node, exp.Paren):
        return _items(node.this)
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]
