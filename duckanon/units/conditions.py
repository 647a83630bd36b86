"""Conditions of a join or a subquery, taken apart: which columns they call equal, and what compares whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from duckanon.catalog.types import FLOATS, WHOLE, is_exact
from duckanon.rewrite.algebra.bounds import DATE, TIMESTAMP
from duckanon.rewrite.algebra.constants import ZONED
from duckanon.rewrite.algebra.expressions import (
    And,
    Between,
    Column,
    Comparator,
    Comparison,
    Expr,
    Nested,
    Or,
    Star,
    conjuncts,
    walk,
)
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.relations import Block
from duckanon.rewrite.algebra.rows import columns_in
from duckanon.units.fields import Field
from duckanon.units.scope import NotLocal, Scope

# The types of whole numbers that a DOUBLE holds.
_EXACT_AS_DOUBLE = {kind for kind, (low, high) in WHOLE.items() if low >= -(2**53) and high <= 2**53}
# The units of time whose starts lie between the years -290000 and 290000 where the dates do.
_NEAR = ("day", "month", "quarter", "year")
_TURNED: dict[Comparator, Comparator] = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "<>": "<>", "=": "="}
_DEPENDS = "A subquery depends on its row in a way that is not followed: by = of columns it may."


class Pair(NamedTuple):
    """A comparison of what a subquery computes with what the row around it has: `inner operator outer`."""

    inner: Expr
    operator: Comparator
    outer: Expr


def factored(condition: Expr) -> frozenset[Expr]:
    """The conjuncts of a condition, with those that all branches of an OR have taken out of it."""
    if not isinstance(condition, Or):
        return conjuncts(condition)
    branches = [conjuncts(branch) for branch in _branches(condition)]
    common = frozenset.intersection(*branches)
    rest = [branch - common for branch in branches]
    if not common or not all(rest):
        return common or frozenset([condition])
    return common | {reduce(Or, (reduce(And, in_order(expressions)) for expressions in rest))}


def _branches(condition: Expr) -> list[Expr]:
    if isinstance(condition, Or):
        return [*_branches(condition.left), *_branches(condition.right)]
    return [condition]


def equated(condition: Expr) -> tuple[Column, Column] | None:
    """The columns of two sources that a condition says are equal; None for another condition."""
    match condition:
        case Comparison("=", Column() as one, Column() as other) if one.source != other.source:
            return one, other
    return None


def tells_apart(kind: str, other: str) -> bool:
    """Whether values of two types are equal only where they are one value, so that no value is equal to two others.

    A DOUBLE is equal to many whole numbers beyond 2^53, and an infinite TIMESTAMP to all DATEs that are too far away.
    Moments with a time zone are compared as TIMESTAMPs, and those that are too far away are infinite, too.
    """
    if ZONED in (kind, other):
        return False
    if kind == other or (is_exact(kind) and is_exact(other)):
        return True
    return {kind, other} <= {*FLOATS, *_EXACT_AS_DOUBLE}


def are_told_apart(field: Field, other: Field) -> bool:
    """Whether values of two columns are equal only where they are one value.

    Beyond what their types say: no start of a day, month, quarter or year, as date_trunc makes it, is too far away to
    be a TIMESTAMP. That of a week may be.
    """
    if tells_apart(field.kind, other.kind):
        return True
    dates = [each for each in (field, other) if each.kind == DATE]
    return {field.kind, other.kind} == {DATE, TIMESTAMP} and all(date.unit in _NEAR for date in dates)


class Equal:
    """Classes of columns that conditions say are equal, by their names in relations.

    fields: what is known of each by name. known: classes of which that is known already. Columns that do not tell each
    other's values apart are not in one class.
    """

    def __init__(
        self,
        scope: Scope,
        conditions: Iterable[Expr],
        fields: Mapping[str, Field],
        known: Iterable[frozenset[str]] = (),
    ) -> None:
        self._classes: list[set[str]] = []
        for names in known:
            self._join({*names})
        for pair in filter(None, map(equated, conditions)):
            both = {scope.name(column) for column in pair} & fields.keys()
            if len(both) == 2 and are_told_apart(*(fields[name] for name in both)):
                self._join(both)

    def _join(self, names: set[str]) -> None:
        met = [texts for texts in self._classes if texts & names]
        self._classes = [texts for texts in self._classes if not texts & names] + [names.union(*met)]

    @property
    def classes(self) -> frozenset[frozenset[str]]:
        """The classes of more than one column."""
        return frozenset(map(frozenset, self._classes))

    def of(self, name: str) -> set[str]:
        """The columns that are equal to one, with itself."""
        return next((texts for texts in self._classes if name in texts), {name})


def apart(query: Block, own: set[int]) -> tuple[list[Expr], list[Pair]]:
    """The conditions of a subquery on its own rows, and the comparisons of these with the row around it.

    own: the numbers of its sources. Raises NotLocal where it depends on that row in another way.
    """
    inside: list[Expr] = []
    pairs: list[Pair] = []
    for condition in (each for whole in in_order(query.where) for each in _comparisons(whole)):
        if False not in _sides(condition, own):
            inside.append(condition)
            continue
        pairs.append(_pair(condition, own))
    rest = [*query.having, *(query.keys or ()), *(output.expr for output in query.outputs)]
    if any(False in _sides(expression, own) for expression in rest if not isinstance(expression, Star)):
        raise NotLocal(_DEPENDS)
    return inside, pairs


def is_looked_up(query: Block, own: set[int]) -> bool:
    """Whether a subquery compares one column at most by something else than =, once or with both ends of an interval.

    Then the rows that it finds are looked up by what they have in common.
    """
    try:
        _, pairs = apart(query, own)
    except NotLocal:
        return False
    return sum(pair.operator != "=" for pair in pairs) <= 1 or within(pairs) is not None


def within(pairs: Sequence[Pair]) -> tuple[Pair, Pair] | None:
    """The comparisons of one column with the ends of what the row around has: the lower and the upper one.

    None where other comparisons than these are made by something else than =.
    """
    match sorted((pair for pair in pairs if pair.operator != "="), key=lambda pair: pair.operator, reverse=True):
        case [Pair(inner, ">" | ">=") as lower, Pair(same, "<" | "<=") as upper] if inner == same:
            return lower, upper
    return None


def _comparisons(condition: Expr) -> list[Expr]:
    """BETWEEN as two comparisons; another condition as it is."""
    match condition:
        case Between(operand, low, high, symmetric=False):
            return [Comparison(">=", operand, low), Comparison("<=", operand, high)]
    return [condition]


def _pair(condition: Expr, own: set[int]) -> Pair:
    match condition:
        case Comparison(operator, left, right) if operator in _TURNED:
            sides = _sides(left, own), _sides(right, own)
            if sides == ({True}, {False}):
                return Pair(left, operator, right)
            if sides == ({False}, {True}):
                return Pair(right, _TURNED[operator], left)
    raise NotLocal(_DEPENDS)


def _sides(expr: Expr, own: set[int]) -> set[bool]:
    """Whether columns in it are of a subquery's own sources, of the row around it, or both."""
    return {column.source in own for column in columns_in([expr])}


def tells_null_from_false(block: Block, nested: Nested) -> bool:
    """Whether a subquery stands in a block where NULL and false make a difference: everywhere but in its conditions."""
    conditions = [
        *block.where,
        *block.having,
        *block.qualify,
        *(each for source in block.sources for each in source.on),
    ]
    values = [output.expr for output in block.outputs]
    values += [*(block.keys or ()), *(block.distinct or ()), *block.order]
    return any(_is_negated(condition, nested) for condition in conditions) or any(
        _is_part(nested, value) for value in values
    )


def _is_negated(condition: Expr, nested: Nested) -> bool:
    if condition == nested:
        return False
    if isinstance(condition, And | Or):
        return _is_negated(condition.left, nested) or _is_negated(condition.right, nested)
    return _is_part(nested, condition)


def _is_part(nested: Nested, expr: Expr) -> bool:
    return any(node == nested for node in walk(expr))
