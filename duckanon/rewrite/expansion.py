"""How large a query is once its views, macros and WITH are written out: DuckDB plans it that way."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.algebra.nodes import WITH, Node

# In nodes of the tree. A text of the longest kind that is admitted has fewer.
MOST = 50_000
_TOO_LARGE = (
    "The statement is too large once its views, macros and WITH are written out where they are read: keep a part of it "
    "in a temporary table."
)


def check_expanded(query: Node) -> None:
    """Raises UnsupportedQuery if a query is too large when what WITH names is written out wherever it is read."""
    check_size(_size(query, {}))


def check_size(nodes: int) -> None:
    """Raises UnsupportedQuery for a query of too many nodes."""
    if nodes > MOST:
        raise UnsupportedQuery(_TOO_LARGE)


def nodes_in(node: Node) -> int:
    """The number of nodes of a tree."""
    return sum(1 for _ in node.walk())


def _size(node: Node, known: Mapping[str, int]) -> int:
    """The nodes of a query, written out. known: the sizes of what WITH around it names."""
    total, inside, first = 1, dict(known), node.args.get(WITH)
    for one in first.expressions if first is not None else ():
        # What reads itself is not written out.
        inside[fold(one.alias)] = _size(one.this, {**inside, fold(one.alias): 0})
        total += 1
    waiting = [one for one in node.iter_expressions() if one is not first]
    while waiting:
        one = waiting.pop()
        if one.args.get(WITH) is not None:
            total += _size(one, inside)
            continue
        total += 1
        if isinstance(one, exp.Table) and not one.args.get("db"):
            total += inside.get(fold(one.name), 0)
        waiting += one.iter_expressions()
    return total
