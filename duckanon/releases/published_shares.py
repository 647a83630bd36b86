"""The columns of a query for shares, over a publication that has them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp

from duckanon.catalog.names import quoted
from duckanon.releases.noise import columns_of
from duckanon.rewrite.algebra.expressions import Aggregate, Case, Cast, Coalesce, Column, Expr, rebuilt, walk
from duckanon.rewrite.algebra.nodes import Node
from duckanon.rewrite.algebra.render import Renderer
from duckanon.rewrite.dialect import DIALECT
from duckanon.rewrite.normalize.order_limit import order_limit
from duckanon.rewrite.recognize import Conditional
from duckanon.rewrite.recognize.findings import Role
from duckanon.rewrite.recognize.measures import WHOLE
from duckanon.rewrite.recognize.ratios import core
from duckanon.rewrite.rule_context import RuleContext

_MOST_DIGITS = 12


def are_followed(conditionals: Sequence[Conditional]) -> bool:
    """Whether the shares of one SELECT have a form that a publication has.

    They are of numbers of records, within the same rows, beside keys that are columns as they stand.
    """
    first = conditionals[0]
    shown = [role for role in first.columns if role.what == "share"]
    return (
        all(
            conditional.weight is None and set(conditional.rows) == set(first.rows) and conditional.cols == first.cols
            for conditional in conditionals
        )
        and all(role.what in ("key", "share") for role in first.columns)
        and len({role.name for role in shown}) == len(shown) == len(conditionals)
        and all(isinstance(row, Column) for row in (*first.rows, *first.cols))
        and all(
            conditional.decimals is None or 0 <= conditional.decimals <= _MOST_DIGITS for conditional in conditionals
        )
        and all(
            _is_followed(conditional, role)
            for conditional in conditionals
            for role in shown
            if role.name == conditional.name
        )
    )


def share_columns(context: RuleContext, conditionals: Sequence[Conditional], node: Node, source: str) -> Node | None:
    """The query's own columns over a source with the keys k0, ... and the shares p0, ...; None if that cannot be
    written.

    Filters on the rows' own columns are applied here; the source must apply all others.
    """
    first = conditionals[0]
    distinct = isinstance(node, exp.Select) and node.args.get("distinct")
    if not isinstance(node, exp.Select) or (distinct and distinct.args.get("on")):
        return None
    rows = {row.name for row in first.rows if isinstance(row, Column)}
    named = {row: Column(0, f"k{at}") for at, row in enumerate([*first.rows, *first.cols])}
    write, at, shown = Renderer(), 0, []
    for role, name in zip(first.columns, context.names(first.table, node, first.columns), strict=True):
        assert role.expr is not None
        if role.what == "key":
            expr: Expr = named[role.expr]
        else:
            inner, share = core(role.expr), Column(0, f"p{at}")
            expr = rebuilt(role.expr, lambda one, inner=inner, share=share: share if one == inner else None)  # type: ignore[misc]
            at += 1
        shown.append(f"{write.text(expr)} AS {quoted([name])}")
    around = [
        expression
        for expression in sorted((*first.filter, *first.kept), key=write.text)
        if columns_of(expression) <= rows
    ]
    kept = [f"({write.text(rebuilt(one, named.get))})" for one in around]
    where = f" WHERE {' AND '.join(kept)}" if kept else ""
    replacement = sqlglot.parse_one(f"SELECT {', '.join(shown)} FROM {source}{where}", read=DIALECT)
    bare = node.copy()
    for part in ("having", "qualify", "distinct", "windows"):
        bare.set(part, None)
    if not order_limit(bare, replacement):
        return None
    if distinct:
        replacement.set("distinct", exp.Distinct())
    return replacement


def _is_followed(conditional: Conditional, role: Role) -> bool:
    """Whether the ratio is a DOUBLE, and NULL where the divisor is zero."""
    if role.expr is None:
        return False
    for node in walk(core(role.expr), into=lambda part: not isinstance(part, Aggregate)):
        if isinstance(node, Cast) and node.type.upper() not in WHOLE | {"DOUBLE"}:
            return False
        if isinstance(node, Coalesce | Case) and conditional.of:
            return False
    return True
