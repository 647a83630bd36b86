"""ORDER BY, LIMIT and OFFSET of a query, carried over to another one with the same columns."""

from __future__ import annotations

from sqlglot import exp

from duckanon.catalog.names import fold
from duckanon.rewrite.algebra.nodes import Node, copied

_CARRIED = ("limit", "offset")
_NOT = ("having", "qualify", "distinct", "windows")


def order_limit(old: Node, new: Node) -> bool:
    """Copy ORDER BY, LIMIT and OFFSET from `old` to `new`. Returns whether that was possible.

    Both have the same columns in the same order. A term of ORDER BY is copied if it is a column's name, number or
    expression.
    """
    if not isinstance(old, exp.Select) or any(old.args.get(part) for part in _NOT):
        return False
    if len(old.expressions) != len(new.expressions) and not old.is_star:
        return False
    order = old.args.get("order")
    if order is not None:
        terms = order.expressions
        if len(terms) == 1 and terms[0].this.sql().upper() == "ALL":
            terms = [
                exp.Ordered(
                    this=exp.Literal.number(place),
                    desc=terms[0].args.get("desc"),
                    nulls_first=terms[0].args.get("nulls_first"),
                )
                for place in range(1, len(new.expressions) + 1)
            ]
        places = [_place(term, old, new) for term in terms]
        if any(place is None for place in places):
            return False
        new.set(
            "order",
            exp.Order(
                expressions=[
                    exp.Ordered(
                        this=exp.Literal.number(place),
                        desc=term.args.get("desc"),
                        nulls_first=term.args.get("nulls_first"),
                    )
                    for place, term in zip(places, terms, strict=True)
                ]
            ),
        )
    for part in _CARRIED:
        if old.args.get(part) is not None:
            if old.args[part].find(exp.Select) is not None:
                return False
            new.set(part, copied(old.args[part]))
    return True


def _place(node: Node, old: Node, new: Node) -> int | None:
    """The number, from 1, of the column by which a term orders; None if it orders by something else."""
    term = node.this
    if isinstance(term, exp.Literal) and not term.is_string and str(term.this).isdigit():
        place = int(term.this)
        return place if 1 <= place <= len(new.expressions) else None
    for place, column in enumerate(new.expressions, 1):
        if not isinstance(term, exp.Column) or fold(term.name) != fold(column.alias_or_name):
            continue
        # A name with its table's name before it is no alias.
        if not term.table or old.is_star or fold(old.expressions[place - 1].unalias().name) == fold(term.name):
            return place
    if not old.is_star:
        for place, column in enumerate(old.expressions, 1):
            if column.unalias() == term:
                return place
    return None
