"""Common table expressions of records, and of groups of them, are moved to where they are read.

So each query holds what it reads.

WITH a AS (SELECT x FROM t), b AS (SELECT x, count(*) FROM a GROUP BY x) FROM b becomes WITH b AS (SELECT x, count(*)
FROM (SELECT x FROM t) AS a GROUP BY x) FROM b, in which b can be answered by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import Node, arg, copied, nodes_of
from duckanon.rewrite.normalize.eager_aggregation import sources
from duckanon.rewrite.normalize.grouped import aggregates_itself
from duckanon.rewrite.quote import takes_over

_SHAPING = ("distinct", "limit", "offset", "order", "having", "qualify", "windows", "sample", "with", "with_")


def move(query: Node, is_read: Callable[[Node], bool]) -> None:
    """Move the expressions of a query's WITH that show records into the later ones, and the joins, that read them.

    One that groups records is moved if it is read once: then it may be the groups whose sizes are asked for. is_read:
    whether a node reads a protected table. Calls of table functions stay where they are.
    """
    given = arg(query, "with")
    if given is None or given.args.get("recursive") or _shadowed(query):
        return
    for one in list(given.expressions):
        if not _is_plain_query(one, is_read):
            continue
        reads = [node for node in nodes_of(query, exp.Table) if _names(node, one.alias)]
        if aggregates_itself(one.this) and len(reads) != 1:
            continue
        later = [node for each in given.expressions if each is not one for node in nodes_of(each.this, exp.Table)]
        for node in [*later, *_joined(query)]:
            if _names(node, one.alias) and _is_plain(node):
                alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(one.alias, quoted=True))
                moved = exp.Subquery(this=copied(one.this), alias=copied(alias))
                takes_over(moved, node)
                node.replace(moved)
        if not any(_names(node, one.alias) for node in nodes_of(query, exp.Table)):
            given.set("expressions", [other for other in given.expressions if other is not one])
    if not given.expressions:
        query.set(given.arg_key, None)


def _joined(query: Node) -> list[Node]:
    """The tables in FROM of a query that joins several: records are counted before they are joined."""
    found = sources(query) if isinstance(query, exp.Select) else []
    return [one for one in found if isinstance(one, exp.Table)] if len(found) > 1 else []


def _shadowed(query: Node) -> bool:
    """Whether two common table expressions have the same name, so that a name may mean another one elsewhere."""
    names = Counter(fold(one.alias) for one in nodes_of(query, exp.CTE))
    return any(count > 1 for count in names.values())


def _is_plain_query(one: Node, is_read: Callable[[Node], bool]) -> bool:
    body = one.this
    if not isinstance(body, exp.Select) or any(body.args.get(name) for name in _SHAPING):
        return False
    tables = nodes_of(body, exp.Table)
    plain = all(isinstance(table.this, exp.Identifier) for table in tables) and not any(
        True for _ in nodes_of(body, exp.Window)
    )
    return plain and not one.args["alias"].columns and not one.args.get("materialized") and any(map(is_read, tables))


def _names(node: Node, name: str) -> bool:
    return isinstance(node.this, exp.Identifier) and not node.db and fold(node.name) == fold(name)


def _is_plain(node: Node) -> bool:
    """Whether a node of a table has nothing but its name and an alias."""
    return not any(value for key, value in node.args.items() if key not in ("this", "alias"))
