"""Quotients of a query's aggregates, such as shares, and what grows or falls with a single number.

An interval of a number gives one of whatever grows or falls with it: `low(round(100 * x, 1))` is
`round(100 * low(x), 1)`, and `low(1 - x)` is `1 - high(x)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node

# Rounding and casts to these never turn two numbers around.
_ROUNDED = (exp.Round, exp.Floor, exp.Ceil)
_GUARDS = (exp.GT, exp.NEQ)


@dataclass(frozen=True)
class Part:
    """One side of a quotient: a constant times an aggregate, or times its sum over rows of the result.

    window: that sum; None for the aggregate of one row.
    """

    aggregate: Node
    factor: Fraction
    window: Node | None

    @property
    def partition(self) -> Sequence[Node]:
        return self.window.args.get("partition_by") or [] if self.window is not None else []

    @property
    def is_total(self) -> bool:
        """Whether it is the sum over all rows of the partition, not a running one."""
        return self.window is not None and self.window.args.get("order") is None


@dataclass(frozen=True)
class Quotient:
    """above / below. Where only that below is nested: the rows that above adds up are among those of below."""

    above: Part
    below: Part

    @property
    def factor(self) -> Fraction:
        return self.above.factor / self.below.factor

    @property
    def is_nested(self) -> bool:
        if self.below.window is None:
            return self.above.window is None
        if not self.below.is_total:
            return False
        return self.above.window is None or set(self.below.partition) <= set(self.above.partition)


def quotient(node: exp.Div, aggregates: Sequence[Node]) -> Quotient | None:
    """The quotient of two of the aggregates; None for another one. Its rows are nested."""
    above, below = _part(node.this, aggregates), _part(node.expression, aggregates)
    if above is None or below is None or below.factor <= 0:
        return None
    pair = Quotient(above, below)
    return pair if pair.is_nested else None


def _part(node: Node, aggregates: Sequence[Node]) -> Part | None:
    """A side of a quotient; None for something else."""
    node = node.unnest()
    if node in aggregates and not isinstance(node.parent, exp.Window):
        return Part(node, Fraction(1), None)
    if isinstance(node, exp.Window):
        summed = node.this
        plain = isinstance(summed, exp.Sum) and summed.this in aggregates
        if not plain or any(node.args.get(clause) for clause in ("spec", "alias", "first", "exclude")):
            return None
        return Part(summed.this, Fraction(1), node)
    if isinstance(node, exp.Nullif) and number(node.expression) == 0:
        return _part(node.this, aggregates)
    if isinstance(node, exp.Cast | exp.TryCast) and _is_wide(node):
        return _part(node.this, aggregates)
    if isinstance(node, exp.Mul):
        for constant, other in ((node.this, node.expression), (node.expression, node.this)):
            factor, part = number(constant), _part(other, aggregates)
            if factor and part is not None:
                return Part(part.aggregate, part.factor * factor, part.window)
    return None


def _is_wide(cast: Node) -> bool:
    """Whether a count or a sum stays as it is: no text, no truth value."""
    kind = cast.to.sql("duckdb").upper()
    return kind in ("DOUBLE", "HUGEINT", "BIGINT")


def number(node: Node) -> Fraction | None:
    """The value of a constant number; None for another expression."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        positive = number(node.this)
        return None if positive is None else -positive
    if isinstance(node, exp.Cast | exp.TryCast):
        return number(node.this) if _is_wide(node) else None
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return Fraction(node.this)
        except (ValueError, ZeroDivisionError):
            return None
    return None


def inner(node: Node) -> tuple[Node, bool] | None:
    """What a number is computed from, if it grows or falls with that alone, and whether it falls; None if it does not.

    So it is itself with its interval's ends in that place.
    """
    if isinstance(node, exp.Paren):
        return node.this, False
    if isinstance(node, exp.Neg):
        return node.this, True
    if isinstance(node, _ROUNDED) or (isinstance(node, exp.Cast | exp.TryCast) and _is_number(node)):
        return node.this, False
    if isinstance(node, exp.Coalesce) and len(node.expressions) == 1 and number(node.expressions[0]) == 0:
        return node.this, False
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _term(node)
    return None


def _term(node: Node) -> tuple[Node, bool] | None:
    """As `inner`, of a number and a constant."""
    left, right = number(node.this), number(node.expression)
    if right is not None and left is None:
        scaled = isinstance(node, exp.Mul | exp.Div)
        return None if scaled and right == 0 else (node.this, scaled and right < 0)
    if left is not None and right is None and not isinstance(node, exp.Div):
        if isinstance(node, exp.Mul):
            return None if left == 0 else (node.expression, left < 0)
        return node.expression, isinstance(node, exp.Sub)
    return None


def _is_number(cast: Node) -> bool:
    return cast.to.this in exp.DataType.NUMERIC_TYPES


def guarded(node: Node) -> Node | None:
    """The quotient in CASE WHEN below > 0 THEN quotient END, or in CASE WHEN below = 0 THEN NULL ELSE quotient END.

    In place of NULL may stand 0. None for something else.
    """
    if not isinstance(node, exp.Case) or node.this is not None or len(node.args["ifs"]) != 1:
        return None
    (only,) = node.args["ifs"]
    condition, divided_value, other = only.this.unnest(), only.args["true"], node.args.get("default")
    if isinstance(condition, exp.EQ):
        divided_value, other = other, divided_value
    elif not isinstance(condition, _GUARDS):
        return None
    if divided_value is None or number(condition.expression) != 0:
        return None
    if other is not None and not isinstance(other, exp.Null) and number(other) != 0:
        return None
    divided = divided_value.find(exp.Div)
    return divided_value if divided is not None and condition.this.unnest() == divided.expression.unnest() else None
