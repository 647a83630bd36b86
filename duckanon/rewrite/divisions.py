"""Whole quotients and remainders by noisy numbers, of which any may be 0."""

from __future__ import annotations

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node, nodes_of

# Functions that fail where their second argument is 0, as // and % do since DuckDB 2.0: until then these were NULL.
_FUNCTIONS = frozenset({"divide", "mod"})
# The nodes that it is about.
DIVISIONS = (exp.IntDiv, exp.Mod, exp.Anonymous)


def without_failing(query: Node) -> None:
    """Let whole quotients and remainders by 0 be NULL.

    A statement over noisy numbers was charged for when it runs, and whether one of them is 0 is chance.
    """
    divisors = [node.expression for node in nodes_of(query, exp.IntDiv | exp.Mod)]
    divisors += [
        node.expressions[1]
        for node in nodes_of(query, exp.Anonymous)
        if node.name.lower() in _FUNCTIONS and len(node.expressions) == 2
    ]
    for divisor in sorted(
        divisors, key=lambda divisor: -divisor.depth
    ):  # A divisor within another one is replaced first.
        if not isinstance(divisor, exp.Literal) or divisor.name.strip("0.") == "":
            divisor.replace(exp.Nullif(this=divisor.copy(), expression=exp.Literal.number(0)))
