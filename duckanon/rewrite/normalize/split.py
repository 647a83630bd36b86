"""Splits a grouping query in two: an inner query with keys and counts, and an outer query with everything else.

HAVING, QUALIFY, windows and arithmetic work on counts. The inner query can be released by itself, and the outer one is
computed from the release. Together they are equivalent to the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import ROOT, Node, arg, copied, nodes_of
from duckanon.rewrite.column_names import default_name

_CORE = "_dk_core"
_MOVED = ("having", "qualify", "order", "limit", "offset", "windows", "distinct", "expressions")


def split(query: Node) -> tuple[Node, Node] | None:
    """The outer query, and in it the inner one; None if the query cannot be split.

    Both are new trees.
    """
    keys = _keys(query)
    if keys is None or query.args.get("windows") or query.args.get("distinct"):
        return None
    shown = list(query.expressions)
    rest = [query.args.get(part) for part in ("having", "qualify", "order")]
    values = [aggregate for part in (*shown, *rest) if part is not None for aggregate in _aggregates(part)]
    counted = list(dict.fromkeys(values))
    if not counted:
        return None
    core = copied(query)
    for part in _MOVED:
        core.set(part, None)
    names = [(key, f"_dk_k{at}") for at, key in enumerate(keys)] + [
        (value, f"_dk_a{at}") for at, value in enumerate(counted)
    ]
    core.set("expressions", [exp.alias_(copied(value), name, quoted=True, copy=False) for value, name in names])
    core.set("group", exp.Group(expressions=[copied(key) for key in keys]) if keys else None)
    write = _Writer(dict(names), _aliases(query))
    told = [write(one.unalias()) for one in shown]
    if any(value is None for value in told):
        return None
    around = exp.Select(expressions=[_named(value, given) for value, given in zip(told, shown, strict=True)])
    around = around.from_(exp.Subquery(this=core, alias=exp.TableAlias(this=exp.to_identifier(_CORE, quoted=True))))
    for part, to in (("having", "where"), ("qualify", "qualify")):
        given = query.args.get(part)
        if given is not None:
            condition = write(given.this)
            if condition is None:
                return None
            around.set(to, exp.Where(this=condition) if to == "where" else exp.Qualify(this=condition))
    if not _ended(query, around, write):
        return None
    (inner,) = [node for node in nodes_of(around, exp.Subquery) if node.alias == _CORE]
    return around, inner.this


class _Writer:
    """Rewrites expressions over the columns of the inner query."""

    def __init__(self, names: dict[Node, str], aliases: dict[str, Node]) -> None:
        self._names, self._aliases = names, aliases

    def __call__(self, node: Node, *, within: bool = False) -> Node | None:
        """The rewritten expression; None if it uses something that the inner query does not give."""
        known = self._names.get(node)
        if known is not None:
            return exp.column(known, table=_CORE, quoted=True)
        if isinstance(node, exp.Column):
            # DuckDB looks for a column first, and then for an alias.
            same = [name for key, name in self._names.items() if may_be(node, key)]
            if same:
                return exp.column(same[0], table=_CORE, quoted=True) if len(same) == 1 else None
            alias = self._aliases.get(fold(node.name)) if not node.table else None
            return None if alias is None or within else self(alias, within=True)
        if isinstance(node, exp.Query | exp.Subquery | exp.Star):
            return None
        if isinstance(node, exp.AggFunc) and not isinstance(node.parent, exp.Window):
            return None
        copy = copied(node)
        for key, value in node.args.items():
            if isinstance(value, list):
                parts = [self(one, within=within) if isinstance(one, ROOT) else one for one in value]
                if any(new is None and old is not None for new, old in zip(parts, value, strict=True)):
                    return None
                copy.set(key, parts)
            elif isinstance(value, ROOT):
                part = self(value, within=within)
                if part is None:
                    return None
                copy.set(key, part)
        return copy


def may_be(node: Node, other: Node) -> bool:
    """Whether two columns can be the same. Either may lack its table's name."""
    if not isinstance(other, exp.Column) or fold(node.name) != fold(other.name):
        return False
    return not node.table or not other.table or fold(node.table) == fold(other.table)


def is_same(node: Node, other: Node) -> bool:
    """Whether two expressions can be one: but for the case of names, and for table names that a column may lack."""
    if isinstance(node, exp.Column):
        return may_be(node, other)
    if isinstance(node, exp.Anonymous):
        # The case of a name of a function makes no difference; all else is text.
        same = isinstance(other, exp.Anonymous) and fold(node.name) == fold(other.name)
        return same and _are_same(node.expressions, other.expressions)
    names = node.args.keys() | other.args.keys()
    return type(node) is type(other) and all(_are_same(node.args.get(key), other.args.get(key)) for key in names)


def _are_same(part: object, other: object) -> bool:
    """As `is_same`, of what stands under a name in two nodes."""
    if isinstance(part, list) and isinstance(other, list):
        return len(part) == len(other) and all(map(_are_same, part, other))
    if isinstance(part, ROOT) and isinstance(other, ROOT):
        return is_same(part, other)
    return (part or None) == (other or None)


def _keys(query: Node) -> list[Node] | None:
    """The expressions by which a SELECT groups; None if it does not group, or has several grouping sets."""
    if not isinstance(query, exp.Select) or query.is_star or arg(query, "from") is None:
        return None
    group = query.args.get("group")
    shown, aliases = query.expressions, _aliases(query)
    if group is None:
        return [] if any(True for value in shown for _ in _aggregates(value)) else None
    if any(value for name, value in group.args.items() if name not in ("expressions", "all")):
        return None
    if group.args.get("all"):
        return [one.unalias() for one in shown if not any(True for _ in _aggregates(one))]
    keys: list[Node] = []
    for expression in group.expressions:
        if isinstance(expression, exp.Literal) and not expression.is_string and str(expression.this).isdigit():
            place = int(expression.this) - 1
            if not 0 <= place < len(shown):
                return None
            keys.append(shown[place].unalias())
        elif isinstance(expression, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Tuple | exp.Paren):
            return None
        else:
            keys.append(
                aliases.get(fold(expression.name), expression)
                if isinstance(expression, exp.Column) and not expression.table
                else expression
            )
    return list(dict.fromkeys(keys))


def _aliases(query: Node) -> dict[str, Node]:
    return {
        fold(expression.alias): expression.this for expression in query.expressions if isinstance(expression, exp.Alias)
    }


def _aggregates(node: Node) -> Iterator[Node]:
    """The aggregates of the query itself: those inside a window's arguments, but not the window's own function."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Filter | exp.AggFunc) and not isinstance(node.parent, exp.Window):
        yield node
        return
    for value in node.args.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ROOT):
                yield from _aggregates(one)


def _named(node: Node, given: Node) -> Node:
    if isinstance(given, exp.Alias):
        name = given.alias
    else:
        name = given.name if isinstance(given, exp.Column) else default_name(given)
    return exp.alias_(node, name, quoted=True)


def _ended(query: Node, around: Node, write: _Writer) -> bool:
    """Copy ORDER BY, LIMIT and OFFSET to the outer query. Returns whether that was possible."""
    order = query.args.get("order")
    if order is not None:
        terms: Sequence[Node] = order.expressions
        written = []
        for term in terms:
            by = term.this
            if isinstance(by, exp.Literal) and not by.is_string and not 1 <= _whole(by) <= len(query.expressions):
                return False  # DuckDB would refuse it, but only after the counts were charged
            alias = _place_of_alias(query, by)
            new: Node | None
            if alias is not None:
                new = exp.Literal.number(alias)
            elif isinstance(by, exp.Literal) or by.sql().upper() == "ALL":
                new = copied(by)
            else:
                new = write(by)
            if new is None:
                return False
            written.append(exp.Ordered(this=new, desc=term.args.get("desc"), nulls_first=term.args.get("nulls_first")))
        around.set("order", exp.Order(expressions=written))
    for part in ("limit", "offset"):
        if query.args.get(part) is not None:
            if query.args[part].find(exp.Select) is not None:
                return False
            around.set(part, copied(query.args[part]))
    return True


def _whole(literal: Node) -> int:
    return int(literal.this) if str(literal.this).isdigit() else 0


def _place_of_alias(query: Node, by: Node) -> int | None:
    """The number of the output whose alias ORDER BY names: an alias comes before a column of that name."""
    if not isinstance(by, exp.Column) or by.table:
        return None
    names = [fold(expression.alias) if isinstance(expression, exp.Alias) else None for expression in query.expressions]
    return names.index(fold(by.name)) + 1 if fold(by.name) in names else None
