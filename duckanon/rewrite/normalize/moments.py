"""Statistics of pairs of numbers, such as corr(y, x), written as means, variances, covariances and counts.

These have noise. They follow from the sums of x, of y, of their squares and of their products, over the records that
have both numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from duckanon.rewrite.algebra.nodes import Node, copied, nodes_of
from duckanon.rewrite.column_names import default_name


@dataclass(frozen=True)
class _Pairs:
    """The records that have both of two numbers. kept: the condition of FILTER; None without one."""

    y: Node
    x: Node
    kept: Node | None

    def _of(self, call: Node) -> Node:
        """An aggregate over the records that have both."""
        conditions = [
            exp.Not(this=exp.Is(this=exp.Paren(this=operand), expression=exp.Null())) for operand in (self.y, self.x)
        ]
        kept_conditions = [] if self.kept is None else [self.kept.this]
        return exp.Filter(this=call, expression=exp.Where(this=exp.and_(*kept_conditions, *conditions)))

    @property
    def count(self) -> Node:
        return self._of(exp.Count(this=exp.Star()))

    @property
    def mean_x(self) -> Node:
        return self._of(exp.Avg(this=copied(self.x)))

    @property
    def mean_y(self) -> Node:
        return self._of(exp.Avg(this=copied(self.y)))

    @property
    def spread_x(self) -> Node:
        return self._of(exp.VariancePop(this=copied(self.x)))

    @property
    def spread_y(self) -> Node:
        return self._of(exp.VariancePop(this=copied(self.y)))

    @property
    def together(self) -> Node:
        """The covariance of all pairs."""
        return self._of(exp.CovarPop(this=copied(self.y), expression=copied(self.x)))

    @property
    def sampled(self) -> Node:
        """The covariance, as an estimate from a sample."""
        less = exp.Paren(this=exp.Sub(this=self.count, expression=_number(1)))
        estimate = exp.Div(this=exp.Mul(this=self.together, expression=self.count), expression=less)
        return _where(exp.GT(this=self.count, expression=_number(1)), estimate)

    @property
    def correlation(self) -> Node:
        spread = exp.Mul(this=self.spread_x, expression=self.spread_y)
        coefficient = exp.Div(this=self.together, expression=exp.Sqrt(this=copied(spread)))
        return _where(_is_above(spread), _least(_greatest(coefficient, _number(-1)), _number(1)))

    @property
    def slope(self) -> Node:
        return _where(_is_above(self.spread_x), exp.Div(this=self.together, expression=self.spread_x))

    @property
    def intercept(self) -> Node:
        return exp.Paren(this=exp.Sub(this=self.mean_y, expression=exp.Mul(this=self.slope, expression=self.mean_x)))

    @property
    def determined(self) -> Node:
        """How much of the spread of y a line explains, from 0 to 1."""
        squared = exp.Mul(this=self.together, expression=self.together)
        spread = exp.Paren(this=exp.Mul(this=self.spread_x, expression=self.spread_y))
        share = _least(exp.Div(this=squared, expression=spread), _number(1))
        of_y = exp.If(this=_is_above(self.spread_y), true=share)
        explained = exp.Case(ifs=[of_y], default=_number(1))
        return _where(_is_above(self.spread_x), explained)

    def times(self, node: Node) -> Node:
        return exp.Paren(this=exp.Mul(this=self.count, expression=node))


_WRITTEN: dict[type[exp.AggFunc], Callable[[_Pairs], Node]] = {
    exp.Corr: lambda of: of.correlation,
    exp.CovarPop: lambda of: of.together,
    exp.CovarSamp: lambda of: of.sampled,
    exp.RegrSlope: lambda of: of.slope,
    exp.RegrIntercept: lambda of: of.intercept,
    exp.RegrR2: lambda of: of.determined,
    exp.RegrCount: lambda of: of.count,
    exp.RegrAvgx: lambda of: of.mean_x,
    exp.RegrAvgy: lambda of: of.mean_y,
    exp.RegrSxx: lambda of: of.times(of.spread_x),
    exp.RegrSyy: lambda of: of.times(of.spread_y),
    exp.RegrSxy: lambda of: of.times(of.together),
}


# The nodes that it is about.
PAIRS = tuple(_WRITTEN)


def pairs_of_numbers(query: Node) -> None:
    """Write statistics of pairs of numbers in place as what they follow from; columns keep their names."""
    for node in nodes_of(query, *PAIRS):
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        if isinstance(whole.parent, exp.Window) or isinstance(node.this, exp.Distinct):
            continue
        kept = whole.args["expression"] if whole is not node else None
        new: Node = _WRITTEN[type(node)](_Pairs(node.this, node.args["expression"], kept))
        if isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions":
            new = exp.alias_(new, default_name(whole), quoted=True)
        whole.replace(new)


def _number(value: int) -> Node:
    number = exp.Literal.number(abs(value))
    return exp.Neg(this=number) if value < 0 else number


def _is_above(spread: Node) -> Node:
    """That a spread is above zero: noise may leave none."""
    return exp.GT(this=copied(spread), expression=_number(0))


def _where(condition: Node, value: Node) -> Node:
    """A value, or NULL where a condition does not hold."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def _least(node: Node, other: Node) -> Node:
    return exp.Least(this=node, expressions=[other])


def _greatest(node: Node, other: Node) -> Node:
    return exp.Greatest(this=node, expressions=[other])
