"""Macros that somebody defined: a call becomes what stands behind it, and that is looked at like everything else.

What runs is the expanded text, which is proven and verified as if it had been written so. A macro that cannot be
expanded keeps its name, and `verify` refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckanon.catalog.names import fold
from duckanon.catalog.snapshot import Macro
from duckanon.errors import UnsupportedQuery
from duckanon.rewrite.admit import known
from duckanon.rewrite.algebra.nodes import Node


def body(macro: Macro) -> Node:
    """What stands behind a macro, as a SELECT of its own. Raises UnsupportedQuery."""
    text = macro.body if macro.is_table else f"SELECT ({macro.body}) AS x"
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        tree = None
    if not isinstance(tree, exp.Query) or any(True for _ in tree.find_all(exp.Placeholder, exp.Parameter)):
        raise _unclear(macro)
    # A name that the body itself gives to something hides the parameter in a part of it.
    given = {fold(one.name) for each in tree.find_all(exp.Lambda) for one in each.expressions}
    if given & set(macro.parameters):
        raise _unclear(macro)
    return known(tree)


def arguments(macro: Macro, call: Sequence[Node]) -> Mapping[str, Node]:
    """The arguments of a call by the macro's parameters. Raises UnsupportedQuery where they are not all there."""
    plain = not any(isinstance(one, exp.PropertyEQ | exp.Kwarg | exp.Alias | exp.Star) for one in call)
    if len(call) != len(macro.parameters) or not plain:
        raise UnsupportedQuery(f"The macro {macro.name} takes {len(macro.parameters)} arguments, in their order.")
    return dict(zip(macro.parameters, call, strict=True))


def filled(tree: Node, given: Mapping[str, Node]) -> Node:
    """The body with arguments in the place of parameters."""
    for one in list(tree.find_all(exp.Column)):
        if not one.table and not isinstance(one.this, exp.Star) and fold(one.name) in given:
            one.replace(exp.Paren(this=given[fold(one.name)].copy()))
    return tree


def _unclear(macro: Macro) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"The macro {macro.name} cannot be understood, so it cannot be checked: write out what it does."
    )
