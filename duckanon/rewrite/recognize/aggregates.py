"""Aggregates by keys: each column of a query as a key, or as one statistic of the records of one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeGuard

from duckanon.rewrite.algebra.aggregates import SHOWING
from duckanon.rewrite.algebra.constants import NotTotal, folded, type_name
from duckanon.rewrite.algebra.expressions import (
    Aggregate,
    Between,
    Case,
    Cast,
    Column,
    Comparison,
    Constant,
    Expr,
    Is,
    Nested,
    Not,
    Null,
    Star,
    Unclear,
    conjuncts,
    walk,
)
from duckanon.rewrite.algebra.order import in_order
from duckanon.rewrite.algebra.own_types import own_kind
from duckanon.rewrite.algebra.relations import Block, Source, Table, is_protected
from duckanon.rewrite.algebra.rows import is_clean, is_closed, watched
from duckanon.rewrite.algebra.sum_types import sum_type
from duckanon.rewrite.recognize.findings import Aggregates, Statistic, Unanswered
from duckanon.rewrite.recognize.measures import Measure, measure, share

_TOLD = "count, sum, avg, variance, stddev, median and quantiles"
# What is said of a condition with a subquery of protected records, without the way out.
ASKS_OTHERS = "A condition on single records cannot ask other protected records"
# The aggregates of numbers that can be answered with noise: DuckDB's names, and the name of the statistic.
_OF_NUMBERS = {
    **{name: name for name in ("avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")},
    "variance": "var_samp",
    "variance_samp": "var_samp",
    "variance_pop": "var_pop",
    "stddev": "stddev_samp",
}
# Counts of different values, by DuckDB's name and by sqlglot's.
_APPROXIMATE = ("approx_count_distinct", "approx_distinct")
# The positions of quantiles are whole thousandths: the ranks of records are multiplied by the denominator.
_FINEST_PLACE = 1000
SEVERAL = (
    "Statistics are of one protected table at a time: ask for those of each by itself; where the columns by which they "
    "are joined are public with domains, by these, and join the answers."
)
JOINED = (
    "Statistics are of one table: ask for them by themselves; where the columns by which it is joined are public with "
    "domains, by these, and join the answer."
)
_QUANTILES = {"quantile_cont", "quantile_disc", "percentile_cont", "percentile_disc", "quantile", "approx_quantile"}


def aggregates(block: Block) -> Aggregates | Unanswered | str:
    """The aggregates of a block, if each of its columns is a key or a statistic; else why not."""
    keys = block.keys
    if keys is None or block.spread or not is_closed(block):
        return "The query is no count, sum or other statistic by keys that is followed."
    unclear = _unclear((*keys, *block.where, *(output.expr for output in block.outputs)))
    if unclear is not None:
        return unclear
    if len(block.sources) != 1 or not isinstance(block.sources[0].relation, Table):
        return _several(block)
    statistics: list[Statistic] = []
    for output in block.outputs[len(keys) :]:
        statistic = _statistic(output.expr, block) if isinstance(output.expr, Aggregate) else None
        if statistic is None:
            return _unanswered(output.expr)
        statistics.append(statistic)
    return Aggregates(
        table=block.sources[0].relation.name,
        tables=watched(block),
        sources=block.sources,
        filter=_ranged(block.where),
        node=block.node,
        keys=keys,
        statistics=tuple(statistics),
    )


def _ranged(where: frozenset[Expr]) -> frozenset[Expr]:
    """Conditions with `a BETWEEN 1 AND 5` for `a >= 1` and `a <= 5`, so that both spellings are one question."""
    low, high = ({bound.left: bound for bound in in_order(where) if _is_bound(bound, sign)} for sign in (">=", "<="))
    both = [(low[column], high[column]) for column in low.keys() & high.keys()]
    ranges = (Between(least.left, least.right, most.right) for least, most in both)
    return where.difference(*both).union(ranges) if both else where


def _is_bound(condition: Expr, sign: str) -> TypeGuard[Comparison]:
    match condition:
        case Comparison(operator, Column(), Constant() | Cast(Constant())):
            return operator == sign
    return False


def _several(block: Block) -> str:
    """Why statistics of what a block reads are not answered."""
    if len(block.sources) > 1:
        if sum(is_protected(source.relation) for source in block.sources) > 1:
            return SEVERAL
        return JOINED
    return (
        "Statistics are of a protected table as it stands: what is read here is computed from its records in a way "
        "that is not followed, so ask for statistics of the table itself."
    )


def _unclear(exprs: Sequence[Expr]) -> str | None:
    """Why expressions that are computed from records are not followed; None if they are."""
    expressions = sorted((node for expr in exprs for node in walk(expr)), key=lambda node: type(node).__name__)
    queries = [expression.query for expression in expressions if isinstance(expression, Nested)]
    if any(map(is_protected, queries)):
        return ASKS_OTHERS
    if any(isinstance(query, Block) and not is_closed(query) for query in queries):
        return "A subquery that depends on the record around it is not followed: join the table that it reads."
    if queries:
        return "A subquery is not computed beside protected records: write its values out, or join what it reads."
    if any(isinstance(expression, Star) for expression in expressions):
        return "A whole record is no value here, and a table has no other columns than its own: name one of these."
    if any(isinstance(expression, Unclear) for expression in expressions) or not all(map(is_clean, exprs)):
        return "What this function does is not known here: write out what it computes."
    return None


def _unanswered(expr: Expr) -> Unanswered | str:
    """Why an aggregate has no answer with noise, and what may be asked instead."""
    if not isinstance(expr, Aggregate):
        return f"Told with noise are {_TOLD}: ask for one of these."
    names = [node.name for operand in expr.operands for node in walk(operand) if isinstance(node, Column)]
    columns = tuple(dict.fromkeys(reversed(names)))
    if expr.distinct:
        return Unanswered(
            "Different values are only counted, and of one column as it stands",
            columns,
            ("count(DISTINCT {})",),
            otherwise="ask for count(*)",
        )
    if expr.name in ("sum", *_OF_NUMBERS, "median", *_QUANTILES):
        return _of_computed(expr, columns)
    if expr.name in ("min", "max"):
        return Unanswered(
            f"{expr.name} shows the value of a single record",
            columns,
            (f"quantile_cont({{}}, {'0.01' if expr.name == 'min' else '0.99'})",),
            keys=("{}", "date_trunc('month', {})"),
            otherwise="quantiles are of numbers, dates and times with bounds, which the steward may declare",
        )
    if expr.name in SHOWING or expr.name in ("bool_or", "bool_and"):
        return f"This shows something of single records. Told with noise are {_TOLD}: ask for one of these."
    return f"Told with noise are {_TOLD}, and no other statistics: ask for one of these."


def _of_computed(expr: Aggregate, columns: tuple[str, ...]) -> Unanswered | str:
    """Why a statistic of numbers is not answered."""
    _, place = _quantile(expr)
    if expr.name in _QUANTILES and place is None:
        return "The place of a quantile is a constant number from 0 to 1."
    if expr.name in _QUANTILES:
        return "The place of a quantile is a number from 0 to 1 in thousandths: round it."
    subject = "A sum" if expr.name == "sum" else "This statistic"
    return Unanswered(
        f"{subject} is of what each record says by itself, not of other records in a window",
        columns,
        (f"{expr.name}({{}})",),
        otherwise="ask for it without the window",
    )


def _statistic(expr: Aggregate, block: Block) -> Statistic | None:
    (source,) = block.sources
    kinds = dict(source.relation.types) if isinstance(source.relation, Table) else {}
    statistic = _measured(expr, block.sources, _Plain(kinds))
    if statistic is None or not expr.operands:
        return statistic
    of = expr.operands[0]
    if expr.name == "sum":
        return replace(statistic, type=sum_type(of, kinds))
    if statistic.name == "quantile":
        return replace(statistic, type=type_name(of.type) if isinstance(of, Cast) else own_kind(of, kinds))
    return statistic


def _measured(expr: Aggregate, sources: tuple[Source, ...], plain: _Plain) -> Statistic | None:
    if expr.distinct or expr.name in _APPROXIMATE:
        return _different(expr)
    added = measure(expr, sources)
    if added is not None:
        return _added(added, plain)
    parts = share(expr, sources)
    if parts is not None:
        event, of = parts
        return Statistic("share", where=event.where | of.where, of=of.where, factor=event.scale)
    if expr.name in _OF_NUMBERS and expr.argument is not None:
        return _of_number(_OF_NUMBERS[expr.name], plain, expr.argument, expr.where)
    if expr.name == "median" and expr.argument is not None:
        return _of_number("quantile", plain, expr.argument, expr.where, Fraction(1, 2))
    if expr.name == "covar_pop" and len(expr.operands) == 2 and not expr.order:
        first, second = map(plain, expr.operands)
        return Statistic(expr.name, first, expr.where, second)
    operand, place = _quantile(expr)
    if expr.name not in _QUANTILES or operand is None or place is None:
        return None
    fine = 0 <= place <= 1 and place.denominator <= _FINEST_PLACE
    return _of_number("quantile", plain, operand, expr.where, place) if fine else None


def _different(expr: Aggregate) -> Statistic | None:
    """A count of different values of a column, also of those for which CASE has a condition."""
    argument, where = expr.argument, expr.where
    match argument:
        case Case(((condition, value),), Null()):
            argument, where = value, where | conjuncts(condition)
    counts = expr.name in ("count", *_APPROXIMATE) and not expr.order
    return Statistic("units", argument, where) if counts and isinstance(argument, Column) else None


def _quantile(expr: Aggregate) -> tuple[Expr | None, Fraction | None]:
    """What a quantile is of, and its place, if that is a constant."""
    match expr:
        case Aggregate(operands=(operand, place), order=()):
            return operand, _place(place)
        case Aggregate(operands=(operand, *_)):
            return operand, None
    return None, None


def _place(expr: Expr) -> Fraction | None:
    """The place of a quantile, if it is a constant number. A DOUBLE stands for the thousandths that it is."""
    try:
        constant = folded(expr)
    except NotTotal:
        return None
    if constant is None or not isinstance(constant.value, Fraction):
        return None
    near = constant.value.limit_denominator(_FINEST_PLACE)
    return near if constant.kind == "DOUBLE" and float(near) == float(constant.value) else constant.value


def _added(measured: Measure, plain: _Plain) -> Statistic:
    if measured.weight is None:
        return Statistic("records", where=measured.where, factor=measured.scale)
    return Statistic("sum", plain(measured.weight), measured.where, factor=measured.scale)


def _of_number(
    name: str, plain: _Plain, operand: Expr, where: frozenset[Expr], place: Fraction | None = None
) -> Statistic:
    inner = plain(operand)
    match inner:
        case Case(((condition, value),), Null()):
            where, inner = where | conjuncts(condition), plain(value)
    return Statistic(name, inner, where, place=place)


@dataclass(frozen=True)
class _Plain:
    """An expression without casts to wider numbers, which change nothing of a clamped number.

    types: of columns, by folded name. A cast of other than whole numbers to a whole number rounds it.
    """

    types: Mapping[str, str]

    def __call__(self, expr: Expr) -> Expr:
        while isinstance(expr, Cast) and self._changes_nothing(expr):
            expr = expr.operand
        return expr

    def _changes_nothing(self, cast: Cast) -> bool:
        kind = cast.type.upper()
        return kind == "DOUBLE" or (kind in _WIDE and own_kind(cast.operand, self.types) != "")


_WIDE = ("DOUBLE", "HUGEINT", "BIGINT")


def present_operand(where: frozenset[Expr]) -> Expr | None:
    """What is not NULL, if that is the only condition."""
    match tuple(where):
        case (Not(Is(operand, Null())),):
            while isinstance(operand, Cast) and operand.type.upper() in _WIDE:
                operand = operand.operand
            return operand
    return None
