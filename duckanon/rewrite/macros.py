"""Macros that users defined: a call is replaced by the macro's definition.

The expanded text is analysed and verified as if the analyst had written it. A macro that cannot be expanded keeps its
name, and `verify` refuses it.
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
from duckanon.rewrite.algebra.nodes import Node, copied, nodes_of
from duckanon.rewrite.dialect import DIALECT, Reading, reading


def body(macro: Macro) -> tuple[Node, Reading]:
    """The definition of a macro as a SELECT of its own, and its reading. Raises UnsupportedQuery."""
    definition = macro.body if macro.is_table else f"SELECT ({macro.body}) AS x"
    try:
        tree = sqlglot.parse_one(definition, read=DIALECT)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError):
        tree = None
    if not isinstance(tree, exp.Query) or bool(nodes_of(tree, exp.Placeholder, exp.Parameter)):
        raise _unclear(macro)
    # A lambda's variable would hide a parameter of the same name.
    folds = {
        fold(expression.name) for lambda_node in nodes_of(tree, exp.Lambda) for expression in lambda_node.expressions
    }
    if folds & set(macro.parameters):
        raise _unclear(macro)
    read = reading(definition, tree)
    return known(tree), read


def arguments(macro: Macro, call: Sequence[Node]) -> Mapping[str, Node]:
    """The arguments of a call, by parameter. Raises UnsupportedQuery unless each parameter has one."""
    plain = not any(isinstance(argument, exp.PropertyEQ | exp.Kwarg | exp.Alias | exp.Star) for argument in call)
    if len(call) != len(macro.parameters) or not plain:
        raise UnsupportedQuery(f"The macro {macro.name} takes {len(macro.parameters)} arguments, in their order.")
    return dict(zip(macro.parameters, call, strict=True))


def filled(tree: Node, nodes: Mapping[str, Node]) -> Node:
    """The definition with its parameters replaced by arguments."""
    for node in nodes_of(tree, exp.Column):
        if not node.table and not isinstance(node.this, exp.Star) and fold(node.name) in nodes:
            node.replace(exp.Paren(this=copied(nodes[fold(node.name)])))
    return tree


def _unclear(macro: Macro) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"The macro {macro.name} cannot be understood, so it cannot be checked: write out what it does."
    )
